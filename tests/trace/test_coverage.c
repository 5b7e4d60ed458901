/* Records that are missing, and durations that cannot be:
 *
 *   host      [launch 1][launch 2][launch 3] ...       each second without a kernel
 *   stream 7  [gemm   ][gemm   ][gemm ...................  1.6 s, by its record: its stream's later work ended before
 *   stream 20     [all_reduce]    [all_reduce]
 */
#include "analysis/analysis.h"
#include "check.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "trace/trace.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

struct opened {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void open_sample(struct sample_kineto *sample, struct opened *opened) {
    *opened = (struct opened){0};
    sample_kineto_open(sample, &opened->list);
    check_ok(aorta_trace_analyze(&opened->list, NULL, &opened->analysis));
}

static void end(struct opened *opened) {
    aorta_trace_analysis_free(&opened->analysis);
    aorta_trace_list_free(&opened->list);
}

/* ---- launches without kernels ---- */

static void put_launch(struct sample_kineto *sample, double at_us) {
    char args[64];
    snprintf(args, sizeof args, "\"correlation\": %u", ++sample->correlation);
    sample_kineto_event(sample, "cuda_runtime", "cudaLaunchKernel", 1, at_us, 2, args);
}

static void check_launches(int with, int without, double share, bool thin) {
    struct sample_kineto sample;
    struct opened opened;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < with; i++) sample_kineto_kernel(&sample, "gemm", 7, 100 * i, 100 * i + 10, 50, "");
    for (int i = 0; i < without; i++) put_launch(&sample, 100 * i + 5);
    open_sample(&sample, &opened);
    const struct aorta_trace *trace = opened.list.items[0];
    assert_int_equal(trace->coverage.launches, with + without);
    assert_int_equal(trace->coverage.unanswered, without);
    assert_int_equal(trace->warnings[AORTA_REASON_NO_WORK].count, without);
    assert_true(fabs(aorta_trace_missing_share(trace) - share) < 1e-9);
    assert_int_equal(opened.analysis.thin == trace, thin);
    end(&opened);
}

/* Up to half may be missing: at least as much is recorded. */
static void launches_without_kernels_are_counted(void **state) {
    (void)state;
    check_launches(120, 0, 0, false);
    check_launches(60, 60, 0.5, false);
    check_launches(59, 61, 61.0 / 120, true);
}

/* A part of a recording: two launches whose kernels follow, and 20 kernels whose launches were before. */
static void kernels_without_launches_are_there(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct opened opened;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 20; i++)
        sample_kineto_event(&sample, "kernel", "gemm", 7, 100 * i, 60, "\"device\": 0, \"stream\": 7");
    put_launch(&sample, 5);
    put_launch(&sample, 105);
    open_sample(&sample, &opened);
    assert_int_equal(opened.list.items[0]->coverage.unanswered, 2);
    assert_null(opened.analysis.thin);
    end(&opened);
}

/* The device was not recorded: the operations of the host take its place, but not in a verdict. */
static void a_recording_without_its_device_is_thin(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct opened opened;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 20; i++) {
        sample_kineto_event(&sample, "cpu_op", "aten::mul", 1, 100 * i, 60, "\"External id\": 1");
        put_launch(&sample, 100 * i + 5);
    }
    open_sample(&sample, &opened);
    assert_true(opened.list.items[0]->host_only);
    assert_int_equal(opened.list.items[0]->coverage.unanswered, 20);
    assert_ptr_equal(opened.analysis.thin, opened.list.items[0]);
    end(&opened);
}

/* A program of the CPU launches nothing, and lacks nothing. */
static void a_program_of_the_host_is_whole(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct opened opened;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 20; i++) sample_kineto_event(&sample, "cpu_op", "aten::mul", 1, 100 * i, 60, "");
    open_sample(&sample, &opened);
    assert_true(opened.list.items[0]->host_only);
    assert_null(opened.analysis.thin);
    end(&opened);
}

/* Captured launches run nothing. A launch of the driver within a launch of the runtime is the same launch. */
static void captured_and_nested_launches_need_no_kernel(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct opened opened;
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_event(&sample, "cuda_runtime", "cudaStreamBeginCapture", 1, 0, 1, "\"correlation\": 901");
    for (int i = 0; i < 5; i++) put_launch(&sample, 10 + 10 * i);
    sample_kineto_event(&sample, "cuda_runtime", "cudaStreamEndCapture", 1, 90, 1, "\"correlation\": 902");
    sample_kineto_kernel(&sample, "gemm", 7, 200, 210, 50, "");
    sample_kineto_event(&sample, "cuda_driver", "cuLaunchKernel", 1, 200.5, 1, "\"correlation\": 903");
    open_sample(&sample, &opened);
    assert_int_equal(opened.list.items[0]->coverage.launches, 1);
    assert_int_equal(opened.list.items[0]->coverage.unanswered, 0);
    end(&opened);
}

/* ---- dispatches ---- */

