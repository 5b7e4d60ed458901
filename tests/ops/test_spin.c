/* Kernels of a given duration that stamp themselves. */
#include "rig.h"

#include "base/clock.h"

static int64_t *make_stamps(struct rig *rig, size_t count) {
    void *memory;
    check_ok(aorta_pinned_alloc(rig->device, count * sizeof(int64_t), "stamps", &memory));
    memset(memory, 0, count * sizeof(int64_t));
    return memory;
}

static void lasts_as_long_as_asked(void **state) {
    struct rig *rig = *state;
    static const int64_t durations_ns[] = {0, 50000, 2000000};
    int64_t *stamps = make_stamps(rig, 2);
    for (size_t i = 0; i < sizeof durations_ns / sizeof *durations_ns; i++) {
        int64_t before = aorta_clock_ns();
        check_ok(aorta_spin(rig->stream, durations_ns[i], stamps));
        check_ok(aorta_stream_synchronize(rig->stream));
        int64_t after = aorta_clock_ns(), spent = stamps[1] - stamps[0];
        int64_t error = aorta_device_clock_error_ns(rig->device);
        /* The durations may be off by the slew of the clock, and a tick may be missing. */
        assert_true(spent >= durations_ns[i] - 1000 - durations_ns[i] / 4000);
        assert_true(stamps[0] >= before - error && stamps[1] <= after + error);
    }
    aorta_pinned_free(rig->device, stamps);
}

/* Spins run in order, with or without stamps. */
static void is_ordered(void **state) {
    struct rig *rig = *state;
    int64_t *stamps = make_stamps(rig, 4);
    check_ok(aorta_spin(rig->stream, 300000, stamps));
    check_ok(aorta_spin(rig->stream, 1000, NULL));
    check_ok(aorta_spin(rig->stream, 0, stamps + 2));
    check_ok(aorta_stream_synchronize(rig->stream));
    assert_true(stamps[0] < stamps[1] && stamps[1] <= stamps[2] && stamps[2] <= stamps[3]);
    aorta_pinned_free(rig->device, stamps);
}

/* As many spins as streams, on any number of processors: spinning uses none on the CPU device. */
static void streams_spin_side_by_side(void **state) {
    enum { STREAMS = 8 };
    struct rig *rig = *state;
    struct aorta_stream *streams[STREAMS];
    int64_t *stamps = make_stamps(rig, 2 * STREAMS), begin = INT64_MAX, end = INT64_MIN;
    for (int i = 0; i < STREAMS; i++)
        check_ok(aorta_stream_create(rig->device, "spin", AORTA_PRIORITY_NORMAL, &streams[i]));
    for (int i = 0; i < STREAMS; i++) check_ok(aorta_spin(streams[i], 20000000, stamps + 2 * (ptrdiff_t)i));
    for (int i = 0; i < STREAMS; i++) {
        check_ok(aorta_stream_synchronize(streams[i]));
        if (stamps[2 * i] < begin) begin = stamps[2 * i];
        if (stamps[2 * i + 1] > end) end = stamps[2 * i + 1];
    }
    assert_true(end - begin < (int64_t)STREAMS * 20000000 / 2);
    for (int i = 0; i < STREAMS; i++) aorta_stream_destroy(streams[i]);
    aorta_pinned_free(rig->device, stamps);
}

static void nothing(void *user) {
    (void)user;
}

/* Spins around kernels of a graph: the kernels' own stamps are within. */
static void is_stamped_in_graphs(void **state) {
    struct rig *rig = *state;
    int64_t *stamps = make_stamps(rig, 9);
    struct aorta_graph *graph;
    check_ok(aorta_spin(rig->stream, 0, stamps)); /* so that the capture finds it loaded */
    check_ok(aorta_stream_synchronize(rig->stream));
    check_ok(aorta_capture_begin(rig->stream));
    check_ok(aorta_timestamp(rig->stream, &stamps[0]));
    check_ok(aorta_spin(rig->stream, 300000, &stamps[1]));
    check_ok(aorta_timestamp(rig->stream, &stamps[3]));
    check_ok(aorta_host_call(rig->stream, nothing, NULL));
    check_ok(aorta_timestamp(rig->stream, &stamps[4]));
    check_ok(aorta_spin(rig->stream, 300000, &stamps[5]));
    check_ok(aorta_spin(rig->stream, 100000, &stamps[7]));
    check_ok(aorta_capture_end(rig->stream, &graph));
    for (int run = 0; run < 3; run++) {
        memset(stamps, 0, 9 * sizeof *stamps);
        check_ok(aorta_graph_launch(graph, rig->stream));
        check_ok(aorta_stream_synchronize(rig->stream));
        const int64_t tick = aorta_device_get_info(rig->device)->timestamp_tick, error = 1000 + 2 * tick;
        for (int i = 1; i < 9; i++)
            if (stamps[i] < stamps[i - 1] - error)
                fail_msg("stamp %d is %lld ns before stamp %d", i, (long long)(stamps[i - 1] - stamps[i]), i - 1);
        assert_true(stamps[0] != 0 && stamps[8] > stamps[0] + 700000);
    }
    aorta_graph_destroy(graph);
    aorta_pinned_free(rig->device, stamps);
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    check_fails(aorta_spin(rig->stream, -1, NULL), AORTA_INTERNAL, "spin: duration_ns");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        rig_test(lasts_as_long_as_asked), rig_test(is_ordered),      rig_test(streams_spin_side_by_side),
        rig_test(is_stamped_in_graphs),   rig_test(wrong_arguments),
    };
    return rig_run_tests("spinning", tests);
}
