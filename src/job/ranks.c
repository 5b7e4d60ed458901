/* This process's rank, as its environment says, and the environment that mpirun gets. */
#include "job/ranks.h"
#include "job/launch.h"

#include "base/table.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

/* The variables of each launcher. A contract applies when its `rank` or `size` variable is set; the first one is used.
 * torchrun's comes first because aorta launch sets it in addition to mpirun's own. */
struct contract {
    const char *rank, *size, *local_rank, *local_size;
    enum aorta_launcher launcher;
};

static const struct contract contracts[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", AORTA_LAUNCH_TORCHRUN},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     AORTA_LAUNCH_MPIRUN},
    /* Slurm before PMI: srun's PMI plugins set PMI_* as well. SLURM_NTASKS_PER_NODE exists only when asked for. */
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", AORTA_LAUNCH_SRUN},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", AORTA_LAUNCH_MPIRUN},
};

/* One of these means that MPI_Init finds the other ranks. */
static const char *const mpi_variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK", "PMI_FD",
                                            "PMIX_NAMESPACE"};

static const char *get(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static aorta_status read_integer(const char *name, long low, long high, int *out) {
    const char *text = get(name);
    if (!text)
        return AORTA_ERROR(AORTA_USAGE, "environment: %s is not set, but other variables are; set it, or unset them",
                           name);
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || end == text)
        return AORTA_ERROR(AORTA_USAGE, "environment: %s=%s is not a whole number", name, text);
    if (value < low || value > high)
        return AORTA_ERROR(AORTA_USAGE, "environment: %s=%s must be between %ld and %ld", name, text, low, high);
    *out = (int)value;
    return NULL;
}

static aorta_status read_optional(const char *name, long low, long high, int fallback, int *out) {
    *out = fallback;
    return get(name) ? read_integer(name, low, high, out) : NULL;
}

/* A job script's own shell has SLURM_NTASKS too; only srun numbers processes and steps. */
static bool holds(const struct contract *contract) {
    if (contract->launcher == AORTA_LAUNCH_SRUN) return get("SLURM_STEP_ID") && get(contract->rank);
    return get(contract->rank) || get(contract->size);
}

static aorta_status read_contract(const struct contract *contract, struct aorta_ranks *ranks) {
    AORTA_TRY(read_integer(contract->size, 1, INT_MAX, &ranks->world_size));
    AORTA_TRY(read_integer(contract->rank, 0, INT_MAX, &ranks->rank));
    if (ranks->rank >= ranks->world_size) {
        return AORTA_ERROR(AORTA_USAGE, "environment: %s=%d must be less than %s=%d", contract->rank, ranks->rank,
                           contract->size, ranks->world_size);
    }
    /* Without information on locality all ranks are assumed to be on this host. For Slurm the number is a limit.
     */
    const int most = contract->launcher == AORTA_LAUNCH_SRUN ? INT_MAX : ranks->world_size;
    AORTA_TRY(read_optional(contract->local_size, 1, most, ranks->world_size, &ranks->local_world_size));
    if (ranks->local_world_size > ranks->world_size) ranks->local_world_size = ranks->world_size;
    AORTA_TRY(
        read_optional(contract->local_rank, 0, INT_MAX, ranks->rank % ranks->local_world_size, &ranks->local_rank));
    if (ranks->local_rank < ranks->local_world_size) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "environment: %s=%d must be less than %s=%d", contract->local_rank,
                       ranks->local_rank, contract->local_size, ranks->local_world_size);
}

static bool started_by_mpi(void) {
    for (size_t i = 0; i < sizeof mpi_variables / sizeof *mpi_variables; i++)
        if (get(mpi_variables[i])) return true;
    return false;
}

static aorta_status read_master(struct aorta_ranks *ranks) {
    AORTA_TRY(read_optional("MASTER_PORT", 1, 65535, 0, &ranks->master_port));
    const char *address = get("MASTER_ADDR");
    if (!address) return NULL;
    size_t length = strlen(address);
    if (length >= sizeof ranks->master_address) {
        return AORTA_ERROR(AORTA_USAGE, "environment: MASTER_ADDR has %zu characters; at most %zu are allowed", length,
                           sizeof ranks->master_address - 1);
    }
    memcpy(ranks->master_address, address, length + 1);
    return NULL;
}

aorta_status aorta_ranks_detect(struct aorta_ranks *ranks) {
    *ranks = (struct aorta_ranks){.world_size = 1, .local_world_size = 1};
    AORTA_TRY(read_master(ranks));
    for (size_t i = 0; i < sizeof contracts / sizeof *contracts; i++) {
        if (!holds(&contracts[i])) continue;
        ranks->launcher = contracts[i].launcher;
        if (ranks->launcher == AORTA_LAUNCH_TORCHRUN && get("AORTA_STATE_DIR")) ranks->launcher = AORTA_LAUNCH_AORTA;
        ranks->mpi = started_by_mpi();
        return read_contract(&contracts[i], ranks);
    }
    return NULL;
}

