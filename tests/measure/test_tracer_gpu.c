/* The kernel tracer on a real GPU: AORTA_TEST_DEVICE=cuda; skipped without. Prints what it measures: the difference of
 * the clocks, and what tracing costs. Checks that every kernel finds its range, launched one by one and in graphs. */
#include "check.h"
#include "device/gpu.h"
#include "measure/recorder.h"
#include "measure/tracer.h"

#include <stdlib.h>

enum { STEPS = 24, SLOTS = 2, LAYERS = 12, PER_LAYER = 4, COPY_BYTES = 1 << 20 };

/* Kernels that keep one thread busy for a time; one is named as NCCL names its own. */
static const struct aorta_gpu_source source = {
    "test_tracer.cu",
    "struct busy_args { long long ns; };\n"
    "static __device__ void wait_for(long long ns) {\n"
    "    long long start, now;\n"
    "    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(start));\n"
    "    do { asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now)); } while (now - start < ns);\n"
    "}\n"
    "extern \"C\" __global__ void test_gemm(busy_args a) { wait_for(a.ns); }\n"
    "extern \"C\" __global__ void test_gelu(busy_args a) { wait_for(a.ns); }\n"
    "extern \"C\" __global__ void ncclDevKernel_AllGather_test(busy_args a) { wait_for(a.ns); }\n",
};
static const struct aorta_gpu_entry gemm = {&source, "test_gemm"};
static const struct aorta_gpu_entry gelu = {&source, "test_gelu"};
static const struct aorta_gpu_entry gather = {&source, "ncclDevKernel_AllGather_test"};

struct rig {
    struct aorta_device *device;
    struct aorta_stream *compute, *comm;
    struct aorta_event *fork, *join, *done[SLOTS];
    int64_t *done_ns; /* pinned, [SLOTS] */
    struct aorta_recorder *recorder;
    void *host, *memory;
};

static void rig_open(struct rig *rig, struct aorta_device *device) {
    void *pinned;
    *rig = (struct rig){.device = device};
    check_ok(aorta_gpu_prepare(device, &gemm));
    check_ok(aorta_gpu_prepare(device, &gelu));
    check_ok(aorta_gpu_prepare(device, &gather));
    check_ok(aorta_stream_create(device, "compute", AORTA_PRIORITY_NORMAL, &rig->compute));
    check_ok(aorta_stream_create(device, "comm", AORTA_PRIORITY_HIGH, &rig->comm));
    check_ok(aorta_event_create(device, &rig->fork));
    check_ok(aorta_event_create(device, &rig->join));
    for (int i = 0; i < SLOTS; i++) check_ok(aorta_event_create(device, &rig->done[i]));
    check_ok(aorta_pinned_alloc(device, SLOTS * sizeof *rig->done_ns, "ends of steps", &pinned));
    rig->done_ns = pinned;
    check_ok(aorta_recorder_create(device, SLOTS, 256, &rig->recorder));
    check_ok(aorta_pinned_alloc(device, COPY_BYTES, "test", &rig->host));
    check_ok(aorta_device_alloc(device, COPY_BYTES, "test", &rig->memory));
}

static void rig_close(struct rig *rig) {
    aorta_recorder_destroy(rig->recorder);
    for (int i = 0; i < SLOTS; i++) aorta_event_destroy(rig->done[i]);
    aorta_event_destroy(rig->fork);
    aorta_event_destroy(rig->join);
    aorta_stream_destroy(rig->comm);
    aorta_stream_destroy(rig->compute);
    aorta_device_free(rig->device, rig->memory);
    aorta_pinned_free(rig->device, rig->host);
    aorta_pinned_free(rig->device, rig->done_ns);
}

static void launch(struct aorta_stream *stream, const struct aorta_gpu_entry *entry, int64_t ns) {
    check_ok(aorta_gpu_launch(stream, entry, (struct aorta_gpu_grid){.blocks = {1}}, &ns, sizeof ns));
}

