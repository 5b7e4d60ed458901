/* The GPU driver on the fake CUDA whose calls fail: what is returned, and that nothing leaks. */
#include "device/gpu_rig.h"

#include <stdlib.h>

/* ---- everything fails once: no crash, no leak, and the message names the vendor's error ---- */

struct things {
    struct aorta_stream *a, *b;
    struct aorta_event *event, *joined;
    struct aorta_graph *graph;
    int64_t *sum, *device_sum, *stamp;
};

static aorta_status make_things(struct aorta_device *device, struct things *t) {
    void *pinned, *memory;
    AORTA_TRY(aorta_stream_create(device, "a", AORTA_PRIORITY_LOW, &t->a));
    AORTA_TRY(aorta_stream_create(device, "b", AORTA_PRIORITY_NORMAL, &t->b));
    AORTA_TRY(aorta_stream_limit(t->b, 0.5, 0));
    AORTA_TRY(aorta_event_create(device, &t->event));
    AORTA_TRY(aorta_event_create(device, &t->joined));
    AORTA_TRY(aorta_pinned_alloc(device, 64, "sums", &pinned));
    memset(pinned, 0, 64);
    t->sum = pinned;
    t->stamp = t->sum + 1;
    AORTA_TRY(aorta_device_alloc(device, 64, "device sums", &memory));
    t->device_sum = memory;
    return NULL;
}

static aorta_status queue_all(struct things *t) {
    AORTA_TRY(aorta_timestamp(t->a, t->stamp));
    AORTA_TRY(queue_add(t->a, t->sum, 1));
    AORTA_TRY(aorta_fill_bytes(t->a, t->stamp + 1, 0, 1));
    AORTA_TRY(aorta_timestamp(t->a, t->stamp + 2));
    AORTA_TRY(aorta_event_record(t->event, t->a));
    AORTA_TRY(aorta_stream_wait(t->b, t->event));
    AORTA_TRY(aorta_copy(t->b, t->device_sum, t->sum, sizeof *t->sum));
    AORTA_TRY(aorta_fill_bytes(t->b, t->device_sum, 0, sizeof *t->sum));
    AORTA_TRY(aorta_host_call(t->b, do_nothing, NULL));
    AORTA_TRY(aorta_gpu_note(t->b, no_failure, t->sum));
    AORTA_TRY(aorta_event_record(t->joined, t->b));
    return aorta_stream_wait(t->a, t->joined);
}

static aorta_status run_all(struct things *t) {
    AORTA_TRY(queue_all(t));
    AORTA_TRY(aorta_stream_synchronize(t->a));
    AORTA_TRY(aorta_event_synchronize(t->event));
    AORTA_TRY(aorta_capture_begin(t->a));
    aorta_status status = queue_all(t), ended = aorta_capture_end(t->a, &t->graph);
    status = aorta_status_join(status, ended);
    if (status) return status;
    AORTA_TRY(aorta_graph_launch(t->graph, t->b));
    AORTA_TRY(aorta_graph_launch(t->graph, t->a));
    AORTA_TRY(aorta_stream_synchronize(t->b));
    return aorta_stream_synchronize(t->a);
}

static aorta_status use_everything(struct aorta_device *device) {
    struct things t = {0};
    aorta_status status = make_things(device, &t);
    if (!status) status = run_all(&t);
    aorta_stream_destroy(t.a);
    aorta_stream_destroy(t.b);
    aorta_event_destroy(t.event);
    aorta_event_destroy(t.joined);
    aorta_graph_destroy(t.graph);
    aorta_pinned_free(device, t.sum);
    aorta_device_free(device, t.device_sum);
    return status;
}

static aorta_status open_and_use(void) {
    struct aorta_device *device;
    AORTA_TRY(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device));
    aorta_status status = use_everything(device);
    aorta_device_close(device);
    return status;
}

/* Everything is used while the nth call of `symbol` fails. False when that call was not reached: a busy machine reads
 * the device's clock more often, so the number of calls is not the same each time. */
