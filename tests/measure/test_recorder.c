#include "base/clock.h"
#include "check.h"
#include "measure/metrics.h"
#include "measure/recorder.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

struct fixture {
    struct aorta_device *device;
    struct aorta_stream *compute, *comm;
    struct aorta_recorder *recorder;
};

static struct fixture open_fixture(size_t ranges) {
    struct fixture f;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &f.device));
    check_ok(aorta_stream_create(f.device, "compute", AORTA_PRIORITY_NORMAL, &f.compute));
    check_ok(aorta_stream_create(f.device, "comm", AORTA_PRIORITY_HIGH, &f.comm));
    check_ok(aorta_recorder_create(f.device, 2, ranges, &f.recorder));
    return f;
}

static void close_fixture(struct fixture *f) {
    aorta_stream_destroy(f->compute);
    aorta_stream_destroy(f->comm);
    aorta_recorder_destroy(f->recorder);
    aorta_device_close(f->device);
}

enum { NAP_NS = 10000000 }; /* several of them: more than a busy machine keeps a thread from running */

static void nap(void *user) {
    (void)user;
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static void record(struct fixture *f, struct aorta_stream *stream, const struct aorta_range_info *info) {
    check_ok(aorta_range_begin(f->recorder, stream, info));
    check_ok(aorta_host_call(stream, nap, NULL));
    check_ok(aorta_range_end(f->recorder));
}

static const struct aorta_range_info linear = {
    .tag = "layer.0", .function = "linear_forward", .role = AORTA_ROLE_COMPUTE, .flops = 4};
static const struct aorta_range_info gather = {.tag = "layer.1",
                                               .function = "all_gather",
                                               .role = AORTA_ROLE_AUX,
                                               .kind = AORTA_RANGE_COLLECTIVE,
                                               .collective = AORTA_ALL_GATHER,
                                               .group_size = 2,
                                               .layer = 1,
                                               .bytes = 64};

static void synchronize(struct fixture *f) {
    check_ok(aorta_stream_synchronize(f->compute));
    check_ok(aorta_stream_synchronize(f->comm));
}

/* Ranges cover what ran between their stamps, launches date from the host, streams and sequences are numbered. */
static void records_ranges(void **state) {
    (void)state;
    struct fixture f = open_fixture(16);
    aorta_recorder_step(f.recorder, 0, 41);
    int64_t before = aorta_clock_ns();
    record(&f, f.compute, &linear);
    record(&f, f.comm, &gather);
    record(&f, f.comm, &gather);
    check_ok(aorta_recorder_host(f.recorder, AORTA_HOST_DATA_WAIT, before, before + 7));
    synchronize(&f);
    struct aorta_profile profile;
    check_ok(aorta_recorder_collect(f.recorder, 0, &profile));
    int64_t after = aorta_clock_ns();
    assert_int_equal(profile.index, 41);
    assert_int_equal(profile.range_count, 3);
    assert_int_equal(profile.host_count, 1);
    assert_int_equal(profile.host[0].end_ns, before + 7);
    for (size_t i = 0; i < 3; i++) {
        const struct aorta_range *range = &profile.ranges[i];
        assert_true(range->end_ns - range->start_ns >= NAP_NS);
        assert_true(before <= range->enqueue_ns && range->enqueue_ns <= range->start_ns && range->end_ns <= after);
        assert_int_equal(range->stream, i > 0);
    }
    assert_int_equal(profile.ranges[1].sequence, 0);
    assert_int_equal(profile.ranges[2].sequence, 1);
    assert_true(profile.ranges[2].start_ns >= profile.ranges[1].end_ns);
    assert_true(profile.start_ns <= profile.ranges[0].start_ns && profile.end_ns >= profile.ranges[2].end_ns);
    aorta_profile_free(&profile);
    close_fixture(&f);
}

static void slots_are_apart(void **state) {
    (void)state;
    struct fixture f = open_fixture(4);
    for (int step = 0; step < 6; step++) {
        aorta_recorder_step(f.recorder, step % 2, step);
        for (int i = 0; i <= step % 2; i++) record(&f, f.compute, &linear);
        if (step % 2 == 0) continue;
        synchronize(&f);
        struct aorta_profile even, odd;
        check_ok(aorta_recorder_collect(f.recorder, 0, &even));
        check_ok(aorta_recorder_collect(f.recorder, 1, &odd));
        assert_int_equal(even.index, step - 1);
        assert_int_equal(even.range_count, 1);
        assert_int_equal(odd.range_count, 2);
        assert_true(even.end_ns <= odd.start_ns);
        aorta_profile_free(&even);
        aorta_profile_free(&odd);
    }
    close_fixture(&f);
}

static void limits_and_switch(void **state) {
    (void)state;
    struct fixture f = open_fixture(1);
    struct aorta_recorder *none = NULL;
    check_fails(aorta_recorder_create(f.device, 0, 1, &none), AORTA_INTERNAL, "needs slots and ranges");
    aorta_recorder_step(f.recorder, 0, 3);
    record(&f, f.compute, &linear);
    check_fails(aorta_range_begin(f.recorder, f.compute, &linear), AORTA_INTERNAL,
                "iteration 3 has more than 1 ranges; no place to record 'layer.0'");
    struct aorta_range_info inner = linear;
    inner.inner = true; /* only records show these, so that they take no place */
    check_ok(aorta_range_begin(f.recorder, f.compute, &inner));
    check_ok(aorta_range_end(f.recorder));
    aorta_recorder_enable(f.recorder, false);
    check_ok(aorta_range_begin(f.recorder, f.compute, &linear));
    check_ok(aorta_range_end(f.recorder));
    aorta_recorder_enable(f.recorder, true);
    synchronize(&f);
    struct aorta_profile profile;
    check_ok(aorta_recorder_collect(f.recorder, 0, &profile));
    assert_int_equal(profile.range_count, 1);
    aorta_profile_free(&profile);

    aorta_recorder_step(f.recorder, 0, 4);
    check_ok(aorta_range_begin(f.recorder, f.compute, &linear)); /* never ended */
    synchronize(&f);
    check_fails(aorta_recorder_collect(f.recorder, 0, &profile), AORTA_INTERNAL, "range 0 ('layer.0') has no end");
    close_fixture(&f);
}

/* A captured step is replayed: the same ranges, new times, all launched at one moment. */
static void replays(void **state) {
    (void)state;
    struct fixture f = open_fixture(4);
    struct aorta_graph *graph = NULL;
    aorta_recorder_step(f.recorder, 0, 0);
    check_ok(aorta_capture_begin(f.compute));
    record(&f, f.compute, &linear);
    record(&f, f.compute, &linear);
    check_ok(aorta_capture_end(f.compute, &graph));
    aorta_recorder_captured(f.recorder);
    int64_t last_end = 0;
    for (int step = 1; step < 3; step++) {
        int64_t launch = aorta_clock_ns();
        aorta_recorder_replay(f.recorder, 0, step);
        aorta_recorder_launched(f.recorder);
        check_ok(aorta_graph_launch(graph, f.compute));
        record(&f, f.comm, &gather); /* outside the graph: belongs to this replay alone */
        synchronize(&f);
        struct aorta_profile profile;
        check_ok(aorta_recorder_collect(f.recorder, 0, &profile));
        assert_int_equal(profile.index, step);
        assert_int_equal(profile.range_count, 3);
        for (int range = 0; range < 3; range++) assert_true(profile.ranges[range].graph == (range < 2));
        assert_true(profile.ranges[0].enqueue_ns >= launch);
        assert_int_equal(profile.ranges[1].enqueue_ns, profile.ranges[0].enqueue_ns);
        assert_true(profile.ranges[2].enqueue_ns >= profile.ranges[0].enqueue_ns);
        assert_true(profile.ranges[0].start_ns >= launch && profile.ranges[0].start_ns >= last_end);
        last_end = profile.end_ns;
        aorta_profile_free(&profile);
    }
    aorta_graph_destroy(graph);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_ranges),
        cmocka_unit_test(slots_are_apart),
        cmocka_unit_test(limits_and_switch),
        cmocka_unit_test(replays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
