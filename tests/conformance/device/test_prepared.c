/* Prepared launches. */
#include "suite.h"

enum { LAUNCHES = 3, STREAMS = 2 };

static struct aorta_prepared *prepare(struct aorta_stream *stream, int64_t *counter, int64_t value) {
    const struct mix_args args = {counter, value};
    struct aorta_prepared *prepared;
    check_ok(aorta_launch_prepare(stream, &mix_kernel, &args, sizeof args, &prepared));
    return prepared;
}

struct rig {
    struct aorta_stream *streams[STREAMS];
    int64_t *counters;                                /* one for each stream */
    struct aorta_prepared *items[LAUNCHES * STREAMS]; /* streams in turn, with the values 0, 1, 2 */
};

static struct rig make_rig(struct aorta_device *device) {
    struct rig rig = {.counters = make_pinned(device, STREAMS * sizeof *rig.counters)};
    for (int s = 0; s < STREAMS; s++) rig.streams[s] = make_stream(device, s ? "second" : "first");
    for (int i = 0; i < LAUNCHES * STREAMS; i++)
        rig.items[i] = prepare(rig.streams[i % STREAMS], &rig.counters[i % STREAMS], i / STREAMS);
    return rig;
}

static void free_rig(struct aorta_device *device, struct rig *rig) {
    for (int i = 0; i < LAUNCHES * STREAMS; i++) aorta_prepared_destroy(rig->items[i]);
    for (int s = 0; s < STREAMS; s++) aorta_stream_destroy(rig->streams[s]);
    aorta_pinned_free(device, rig->counters);
}

static int64_t after_rounds(int rounds) {
    int64_t counter = 0;
    for (int i = 0; i < rounds * LAUNCHES; i++) counter = mix(counter, i % LAUNCHES);
    return counter;
}

static void test_they_run_as_often_as_wanted_and_in_order(void **state) {
    struct rig rig = make_rig(*state);
    sync_stream(rig.streams[0]);
    assert_int_equal(rig.counters[0], 0); /* preparing queues nothing */
    for (int i = 0; i < 100; i++) check_ok(aorta_launch_prepared(rig.items, LAUNCHES * STREAMS));
    for (int s = 0; s < STREAMS; s++) {
        sync_stream(rig.streams[s]);
        assert_int_equal(rig.counters[s], after_rounds(100));
    }
    check_ok(aorta_launch_prepared(rig.items, 0));
    free_rig(*state, &rig);
}

static void test_they_are_captured(void **state) {
    struct rig rig = make_rig(*state);
    struct aorta_event *forked = make_event(*state), *joined = make_event(*state);
    struct aorta_graph *graph;
    check_ok(aorta_capture_begin(rig.streams[0]));
    check_ok(aorta_event_record(forked, rig.streams[0]));
    check_ok(aorta_stream_wait(rig.streams[1], forked));
    check_ok(aorta_launch_prepared(rig.items, LAUNCHES * STREAMS));
    check_ok(aorta_event_record(joined, rig.streams[1]));
    check_ok(aorta_stream_wait(rig.streams[0], joined));
    check_ok(aorta_capture_end(rig.streams[0], &graph));
    assert_int_equal(rig.counters[0], 0);
    assert_int_equal(aorta_graph_node_count(graph), LAUNCHES * STREAMS);
    for (int i = 0; i < 2; i++) check_ok(aorta_graph_launch(graph, rig.streams[0]));
    sync_stream(rig.streams[0]);
    for (int s = 0; s < STREAMS; s++) assert_int_equal(rig.counters[s], after_rounds(2));
    aorta_graph_destroy(graph);
    aorta_event_destroy(forked);
    aorta_event_destroy(joined);
    free_rig(*state, &rig);
}

static void test_a_failed_stream_skips_them(void **state) {
    struct rig rig = make_rig(*state);
    queue_failure(rig.streams[0], "no more of this");
    check_fails(aorta_stream_synchronize(rig.streams[0]), AORTA_DEVICE, "no more of this");
    check_ok(aorta_launch_prepared(rig.items, LAUNCHES * STREAMS));
    check_fails(aorta_stream_synchronize(rig.streams[0]), AORTA_DEVICE, "no more of this");
    sync_stream(rig.streams[1]);
    assert_int_equal(rig.counters[0], 0);
    assert_int_equal(rig.counters[1], after_rounds(1));
    free_rig(*state, &rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_they_run_as_often_as_wanted_and_in_order),
        cmocka_unit_test(test_they_are_captured),
        cmocka_unit_test(test_a_failed_stream_skips_them),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
