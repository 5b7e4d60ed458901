/* Runs product and copy in the four ways, verifies both, and finds what overlaps. */
#include "hwq/sdma.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/result_table.h"
#include "device/gpu.h"
#include "device/owned.h"
#include "hwq/operations.h"

#include <math.h>
#include <sched.h>
#include <string.h>

enum { MOST_ATTEMPTS = 10 };
static const int64_t first_hold_ns = 400000, longest_hold_ns = 500000000;

struct bench {
    const struct aorta_sdma_options *options;
    struct aorta_sdma *result;
    struct aorta_owned own, target_own; /* objects of the device, and of the device with the copy's target */
    struct aorta_stream *gemm, *copy, *gate, *reader; /* reader: on the target's device */
    struct aorta_event *open, *gemm_done, *copy_done;
    int64_t *stamps; /* pinned: the gate's start and end, the end of all, of the product, of the copy */
    int64_t hold_ns;
    struct aorta_hwq hwq;      /* of the product, on the stream `gemm` */
    struct hwq_graph *product; /* of random matrices, as products of zeros or ones draw less power and are faster */
    void *source, *target;
    void *pattern, *scratch; /* pinned: the source's contents, and the copy read back */
};
enum { STAMP_GATE, STAMP_OPEN, STAMP_ALL, STAMP_GEMM, STAMP_COPY, STAMP_COUNT };

/* ---- one run ---- */

static aorta_status queue_gemm(struct bench *bench) {
    AORTA_TRY(aorta_stream_wait(bench->gemm, bench->open));
    AORTA_TRY(hwq_graph_iterate(bench->product));
    AORTA_TRY(aorta_timestamp(bench->gemm, &bench->stamps[STAMP_GEMM]));
    AORTA_TRY(aorta_event_record(bench->gemm_done, bench->gemm));
    return aorta_stream_wait(bench->gate, bench->gemm_done);
}

static aorta_status queue_copy(struct bench *bench, bool after_gemm) {
    AORTA_TRY(aorta_stream_wait(bench->copy, after_gemm ? bench->gemm_done : bench->open));
    AORTA_TRY(aorta_copy(bench->copy, bench->target, bench->source, bench->options->copy_bytes));
    if (!bench->result->polled) AORTA_TRY(aorta_timestamp(bench->copy, &bench->stamps[STAMP_COPY]));
    AORTA_TRY(aorta_event_record(bench->copy_done, bench->copy));
    return aorta_stream_wait(bench->gate, bench->copy_done);
}

static aorta_status queue(struct bench *bench, enum aorta_sdma_mode mode) {
    AORTA_TRY(aorta_spin(bench->gate, bench->hold_ns, &bench->stamps[STAMP_GATE]));
    AORTA_TRY(aorta_event_record(bench->open, bench->gate));
    if (mode != AORTA_SDMA_COPY) AORTA_TRY(queue_gemm(bench));
    if (mode != AORTA_SDMA_GEMM) AORTA_TRY(queue_copy(bench, mode == AORTA_SDMA_SERIAL));
    return aorta_timestamp(bench->gate, &bench->stamps[STAMP_ALL]);
}

/* The host polls for the copy's end: a kernel would wait for multiprocessors that the product uses. */
static void poll(struct bench *bench) {
    while (!aorta_event_done(bench->copy_done)) sched_yield();
    bench->stamps[STAMP_COPY] = aorta_clock_ns();
}

/* *valid is true if everything was queued before the gate opened. */
static aorta_status attempt(struct bench *bench, enum aorta_sdma_mode mode, bool *valid) {
    AORTA_TRY(queue(bench, mode));
    int64_t launch_ns = aorta_clock_ns();
    if (bench->result->polled && mode == AORTA_SDMA_TOGETHER) poll(bench);
    AORTA_TRY(aorta_stream_synchronize(bench->gate));
    AORTA_TRY(aorta_stream_synchronize(bench->copy));
    AORTA_TRY(aorta_stream_synchronize(bench->gemm));
    *valid = launch_ns < bench->stamps[STAMP_OPEN];
    return NULL;
}

