#include "check.h"

#include "job/ranks.h"

#include <stdlib.h>

static const char *const variables[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "AORTA_STATE_DIR",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_FD",
    "OMPI_COMM_WORLD_SIZE",
    "PMIX_RANK",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
    "SLURM_STEP_ID",
    "MPI_LOCALRANKID",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
    "MPI_LOCALNRANKS",
    "SLURM_NTASKS_PER_NODE",
};

static int clear(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
    return 0;
}

/* "A=1 B=2" into the environment. */
static void set(const char *text) {
    char copy[512];
    snprintf(copy, sizeof copy, "%s", text);
    char *rest = copy;
    for (char *word; (word = strsep(&rest, " "));) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        setenv(word, equals + 1, 1);
    }
}

struct expectation {
    const char *environment;
    enum aorta_launcher launcher;
    int rank, world_size, local_rank, local_world_size;
    bool mpi;
};

static const struct expectation expectations[] = {
    {"RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", AORTA_LAUNCH_TORCHRUN, 3, 8, 1, 2, false},
    {"RANK=1 WORLD_SIZE=2", AORTA_LAUNCH_TORCHRUN, 1, 2, 1, 2, false},
    {"RANK=1 WORLD_SIZE=2 AORTA_STATE_DIR=/x", AORTA_LAUNCH_AORTA, 1, 2, 1, 2, false},
    {"RANK=1 WORLD_SIZE=2 AORTA_STATE_DIR=/x OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", AORTA_LAUNCH_AORTA, 1, 2,
     1, 2, true},
    {"OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=6 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2",
     AORTA_LAUNCH_MPIRUN, 5, 6, 1, 2, true},
    {"PMI_RANK=1 PMI_SIZE=4", AORTA_LAUNCH_MPIRUN, 1, 4, 1, 4, true},
    {"SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_STEP_ID=0 SLURM_NTASKS_PER_NODE=2", AORTA_LAUNCH_SRUN, 2, 4,
     0, 2, false},
    {"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_STEP_ID=0 SLURM_NTASKS_PER_NODE=8", AORTA_LAUNCH_SRUN, 1, 2,
     1, 2, false}, /* the most that a node may have, of a job script for more */
    {"SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_LOCALID=2 SLURM_STEP_ID=0 PMIX_RANK=2", AORTA_LAUNCH_SRUN, 2, 4, 2, 4, true},
    {"SLURM_PROCID=0 SLURM_NTASKS=4", AORTA_LAUNCH_NONE, 0, 1, 0, 1, false}, /* a batch script's own shell */
};

static void test_contracts(void **state) {
    for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++) {
        const struct expectation *expected = &expectations[i];
        struct aorta_ranks ranks;
        clear(state);
        set(expected->environment);
        check_ok(aorta_ranks_detect(&ranks));
        assert_int_equal(ranks.launcher, expected->launcher);
        assert_int_equal(ranks.rank, expected->rank);
        assert_int_equal(ranks.world_size, expected->world_size);
        assert_int_equal(ranks.local_rank, expected->local_rank);
        assert_int_equal(ranks.local_world_size, expected->local_world_size);
        assert_int_equal(ranks.mpi, expected->mpi);
    }
}

static void test_alone(void **state) {
    (void)state;
    struct aorta_ranks ranks;
    check_ok(aorta_ranks_detect(&ranks));
    assert_int_equal(ranks.launcher, AORTA_LAUNCH_NONE);
    assert_int_equal(ranks.world_size, 1);
    assert_int_equal(ranks.master_port, 0);
    assert_string_equal(ranks.master_address, "");
}

static void test_master(void **state) {
    (void)state;
    struct aorta_ranks ranks;
    set("RANK=0 WORLD_SIZE=1 MASTER_ADDR=node7 MASTER_PORT=29500");
    check_ok(aorta_ranks_detect(&ranks));
    assert_string_equal(ranks.master_address, "node7");
    assert_int_equal(ranks.master_port, 29500);
}

static const struct {
    const char *environment, *message;
} mistakes[] = {
    {"RANK=one WORLD_SIZE=2", "RANK=one is not a whole number"},
    {"RANK=1 WORLD_SIZE=2x", "WORLD_SIZE=2x is not a whole number"},
    {"RANK=1", "WORLD_SIZE is not set, but other variables are; set it, or unset them"},
    {"WORLD_SIZE=2", "RANK is not set"},
    {"RANK=2 WORLD_SIZE=2", "RANK=2 must be less than WORLD_SIZE=2"},
    {"RANK=-1 WORLD_SIZE=2", "RANK=-1 must be between"},
    {"RANK=0 WORLD_SIZE=0", "WORLD_SIZE=0 must be between"},
    {"RANK=0 WORLD_SIZE=99999999999", "WORLD_SIZE=99999999999"},
    {"RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=3", "LOCAL_WORLD_SIZE=3 must be between 1 and 2"},
    {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", "LOCAL_RANK=2 must be less than"},
    {"RANK=0 WORLD_SIZE=1 MASTER_PORT=http", "MASTER_PORT=http is not a whole number"},
    {"RANK=0 WORLD_SIZE=1 MASTER_PORT=70000", "MASTER_PORT=70000 must be between"},
    {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE is not set"},
    {"SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_NTASKS=many", "SLURM_NTASKS=many is not a whole number"},
};

static void test_mistakes(void **state) {
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct aorta_ranks ranks;
        clear(state);
        set(mistakes[i].environment);
        check_fails(aorta_ranks_detect(&ranks), AORTA_USAGE, mistakes[i].message);
    }
}

static void test_long_address(void **state) {
    (void)state;
    char address[400];
    memset(address, 'a', sizeof address - 1);
    address[sizeof address - 1] = '\0';
    setenv("MASTER_ADDR", address, 1);
    struct aorta_ranks ranks;
    check_fails(aorta_ranks_detect(&ranks), AORTA_USAGE, "MASTER_ADDR has 399 characters");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_contracts, clear),    cmocka_unit_test_setup(test_alone, clear),
        cmocka_unit_test_setup(test_master, clear),       cmocka_unit_test_setup(test_mistakes, clear),
        cmocka_unit_test_setup(test_long_address, clear),
    };
    return cmocka_run_group_tests(tests, NULL, clear);
}
