/* The MPI backend: joining the other ranks, groups, and the kernel of a collective. */
#include "comm/backend.h"
#include "comm/mpi_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library ---- */

static const char library_name[] = "libmpi.so.40";

static const struct symbol {
    const char *name;
    size_t offset;
} symbols[] = {
#define FUNCTION(name) {"MPI_" #name, offsetof(struct mpi_api, name)},
#define HANDLE(member, type, symbol) {#symbol, offsetof(struct mpi_api, member)},
#include "comm/mpi.def"
#undef FUNCTION
#undef HANDLE
};

/* The name of a symbol that is missing, or NULL. */
static const char *fill(void *library, struct mpi_api *api) {
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) return symbols[i].name;
        memcpy((char *)api + symbols[i].offset, &address, sizeof address);
    }
    return NULL;
}

/* The library stays loaded: Open MPI does not survive being unloaded. RTLD_GLOBAL: its plugins search
 * for its symbols in the whole program. */
aorta_status mpi_load(struct mpi_api *api) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!library) {
        const char *reason = dlerror();
        return AORTA_ERROR(AORTA_UNSUPPORTED,
                           "collectives on host memory need Open MPI 4 or 5, which cannot be loaded (%s); Debian and "
                           "Ubuntu: apt install openmpi-bin",
                           reason ? reason : library_name);
    }
    const char *missing = fill(library, api);
    if (!missing) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "%s has no %s: it is not Open MPI 4 or 5", library_name, missing);
}

bool mpi_loaded(struct mpi_api *api) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return false;
    bool usable = fill(library, api) == NULL;
    dlclose(library);
    return usable;
}

#define ABORT_S 5.0

/* ---- calls that wait for the other ranks without end ---- */

static void run_call(void *argument) {
    struct mpi_call *call = argument;
    call->error = call->function(call);
}

aorta_status mpi_bounded(int (*function)(struct mpi_call *call), struct mpi_call *call, const char *name, int rank,
                         int size, double timeout_s) {
    call->function = function;
    int error = aorta_bounded(run_call, call, sizeof *call, timeout_s, NULL);
    if (error == ETIMEDOUT) return aorta_bounded_late(name, rank, size, timeout_s);
    if (error) return AORTA_ERROR(AORTA_IO, "%s: no thread: %s", name, strerror(error));
    return mpi_check(call->api, call->error, name);
}

static int start(struct mpi_call *call) {
    return call->api->Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &call->level);
}

static int duplicate(struct mpi_call *call) {
    return call->api->Comm_dup(call->comm, &call->made);
}

static int create(struct mpi_call *call) {
    return call->api->Comm_create_group(call->comm, call->members, 0, &call->made);
}

static int release(struct mpi_call *call) {
    return call->api->Comm_free(&call->comm);
}

/* ---- the process ---- */

bool mpi_joined(const struct mpi_api *api) {
    int begun = 0, ended = 0;
    api->Initialized(&begun);
    api->Finalized(&ended);
    return begun && !ended;
}

static aorta_status check_start(const struct aorta_ranks *ranks) {
    if (ranks->mpi) return NULL;
    const bool ours = ranks->launcher == AORTA_LAUNCH_AORTA;
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "rank %d of %d was started by %s%s, and collectives on host memory need it. "
                       "Start it with `aorta launch -n %d -- aorta …`%s or `mpirun -n %d aorta …`",
                       ranks->rank, ranks->world_size, aorta_launcher_name(ranks->launcher),
                       ours ? " without MPI" : ", which starts no MPI", ranks->local_world_size,
                       ours ? " (no --mpi never)" : "", ranks->world_size);
}

/* MPI keeps its state in the process; it is started once, by the first group. */
static aorta_status initialize(const struct mpi_api *api, const struct aorta_comm_options *options) {
    struct mpi_call call = {.api = api, .level = MPI_THREAD_SINGLE};
    int ended = 0;
    api->Finalized(&ended);
    if (ended) return AORTA_ERROR(AORTA_INTERNAL, "aorta_comm_open after aorta_comm_shutdown");
    if (mpi_joined(api))
        AORTA_TRY(mpi_check(api, api->Query_thread(&call.level), "MPI_Query_thread"));
    else
        AORTA_TRY(mpi_bounded(start, &call, "MPI_Init_thread", options->ranks.rank, options->ranks.world_size,
                              options->timeout_s));
    if (call.level >= MPI_THREAD_MULTIPLE) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "this MPI library gives thread level %d, and streams that communicate side by side need "
                       "MPI_THREAD_MULTIPLE (%d)",
                       call.level, MPI_THREAD_MULTIPLE);
}

