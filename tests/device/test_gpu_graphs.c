/* The GPU driver on the fake CUDA: what is asked of a capture, and what its graph tells of the kernels in it. */
#include "device/gpu_rig.h"

#include <time.h>

/* ---- priorities ---- */

/* Unless the graph is told so, all of it runs with the priority of the stream it is launched on. */
static void test_kernels_of_graphs_keep_their_priorities(void **state) {
    (void)state;
    static const struct {
        int version;
        unsigned long long flags;
    } rows[] = {{13000, 8}, {11070, 8}, {11060, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        control()->set_version(rows[i].version);
        struct aorta_device *device = open_gpu();
        struct aorta_stream *stream = open_stream(device, "s");
        struct aorta_graph *graph;
        int64_t sum = 0;
        check_ok(aorta_capture_begin(stream));
        check_ok(queue_add(stream, &sum, 1));
        check_ok(aorta_capture_end(stream, &graph));
        assert_int_equal(control()->graph_flags(), rows[i].flags);
        aorta_graph_destroy(graph);
        aorta_stream_destroy(stream);
        aorta_device_close(device);
    }
    control()->set_version(13000);
}

/* ---- footprints ---- */

static const struct fake_shape shapes[] = {
    {.threads = 64, .registers = 255},
    {.threads = 640, .registers = 93, .static_bytes = 1000, .dynamic_bytes = 80000, .cluster = 4},
    {.threads = 512, .registers = 32},
};

static void do_nothing(void *user) {
    (void)user;
}

/* Captures kernels of these shapes and asks what they need. */
static struct aorta_footprint ask(struct aorta_stream *stream, const struct fake_shape *some, size_t count) {
    struct aorta_footprint footprint;
    check_ok(aorta_capture_begin(stream));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(control()->launch_as_kernel(aorta_gpu_stream_handle(stream), &some[i], do_nothing, NULL), 0);
    check_ok(aorta_host_call(stream, no_failure, NULL)); /* a node that is no kernel */
    check_ok(aorta_capture_footprint(stream, &footprint));
    assert_false(aorta_stream_capturing(stream));
    return footprint;
}

/* What the largest kernel needs is told, and a stamp takes as much. */
static void test_a_stamp_takes_the_room_of_a_kernel(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "s");
    struct aorta_graph *graph;
    void *memory;
    check_ok(aorta_pinned_alloc(device, 2 * sizeof(int64_t), "stamps", &memory));
    int64_t *stamps = memory;
    assert_true(aorta_device_tells_footprints(device));
    struct aorta_footprint footprint = ask(stream, shapes, 3);
    assert_int_equal(footprint.threads, 640);
    assert_int_equal(footprint.registers, 93);
    assert_int_equal(footprint.shared_bytes, 81000);
    assert_int_equal(footprint.cluster, 4);
    stamps[0] = stamps[1] = 0;
    int64_t before = aorta_device_now_ns(device);
    check_ok(aorta_timestamp_room(stream, &footprint, &stamps[0]));
    check_ok(aorta_stream_synchronize(stream));
    int64_t after = aorta_device_now_ns(device), error = aorta_device_clock_error_ns(device);
    assert_true(stamps[0] >= before - error && stamps[0] <= after + error);
    /* In a graph it is a kernel like any other: the footprint of the graph is that of the stamp. */
    struct aorta_footprint again;
    check_ok(aorta_capture_begin(stream));
    check_ok(aorta_timestamp_room(stream, &footprint, &stamps[1]));
    check_ok(aorta_capture_footprint(stream, &again));
    assert_int_equal(again.threads, 640);
    assert_int_equal(again.registers, 96);
    assert_int_equal(again.shared_bytes, 81000);
    check_ok(aorta_capture_begin(stream));
    check_ok(aorta_timestamp_room(stream, &footprint, &stamps[1]));
    check_ok(aorta_capture_end(stream, &graph));
    check_ok(aorta_graph_launch(graph, stream));
    check_ok(aorta_stream_synchronize(stream));
    assert_true(stamps[1] >= stamps[0]);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(stream);
    aorta_pinned_free(device, memory);
    aorta_device_close(device);
}

