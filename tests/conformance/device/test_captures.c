/* Mistakes that a capture refuses, and that everything is usable again afterwards. */
#include "suite.h"

struct scene {
    struct aorta_stream *origin, *side, *outside;
    struct aorta_event *fork, *join, *other;
    int64_t *counter;
};

static void set_up(struct aorta_device *device, struct scene *scene) {
    *scene = (struct scene){make_stream(device, "origin"),
                            make_stream(device, "side"),
                            make_stream(device, "outside"),
                            make_event(device),
                            make_event(device),
                            make_event(device),
                            make_pinned(device, sizeof *scene->counter)};
}

/* Every stream runs work, every event can be recorded, a new capture succeeds: nothing is left of the broken one. */
static void check_usable_and_tear_down(struct aorta_device *device, struct scene *scene) {
    struct aorta_stream *const streams[] = {scene->origin, scene->side, scene->outside};
    struct aorta_event *const events[] = {scene->fork, scene->join, scene->other};
    struct aorta_graph *graph;
    for (size_t i = 0; i < 3; i++) {
        if (!streams[i]) continue;
        assert_false(aorta_stream_capturing(streams[i]));
        *scene->counter = 0;
        queue_mix(streams[i], scene->counter, 1);
        check_ok(aorta_event_record(events[i], streams[i]));
        check_ok(aorta_event_synchronize(events[i]));
        check_ok(aorta_capture_begin(streams[i]));
        queue_mix(streams[i], scene->counter, 2);
        check_ok(aorta_capture_end(streams[i], &graph));
        assert_int_equal(aorta_graph_node_count(graph), 1);
        check_ok(aorta_graph_launch(graph, streams[i]));
        sync_stream(streams[i]);
        assert_int_equal(*scene->counter, mix(mix(0, 1), 2));
        aorta_graph_destroy(graph);
    }
    for (size_t i = 0; i < 3; i++) {
        aorta_stream_destroy(streams[i]);
        aorta_event_destroy(events[i]);
    }
    aorta_pinned_free(device, scene->counter);
}

static void fork_side(struct scene *s) {
    check_ok(aorta_event_record(s->fork, s->origin));
    check_ok(aorta_stream_wait(s->side, s->fork));
}

static void join_side(struct scene *s) {
    check_ok(aorta_event_record(s->join, s->side));
    check_ok(aorta_stream_wait(s->origin, s->join));
}

static void check_end_fails(struct scene *s, const char *part) {
    struct aorta_graph *graph = NULL;
    check_fails(aorta_capture_end(s->origin, &graph), AORTA_DEVICE, part);
    assert_null(graph);
}

static void test_beginning_twice(void **state) {
    struct scene s;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    check_fails(aorta_capture_begin(s.origin), AORTA_DEVICE, "origin");
    check_end_fails(&s, "origin");
    check_usable_and_tear_down(*state, &s);
}

static void test_ending_what_was_not_begun(void **state) {
    struct scene s;
    set_up(*state, &s);
    check_end_fails(&s, "stream origin is not being captured");
    check_usable_and_tear_down(*state, &s);
}

static void test_ending_on_a_forked_stream(void **state) {
    struct scene s;
    struct aorta_graph *graph = NULL;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    fork_side(&s);
    aorta_status status = aorta_capture_end(s.side, &graph);
    assert_non_null(status);
    assert_non_null(strstr(aorta_status_message(status), "side"));
    assert_non_null(strstr(aorta_status_message(status), "origin"));
    aorta_status_free(status);
    assert_null(graph);
    join_side(&s);
    check_end_fails(&s, "side");
    check_usable_and_tear_down(*state, &s);
}

static void test_a_stream_not_joined(void **state) {
    struct scene s;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    fork_side(&s);
    queue_mix(s.side, s.counter, 1);
    check_end_fails(&s, "side");
    assert_false(aorta_stream_capturing(s.side));
    check_usable_and_tear_down(*state, &s);
}