static bool use_with_failure(const char *symbol, int nth, int code, int lasting, char failed[64],
                             aorta_status *status) {
    control()->strike(symbol, nth, code, lasting);
    *status = open_and_use();
    snprintf(failed, 64, "%s", control()->failed());
    control()->strike(NULL, 0, 0, 0);
    return *failed;
}

static void fail_each_call(int code, enum aorta_code expected, const char *name) {
    int nth = 1, silent = 0;
    char failed[64];
    aorta_status status;
    for (; use_with_failure("*", nth, code, 0, failed, &status); nth++) {
        if (!status) { /* closing, the clock's care, and what is only asked */
            silent++;
            continue;
        }
        bool named = strstr(aorta_status_message(status), name) != NULL;
        bool coded = aorta_status_code(status) == expected || aorta_status_code(status) == AORTA_UNSUPPORTED;
        if (!coded || (!named && expected != AORTA_MEMORY))
            fail_msg("call %d, %s: %s", nth, failed, aorta_status_message(status));
        aorta_status_free(status);
    }
    check_ok(status);
    assert_true(nth > 100);
    assert_true(silent < nth / 2);
}

/* Such a launch never returns: the kernel waits for the host, which waits in the launch. */
static void test_blocking_launches_are_refused(void **state) {
    (void)state;
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    check_fails(open_and_use(), AORTA_CONFIG, "CUDA_LAUNCH_BLOCKING=1 makes each launch wait for its kernel");
    setenv("CUDA_LAUNCH_BLOCKING", "0", 1);
    check_ok(open_and_use());
    unsetenv("CUDA_LAUNCH_BLOCKING");
}

