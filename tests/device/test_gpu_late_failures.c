/* The GPU driver on the fake CUDA, and failures that are known only once the device has reached them: notes of kernels
 * and results of host calls. Only waits for that work get them. */
#include "device/gpu_rig.h"

#include <stdatomic.h>
#include <unistd.h>

/* ---- notes of kernels ---- */

/* A note in pinned memory as kernels leave it: the sum, when it is not 0. */
static aorta_status read_sum(void *user) {
    const int64_t met = __atomic_exchange_n((int64_t *)user, 0, __ATOMIC_RELAXED);
    return met ? AORTA_ERROR(AORTA_DEVICE, "a sum of %lld", (long long)met) : NULL;
}

static void test_notes_of_kernels_reach_whoever_waits(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a"), *b = open_stream(device, "b"), *c = open_stream(device, "c");
    struct aorta_event *event;
    void *pinned;
    check_ok(aorta_event_create(device, &event));
    check_ok(aorta_pinned_alloc(device, sizeof(int64_t), "sum", &pinned));
    int64_t *sum = pinned;
    *sum = 0;
    for (int i = 0; i < 2; i++) check_ok(aorta_gpu_note(a, read_sum, sum));
    check_ok(aorta_event_record(event, a));
    check_ok(aorta_stream_wait(b, event));
    check_ok(aorta_stream_synchronize(a));
    check_ok(aorta_stream_synchronize(b));
    check_ok(queue_add(a, sum, 7));
    check_ok(aorta_event_record(event, a));
    check_ok(aorta_stream_wait(b, event));
    check_fails(aorta_stream_synchronize(b), AORTA_DEVICE, "stream a: a sum of 7");
    assert_int_equal(*sum, 0);
    check_fails(aorta_event_synchronize(event), AORTA_DEVICE, "stream a: a sum of 7");
    check_fails(aorta_stream_synchronize(a), AORTA_DEVICE, "stream a: a sum of 7");
    check_ok(aorta_stream_synchronize(c));
    check_ok(aorta_stream_wait(c, event));
    check_fails(aorta_stream_synchronize(c), AORTA_DEVICE, "stream a: a sum of 7");
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_stream_destroy(c);
    aorta_event_destroy(event);
    aorta_pinned_free(device, sum);
    aorta_device_close(device);
}

static void test_notes_of_graphs_are_their_launchers(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a"), *b = open_stream(device, "b");
    struct aorta_graph *graph;
    void *pinned;
    check_ok(aorta_pinned_alloc(device, sizeof(int64_t), "sum", &pinned));
    int64_t *sum = pinned;
    *sum = 0;
    check_ok(aorta_capture_begin(a));
    check_ok(queue_add(a, sum, 5));
    check_ok(aorta_gpu_note(a, read_sum, sum));
    check_ok(aorta_capture_end(a, &graph));
    assert_int_equal(aorta_graph_node_count(graph), 1); /* nothing that the host would have to run */
    check_ok(aorta_graph_launch(graph, b));
    check_ok(aorta_stream_synchronize(a));
    check_fails(aorta_stream_synchronize(b), AORTA_DEVICE, "stream a: a sum of 5");
    aorta_graph_destroy(graph);
    check_fails(aorta_stream_synchronize(b), AORTA_DEVICE, "stream a: a sum of 5");
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_pinned_free(device, sum);
    aorta_device_close(device);
}

/* ---- host calls whose failure comes late ---- */

struct late {
    _Atomic int release;
};

static aorta_status fail_when_released(void *user) {
    struct late *late = user;
    while (!atomic_load(&late->release)) usleep(100);
    return AORTA_ERROR(AORTA_IO, "the disk is gone");
}

static void test_a_late_failure_goes_where_events_lead(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a"), *b = open_stream(device, "b"), *c = open_stream(device, "c");
    struct aorta_event *before, *behind;
    struct late late = {0};
    check_ok(aorta_event_create(device, &before));
    check_ok(aorta_event_create(device, &behind));
    check_ok(aorta_host_call(a, no_failure, NULL));
    check_ok(aorta_event_record(before, a));
    check_ok(aorta_host_call(a, fail_when_released, &late));
    check_ok(aorta_event_record(behind, a));
    check_ok(aorta_stream_wait(b, behind));
    check_ok(aorta_stream_wait(c, before));
    check_ok(aorta_event_record(before, c));
    atomic_store(&late.release, 1);
    check_fails(aorta_stream_synchronize(b), AORTA_IO, "stream a: host call: the disk is gone");
    check_fails(aorta_event_synchronize(behind), AORTA_IO, "the disk is gone");
    check_ok(aorta_event_synchronize(before));
    check_ok(aorta_stream_synchronize(c));
    check_ok(aorta_stream_wait(c, behind)); /* reached, and failed */
    check_fails(aorta_stream_synchronize(c), AORTA_IO, "the disk is gone");
    check_fails(aorta_stream_synchronize(a), AORTA_IO, "the disk is gone");
    aorta_stream_destroy(a);
    check_fails(aorta_event_synchronize(behind), AORTA_IO, "the disk is gone"); /* the stream itself is gone */
    aorta_stream_destroy(b);
    aorta_stream_destroy(c);
    aorta_event_destroy(before);
    aorta_event_destroy(behind);
    aorta_device_close(device);
}