static aorta_status join(const struct mpi_api *api, const struct aorta_comm_options *options) {
    const struct aorta_ranks *ranks = &options->ranks;
    AORTA_TRY(initialize(api, options));
    int rank = 0, size = 0;
    AORTA_TRY(mpi_check(api, api->Comm_rank(api->world, &rank), "MPI_Comm_rank"));
    AORTA_TRY(mpi_check(api, api->Comm_size(api->world, &size), "MPI_Comm_size"));
    if (rank == ranks->rank && size == ranks->world_size) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "MPI takes this process for rank %d of %d, the environment for rank %d of %d: are two launchers "
                       "at work, or is another MPI loaded than that of the mpirun that started it?",
                       rank, size, ranks->rank, ranks->world_size);
}

static int give_up(struct mpi_call *call) {
    return call->api->Abort(call->api->world, call->level);
}

void aorta_mpi_abort(int exit_code) {
    /* Under aorta launch the launcher sees the exit code and ends the other ranks; mpirun would end this one first. */
    const char *state = getenv("AORTA_STATE_DIR");
    struct mpi_api api;
    if ((state && *state) || !mpi_loaded(&api) || !mpi_joined(&api)) return;
    struct mpi_call call = {.api = &api, .level = exit_code};
    aorta_status_free(
        mpi_bounded(give_up, &call, "MPI_Abort", 0, 0, ABORT_S)); /* it asks mpirun, which may be stopped */
}

const char *aorta_comm_mpi_version(char *text, size_t capacity) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "not found";
    int length = 0;
    struct mpi_api api;
    aorta_status status = mpi_load(&api);
    if (!status && api.Get_library_version(version, &length) != MPI_SUCCESS) version[0] = '\0';
    aorta_status_free(status);
    version[strcspn(version, "\n")] = '\0';
    snprintf(text, capacity, "%s", version);
    return text;
}

/* ---- groups ---- */

/* If this fails, the communicator ends with the process. */
static void free_communicator(const struct mpi_group *group) {
    struct mpi_call call = {.api = &group->api, .comm = group->mpi};
    aorta_status_free(mpi_bounded(release, &call, "MPI_Comm_free", group->rank, group->size, group->timeout_s));
}

aorta_status mpi_group_begin(struct mpi_group *group, const struct mpi_api *api, MPI_Comm mpi, double timeout_s) {
    *group = (struct mpi_group){.api = *api, .mpi = mpi, .timeout_s = timeout_s};
    group->sends.api = group->receives.api = &group->api;
    AORTA_TRY(mpi_check(api, api->Comm_set_errhandler(mpi, api->errors_return), "MPI_Comm_set_errhandler"));
    AORTA_TRY(mpi_check(api, api->Comm_rank(mpi, &group->rank), "MPI_Comm_rank"));
    return mpi_check(api, api->Comm_size(mpi, &group->size), "MPI_Comm_size");
}

void mpi_group_free(struct mpi_group *group) {
    free(group->sends.items);
    free(group->receives.items);
    if (!group->failed) free(group->scratch);
    free(group);
}

static aorta_status open_beacon(struct mpi_group *group) {
    int world_rank;
    AORTA_TRY(mpi_check(&group->api, group->api.Comm_rank(group->api.world, &world_rank), "MPI_Comm_rank"));
    return aorta_beacon_open(world_rank, &group->beacon);
}

/* Takes over `mpi`, also on failure. */
static aorta_status make_group(const struct mpi_api *api, MPI_Comm mpi, double timeout_s, struct aorta_comm *comm) {
    struct mpi_group *group = malloc(sizeof *group);
    aorta_status status = group ? mpi_group_begin(group, api, mpi, timeout_s)
                                : AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    if (!status) status = open_beacon(group);
    if (status) {
        api->Comm_free(&mpi);
        free(group);
        return status;
    }
    comm->rank = group->rank;
    comm->size = group->size;
    comm->state = group;
    return NULL;
}

