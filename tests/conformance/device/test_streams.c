/* Order in a stream, concurrency between streams, failures. */
#include "suite.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static void test_commands_of_a_stream_run_in_order(void **state) {
    struct aorta_stream *stream = make_stream(*state, "order");
    int64_t *counter = make_pinned(*state, sizeof *counter), expected = 0;
    for (int64_t i = 0; i < 5000; i++) {
        queue_mix(stream, counter, i);
        expected = mix(expected, i);
    }
    sync_stream(stream);
    assert_int_equal(*counter, expected);
    aorta_stream_destroy(stream);
    aorta_pinned_free(*state, counter);
}

static void test_what_was_created_is_reported(void **state) {
    const enum aorta_priority priorities[] = {AORTA_PRIORITY_LOW, AORTA_PRIORITY_NORMAL, AORTA_PRIORITY_HIGH};
    for (size_t i = 0; i < 3; i++) {
        struct aorta_stream *stream;
        check_ok(aorta_stream_create(*state, "a stream", priorities[i], &stream));
        assert_string_equal(aorta_stream_name(stream), "a stream");
        assert_ptr_equal(aorta_stream_device(stream), *state);
        sync_stream(stream);
        aorta_stream_destroy(stream);
    }
}

static void test_streams_run_side_by_side(void **state) {
    struct aorta_stream *a = make_stream(*state, "a"), *b = make_stream(*state, "b");
    _Atomic int *here = make_pinned(*state, 2 * sizeof *here);
    queue_meeting(a, (struct meeting){&here[0], &here[1]});
    queue_meeting(b, (struct meeting){&here[1], &here[0]});
    sync_stream(a);
    sync_stream(b);
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_pinned_free(*state, here);
}

static void test_destroying_waits_for_the_work(void **state) {
    struct aorta_stream *stream = make_stream(*state, "short");
    int64_t *counter = make_pinned(*state, sizeof *counter), expected = 0;
    for (int64_t i = 0; i < 1000; i++) {
        queue_mix(stream, counter, i);
        expected = mix(expected, i);
    }
    aorta_stream_destroy(stream);
    assert_int_equal(*counter, expected);
    aorta_pinned_free(*state, counter);
}

static void count_call(void *user) {
    int64_t *counter = user;
    *counter = mix(*counter, 7);
}

static void test_host_calls_run_in_order(void **state) {
    struct aorta_stream *stream = make_stream(*state, "calls");
    int64_t *counter = make_pinned(*state, sizeof *counter);
    queue_mix(stream, counter, 1);
    check_ok(aorta_host_call(stream, count_call, counter));
    queue_mix(stream, counter, 2);
    sync_stream(stream);
    assert_int_equal(*counter, mix(mix(mix(0, 1), 7), 2));
    aorta_stream_destroy(stream);
    aorta_pinned_free(*state, counter);
}

struct large_args {
    int64_t *sum;
    unsigned char bytes[100000];
};

static aorta_status run_large(const void *args) {
    const struct large_args *a = args;
    for (size_t i = 0; i < sizeof a->bytes; i++) *a->sum += a->bytes[i];
    return NULL;
}

/* Small and large arguments in turn, so that every boundary inside a queue is met. CPU kernels only: GPUs take 4 KiB.
 */
static void test_large_arguments_arrive(void **state) {
    static const struct aorta_kernel kernel = {.name = "large", .cpu = run_large};
    if (aorta_device_get_info(*state)->kind != AORTA_DEVICE_CPU) skip();
    struct aorta_stream *stream = make_stream(*state, "large");
    struct large_args *args = malloc(sizeof *args);
    int64_t *counter = make_pinned(*state, 2 * sizeof *counter), expected = 0, expected_sum = 0;
    args->sum = &counter[1];
    for (size_t i = 0; i < sizeof args->bytes; i++) args->bytes[i] = (unsigned char)(i * 7);
    for (int64_t i = 0; i < 200; i++) {
        size_t cut = (size_t)i * 499;
        memset(args->bytes + cut, 0, sizeof args->bytes - cut);
        for (size_t j = 0; j < cut; j++) expected_sum += args->bytes[j] = (unsigned char)(j * 7);
        check_ok(aorta_launch(stream, &kernel, args, sizeof *args));
        for (int64_t j = 0; j < i; j++) {
            queue_mix(stream, counter, j);
            expected = mix(expected, j);
        }
    }
    sync_stream(stream);
    assert_int_equal(counter[0], expected);
    assert_int_equal(counter[1], expected_sum);
    free(args);
    aorta_stream_destroy(stream);
    aorta_pinned_free(*state, counter);
}

