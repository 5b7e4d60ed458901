/* Capture and replay. */
#include "base/clock.h"
#include "suite.h"

static struct aorta_graph *end_capture(struct aorta_stream *stream) {
    struct aorta_graph *graph;
    check_ok(aorta_capture_end(stream, &graph));
    assert_false(aorta_stream_capturing(stream));
    return graph;
}

static void begin_capture(struct aorta_stream *stream) {
    check_ok(aorta_capture_begin(stream));
    assert_true(aorta_stream_capturing(stream));
}

static void link_streams(struct aorta_stream *from, struct aorta_event *event, struct aorta_stream *to) {
    check_ok(aorta_event_record(event, from));
    check_ok(aorta_stream_wait(to, event));
}

static void add_nine(void *user) {
    int64_t *counter = user;
    *counter = mix(*counter, 9);
}

static void test_nothing_runs_while_captured(void **state) {
    struct aorta_stream *stream = make_stream(*state, "captured");
    int64_t *counters = make_pinned(*state, 3 * sizeof *counters);
    begin_capture(stream);
    queue_mix(stream, &counters[0], 5);
    check_ok(aorta_copy(stream, &counters[1], &counters[0], sizeof *counters));
    check_ok(aorta_fill_bytes(stream, &counters[2], 1, sizeof *counters));
    check_ok(aorta_host_call(stream, add_nine, &counters[1]));
    struct aorta_graph *graph = end_capture(stream);
    assert_int_equal(aorta_graph_node_count(graph), 4);
    sync_stream(stream);
    for (size_t i = 0; i < 3; i++) assert_int_equal(counters[i], 0);
    int64_t expected = 0;
    for (int run = 0; run < 3; run++) {
        check_ok(aorta_graph_launch(graph, stream));
        expected = mix(expected, 5);
    }
    queue_mix(stream, &counters[0], 6); /* after the replays */
    sync_stream(stream);
    assert_int_equal(counters[0], mix(expected, 6));
    assert_int_equal(counters[1], mix(expected, 9));
    assert_int_equal(counters[2], 0x0101010101010101);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(stream);
    aorta_pinned_free(*state, counters);
}

static void test_an_empty_graph_runs(void **state) {
    struct aorta_stream *stream = make_stream(*state, "empty");
    begin_capture(stream);
    struct aorta_graph *graph = end_capture(stream);
    assert_int_equal(aorta_graph_node_count(graph), 0);
    check_ok(aorta_graph_launch(graph, stream));
    sync_stream(stream);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(stream);
}

static void test_every_replay_stamps_anew(void **state) {
    struct aorta_stream *stream = make_stream(*state, "stamps");
    int64_t *slots = make_pinned(*state, 2 * sizeof *slots), *counter = make_pinned(*state, sizeof *counter), last = 0;
    begin_capture(stream);
    check_ok(aorta_timestamp(stream, &slots[0]));
    queue_mix(stream, counter, 1);
    check_ok(aorta_timestamp(stream, &slots[1]));
    struct aorta_graph *graph = end_capture(stream);
    for (int run = 0; run < 20; run++) {
        int64_t before = aorta_clock_ns();
        check_ok(aorta_graph_launch(graph, stream));
        sync_stream(stream);
        int64_t after = aorta_clock_ns(), error = aorta_device_clock_error_ns(*state);
        assert_true(last < slots[0]);
        assert_true(before - error <= slots[0] && slots[0] <= slots[1]);
        assert_true(slots[1] <= after + error);
        last = slots[1];
    }
    aorta_graph_destroy(graph);
    aorta_stream_destroy(stream);
    aorta_pinned_free(*state, slots);
    aorta_pinned_free(*state, counter);
}

/* One stream forks into two more, which exchange results, and joins them: a diamond with a cross-link.
 *   origin: x = mix(x, 1) ─┬─ left:  y = x; y = mix(y, 2) ───────┬─ left: y = mix(y, 4) ─┬─ origin: x = mix(x, 5)
 *                          └─ right: z = x; z = mix(z, 3); w = y ┘ (after left's first)   ┘ */