/* A wait for work after calls that have ended queues no call: it would delay its stream, and every stream that waits
 * for that one. A call is queued only while another is running. */
static void test_ended_calls_are_not_asked_again(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a"), *b = open_stream(device, "b");
    struct aorta_event *event;
    _Atomic int release = 0;
    struct late late = {0};
    const struct hold_args args = {&release};
    check_ok(aorta_event_create_untimed(device, &event));
    check_ok(aorta_host_call(a, no_failure, NULL));
    check_ok(aorta_stream_synchronize(a));
    check_ok(aorta_gpu_launch(a, &hold_entry, one_block, &args, sizeof args)); /* so that the event is not reached */
    check_ok(aorta_event_record(event, a));
    control()->strike("cuLaunchHostFunc", 1, 2, 1);
    check_ok(aorta_stream_wait(b, event));
    assert_string_equal(control()->failed(), "");
    control()->strike(NULL, 0, 0, 0);
    atomic_store(&release, 1);
    check_ok(aorta_stream_synchronize(b));
    check_ok(aorta_stream_synchronize(a));

    check_ok(aorta_host_call(a, fail_when_released, &late));
    check_ok(aorta_event_record(event, a));
    control()->strike("cuLaunchHostFunc", 0, 0, 0);
    check_ok(aorta_stream_wait(b, event));
    assert_int_equal(control()->calls(), 1);
    atomic_store(&late.release, 1);
    check_fails(aorta_stream_synchronize(b), AORTA_IO, "the disk is gone");
    check_fails(aorta_stream_synchronize(a), AORTA_IO, "the disk is gone");
    check_ok(aorta_event_record(event, a));
    control()->strike(NULL, 0, 0, 0);
    aorta_stream_destroy(b);
    b = open_stream(device, "b");
    check_ok(aorta_stream_wait(b, event)); /* the call has ended, and had failed */
    check_fails(aorta_stream_synchronize(b), AORTA_IO, "the disk is gone");
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_event_destroy(event);
    aorta_device_close(device);
}

/* A graph's calls run after the one that begins its run: waiting streams wait for that run before they ask. */
static void test_a_graphs_late_failure_goes_where_events_lead(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a"), *b = open_stream(device, "b");
    struct aorta_event *event;
    struct aorta_graph *graph;
    struct late late = {1};
    check_ok(aorta_event_create_untimed(device, &event));
    check_ok(aorta_capture_begin(a));
    check_ok(aorta_host_call(a, no_failure, NULL));
    check_ok(aorta_capture_end(a, &graph));
    check_ok(aorta_graph_launch(graph, a));
    check_ok(aorta_stream_synchronize(a));
    check_ok(aorta_event_record(event, a));
    control()->strike("cuLaunchHostFunc", 0, 0, 0);
    check_ok(aorta_stream_wait(b, event));
    assert_int_equal(control()->calls(), 0);
    aorta_graph_destroy(graph);

    atomic_store(&late.release, 0);
    check_ok(aorta_capture_begin(a));
    check_ok(aorta_host_call(a, fail_when_released, &late));
    check_ok(aorta_capture_end(a, &graph));
    check_ok(aorta_graph_launch(graph, a));
    check_ok(aorta_event_record(event, a));
    usleep(2000); /* so that the call that begins the run has ended */
    check_ok(aorta_stream_wait(b, event));
    atomic_store(&late.release, 1);
    check_fails(aorta_stream_synchronize(b), AORTA_IO, "the disk is gone");
    check_fails(aorta_stream_synchronize(a), AORTA_IO, "the disk is gone");
    control()->strike(NULL, 0, 0, 0);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_event_destroy(event);
    aorta_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_notes_of_kernels_reach_whoever_waits, reset_fake),
        cmocka_unit_test_setup(test_notes_of_graphs_are_their_launchers, reset_fake),
        cmocka_unit_test_setup(test_a_late_failure_goes_where_events_lead, reset_fake),
        cmocka_unit_test_setup(test_ended_calls_are_not_asked_again, reset_fake),
        cmocka_unit_test_setup(test_a_graphs_late_failure_goes_where_events_lead, reset_fake),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