static void test_a_fork_without_work_is_to_be_joined_too(void **state) {
    struct scene s;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    fork_side(&s);
    check_end_fails(&s, "side");
    check_usable_and_tear_down(*state, &s);
}

static void test_work_behind_the_join_is_not_joined(void **state) {
    struct scene s;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    fork_side(&s);
    queue_mix(s.side, s.counter, 1);
    join_side(&s);
    queue_mix(s.side, s.counter, 2);
    check_end_fails(&s, "side");
    check_usable_and_tear_down(*state, &s);
}

/* Joined through a third stream: origin forks side, side forks outside, outside joins side. No stream waits for side
 * directly, but outside's end is after it. */
static void test_joining_through_another_stream(void **state) {
    struct scene s;
    struct aorta_graph *graph;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    fork_side(&s);
    queue_mix(s.side, s.counter, 1);
    check_ok(aorta_event_record(s.join, s.side));
    check_ok(aorta_stream_wait(s.outside, s.join));
    queue_mix(s.outside, s.counter, 2);
    check_ok(aorta_event_record(s.other, s.outside));
    check_ok(aorta_stream_wait(s.origin, s.other));
    queue_mix(s.origin, s.counter, 3);
    check_ok(aorta_capture_end(s.origin, &graph));
    check_ok(aorta_graph_launch(graph, s.origin));
    sync_stream(s.origin);
    assert_int_equal(*s.counter, mix(mix(mix(0, 1), 2), 3));
    aorta_graph_destroy(graph);
    check_usable_and_tear_down(*state, &s);
}

static void test_waiting_for_an_event_from_before(void **state) {
    struct scene s;
    set_up(*state, &s);
    check_ok(aorta_event_record(s.other, s.outside));
    check_ok(aorta_capture_begin(s.origin));
    aorta_status status = aorta_stream_wait(s.origin, s.other);
    assert_int_equal(aorta_status_code(status), AORTA_DEVICE);
    assert_non_null(strstr(aorta_status_message(status), "stream origin"));
    assert_non_null(strstr(aorta_status_message(status), "stream outside"));
    aorta_status_free(status);
    check_end_fails(&s, "outside");
    check_usable_and_tear_down(*state, &s);
}

static void test_waiting_for_an_event_never_recorded_is_fine(void **state) {
    struct scene s;
    struct aorta_graph *graph;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    check_ok(aorta_stream_wait(s.origin, s.other));
    check_ok(aorta_capture_end(s.origin, &graph));
    aorta_graph_destroy(graph);
    check_usable_and_tear_down(*state, &s);
}

static void test_waiting_for_an_event_of_an_ended_capture(void **state) {
    struct scene s;
    struct aorta_graph *graph;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    check_ok(aorta_event_record(s.other, s.origin));
    check_ok(aorta_capture_end(s.origin, &graph));
    check_fails(aorta_stream_wait(s.side, s.other), AORTA_DEVICE, "ended");
    assert_false(aorta_stream_capturing(s.side));
    aorta_graph_destroy(graph);
    check_usable_and_tear_down(*state, &s);
}

static void test_two_captures_do_not_mix(void **state) {
    struct scene s;
    struct aorta_graph *graph;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    check_ok(aorta_capture_begin(s.outside));
    check_ok(aorta_event_record(s.other, s.outside));
    check_fails(aorta_stream_wait(s.origin, s.other), AORTA_DEVICE, "outside");
    check_end_fails(&s, "outside");
    check_ok(aorta_capture_end(s.outside, &graph)); /* that one is whole */
    aorta_graph_destroy(graph);
    check_usable_and_tear_down(*state, &s);
}

static void test_synchronising_inside(void **state) {
    struct scene s;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    check_fails(aorta_stream_synchronize(s.origin), AORTA_DEVICE, "origin");
    check_end_fails(&s, "synchronized");
    check_ok(aorta_capture_begin(s.origin));
    check_ok(aorta_event_record(s.other, s.origin));
    assert_false(aorta_event_done(s.other));
    check_fails(aorta_event_synchronize(s.other), AORTA_DEVICE, "capture");
    check_end_fails(&s, "capture");
    check_fails(aorta_event_synchronize(s.other), AORTA_DEVICE, "origin");
    check_usable_and_tear_down(*state, &s);
}

