/* The trace writer: what it makes of ranges, of kernels with ranges, and of records alone. */
#include "base/clock.h"
#include "base/files.h"
#include "check.h"
#include "kineto/layout.h"
#include "measure/kineto_write.h"
#include "measure/tracer.h"
#include "samples/profile.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[32], path[64];

static int open_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/aorta_kineto_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/t.json", folder);
    return 0;
}

static int close_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails when anything else was left there */
}

static struct aorta_kineto_about about_gpu(void) {
    return (struct aorta_kineto_about){
        .rank = 1,
        .world_size = 2,
        .backend = "nccl",
        .groups = {{0, 2, 1}},
        .group_count = 1,
        .device = {.kind = AORTA_DEVICE_CUDA,
                   .index = 3,
                   .name = "Test \"GPU\"",
                   .isa = "sm_90",
                   .memory_bytes = 1 << 30,
                   .multiprocessors = 100},
        .tracer = "CUPTI 13.0.1",
        .thread = 42,
        .shapes = true,
        .memory = true,
        .flops = true,
    };
}

static json_t *write_step(const struct aorta_kineto_about *about, const struct aorta_kineto_step *step) {
    struct aorta_kineto *kineto;
    check_ok(aorta_kineto_open(path, about, &kineto));
    check_ok(aorta_kineto_add(kineto, step));
    check_ok(aorta_kineto_close(kineto));
    return layout_read(path);
}

/* A step on a GPU: input copy, a layer, a concurrent all-gather; times around now, as the device clock has them. */
struct gpu_step {
    struct sample ranges;
    struct aorta_activity_record records[6];
    struct aorta_profile kernels;
    int64_t t;
};

static const int owners[6] = {0, 1, 1, 1, 2, -1}; /* the range of each record */

static void make_gpu_step(struct gpu_step *step, bool graph) {
    static const uint32_t three[3] = {200, 2, 1}, block[3] = {96, 1, 1};
    int64_t t = step->t = aorta_clock_ns();
    struct sample *s = &step->ranges;
    sample_begin(s, 7);
    struct aorta_range *copy = sample_copy(s, t, t + 2000, t - 9000);
    copy->info.tag = "input", copy->info.function = "prefetch";
    struct aorta_range *layer = sample_compute(s, t + 3000, t + 9000, graph ? t - 9000 : t - 6000);
    layer->info.tag = "encoder.layers.0", layer->info.function = "layer_forward", layer->info.flops = 5e9;
    layer->info.dims[0][0] = 4, layer->info.dims[0][1] = 7, layer->info.dims[0][2] = 24;
    layer->info.dtype = AORTA_BF16;
    struct aorta_range *gather =
        sample_collective(s, AORTA_ALL_GATHER, t + 4000, t + 8000, graph ? t - 9000 : t - 2000);
    gather->info.bytes = 4096, gather->info.dtype = AORTA_BF16, gather->stream = 2;
    sample_done(s, INT64_MIN);
    uint32_t g = graph ? 5 : 0;
    const struct aorta_activity_record records[] = {
        {.kind = AORTA_TRACE_COPY,
         .name = "copy host to device",
         .copy_kind = 1,
         .start_ns = t + 100,
         .end_ns = t + 1101,
         .bytes = 2002,
         .stream = 20,
         .correlation = 11},
        {.kind = AORTA_TRACE_KERNEL,
         .name = "gemm",
         .start_ns = t + 3100,
         .end_ns = t + 5103,
         .stream = 7,
         .correlation = graph ? 12 : 13,
         .graph = g,
         .graph_node = g,
         .grid = {three[0], three[1], three[2]},
         .block = {block[0], block[1], block[2]},
         .registers = 168,
         .shared_bytes = 1024},
        {.kind = AORTA_TRACE_FILL,
         .name = "fill",
         .start_ns = t + 3010,
         .end_ns = t + 3060,
         .bytes = 64,
         .stream = 7,
         .correlation = graph ? 12 : 14,
         .graph = g},
        {.kind = AORTA_TRACE_KERNEL,
         .name = "gelu",
         .start_ns = t + 6000,
         .end_ns = t + 8900,
         .stream = 7,
         .correlation = graph ? 12 : 15,
         .graph = g},
        {.kind = AORTA_TRACE_KERNEL,
         .name = "ncclDevKernel_AllGather_RING_LL",
         .start_ns = t + 4100,
         .end_ns = t + 7907,
         .stream = 21,
         .correlation = graph ? 12 : 16,
         .graph = g},
        {.kind = AORTA_TRACE_KERNEL,
         .name = "aorta_stamp",
         .start_ns = t + 8950,
         .end_ns = t + 8960,
         .stream = 7,
         .correlation = 17},
    };
    memcpy(step->records, records, sizeof records);
    sample_join(step->records, 6, owners, &s->profile, &step->kernels);
}