static void test_what_no_stamp_can_take_is_not_known(void **state) {
    (void)state;
    static const struct fake_shape too_much = {.threads = 64, .registers = 32, .dynamic_bytes = 300000};
    static const struct fake_shape far_too_many = {.threads = 64, .registers = 32, .cluster = 16};
    static const char *const symbols[] = {"cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphKernelNodeGetParams_v2",
                                          "cuFuncGetAttribute", "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "s");
    int64_t stamp = 0;
    assert_int_equal(ask(stream, NULL, 0).threads, 0);
    assert_int_equal(ask(stream, &too_much, 1).threads, 0);
    assert_int_equal(ask(stream, &far_too_many, 1).threads, 0);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        control()->strike(symbols[i], 1, 1, 1);
        assert_int_equal(ask(stream, shapes, 3).threads, 0);
    }
    control()->strike(NULL, 0, 0, 0);
    assert_int_equal(ask(stream, shapes, 3).threads, 640);
    /* A plain stamp then, and where a launch is refused the stream says so. */
    check_ok(aorta_timestamp_room(stream, &(struct aorta_footprint){0}, &stamp));
    check_ok(aorta_stream_synchronize(stream));
    assert_true(stamp != 0);
    control()->strike("cuLaunchKernelEx", 1, 701, 0);
    check_ok(aorta_timestamp_room(stream, &(struct aorta_footprint){640, 96, 1024, 4}, &stamp));
    check_fails(aorta_stream_synchronize(stream), AORTA_DEVICE, "kernel aorta_stamp_room_96 (640 threads, 1024 bytes");
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

/* A block that would be too large takes what a block can have. */
static void test_registers_are_chosen(void **state) {
    (void)state;
    static const struct {
        uint32_t threads, registers, taken;
    } rows[] = {{1024, 64, 64}, {1024, 60, 64}, {640, 97, 96}, {32, 255, 255}, {512, 10, 32}, {256, 129, 168}};
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "s");
    int64_t stamp;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_footprint wanted = {.threads = rows[i].threads, .registers = rows[i].registers}, taken;
        check_ok(aorta_capture_begin(stream));
        check_ok(aorta_timestamp_room(stream, &wanted, &stamp));
        check_ok(aorta_capture_footprint(stream, &taken));
        assert_int_equal(taken.threads, rows[i].threads);
        assert_int_equal(taken.registers, rows[i].taken);
    }
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

/* ---- kernels that others launch ---- */

static void sleep_a_while(void *user) {
    (void)user;
    nanosleep(&(struct timespec){0, 4000000}, NULL);
}

static aorta_status launch_library(struct aorta_stream *stream) {
    assert_int_equal(control()->launch_as_kernel(aorta_gpu_stream_handle(stream), &shapes[1], sleep_a_while, NULL), 0);
    return NULL;
}

/* Both ends of a library's kernel, whatever follows it on its stream. */
static void test_a_kernel_of_a_library_is_witnessed(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a");
    struct aorta_graph *graph;
    void *memory;
    check_ok(aorta_pinned_alloc(device, 3 * sizeof(int64_t), "stamps", &memory));
    int64_t *stamps = memory, *sum = stamps + 2;
    *sum = 0;
    assert_true(aorta_device_witnesses(device));
    check_ok(aorta_capture_begin(a));
    check_ok(launch_library(a));
    check_ok(aorta_witness(a, &stamps[0], &stamps[1]));
    check_ok(queue_add(a, sum, 1));
    check_ok(aorta_capture_end(a, &graph));
    for (int run = 0; run < 2; run++) {
        stamps[0] = stamps[1] = 0;
        check_ok(aorta_graph_launch(graph, a));
        check_ok(aorta_stream_synchronize(a));
        assert_true(stamps[0] > 0);
        assert_true(stamps[1] - stamps[0] >= 4000000);
        assert_int_equal(*sum, run + 1);
    }
    aorta_graph_destroy(graph);
    aorta_stream_destroy(a);
    aorta_pinned_free(device, memory);
    aorta_device_close(device);
}