/* Per layer: a copy, a collective and two concurrent kernels of compute: PER_LAYER pieces of device work. */
static void queue_step(struct rig *rig) {
    static const struct aorta_range_info copy = {.tag = "batch",
                                                 .function = "copy",
                                                 .role = AORTA_ROLE_AUX,
                                                 .kind = AORTA_RANGE_COPY,
                                                 .layer = -1,
                                                 .bytes = COPY_BYTES};
    check_ok(aorta_event_record(rig->fork, rig->compute));
    check_ok(aorta_stream_wait(rig->comm, rig->fork));
    for (int layer = 0; layer < LAYERS; layer++) {
        struct aorta_range_info collective = {.tag = "unit",
                                              .function = "all_gather",
                                              .role = AORTA_ROLE_AUX,
                                              .kind = AORTA_RANGE_COLLECTIVE,
                                              .collective = AORTA_ALL_GATHER,
                                              .group_size = 2,
                                              .layer = layer,
                                              .bytes = 4096};
        struct aorta_range_info linear = {
            .tag = "linear1", .function = "linear_forward", .layer = layer, .role = AORTA_ROLE_COMPUTE, .flops = 1e9};
        check_ok(aorta_range_begin(rig->recorder, rig->comm, &copy));
        check_ok(aorta_copy(rig->comm, rig->memory, rig->host, COPY_BYTES));
        check_ok(aorta_range_end(rig->recorder));
        check_ok(aorta_range_begin(rig->recorder, rig->comm, &collective));
        launch(rig->comm, &gather, 40000);
        check_ok(aorta_range_end(rig->recorder));
        check_ok(aorta_range_begin(rig->recorder, rig->compute, &linear));
        launch(rig->compute, &gemm, 50000);
        launch(rig->compute, &gelu, 10000);
        check_ok(aorta_range_end(rig->recorder));
    }
    check_ok(aorta_event_record(rig->join, rig->comm));
    check_ok(aorta_stream_wait(rig->compute, rig->join));
}

/* One iteration's kernels: all there, each once, with their true times, in their ranges. */
static void check_kernels(const struct aorta_profile *ranges, const struct aorta_profile *kernels) {
    int counts[4] = {0};
    for (size_t i = 0; i < kernels->range_count; i++) {
        const struct aorta_range *kernel = &kernels->ranges[i];
        int64_t length = kernel->end_ns - kernel->start_ns;
        bool is_gemm = strstr(kernel->info.tag, "test_gemm") != NULL, is_gelu = strstr(kernel->info.tag, "test_gelu");
        bool is_gather = strstr(kernel->info.tag, "ncclDevKernel_AllGather_test") != NULL;
        const int kind = is_gemm ? 0 : is_gelu ? 1 : is_gather ? 2 : 3;
        static const char *const tags[] = {"linear1", "linear1", "unit", "batch"};
        if (is_gemm) assert_in_range(length, 49000, 60000);
        if (is_gelu) assert_in_range(length, 9000, 20000);
        if (is_gather) assert_in_range(length, 39000, 50000);
        if (is_gather) assert_int_equal(kernel->info.kind, AORTA_RANGE_COLLECTIVE);
        if (kind == 3) assert_int_equal(kernel->info.kind, AORTA_RANGE_COPY);
        if (!kernel->info.within) print_error("'%s' has no range\n", kernel->info.tag);
        assert_non_null(kernel->info.within);
        assert_string_equal(kernel->info.within, tags[kind]);
        assert_int_equal(kernel->info.layer, kind == 3 ? -1 : counts[kind]);
        counts[kind]++;
    }
    for (int i = 0; i < PER_LAYER; i++) assert_int_equal(counts[i], LAYERS);
    assert_int_equal(ranges->range_count, 3 * LAYERS);
    assert_int_equal(kernels->kernels.dropped, 0);
}

static void join(struct rig *rig, struct aorta_tracer *tracer, int slot, struct aorta_launches *launches,
                 int64_t done_ns, int64_t *offset_ns) {
    struct aorta_profile ranges, kernels;
    struct aorta_activity_record *records;
    size_t count;
    check_ok(aorta_recorder_collect(rig->recorder, slot, &ranges));
    check_ok(aorta_tracer_take(tracer, launches, &kernels, &records, &count));
    check_ok(aorta_kernels_join(&kernels, records, &ranges, launches, done_ns));
    check_kernels(&ranges, &kernels);
    if (llabs(kernels.kernels.clock_offset_ns) > llabs(*offset_ns)) *offset_ns = kernels.kernels.clock_offset_ns;
    aorta_profile_free(&ranges);
    aorta_profile_free(&kernels);
    free(records);
    free(launches->ranges);
}

static void queue_end(struct rig *rig, int slot) {
    check_ok(aorta_timestamp(rig->compute, &rig->done_ns[slot]));
    check_ok(aorta_event_record(rig->done[slot], rig->compute));
}

/* The step in the slot is queued: what it did. */
static void finish_step(struct rig *rig, struct aorta_tracer *tracer, int slot, int64_t *offset_ns) {
    struct aorta_launches launches;
    queue_end(rig, slot);
    aorta_recorder_queued(rig->recorder);
    check_ok(aorta_recorder_launches(rig->recorder, slot, &launches));
    check_ok(aorta_event_synchronize(rig->done[slot]));
    check_ok(aorta_tracer_flush(tracer, true));
    join(rig, tracer, slot, &launches, rig->done_ns[slot], offset_ns);
}

