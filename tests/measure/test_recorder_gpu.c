/* Ranges on the fake GPU, whose kernels are recorded by the stand-in for CUPTI: captured and one by one; and, without a
 * tracer, by timestamps. */
#include "check.h"
#include "device/gpu.h"
#include "fake_cupti/fake_cupti.h"
#include "fake_gpu/fake_gpu.h"
#include "folder.h"
#include "measure/recorder.h"
#include "measure/tracer.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static const struct aorta_gpu_source source = {"nap.cu", "nap(int64_t)"};
static const struct aorta_gpu_entry nap_entry = {&source, "nap"};

enum { NAP_NS = 2000000 };

static void nap(struct aorta_stream *stream) {
    const int64_t ns = NAP_NS;
    check_ok(aorta_gpu_launch(stream, &nap_entry, (struct aorta_gpu_grid){.blocks = {1}}, &ns, sizeof ns));
}

/* ---- the rig ---- */

static char cache[FOLDER_PATH];

static int make_cache(void **state) {
    (void)state;
    folder_make(cache, "cache");
    setenv("AORTA_LIBRARY_PATH", FAKE_GPU ":" FAKE_CUPTI, 1);
    setenv("AORTA_CACHE_DIR", cache, 1);
    return 0;
}

static int remove_cache(void **state) {
    (void)state;
    return folder_remove(cache);
}

static const struct fake_gpu_control *control(void) {
    void *library = dlopen(FAKE_GPU "/libcuda.so.1", RTLD_NOW);
    assert_non_null(library);
    return dlsym(library, "fake_gpu_control");
}

struct rig {
    struct aorta_device *device;
    struct aorta_stream *compute, *comm;
    struct aorta_event *fork, *join;
    int64_t *done_ns; /* pinned */
    struct aorta_recorder *recorder;
    struct aorta_tracer *tracer; /* NULL: timestamps */
};

static struct rig open_rig(bool traced) {
    struct rig rig = {0};
    check_ok(aorta_device_open(AORTA_DEVICE_CUDA, 0, &rig.device));
    check_ok(aorta_stream_create(rig.device, "compute", AORTA_PRIORITY_NORMAL, &rig.compute));
    check_ok(aorta_stream_create(rig.device, "comm", AORTA_PRIORITY_HIGH, &rig.comm));
    check_ok(aorta_event_create(rig.device, &rig.fork));
    check_ok(aorta_event_create(rig.device, &rig.join));
    void *pinned;
    check_ok(aorta_pinned_alloc(rig.device, sizeof *rig.done_ns, "end of a step", &pinned));
    rig.done_ns = pinned;
    check_ok(aorta_recorder_create(rig.device, 2, 32, &rig.recorder));
    if (traced) check_ok(aorta_tracer_open(rig.device, &rig.tracer));
    aorta_recorder_trace(rig.recorder, rig.tracer);
    return rig;
}

static void close_rig(struct rig *rig) {
    aorta_tracer_close(rig->tracer);
    aorta_event_destroy(rig->fork);
    aorta_event_destroy(rig->join);
    aorta_pinned_free(rig->device, rig->done_ns);
    aorta_stream_destroy(rig->compute);
    aorta_stream_destroy(rig->comm);
    aorta_recorder_destroy(rig->recorder);
    aorta_device_close(rig->device);
}

static void begin(struct rig *rig, struct aorta_stream *stream, const char *tag, enum aorta_range_kind kind) {
    const struct aorta_range_info info = {
        .tag = tag, .function = "nap", .kind = kind, .collective = AORTA_ALL_GATHER, .group_size = 2};
    check_ok(aorta_range_begin(rig->recorder, stream, &info));
}

static void end(struct rig *rig) {
    check_ok(aorta_range_end(rig->recorder));
}

static void record(struct rig *rig, struct aorta_stream *stream, const char *tag, int naps) {
    begin(rig, stream, tag, AORTA_RANGE_COMPUTE);
    for (int i = 0; i < naps; i++) nap(stream);
    end(rig);
}