static void free_gpu_step(struct gpu_step *step) {
    aorta_profile_free(&step->kernels);
    sample_free(&step->ranges);
}

static struct aorta_kineto_step step_of(struct gpu_step *step) {
    return (struct aorta_kineto_step){.number = 7,
                                      .ranges = &step->ranges.profile,
                                      .kernels = &step->kernels,
                                      .records = step->records,
                                      .record_count = 6};
}

/* Figures of the file are those of the metrics line of the same view. */
static void expect_figures(const json_t *trace, struct aorta_profile *view) {
    const struct aorta_overlap *overlap = &view->overlap;
    struct layout_figures figures = layout_figures(trace, -1);
    check_ok(aorta_overlap_compute(view, INT64_MIN));
    assert_int_equal(figures.compute, overlap->compute_ns);
    assert_int_equal(figures.comm, overlap->comm_ns);
    assert_int_equal(figures.memcpy, overlap->memcpy_ns);
    assert_int_equal(figures.busy, overlap->busy_ns);
    assert_int_equal(figures.span, overlap->span_ns);
    assert_int_equal(figures.overlap, overlap->overlap_ns);
}

static void test_kernels(void **state) {
    (void)state;
    struct gpu_step step;
    struct aorta_kineto_about about = about_gpu();
    struct aorta_memory_info memory = {.allocated = 1000, .reserved = 2000, .pinned = 30};
    struct aorta_device_reading reading = {.wanted = true, .values = {.temperature_c = 55, .power_w = NAN}};
    about.clock_offset_ns = INT64_C(1790857026000000000) + 5; /* the begin of a quarter */
    make_gpu_step(&step, false);
    struct aorta_kineto_step arguments = step_of(&step);
    arguments.memory = &memory, arguments.device = &reading;
    json_t *trace = write_step(&about, &arguments);
    expect_figures(trace, &step.kernels);

    const json_t *gemm = layout_event(trace, "X", "kernel", "gemm", 0);
    const json_t *gather = layout_event(trace, "X", "kernel", "ncclDevKernel_AllGather_RING_LL", 0);
    const json_t *copy = layout_event(trace, "X", "gpu_memcpy", "Memcpy HtoD", 0);
    assert_int_equal(layout_count(trace, "X", "gpu_memset", "Memset (Device)"), 1);
    assert_int_equal(layout_count(trace, "X", "kernel", NULL), 3); /* the stamp is none */
    assert_int_equal(json_integer_value(json_object_get(trace, "baseTimeNanoseconds")) % 7889238000000000, 0);
    int64_t shift = 5;
    assert_int_equal((layout_start_ns(gemm) - step.t - 3100 - shift) % 7889238000000000, 0);
    assert_int_equal(layout_end_ns(gemm) - layout_start_ns(gemm), 2003);
    assert_int_equal(layout_number(gemm, "device"), 3);
    assert_int_equal(layout_number(gemm, "correlation"), 13);
    assert_int_equal(layout_number(gemm, "library stream"), 7);
    assert_int_equal(layout_number(gemm, "registers per thread"), 168);
    assert_int_equal(layout_number(gemm, "shared memory"), 1024);
    assert_string_equal(layout_text(gemm, "tag"), "encoder.layers.0");
    assert_true(json_real_value(json_object_get(json_object_get(gemm, "args"), "blocks per SM")) == 4.0);
    assert_true(json_real_value(json_object_get(json_object_get(gemm, "args"), "warps per SM")) == 12.0);
    assert_int_equal(layout_number(copy, "bytes"), 2002);
    assert_true(json_real_value(json_object_get(json_object_get(copy, "args"), "memory bandwidth (GB/s)")) == 2.0);

    assert_string_equal(layout_text(gather, "Collective name"), "_allgather_base");
    assert_int_equal(layout_number(gather, "In msg nelems"), 1024);
    assert_int_equal(layout_number(gather, "Out msg nelems"), 2048);
    assert_string_equal(layout_text(gather, "dtype"), "BFloat16");
    assert_int_equal(layout_number(gather, "Group size"), 2);
    assert_string_equal(layout_text(gather, "Process Group Ranks"), "[0, 1]");
    assert_int_equal(layout_number(gather, "Seq"), 0);

    /* the range, from its first kernel to its last, and its counterpart on the host */
    const json_t *layer = layout_event(trace, "X", "gpu_user_annotation", "layer_forward (encoder.layers.0)", 0);
    assert_int_equal(layout_end_ns(layer) - layout_start_ns(layer), 8900 - 3010);
    const json_t *host = layout_event(trace, "X", "user_annotation", "layer_forward (encoder.layers.0)", 0);
    assert_int_equal(layout_number(host, "External id"), layout_number(layer, "External id"));
    assert_int_equal(layout_number(gemm, "External id"), layout_number(layer, "External id"));
    assert_true(layout_has(host, "Input Dims") && layout_has(host, "flops"));
    /* three launches, of the fill first, share the 4 us until the next range */
    assert_int_equal(layout_count(trace, "X", "cuda_runtime", "cudaLaunchKernel"), 3);
    assert_int_equal(layout_count(trace, "X", "cuda_runtime", "cudaMemsetAsync"), 1);
    const json_t *launch = layout_event(trace, "X", "cuda_runtime", "cudaLaunchKernel", 0);
    assert_int_equal(layout_end_ns(launch) - layout_start_ns(launch), 4000 / 3 - 4); /* and do not touch the next */
    assert_int_equal(layout_end_ns(host) - layout_start_ns(host), 4000 - 2);
    assert_int_equal(layout_start_ns(gemm) - layout_start_ns(launch), 3100 + 6000 - 4000 / 3);

    assert_int_equal(layout_number(layout_event(trace, "C", NULL, "device memory (bytes)", 0), "reserved"), 2000);
    assert_int_equal(layout_count(trace, "C", NULL, "temperature (C)"), 1);
    assert_int_equal(layout_count(trace, "C", NULL, "power (W)"), 0); /* not measured */
    json_decref(trace);
    free_gpu_step(&step);
}