static void one_by_one(void **state) {
    struct rig rig;
    struct aorta_tracer *tracer;
    int64_t offset_ns = 0;
    rig_open(&rig, *state);
    check_ok(aorta_tracer_open(rig.device, &tracer));
    aorta_recorder_trace(rig.recorder, tracer);
    for (int step = 0; step < STEPS; step++) {
        aorta_recorder_step(rig.recorder, step % SLOTS, step);
        queue_step(&rig);
        finish_step(&rig, tracer, step % SLOTS, &offset_ns);
    }
    struct aorta_tracer_facts facts = aorta_tracer_get_facts(tracer);
    print_message("%s (%s), %lld records; clocks apart by %lld ns at most\n", facts.library, facts.path,
                  (long long)facts.records, (long long)offset_ns);
    assert_true(llabs(offset_ns) < 20000);
    aorta_tracer_close(tracer);
    rig_close(&rig);
}

static struct aorta_graph *capture(struct rig *rig) {
    struct aorta_graph *graph;
    aorta_recorder_step(rig->recorder, 0, 0);
    check_ok(aorta_capture_begin(rig->compute));
    queue_step(rig);
    check_ok(aorta_capture_end(rig->compute, &graph));
    aorta_recorder_captured(rig->recorder);
    return graph;
}

static void replayed(void **state) {
    struct rig rig;
    struct aorta_tracer *tracer;
    int64_t offset_ns = 0;
    rig_open(&rig, *state);
    check_ok(aorta_tracer_open(rig.device, &tracer)); /* before graphs are made, as in training */
    aorta_recorder_trace(rig.recorder, tracer);
    struct aorta_graph *graph = capture(&rig);
    for (int step = 0; step < STEPS; step++) {
        if (step) aorta_recorder_replay(rig.recorder, 0, step);
        aorta_recorder_launched(rig.recorder);
        check_ok(aorta_graph_launch(graph, rig.compute));
        finish_step(&rig, tracer, 0, &offset_ns);
    }
    print_message("replayed: clocks apart by %lld ns at most\n", (long long)offset_ns);
    aorta_tracer_close(tracer);
    aorta_graph_destroy(graph);
    rig_close(&rig);
}

static int ascending(const void *left, const void *right) {
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Median time between the ends of replays that are queued without a pause. */
static double replay_ms(struct rig *rig, struct aorta_graph *graph) {
    enum { REPLAYS = 60 };
    double times[REPLAYS];
    int64_t before = 0;
    for (int i = 0; i < REPLAYS + SLOTS; i++) {
        if (i >= SLOTS) {
            check_ok(aorta_event_synchronize(rig->done[i % SLOTS]));
            const int64_t now = rig->done_ns[i % SLOTS];
            times[i - SLOTS] = (double)(now - before) / 1e6;
            before = now;
        }
        if (i >= REPLAYS) continue;
        check_ok(aorta_graph_launch(graph, rig->compute));
        queue_end(rig, i % SLOTS);
    }
    qsort(times + 1, REPLAYS - 1, sizeof *times, ascending);
    return times[1 + (REPLAYS - 1) / 2];
}

static void cost(void **state) {
    struct rig rig;
    struct aorta_tracer *tracer;
    double with[7], without[7];
    rig_open(&rig, *state);
    check_ok(aorta_tracer_open(rig.device, &tracer)); /* before graphs are made, as in training */
    aorta_recorder_trace(rig.recorder, tracer);
    struct aorta_graph *graph = capture(&rig);
    for (int round = 0; round < 7; round++) {
        check_ok(aorta_tracer_stop(tracer));
        without[round] = replay_ms(&rig, graph);
        check_ok(aorta_tracer_start(tracer));
        with[round] = replay_ms(&rig, graph);
        check_ok(aorta_tracer_flush(tracer, true));
    }
    qsort(with, 7, sizeof *with, ascending);
    qsort(without, 7, sizeof *without, ascending);
    print_message("a replayed step of %d pieces of work: %.4f ms, traced %.4f ms (%+.2f%%)\n", LAYERS * PER_LAYER,
                  without[3], with[3], 100 * (with[3] / without[3] - 1));
    assert_true(with[3] < 1.10 * without[3]); /* the aim is 3% of a step of larger kernels; this catches a disaster */
    aorta_tracer_close(tracer);
    aorta_graph_destroy(graph);
    rig_close(&rig);
}

static int open_device(void **state) {
    const char *wanted = getenv("AORTA_TEST_DEVICE");
    struct aorta_device *device;
    if (!wanted || strcmp(wanted, "cuda") != 0) {
        print_message("[  SKIPPED ] all: AORTA_TEST_DEVICE is not cuda; the kernel tracer needs an NVIDIA GPU\n");
        exit(0);
    }
    aorta_status status = aorta_device_open(AORTA_DEVICE_CUDA, 0, &device);
    if (aorta_status_code(status) == AORTA_UNSUPPORTED) {
        print_message("[  SKIPPED ] all: %s\n", aorta_status_message(status));
        exit(0);
    }
    check_ok(status);
    *state = device;
    return 0;
}

static int close_device(void **state) {
    aorta_device_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_by_one),
        cmocka_unit_test(replayed),
        cmocka_unit_test(cost),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
