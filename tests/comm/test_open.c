/* The backend chosen for each case, and the errors when there is none. */
#include "check.h"

#include "comm/comm.h"

static struct aorta_device *device;

static int setup(void **state) {
    (void)state;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    aorta_device_close(device);
    return 0;
}

static aorta_status open_as(const char *backend, int world_size, double timeout_s, struct aorta_comm **comm) {
    struct aorta_comm_options options = {.device = device,
                                         .backend = backend,
                                         .ranks = {.launcher = AORTA_LAUNCH_TORCHRUN,
                                                   .rank = world_size - 1,
                                                   .world_size = world_size,
                                                   .local_world_size = world_size},
                                         .timeout_s = timeout_s};
    return aorta_comm_open(&options, comm);
}

static void test_one_rank(void **state) {
    (void)state;
    static const char *const names[] = {"auto", "local", "mpi", "gloo", "nccl"};
    for (size_t i = 0; i < 5; i++) {
        struct aorta_comm *comm;
        check_ok(open_as(names[i], 1, 1, &comm));
        assert_string_equal(aorta_comm_backend(comm), "local");
        assert_true(aorta_comm_simulated(comm));
        assert_int_equal(aorta_comm_note(comm) != NULL, i >= 2); /* not the requested one: a note names the reason */
        aorta_comm_close(comm);
    }
}

static void test_refusals(void **state) {
    (void)state;
    struct aorta_comm *comm;
    check_fails(open_as("local", 2, 1, &comm), AORTA_CONFIG, "local serves one rank, and there are 2");
    check_fails(open_as("smoke", 1, 1, &comm), AORTA_CONFIG, "\"smoke\" is none of auto");
    check_fails(open_as("auto", 1, 0, &comm), AORTA_CONFIG, "distributed.timeout_s");
    assert_null(comm);
}

/* Under plain torchrun nothing joins the ranks: the message must name the two commands that do. */
static void test_torchrun(void **state) {
    (void)state;
    struct aorta_comm *comm;
    check_fails(open_as("auto", 2, 1, &comm), AORTA_UNSUPPORTED, "`aorta launch -n 2 -- aorta …`");
    check_fails(open_as("gloo", 4, 1, &comm), AORTA_UNSUPPORTED, "`mpirun -n 4 aorta …`");
    check_fails(open_as("mpi", 2, 1, &comm), AORTA_UNSUPPORTED, "torchrun, which starts no MPI");
}

/* `aorta launch --mpi never`: the message names the option that was typed. */
static void test_launch_without_mpi(void **state) {
    (void)state;
    struct aorta_comm *comm;
    const struct aorta_comm_options options = {
        .device = device,
        .backend = "mpi",
        .ranks = {.launcher = AORTA_LAUNCH_AORTA, .world_size = 2, .local_world_size = 2},
        .timeout_s = 1};
    check_fails(aorta_comm_open(&options, &comm), AORTA_UNSUPPORTED,
                "`aorta launch -n 2 -- aorta …` (no --mpi never) or");
}

static void test_mpi_version(void **state) {
    (void)state;
    char text[64], small[8];
    assert_string_equal(aorta_comm_mpi_version(text, sizeof text), text);
    assert_true(strlen(text) > 5);
    assert_null(strchr(text, '\n'));
    aorta_comm_mpi_version(small, sizeof small);
    assert_int_equal(strlen(small), 7);
}

static void test_close_nothing(void **state) {
    (void)state;
    aorta_comm_close(NULL);
    check_ok(aorta_comm_shutdown(NULL, 60)); /* MPI was never joined */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),    cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_torchrun),    cmocka_unit_test(test_launch_without_mpi),
        cmocka_unit_test(test_mpi_version), cmocka_unit_test(test_close_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