/* Back to back on one stream, nothing in one range, a kernel in none, a concurrent kernel of a library, ranges within
 * one. */
static void queue_step(struct rig *rig) {
    record(rig, rig->compute, "a", 1);
    record(rig, rig->compute, "b", 2);
    record(rig, rig->compute, "nothing", 0);
    nap(rig->compute);
    check_ok(aorta_event_record(rig->fork, rig->compute));
    check_ok(aorta_stream_wait(rig->comm, rig->fork));
    begin(rig, rig->comm, "gather", AORTA_RANGE_COLLECTIVE);
    nap(rig->comm);
    nap(rig->comm);
    end(rig);
    begin(rig, rig->compute, "outer", AORTA_RANGE_COMPUTE);
    nap(rig->compute);
    record(rig, rig->compute, "inner", 1);
    nap(rig->compute);
    end(rig);
    check_ok(aorta_event_record(rig->join, rig->comm));
    check_ok(aorta_stream_wait(rig->compute, rig->join));
}

/* Waits for the step and joins what was recorded of it. */
static void collect(struct rig *rig, struct aorta_profile *ranges, struct aorta_profile *kernels) {
    struct aorta_launches launches;
    struct aorta_activity_record *records;
    size_t count;
    check_ok(aorta_timestamp(rig->compute, rig->done_ns));
    aorta_recorder_queued(rig->recorder);
    nap(rig->compute); /* of the next iteration */
    check_ok(aorta_stream_synchronize(rig->compute));
    check_ok(aorta_recorder_collect(rig->recorder, 0, ranges));
    check_ok(aorta_recorder_launches(rig->recorder, 0, &launches));
    check_ok(aorta_tracer_flush(rig->tracer, true));
    check_ok(aorta_tracer_take(rig->tracer, &launches, kernels, &records, &count));
    check_ok(aorta_kernels_join(kernels, records, ranges, &launches, *rig->done_ns));
    free(records);
    free(launches.ranges);
}

static int naps_in(const struct aorta_range *range) {
    return (int)((range->end_ns - range->start_ns) / NAP_NS);
}

static void check_step(const struct aorta_profile *ranges, const struct aorta_profile *kernels, bool graph) {
    static const struct {
        const char *tag;
        int kernels, naps;
    } expected[] = {{"a", 1, 1}, {"b", 2, 2}, {"gather", 2, 2}, {"outer", 2, 3}, {"inner", 1, 1}};
    enum { COUNT = sizeof expected / sizeof *expected };
    assert_int_equal(ranges->range_count, COUNT);
    assert_int_equal(kernels->range_count, 9);
    assert_int_equal(kernels->kernels.attributed, 8);
    assert_true(kernels->kernels.stamp_count >= 1); /* the event's */
    for (int i = 0; i < COUNT; i++) {
        const struct aorta_range *range = &ranges->ranges[i];
        int found = 0;
        for (size_t k = 0; k < kernels->range_count; k++) {
            const struct aorta_range *kernel = &kernels->ranges[k];
            if (kernel->owner != i) continue;
            found++;
            assert_true(kernel->start_ns >= range->start_ns && kernel->end_ns <= range->end_ns);
            assert_string_equal(kernel->info.within, expected[i].tag);
            assert_int_equal(kernel->stream, range->stream);
        }
        assert_string_equal(range->info.tag, expected[i].tag);
        assert_int_equal(found, expected[i].kernels);
        assert_true(naps_in(range) >= expected[i].naps);
        assert_true(range->graph == graph);
    }
    const struct aorta_range *r = ranges->ranges;
    assert_true(r[1].start_ns >= r[0].end_ns);
    assert_true(r[2].start_ns >= r[1].end_ns + NAP_NS && r[3].start_ns >= r[1].end_ns + NAP_NS);
    assert_true(r[4].start_ns >= r[3].start_ns + NAP_NS && r[4].end_ns <= r[3].end_ns - NAP_NS);
}

/* ---- tests ---- */

