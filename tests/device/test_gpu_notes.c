/* The GPU driver on the fake CUDA, and notes of kernels: failures that only waits for the kernels get. */
#include "device/gpu_rig.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_notes_of_kernels_reach_whoever_waits, reset_fake),
        cmocka_unit_test_setup(test_notes_of_graphs_are_their_launchers, reset_fake),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