static aorta_status run_once(struct bench *bench, enum aorta_sdma_mode mode) {
    bool valid = false;
    for (int i = 0; i < MOST_ATTEMPTS && !valid; i++) {
        AORTA_TRY(attempt(bench, mode, &valid));
        if (!valid && bench->hold_ns < longest_hold_ns) bench->hold_ns *= 2;
    }
    if (valid) return NULL;
    return AORTA_ERROR(AORTA_TIMEOUT, "the host needs longer than %.0f ms to queue one product and one copy",
                       (double)bench->hold_ns * 1e-6);
}

static double since_open_ms(const struct bench *bench, int stamp) {
    return (double)(bench->stamps[stamp] - bench->stamps[STAMP_OPEN]) * 1e-6;
}

static aorta_status sample(struct bench *bench, int iteration) {
    struct aorta_sdma *result = bench->result;
    for (enum aorta_sdma_mode mode = 0; mode < AORTA_SDMA_MODE_COUNT; mode++) {
        AORTA_TRY(run_once(bench, mode));
        result->samples_ms[mode][iteration] = since_open_ms(bench, STAMP_ALL);
    }
    result->samples_ms[AORTA_SDMA_GEMM_TOGETHER][iteration] = since_open_ms(bench, STAMP_GEMM);
    result->samples_ms[AORTA_SDMA_COPY_TOGETHER][iteration] = since_open_ms(bench, STAMP_COPY);
    return NULL;
}

/* ---- verification ---- */

static aorta_status clear_target(struct bench *bench) {
    if (bench->options->direction == AORTA_SDMA_D2H) {
        memset(bench->target, 0, bench->options->copy_bytes);
        return NULL;
    }
    AORTA_TRY(aorta_fill_bytes(bench->reader, bench->target, 0, bench->options->copy_bytes));
    return aorta_stream_synchronize(bench->reader);
}

static aorta_status check_copy(struct bench *bench, const char *when) {
    const size_t bytes = bench->options->copy_bytes;
    const unsigned char *got = bench->target, *expected = bench->pattern;
    if (bench->options->direction != AORTA_SDMA_D2H) {
        AORTA_TRY(aorta_copy(bench->reader, bench->scratch, bench->target, bytes));
        AORTA_TRY(aorta_stream_synchronize(bench->reader));
        got = bench->scratch;
    }
    if (memcmp(got, expected, bytes) == 0) return NULL;
    size_t at = 0;
    while (got[at] == expected[at]) at++;
    return AORTA_ERROR(AORTA_DEVICE, "the copy %s is wrong: byte %zu of %zu is 0x%02x, not 0x%02x", when, at, bytes,
                       got[at], expected[at]);
}

static aorta_status check_gemm(struct bench *bench) {
    struct aorta_hwq_check check = {.worst = 0};
    AORTA_TRY(hwq_graph_verify(bench->product, &check));
    bench->result->gemm_error = check.worst;
    if (check.worst <= 1) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "the product is wrong: %s is %g, not %g", check.what, check.got, check.expected);
}

static aorta_status verify(struct bench *bench) {
    static const char *const names[AORTA_SDMA_MODE_COUNT] = {NULL, "alone", "after the product", "during the product"};
    for (enum aorta_sdma_mode mode = AORTA_SDMA_COPY; mode < AORTA_SDMA_MODE_COUNT; mode++) {
        AORTA_TRY(clear_target(bench));
        AORTA_TRY(run_once(bench, mode));
        AORTA_TRY(check_copy(bench, names[mode]));
    }
    bench->result->verified = bench->options->copy_bytes;
    return check_gemm(bench);
}

/* ---- setup ---- */

static aorta_status make_product(struct bench *bench) {
    const int64_t size = bench->options->matrix_size;
    bench->hwq.streams[0] = bench->gemm;
    AORTA_TRY(hwq_graph_create(&bench->hwq, NULL, &bench->product));
    hwq_product(bench->product, 0, bench->options->dtype, size, size, size, "product");
    return hwq_graph_finish(bench->product);
}

