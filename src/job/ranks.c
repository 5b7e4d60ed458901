/* Reads this process's rank from the environment. */
#include "job/ranks.h"

#include "base/hash.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

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
        return AORTA_ERROR(AORTA_USAGE, "environment: %s is not set, but the other variables of its launcher are",
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
    /* Without a word on locality all ranks are taken to be on this host. To Slurm the number is the most there may be.
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
