/* The GPU driver on the fake CUDA: timestamps outside captures that kernels tell, and launches that wait for that. */
#include "device/gpu_rig.h"

#include <stdatomic.h>

static struct stamp_rig open_deferred(void) {
    struct stamp_rig rig = open_stamp_rig();
    check_ok(aorta_timestamps_defer(rig.a));
    check_ok(aorta_timestamps_defer(rig.b));
    check_ok(aorta_timestamps_defer(rig.b)); /* once is enough */
    return rig;
}

static void count_launches(void) {
    control()->strike("cuLaunchKernel", 0, 0, 0);
}

/* On a stream of its own, as the trainer does it. Returns the launches so far: waiting may set the device's clock. */
static int deliver(struct stamp_rig *rig, struct aorta_stream *report) {
    check_ok(aorta_event_record(rig->fork, rig->b));
    check_ok(aorta_stream_wait(rig->a, rig->fork));
    check_ok(aorta_event_record(rig->join, rig->a));
    check_ok(aorta_stream_wait(report, rig->join));
    check_ok(aorta_timestamps_deliver(report, (struct aorta_stream *[]){rig->a, NULL, rig->b}, 3));
    const int launches = control()->calls();
    check_ok(aorta_stream_synchronize(report));
    return launches;
}

/* ---- who tells ---- */

/* Two kernels, four times, and one launch more that brings all of them: what delivers two streams is one kernel. */
static void test_kernels_tell(void **state) {
    (void)state;
    struct stamp_rig rig = open_deferred();
    struct aorta_stream *report = open_stream(rig.device, "report");
    int64_t *s = rig.slots, sum = 0;
    for (int step = 1; step <= 5; step++) {
        memset(s, 0, 4 * sizeof *s);
        count_launches();
        const int64_t before = aorta_device_now_ns(rig.device);
        check_ok(aorta_timestamp_next(rig.a, &s[0]));
        check_ok(nap(rig.a, 2000000));
        check_ok(aorta_timestamp_aside(rig.a, &s[1]));
        check_ok(aorta_timestamp_next(rig.b, &s[2]));
        check_ok(queue_telling_add(rig.b, &sum, 1));
        check_ok(aorta_timestamp_aside(rig.b, &s[3]));
        assert_int_equal(control()->calls(), 2);
        assert_int_equal(deliver(&rig, report), 3);
        const int64_t after = aorta_device_now_ns(rig.device), error = aorta_device_clock_error_ns(rig.device);
        assert_int_equal(sum, step);
        assert_true(s[0] >= before - error && s[1] <= after + error);
        assert_true(s[1] >= s[0] + 1999000);
        assert_true(s[2] >= before - error && s[3] >= s[2] && s[3] <= after + error);
    }
    count_launches();
    assert_int_equal(deliver(&rig, report), 0); /* nothing was asked */
    aorta_stream_destroy(report);
    close_stamp_rig(&rig);
}

/* The end of one kernel, asked for several times; an end with no kernel behind the last command's. */
static void test_one_kernel_is_asked_again(void **state) {
    (void)state;
    struct stamp_rig rig = open_deferred();
    int64_t *s = rig.slots;
    count_launches();
    check_ok(nap(rig.a, 1000000));
    check_ok(aorta_timestamp_aside(rig.a, &s[0]));
    check_ok(aorta_timestamp_aside(rig.a, &s[1]));
    assert_int_equal(control()->calls(), 1);
    check_ok(aorta_copy(rig.a, &s[10], &s[11], sizeof s[10]));
    check_ok(aorta_timestamp_aside(rig.a, &s[2])); /* of the copy */
    check_ok(nap(rig.a, 1000000));
    check_ok(nap(rig.a, 1000000));
    check_ok(aorta_timestamp_aside(rig.a, &s[3])); /* of the last */
    assert_int_equal(control()->calls(), 1 + 1 + 2);
    deliver(&rig, rig.a);
    assert_true(s[0] != 0 && s[0] == s[1]);
    assert_true(s[2] >= s[0] && s[3] >= s[2] + 1999000);
    close_stamp_rig(&rig);
}

/* What cannot tell has kernels for its stamps, delivered with the others, so that all are of one line of the clock. A
 * plain timestamp is there when the stream has come to it. */
