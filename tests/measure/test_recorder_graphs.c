/* Ranges of captured steps on the fake GPU: kernels tell when they begin and end, and a collective's stream has come to
 * it when what it comes behind has ended, so that few stamps are left. */
#include "check.h"
#include "device/gpu.h"
#include "fake_gpu/fake_gpu.h"
#include "measure/recorder.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- kernels: one that tells its times, one that does not ---- */

static const struct aorta_gpu_source telling = {"telling.cu", "nap(int64_t) tell_end(times)"};
static const struct aorta_gpu_source silent = {"silent.cu", "nap(int64_t)"};
static const struct aorta_gpu_entry nap_entry = {&telling, "nap"}, silent_entry = {&silent, "nap"};

enum { NAP_NS = 20000000 }; /* more than a busy machine keeps a thread from running */

static void nap(struct aorta_stream *stream, const struct aorta_gpu_entry *entry) {
    const int64_t ns = NAP_NS;
    check_ok(aorta_gpu_launch(stream, entry, (struct aorta_gpu_grid){.blocks = {1}}, &ns, sizeof ns));
}

/* ---- the rig ---- */

static char cache[64];

static int make_cache(void **state) {
    (void)state;
    snprintf(cache, sizeof cache, "/tmp/aorta-cache-XXXXXX");
    if (!mkdtemp(cache)) return -1;
    setenv("AORTA_LIBRARY_PATH", FAKE_GPU, 1);
    setenv("AORTA_CACHE_DIR", cache, 1);
    return 0;
}

static int remove_cache(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", cache);
    return system(command);
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
    struct aorta_recorder *recorder;
    struct aorta_graph *graph;
    int launches; /* in the capture */
};

static struct rig open_rig(void) {
    struct rig rig = {0};
    check_ok(aorta_device_open(AORTA_DEVICE_CUDA, 0, &rig.device));
    check_ok(aorta_stream_create(rig.device, "compute", AORTA_PRIORITY_NORMAL, &rig.compute));
    check_ok(aorta_stream_create(rig.device, "comm", AORTA_PRIORITY_HIGH, &rig.comm));
    check_ok(aorta_event_create_untimed(rig.device, &rig.fork));
    check_ok(aorta_event_create_untimed(rig.device, &rig.join));
    check_ok(aorta_recorder_create(rig.device, 1, 32, &rig.recorder));
    return rig;
}

static void close_rig(struct rig *rig) {
    aorta_graph_destroy(rig->graph);
    aorta_event_destroy(rig->fork);
    aorta_event_destroy(rig->join);
    aorta_stream_destroy(rig->compute);
    aorta_stream_destroy(rig->comm);
    aorta_recorder_destroy(rig->recorder);
    aorta_device_close(rig->device);
}

static void begin_capture(struct rig *rig) {
    aorta_recorder_step(rig->recorder, 0, 0);
    check_ok(aorta_capture_begin(rig->compute));
    control()->strike("cuLaunchKernel", 0, 0, 0);
}

static void end_capture(struct rig *rig) {
    check_ok(aorta_capture_end(rig->compute, &rig->graph));
    rig->launches = control()->calls();
    aorta_recorder_captured(rig->recorder);
}

static struct aorta_profile replay(struct rig *rig, int64_t index) {
    struct aorta_profile profile;
    aorta_recorder_replay(rig->recorder, 0, index, aorta_device_now_ns(rig->device));
    check_ok(aorta_graph_launch(rig->graph, rig->compute));
    check_ok(aorta_stream_synchronize(rig->compute));
    check_ok(aorta_recorder_collect(rig->recorder, 0, &profile));
    return profile;
}

static const struct aorta_range_info part = {.tag = "part", .function = "nap", .role = AORTA_ROLE_COMPUTE};
static const struct aorta_range_info gather = {.tag = "part",
                                               .function = "all_gather",
                                               .role = AORTA_ROLE_AUX,
                                               .kind = AORTA_RANGE_COLLECTIVE,
                                               .collective = AORTA_ALL_GATHER,
                                               .group_size = 2};

static int begin(struct rig *rig, struct aorta_stream *stream, const struct aorta_range_info *info) {
    int range;
    check_ok(aorta_range_begin(rig->recorder, stream, info, &range));
    return range;
}

static void end(struct rig *rig, struct aorta_stream *stream, int range) {
    check_ok(aorta_range_end(rig->recorder, stream, range));
}

static void record(struct rig *rig, struct aorta_stream *stream, const struct aorta_gpu_entry *entry,
                   const struct aorta_range_info *info) {
    int range = begin(rig, stream, info);
    nap(stream, entry);
    end(rig, stream, range);
}

/* ---- tests ---- */

