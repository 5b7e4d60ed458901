/* The GPU driver on the fake CUDA: kernels that tell themselves when they have begun and ended, and where a capture is.
 */
#include "device/gpu_rig.h"

enum { ROWS = 192 };

static void begin_capture(struct stamp_rig *rig) {
    check_ok(aorta_capture_begin(rig->a));
    control()->strike("cuLaunchKernel", 0, 0, 0);
}

/* Launches made in the capture. */
static int end_capture(struct stamp_rig *rig, struct aorta_graph **graph) {
    check_ok(aorta_capture_end(rig->a, graph));
    return control()->calls();
}

static void replay(struct stamp_rig *rig, struct aorta_graph *graph) {
    check_ok(aorta_graph_launch(graph, rig->a));
    check_ok(aorta_stream_synchronize(rig->a));
}

/* ---- who tells ---- */

/* No kernel is launched for a stamp, but one at the end for all; every replay tells anew, and the arguments stay. */
static void test_a_kernel_tells_its_end(void **state) {
    (void)state;
    struct stamp_rig rig = open_stamp_rig();
    struct aorta_graph *graph;
    int64_t sum = 0, *s = rig.slots;
    begin_capture(&rig);
    check_ok(nap(rig.a, 3000000));
    check_ok(aorta_timestamp_aside(rig.a, &s[0]));
    check_ok(queue_telling_add(rig.a, &sum, 5));
    check_ok(aorta_timestamp_aside(rig.a, &s[1]));
    check_ok(nap(rig.a, 2000000));
    check_ok(aorta_timestamp_aside(rig.a, &s[2]));
    assert_int_equal(end_capture(&rig, &graph), 3 + 1);
    assert_int_equal(aorta_graph_node_count(graph), 3 + 1);
    for (int run = 1; run <= 3; run++) {
        memset(s, 0, 3 * sizeof *s);
        const int64_t before = aorta_device_now_ns(rig.device);
        replay(&rig, graph);
        const int64_t after = aorta_device_now_ns(rig.device), error = aorta_device_clock_error_ns(rig.device);
        assert_int_equal(sum, 5 * run);
        assert_true(s[0] >= before + 3000000 - error);
        assert_true(s[1] >= s[0] && s[2] >= s[1] + 1999000);
        assert_true(s[2] <= after + error);
    }
    aorta_graph_destroy(graph);
    close_stamp_rig(&rig);
}

/* At its launch; a command that cannot has a stamp of when the stream came to it, as has none at all. A wait is no
 * command. */
static void test_a_kernel_tells_its_beginning(void **state) {
    (void)state;
    struct stamp_rig rig = open_stamp_rig();
    struct aorta_graph *graph;
    int64_t sum = 0, *s = rig.slots;
    check_ok(aorta_timestamp_next(rig.a, &s[9])); /* of no capture */
    check_ok(aorta_stream_synchronize(rig.a));
    assert_true(s[9] != 0);
    begin_capture(&rig);
    check_ok(nap(rig.a, 1000000));
    check_ok(aorta_timestamp_aside(rig.a, &s[0]));
    check_ok(aorta_event_record(rig.fork, rig.a));
    check_ok(aorta_stream_wait(rig.b, rig.fork));
    check_ok(nap(rig.b, 3000000));
    check_ok(aorta_timestamp_aside(rig.b, &s[1]));
    check_ok(aorta_event_record(rig.join, rig.b));
    check_ok(aorta_timestamp_next(rig.a, &s[2]));
    check_ok(aorta_stream_wait(rig.a, rig.join));
    check_ok(nap(rig.a, 2000000));
    check_ok(aorta_timestamp_aside(rig.a, &s[3]));
    assert_int_equal(control()->calls(), 3);
    check_ok(aorta_timestamp_next(rig.a, &s[4]));
    check_ok(queue_add(rig.a, &sum, 1));
    check_ok(aorta_timestamp_next(rig.a, &s[5]));
    check_ok(aorta_copy(rig.a, &s[10], &s[11], sizeof s[10]));
    check_ok(aorta_timestamp_next(rig.a, &s[6]));
    check_ok(aorta_timestamp_next(rig.a, &s[7]));
    check_ok(queue_telling_add(rig.a, &sum, 1));
    check_ok(aorta_timestamp_next(rig.a, &s[8]));
    check_ok(aorta_timestamp_aside(rig.a, &s[9]));
    check_ok(aorta_timestamp_next(rig.a, &s[12]));
    assert_int_equal(end_capture(&rig, &graph), 5 + 5 + 1);
    for (int run = 1; run <= 2; run++) {
        memset(s, 0, 10 * sizeof *s);
        s[12] = 0;
        replay(&rig, graph);
        for (int i = 0; i < 10; i++) assert_true(s[i] != 0);
        assert_true(s[1] >= s[0] + 2999000 && s[2] >= s[1] && s[3] >= s[2] + 1999000);
        assert_true(s[4] >= s[3] && s[9] >= s[7] && s[12] >= s[7]);
        assert_int_equal(sum, 2 * run);
    }
    aorta_graph_destroy(graph);
    close_stamp_rig(&rig);
}