static void test_every_call_may_fail(void **state) {
    (void)state;
    fail_each_call(700, AORTA_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS");
    fail_each_call(2, AORTA_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
}

/* The device is lost at each call in turn, and stays lost. */
static void test_the_device_may_be_lost_at_any_call(void **state) {
    (void)state;
    int nth = 1, silent = 0;
    char failed[64];
    aorta_status status;
    for (; use_with_failure("cuLaunchKernel", nth, 719, 1, failed, &status); nth++) {
        if (!status) { /* a launch of the clock's care */
            silent++;
            continue;
        }
        assert_int_equal(aorta_status_code(status), AORTA_DEVICE);
        aorta_status_free(status);
    }
    check_ok(status);
    assert_true(nth > 8);
    assert_true(silent < nth / 2);
}

/* Memory is not given back while a fill that nobody waited for, since the waiting failed, may still write it. */
static void test_what_is_still_being_filled_is_not_freed(void **state) {
    (void)state;
    int nth = 1;
    char failed[64];
    aorta_status status;
    control()->set_fill_rate(100);
    for (; use_with_failure("cuStreamSynchronize", nth, 2, 0, failed, &status); nth++) aorta_status_free(status);
    check_ok(status);
    assert_true(nth > 4);
}

/* ---- failures on streams ---- */

static void test_a_lost_device_fails_the_stream_for_good(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "struck");
    void *sum;
    check_ok(aorta_pinned_alloc(device, sizeof(int64_t), "sum", &sum));
    check_ok(queue_add(stream, sum, 1));
    control()->strike("cuStreamSynchronize", 1, 700, 0);
    aorta_status status = aorta_stream_synchronize(stream);
    assert_int_equal(aorta_status_code(status), AORTA_DEVICE);
    const char *const parts[] = {"struck", "CUDA_ERROR_ILLEGAL_ADDRESS", "text of error 700",
                                 "last kernel launched add"};
    for (size_t i = 0; i < 4; i++) assert_non_null(strstr(aorta_status_message(status), parts[i]));
    aorta_status_free(status);
    check_fails(aorta_stream_synchronize(stream), AORTA_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS");
    check_ok(queue_add(stream, sum, 1)); /* skipped */
    aorta_stream_destroy(stream);
    aorta_pinned_free(device, sum);
    aorta_device_close(device);
}

static aorta_status launch_far_too_large(struct aorta_stream *stream, const void *args) {
    struct aorta_gpu_grid grid = {.blocks = {1}, .threads = {4096}};
    return aorta_gpu_launch(stream, &add_entry, grid, args, sizeof(struct add_args));
}

static void test_a_refused_launch_is_reported_at_the_next_wait(void **state) {
    (void)state;
    static const struct aorta_kernel kernel = {.name = "oversized", .gpu = launch_far_too_large};
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "narrow");
    struct add_args args = {NULL, 1};
    check_ok(aorta_launch(stream, &kernel, &args, sizeof args));
    aorta_status status = aorta_stream_synchronize(stream);
    const char *const parts[] = {"narrow", "oversized", "4096 x 1 x 1 threads", "CUDA_ERROR_INVALID_VALUE"};
    for (size_t i = 0; i < 4; i++)
        if (!strstr(aorta_status_message(status), parts[i])) fail_msg("%s", aorta_status_message(status));
    aorta_status_free(status);
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

static const struct aorta_gpu_source broken_source = {"broken.cu", "#error"};
static const struct aorta_gpu_entry absent_entry = {&rig_source, "absent"}, broken_entry = {&broken_source, "broken"};

static void test_wrong_arguments_and_entries_are_refused(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "s");
    int64_t small = 0;
    check_fails(aorta_gpu_launch(stream, &add_entry, one_block, &small, sizeof small), AORTA_INTERNAL,
                "takes 16 bytes of arguments and is given 8");
    check_fails(aorta_gpu_launch(stream, &absent_entry, one_block, NULL, 0), AORTA_DEVICE, "kernel absent");
    check_fails(aorta_gpu_prepare(device, &broken_entry), AORTA_DEVICE, "as the source wants it");
    struct aorta_gpu_grid wide = {.blocks = {1}, .shared_bytes = 1 << 20};
    struct add_args args = {&small, 1};
    check_fails(aorta_gpu_launch(stream, &add_entry, wide, &args, sizeof args), AORTA_DEVICE, "shared memory");
    wide.shared_bytes = 100000;
    control()->strike("cuFuncSetAttribute", 0, 0, 0);
    for (int i = 0; i < 3; i++) check_ok(aorta_gpu_launch(stream, &add_entry, wide, &args, sizeof args));
    assert_int_equal(control()->calls(), 1);                                                        /* asked for once */
    check_ok(aorta_gpu_launch(stream, &add_entry, (struct aorta_gpu_grid){0}, &args, sizeof args)); /* nothing to do */
    check_ok(aorta_stream_synchronize(stream));
    assert_int_equal(small, 3);
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

/* A stream whose work never ends is not waited for once somebody gave the device up. */
static void test_a_device_given_up_is_not_waited_for(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "hung");
    void *memory;
    check_ok(aorta_device_alloc(device, 1024, "memory", &memory));
    check_ok(aorta_host_call(stream, do_nothing, NULL));
    check_ok(aorta_stream_synchronize(stream));
    aorta_device_fail(device, AORTA_ERROR(AORTA_COMM, "rank 1 is dead"));
    check_fails(aorta_stream_synchronize(stream), AORTA_COMM, "rank 1 is dead");
    control()->strike("*", 0, 0, 0);
    aorta_device_free(device, memory);
    control()->strike("cuStreamSynchronize", 0, 0, 0);
    aorta_stream_destroy(stream);
    assert_int_equal(control()->calls(), 0);
    control()->strike("cuMemFree_v2", 0, 0, 0);
    aorta_device_close(device);
    assert_int_equal(control()->calls(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_blocking_launches_are_refused, reset_fake),
        cmocka_unit_test_setup(test_every_call_may_fail, reset_fake),
        cmocka_unit_test_setup(test_the_device_may_be_lost_at_any_call, reset_fake),
        cmocka_unit_test_setup(test_what_is_still_being_filled_is_not_freed, reset_fake),
        cmocka_unit_test_setup(test_a_lost_device_fails_the_stream_for_good, reset_fake),
        cmocka_unit_test_setup(test_a_refused_launch_is_reported_at_the_next_wait, reset_fake),
        cmocka_unit_test_setup(test_wrong_arguments_and_entries_are_refused, reset_fake),
        /* The last one, since it leaves the fake with memory in use: */
        cmocka_unit_test_setup(test_a_device_given_up_is_not_waited_for, reset_fake),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
