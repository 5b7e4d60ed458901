/* The GPU driver on the fake CUDA: how graphs are made of captures. */
#include "device/gpu_rig.h"

/* ---- priorities ---- */

/* Without a flag of the graph, all of it runs with the priority of the stream it is launched on. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_kernels_of_graphs_keep_their_priorities, reset_fake),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
