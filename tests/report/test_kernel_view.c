/* Runs that were traced: both views in a line, in the run and in the report. */
#include "check.h"
#include "measure/run_files.h"
#include "report/report.h"
#include "samples/profile.h"
#include "workspace.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static struct aorta_log silent(void) {
    return (struct aorta_log){.level = AORTA_LOG_ERROR, .rank = -1};
}

static int64_t origin_of(int step) {
    return 5000000000000 + step * (int64_t)20000000;
}

/* 10 ms of compute of which the device worked 6 ms, and at the same time an all-gather of 4 ms that ran 3 ms. */
static void write_step(struct aorta_metrics_writer *writer, int rank, int step, bool traced) {
    int64_t t = origin_of(step);
    struct aorta_range ranges[] = {
        {.info = {.tag = "encoder.layers.1.linear1",
                  .function = "linear_forward",
                  .role = AORTA_ROLE_COMPUTE,
                  .layer = 1,
                  .flops = 5e8},
         .start_ns = t,
         .end_ns = t + 10000000,
         .enqueue_ns = t - 1000},
        {.info = {.tag = "encoder.layers.2",
                  .function = "all_gather",
                  .role = AORTA_ROLE_AUX,
                  .kind = AORTA_RANGE_COLLECTIVE,
                  .collective = AORTA_ALL_GATHER,
                  .group_size = 2,
                  .layer = 2,
                  .bytes = 4096},
         .start_ns = t + 2000000,
         .end_ns = t + 6000000,
         .enqueue_ns = t + 3000000,
         .stream = 1},
    };
    static const int owners[] = {1, 0, 0};
    struct aorta_activity_record records[] = {
        {.name = "ncclDevKernel_AllGather_RING_LL(x)", .stream = 9, .start_ns = t + 2500000, .end_ns = t + 5500000},
        {.name = "sm90_gemm", .stream = 8, .start_ns = t + 4000000, .end_ns = t + 9000000},
        {.name = "bias_gelu", .stream = 8, .start_ns = t + 1000000, .end_ns = t + 2000123},
    };
    struct aorta_host_range host = {AORTA_HOST_SYNC, t - 3000, t - 2000};
    struct aorta_profile profile = {.index = step,
                                    .start_ns = t,
                                    .end_ns = t + 10000000,
                                    .ranges = ranges,
                                    .range_count = 2,
                                    .host = &host,
                                    .host_count = 1};
    struct aorta_profile kernels;
    check_ok(aorta_overlap_compute(&profile, step ? origin_of(step - 1) + 10000000 : INT64_MIN));
    sample_join(records, 3, owners, &profile, &kernels);
    kernels.kernels.dropped = step == 2 ? 3 : 0;
    check_ok(aorta_overlap_compute(&kernels, step ? origin_of(step - 1) + 9000000 : INT64_MIN));
    struct aorta_step_metrics metrics = {.rank = rank,
                                         .world_size = 2,
                                         .step = step,
                                         .global_step = step,
                                         .samples_per_s = 100,
                                         .step_ms = NAN,
                                         .loss_scale = NAN,
                                         .device = "cuda",
                                         .profile = &profile,
                                         .kernel_profile = traced ? &kernels : NULL};
    check_ok(aorta_metrics_write(writer, &metrics));
    profile.ranges = NULL; /* of no heap */
    profile.host = NULL;
    aorta_profile_free(&profile);
    aorta_profile_free(&kernels);
}

/* Steps from `traced_from` on are traced. */
static void write_run(const struct workspace *workspace, int traced_from) {
    for (int rank = 0; rank < 2; rank++) {
        struct aorta_metrics_writer *writer = NULL;
        check_ok(aorta_metrics_open(workspace->path, rank, &writer));
        for (int step = 0; step < 4; step++) write_step(writer, rank, step, step >= traced_from);
        check_ok(aorta_metrics_close(writer));
    }
}

/* Every row and figure of the kernel view reads back to the nanosecond. */
static void round_trip(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    write_run(&workspace, 0);
    struct aorta_log log = silent();
    struct aorta_run run;
    check_ok(aorta_run_read(workspace.path, "x", 0, &log, &run));
    assert_int_equal(run.step_count, 8);
    for (size_t i = 0; i < run.step_count; i++) {
        const struct aorta_step_metrics *step = &run.steps[i];
        assert_non_null(step->kernel_profile);
        const struct aorta_range *range = step->kernel_profile->ranges;
        int64_t t = origin_of((int)step->step);
        assert_non_null(step->profile);
        assert_int_equal(step->profile->source, AORTA_SOURCE_RANGE);
        assert_int_equal(step->profile->range_count, 2);
        assert_null(step->profile->ranges[0].info.within);
        assert_int_equal(step->kernel_profile->source, AORTA_SOURCE_KERNEL);
        assert_int_equal(step->kernel_profile->range_count, 3);
        assert_int_equal(step->kernel_profile->kernels.attributed, 3);
        assert_int_equal(step->kernel_profile->kernels.launches, 1);
        assert_int_equal(step->kernel_profile->kernels.dropped, step->step == 2 ? 3 : 0);
        assert_int_equal(step->kernel_profile->host_count, 1);
        assert_int_equal(step->kernel_profile->start_ns, t + 1000000);
        assert_string_equal(range[0].info.tag, "bias_gelu");
        assert_int_equal(range[0].end_ns, t + 2000123);
        assert_string_equal(range[0].info.function, "linear_forward");
        assert_int_equal(range[0].enqueue_ns, t - 1000);
        assert_true(range[0].info.flops == 0);
        assert_string_equal(range[1].info.within, "encoder.layers.2");
        assert_int_equal(range[1].info.collective, AORTA_ALL_GATHER);
        assert_int_equal(range[1].info.bytes, 4096);
        assert_int_equal(range[1].stream, 1);
        assert_true(range[2].info.flops == 5e8);
        assert_int_equal(range[2].enqueue_ns, t - 1000 + 3001000 / 2);
        assert_int_equal(step->kernel_profile->overlap.compute_ns, 6000123);
        assert_int_equal(step->kernel_profile->overlap.comm_ns, 3000000);
        assert_int_equal(step->kernel_profile->overlap.overlap_ns, 1500000);
        assert_int_equal(step->kernel_profile->overlap.lead_ns, step->step ? 12000000 : 0);
        assert_int_equal(step->profile->overlap.compute_ns, 10000000);
        if (i) assert_ptr_equal(range[0].info.tag, run.steps[0].kernel_profile->ranges[0].info.tag);
    }
    aorta_run_free(&run);
    workspace_remove(&workspace);
}