static aorta_status make_copy(struct bench *bench) {
    const struct aorta_sdma_options *options = bench->options;
    const size_t bytes = options->copy_bytes, words = bytes / sizeof(uint32_t);
    const struct aorta_random random = {.seed = 2, .domain = AORTA_RANDOM_DATA};
    AORTA_TRY(aorta_own_pinned(&bench->own, bytes, "bytes that are copied", &bench->pattern));
    AORTA_TRY(aorta_own_pinned(&bench->target_own, bytes, "bytes that came back", &bench->scratch));
    aorta_random_words(&random, 0, words, bench->pattern);
    if (options->direction == AORTA_SDMA_H2D) {
        bench->source = bench->pattern;
    } else {
        AORTA_TRY(aorta_own_memory(&bench->own, bytes, "source of the copies", &bench->source));
        AORTA_TRY(aorta_copy(bench->copy, bench->source, bench->pattern, bytes));
        AORTA_TRY(aorta_stream_synchronize(bench->copy));
    }
    if (options->direction == AORTA_SDMA_D2H)
        bench->target = bench->scratch;
    else
        AORTA_TRY(aorta_own_memory(&bench->target_own, bytes, "target of the copies", &bench->target));
    if (options->direction != AORTA_SDMA_P2P) return NULL;
    return aorta_gpu_enable_peer(options->device, options->peer, &bench->result->direct);
}

static aorta_status open_bench(struct bench *bench) {
    struct aorta_device *device = bench->own.device, *target = bench->target_own.device;
    AORTA_TRY(aorta_own_pinned(&bench->own, STAMP_COUNT * sizeof *bench->stamps, "stamps", &bench->stamps));
    AORTA_TRY(aorta_stream_create(device, "gemm", AORTA_PRIORITY_NORMAL, &bench->gemm));
    AORTA_TRY(aorta_stream_create(device, "copy", AORTA_PRIORITY_HIGH, &bench->copy));
    AORTA_TRY(aorta_stream_create(device, "gate", AORTA_PRIORITY_NORMAL, &bench->gate));
    AORTA_TRY(aorta_stream_create(target, "reader", AORTA_PRIORITY_NORMAL, &bench->reader));
    struct aorta_event **const events[] = {&bench->open, &bench->gemm_done, &bench->copy_done};
    for (int i = 0; i < 3; i++) AORTA_TRY(aorta_own_event(&bench->own, events[i]));
    AORTA_TRY(make_product(bench));
    return make_copy(bench);
}

static void close_bench(struct bench *bench) {
    struct aorta_stream *const streams[] = {bench->gemm, bench->copy, bench->gate, bench->reader};
    hwq_graph_destroy(bench->product);
    aorta_owned_free(&bench->hwq.owned);
    for (int i = 0; i < 4; i++) aorta_stream_destroy(streams[i]);
    aorta_owned_free(&bench->own);
    aorta_owned_free(&bench->target_own);
}

/* ---- all runs ---- */

static aorta_status allocate(struct aorta_sdma *result) {
    for (size_t i = 0; i < AORTA_SDMA_TIME_COUNT; i++)
        result->samples_ms[i] = aorta_arena_alloc(&result->arena, (size_t)result->options.iterations * sizeof(double));
    return aorta_arena_check(&result->arena, "samples");
}

static aorta_status measure(struct bench *bench) {
    const struct aorta_sdma_options *options = bench->options;
    for (int i = 0; i < options->warmup; i++) AORTA_TRY(sample(bench, 0));
    AORTA_TRY(verify(bench));
    for (int i = 0; i < options->iterations; i++) {
        AORTA_TRY(sample(bench, i));
        if (options->progress) aorta_progress_update(options->progress, i + 1, NULL);
    }
    return check_copy(bench, "of the last iteration");
}

aorta_status aorta_sdma_run(const struct aorta_sdma_options *options, struct aorta_sdma *result) {
    *result = (struct aorta_sdma){.options = *options};
    result->polled = aorta_device_is_gpu(options->device);
    struct bench bench = {
        .options = &result->options,
        .result = result,
        .own = {.device = options->device},
        .target_own = {.device = options->direction == AORTA_SDMA_P2P ? options->peer : options->device},
        .hwq = {.device = options->device,
                .owned = {.device = options->device},
                .stream_count = 1,
                .arena = &result->arena},
        .hold_ns = first_hold_ns};
    aorta_status status = allocate(result);
    if (!status) status = open_bench(&bench);
    if (!status) status = measure(&bench);
    close_bench(&bench);
    if (!status) status = aorta_sdma_evaluate(result);
    if (status) aorta_sdma_free(result);
    return status;
}

void aorta_sdma_free(struct aorta_sdma *result) {
    aorta_arena_free(&result->arena);
    aorta_found_free(&result->found);
    *result = (struct aorta_sdma){0};
}

/* ---- figures ---- */

