/* The end of a process that has joined other ranks through MPI.
 *
 * MPI_Finalize waits for all ranks, however long one has still to do (rank 0's report), so its time says nothing. Until
 * every rank is ready, a thread of each takes part in one small all-reduce after the other: as long as these end in
 * time, all ranks are alive. */
#include "comm/mpi_group.h"

#include "base/clock.h"
#include "base/thread.h"

#if __has_include(<sanitizer/lsan_interface.h>)
#include <sanitizer/lsan_interface.h>
#endif
#include <stdlib.h>
#include <string.h>

#define ROUND_NS                                                                                                       \
    100000000 /* from one all-reduce to the next on a rank that is not ready; the ready ones wait for it               \
               */

struct aorta_comm_leave {
    struct mpi_group group; /* of all ranks */
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

static void *stay(void *argument) {
    struct aorta_comm_leave *leave = argument;
    int32_t own = 1, any = 1;
    const struct aorta_comm_call call = {.kind = AORTA_ALL_REDUCE,
                                         .dtype = AORTA_I32,
                                         .reduction = AORTA_MAX,
                                         .count = 1,
                                         .piece_count = 1,
                                         .pieces = {{&own, &any, 1}}};
    for (int64_t wait_ns = 0; any && !leave->status; wait_ns = ROUND_NS) {
        own = !is_ready(leave, wait_ns);
        leave->status = mpi_run(&leave->group, &call);
    }
    return NULL;
}

static void release(struct aorta_comm_leave *leave) {
    if (!leave->group.failed) free(leave->group.scratch); /* else MPI may still write into it */
    free(leave->group.sends.items);
    free(leave->group.receives.items);
    pthread_cond_destroy(&leave->wake);
    pthread_mutex_destroy(&leave->lock);
    free(leave);
}

aorta_status aorta_comm_leave_begin(double timeout_s, struct aorta_comm_leave **leave) {
    *leave = NULL;
    struct mpi_api api;
    if (!mpi_loaded(&api) || !mpi_joined(&api)) return NULL;
    struct aorta_comm_leave *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the end of MPI");
    made->group = (struct mpi_group){.api = api, .mpi = api.world, .timeout_s = timeout_s};
    made->group.sends.api = made->group.receives.api = &made->group.api;
    api.Comm_set_errhandler(api.world, api.errors_return);
    api.Comm_rank(api.world, &made->group.rank);
    api.Comm_size(api.world, &made->group.size);
    pthread_mutex_init(&made->lock, NULL);
    aorta_cond_init(&made->wake);
    int error = aorta_thread_start(&made->thread, stay, made);
    if (error) {
        release(made);
        return AORTA_ERROR(AORTA_IO, "no thread for the end of MPI: %s", strerror(error));
    }
    *leave = made;
    return NULL;
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
    const double timeout_s = leave->group.timeout_s;
    struct mpi_api api = leave->group.api;
    aorta_status status = leave->status;
    release(leave);
    if (status) return aorta_annotate(status, "at the end of the run");
    check_leaks();
    struct mpi_call call = {.api = &api};
    return mpi_bounded(finalize, &call, "MPI_Finalize", rank, size, timeout_s);
}

aorta_status aorta_comm_shutdown(double timeout_s) {
    struct aorta_comm_leave *leave;
    AORTA_TRY(aorta_comm_leave_begin(timeout_s, &leave));
    return aorta_comm_leave_end(leave);
}
