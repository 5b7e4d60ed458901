/* Trace files by a schedule, from a thread; and the whole way from CUPTI's records, by a stand-in, to the file. */
#include "base/clock.h"
#include "check.h"
#include "fake_cupti/fake_cupti.h"
#include "folder.h"
#include "kineto/layout.h"
#include "measure/metrics.h"
#include "measure/step_traces.h"
#include "measure/tracer.h"
#include "samples/profile.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[FOLDER_PATH];

static int open_folder(void **state) {
    (void)state;
    folder_make(folder, "steps");
    return 0;
}

static int close_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

/* ---- the schedule ---- */

/* What torch.profiler.schedule answers for the first steps: K for RECORD and RECORD_AND_SAVE, - for the rest. */
static void test_schedule(void **state) {
    (void)state;
    static const struct {
        struct aorta_profiler_schedule schedule;
        const char *steps;
        int64_t second; /* first step written in the second cycle */
    } cases[] = {
        {{1, 1, 2, 1}, "--KK--------", 6},     {{1, 1, 2, 2}, "--KK--KK----", 6}, {{0, 0, 1, 0}, "KKKKKKKKKKKK", 1},
        {{2, 0, 1, 0}, "--K--K--K--K", 5},     {{0, 3, 3, 1}, "---KKK------", 9}, {{0, 0, 5, 2}, "KKKKKKKKKK--", 5},
        {{100, 1, 2, 0}, "------------", 204},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aorta_profiler_schedule *schedule = &cases[i].schedule;
        int64_t cycle, length = schedule->wait + schedule->warmup + schedule->active;
        for (int step = 0; cases[i].steps[step]; step++) {
            bool written = aorta_profiler_schedule_active(schedule, step, &cycle);
            if (written != (cases[i].steps[step] == 'K')) fail_msg("case %zu, step %d", i, step);
            if (written) assert_int_equal(cycle, step / length);
            bool watched = written; /* or followed by `warmup` steps at most, then one that is written */
            for (int64_t later = 1; later <= schedule->warmup && !watched; later++)
                watched = aorta_profiler_schedule_active(schedule, step + later, &cycle) && cycle == step / length;
            assert_int_equal(aorta_profiler_schedule_tracing(schedule, step), watched);
            assert_int_equal(aorta_profiler_schedule_over(schedule, step),
                             schedule->repeat && step >= schedule->repeat * length);
        }
        assert_int_equal(aorta_profiler_schedule_first_step(schedule, 1), cases[i].second);
    }
}

/* ---- files ---- */

static struct aorta_step_traces_settings settings_of(const char *chrome, int64_t repeat) {
    return (struct aorta_step_traces_settings){
        .schedule = {1, 1, 2, repeat},
        .chrome = chrome,
        .about = {.device = {.kind = AORTA_DEVICE_CPU, .name = "test"}, .world_size = 1}};
}

static aorta_status add_step(struct aorta_step_traces *traces, int step) {
    struct sample sample;
    int64_t t = aorta_clock_ns();
    sample_begin(&sample, step);
    sample_compute(&sample, t, t + 500, t - 50)->info.tag = "mlp";
    sample_done(&sample, INT64_MIN);
    struct aorta_step_metrics metrics = {.global_step = step, .profile = &sample.profile};
    aorta_status status = aorta_step_traces_add(traces, &metrics, NULL, 0);
    memset(sample.profile.ranges, 0xff, sizeof *sample.profile.ranges); /* was written */
    sample_free(&sample);
    return status;
}

