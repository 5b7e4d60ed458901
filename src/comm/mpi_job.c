/* MPI for the ranks of a job, except collectives on streams: small exchanges on the host (job/control.h), and the end
 * of the processes that it has joined (job/leave.h). */
#include "comm/mpi_internal.h"
#include "job/leave.h"

#if __has_include(<sanitizer/lsan_interface.h>)
#include <sanitizer/lsan_interface.h>
#endif
#include <stdlib.h>

/* ---- control ---- */

static aorta_status control_open(const struct aorta_control_options *options, void **group) {
    struct aorta_comm *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    *made = (struct aorta_comm){.backend = &aorta_comm_mpi, .timeout_s = options->timeout_s};
    const struct aorta_comm_options like = {.ranks = options->ranks, .timeout_s = options->timeout_s};
    aorta_status status = aorta_comm_mpi.open(&like, made);
    if (status)
        free(made);
    else
        *group = made;
    return status;
}

static aorta_status control_split(void *parent, const int *ranks, int count, void **group) {
    struct aorta_comm *made = malloc(sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    *made = *(struct aorta_comm *)parent;
    made->state = NULL;
    aorta_status status = aorta_comm_mpi.split(parent, ranks, count, made);
    *group = status || count == 0 ? NULL : made;
    if (!*group) free(made);
    return status;
}

static aorta_status control_share(void *group, void *data, size_t bytes) {
    const struct aorta_comm_call call = {
        .kind = AORTA_BROADCAST, .dtype = AORTA_U8, .count = bytes, .piece_count = 1, .pieces = {{data, data, bytes}}};
    return mpi_run(((struct aorta_comm *)group)->state, &call);
}

static void control_close(void *group) {
    aorta_comm_mpi.close(group);
    free(group);
}

/* mpirun itself ends the job when a rank dies. */
const struct aorta_control_transport aorta_control_over_mpi = {control_open, control_split, control_share, NULL,
                                                               control_close};

/* ---- the end ---- */

static aorta_status leave_open(double timeout_s, void **group) {
    struct mpi_api api;
    AORTA_TRY(mpi_load(&api));
    struct mpi_group *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the end of the ranks");
    aorta_status status = mpi_group_begin(made, &api, api.world, timeout_s);
    if (status)
        free(made);
    else
        *group = made;
    return status;
}

static aorta_status leave_any(void *group, bool own, bool *any) {
    int32_t mine = own, all = 0;
    const struct aorta_comm_call call = {.kind = AORTA_ALL_REDUCE,
                                         .dtype = AORTA_I32,
                                         .reduction = AORTA_MAX,
                                         .count = 1,
                                         .piece_count = 1,
                                         .pieces = {{&mine, &all, 1}}};
    AORTA_TRY(mpi_run(group, &call));
    *any = all;
    return NULL;
}

/* Open MPI unloads its parts in MPI_Finalize, and its unfreed blocks then look like ours. So builds that check for
 * leaks do it now. */
static void check_leaks(void) {
#if defined(__SANITIZE_ADDRESS__)
    __lsan_do_leak_check();
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    __lsan_do_leak_check();
#endif
#endif
}

static int finalize_mpi(struct mpi_call *call) {
    return call->api->Finalize();
}

static aorta_status leave_close(void *user, bool finalize) {
    struct mpi_group *group = user;
    const int rank = group->rank, size = group->size;
    const double timeout_s = group->timeout_s;
    struct mpi_api api = group->api;
    if (!group->failed) free(group->scratch); /* else MPI may still write into it */
    free(group->sends.items);
    free(group->receives.items);
    free(group);
    if (!finalize) return NULL;
    check_leaks();
    struct mpi_call call = {.api = &api};
    return mpi_bounded(finalize_mpi, &call, "MPI_Finalize", rank, size, timeout_s);
}

static const struct aorta_leave_mpi leave_over_mpi = {leave_open, leave_any, leave_close};

aorta_status aorta_comm_leave_begin(const struct aorta_ranks *met, double timeout_s, struct aorta_leave **leave) {
    struct mpi_api api;
    const bool joined = mpi_loaded(&api) && mpi_joined(&api);
    const struct aorta_leave_options options = {
        .met = met, .timeout_s = timeout_s, .mpi = joined ? &leave_over_mpi : NULL};
    return aorta_leave_begin(&options, leave);
}

aorta_status aorta_comm_shutdown(const struct aorta_ranks *met, double timeout_s) {
    struct aorta_leave *leave;
    AORTA_TRY(aorta_comm_leave_begin(met, timeout_s, &leave));
    return aorta_leave_end(leave);
}
