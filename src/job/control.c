/* Agreements of the ranks on the host: see control.h. */
#include "job/control.h"
#include "base/clock.h"
#include "base/thread.h"

#include "base/table.h"
#include "job/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- over the rendezvous ---- */

/* One rendezvous serves all groups that were split from one opening. */
struct shared_rendezvous {
    struct aorta_rendezvous *rendezvous;
    int users;
};

struct group {
    struct shared_rendezvous *shared;
    int rank, size;
    double timeout_s;
    uint64_t id;             /* in its keys */
    unsigned splits, shares; /* so far */
};

static aorta_status group_make(const struct group *from, void **group) {
    struct group *made = malloc(sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    *made = *from;
    *group = made;
    return NULL;
}

static aorta_status open_rendezvous(const struct aorta_control_options *options, void **group) {
    struct aorta_rendezvous_options place;
    AORTA_TRY(aorta_rendezvous_find(&options->ranks, options->instance, options->timeout_s, &place));
    struct shared_rendezvous *shared = calloc(1, sizeof *shared);
    if (!shared) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the rendezvous");
    shared->users = 1;
    aorta_status status = aorta_rendezvous_open(&place, &shared->rendezvous);
    const struct group world = {.shared = shared,
                                .rank = options->ranks.rank,
                                .size = options->ranks.world_size,
                                .timeout_s = options->timeout_s};
    if (!status) status = group_make(&world, group);
    if (!status) return NULL;
    aorta_rendezvous_close(shared->rendezvous);
    free(shared);
    return status;
}

/* Every rank publishes its list and compares it with the lists of the ranks in it. */
static aorta_status agree_by_keys(const struct group *parent, unsigned number, const int *ranks, int count) {
    char key[AORTA_RENDEZVOUS_KEY];
    struct aorta_rendezvous *rendezvous = parent->shared->rendezvous;
    uint64_t own = aorta_ranks_hash(ranks, count), other;
    snprintf(key, sizeof key, "%016llx split %u rank %d", (unsigned long long)parent->id, number, parent->rank);
    AORTA_TRY(aorta_rendezvous_set(rendezvous, key, &own, sizeof own));
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%016llx split %u rank %d", (unsigned long long)parent->id, number, ranks[i]);
        aorta_status status = aorta_rendezvous_get(rendezvous, key, &other, sizeof other, parent->timeout_s);
        if (status)
            return aorta_annotate(status, "group of %d of %d ranks: rank %d waited for rank %d", count, parent->size,
                                  parent->rank, ranks[i]);
        if (other == own) continue;
        return AORTA_ERROR(AORTA_USAGE, "group of %d of %d ranks: rank %d passed another list of ranks than rank %d",
                           count, parent->size, ranks[i], parent->rank);
    }
    return NULL;
}

static aorta_status split_by_keys(void *user, const int *ranks, int count, void **group) {
    struct group *parent = user, made = *parent;
    const unsigned number = parent->splits++;
    *group = NULL;
    AORTA_TRY(agree_by_keys(parent, number, ranks, count));
    if (count == 0) return NULL;
    made.splits = made.shares = 0;
    made.size = count;
    for (int i = 0; i < count; i++)
        if (ranks[i] == parent->rank) made.rank = i;
    made.id = aorta_hash_add(aorta_hash_add(parent->id, number + 1), aorta_ranks_hash(ranks, count));
    AORTA_TRY(group_make(&made, group));
    made.shared->users++;
    return NULL;
}

static aorta_status share_by_key(void *user, void *data, size_t bytes) {
    struct group *group = user;
    char key[AORTA_RENDEZVOUS_KEY];
    snprintf(key, sizeof key, "%016llx share %u", (unsigned long long)group->id, group->shares++);
    if (group->rank == 0) return aorta_rendezvous_set(group->shared->rendezvous, key, data, bytes);
    return aorta_rendezvous_get(group->shared->rendezvous, key, data, bytes, group->timeout_s);
}