static int files_like(const char *pattern) {
    char all[128];
    glob_t found;
    snprintf(all, sizeof all, "%s/%s", folder, pattern);
    int count = glob(all, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    if (count) globfree(&found);
    return count;
}

static void test_cycles(void **state) {
    (void)state;
    struct aorta_step_traces *traces;
    char chrome[64];
    const char *last;
    snprintf(chrome, sizeof chrome, "%s/a/trace.json", folder);
    struct aorta_step_traces_settings settings = settings_of(chrome, 0);
    check_ok(aorta_step_traces_open(&settings, &traces));
    for (int step = 0; step < 11; step++) check_ok(add_step(traces, step));
    check_ok(aorta_step_traces_finish(traces));
    assert_int_equal(aorta_step_traces_written(traces, &last), 3); /* steps 2 and 3, 6 and 7, and 10 */
    json_t *trace = layout_read(last);
    assert_int_equal(layout_count(trace, "X", "user_annotation", "ProfilerStep#10"), 1);
    assert_int_equal(layout_count(trace, "X", "kernel", NULL), 1);
    assert_string_equal(last + strlen(last) - strlen("a/trace_step10.json"), "a/trace_step10.json");
    assert_int_equal(files_like("a/*"), 3);
    json_decref(trace);
    aorta_step_traces_close(traces);
}

/* An unfinished file does not exist, and leaves nothing. */
static void test_closed_early(void **state) {
    (void)state;
    struct aorta_step_traces *traces;
    char chrome[64];
    snprintf(chrome, sizeof chrome, "%s/early/trace.json", folder);
    struct aorta_step_traces_settings settings = settings_of(chrome, 1);
    check_ok(aorta_step_traces_open(&settings, &traces));
    for (int step = 0; step < 3; step++) check_ok(add_step(traces, step));
    aorta_step_traces_close(traces);
    assert_int_equal(files_like("early/*"), 0);
    aorta_step_traces_close(NULL);
}

/* A folder that is gone: reported once, with the path; the steps after it are dropped. */
static void test_failure(void **state) {
    (void)state;
    struct aorta_step_traces *traces;
    char chrome[64], gone[64];
    const char *last;
    snprintf(gone, sizeof gone, "%s/gone", folder);
    snprintf(chrome, sizeof chrome, "%s/gone/trace.json", folder);
    struct aorta_step_traces_settings settings = settings_of(chrome, 1);
    check_ok(aorta_step_traces_open(&settings, &traces));
    assert_int_equal(rmdir(gone), 0);
    for (int step = 0; step < 2; step++) check_ok(add_step(traces, step));
    check_fails(add_step(traces, 2), AORTA_IO, chrome);
    check_ok(add_step(traces, 3));
    check_ok(aorta_step_traces_finish(traces));
    assert_int_equal(aorta_step_traces_written(traces, &last), 0);
    aorta_step_traces_close(traces);
    snprintf(chrome, sizeof chrome, "%s/a/trace_step2.json/x.json", folder); /* a file where a folder should be */
    settings = settings_of(chrome, 1);
    check_fails(aorta_step_traces_open(&settings, &traces), AORTA_IO, "trace_step2.json");
}

/* ---- from CUPTI to the file ---- */

enum { CONCURRENT_KERNEL = 10, STEPS = 6 };

static const struct fake_cupti *cupti;

static void call_driver(void *user) {
    (void)user;
    cupti->call(9); /* cuDeviceGetAttribute in cupti_driver_cbid.h */
}

static void launch(const char *name, int64_t start, int64_t end, uint32_t stream) {
    struct fake_activity activity = {.kind = CONCURRENT_KERNEL,
                                     .name = name,
                                     .start = (uint64_t)start,
                                     .end = (uint64_t)end,
                                     .stream = stream,
                                     .correlation = cupti->call(0)};
    cupti->record(&activity);
}

/* A layer and a concurrent collective. */
static void queue_step(struct aorta_tracer *tracer, struct aorta_metrics_lines *lines, int step, int64_t t) {
    struct sample s;
    struct aorta_launches launches = {.after = aorta_tracer_launches(tracer), .first_label = 1};
    launches.ranges = calloc(2, sizeof *launches.ranges);
    assert_non_null(launches.ranges);
    sample_begin(&s, step);
    sample_compute(&s, t, t + 60000, t - 20000)->info.layer = 0;
    launches.ranges[0].after = launches.after;
    launch("gemm", t + 1000, t + 15000 + step, 7);
    launch("gelu", t + 30000, t + 58001, 7);
    launches.ranges[0].until = launches.ranges[1].after = aorta_tracer_launches(tracer);
    struct aorta_range *gather = sample_collective(&s, AORTA_ALL_GATHER, t + 20000, t + 90000, t - 10000);
    gather->stream = 2, gather->info.dtype = AORTA_F32;
    launch("ncclDevKernel_AllGather_RING_LL", t + 22000, t + 88003, 21);
    launches.ranges[1].until = launches.until = aorta_tracer_launches(tracer);
    sample_done(&s, INT64_MIN);
    struct aorta_step_metrics metrics = {.world_size = 2, .global_step = step, .loss_scale = NAN};
    check_ok(aorta_metrics_lines_add(lines, &metrics, &s.profile, &launches, t + 90000));
}

/* The kernels of the steps in the schedule, and theirs alone, with the figures of the lines. */
static void expect_lines_agree(const json_t *trace) {
    char path[64], line[65536];
    int seen = 0;
    snprintf(path, sizeof path, "%s/rank_00_metrics.jsonl", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        json_t *metrics = json_loads(line, 0, NULL);
        assert_non_null(metrics);
        int64_t step = json_integer_value(json_object_get(metrics, "global_step"));
        const json_t *overlap = json_object_get(json_object_get(metrics, "kernel_profile"), "overlap");
        struct layout_figures f = layout_figures(trace, step);
        bool written = step == 2 || step == 3;
        double comm = json_number_value(json_object_get(overlap, "comm_ms"));
        double both = json_number_value(json_object_get(json_object_get(overlap, "overlap_ms"), "compute_comm"));
        assert_int_equal(f.comm, written ? llround(comm * 1e6) : 0);
        assert_int_equal(f.overlap, written ? llround(both * 1e6) : 0);
        if (written) assert_int_equal(f.comm, 88003 - 22000);
        seen++;
        json_decref(metrics);
    }
    fclose(file);
    assert_int_equal(seen, STEPS);
}

static void test_from_cupti(void **state) {
    (void)state;
    struct aorta_tracer *tracer;
    struct aorta_metrics_writer *writer;
    struct aorta_metrics_lines *lines;
    struct aorta_step_traces *traces;
    const char *last;
    cupti->reset();
    check_ok(aorta_tracer_open_backend(&aorta_tracer_cupti, &(struct aorta_tracer_call){.call = call_driver}, &tracer));
    struct aorta_step_traces_settings settings = {
        .schedule = {1, 1, 2, 1},
        .directory = folder,
        .about = {.device = {.kind = AORTA_DEVICE_CUDA, .name = "fake", .isa = "sm_90"},
                  .world_size = 2,
                  .backend = "nccl",
                  .groups = {{0, 2, 1}},
                  .group_count = 1,
                  .tracer = aorta_tracer_get_facts(tracer).library}};
    check_ok(aorta_step_traces_open(&settings, &traces));
    check_ok(aorta_metrics_open(folder, 0, &writer));
    check_ok(aorta_metrics_lines_open(tracer, writer, traces, &lines));
    int64_t t = aorta_clock_ns();
    for (int step = 0; step < STEPS; step++) queue_step(tracer, lines, step, t + step * 100000);
    check_ok(aorta_metrics_lines_finish(lines));
    aorta_metrics_lines_close(lines);
    check_ok(aorta_metrics_close(writer));
    check_ok(aorta_step_traces_finish(traces));
    assert_int_equal(aorta_step_traces_written(traces, &last), 1);
    json_t *trace = layout_read(last);
    assert_int_equal(layout_count(trace, "X", "kernel", NULL), 6);
    assert_int_equal(layout_count(trace, "X", "gpu_user_annotation", "linear_forward (layer)"), 2);
    assert_int_equal(layout_count(trace, "X", "cuda_runtime", "cudaLaunchKernel"), 6);
    const json_t *gather = layout_event(trace, "X", "kernel", "ncclDevKernel_AllGather_RING_LL", 1);
    assert_int_equal(layout_number(gather, "Seq"), 1);
    assert_string_equal(json_string_value(json_object_get(json_object_get(trace, "aorta"), "tracer")), "CUPTI 13.0.1");
    expect_lines_agree(trace);
    json_decref(trace);
    aorta_step_traces_close(traces);
    aorta_tracer_close(tracer);
}

int main(void) {
    setenv("AORTA_LIBRARY_PATH", FAKE_CUPTI, 1);
    cupti = fake_cupti_open(FAKE_CUPTI);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule), cmocka_unit_test(test_cycles),     cmocka_unit_test(test_closed_early),
        cmocka_unit_test(test_failure),  cmocka_unit_test(test_from_cupti),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