/* Each fortieth of them, as in a thinned file; then all. */
static void dispatches_have_numbers(void **state) {
    (void)state;
    for (int apart = 1; apart <= 40; apart += 39) {
        char path[] = "/tmp/aorta_dispatches_XXXXXX";
        struct aorta_trace_list list = {0};
        const int file = mkstemp(path);
        assert_true(file >= 0);
        dprintf(file, "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Dispatch_Id\",\"Kernel_Name\",\"Correlation_Id\","
                      "\"Start_Timestamp\",\"End_Timestamp\"\n");
        for (int i = 0; i < 50; i++)
            dprintf(file, "\"KERNEL_DISPATCH\",\"Agent 1\",2,%d,\"k\",%d,%d,%d\n", 1 + apart * i, i + 1,
                    1000 * apart * i, 1000 * apart * i + 900);
        close(file);
        check_ok(aorta_trace_open(path, NULL, &list));
        unlink(path);
        const int lost = 49 * (apart - 1);
        assert_int_equal(list.items[0]->coverage.dispatches, 50);
        assert_int_equal(list.items[0]->coverage.lost, lost);
        assert_int_equal(list.items[0]->warnings[AORTA_REASON_LOST_DISPATCHES].count, lost);
        assert_int_equal(aorta_trace_is_too_thin(list.items[0]), lost > 0);
        aorta_trace_list_free(&list);
    }
}

/* ---- durations ---- */

enum { STEPS = 4, KERNELS = 10 };

/* Steps of 8 ms. Kernel 3 of step 1 takes `us`; a collective runs beside kernels 2 to 5. */
static void make_steps(struct sample_kineto *sample, double us) {
    char name[32];
    sample_kineto_begin(sample, 0, 2);
    for (int step = 0; step < STEPS; step++) {
        const double at = 8000 * step;
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        sample_kineto_event(sample, "user_annotation", name, 1, at, 7990, "");
        sample_kineto_kernel(sample, "ncclDevKernel_AllReduce", 20, at + 60, at + 1500, 3000, "");
        for (int i = 0; i < KERNELS; i++)
            sample_kineto_kernel(sample, i % 2 ? "gemm" : "norm", 7, at + 5 * i, at + 100 + 750 * i,
                                 step == 1 && i == 3 ? us : 750, "");
    }
}

static void an_impossible_duration_is_cut(void **state) {
    (void)state;
    struct sample_kineto samples[2];
    struct opened intact, broken;
    make_steps(&samples[0], 750);
    make_steps(&samples[1], 1600000);
    open_sample(&samples[0], &intact);
    open_sample(&samples[1], &broken);
    const struct aorta_trace_rank *a = &intact.analysis.ranks[0], *b = &broken.analysis.ranks[0];
    const struct aorta_trace_warning *warning = &b->trace->warnings[AORTA_REASON_IMPOSSIBLE_LENGTH];
    assert_int_equal(warning->count, 1);
    assert_string_equal(warning->about, "gemm, 1600 ms");
    assert_int_equal(a->trace->warnings[AORTA_REASON_IMPOSSIBLE_LENGTH].count, 0);
    assert_int_equal(b->trace->warnings[AORTA_REASON_SAME_STREAM_OVERLAP].count, 0);
    assert_memory_equal(&a->figures, &b->figures, sizeof a->figures);
    assert_memory_equal(&a->idle, &b->idle, sizeof a->idle);
    end(&intact);
    end(&broken);
}

/* Kernels may begin early (programmatic launches), and what a graph launched may run side by side. What one graph
 * launched, and copies of the host within its memory, are not even counted. */
static void what_can_be_stays(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct opened opened;
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_kernel(&sample, "early", 7, 0, 10, 100, "");
    sample_kineto_kernel(&sample, "next", 7, 5, 100, 100, "");
    sample_kineto_kernel(&sample, "branch", 8, 200, 210, 500, "\"graph node id\": 5");
    sample_kineto_kernel(&sample, "other", 8, 201, 220, 50, "\"graph node id\": 6");
    sample_kineto_kernel(&sample, "queued", 9, 800, 810, 500, "\"hsa_queue\": 1");
    sample_kineto_kernel(&sample, "beside", 9, 801, 820, 50, "\"hsa_queue\": 2");
    static const char of_graph[] = "\"stream\": 10, \"correlation\": 900, \"graph node id\": 7";
    sample_kineto_event(&sample, "kernel", "left", 10, 2000, 500, of_graph);
    sample_kineto_event(&sample, "kernel", "right", 10, 2100, 50, of_graph);
    sample_kineto_event(&sample, "gpu_memcpy", "Memcpy HtoH", 10, 2400, 200, "\"stream\": 10, \"correlation\": 901");
    open_sample(&sample, &opened);
    const struct aorta_trace *trace = opened.list.items[0];
    assert_int_equal(trace->warnings[AORTA_REASON_IMPOSSIBLE_LENGTH].count, 0);
    assert_int_equal(trace->warnings[AORTA_REASON_SAME_STREAM_OVERLAP].count, 3);
    assert_int_equal(trace->work[0].end_ns, 110000);
    end(&opened);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_without_kernels_are_counted),
        cmocka_unit_test(kernels_without_launches_are_there),
        cmocka_unit_test(a_recording_without_its_device_is_thin),
        cmocka_unit_test(a_program_of_the_host_is_whole),
        cmocka_unit_test(captured_and_nested_launches_need_no_kernel),
        cmocka_unit_test(dispatches_have_numbers),
        cmocka_unit_test(an_impossible_duration_is_cut),
        cmocka_unit_test(what_can_be_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
