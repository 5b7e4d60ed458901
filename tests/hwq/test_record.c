/* A workload's iterations as a trace file: read back as `aorta trace` does it. On GPUs with the fake driver and the
 * stand-in for libcupti, which the test plants: the workload's iterations, and the stamps of the streams, which the
 * linker sends here (--wrap). */
#include "analysis/analysis.h"
#include "base/clock.h"
#include "check.h"
#include "fake_cupti/fake_cupti.h"
#include "folder.h"
#include "hwq/graph.h"
#include "hwq/run.h"
#include "kineto/layout.h"
#include "ops/ops.h"
#include "trace/open.h"

#include <stdlib.h>
#include <unistd.h>

enum { STREAMS = 4, CHAINS = 3, ITERATIONS = 5, LIBRARY_STREAM = 100 };

static const struct fake_cupti *fake;
static const struct aorta_hwq_workload *original;
static struct aorta_stream *known[AORTA_HWQ_MAX_STREAMS];
static bool stamps_are_seen, kernels_are_seen;

/* ---- the view of the stand-in ---- */

static void see(const char *name, uint32_t stream) {
    const uint64_t now = (uint64_t)aorta_clock_ns();
    const struct fake_activity activity = {
        .kind = 10, .name = name, .start = now, .end = now + 10, .stream = LIBRARY_STREAM + stream};
    fake->record(&activity);
}

/* NOLINTBEGIN(bugprone-reserved-identifier): so ld's --wrap calls them. */
aorta_status __real_aorta_timestamp(struct aorta_stream *stream, int64_t *slot);
aorta_status __wrap_aorta_timestamp(struct aorta_stream *stream, int64_t *slot);
/* NOLINTEND(bugprone-reserved-identifier) */

aorta_status __wrap_aorta_timestamp(struct aorta_stream *stream, int64_t *slot) {
    uint32_t number = 0;
    while (known[number] && known[number] != stream) number++;
    known[number] = stream;
    if (stamps_are_seen) see("aorta_stamp", number);
    return __real_aorta_timestamp(stream, slot);
}

static aorta_status run_seen(const struct hwq_operation *o, struct aorta_stream *stream) {
    (void)stream;
    if (kernels_are_seen) see("gemm_kernel", (uint32_t)o->stream);
    return NULL;
}

/* Stream s runs s + 1 kernels more. */
static void build_seen(struct hwq_graph *g) {
    static const struct hwq_kind seen = {.name = "seen", .span = AORTA_SPAN_KERNEL, .run = run_seen};
    original->build(g);
    for (int s = 0; s < g->hwq->stream_count; s++)
        for (int i = 0; i <= s; i++) hwq_append(g, &(struct hwq_operation){.kind = &seen, .stream = s}, NULL, 0);
}

/* ---- a run ---- */

struct rig {
    struct aorta_device *device;
    struct aorta_arena arena;
    struct aorta_log log;
    struct aorta_hwq_workload workload;
    _Alignas(16) unsigned char options[AORTA_HWQ_OPTION_BYTES];
    struct aorta_hwq_run run;
    char folder[FOLDER_PATH];
    struct aorta_trace_list traces;
};

static void open_rig(struct rig *rig, enum aorta_device_kind kind) {
    memset(rig, 0, sizeof *rig);
    memset(known, 0, sizeof known);
    stamps_are_seen = kernels_are_seen = true;
    check_ok(aorta_device_open(kind, 0, &rig->device));
    if (kind != AORTA_DEVICE_CPU)
        check_ok(aorta_ops_configure(rig->device, &(struct aorta_ops_settings){.own_products = true}));
    check_ok(aorta_hwq_find("tiny_kernel_stress", &original));
    rig->workload = *original;
    if (kind != AORTA_DEVICE_CPU) rig->workload.build = build_seen;
    rig->log = (struct aorta_log){.level = AORTA_LOG_ERROR, .rank = -1};
    rig->run = (struct aorta_hwq_run){.workload = &rig->workload,
                                      .options = rig->options,
                                      .device = rig->device,
                                      .log = &rig->log,
                                      .streams = STREAMS,
                                      .iterations = 100,
                                      .ranks = {.world_size = 1, .local_world_size = 1}};
    for (size_t i = 0; i < original->option_count; i++) {
        const struct aorta_option *option = &original->options[i];
        const struct aorta_scalar three = {"3", false};
        check_ok(aorta_option_store_default(option, rig->options, &rig->arena));
        if (strcmp(option->key, "chains") == 0)
            assert_true(aorta_option_store(option, &three, 1, false, rig->options, &rig->arena));
    }
    folder_make(rig->folder, "record");
}

static void close_rig(struct rig *rig) {
    aorta_trace_list_free(&rig->traces);
    folder_remove(rig->folder);
    aorta_device_close(rig->device);
    aorta_arena_free(&rig->arena);
}

static const struct aorta_trace *record(struct rig *rig) {
    const char *folder = rig->folder;
    const struct aorta_trace_options options = {0};
    struct aorta_file_path path;
    check_ok(aorta_hwq_run_record(&rig->run, folder, &path));
    assert_int_equal(access(path.text, R_OK), 0);
    assert_int_equal(strncmp(path.text, folder, strlen(folder)), 0);
    json_decref(layout_read(path.text)); /* as Perfetto and TensorBoard want it */
    check_ok(aorta_trace_open_inputs(&folder, 1, &options, &rig->traces));
    assert_int_equal(rig->traces.count, 1);
    return rig->traces.items[0];
}

