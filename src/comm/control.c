/* Agreements of the ranks on the host: see control.h. */
#include "comm/control.h"

#include "comm/mpi_internal.h"
#include "job/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>

struct transport {
    aorta_status (*open)(const struct aorta_comm_options *options, uint64_t instance, struct aorta_control *control);
    aorta_status (*split)(struct aorta_control *parent, const int *ranks, int count, struct aorta_control *control);
    aorta_status (*share)(struct aorta_control *control, void *data, size_t bytes);
    int (*lost)(struct aorta_control *control); /* NULL: not known */
    void (*close)(struct aorta_control *control);
};

/* One rendezvous serves all groups that were split from one opening. */
struct shared_rendezvous {
    struct aorta_rendezvous *rendezvous;
    int users;
};

struct aorta_control {
    const struct transport *transport; /* NULL: there is one rank */
    int rank, size;
    double timeout_s;
    struct aorta_comm mpi;            /* over MPI: a group on host memory */
    struct shared_rendezvous *shared; /* over the rendezvous */
    uint64_t group;                   /* names this group in its keys */
    unsigned splits, shares;          /* so far */
};

/* ---- over the rendezvous ---- */

static aorta_status meet(const struct aorta_comm_options *options, uint64_t instance, struct aorta_control *control) {
    struct aorta_rendezvous_options place;
    AORTA_TRY(aorta_rendezvous_find(&options->ranks, instance, options->timeout_s, &place));
    control->shared = calloc(1, sizeof *control->shared);
    if (!control->shared) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the rendezvous");
    control->shared->users = 1;
    aorta_status status = aorta_rendezvous_open(&place, &control->shared->rendezvous);
    if (status) free(control->shared);
    return status;
}

/* Every rank shows its list to all, and looks at those of the ranks it names. */
static aorta_status split_by_keys(struct aorta_control *parent, const int *ranks, int count,
                                  struct aorta_control *control) {
    char key[AORTA_RENDEZVOUS_KEY];
    struct aorta_rendezvous *rendezvous = parent->shared->rendezvous;
    uint64_t own = aorta_ranks_hash(ranks, count), other;
    unsigned number = parent->splits++;
    snprintf(key, sizeof key, "%016llx split %u rank %d", (unsigned long long)parent->group, number, parent->rank);
    AORTA_TRY(aorta_rendezvous_set(rendezvous, key, &own, sizeof own));
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%016llx split %u rank %d", (unsigned long long)parent->group, number, ranks[i]);
        aorta_status status = aorta_rendezvous_get(rendezvous, key, &other, sizeof other, parent->timeout_s);
        if (status)
            return aorta_annotate(status, "group of %d of %d ranks: rank %d waited for rank %d", count, parent->size,
                                  parent->rank, ranks[i]);
        if (other == own) continue;
        return AORTA_ERROR(AORTA_USAGE, "group of %d of %d ranks: rank %d passed another list of ranks than rank %d",
                           count, parent->size, ranks[i], parent->rank);
    }
    control->group = aorta_hash(aorta_hash(parent->group, number + 1), own);
    control->shared->users += count > 0;
    return NULL;
}

static aorta_status share_by_key(struct aorta_control *control, void *data, size_t bytes) {
    char key[AORTA_RENDEZVOUS_KEY];
    snprintf(key, sizeof key, "%016llx share %u", (unsigned long long)control->group, control->shares++);
    if (control->rank == 0) return aorta_rendezvous_set(control->shared->rendezvous, key, data, bytes);
    return aorta_rendezvous_get(control->shared->rendezvous, key, data, bytes, control->timeout_s);
}

static int lost_by_connection(struct aorta_control *control) {
    return aorta_rendezvous_lost(control->shared->rendezvous);
}

static void part(struct aorta_control *control) {
    if (--control->shared->users) return;
    aorta_rendezvous_close(control->shared->rendezvous);
    free(control->shared);
}

static const struct transport over_rendezvous = {meet, split_by_keys, share_by_key, lost_by_connection, part};

/* ---- over MPI ---- */

static aorta_status open_mpi(const struct aorta_comm_options *options, uint64_t instance,
                             struct aorta_control *control) {
    (void)instance;
    control->mpi = (struct aorta_comm){.backend = &aorta_comm_mpi, .timeout_s = options->timeout_s};
    return aorta_comm_mpi.open(options, &control->mpi);
}

static aorta_status split_mpi(struct aorta_control *parent, const int *ranks, int count,
                              struct aorta_control *control) {
    control->mpi = parent->mpi;
    control->mpi.state = NULL;
    return aorta_comm_mpi.split(&parent->mpi, ranks, count, &control->mpi);
}

static aorta_status share_mpi(struct aorta_control *control, void *data, size_t bytes) {
    const struct aorta_comm_call call = {
        .kind = AORTA_BROADCAST, .dtype = AORTA_U8, .count = bytes, .piece_count = 1, .pieces = {{data, data, bytes}}};
    return mpi_run(control->mpi.state, &call);
}

static void close_mpi(struct aorta_control *control) {
    aorta_comm_mpi.close(&control->mpi);
}

/* mpirun itself ends the job when a rank dies. */
static const struct transport over_mpi = {open_mpi, split_mpi, share_mpi, NULL, close_mpi};

/* ---- all ---- */

static const struct transport *choose(const struct aorta_ranks *ranks) {
    if (ranks->world_size == 1) return NULL;
    if (ranks->mpi && !(ranks->master_address[0] && ranks->master_port)) return &over_mpi;
    return &over_rendezvous;
}

aorta_status aorta_control_open(const struct aorta_comm_options *options, uint64_t instance,
                                struct aorta_control **control) {
    *control = NULL;
    struct aorta_control *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    made->transport = choose(&options->ranks);
    made->rank = options->ranks.rank;
    made->size = options->ranks.world_size;
    made->timeout_s = options->timeout_s;
    aorta_status status = made->transport ? made->transport->open(options, instance, made) : NULL;
    if (status)
        free(made);
    else
        *control = made;
    return status;
}

aorta_status aorta_control_split(struct aorta_control *parent, const int *ranks, int count,
                                 struct aorta_control **control) {
    *control = NULL;
    struct aorta_control *made = malloc(sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    *made = *parent;
    made->splits = made->shares = 0;
    made->size = count;
    for (int i = 0; i < count; i++) {
        if (ranks[i] == parent->rank) made->rank = i;
    }
    aorta_status status = made->transport ? made->transport->split(parent, ranks, count, made) : NULL;
    if (status || count == 0)
        free(made);
    else
        *control = made;
    return status;
}

aorta_status aorta_control_share(struct aorta_control *control, void *data, size_t bytes) {
    return control->transport ? control->transport->share(control, data, bytes) : NULL;
}

int aorta_control_lost(struct aorta_control *control) {
    return control->transport && control->transport->lost ? control->transport->lost(control) : -1;
}

void aorta_control_close(struct aorta_control *control) {
    if (!control) return;
    if (control->transport) control->transport->close(control);
    free(control);
}