/* The kernel that ends the graph turns readings into times: it must come behind all who leave one. */
static void test_the_end_comes_behind_every_timestamp(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a");
    struct aorta_graph *graph;
    void *memory;
    check_ok(aorta_pinned_alloc(device, 8 * sizeof(int64_t), "stamps", &memory));
    int64_t *stamps = memory, *sum = stamps + 7;
    *sum = 0;
    check_ok(aorta_capture_begin(a));
    for (int i = 0; i < 2; i++) {
        check_ok(launch_library(a));
        check_ok(aorta_witness(a, &stamps[3 * i], &stamps[3 * i + 1]));
        check_ok(queue_add(a, sum, 1));
        check_ok(aorta_timestamp_aside(a, &stamps[3 * i + 2]));
        check_ok(queue_add(a, sum, 1));
    }
    check_ok(aorta_capture_end(a, &graph));
    assert_int_equal(control()->graph_leaves(), 1);
    memset(stamps, 0, 6 * sizeof *stamps);
    check_ok(aorta_graph_launch(graph, a));
    check_ok(aorta_stream_synchronize(a));
    for (int i = 0; i < 6; i++) assert_true(stamps[i] > 0);
    for (int i = 0; i < 6; i += 3) assert_true(stamps[i + 1] - stamps[i] >= 4000000);
    assert_int_equal(*sum, 4);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(a);
    aorta_pinned_free(device, memory);
    aorta_device_close(device);
}

static void test_only_kernels_of_captures_are_witnessed(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a");
    struct aorta_graph *graph;
    int64_t begin, end, sum = 0;
    check_fails(aorta_witness(a, &begin, &end), AORTA_INTERNAL, "stream a is not captured");
    check_ok(aorta_capture_begin(a));
    check_ok(aorta_host_call(a, no_failure, NULL));
    check_fails(aorta_witness(a, &begin, &end), AORTA_DEVICE, "stream a: what was queued last is no kernel");
    check_fails(aorta_capture_end(a, &graph), AORTA_DEVICE, "broken");
    check_ok(aorta_capture_begin(a));
    check_fails(aorta_witness(a, &begin, &end), AORTA_DEVICE, "behind 0 kernels");
    check_fails(aorta_capture_end(a, &graph), AORTA_DEVICE, "broken");
    control()->strike("cuStreamUpdateCaptureDependencies_v2", 1, 1, 0);
    check_ok(aorta_capture_begin(a));
    check_ok(queue_add(a, &sum, 1));
    check_ok(aorta_witness(a, &begin, &end));
    check_fails(aorta_capture_end(a, &graph), AORTA_DEVICE, "timestamps, behind a place of a capture");
    control()->strike(NULL, 0, 0, 0);
    aorta_stream_destroy(a);
    aorta_device_close(device);
    struct aorta_device *cpu;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &cpu));
    a = open_stream(cpu, "a");
    assert_false(aorta_device_witnesses(cpu));
    check_fails(aorta_witness(a, &begin, &end), AORTA_INTERNAL, "cannot tell when a kernel begins");
    aorta_stream_destroy(a);
    aorta_device_close(cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_kernels_of_graphs_keep_their_priorities, reset_fake),
        cmocka_unit_test_setup(test_a_stamp_takes_the_room_of_a_kernel, reset_fake),
        cmocka_unit_test_setup(test_what_no_stamp_can_take_is_not_known, reset_fake),
        cmocka_unit_test_setup(test_registers_are_chosen, reset_fake),
        cmocka_unit_test_setup(test_a_kernel_of_a_library_is_witnessed, reset_fake),
        cmocka_unit_test_setup(test_the_end_comes_behind_every_timestamp, reset_fake),
        cmocka_unit_test_setup(test_only_kernels_of_captures_are_witnessed, reset_fake),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