static int lost_by_connection(void *user) {
    struct group *group = user;
    return aorta_rendezvous_lost(group->shared->rendezvous);
}

static void close_rendezvous(void *user) {
    struct group *group = user;
    struct shared_rendezvous *shared = group->shared;
    free(group);
    if (--shared->users) return;
    aorta_rendezvous_close(shared->rendezvous);
    free(shared);
}

static const struct aorta_control_transport over_rendezvous = {open_rendezvous, split_by_keys, share_by_key,
                                                               lost_by_connection, close_rendezvous};

/* ---- all ---- */

struct aorta_control {
    const struct aorta_control_transport *transport; /* NULL: there is one rank */
    void *group;
};

static const struct aorta_control_transport *choose(const struct aorta_control_options *options) {
    const struct aorta_ranks *ranks = &options->ranks;
    if (ranks->world_size == 1) return NULL;
    return ranks->mpi && !(ranks->master_address[0] && ranks->master_port) ? options->mpi : &over_rendezvous;
}

/* Takes over `status`. Sets *control if there is no failure. */
static aorta_status finish(aorta_status status, struct aorta_control *made, struct aorta_control **control) {
    if (status)
        free(made);
    else
        *control = made;
    return status;
}

aorta_status aorta_control_open(const struct aorta_control_options *options, struct aorta_control **control) {
    *control = NULL;
    struct aorta_control *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    made->transport = choose(options);
    return finish(made->transport ? made->transport->open(options, &made->group) : NULL, made, control);
}

aorta_status aorta_control_split(struct aorta_control *parent, const int *ranks, int count,
                                 struct aorta_control **control) {
    *control = NULL;
    struct aorta_control *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    made->transport = parent->transport;
    aorta_status status = made->transport ? made->transport->split(parent->group, ranks, count, &made->group) : NULL;
    if (status || count > 0) return finish(status, made, control);
    free(made);
    return NULL;
}

aorta_status aorta_control_share(struct aorta_control *control, void *data, size_t bytes) {
    return control->transport ? control->transport->share(control->group, data, bytes) : NULL;
}

int aorta_control_lost(struct aorta_control *control) {
    return control->transport && control->transport->lost ? control->transport->lost(control->group) : -1;
}

void aorta_control_close(struct aorta_control *control) {
    if (!control) return;
    if (control->transport) control->transport->close(control->group);
    free(control);
}

/* ---- the end of a process that has met other ranks ---- */

#define ROUND_NS 100000000       /* between two heartbeats; over MPI the ready ranks wait that long */
#define READY_NS 10000000        /* the same of a ready rank over the rendezvous, for up to RANKS ranks */
#define RANKS 64                 /* more ranks ask less often, as rank 0 answers all of them */
#define LAST_INSTANCE UINT64_MAX /* no other opening has this number */

struct aorta_leave {
    const struct aorta_leave_mpi *mpi; /* NULL: over the rendezvous */
    void *group;                       /* over MPI: all ranks */
    struct aorta_ranks ranks;          /* over the rendezvous */
    struct aorta_rendezvous *rendezvous;
    double timeout_s;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ready;
    pthread_t thread;
    aorta_status status; /* why the ranks lost each other */
};

/* Whether this rank is ready, at once or after a while. */
static bool is_ready(struct aorta_leave *leave, int64_t wait_ns) {
    const int64_t until_ns = aorta_clock_ns() + wait_ns;
    pthread_mutex_lock(&leave->lock);
    while (!leave->ready && aorta_clock_ns() < until_ns) aorta_cond_wait_until(&leave->wake, &leave->lock, until_ns);
    bool ready = leave->ready;
    pthread_mutex_unlock(&leave->lock);
    return ready;
}

/* ---- over MPI ---- */