struct diamond {
    struct aorta_stream *origin, *left, *right;
    struct aorta_event *events[4];
    int64_t *x, *y, *z, *w;
};

static void make_diamond(struct aorta_device *device, struct diamond *diamond) {
    int64_t *values = make_pinned(device, 4 * sizeof *values);
    *diamond = (struct diamond){.origin = make_stream(device, "origin"),
                                .left = make_stream(device, "left"),
                                .right = make_stream(device, "right"),
                                .x = values,
                                .y = values + 1,
                                .z = values + 2,
                                .w = values + 3};
    for (size_t i = 0; i < 4; i++) diamond->events[i] = make_event(device);
}

static void free_diamond(struct aorta_device *device, struct diamond *diamond) {
    aorta_stream_destroy(diamond->origin);
    aorta_stream_destroy(diamond->left);
    aorta_stream_destroy(diamond->right);
    for (size_t i = 0; i < 4; i++) aorta_event_destroy(diamond->events[i]);
    aorta_pinned_free(device, diamond->x);
}

static void queue_diamond(struct diamond *d) {
    queue_mix(d->origin, d->x, 1);
    check_ok(aorta_event_record(d->events[0], d->origin));
    check_ok(aorta_stream_wait(d->left, d->events[0]));
    check_ok(aorta_stream_wait(d->right, d->events[0]));
    check_ok(aorta_copy(d->left, d->y, d->x, sizeof *d->x));
    queue_mix(d->left, d->y, 2);
    link_streams(d->left, d->events[1], d->right);
    check_ok(aorta_copy(d->right, d->z, d->x, sizeof *d->x));
    queue_mix(d->right, d->z, 3);
    check_ok(aorta_copy(d->right, d->w, d->y, sizeof *d->y));
    link_streams(d->right, d->events[2], d->left);
    queue_mix(d->left, d->y, 4);
    link_streams(d->left, d->events[3], d->origin);
    queue_mix(d->origin, d->x, 5);
}

static void check_diamond(const struct diamond *d, int64_t start) {
    int64_t x = mix(start, 1);
    assert_int_equal(*d->w, mix(x, 2));
    assert_int_equal(*d->y, mix(mix(x, 2), 4));
    assert_int_equal(*d->z, mix(x, 3));
    assert_int_equal(*d->x, mix(x, 5));
}

static void test_forks_and_joins_replay_as_they_ran(void **state) {
    struct diamond d;
    make_diamond(*state, &d);
    queue_diamond(&d);
    sync_stream(d.origin);
    check_diamond(&d, 0);
    begin_capture(d.origin);
    queue_diamond(&d);
    assert_true(aorta_stream_capturing(d.left));
    assert_true(aorta_stream_capturing(d.right));
    struct aorta_graph *graph = end_capture(d.origin);
    assert_false(aorta_stream_capturing(d.left));
    assert_false(aorta_stream_capturing(d.right));
    assert_int_equal(aorta_graph_node_count(graph), 8);
    int64_t start = *d.x;
    for (int run = 0; run < 1000; run++) {
        check_ok(aorta_graph_launch(graph, d.origin));
        if (run % 7 == 0) {
            sync_stream(d.origin);
            check_diamond(&d, start);
            start = *d.x;
        } else {
            start = mix(mix(start, 1), 5);
            if (run % 7 == 6) sync_stream(d.origin);
        }
    }
    sync_stream(d.origin);
    assert_int_equal(*d.x, start);
    aorta_graph_destroy(graph);
    queue_diamond(&d); /* the streams and events serve as before */
    sync_stream(d.origin);
    check_diamond(&d, start);
    free_diamond(*state, &d);
}

static void test_branches_run_side_by_side(void **state) {
    struct diamond d;
    make_diamond(*state, &d);
    struct lock *lock = make_lock(*state), *reached = make_lock(*state);
    open_lock(reached);
    begin_capture(d.origin);
    link_streams(d.origin, d.events[0], d.left);
    queue_lock(d.left, lock);
    queue_lock(d.origin, reached); /* reached although left is locked */
    link_streams(d.left, d.events[1], d.origin);
    queue_mix(d.origin, d.y, 1);
    struct aorta_graph *graph = end_capture(d.origin);
    check_ok(aorta_graph_launch(graph, d.right));
    wait_for_entry(lock);
    wait_for_entry(reached);
    check_busy(d.right);
    open_lock(lock);
    sync_stream(d.right);
    assert_int_equal(*d.y, 1);
    aorta_graph_destroy(graph);
    aorta_pinned_free(*state, lock);
    aorta_pinned_free(*state, reached);
    free_diamond(*state, &d);
}