/* Pieces of work with this name on this stream, within the marked steps. */
static int count_work(const struct aorta_trace *trace, const char *name, int64_t stream) {
    int count = 0;
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        if (trace->streams[work->stream].id != stream || strcmp(aorta_trace_text(trace, work->name), name) != 0)
            continue;
        assert_true(work->start_ns >= trace->steps[0].start_ns);
        assert_true(work->end_ns <= trace->steps[trace->step_count - 1].end_ns);
        count++;
    }
    return count;
}

static bool holds(const char *path, const char *text) {
    char line[4096];
    FILE *file = fopen(path, "r");
    bool found = false;
    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file)) found = strstr(line, text) != NULL;
    fclose(file);
    return found;
}

/* The recording's own time between iterations belongs to none of them. */
static void check_analysis(const struct rig *rig) {
    struct aorta_trace_analysis analysis;
    check_ok(aorta_trace_analyze(&rig->traces, NULL, &analysis));
    const struct aorta_trace_rank *rank = &analysis.ranks[0];
    int64_t span_ns = 0;
    assert_int_equal(rank->window_count, ITERATIONS);
    for (size_t i = 0; i < rank->window_count; i++) span_ns += rank->windows[i].profile.overlap.span_ns;
    assert_int_equal(rank->figures.span_ns, span_ns);
    aorta_trace_analysis_free(&analysis);
}

/* ---- tests ---- */

static void on_the_cpu(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct rig rig;
        open_rig(&rig, AORTA_DEVICE_CPU);
        rig.run.graph = way & 1;
        rig.run.gate = way & 2;
        const struct aorta_trace *trace = record(&rig);
        assert_int_equal(trace->step_count, ITERATIONS);
        assert_int_equal(trace->stream_count, STREAMS);
        assert_int_equal(trace->work_count, STREAMS * CHAINS * 4 * ITERATIONS);
        for (int s = 0; s < STREAMS; s++) assert_int_equal(count_work(trace, "hwq_chain", s), CHAINS * 4 * ITERATIONS);
        /* A replay's launches are one, and not known one by one. */
        assert_int_equal(trace->warnings[AORTA_REASON_NO_LAUNCH].count, rig.run.graph ? (int)trace->work_count : 0);
        assert_true(holds(trace->path, "\"stream 3 compute hwq 3\""));
        check_analysis(&rig);
        close_rig(&rig);
    }
}

static void on_a_gpu(void **state) {
    (void)state;
    for (int gate = 0; gate < 2; gate++) {
        struct rig rig;
        open_rig(&rig, AORTA_DEVICE_CUDA);
        rig.run.gate = gate;
        fake->reset();
        const struct aorta_trace *trace = record(&rig);
        assert_int_equal(trace->step_count, ITERATIONS);
        assert_int_equal(trace->work_count, ITERATIONS * STREAMS * (STREAMS + 1) / 2); /* stamps are no work */
        for (int s = 0; s < STREAMS; s++) {
            char name[64];
            assert_int_equal(count_work(trace, "gemm_kernel", LIBRARY_STREAM + s), (s + 1) * ITERATIONS);
            snprintf(name, sizeof name, "\"stream %d hwq %d\"", LIBRARY_STREAM + s, s);
            assert_true(holds(trace->path, name));
        }
        assert_int_equal(fake->subscribers(), 0); /* the tracer is closed */
        close_rig(&rig);
    }
}

/* Without stamps streams have no names; without kernels there is no file. */
static void what_the_tracer_does_not_see(void **state) {
    struct rig rig;
    struct aorta_file_path path;
    (void)state;
    open_rig(&rig, AORTA_DEVICE_CUDA);
    fake->reset();
    stamps_are_seen = false;
    const struct aorta_trace *trace = record(&rig);
    assert_true(holds(trace->path, "\"stream 103\""));
    kernels_are_seen = false;
    check_fails(aorta_hwq_run_record(&rig.run, rig.folder, &path), AORTA_DEVICE, "recorded nothing of 5 iterations");
    close_rig(&rig);
}

static void when_the_tracer_cannot_be_opened(void **state) {
    struct aorta_hwq_result result;
    struct rig rig;
    struct aorta_file_path path;
    (void)state;
    open_rig(&rig, AORTA_DEVICE_CUDA);
    fake->reset();
    fake->refuse("cuptiSubscribe", 39);
    rig.run.iterations = 2;
    check_ok(aorta_hwq_run_execute(&rig.run, &result)); /* no tracer is needed to measure */
    aorta_hwq_result_free(&result);
    check_fails(aorta_hwq_run_record(&rig.run, rig.folder, &path), AORTA_UNSUPPORTED, "nothing was recorded");
    fake->refuse(NULL, 0);
    assert_int_equal(rmdir(rig.folder), 0); /* nothing was left there */
    close_rig(&rig);
}

int main(void) {
    setenv("AORTA_LIBRARY_PATH", FAKES ":" FAKE_CUPTI, 1);
    setenv("FAKE_GPU_RECORDS", "none", 1);
    setenv("AORTA_CACHE_DIR", CACHE, 1);
    setenv("FAKE_GPU_KERNELS", "ignore", 1);
    fake = fake_cupti_open(FAKE_CUPTI);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_cpu),
        cmocka_unit_test(on_a_gpu),
        cmocka_unit_test(what_the_tracer_does_not_see),
        cmocka_unit_test(when_the_tracer_cannot_be_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