/* Asked again, before and after other streams came behind it. */
static void test_one_kernel_is_asked_by_several(void **state) {
    (void)state;
    struct stamp_rig rig = open_stamp_rig();
    struct aorta_graph *graph;
    int64_t *s = rig.slots;
    begin_capture(&rig);
    check_ok(nap(rig.a, 1000000));
    check_ok(aorta_timestamp_aside(rig.a, &s[0]));
    check_ok(aorta_timestamp_aside(rig.a, &s[1]));
    check_ok(aorta_event_record(rig.fork, rig.a));
    check_ok(aorta_stream_wait(rig.b, rig.fork));
    check_ok(aorta_timestamp_aside(rig.b, &s[2]));
    check_ok(nap(rig.b, 1000000));
    check_ok(aorta_timestamp_aside(rig.b, &s[3]));
    check_ok(aorta_event_record(rig.join, rig.b));
    check_ok(aorta_stream_wait(rig.a, rig.join));
    assert_int_equal(end_capture(&rig, &graph), 2 + 1);
    replay(&rig, graph);
    assert_true(s[0] != 0 && s[0] == s[1] && s[0] == s[2]);
    assert_true(s[3] >= s[0] + 999000);
    aorta_graph_destroy(graph);
    close_stamp_rig(&rig);
}

/* A stamp that is waited for, one behind two kernels, behind a copy, behind a kernel that cannot tell, and behind
 * nothing has a kernel of its own. */
static void test_other_stamps_have_their_own_kernels(void **state) {
    (void)state;
    struct stamp_rig rig = open_stamp_rig();
    struct aorta_graph *graph;
    int64_t sum = 0, *s = rig.slots;
    begin_capture(&rig);
    check_ok(aorta_timestamp_aside(rig.a, &s[0]));
    check_ok(nap(rig.a, 1000));
    check_ok(aorta_timestamp(rig.a, &s[1]));
    check_ok(aorta_event_record(rig.fork, rig.a));
    check_ok(aorta_stream_wait(rig.b, rig.fork));
    check_ok(nap(rig.a, 1000));
    check_ok(nap(rig.b, 2000000));
    check_ok(aorta_event_record(rig.join, rig.b));
    check_ok(aorta_stream_wait(rig.a, rig.join));
    check_ok(aorta_timestamp_aside(rig.a, &s[2]));
    check_ok(queue_add(rig.a, &sum, 1));
    check_ok(aorta_timestamp_aside(rig.a, &s[3]));
    check_ok(aorta_copy(rig.a, &s[10], &s[11], sizeof s[10]));
    check_ok(aorta_timestamp_aside(rig.a, &s[4]));
    check_ok(aorta_host_call(rig.a, no_failure, NULL));
    assert_int_equal(end_capture(&rig, &graph), 4 + 5 + 1);
    replay(&rig, graph);
    for (int i = 0; i < 5; i++) assert_true(s[i] != 0);
    assert_true(s[2] >= s[1] + 1999000);
    aorta_graph_destroy(graph);
    close_stamp_rig(&rig);
}

/* What cannot be set, read or kept costs a kernel, not the stamp. */
static void test_a_kernel_that_cannot_be_asked(void **state) {
    (void)state;
    static const char *const symbols[] = {"cuGraphKernelNodeSetParams_v2", "cuGraphKernelNodeGetParams_v2",
                                          "cuStreamGetCaptureInfo_v3", "cuGraphNodeGetType", "cuMemAlloc_v2"};
    struct stamp_rig rig = open_stamp_rig();
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        struct aorta_graph *graph;
        rig.slots[0] = 0;
        check_ok(aorta_capture_begin(rig.a));
        check_ok(nap(rig.a, 1000));
        control()->strike(symbols[i], 1, 1, 1);
        check_ok(aorta_timestamp_aside(rig.a, &rig.slots[0]));
        check_ok(nap(rig.a, 1000));
        assert_true(control()->calls() > 0);
        control()->strike(NULL, 0, 0, 0);
        check_ok(aorta_capture_end(rig.a, &graph));
        replay(&rig, graph);
        assert_true(rig.slots[0] != 0);
        aorta_graph_destroy(graph);
    }
    close_stamp_rig(&rig);
}

