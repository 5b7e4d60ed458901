/* The end of a process that has met other ranks.
 *
 * How long a rank has still to do (rank 0's report) says nothing, so until every rank is ready a thread of each gives
 * signs of life. Over MPI, before MPI_Finalize, these are small all-reduces, one after the other. Else the ranks meet
 * once more at rank 0's store: what stops there is ended by nobody else under torchrun and srun. */
#include "comm/mpi_internal.h"
#include "job/rendezvous.h"

#include "base/clock.h"
#include "base/thread.h"

#if __has_include(<sanitizer/lsan_interface.h>)
#include <sanitizer/lsan_interface.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_NS 100000000      /* between two signs of life; over MPI the ready ranks wait for it */
#define LAST_MEETING UINT64_MAX /* no other has this number */

struct aorta_comm_leave {
    bool over_mpi;
    struct mpi_group group;   /* over MPI: all ranks */
    struct aorta_ranks ranks; /* over the rendezvous */
    struct aorta_rendezvous *rendezvous;
    double timeout_s;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ready;
    pthread_t thread;
    aorta_status status; /* why the ranks lost each other */
};

/* Whether this rank is ready, at once or after a while. */
static bool is_ready(struct aorta_comm_leave *leave, int64_t wait_ns) {
    const int64_t until_ns = aorta_clock_ns() + wait_ns;
    pthread_mutex_lock(&leave->lock);
    while (!leave->ready && aorta_clock_ns() < until_ns) aorta_cond_wait_until(&leave->wake, &leave->lock, until_ns);
    bool ready = leave->ready;
    pthread_mutex_unlock(&leave->lock);
    return ready;
}

/* ---- over MPI ---- */

static aorta_status stay_by_mpi(struct aorta_comm_leave *leave) {
    int32_t own = 1, any = 1;
    const struct aorta_comm_call call = {.kind = AORTA_ALL_REDUCE,
                                         .dtype = AORTA_I32,
                                         .reduction = AORTA_MAX,
                                         .count = 1,
                                         .piece_count = 1,
                                         .pieces = {{&own, &any, 1}}};
    for (int64_t wait_ns = 0; any; wait_ns = ROUND_NS) {
        own = !is_ready(leave, wait_ns);
        AORTA_TRY(mpi_run(&leave->group, &call));
    }
    return NULL;
}

/* ---- over the rendezvous ---- */

/* The sign that `rank` gives in this round; its value is whether it is ready. */
static const char *sign(char key[AORTA_RENDEZVOUS_KEY], int rank, int round) {
    snprintf(key, AORTA_RENDEZVOUS_KEY, "rank %d round %d", rank, round);
    return key;
}

/* The last of a rank, once it knows that all are ready. */
static const char *farewell(char key[AORTA_RENDEZVOUS_KEY], int rank) {
    snprintf(key, AORTA_RENDEZVOUS_KEY, "rank %d leaves", rank);
    return key;
}

static aorta_status read_sign(struct aorta_comm_leave *leave, int rank, const char *key, int32_t *value) {
    aorta_status status = aorta_rendezvous_get(leave->rendezvous, key, value, sizeof *value, leave->timeout_s);
    if (!status || aorta_status_code(status) != AORTA_TIMEOUT) return status;
    aorta_status_free(status);
    return AORTA_ERROR(AORTA_TIMEOUT, "rank 0 waited %.1f s for rank %d", leave->timeout_s, rank);
}

static aorta_status await_ready(struct aorta_comm_leave *leave, int rank) {
    char key[AORTA_RENDEZVOUS_KEY];
    int32_t ready = 0;
    for (int round = 0; !ready; round++) AORTA_TRY(read_sign(leave, rank, sign(key, rank, round), &ready));
    return NULL;
}

/* The others learn that all are ready, or which rank is not: -1, or its number. */
static aorta_status conclude(struct aorta_comm_leave *leave, int32_t missing) {
    AORTA_TRY(aorta_rendezvous_set(leave->rendezvous, "end", &missing, sizeof missing));
    (void)aorta_rendezvous_lost(leave->rendezvous); /* by its answer the others have theirs */
    return NULL;
}

static aorta_status stay_as_first(struct aorta_comm_leave *leave) {
    char key[AORTA_RENDEZVOUS_KEY];
    int32_t left;
    for (int rank = 1; rank < leave->ranks.world_size; rank++) {
        aorta_status status = await_ready(leave, rank);
        if (status) return aorta_status_join(status, conclude(leave, rank));
    }
    while (!is_ready(leave, ROUND_NS)) continue;
    AORTA_TRY(conclude(leave, -1));
    for (int rank = 1; rank < leave->ranks.world_size; rank++)
        AORTA_TRY(read_sign(leave, rank, farewell(key, rank), &left));
    return NULL;
}