static aorta_status mpi_open(const struct aorta_comm_options *options, struct aorta_comm *comm) {
    struct mpi_api api;
    AORTA_TRY(check_start(&options->ranks));
    AORTA_TRY(mpi_load(&api));
    AORTA_TRY(join(&api, options));
    struct mpi_call call = {.api = &api, .comm = api.world};
    AORTA_TRY(mpi_bounded(duplicate, &call, "MPI_Comm_dup", options->ranks.rank, options->ranks.world_size,
                          options->timeout_s));
    return make_group(&api, call.made, options->timeout_s, comm);
}

static void mpi_close(struct aorta_comm *comm) {
    struct mpi_group *group = comm->state;
    aorta_beacon_close(group->beacon);
    /* After a failure freeing the communicator could wait for a dead rank; the process is about to end. */
    if (!group->failed && mpi_joined(&group->api)) free_communicator(group);
    mpi_group_free(group);
}

/* Every rank sends its list to all. Otherwise one rank's mistake would let the other ranks wait for ever. */
static aorta_status agree(struct mpi_group *parent, const int *ranks, int count, uint64_t own, uint64_t *all) {
    MPI_Request *request = mpi_request_add(&parent->receives);
    if (!request) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a request");
    const struct mpi_api *api = &parent->api;
    int error = api->Iallgather(&own, 1, api->uint64, all, 1, api->uint64, parent->mpi, request);
    AORTA_TRY(mpi_check(api, error, "MPI_Iallgather"));
    AORTA_TRY(mpi_wait(&parent->receives, parent->timeout_s));
    for (int i = 0; i < count; i++) {
        if (all[ranks[i]] == own) continue;
        return AORTA_ERROR(AORTA_USAGE, "rank %d passed another list of ranks than rank %d", ranks[i], parent->rank);
    }
    return NULL;
}

static aorta_status create_communicator(struct mpi_group *parent, const int *ranks, int count, MPI_Comm *mpi) {
    const struct mpi_api *api = &parent->api;
    struct mpi_call call = {.api = api, .comm = parent->mpi};
    MPI_Group all;
    AORTA_TRY(mpi_check(api, api->Comm_group(parent->mpi, &all), "MPI_Comm_group"));
    aorta_status status = mpi_check(api, api->Group_incl(all, count, ranks, &call.members), "MPI_Group_incl");
    api->Group_free(&all);
    if (status) return status;
    status = mpi_bounded(create, &call, "MPI_Comm_create_group", parent->rank, parent->size, parent->timeout_s);
    parent->failed = status != NULL;
    if (aorta_status_code(status) != AORTA_TIMEOUT) api->Group_free(&call.members); /* else it is still in use */
    *mpi = call.made;
    return status;
}

static aorta_status mpi_split(struct aorta_comm *parent_comm, const int *ranks, int count, struct aorta_comm *comm) {
    struct mpi_group *parent = parent_comm->state;
    uint64_t *all = calloc((size_t)parent->size, sizeof *all);
    if (!all) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the lists of %d ranks", parent->size);
    aorta_status status = agree(parent, ranks, count, aorta_ranks_hash(ranks, count), all);
    enum aorta_code code = aorta_status_code(status);
    if (code == AORTA_TIMEOUT || code == AORTA_COMM)
        parent->failed = true; // NOLINT(clang-analyzer-unix.Malloc): MPI may still write into `all`
    else
        free(all);
    MPI_Comm mpi = parent->api.world;
    if (!status && count > 0) status = create_communicator(parent, ranks, count, &mpi);
    if (status) return aorta_annotate(status, "group of %d of %d ranks: rank %d", count, parent->size, parent->rank);
    return count > 0 ? make_group(&parent->api, mpi, parent->timeout_s, comm) : NULL;
}

/* ---- on the stream ---- */

aorta_status aorta_mpi_kernel(const void *user) {
    const struct aorta_comm_work *work = user;
    return mpi_run(work->state, &work->call);
}

static void mpi_version(struct aorta_comm *comm, char *text, size_t capacity) {
    (void)comm;
    aorta_comm_mpi_version(text, capacity);
}

const struct aorta_comm_backend aorta_comm_mpi = {
    .name = "mpi",
    .simulated = false,
    .open = mpi_open,
    .split = mpi_split,
    .close = mpi_close,
    .version = mpi_version,
};