/* Repeats small exchanges until all ranks are ready. */
static aorta_status stay_by_mpi(struct aorta_leave *leave) {
    bool any = true;
    for (int64_t wait_ns = 0; any; wait_ns = ROUND_NS)
        AORTA_TRY(leave->mpi->any(leave->group, !is_ready(leave, wait_ns), &any));
    return NULL;
}

/* ---- over the rendezvous ---- */

static aorta_status stay_by_rendezvous(struct aorta_leave *leave) {
    struct aorta_rendezvous_options place;
    int state = AORTA_RENDEZVOUS_WAITS;
    const long again_ns = READY_NS * (1 + (long)(leave->ranks.world_size - 1) / RANKS);
    const struct timespec again = {.tv_nsec = again_ns < ROUND_NS ? again_ns : ROUND_NS};
    AORTA_TRY(aorta_rendezvous_find(&leave->ranks, LAST_INSTANCE, leave->timeout_s, &place));
    AORTA_TRY(aorta_rendezvous_open(&place, &leave->rendezvous));
    for (int64_t wait_ns = 0; state == AORTA_RENDEZVOUS_WAITS; wait_ns = ROUND_NS) {
        const bool ready = is_ready(leave, wait_ns);
        if (ready && wait_ns) nanosleep(&again, NULL);
        AORTA_TRY(aorta_rendezvous_beat(leave->rendezvous, ready, &state));
    }
    if (state == AORTA_RENDEZVOUS_READY) return NULL;
    /* Rank 0's store still has to answer the other ranks. */
    if (leave->ranks.rank == 0) nanosleep(&(struct timespec){.tv_nsec = 2 * ROUND_NS}, NULL);
    return AORTA_ERROR(AORTA_TIMEOUT, "rank %d waited %.1f s for rank %d", leave->ranks.rank, leave->timeout_s, state);
}

/* ---- both ---- */

static void *stay(void *argument) {
    struct aorta_leave *leave = argument;
    leave->status = leave->mpi ? stay_by_mpi(leave) : stay_by_rendezvous(leave);
    return NULL;
}

/* After a failure the process ends at once, and memory that other threads may still use stays. */
static aorta_status release(struct aorta_leave *leave, bool well) {
    const struct aorta_leave_mpi *mpi = leave->mpi;
    void *group = leave->group;
    if (!leave->status) aorta_rendezvous_close(leave->rendezvous);
    pthread_cond_destroy(&leave->wake);
    pthread_mutex_destroy(&leave->lock);
    free(leave);
    return group ? mpi->close(group, well) : NULL;
}

aorta_status aorta_leave_begin(const struct aorta_leave_options *options, struct aorta_leave **leave) {
    const struct aorta_ranks *met = options->met;
    *leave = NULL;
    if (!options->mpi && !(met && met->world_size > 1)) return NULL;
    struct aorta_leave *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the end of the ranks");
    made->mpi = options->mpi;
    made->timeout_s = options->timeout_s;
    if (met) made->ranks = *met;
    aorta_status status = made->mpi ? made->mpi->open(made->timeout_s, &made->group) : NULL;
    pthread_mutex_init(&made->lock, NULL);
    aorta_cond_init(&made->wake);
    int error = status ? 0 : aorta_thread_start(&made->thread, stay, made);
    if (error) status = AORTA_ERROR(AORTA_IO, "no thread for the end of the ranks: %s", strerror(error));
    if (status)
        status = aorta_status_join(status, release(made, false));
    else
        *leave = made;
    return aorta_annotate(status, "at the end of the run");
}

aorta_status aorta_leave_end(struct aorta_leave *leave) {
    if (!leave) return NULL;
    pthread_mutex_lock(&leave->lock);
    leave->ready = true;
    pthread_cond_signal(&leave->wake);
    pthread_mutex_unlock(&leave->lock);
    pthread_join(leave->thread, NULL);
    aorta_status status = leave->status;
    aorta_status closed = release(leave, !status);
    return status ? aorta_annotate(aorta_status_join(status, closed), "at the end of the run") : closed;
}