static const char *direction_text(enum aorta_sdma_direction direction) {
    static const char *const texts[AORTA_SDMA_DIRECTION_COUNT] = {"device to host", "host to device",
                                                                  "device to device", "device to its peer"};
    return texts[direction];
}

static void find_overlap(struct aorta_sdma *result) {
    const bool copy_is_longer = result->times[AORTA_SDMA_COPY].p50 > result->times[AORTA_SDMA_GEMM].p50;
    const struct aorta_found_fact shorter = hwq_text("shorter", copy_is_longer ? "product" : "copy"),
                                  longer = hwq_text("longer", copy_is_longer ? "copy" : "product");
    const enum aorta_hwq_finding answer = result->hidden > 1 + HWQ_LEAST_HIDDEN ? AORTA_HWQ_SDMA_UNCLEAR
                                          : result->hidden >= HWQ_LEAST_HIDDEN  ? AORTA_HWQ_SDMA_OVERLAP
                                                                                : AORTA_HWQ_SDMA_NO_OVERLAP;
    HWQ_FIND(&result->found, answer, hwq_value("serial", result->times[AORTA_SDMA_SERIAL].p50, "ms"),
             hwq_value("together", result->times[AORTA_SDMA_TOGETHER].p50, "ms"),
             hwq_value("change", -result->saved, "change"), hwq_value("hidden", fmin(result->hidden, 1), "share"),
             shorter);
    HWQ_FIND(&result->found, AORTA_HWQ_SDMA_IDEAL, hwq_value("ideal", result->ideal_ms, "ms"), longer,
             hwq_value("share_of_ideal", result->share_of_ideal, "share"));
}

static void find_slower(struct aorta_sdma *result) {
    const double gemm = result->times[AORTA_SDMA_GEMM_TOGETHER].p50 / result->times[AORTA_SDMA_GEMM].p50 - 1,
                 copy = result->times[AORTA_SDMA_COPY_TOGETHER].p50 / result->times[AORTA_SDMA_COPY].p50 - 1;
    const bool on_cpu = aorta_device_get_info(result->options.device)->kind == AORTA_DEVICE_CPU,
               inside = result->options.direction == AORTA_SDMA_D2D;
    const enum aorta_hwq_finding why = fmax(gemm, copy) < 0.05 ? AORTA_HWQ_SDMA_EQUAL
                                       : on_cpu                ? AORTA_HWQ_SDMA_THREADS
                                       : inside                ? AORTA_HWQ_SDMA_INSIDE
                                                               : AORTA_HWQ_SDMA_BANDWIDTH;
    HWQ_FIND(&result->found, why, hwq_value("product_change", gemm, "change"),
             hwq_value("copy_change", copy, "change"));
}

static void find_setup(struct aorta_sdma *result) {
    const struct aorta_sdma_options *options = &result->options;
    if (options->direction == AORTA_SDMA_P2P)
        aorta_hwq_add(&result->found, result->direct ? AORTA_HWQ_SDMA_DIRECT : AORTA_HWQ_SDMA_THROUGH_HOST, NULL);
    HWQ_FIND(&result->found, AORTA_HWQ_SDMA_MEASURED, hwq_text("dtype", aorta_dtype_name(options->dtype)),
             hwq_count("matrix_size", (double)options->matrix_size),
             hwq_value("copy", (double)options->copy_bytes / 1048576, "MiB"),
             hwq_text("direction", direction_text(options->direction)),
             hwq_text("device", aorta_device_get_info(options->device)->name),
             hwq_count("iterations", options->iterations));
    HWQ_FIND(&result->found, AORTA_HWQ_SDMA_VERIFIED, hwq_count("bytes", (double)result->verified));
}

aorta_status aorta_sdma_evaluate(struct aorta_sdma *result) {
    const size_t count = (size_t)result->options.iterations;
    for (int i = 0; i < AORTA_SDMA_TIME_COUNT; i++) result->times[i] = aorta_summarise(result->samples_ms[i], count);
    double gemm = result->times[AORTA_SDMA_GEMM].p50, copy = result->times[AORTA_SDMA_COPY].p50;
    double serial = result->times[AORTA_SDMA_SERIAL].p50, together = result->times[AORTA_SDMA_TOGETHER].p50;
    double flop = 2 * pow((double)result->options.matrix_size, 3), bytes = (double)result->options.copy_bytes;
    result->ideal_ms = fmax(gemm, copy);
    result->saved = (serial - together) / serial;
    result->share_of_ideal = result->ideal_ms / together;
    result->hidden = (serial - together) / fmin(gemm, copy);
    result->gemm_tflops = flop / gemm * 1e-9;
    result->copy_alone_gbps = bytes / copy * 1e-6;
    result->copy_together_gbps = bytes / result->times[AORTA_SDMA_COPY_TOGETHER].p50 * 1e-6;
    find_overlap(result);
    find_slower(result);
    find_setup(result);
    return aorta_arena_check(&result->found.arena, "what was found");
}