/* ---- failures ---- */

static void test_a_failure_sticks(void **state) {
    struct aorta_stream *stream = make_stream(*state, "failing"), *other = make_stream(*state, "other");
    int64_t *counter = make_pinned(*state, sizeof *counter), *time = make_pinned(*state, sizeof *time);
    queue_mix(stream, counter, 1);
    queue_failure(stream, "bad luck");
    queue_mix(stream, counter, 2);
    check_ok(aorta_fill_bytes(stream, counter, 0, sizeof *counter));
    check_ok(aorta_timestamp(stream, time));
    for (int i = 0; i < 3; i++) check_fails(aorta_stream_synchronize(stream), AORTA_DEVICE, "bad luck");
    queue_failure(stream, "a second one");
    check_fails(aorta_stream_synchronize(stream), AORTA_DEVICE, "bad luck");
    assert_int_equal(*counter, mix(0, 1));
    assert_int_equal(*time, 0);
    queue_mix(other, counter, 3);
    sync_stream(other);
    assert_int_equal(*counter, mix(mix(0, 1), 3));
    aorta_stream_destroy(stream);
    aorta_stream_destroy(other);
    aorta_pinned_free(*state, counter);
    aorta_pinned_free(*state, time);
}

static void test_a_failure_names_stream_and_kernel(void **state) {
    struct aorta_stream *stream = make_stream(*state, "reducing");
    queue_failure(stream, "bad luck");
    aorta_status status = aorta_stream_synchronize(stream);
    assert_non_null(strstr(aorta_status_message(status), "reducing"));
    assert_non_null(strstr(aorta_status_message(status), "fail"));
    aorta_status_free(status);
    aorta_stream_destroy(stream);
}

static void test_events_carry_failures_on(void **state) {
    struct aorta_stream *a = make_stream(*state, "first"), *b = make_stream(*state, "second");
    struct aorta_stream *c = make_stream(*state, "third");
    struct aorta_event *before = make_event(*state), *behind = make_event(*state), *further = make_event(*state);
    int64_t *counter = make_pinned(*state, sizeof *counter);
    check_ok(aorta_event_record(before, a));
    queue_failure(a, "bad luck");
    check_ok(aorta_event_record(behind, a));
    check_ok(aorta_stream_wait(b, behind));
    queue_mix(b, counter, 1);
    check_ok(aorta_event_record(further, b));
    check_fails(aorta_event_synchronize(further), AORTA_DEVICE, "bad luck");
    check_ok(aorta_stream_wait(c, before));
    queue_mix(c, counter, 2);
    sync_stream(c); /* did not follow the failure */
    check_ok(aorta_event_synchronize(before));
    check_fails(aorta_event_synchronize(behind), AORTA_DEVICE, "bad luck");
    check_fails(aorta_stream_synchronize(b), AORTA_DEVICE, "bad luck");
    assert_int_equal(*counter, mix(0, 2));
    check_ok(aorta_stream_wait(c, behind)); /* reached long ago, and still a failure */
    check_fails(aorta_stream_synchronize(c), AORTA_DEVICE, "bad luck");
    struct aorta_stream *const streams[] = {a, b, c};
    struct aorta_event *const events[] = {before, behind, further};
    for (size_t i = 0; i < 3; i++) {
        aorta_stream_destroy(streams[i]);
        aorta_event_destroy(events[i]);
    }
    aorta_pinned_free(*state, counter);
}

/* A failed stream runs nothing more, but work after it still waits for all earlier work. */
static void test_a_failed_stream_still_keeps_order(void **state) {
    struct aorta_stream *locked = make_stream(*state, "locked"), *failed = make_stream(*state, "failed");
    struct aorta_event *first = make_event(*state), *second = make_event(*state);
    struct lock *lock = make_lock(*state);
    queue_failure(failed, "bad luck");
    queue_lock(locked, lock);
    check_ok(aorta_event_record(first, locked));
    check_ok(aorta_stream_wait(failed, first));
    check_ok(aorta_event_record(second, failed));
    struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
    assert_false(aorta_event_done(second));
    open_lock(lock);
    check_fails(aorta_event_synchronize(second), AORTA_DEVICE, "bad luck");
    aorta_stream_destroy(locked);
    aorta_stream_destroy(failed);
    aorta_event_destroy(first);
    aorta_event_destroy(second);
    aorta_pinned_free(*state, lock);
}

static void test_a_kernel_for_other_devices_is_refused(void **state) {
    static const struct aorta_kernel kernel = {.name = "nowhere"};
    struct aorta_stream *stream = make_stream(*state, "picky");
    check_fails(aorta_launch(stream, &kernel, NULL, 0), AORTA_UNSUPPORTED, "nowhere");
    sync_stream(stream);
    aorta_stream_destroy(stream);
}