static void test_stamps_of_what_cannot_tell(void **state) {
    (void)state;
    struct stamp_rig rig = open_deferred();
    const struct aorta_footprint footprint = {.threads = 96, .registers = 40};
    int64_t *s = rig.slots, sum = 0;
    count_launches();
    check_ok(aorta_timestamp_next(rig.a, &s[0]));
    check_ok(queue_add(rig.a, &sum, 1));
    check_ok(aorta_timestamp_aside(rig.a, &s[1]));
    check_ok(aorta_timestamp_next(rig.a, &s[2]));
    check_ok(aorta_timestamp_aside(rig.a, &s[3])); /* nothing between */
    check_ok(aorta_timestamp_room(rig.a, &footprint, &s[4]));
    check_ok(nap(rig.a, 1000));
    check_ok(aorta_timestamp(rig.a, &s[5]));
    check_ok(aorta_timestamp_next(rig.a, &s[6]));
    assert_int_equal(control()->calls(), 2 + 6);
    check_ok(aorta_stream_synchronize(rig.a));
    for (int i = 0; i < 7; i++) assert_int_equal(s[i] != 0, i == 5);
    deliver(&rig, rig.a);
    for (int i = 1; i < 5; i++) assert_true(s[i - 1] && s[i] >= s[i - 1]);
    assert_true(s[6] >= s[4]);
    assert_int_equal(sum, 1);
    close_stamp_rig(&rig);
}

/* Readings of a delivery stay until the next one but one is asked for, whatever is launched meanwhile. */
static void test_deliveries_alternate(void **state) {
    (void)state;
    struct stamp_rig rig = open_deferred();
    _Atomic int *release;
    void *memory;
    check_ok(aorta_pinned_alloc(rig.device, sizeof *release, "release", &memory));
    release = memory;
    *release = 0;
    struct aorta_stream *report = open_stream(rig.device, "report");
    int64_t *s = rig.slots;
    check_ok(nap(rig.a, 1000));
    check_ok(aorta_timestamp_aside(rig.a, &s[0]));
    check_ok(aorta_event_record(rig.join, rig.a));
    check_ok(aorta_stream_wait(report, rig.join));
    check_ok(aorta_gpu_launch(report, &hold_entry, one_block, &(struct hold_args){release}, sizeof(struct hold_args)));
    check_ok(aorta_timestamps_deliver(report, &rig.a, 1));
    check_ok(nap(rig.a, 50000000)); /* the next step runs while the report is late */
    check_ok(aorta_timestamp_aside(rig.a, &s[1]));
    check_ok(aorta_stream_synchronize(rig.a));
    const int64_t after = aorta_device_now_ns(rig.device);
    atomic_store(release, 1);
    check_ok(aorta_timestamps_deliver(report, &rig.a, 1));
    check_ok(aorta_stream_synchronize(report));
    assert_true(s[0] != 0 && s[0] <= after - 40000000);
    assert_true(s[1] >= s[0] + 49000000);
    aorta_stream_destroy(report);
    aorta_pinned_free(rig.device, memory);
    close_stamp_rig(&rig);
}

/* ---- launches that wait ---- */

struct item {
    struct stamp_rig *rig;
    struct aorta_graph *graph;
    struct aorta_event *timed;
    int64_t *sum;
};

static aorta_status do_record(struct item *item) {
    return aorta_event_record(item->rig->fork, item->rig->a);
}
static aorta_status do_record_timed(struct item *item) {
    return aorta_event_record(item->timed, item->rig->a);
}
static aorta_status do_wait(struct item *item) {
    AORTA_TRY(aorta_event_record(item->rig->join, item->rig->b));
    return aorta_stream_wait(item->rig->a, item->rig->join);
}
static aorta_status do_synchronize(struct item *item) {
    return aorta_stream_synchronize(item->rig->a);
}
static aorta_status do_copy(struct item *item) {
    return aorta_copy(item->rig->a, &item->rig->slots[10], &item->rig->slots[11], 8);
}
static aorta_status do_fill(struct item *item) {
    return aorta_fill_bytes(item->rig->a, &item->rig->slots[10], 0, 8);
}
static aorta_status do_call(struct item *item) {
    return aorta_host_call(item->rig->a, no_failure, NULL);
}
static aorta_status do_launch_graph(struct item *item) {
    return aorta_graph_launch(item->graph, item->rig->a);
}
static aorta_status do_capture(struct item *item) {
    struct aorta_graph *graph;
    AORTA_TRY(aorta_capture_begin(item->rig->a));
    AORTA_TRY(nap(item->rig->a, 1));
    AORTA_TRY(aorta_capture_end(item->rig->a, &graph));
    aorta_graph_destroy(graph);
    return NULL;
}
static aorta_status do_ask_handle(struct item *item) {
    return aorta_gpu_stream_handle(item->rig->a) ? NULL : AORTA_ERROR(AORTA_INTERNAL, "no handle");
}
static aorta_status do_ask_idle(struct item *item) {
    aorta_stream_idle(item->rig->a);
    return NULL;
}
static aorta_status do_flush(struct item *item) {
    return aorta_gpu_flush(item->rig->a);
}
static aorta_status do_destroy(struct item *item) {
    aorta_stream_destroy(item->rig->a);
    item->rig->a = NULL;
    return NULL;
}