/* Rank 0's store answers as long as its process runs. */
static aorta_status await_end(struct aorta_comm_leave *leave) {
    int32_t missing;
    for (;;) {
        aorta_status status =
            aorta_rendezvous_get(leave->rendezvous, "end", &missing, sizeof missing, leave->timeout_s);
        if (!status) break;
        if (aorta_status_code(status) != AORTA_TIMEOUT) return status;
        aorta_status_free(status);
    }
    if (missing < 0) return NULL;
    return AORTA_ERROR(AORTA_COMM, "rank 0 has given up waiting for rank %d", (int)missing);
}

static aorta_status stay_as_other(struct aorta_comm_leave *leave) {
    char key[AORTA_RENDEZVOUS_KEY];
    const int rank = leave->ranks.rank;
    int32_t ready = 0;
    for (int round = 0; !ready; round++) {
        ready = is_ready(leave, round ? ROUND_NS : 0);
        AORTA_TRY(aorta_rendezvous_set(leave->rendezvous, sign(key, rank, round), &ready, sizeof ready));
    }
    AORTA_TRY(await_end(leave));
    return aorta_rendezvous_set(leave->rendezvous, farewell(key, rank), &ready, sizeof ready);
}

static aorta_status stay_by_rendezvous(struct aorta_comm_leave *leave) {
    struct aorta_rendezvous_options place;
    AORTA_TRY(aorta_rendezvous_find(&leave->ranks, LAST_MEETING, leave->timeout_s, &place));
    AORTA_TRY(aorta_rendezvous_open(&place, &leave->rendezvous));
    return leave->ranks.rank == 0 ? stay_as_first(leave) : stay_as_other(leave);
}

/* ---- both ---- */

static void *stay(void *argument) {
    struct aorta_comm_leave *leave = argument;
    leave->status = leave->over_mpi ? stay_by_mpi(leave) : stay_by_rendezvous(leave);
    return NULL;
}

/* After a failure the process ends at once, and what others may still use stays. */
static void release(struct aorta_comm_leave *leave) {
    if (!leave->group.failed) free(leave->group.scratch); /* else MPI may still write into it */
    free(leave->group.sends.items);
    free(leave->group.receives.items);
    if (!leave->status) aorta_rendezvous_close(leave->rendezvous);
    pthread_cond_destroy(&leave->wake);
    pthread_mutex_destroy(&leave->lock);
    free(leave);
}

aorta_status aorta_comm_leave_begin(const struct aorta_ranks *met, double timeout_s, struct aorta_comm_leave **leave) {
    *leave = NULL;
    struct mpi_api api;
    const bool over_mpi = mpi_loaded(&api) && mpi_joined(&api);
    if (!over_mpi && !(met && met->world_size > 1)) return NULL;
    struct aorta_comm_leave *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the end of the ranks");
    made->over_mpi = over_mpi;
    made->timeout_s = timeout_s;
    if (met) made->ranks = *met;
    aorta_status status = over_mpi ? mpi_group_begin(&made->group, &api, api.world, timeout_s) : NULL;
    pthread_mutex_init(&made->lock, NULL);
    aorta_cond_init(&made->wake);
    int error = status ? 0 : aorta_thread_start(&made->thread, stay, made);
    if (error) status = AORTA_ERROR(AORTA_IO, "no thread for the end of the ranks: %s", strerror(error));
    if (status)
        release(made);
    else
        *leave = made;
    return aorta_annotate(status, "at the end of the run");
}

/* Open MPI unloads its parts in MPI_Finalize, and then the blocks they leave behind look like ours: builds
 * that check for leaks do so now. */
static void check_leaks(void) {
#if defined(__SANITIZE_ADDRESS__)
    __lsan_do_leak_check();
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    __lsan_do_leak_check();
#endif
#endif
}

static int finalize(struct mpi_call *call) {
    return call->api->Finalize();
}

aorta_status aorta_comm_leave_end(struct aorta_comm_leave *leave) {
    if (!leave) return NULL;
    pthread_mutex_lock(&leave->lock);
    leave->ready = true;
    pthread_cond_signal(&leave->wake);
    pthread_mutex_unlock(&leave->lock);
    pthread_join(leave->thread, NULL);
    const int rank = leave->group.rank, size = leave->group.size;
    const double timeout_s = leave->timeout_s;
    const bool over_mpi = leave->over_mpi;
    struct mpi_api api = leave->group.api;
    aorta_status status = leave->status;
    release(leave);
    if (status) return aorta_annotate(status, "at the end of the run");
    if (!over_mpi) return NULL;
    check_leaks();
    struct mpi_call call = {.api = &api};
    return mpi_bounded(finalize, &call, "MPI_Finalize", rank, size, timeout_s);
}

aorta_status aorta_comm_shutdown(const struct aorta_ranks *met, double timeout_s) {
    struct aorta_comm_leave *leave;
    AORTA_TRY(aorta_comm_leave_begin(met, timeout_s, &leave));
    return aorta_comm_leave_end(leave);
}