/* More than one kernel turns into times, and more than one piece of memory holds. */
static void test_many_ends(void **state) {
    (void)state;
    struct stamp_rig rig = open_stamp_rig();
    struct aorta_graph *graph;
    begin_capture(&rig);
    for (int i = 0; i < STAMP_SLOTS; i++) {
        check_ok(nap(rig.a, 1));
        check_ok(aorta_timestamp_aside(rig.a, &rig.slots[i]));
    }
    assert_int_equal(end_capture(&rig, &graph), STAMP_SLOTS + (STAMP_SLOTS + ROWS - 1) / ROWS);
    replay(&rig, graph);
    for (int i = 1; i < STAMP_SLOTS; i++) assert_true(rig.slots[i - 1] != 0 && rig.slots[i - 1] <= rig.slots[i]);
    aorta_graph_destroy(graph);
    close_stamp_rig(&rig);
}

/* A capture that is dropped, or only looked at, leaves nothing behind. */
static void test_a_capture_without_a_graph(void **state) {
    (void)state;
    struct stamp_rig rig = open_stamp_rig();
    struct aorta_footprint footprint;
    struct aorta_graph *graph;
    check_ok(aorta_capture_begin(rig.a));
    check_ok(nap(rig.a, 1));
    check_ok(aorta_timestamp_aside(rig.a, &rig.slots[0]));
    check_ok(aorta_capture_footprint(rig.a, &footprint));
    check_ok(aorta_capture_begin(rig.a));
    check_ok(nap(rig.a, 1));
    check_ok(aorta_timestamp_aside(rig.a, &rig.slots[0]));
    check_ok(aorta_event_record(rig.fork, rig.a));
    check_ok(aorta_stream_wait(rig.b, rig.fork));
    check_ok(nap(rig.b, 1));
    check_fails(aorta_capture_end(rig.a, &graph), AORTA_DEVICE, "b");
    close_stamp_rig(&rig);
}

/* ---- where a capture is ---- */

static void test_frontiers(void **state) {
    (void)state;
    struct stamp_rig rig = open_stamp_rig();
    struct aorta_frontier first, now;
    struct aorta_graph *graph;
    assert_false(aorta_stream_frontier(rig.a, &now));
    check_ok(aorta_capture_begin(rig.a));
    assert_true(aorta_stream_frontier(rig.a, &now));
    assert_int_equal(now.count, 0);
    check_ok(nap(rig.a, 1));
    assert_true(aorta_stream_frontier(rig.a, &first));
    assert_int_equal(first.count, 1);
    check_ok(aorta_timestamp_aside(rig.a, &rig.slots[0])); /* nothing waits for it */
    check_ok(aorta_event_record(rig.fork, rig.a));
    check_ok(aorta_stream_wait(rig.b, rig.fork));
    assert_true(aorta_stream_frontier(rig.b, &now));
    assert_int_equal(now.count, 1);
    assert_ptr_equal(now.commands[0], first.commands[0]);
    check_ok(nap(rig.a, 1));
    check_ok(nap(rig.b, 1));
    check_ok(aorta_event_record(rig.join, rig.b));
    check_ok(aorta_stream_wait(rig.a, rig.join));
    assert_true(aorta_stream_frontier(rig.a, &now));
    assert_int_equal(now.count, 2);
    assert_ptr_not_equal(now.commands[0], first.commands[0]);
    assert_ptr_not_equal(now.commands[1], first.commands[0]);
    check_ok(aorta_timestamp(rig.a, &rig.slots[1])); /* which comes before anything else */
    assert_false(aorta_stream_frontier(rig.a, &now));
    check_ok(nap(rig.a, 1));
    assert_true(aorta_stream_frontier(rig.a, &now));
    control()->strike("cuStreamGetCaptureInfo_v3", 1, 1, 1);
    assert_false(aorta_stream_frontier(rig.a, &now));
    control()->strike(NULL, 0, 0, 0);
    check_ok(aorta_capture_end(rig.a, &graph));
    aorta_graph_destroy(graph);
    close_stamp_rig(&rig);
    struct aorta_device *cpu;
    struct aorta_stream *stream;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &cpu));
    stream = open_stream(cpu, "c");
    assert_false(aorta_stream_frontier(stream, &now));
    aorta_stream_destroy(stream);
    aorta_device_close(cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_kernel_tells_its_end, reset_fake),
        cmocka_unit_test_setup(test_a_kernel_tells_its_beginning, reset_fake),
        cmocka_unit_test_setup(test_one_kernel_is_asked_by_several, reset_fake),
        cmocka_unit_test_setup(test_other_stamps_have_their_own_kernels, reset_fake),
        cmocka_unit_test_setup(test_a_kernel_that_cannot_be_asked, reset_fake),
        cmocka_unit_test_setup(test_many_ends, reset_fake),
        cmocka_unit_test_setup(test_a_capture_without_a_graph, reset_fake),
        cmocka_unit_test_setup(test_frontiers, reset_fake),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