/* ---- text ---- */

static void say_row(struct aorta_text *text, const char *what, const struct aorta_summary *times, double rate,
                    const char *unit) {
    aorta_text_printf(text, "  %-22s %9.3f  %9.3f  %9.3f", what, times->p50, times->min, times->p95);
    if (*unit) aorta_text_printf(text, "   %.4g %s", rate, unit);
    aorta_text_puts(text, "\n");
}

void aorta_sdma_text(const struct aorta_sdma *result, struct aorta_text *out) {
    aorta_found_text(&result->found, out);
    aorta_text_printf(out, "\nTimes, ms\n  %-22s %9s  %9s  %9s\n", "", "median", "min", "p95");
    say_row(out, "product alone", &result->times[AORTA_SDMA_GEMM], result->gemm_tflops, "TFLOP/s");
    say_row(out, "copy alone", &result->times[AORTA_SDMA_COPY], result->copy_alone_gbps, "GB/s");
    say_row(out, "serial", &result->times[AORTA_SDMA_SERIAL], NAN, "");
    say_row(out, "together", &result->times[AORTA_SDMA_TOGETHER], NAN, "");
    say_row(out, "  its product", &result->times[AORTA_SDMA_GEMM_TOGETHER], NAN, "");
    say_row(out, "  its copy", &result->times[AORTA_SDMA_COPY_TOGETHER], result->copy_together_gbps,
            result->polled ? "GB/s (its end polled by the host)" : "GB/s");
}

/* ---- rows ---- */

#define AT(member) offsetof(struct aorta_summary, member)
static const struct aorta_row times_rows[] = {
    {"p50", AORTA_ROW_NUMBER, AT(p50), "ms", .heading = "median ms", .help = "the median"},
    {"mean", AORTA_ROW_NUMBER, AT(mean), "ms", .heading = "mean ms", .help = "of the samples"},
    {"min", AORTA_ROW_NUMBER, AT(min), "ms", .heading = "min ms", .help = "the shortest"},
    {"p95", AORTA_ROW_NUMBER, AT(p95), "ms", .heading = "p95 ms", .help = "95% take no longer"},
    {0}};
#undef AT

static const char *const time_keys[AORTA_SDMA_TIME_COUNT] = {"gemm_alone_ms", "copy_alone_ms",    "serial_ms",
                                                             "together_ms",   "gemm_together_ms", "copy_together_ms"};

struct times_values {
    const char *run;
    struct aorta_summary times;
};

#define AT(member) offsetof(struct times_values, member)
static const struct aorta_row run_rows[] = {
    {"run", AORTA_ROW_TEXT, AT(run), .heading = "run", .help = "what ran, as its key in the JSON"},
    {NULL, AORTA_ROW_PART, AT(times), .part = times_rows},
    {0}};
#undef AT

static enum aorta_line fill_run(const void *of, size_t index, void *values) {
    if (index >= AORTA_SDMA_TIME_COUNT) return AORTA_LINE_END;
    *(struct times_values *)values =
        (struct times_values){time_keys[index], ((const struct aorta_sdma *)of)->times[index]};
    return AORTA_LINE;
}

static AORTA_TABLE(times, "times", "Times", AORTA_LINES(run_rows, struct times_values, fill_run));
AORTA_TABLES(aorta_sdma_tables, &times);

aorta_status aorta_sdma_csv(const struct aorta_sdma *result, const char *folder) {
    return aorta_table_csv(&times, result, folder);
}

/* ---- JSON ---- */

static void write_times(const struct aorta_sdma *result, struct aorta_json *json) {
    for (size_t i = 0; i < AORTA_SDMA_TIME_COUNT; i++) {
        aorta_json_key_object(json, time_keys[i]);
        aorta_rows_json(times_rows, &result->times[i], 0, json);
        aorta_json_key_array(json, "samples");
        for (size_t j = 0; j < result->times[i].count; j++) aorta_json_double(json, result->samples_ms[i][j]);
        aorta_json_array_end(json);
        aorta_json_object_end(json);
    }
}