/* A joined stream waits once more, for the end of the first: no work follows that wait, but the next replay must not
 * begin before it is over. */
static void test_a_branch_may_end_in_a_wait(void **state) {
    struct diamond d;
    make_diamond(*state, &d);
    begin_capture(d.origin);
    link_streams(d.origin, d.events[0], d.left);
    queue_mix(d.left, d.x, 1);
    link_streams(d.left, d.events[1], d.origin);
    queue_mix(d.origin, d.x, 2);
    link_streams(d.origin, d.events[2], d.left);
    struct aorta_graph *graph = end_capture(d.origin);
    int64_t expected = 0;
    for (int run = 0; run < 2000; run++) {
        check_ok(aorta_graph_launch(graph, d.origin));
        expected = mix(mix(expected, 1), 2);
    }
    sync_stream(d.origin);
    assert_int_equal(*d.x, expected);
    aorta_graph_destroy(graph);
    free_diamond(*state, &d);
}

static void test_replays_on_other_streams_do_not_overlap(void **state) {
    struct diamond d;
    make_diamond(*state, &d);
    begin_capture(d.origin);
    queue_diamond(&d);
    struct aorta_graph *graph = end_capture(d.origin);
    struct aorta_stream *streams[] = {make_stream(*state, "p"), make_stream(*state, "q"), d.left};
    int64_t expected = 0;
    for (size_t run = 0; run < 300; run++) {
        check_ok(aorta_graph_launch(graph, streams[run % 3]));
        expected = mix(mix(expected, 1), 5);
    }
    for (size_t i = 0; i < 3; i++) sync_stream(streams[i]);
    assert_int_equal(*d.x, expected);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(streams[0]);
    aorta_stream_destroy(streams[1]);
    free_diamond(*state, &d);
}

static void test_two_graphs_alternate(void **state) {
    struct aorta_stream *stream = make_stream(*state, "turns"), *side = make_stream(*state, "side");
    struct aorta_event *fork = make_event(*state), *join = make_event(*state);
    int64_t *counter = make_pinned(*state, sizeof *counter), expected = 0;
    struct aorta_graph *graphs[2];
    for (int64_t i = 0; i < 2; i++) {
        begin_capture(stream);
        link_streams(stream, fork, side);
        queue_mix(side, counter, i + 1);
        link_streams(side, join, stream);
        queue_mix(stream, counter, i + 10);
        graphs[i] = end_capture(stream);
    }
    for (int64_t run = 0; run < 1000; run++) {
        check_ok(aorta_graph_launch(graphs[run % 2], stream));
        expected = mix(mix(expected, run % 2 + 1), run % 2 + 10);
    }
    sync_stream(stream);
    assert_int_equal(*counter, expected);
    aorta_graph_destroy(graphs[0]);
    aorta_graph_destroy(graphs[1]);
    aorta_stream_destroy(stream);
    aorta_stream_destroy(side);
    aorta_event_destroy(fork);
    aorta_event_destroy(join);
    aorta_pinned_free(*state, counter);
}

static void test_a_graph_may_be_ordered_by_events_outside(void **state) {
    struct aorta_stream *a = make_stream(*state, "a"), *b = make_stream(*state, "b");
    struct aorta_event *event = make_event(*state);
    struct lock *lock = make_lock(*state);
    int64_t *counter = make_pinned(*state, sizeof *counter);
    begin_capture(a);
    queue_mix(a, counter, 1);
    struct aorta_graph *graph = end_capture(a);
    queue_lock(b, lock);
    queue_mix(b, counter, 2);
    link_streams(b, event, a);
    check_ok(aorta_graph_launch(graph, a));
    link_streams(a, event, b);
    queue_mix(b, counter, 3);
    open_lock(lock);
    sync_stream(b);
    assert_int_equal(*counter, mix(mix(mix(0, 2), 1), 3));
    assert_true(aorta_event_done(event));
    aorta_graph_destroy(graph);
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_event_destroy(event);
    aorta_pinned_free(*state, lock);
    aorta_pinned_free(*state, counter);
}