/* ---- many ---- */

enum { STREAMS = 64 };

/* Fewer where each launch wakes a thread: AORTA_TEST_COMMANDS. */
static int64_t command_count(void) {
    const char *text = getenv("AORTA_TEST_COMMANDS");
    return text ? atoll(text) : 10000;
}

static void test_many_streams_with_many_commands(void **state) {
    struct aorta_stream *streams[STREAMS];
    int64_t *counters = make_pinned(*state, STREAMS * sizeof *counters), expected = 0;
    const int64_t commands = command_count();
    for (size_t s = 0; s < STREAMS; s++) streams[s] = make_stream(*state, "one of many");
    for (int64_t i = 0; i < commands; i++) {
        for (size_t s = 0; s < STREAMS; s++) queue_mix(streams[s], &counters[s], i);
        expected = mix(expected, i);
    }
    for (size_t s = 0; s < STREAMS; s++) {
        sync_stream(streams[s]);
        assert_int_equal(counters[s], expected);
        aorta_stream_destroy(streams[s]);
    }
    aorta_pinned_free(*state, counters);
}

/* Each host thread drives a stream of its own; the device and an event of the first stream are common to all. Checks
 * are left to the main thread, as cmocka's belong to it. */
struct driver {
    struct aorta_device *device;
    struct aorta_event *start;
    int64_t *counter, commands;
    aorta_status status;
};

static aorta_status drive_stream(struct driver *driver, struct aorta_stream *stream) {
    AORTA_TRY(aorta_stream_wait(stream, driver->start));
    for (int64_t i = 0; i < driver->commands; i++) {
        void *memory;
        AORTA_TRY(aorta_device_alloc(driver->device, 1000 + (size_t)i, "a thread's", &memory));
        aorta_status status = queue_mix_on(stream, driver->counter, i);
        if (!status && i % 5 == 0) status = aorta_stream_synchronize(stream);
        aorta_device_free(driver->device, memory);
        AORTA_TRY(status);
    }
    return aorta_stream_synchronize(stream);
}

static void *drive(void *user) {
    struct driver *driver = user;
    struct aorta_stream *stream;
    driver->status = aorta_stream_create(driver->device, "driven", AORTA_PRIORITY_NORMAL, &stream);
    if (driver->status) return NULL;
    driver->status = drive_stream(driver, stream);
    aorta_stream_destroy(stream);
    return NULL;
}

static void test_host_threads_drive_streams_of_their_own(void **state) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct driver drivers[THREADS];
    struct aorta_stream *stream = make_stream(*state, "starter");
    struct aorta_event *start = make_event(*state);
    struct lock *lock = make_lock(*state);
    int64_t *counters = make_pinned(*state, THREADS * sizeof *counters), expected = 0;
    const int64_t commands = command_count() / 5;
    queue_lock(stream, lock);
    check_ok(aorta_event_record(start, stream));
    for (size_t i = 0; i < THREADS; i++) {
        drivers[i] = (struct driver){*state, start, &counters[i], commands, NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, drive, &drivers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) assert_int_equal(counters[i], 0);
    open_lock(lock);
    for (int64_t i = 0; i < commands; i++) expected = mix(expected, i);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        check_ok(drivers[i].status);
        assert_int_equal(counters[i], expected);
    }
    aorta_stream_destroy(stream);
    aorta_event_destroy(start);
    aorta_pinned_free(*state, lock);
    aorta_pinned_free(*state, counters);
}

/* A stream on a share of the device does all that a whole one does. Devices that cannot cut one return an error. */
static void test_a_limited_stream_works(void **state) {
    struct aorta_stream *limited = make_stream(*state, "limited"), *other = make_stream(*state, "other");
    aorta_status status = aorta_stream_limit(limited, 0.5, 0);
    if (status) {
        assert_int_equal(aorta_status_code(status), AORTA_UNSUPPORTED);
        print_message("%s\n", aorta_status_message(status));
    }
    aorta_status_free(status);
    struct aorta_event *event = make_event(*state);
    int64_t *counter = make_pinned(*state, sizeof *counter), expected = 0;
    for (int64_t i = 0; i < 100; i++) {
        queue_mix(limited, counter, i);
        check_ok(aorta_event_record(event, limited));
        check_ok(aorta_stream_wait(other, event));
        queue_mix(other, counter, -i);
        check_ok(aorta_event_record(event, other));
        check_ok(aorta_stream_wait(limited, event));
        expected = mix(mix(expected, i), -i);
    }
    struct aorta_graph *graph;
    check_ok(aorta_capture_begin(limited));
    queue_mix(limited, counter, 7);
    check_ok(aorta_event_record(event, limited));
    check_ok(aorta_stream_wait(other, event));
    queue_mix(other, counter, 8);
    check_ok(aorta_event_record(event, other));
    check_ok(aorta_stream_wait(limited, event));
    check_ok(aorta_capture_end(limited, &graph));
    for (int i = 0; i < 3; i++) {
        check_ok(aorta_graph_launch(graph, limited));
        expected = mix(mix(expected, 7), 8);
    }
    sync_stream(limited);
    assert_int_equal(*counter, expected);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(limited);
    aorta_stream_destroy(other);
    aorta_event_destroy(event);
    aorta_pinned_free(*state, counter);
}