/* Whatever is asked of a stream finds the kernel launched, and ahead of it. */
static void test_everything_lets_a_launch_go(void **state) {
    (void)state;
    static const struct {
        const char *name;
        aorta_status (*run)(struct item *item);
    } rows[] = {
        {"an event", do_record},
        {"a timed event", do_record_timed},
        {"a wait", do_wait},
        {"the host", do_synchronize},
        {"a copy", do_copy},
        {"a fill", do_fill},
        {"a host call", do_call},
        {"a graph", do_launch_graph},
        {"a capture", do_capture},
        {"its handle", do_ask_handle},
        {"whether it is idle", do_ask_idle},
        {"a flush", do_flush},
        {"its end", do_destroy},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stamp_rig rig = open_deferred();
        int64_t sum = 0;
        struct item item = {.rig = &rig, .sum = &sum};
        check_ok(aorta_event_create(rig.device, &item.timed));
        check_ok(aorta_capture_begin(rig.b));
        check_ok(nap(rig.b, 1));
        check_ok(aorta_capture_end(rig.b, &item.graph));
        count_launches();
        check_ok(queue_telling_add(rig.a, &sum, 1));
        assert_int_equal(control()->calls(), 0);
        check_ok(rows[i].run(&item));
        if (control()->calls() < 1) fail_msg("%s: the launch still waits", rows[i].name);
        if (rig.a) check_ok(aorta_stream_synchronize(rig.a));
        if (sum != 1) fail_msg("%s: the kernel ran %lld times", rows[i].name, (long long)sum);
        aorta_graph_destroy(item.graph);
        aorta_event_destroy(item.timed);
        close_stamp_rig(&rig);
    }
}

static aorta_status add_on_gpu(struct aorta_stream *stream, const void *args) {
    const struct add_args *a = args;
    return queue_telling_add(stream, a->sum, a->value);
}

/* Kernels run in the order of their launches, prepared ones too; one whose arguments are too many to be kept goes at
 * once, behind the one that waits. */
static void test_order(void **state) {
    (void)state;
    static const struct aorta_kernel kernel = {.name = "add", .gpu = add_on_gpu};
    struct stamp_rig rig = open_deferred();
    int64_t sum = 0;
    struct aorta_prepared *prepared;
    const struct add_args args = {&sum, 10};
    check_ok(aorta_launch_prepare(rig.a, &kernel, &args, sizeof args, &prepared));
    for (int i = 0; i < 3; i++) {
        check_ok(queue_telling_add(rig.a, &sum, 1));
        check_ok(aorta_launch_prepared(&prepared, 1));
        check_ok(queue_add(rig.a, &sum, 100));
    }
    check_ok(aorta_stream_synchronize(rig.a));
    assert_int_equal(sum, 333);
    aorta_prepared_destroy(prepared);
    close_stamp_rig(&rig);
}

/* Told where it is found, by the name of the kernel; what follows on the stream does not run. */
static void test_a_launch_that_fails_late(void **state) {
    (void)state;
    struct stamp_rig rig = open_deferred();
    int64_t sum = 0;
    check_ok(queue_telling_add(rig.a, &sum, 1));
    control()->strike("cuLaunchKernel", 1, 719, 0);
    aorta_status status = aorta_event_record(rig.fork, rig.a);
    control()->strike(NULL, 0, 0, 0);
    aorta_status_free(status);
    check_ok(queue_telling_add(rig.a, &sum, 1));
    check_ok(aorta_timestamp_aside(rig.a, &rig.slots[0]));
    check_fails(aorta_stream_synchronize(rig.a), AORTA_DEVICE, "add");
    assert_int_equal(sum, 0);
    close_stamp_rig(&rig);
}