/* Nothing is queued for the ranges, and each gets its own kernels' time. */
static void test_launched_one_by_one(void **state) {
    (void)state;
    struct rig rig = open_rig(true);
    nap(rig.compute); /* loads the kernel */
    for (int step = 0; step < 3; step++) {
        struct aorta_profile ranges, kernels;
        aorta_recorder_step(rig.recorder, 0, step);
        control()->strike("cuLaunchKernel", 0, 0, 0);
        queue_step(&rig);
        assert_int_equal(control()->calls(), 9);
        collect(&rig, &ranges, &kernels);
        check_step(&ranges, &kernels, false);
        aorta_profile_free(&ranges);
        aorta_profile_free(&kernels);
    }
    close_rig(&rig);
}

/* Replays of a graph: the nodes are known from the capture. Work launched during a replay belongs to it alone. A second
 * graph of the slot has its own ranges. */
static void test_captured(void **state) {
    (void)state;
    struct rig rig = open_rig(true);
    nap(rig.compute);
    for (int capture = 0; capture < 2; capture++) {
        struct aorta_graph *graph;
        aorta_recorder_step(rig.recorder, 0, 0);
        check_ok(aorta_capture_begin(rig.compute));
        control()->strike("cuLaunchKernel", 0, 0, 0);
        queue_step(&rig);
        assert_int_equal(control()->calls(), 9);
        check_ok(aorta_capture_end(rig.compute, &graph));
        aorta_recorder_captured(rig.recorder);
        for (int run = 0; run < 3; run++) {
            struct aorta_profile ranges, kernels;
            if (run) aorta_recorder_replay(rig.recorder, 0, run);
            aorta_recorder_launched(rig.recorder);
            check_ok(aorta_graph_launch(graph, rig.compute));
            if (run == 2) record(&rig, rig.compute, "beside", 1);
            collect(&rig, &ranges, &kernels);
            assert_int_equal(ranges.index, run);
            if (run == 2) {
                assert_int_equal(ranges.range_count, 6);
                assert_string_equal(ranges.ranges[5].info.tag, "beside");
                assert_true(naps_in(&ranges.ranges[5]) >= 1 && !ranges.ranges[5].graph);
            } else {
                check_step(&ranges, &kernels, true);
            }
            aorta_profile_free(&ranges);
            aorta_profile_free(&kernels);
        }
        aorta_graph_destroy(graph);
    }
    close_rig(&rig);
}

/* Without a tracer each range has two timestamps, of which neighbours in a capture share one. */
static void test_timestamps(void **state) {
    (void)state;
    struct rig rig = open_rig(false);
    struct aorta_graph *graph;
    struct aorta_profile ranges;
    struct aorta_launches launches;
    nap(rig.compute);
    aorta_recorder_step(rig.recorder, 0, 0);
    check_ok(aorta_capture_begin(rig.compute));
    control()->strike("cuLaunchKernel", 0, 0, 0);
    record(&rig, rig.compute, "a", 1);
    record(&rig, rig.compute, "b", 1);
    check_ok(aorta_capture_end(rig.compute, &graph));
    assert_int_equal(control()->calls(), 2 + 3);
    aorta_recorder_captured(rig.recorder);
    aorta_recorder_launched(rig.recorder);
    check_ok(aorta_graph_launch(graph, rig.compute));
    check_ok(aorta_stream_synchronize(rig.compute));
    check_ok(aorta_recorder_launches(rig.recorder, 0, &launches));
    assert_null(launches.ranges);
    check_ok(aorta_recorder_collect(rig.recorder, 0, &ranges));
    assert_int_equal(ranges.ranges[1].start_ns, ranges.ranges[0].end_ns);
    assert_true(naps_in(&ranges.ranges[0]) >= 1 && naps_in(&ranges.ranges[1]) >= 1);
    aorta_profile_free(&ranges);
    aorta_graph_destroy(graph);
    close_rig(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launched_one_by_one),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_timestamps),
    };
    return cmocka_run_group_tests_name("measure: recorded on a GPU", tests, make_cache, remove_cache);
}