static aorta_status fail_once(const void *args) {
    int64_t *times = *(int64_t *const *)args;
    return ++*times == 1 ? AORTA_ERROR(AORTA_IO, "the first run fails") : NULL;
}

/* A failure in a branch reaches the stream that launched the graph; the graph itself can run again elsewhere. On the
 * CPU only: a kernel that fails on a GPU takes the device with it. */
static void test_a_failure_in_a_branch_reaches_the_stream(void **state) {
    static const struct aorta_kernel failing = {.name = "fail once", .cpu = fail_once};
    struct diamond d;
    if (aorta_device_get_info(*state)->kind != AORTA_DEVICE_CPU) return;
    make_diamond(*state, &d);
    begin_capture(d.origin);
    link_streams(d.origin, d.events[0], d.left);
    check_ok(aorta_launch(d.left, &failing, &d.x, sizeof d.x));
    queue_mix(d.left, d.y, 1);
    link_streams(d.left, d.events[1], d.origin);
    queue_mix(d.origin, d.z, 1);
    struct aorta_graph *graph = end_capture(d.origin);
    check_ok(aorta_graph_launch(graph, d.origin));
    check_ok(aorta_graph_launch(graph, d.origin)); /* skipped: the stream has failed by then */
    check_ok(aorta_graph_launch(graph, d.right));
    check_fails(aorta_stream_synchronize(d.origin), AORTA_IO, "the first run fails");
    sync_stream(d.right);
    assert_int_equal(*d.x, 2);
    assert_int_equal(*d.y, mix(0, 1));
    assert_int_equal(*d.z, mix(0, 1));
    aorta_graph_destroy(graph);
    free_diamond(*state, &d);
}

/* Work queued before the capture begins runs all the same, and a stream that joins late may have its own work. */
static void test_queued_work_goes_on_during_a_capture(void **state) {
    struct diamond d;
    make_diamond(*state, &d);
    struct lock *lock = make_lock(*state);
    queue_lock(d.left, lock);
    queue_mix(d.left, d.y, 1);
    queue_mix(d.origin, d.x, 1);
    begin_capture(d.origin);
    queue_mix(d.origin, d.x, 2);
    link_streams(d.origin, d.events[0], d.left);
    queue_mix(d.left, d.y, 2);
    link_streams(d.left, d.events[1], d.origin);
    struct aorta_graph *graph = end_capture(d.origin);
    open_lock(lock);
    sync_stream(d.left);
    sync_stream(d.origin);
    assert_int_equal(*d.x, mix(0, 1));
    assert_int_equal(*d.y, mix(0, 1));
    check_ok(aorta_graph_launch(graph, d.origin));
    sync_stream(d.origin);
    assert_int_equal(*d.x, mix(mix(0, 1), 2));
    assert_int_equal(*d.y, mix(mix(0, 1), 2));
    aorta_graph_destroy(graph);
    aorta_pinned_free(*state, lock);
    free_diamond(*state, &d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_runs_while_captured),
        cmocka_unit_test(test_an_empty_graph_runs),
        cmocka_unit_test(test_every_replay_stamps_anew),
        cmocka_unit_test(test_forks_and_joins_replay_as_they_ran),
        cmocka_unit_test(test_branches_run_side_by_side),
        cmocka_unit_test(test_a_branch_may_end_in_a_wait),
        cmocka_unit_test(test_replays_on_other_streams_do_not_overlap),
        cmocka_unit_test(test_two_graphs_alternate),
        cmocka_unit_test(test_a_graph_may_be_ordered_by_events_outside),
        cmocka_unit_test(test_a_failure_in_a_branch_reaches_the_stream),
        cmocka_unit_test(test_queued_work_goes_on_during_a_capture),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