static void test_a_graph_in_a_graph(void **state) {
    struct scene s;
    struct aorta_graph *graph;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.outside));
    queue_mix(s.outside, s.counter, 1);
    check_ok(aorta_capture_end(s.outside, &graph));
    check_ok(aorta_capture_begin(s.origin));
    aorta_status status = aorta_graph_launch(graph, s.origin);
    assert_int_equal(aorta_status_code(status), AORTA_DEVICE);
    assert_non_null(strstr(aorta_status_message(status), "outside"));
    assert_non_null(strstr(aorta_status_message(status), "origin"));
    aorta_status_free(status);
    check_end_fails(&s, "outside");
    aorta_graph_destroy(graph);
    check_usable_and_tear_down(*state, &s);
}

static void test_destroying_a_forked_stream(void **state) {
    struct scene s;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    fork_side(&s);
    aorta_stream_destroy(s.side);
    s.side = NULL;
    check_end_fails(&s, "side");
    check_usable_and_tear_down(*state, &s);
}

static void test_destroying_the_first_stream(void **state) {
    struct scene s;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    fork_side(&s);
    aorta_stream_destroy(s.origin);
    s.origin = NULL;
    assert_false(aorta_stream_capturing(s.side));
    check_usable_and_tear_down(*state, &s);
}

static void test_events_may_go_inside(void **state) {
    struct scene s;
    struct aorta_graph *graph;
    set_up(*state, &s);
    check_ok(aorta_capture_begin(s.origin));
    for (int64_t i = 0; i < 50; i++) {
        struct aorta_event *there = make_event(*state), *back = make_event(*state);
        check_ok(aorta_event_record(there, s.origin));
        check_ok(aorta_stream_wait(s.side, there));
        queue_mix(s.side, s.counter, i);
        check_ok(aorta_event_record(back, s.side));
        check_ok(aorta_stream_wait(s.origin, back));
        aorta_event_destroy(there);
        aorta_event_destroy(back);
        queue_mix(s.origin, s.counter, 1000 + i);
    }
    check_ok(aorta_capture_end(s.origin, &graph));
    assert_int_equal(aorta_graph_node_count(graph), 100);
    int64_t expected = 0;
    for (int run = 0; run < 3; run++) {
        for (int64_t i = 0; i < 50; i++) expected = mix(mix(expected, i), 1000 + i);
        check_ok(aorta_graph_launch(graph, s.outside));
    }
    sync_stream(s.outside);
    assert_int_equal(*s.counter, expected);
    aorta_graph_destroy(graph);
    check_usable_and_tear_down(*state, &s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beginning_twice),
        cmocka_unit_test(test_ending_what_was_not_begun),
        cmocka_unit_test(test_ending_on_a_forked_stream),
        cmocka_unit_test(test_a_stream_not_joined),
        cmocka_unit_test(test_a_fork_without_work_is_to_be_joined_too),
        cmocka_unit_test(test_work_behind_the_join_is_not_joined),
        cmocka_unit_test(test_joining_through_another_stream),
        cmocka_unit_test(test_waiting_for_an_event_from_before),
        cmocka_unit_test(test_waiting_for_an_event_never_recorded_is_fine),
        cmocka_unit_test(test_waiting_for_an_event_of_an_ended_capture),
        cmocka_unit_test(test_two_captures_do_not_mix),
        cmocka_unit_test(test_synchronising_inside),
        cmocka_unit_test(test_a_graph_in_a_graph),
        cmocka_unit_test(test_destroying_a_forked_stream),
        cmocka_unit_test(test_destroying_the_first_stream),
        cmocka_unit_test(test_events_may_go_inside),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