#define AT(member) offsetof(struct aorta_sdma_options, member)
static const struct aorta_row option_rows[] = {
    {"matrix_size", AORTA_ROW_INT, AT(matrix_size), .help = "rows and columns of each matrix"},
    {"copy_bytes", AORTA_ROW_INT, AT(copy_bytes), "bytes", .help = "of a copy"},
    {"iterations", AORTA_ROW_INT32, AT(iterations), .help = "measured runs of each kind"},
    {"warmup", AORTA_ROW_INT32, AT(warmup), .help = "runs before the measured ones"},
    {0}};
#undef AT

#define AT(member) offsetof(struct aorta_sdma, member)
static const struct aorta_row figure_rows[] = {
    {"sequential_ms", AORTA_ROW_NUMBER, AT(times[AORTA_SDMA_SERIAL].p50), "ms", .help = "median of product, then copy"},
    {"overlapped_ms", AORTA_ROW_NUMBER, AT(times[AORTA_SDMA_TOGETHER].p50), "ms", .help = "median of both together"},
    {"ideal_ms", AORTA_ROW_NUMBER, AT(ideal_ms), "ms", .help = "the longer of product and copy alone"},
    {"share_of_ideal", AORTA_ROW_NUMBER, AT(share_of_ideal), "share", .help = "ideal / together"},
    {"hidden_share", AORTA_ROW_NUMBER, AT(hidden), "share", .help = "of the shorter one, during the longer one"},
    {"gemm_tflops", AORTA_ROW_NUMBER, AT(gemm_tflops), "TFLOP/s", .help = "of the product alone"},
    {"copy_alone_gbps", AORTA_ROW_NUMBER, AT(copy_alone_gbps), "GB/s", .help = "of the copy alone"},
    {"copy_together_gbps", AORTA_ROW_NUMBER, AT(copy_together_gbps), "GB/s", .help = "of the copy during a product"},
    {"verified_bytes", AORTA_ROW_INT, AT(verified), "bytes", .help = "of the copy that were compared"},
    {"gemm_error_of_allowed", AORTA_ROW_NUMBER, AT(gemm_error), .help = "largest error / the allowed one"},
    {0}};

void aorta_sdma_json(const struct aorta_sdma *result, struct aorta_text *text) {
    static const char *const directions[AORTA_SDMA_DIRECTION_COUNT] = {"d2h", "h2d", "d2d", "p2p"};
    const struct aorta_sdma_options *options = &result->options;
    const struct aorta_device_info *info = aorta_device_get_info(options->device);
    struct aorta_json json;
    aorta_json_output(&json, text, 2, 1);
    aorta_json_key_string(&json, "kind", "sdma");
    aorta_found_answer_json("verdict", &result->found, &json);
    aorta_found_facts_json(&result->found, &json);
    aorta_json_key_string(&json, "device", aorta_device_kind_name(info->kind));
    aorta_json_key_int(&json, "device_index", info->index);
    aorta_json_key_string(&json, "device_name", info->name);
    aorta_json_key_natural(&json, "peer_index", options->peer ? aorta_device_get_info(options->peer)->index : -1);
    aorta_json_key_string(&json, "direction", directions[options->direction]);
    aorta_json_key_string(&json, "dtype", aorta_dtype_name(options->dtype));
    aorta_rows_json(option_rows, options, 0, &json);
    write_times(result, &json);
    aorta_json_key_string(&json, "copy_together_source", result->polled ? "host polling an event" : "timestamp");
    aorta_json_key_double(&json, "savings_percent", 100 * result->saved);
    aorta_rows_json(figure_rows, result, 0, &json);
    if (options->direction == AORTA_SDMA_P2P)
        aorta_json_key_bool(&json, "peer_direct", result->direct);
    else
        aorta_json_key_null(&json, "peer_direct");
    aorta_json_output_end(&json);
}

void aorta_sdma_schema(struct aorta_json *json) {
    aorta_found_schema(json);
    aorta_rows_schema(option_rows, json);
    aorta_rows_schema(figure_rows, json);
    for (size_t i = 0; i < AORTA_SDMA_TIME_COUNT; i++) aorta_rows_schema_object(time_keys[i], times_rows, json);
}
