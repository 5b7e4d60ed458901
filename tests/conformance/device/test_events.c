/* Events: what they order, and how long they may live. Timestamps. */
#include "base/clock.h"
#include "suite.h"

static void test_an_event_orders_streams(void **state) {
    struct aorta_stream *a = make_stream(*state, "a"), *b = make_stream(*state, "b");
    struct aorta_event *event = make_event(*state);
    struct lock *lock = make_lock(*state);
    int64_t *counter = make_pinned(*state, sizeof *counter);
    queue_lock(a, lock);
    queue_mix(a, counter, 1);
    check_ok(aorta_event_record(event, a));
    check_ok(aorta_stream_wait(b, event));
    queue_mix(b, counter, 2);
    assert_false(aorta_event_done(event));
    check_busy(b);
    open_lock(lock);
    sync_stream(b);
    assert_true(aorta_event_done(event));
    assert_int_equal(*counter, mix(mix(0, 1), 2));
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_event_destroy(event);
    aorta_pinned_free(*state, lock);
    aorta_pinned_free(*state, counter);
}

static void test_an_event_never_recorded_holds_nothing_back(void **state) {
    struct aorta_stream *stream = make_stream(*state, "free");
    struct aorta_event *event = make_event(*state);
    int64_t *counter = make_pinned(*state, sizeof *counter);
    check_ok(aorta_stream_wait(stream, event));
    queue_mix(stream, counter, 1);
    sync_stream(stream);
    check_ok(aorta_event_synchronize(event));
    assert_true(aorta_event_done(event));
    aorta_stream_destroy(stream);
    aorta_event_destroy(event);
    aorta_pinned_free(*state, counter);
}

enum { TIMES = 200 };

static void test_times_rise_and_lie_within_the_hosts(void **state) {
    struct aorta_stream *stream = make_stream(*state, "times");
    int64_t *counter = make_pinned(*state, sizeof *counter), *slots = make_pinned(*state, TIMES * sizeof *slots);
    int64_t before = aorta_clock_ns();
    for (int i = 0; i < TIMES; i++) {
        queue_mix(stream, counter, i);
        check_ok(aorta_timestamp(stream, &slots[i]));
    }
    sync_stream(stream);
    int64_t after = aorta_clock_ns(), error = aorta_device_clock_error_ns(*state), last = before - error;
    for (int i = 0; i < TIMES; i++) {
        assert_true(last <= slots[i]);
        last = slots[i];
    }
    assert_true(last <= after + error);
    assert_true(before < after);
    aorta_stream_destroy(stream);
    aorta_pinned_free(*state, counter);
    aorta_pinned_free(*state, slots);
}

static void test_a_timestamp_is_written_in_its_turn(void **state) {
    struct aorta_stream *stream = make_stream(*state, "slow one");
    struct aorta_event *event = make_event(*state);
    struct lock *lock = make_lock(*state);
    int64_t *times = make_pinned(*state, 2 * sizeof *times);
    check_ok(aorta_timestamp(stream, &times[0]));
    check_ok(aorta_event_record(event, stream));
    check_ok(aorta_event_synchronize(event));
    queue_lock(stream, lock);
    check_ok(aorta_timestamp(stream, &times[1]));
    check_ok(aorta_event_record(event, stream));
    assert_false(aorta_event_done(event));
    assert_int_equal(times[1], 0);
    open_lock(lock);
    check_ok(aorta_event_synchronize(event));
    assert_true(times[0] < times[1]);
    aorta_stream_destroy(stream);
    aorta_event_destroy(event);
    aorta_pinned_free(*state, lock);
    aorta_pinned_free(*state, times);
}

/* b waits for the record made before its wait. A later record that waits for a lock must not delay b. */
static void test_a_wait_is_for_the_record_before_it(void **state) {
    struct aorta_stream *a = make_stream(*state, "a"), *b = make_stream(*state, "b");
    struct aorta_event *event = make_event(*state);
    struct lock *first = make_lock(*state), *second = make_lock(*state);
    int64_t *counter = make_pinned(*state, sizeof *counter);
    queue_lock(a, first);
    check_ok(aorta_event_record(event, a));
    check_ok(aorta_stream_wait(b, event));
    queue_mix(b, counter, 1);
    queue_lock(a, second);
    check_ok(aorta_event_record(event, a));
    open_lock(first);
    sync_stream(b);
    assert_int_equal(*counter, mix(0, 1));
    assert_false(aorta_event_done(event));
    open_lock(second);
    check_ok(aorta_event_synchronize(event));
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_event_destroy(event);
    aorta_pinned_free(*state, first);
    aorta_pinned_free(*state, second);
    aorta_pinned_free(*state, counter);
}

