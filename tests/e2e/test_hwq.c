/* aorta hwq as a user runs it, on the CPU device. */
#include "check.h"
#include "run.h"

static void expect(const char *words, int exit_code, const char *part) {
    struct e2e_run run = {0};
    e2e_start_command(&run, words);
    e2e_finish(&run);
    e2e_expect_output(&run, exit_code, part);
    e2e_free(&run);
}

static void expect_with_file(const char *format, const char *name, int exit_code, const char *part) {
    char words[1024];
    snprintf(words, sizeof words, format, e2e_workspace(), name, e2e_workspace(), name);
    expect(words, exit_code, part);
}

static void test_list_shows_the_workloads(void **state) {
    (void)state;
    expect("hwq list", 0, "tiny_kernel_stress");
    expect("hwq list --json", 0, "\"recommended_streams\": 16");
}

static void test_a_run_explains_itself_and_leaves_a_file(void **state) {
    (void)state;
    expect_with_file("hwq run tiny_kernel_stress --chains 3 --iterations 4 --device cpu --verify -o %s/%s", "one.json",
                     0, "verified    passed");
    expect_with_file("hwq compare --baseline %s/%s --test %s/%s", "one.json", 0, "tiny_kernel_stress");
    expect("hwq run hetero_kernels --size 32 --streams 4 --iterations 3 --gate --graph --device cpu", 0,
           "convoy_factor");
    expect("hwq run comms_compute_overlap --mm-dim 16 --comm-size 1K --iterations 3 --device cpu", 0, "simulated");
}

static void test_a_sweep_shows_scaling(void **state) {
    (void)state;
    expect_with_file("hwq sweep tiny_kernel_stress --chains 3 --streams 2,1 --iterations 4 --device cpu -o %s/%s",
                     "sweep.json", 0, "Highest throughput");
    expect_with_file("hwq compare --baseline %s/%s --test %s/%s", "sweep.json", 0, "tiny_kernel_stress");
}

static void test_ranks_really_communicate(void **state) {
    (void)state;
    expect("launch -n 2 -- " AORTA_PROGRAM
           " hwq run comms_compute_overlap --mm-dim 16 --comm-size 4K --iterations 3 --device cpu --verify "
           "--real-collectives --process-groups [0,1]",
           0, "busbw_alone");
}

static void test_mistakes_are_named(void **state) {
    (void)state;
    expect("hwq run tiny_kernel", 2, "did you mean \"tiny_kernel_stress\"");
    expect("hwq run", 2, "the workload comes first");
    expect("hwq run large_gemm_only --streams 17 --device cpu", 2, "runs on 1 to 16 streams");
    expect("hwq run tiny_kernel_stress --gate --sync-mode none --device cpu", 2, "--gate");
    expect("hwq run tiny_kernel_stress --backend mpi --device cpu", 2, "has no collectives");
    expect("hwq run tiny_kernel_stress --device tpu", 2, "tpu");
    expect("hwq run tiny_kernel_stress -o /proc/nowhere/x.json --device cpu", 2, "--output");
    expect("hwq run comms_compute_overlap --process-groups [0,1 --device cpu", 2, "--process-groups");
    expect("hwq run comms_compute_overlap --comm-size much --device cpu", 2, "--comm-size \"much\"");
    expect("hwq run-priority P9", 2, "is no group");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_shows_the_workloads), cmocka_unit_test(test_a_run_explains_itself_and_leaves_a_file),
        cmocka_unit_test(test_a_sweep_shows_scaling),    cmocka_unit_test(test_ranks_really_communicate),
        cmocka_unit_test(test_mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