/* Without memory for readings stamps are written as ever. */
static void test_no_memory(void **state) {
    (void)state;
    struct stamp_rig rig = open_deferred();
    control()->strike("cuMemAlloc_v2", 1, 2, 1);
    check_ok(aorta_timestamp_next(rig.a, &rig.slots[0]));
    check_ok(nap(rig.a, 1000));
    check_ok(aorta_timestamp_aside(rig.a, &rig.slots[1]));
    check_ok(aorta_stream_synchronize(rig.a));
    control()->strike(NULL, 0, 0, 0);
    assert_true(rig.slots[0] != 0 && rig.slots[1] >= rig.slots[0]);
    close_stamp_rig(&rig);
}

/* Nor in memory that could not be cleared, then or later. */
static void test_memory_that_is_not_cleared(void **state) {
    (void)state;
    struct stamp_rig rig = open_deferred();
    struct aorta_stream *report = open_stream(rig.device, "report");
    control()->strike("cuMemsetD8Async", 1, 1, 0);
    for (int i = 0; i < 3; i++) {
        int64_t *s = rig.slots;
        const int64_t before = aorta_device_now_ns(rig.device), error = aorta_device_clock_error_ns(rig.device);
        memset(s, 0, 2 * sizeof *s);
        check_ok(aorta_timestamp_next(rig.a, &s[0]));
        check_ok(nap(rig.a, 1000000));
        check_ok(aorta_timestamp_aside(rig.a, &s[1]));
        check_ok(aorta_stream_synchronize(rig.a));
        deliver(&rig, report);
        assert_true(s[0] >= before - error && s[1] >= s[0] && s[1] <= aorta_device_now_ns(rig.device) + error);
    }
    control()->strike(NULL, 0, 0, 0);
    aorta_stream_destroy(report);
    close_stamp_rig(&rig);
}

/* A capture on such a stream is as on any other: the end of the graph delivers. */
static void test_captures(void **state) {
    (void)state;
    struct stamp_rig rig = open_deferred();
    struct aorta_graph *graph;
    int64_t *s = rig.slots;
    check_ok(aorta_capture_begin(rig.a));
    check_ok(aorta_timestamp_next(rig.a, &s[0]));
    check_ok(nap(rig.a, 1000000));
    check_ok(aorta_timestamp_aside(rig.a, &s[1]));
    check_ok(aorta_capture_end(rig.a, &graph));
    check_ok(aorta_graph_launch(graph, rig.a));
    check_ok(aorta_stream_synchronize(rig.a));
    assert_true(s[0] != 0 && s[1] >= s[0] + 999000);
    aorta_graph_destroy(graph);
    close_stamp_rig(&rig);
}

/* The CPU device writes at once. */
static void test_a_device_without(void **state) {
    (void)state;
    struct aorta_device *cpu;
    void *memory;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &cpu));
    assert_false(aorta_device_defers_timestamps(cpu));
    struct aorta_stream *stream = open_stream(cpu, "c");
    check_ok(aorta_pinned_alloc(cpu, sizeof(int64_t), "stamp", &memory));
    int64_t *slot = memory;
    *slot = 0;
    check_ok(aorta_timestamps_defer(stream));
    check_ok(aorta_timestamp_aside(stream, slot));
    check_ok(aorta_stream_synchronize(stream));
    assert_true(*slot != 0);
    check_ok(aorta_timestamps_deliver(stream, &stream, 1));
    aorta_pinned_free(cpu, memory);
    aorta_stream_destroy(stream);
    aorta_device_close(cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_kernels_tell, reset_fake),
        cmocka_unit_test_setup(test_one_kernel_is_asked_again, reset_fake),
        cmocka_unit_test_setup(test_stamps_of_what_cannot_tell, reset_fake),
        cmocka_unit_test_setup(test_deliveries_alternate, reset_fake),
        cmocka_unit_test_setup(test_everything_lets_a_launch_go, reset_fake),
        cmocka_unit_test_setup(test_order, reset_fake),
        cmocka_unit_test_setup(test_a_launch_that_fails_late, reset_fake),
        cmocka_unit_test_setup(test_no_memory, reset_fake),
        cmocka_unit_test_setup(test_memory_that_is_not_cleared, reset_fake),
        cmocka_unit_test_setup(test_captures, reset_fake),
        cmocka_unit_test_setup(test_a_device_without, reset_fake),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