const char *aorta_launcher_name(enum aorta_launcher launcher) {
    static const char *const names[] = {
        [AORTA_LAUNCH_NONE] = "none",     [AORTA_LAUNCH_AORTA] = "aorta launch", [AORTA_LAUNCH_TORCHRUN] = "torchrun",
        [AORTA_LAUNCH_MPIRUN] = "mpirun", [AORTA_LAUNCH_SRUN] = "srun",
    };
    return names[launcher];
}

uint64_t aorta_ranks_hash(const int *ranks, int count) {
    uint64_t hash = (uint64_t)count;
    for (int i = 0; i < count; i++) hash = aorta_hash_add(hash, (uint64_t)ranks[i]);
    return hash;
}

/* ---- mpirun ---- */

#define SHARED_MEMORY "/dev/shm" /* Open MPI's directory of shared memory */
#define SEGMENT_BYTES 4456448.0  /* 4 MiB and its header */

struct setting {
    const char *name, *value;
};

/* Open MPI reads its parameters from OMPI_MCA_*; `ompi_info --all` explains each. */
static const struct setting mpirun_settings[] = {
    {"OMPI_MCA_plm", "isolated"},                   /* this host only: no ssh, no batch system */
    {"OMPI_MCA_ras", "^slurm,gridengine,tm,lsf"},   /* a batch system's allocation is not ours to use */
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},     /* more ranks than cores are fine */
    {"OMPI_MCA_hwloc_base_binding_policy", "none"}, /* the streams of a rank need all its cores */
    {"OMPI_MCA_pml", "ob1"},                        /* no probing of network libraries, which warn when they */
    {"OMPI_MCA_btl", "self,vader"},                 /* find no hardware: shared memory is all we need */
    {"OMPI_MCA_odls_base_sigkill_timeout", "1"},    /* after a rank has ended, the other ranks can only wait for it */
    {"OMPI_MCA_orte_execute_quiet", "1"},           /* our launcher reports what happened */
    {"PMIX_MCA_gds", "hash"},                       /* version 5 leaves files of its own in TMPDIR when it is killed */
};

static const struct setting root_settings[] = {
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
};

static const char *const foreign_prefixes[] = {
    "OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess_", "PMIX_",       "PMI_",          "SLURM_PROCID",
    "SLURM_STEP",       "RANK=",          "LOCAL_RANK=",   "GROUP_RANK=", "TORCHELASTIC_", "AORTA_STATE_DIR=",
};

static void apply(const struct setting *settings, size_t count) {
    for (size_t i = 0; i < count; i++) setenv(settings[i].name, settings[i].value, 0);
}

static bool runnable(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

bool aorta_program_find(const char *name, char path[PATH_MAX]) {
    if (strchr(name, '/')) return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && runnable(path);
    const char *rest = getenv("PATH");
    while (rest && *rest) {
        int length = (int)strcspn(rest, ":");
        int printed = snprintf(path, PATH_MAX, "%.*s/%s", length, length ? rest : ".", name);
        if (printed < PATH_MAX && runnable(path)) return true;
        rest += length;
        if (*rest == ':') rest++;
    }
    return false;
}

bool aorta_mpirun_find(char path[PATH_MAX]) {
    return aorta_program_find("mpirun.openmpi", path) || aorta_program_find("mpirun", path);
}

/* Containers often forbid reading another process's memory; Open MPI then fails in the middle of a transfer. */
static bool memory_readable(void) {
    char from = 1, to = 0;
    struct iovec local = {&to, 1}, remote = {&from, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

bool aorta_mpirun_shared_memory(int ranks, struct aorta_temporary *directory) {
    struct statvfs info;
    const double needed = (double)ranks * SEGMENT_BYTES;
    if (statvfs(SHARED_MEMORY, &info) || (double)info.f_bavail * (double)info.f_frsize < needed) return false;
    aorta_status failed = aorta_temporary_make_in(SHARED_MEMORY, "aorta-launch-", directory);
    aorta_status_free(failed);
    return !failed;
}

void aorta_mpirun_environment(const char *directory, const char *shared) {
    setenv("OMPI_MCA_btl_vader_backing_directory", *shared ? shared : directory, 0);
    setenv("OMPI_MCA_orte_tmpdir_base", directory, 0); /* its files go with the directory, however it ends */
    if (!memory_readable()) setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    if (geteuid() == 0) apply(root_settings, sizeof root_settings / sizeof *root_settings);
    apply(mpirun_settings, sizeof mpirun_settings / sizeof *mpirun_settings);
}

static bool foreign(const char *entry) {
    for (size_t i = 0; i < sizeof foreign_prefixes / sizeof *foreign_prefixes; i++)
        if (!strncmp(entry, foreign_prefixes[i], strlen(foreign_prefixes[i]))) return true;
    return false;
}

void aorta_foreign_ranks_clear(void) {
    for (size_t i = 0; environ[i];) {
        size_t length = strcspn(environ[i], "=");
        char *name = foreign(environ[i]) ? strndup(environ[i], length) : NULL;
        if (name && unsetenv(name) == 0) { /* the later entries have moved up */
            free(name);
            continue;
        }
        free(name);
        i++;
    }
}