/* One launch for all of a graph's kernels; they are on tracks of their own. */
static void test_graph(void **state) {
    (void)state;
    struct gpu_step step;
    struct aorta_kineto_about about = about_gpu();
    make_gpu_step(&step, true);
    struct aorta_kineto_step arguments = step_of(&step);
    json_t *trace = write_step(&about, &arguments);
    expect_figures(trace, &step.kernels);
    assert_int_equal(layout_count(trace, "X", "cuda_runtime", "cudaGraphLaunch"), 1);
    assert_int_equal(layout_count(trace, "X", "cuda_runtime", "cudaLaunchKernel"), 0);
    assert_int_equal(layout_count(trace, "f", "ac2g", NULL), 5);
    assert_int_equal(layout_count(trace, "s", "ac2g", NULL), 2);
    assert_int_equal(layout_number(layout_event(trace, "X", "kernel", "gemm", 0), "graph id"), 5);
    assert_true(layout_number(layout_event(trace, "X", "kernel", "gemm", 0), "stream") >= 1000);
    json_decref(trace);
    free_gpu_step(&step);
}

/* As another program's tracer has them: no ranges, no steps, streams as the library numbers them. */
static void test_records_alone(void **state) {
    (void)state;
    struct gpu_step step;
    struct aorta_kineto_about about = about_gpu();
    about.backend = NULL, about.group_count = 0;
    make_gpu_step(&step, false);
    struct aorta_kineto_step arguments = {.number = -1, .records = step.records, .record_count = 6};
    json_t *trace = write_step(&about, &arguments);
    assert_null(json_object_get(trace, "distributedInfo"));
    assert_int_equal(layout_figures(trace, -1).comm, 7907 - 4100);
    assert_int_equal(layout_number(layout_event(trace, "X", "kernel", "gemm", 0), "stream"), 7);
    assert_int_equal(layout_count(trace, "X", "cuda_runtime", NULL), 0); /* nobody knows the launches */
    json_decref(trace);
    free_gpu_step(&step);
}