/* A fork and a join: there is no stamp but the driver's own at the end. */
static void test_no_stamps_between_kernels_that_tell(void **state) {
    (void)state;
    struct rig rig = open_rig();
    begin_capture(&rig);
    record(&rig, rig.compute, &nap_entry, &part);
    check_ok(aorta_event_record(rig.fork, rig.compute));
    check_ok(aorta_stream_wait(rig.comm, rig.fork));
    record(&rig, rig.comm, &nap_entry, &gather);
    record(&rig, rig.compute, &nap_entry, &part);
    record(&rig, rig.compute, &nap_entry, &part);
    check_ok(aorta_event_record(rig.join, rig.comm));
    check_ok(aorta_stream_wait(rig.compute, rig.join));
    record(&rig, rig.compute, &nap_entry, &part);
    end_capture(&rig);
    assert_int_equal(rig.launches, 5 + 1);
    for (int run = 0; run < 3; run++) {
        struct aorta_profile p = replay(&rig, run);
        const struct aorta_range *r = p.ranges;
        assert_int_equal(p.range_count, 5);
        for (int i = 0; i < 5; i++) assert_true(r[i].end_ns - r[i].start_ns >= NAP_NS - 1000);
        assert_int_equal(r[1].start_ns, r[0].end_ns);
        assert_true(r[2].start_ns >= r[0].end_ns && r[3].start_ns >= r[2].end_ns);
        assert_true(r[4].start_ns >= r[3].end_ns && r[4].start_ns >= r[1].end_ns);
        aorta_profile_free(&p);
    }
    close_rig(&rig);
}

/* A collective begins when the last of what it comes behind has ended. */
static void test_a_collective_begins_where_others_ended(void **state) {
    (void)state;
    struct rig rig = open_rig();
    begin_capture(&rig);
    record(&rig, rig.compute, &nap_entry, &part);
    check_ok(aorta_event_record(rig.fork, rig.compute));
    check_ok(aorta_stream_wait(rig.comm, rig.fork));
    int both = begin(&rig, rig.comm, &gather);
    nap(rig.comm, &silent_entry);
    nap(rig.comm, &nap_entry);
    end(&rig, rig.comm, both);
    record(&rig, rig.compute, &nap_entry, &part);
    check_ok(aorta_event_record(rig.join, rig.compute));
    check_ok(aorta_stream_wait(rig.comm, rig.join));
    record(&rig, rig.comm, &nap_entry, &gather);
    check_ok(aorta_event_record(rig.join, rig.comm));
    check_ok(aorta_stream_wait(rig.compute, rig.join));
    end_capture(&rig);
    assert_int_equal(rig.launches, 5 + 1);
    struct aorta_profile p = replay(&rig, 1);
    const struct aorta_range *r = p.ranges;
    assert_int_equal(r[1].start_ns, r[0].end_ns);
    assert_int_equal(r[3].start_ns, r[1].end_ns > r[2].end_ns ? r[1].end_ns : r[2].end_ns);
    assert_true(r[1].end_ns - r[1].start_ns >= 2 * NAP_NS - 1000);
    assert_true(r[3].end_ns - r[3].start_ns >= NAP_NS - 1000);
    aorta_profile_free(&p);
    close_rig(&rig);
}

/* Work that is in no range is nobody's: what comes behind it has its own stamp. A library's kernel tells nothing. */
static void test_what_is_not_recorded_belongs_to_no_range(void **state) {
    (void)state;
    struct rig rig = open_rig();
    begin_capture(&rig);
    record(&rig, rig.compute, &nap_entry, &part);
    nap(rig.compute, &silent_entry);
    record(&rig, rig.compute, &silent_entry, &gather);
    check_ok(aorta_event_record(rig.fork, rig.compute));
    check_ok(aorta_stream_wait(rig.comm, rig.fork));
    nap(rig.comm, &silent_entry);
    nap(rig.comm, &silent_entry);
    check_ok(aorta_event_record(rig.join, rig.comm));
    check_ok(aorta_stream_wait(rig.compute, rig.join));
    record(&rig, rig.compute, &silent_entry, &part);
    end_capture(&rig);
    assert_int_equal(rig.launches, 6 + 4 + 1);
    struct aorta_profile p = replay(&rig, 1);
    const struct aorta_range *r = p.ranges;
    assert_true(r[1].start_ns >= r[0].end_ns + NAP_NS - 1000);
    assert_true(r[2].start_ns >= r[1].end_ns + NAP_NS);
    assert_true(r[1].end_ns - r[1].start_ns >= NAP_NS / 2 && r[2].end_ns - r[2].start_ns >= NAP_NS / 2);
    aorta_profile_free(&p);
    close_rig(&rig);
}

/* With stamps that are waited for, each range has its two. */
static void test_stamps_that_are_waited_for(void **state) {
    (void)state;
    struct rig rig = open_rig();
    aorta_recorder_wait_for_stamps(rig.recorder, true);
    begin_capture(&rig);
    record(&rig, rig.compute, &nap_entry, &part);
    record(&rig, rig.compute, &nap_entry, &part);
    end_capture(&rig);
    assert_int_equal(rig.launches, 2 + 3);
    struct aorta_profile p = replay(&rig, 1);
    assert_int_equal(p.ranges[1].start_ns, p.ranges[0].end_ns); /* one stamp for both */
    aorta_profile_free(&p);
    close_rig(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_stamps_between_kernels_that_tell),
        cmocka_unit_test(test_a_collective_begins_where_others_ended),
        cmocka_unit_test(test_what_is_not_recorded_belongs_to_no_range),
        cmocka_unit_test(test_stamps_that_are_waited_for),
    };
    return cmocka_run_group_tests_name("profile: recorded graphs", tests, make_cache, remove_cache);
}