static json_t *report(const struct workspace *workspace, struct aorta_text *text) {
    struct aorta_log log = silent();
    const struct aorta_report_input input = {workspace->path, "run"};
    struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = workspace->path, .warmup = 1};
    check_ok(aorta_report_make(&options, &log, text, NULL));
    char *json = workspace_read(workspace, "summary.json");
    json_t *root = json_loads(json, 0, NULL);
    free(json);
    assert_non_null(root);
    return root;
}

static double number(const json_t *object, const char *key, const char *inner) {
    const json_t *value = json_object_get(object, key);
    if (inner) value = json_object_get(value, inner);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* The figures of a traced run come from its kernels; it says which records were lost. */
static void figures_from_kernels(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    struct aorta_text text = {0};
    write_run(&workspace, 0);
    json_t *root = report(&workspace, &text);
    const json_t *run = json_object_get(json_object_get(root, "labels"), "run");
    assert_string_equal(json_string_value(json_object_get(run, "source")), "kernel");
    assert_true(fabs(number(run, "compute_ms", "mean") - 6.000123) < 1e-9);
    assert_true(fabs(number(run, "overlap_ms", "mean") - 1.5) < 1e-9);
    const json_t *records = json_object_get(run, "records");
    assert_true(number(records, "iterations", NULL) == 6);
    assert_true(number(records, "kernels", NULL) == 18);
    assert_true(number(records, "attributed", NULL) == 18);
    assert_true(number(records, "dropped", NULL) == 6);
    assert_true(number(records, "launches", NULL) == 6);
    assert_non_null(strstr(text.data, "6 kernel records were lost: the figures of kernels are too low"));
    assert_non_null(strstr(text.data, "1.50 of 3.00 ms hidden"));
    json_decref(root);
    aorta_text_free(&text);
    workspace_remove(&workspace);
}

/* Where only some iterations were traced, the figures of all come from ranges. */
static void partly_traced(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    struct aorta_text text = {0};
    write_run(&workspace, 3);
    json_t *root = report(&workspace, &text);
    const json_t *run = json_object_get(json_object_get(root, "labels"), "run");
    assert_string_equal(json_string_value(json_object_get(run, "source")), "range");
    assert_true(fabs(number(run, "compute_ms", "mean") - 10) < 1e-9);
    assert_true(number(run, "records", "iterations") == 2);
    json_decref(root);
    aorta_text_free(&text);
    workspace_remove(&workspace);
    workspace = workspace_make();
    workspace_run(&workspace, 0, 1, 5, 10000000); /* an untraced run says nothing of it */
    text = (struct aorta_text){0};
    root = report(&workspace, &text);
    assert_null(json_object_get(json_object_get(json_object_get(root, "labels"), "run"), "records"));
    assert_null(strstr(text.data, "were lost"));
    json_decref(root);
    aorta_text_free(&text);
    workspace_remove(&workspace);
}

static void malformed(void **state) {
    (void)state;
    static const struct {
        const char *kernels, *part;
    } rows[] = {
        {"3", "kernel_profile: byte "},
        {"{}", "kernel_profile: ranges is missing"},
        {"{\"ranges\": [7]}", "kernel_profile: ranges[0]: byte "},
        {"{\"ranges\": [{\"stream\": \"compute\", \"tag\": \"t\", \"start_ms\": 2, \"end_ms\": 1}]}",
         "kernel_profile: ranges[0]: end_ms is before start_ms"},
        {"{\"ranges\": [], \"attributed\": -1}", "kernel_profile: attributed is -1; expected 0 to"},
        {"{\"ranges\": [], \"dropped\": 1.5}", "kernel_profile: dropped is not an integer"},
        {"{\"ranges\": [], \"clock_offset_ms\": 1e300}", "kernel_profile: clock_offset_ms is not a time: 1e+300"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[1024];
        snprintf(line, sizeof line,
                 "{\"schema_version\": 1, \"rank\": 0, \"world_size\": 1, \"epoch\": 0, \"step\": 0, "
                 "\"global_step\": 0, \"profile\": {\"ranges\": []}, \"kernel_profile\": %s}",
                 rows[i].kernels);
        struct aorta_run run = {0};
        struct aorta_step_metrics step;
        check_fails(aorta_run_parse_line(line, strlen(line), true, &run, &step), AORTA_FORMAT, rows[i].part);
        assert_null(step.kernel_profile);
        aorta_run_free(&run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(figures_from_kernels),
        cmocka_unit_test(partly_traced),
        cmocka_unit_test(malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