/* The other way about: a later record on another stream is reached at once and must not let the first wait go. */
static void test_a_later_record_elsewhere_frees_no_earlier_wait(void **state) {
    struct aorta_stream *locked = make_stream(*state, "locked"), *quick = make_stream(*state, "quick");
    struct aorta_stream *waiting = make_stream(*state, "waiting");
    struct aorta_event *event = make_event(*state);
    struct lock *lock = make_lock(*state);
    int64_t *counter = make_pinned(*state, sizeof *counter);
    queue_lock(locked, lock);
    queue_mix(locked, counter, 1);
    check_ok(aorta_event_record(event, locked));
    check_ok(aorta_stream_wait(waiting, event));
    queue_mix(waiting, counter, 2);
    check_ok(aorta_event_record(event, quick));
    check_ok(aorta_event_synchronize(event)); /* the last record, on quick */
    check_busy(waiting);
    open_lock(lock);
    sync_stream(waiting);
    assert_int_equal(*counter, mix(mix(0, 1), 2));
    struct aorta_stream *const streams[] = {locked, quick, waiting};
    for (size_t i = 0; i < 3; i++) aorta_stream_destroy(streams[i]);
    aorta_event_destroy(event);
    aorta_pinned_free(*state, lock);
    aorta_pinned_free(*state, counter);
}

static void test_an_event_may_go_while_it_is_waited_for(void **state) {
    struct aorta_stream *a = make_stream(*state, "a"), *b = make_stream(*state, "b");
    struct lock *lock = make_lock(*state);
    int64_t *counter = make_pinned(*state, sizeof *counter), expected = 0;
    queue_lock(a, lock);
    for (int64_t i = 0; i < 100; i++) {
        struct aorta_event *event = make_event(*state);
        queue_mix(a, counter, i);
        check_ok(aorta_event_record(event, a));
        check_ok(aorta_stream_wait(b, event));
        aorta_event_destroy(event);
        expected = mix(expected, i);
    }
    queue_mix(b, counter, 100);
    open_lock(lock);
    sync_stream(b);
    assert_int_equal(*counter, mix(expected, 100));
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_pinned_free(*state, lock);
    aorta_pinned_free(*state, counter);
}

/* Two streams hand a counter back and forth with one event each, recorded again and again without the host waiting. */
static void test_ping_pong_with_recorded_again_events(void **state) {
    struct aorta_stream *streams[] = {make_stream(*state, "ping"), make_stream(*state, "pong")};
    struct aorta_event *events[] = {make_event(*state), make_event(*state)};
    int64_t *counter = make_pinned(*state, sizeof *counter), expected = 0;
    for (int64_t i = 0; i < 2000; i++) {
        size_t mine = (size_t)i % 2;
        check_ok(aorta_stream_wait(streams[mine], events[1 - mine]));
        queue_mix(streams[mine], counter, i);
        check_ok(aorta_event_record(events[mine], streams[mine]));
        expected = mix(expected, i);
    }
    sync_stream(streams[1]);
    assert_int_equal(*counter, expected);
    for (size_t i = 0; i < 2; i++) {
        aorta_stream_destroy(streams[i]);
        aorta_event_destroy(events[i]);
    }
    aorta_pinned_free(*state, counter);
}

static void test_devices_do_not_mix(void **state) {
    struct aorta_device *other;
    const struct aorta_device_info *info = aorta_device_get_info(*state);
    check_ok(aorta_device_open(info->kind, info->index, &other));
    struct aorta_stream *stream = make_stream(*state, "here");
    struct aorta_event *event = make_event(other);
    check_fails(aorta_event_record(event, stream), AORTA_DEVICE, "here");
    check_fails(aorta_stream_wait(stream, event), AORTA_DEVICE, "here");
    aorta_stream_destroy(stream);
    aorta_event_destroy(event);
    aorta_device_close(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_event_orders_streams),
        cmocka_unit_test(test_an_event_never_recorded_holds_nothing_back),
        cmocka_unit_test(test_times_rise_and_lie_within_the_hosts),
        cmocka_unit_test(test_a_timestamp_is_written_in_its_turn),
        cmocka_unit_test(test_a_wait_is_for_the_record_before_it),
        cmocka_unit_test(test_a_later_record_elsewhere_frees_no_earlier_wait),
        cmocka_unit_test(test_an_event_may_go_while_it_is_waited_for),
        cmocka_unit_test(test_ping_pong_with_recorded_again_events),
        cmocka_unit_test(test_devices_do_not_mix),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