static int count_seen(struct aorta_stream *stream, struct census census) {
    int count = 0;
    sync_stream(stream);
    for (int i = 0; i < census.size; i++) count += census.seen[i];
    memset(census.seen, 0, (size_t)census.size * sizeof *census.seen);
    return count;
}

/* Kernels run on the stream's share and nowhere else, in a graph as well. */
static void test_a_limited_stream_keeps_to_its_share(void **state) {
    enum { SIZE = 4096, ROUNDS = 20 };
    const double share = 0.5;
    const struct aorta_device_info *info = aorta_device_get_info(*state);
    const bool cpu = info->kind == AORTA_DEVICE_CPU;
    const int most = (int)(cpu ? ceil(share * info->multiprocessors) : floor(share * info->multiprocessors));
    struct aorta_stream *limited = make_stream(*state, "limited"), *whole = make_stream(*state, "whole");
    aorta_status status = aorta_stream_limit(limited, share, 0);
    const bool able = !status;
    aorta_status_free(status); /* said by the test before */
    struct census census = {make_pinned(*state, SIZE * sizeof(int)), SIZE};
    for (int i = 0; able && i < ROUNDS; i++) queue_census(limited, census);
    int in_share = able ? count_seen(limited, census) : 0;
    struct aorta_graph *graph;
    check_ok(aorta_capture_begin(limited));
    queue_census(limited, census);
    check_ok(aorta_capture_end(limited, &graph));
    for (int i = 0; i < ROUNDS; i++) check_ok(aorta_graph_launch(graph, limited));
    int in_graph = count_seen(limited, census);
    queue_census(whole, census);
    int in_all = count_seen(whole, census);
    print_message("%d multiprocessors: a stream on half of them used %d, its graph %d, another stream %d\n",
                  info->multiprocessors, in_share, in_graph, in_all);
    aorta_graph_destroy(graph);
    aorta_pinned_free(*state, census.seen);
    aorta_stream_destroy(limited);
    aorta_stream_destroy(whole);
    if (!able) skip();
    assert_in_range(in_share, 1, most);
    assert_in_range(in_graph, 1, most);
    assert_true(in_all >= in_share || cpu);
}

static void test_shares_that_make_no_sense(void **state) {
    struct aorta_stream *stream = make_stream(*state, "shares");
    const double shares[] = {0, -0.5, 1.01, NAN};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        check_fails(aorta_stream_limit(stream, shares[i], 0), AORTA_INTERNAL, "stream shares: a share of");
    check_fails(aorta_stream_limit(stream, 0.5, -1), AORTA_INTERNAL, "part -1");
    check_ok(aorta_stream_limit(stream, 1, 0));
    aorta_stream_destroy(stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands_of_a_stream_run_in_order),
        cmocka_unit_test(test_what_was_created_is_reported),
        cmocka_unit_test(test_streams_run_side_by_side),
        cmocka_unit_test(test_destroying_waits_for_the_work),
        cmocka_unit_test(test_host_calls_run_in_order),
        cmocka_unit_test(test_large_arguments_arrive),
        cmocka_unit_test(test_a_failure_sticks),
        cmocka_unit_test(test_a_failure_names_stream_and_kernel),
        cmocka_unit_test(test_events_carry_failures_on),
        cmocka_unit_test(test_a_failed_stream_still_keeps_order),
        cmocka_unit_test(test_a_kernel_for_other_devices_is_refused),
        cmocka_unit_test(test_many_streams_with_many_commands),
        cmocka_unit_test(test_host_threads_drive_streams_of_their_own),
        cmocka_unit_test(test_a_limited_stream_works),
        cmocka_unit_test(test_a_limited_stream_keeps_to_its_share),
        cmocka_unit_test(test_shares_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