/* Work that counts as a collective is named one: the name of a copy that replaces it does not say so. */
static void test_simulated(void **state) {
    (void)state;
    struct gpu_step step;
    struct aorta_kineto_about about = about_gpu();
    make_gpu_step(&step, false);
    aorta_profile_free(&step.kernels);
    struct aorta_range *gather = &step.ranges.profile.ranges[2]; /* alone, so that its copy is certain to be its own */
    gather->info.simulated = true;
    gather->start_ns = step.t + 9500, gather->end_ns = step.ranges.profile.end_ns = step.t + 9900;
    step.records[4].start_ns = step.t + 9600, step.records[4].end_ns = step.t + 9807;
    step.records[4].kind = AORTA_TRACE_COPY;
    step.records[4].name = "copy device to device";
    sample_join(step.records, 6, owners, &step.ranges.profile, &step.kernels);
    struct aorta_kineto_step arguments = step_of(&step);
    json_t *trace = write_step(&about, &arguments);
    expect_figures(trace, &step.kernels);
    assert_int_equal(layout_figures(trace, -1).comm, 207);
    const json_t *event = layout_event(trace, "X", "kernel", "aorta_collective_all_gather", 0);
    assert_string_equal(layout_text(event, "recorded as"), "copy device to device");
    assert_true(layout_has(event, "simulated"));
    json_decref(trace);
    free_gpu_step(&step);
}

/* Any profile: the figures are those of the overlap algebra. One stream for each range, so that tracks nest. */
static void test_random(void **state) {
    (void)state;
    uint64_t random = 1;
    struct aorta_kineto_about about = about_gpu();
    about.device.kind = AORTA_DEVICE_CPU;
    about.tracer = NULL;
    for (int round = 0; round < 20; round++) {
        struct sample sample;
        int64_t now = aorta_clock_ns();
        sample_begin(&sample, round);
        sample_fill_random(&sample, &random, 60, now, 1000000);
        sample.profile.host_count = 0; /* random ones do not nest */
        for (size_t i = 0; i < sample.profile.range_count; i++) {
            sample.profile.ranges[i].stream = (int)i;
            sample.profile.ranges[i].enqueue_ns = now + (int64_t)i * 100 - 100000;
        }
        sample_done(&sample, INT64_MIN);
        struct aorta_kineto_step arguments = {.number = round, .ranges = &sample.profile};
        json_t *trace = write_step(&about, &arguments);
        expect_figures(trace, &sample.profile);
        json_decref(trace);
        sample_free(&sample);
    }
}

/* The name appears with the whole file and not before; what is given up leaves nothing. */
static void test_whole_or_absent(void **state) {
    (void)state;
    struct gpu_step step;
    struct aorta_kineto *kineto;
    struct aorta_kineto_about about = about_gpu();
    make_gpu_step(&step, false);
    struct aorta_kineto_step arguments = step_of(&step);
    unlink(path);
    check_ok(aorta_kineto_open(path, &about, &kineto));
    for (int i = 0; i < 200; i++) check_ok(aorta_kineto_add(kineto, &arguments)); /* more than is gathered */
    assert_int_not_equal(access(path, F_OK), 0);
    aorta_kineto_abandon(kineto);
    assert_int_not_equal(access(path, F_OK), 0);
    check_ok(aorta_kineto_open(path, &about, &kineto));
    check_ok(aorta_kineto_close(kineto)); /* nothing happened: still a trace */
    json_decref(layout_read(path));
    unlink(path);
    check_ok(aorta_kineto_open(path, &about, &kineto));
    assert_int_equal(mkdir(path, 0777), 0); /* in the way when it is to be put in its place */
    check_fails(aorta_kineto_close(kineto), AORTA_IO, path);
    assert_int_equal(rmdir(path), 0);
    check_fails(aorta_kineto_open("/no/such/folder/t.json", &about, &kineto), AORTA_IO, "/no/such/folder/t.json");
    free_gpu_step(&step);
}

static void test_paths(void **state) {
    (void)state;
    struct aorta_file_path made;
    char *name = made.text, start[128];
    check_ok(aorta_kineto_path(folder, 12, &made));
    snprintf(start, sizeof start, "%s/rank12/", folder);
    assert_memory_equal(name, start, strlen(start));
    snprintf(start, sizeof start, "_%ld.", (long)getpid());
    assert_non_null(strstr(name, start));
    assert_string_equal(name + strlen(name) - strlen(".pt.trace.json"), ".pt.trace.json");
    *strrchr(name, '/') = '\0';
    assert_int_equal(rmdir(name), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),   cmocka_unit_test(test_graph),  cmocka_unit_test(test_records_alone),
        cmocka_unit_test(test_simulated), cmocka_unit_test(test_random), cmocka_unit_test(test_whole_or_absent),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
