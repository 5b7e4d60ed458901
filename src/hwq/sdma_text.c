/* Figures of `aorta sdma` as text and JSON. */
#include "base/result_table.h"
#include "hwq/sdma.h"

#include <math.h>
#include <string.h>

static const char *direction_name(enum aorta_sdma_direction direction) {
    static const char *const names[AORTA_SDMA_DIRECTION_COUNT] = {"d2h", "h2d", "d2d", "p2p"};
    return names[direction];
}

static const char *direction_text(enum aorta_sdma_direction direction) {
    static const char *const texts[AORTA_SDMA_DIRECTION_COUNT] = {"device to host", "host to device",
                                                                  "device to device", "device to its peer"};
    return texts[direction];
}

void aorta_sdma_evaluate(struct aorta_sdma *result) {
    const size_t count = (size_t)result->options.iterations;
    for (enum aorta_sdma_mode mode = 0; mode < AORTA_SDMA_MODE_COUNT; mode++)
        result->times[mode] = aorta_summarise(result->samples_ms[mode], count);
    result->gemm_together = aorta_summarise(result->gemm_together_ms, count);
    result->copy_together = aorta_summarise(result->copy_together_ms, count);
    double gemm = result->times[AORTA_SDMA_GEMM].p50, copy = result->times[AORTA_SDMA_COPY].p50;
    double serial = result->times[AORTA_SDMA_SERIAL].p50, together = result->times[AORTA_SDMA_TOGETHER].p50;
    double flop = 2 * pow((double)result->options.matrix_size, 3), bytes = (double)result->options.copy_bytes;
    result->ideal_ms = fmax(gemm, copy);
    result->saved = (serial - together) / serial;
    result->share_of_ideal = result->ideal_ms / together;
    result->hidden = (gemm + copy - together) / fmin(gemm, copy);
    result->gemm_tflops = flop / gemm * 1e-9;
    result->copy_alone_gbps = bytes / copy * 1e-6;
    result->copy_together_gbps = bytes / result->copy_together.p50 * 1e-6;
}

/* ---- text ---- */

static void say_row(struct aorta_text *text, const char *what, const struct aorta_summary *times) {
    aorta_text_printf(text, "  %-22s %9.3f  %9.3f  %9.3f", what, times->p50, times->min, times->p95);
}

static double slower(double together, double alone) {
    return 100 * (together / alone - 1);
}

static void say_verdict(const struct aorta_sdma *result, struct aorta_text *text) {
    double gemm = slower(result->gemm_together.p50, result->times[AORTA_SDMA_GEMM].p50);
    double copy = slower(result->copy_together.p50, result->times[AORTA_SDMA_COPY].p50);
    bool copy_is_longer = result->times[AORTA_SDMA_COPY].p50 > result->times[AORTA_SDMA_GEMM].p50;
    const char *longer = copy_is_longer ? "copy" : "product", *shorter = copy_is_longer ? "product" : "copy";
    if (result->hidden > 0.9)
        aorta_text_printf(text, "The %s hides %.0f%% of the %s.\n", longer, 100 * fmin(result->hidden, 1), shorter);
    else if (result->hidden > 0.1)
        aorta_text_printf(text, "The %s hides only %.0f%% of the %s.\n", longer, 100 * result->hidden, shorter);
    else
        aorta_text_printf(text, "Nothing is hidden: together they take as long as one after the other.\n");
    aorta_text_printf(text, "Side by side the product takes %+.1f%% and the copy %+.1f%%", gemm, copy);
    if (fmax(gemm, copy) < 5)
        aorta_text_puts(text, ": they do not disturb each other.\n");
    else if (result->options.device && aorta_device_get_info(result->options.device)->kind == AORTA_DEVICE_CPU)
        aorta_text_puts(text, ": on the CPU device both are threads that share processors and memory.\n");
    else if (result->options.direction == AORTA_SDMA_D2D)
        aorta_text_puts(text, ": copies inside the device may be kernels, and share its memory's bandwidth.\n");
    else
        aorta_text_puts(text,
                        ": they share memory bandwidth, or the copy runs as a kernel and not on a copy engine.\n");
}

void aorta_sdma_text(const struct aorta_sdma *result, struct aorta_text *text) {
    const struct aorta_sdma_options *options = &result->options;
    aorta_text_printf(text, "%s product of %lld x %lld beside copies of %.4g MiB, %s, on %s (%s)\n\n",
                      aorta_dtype_name(options->dtype), (long long)options->matrix_size,
                      (long long)options->matrix_size, (double)options->copy_bytes / 1048576,
                      direction_text(options->direction), aorta_device_get_info(options->device)->name,
                      aorta_counted(options->iterations, "iteration").text);
    aorta_text_printf(text, "  %-22s %9s  %9s  %9s   (ms)\n", "", "median", "min", "p95");
    say_row(text, "product alone", &result->times[AORTA_SDMA_GEMM]);
    aorta_text_printf(text, "   %.4g TFLOP/s\n", result->gemm_tflops);
    say_row(text, "copy alone", &result->times[AORTA_SDMA_COPY]);
    aorta_text_printf(text, "   %.4g GB/s\n", result->copy_alone_gbps);
    say_row(text, "one after the other", &result->times[AORTA_SDMA_SERIAL]);
    aorta_text_puts(text, "\n");
    say_row(text, "together", &result->times[AORTA_SDMA_TOGETHER]);
    aorta_text_puts(text, "\n");
    say_row(text, "  the product then", &result->gemm_together);
    aorta_text_puts(text, "\n");
    say_row(text, "  the copy then", &result->copy_together);
    aorta_text_printf(text, "   %.4g GB/s%s\n\n", result->copy_together_gbps,
                      result->polled ? " (its end polled by the host)" : "");
    aorta_text_printf(text,
                      "Saved: %.1f%% of the time one after the other. Of the ideal, the longer of the two alone "
                      "(%.3f ms): %.1f%%.\n",
                      100 * result->saved, result->ideal_ms, 100 * result->share_of_ideal);
    say_verdict(result, text);
    if (options->direction == AORTA_SDMA_P2P)
        aorta_text_puts(text, result->direct ? "The two devices reach each other's memory directly.\n"
                                             : "The two devices have no direct path: copies go through the host.\n");
    aorta_text_printf(text, "Verified: all %zu bytes of the copy in every kind of run, and the product.\n",
                      result->verified);
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

/* Each kind of run, and the two parts of the last: key in the JSON, times and samples. */
struct times_values {
    const char *run;
    struct aorta_summary times;
    const double *samples;
};

#define AT(member) offsetof(struct times_values, member)
static const struct aorta_row run_rows[] = {
    {"run", AORTA_ROW_TEXT, AT(run), .heading = "run", .help = "what ran, as its key in the JSON"},
    {NULL, AORTA_ROW_PART, AT(times), .part = times_rows},
    {0}};
#undef AT

enum { GEMM_TOGETHER = AORTA_SDMA_MODE_COUNT, COPY_TOGETHER, RUN_COUNT };

static size_t run_count(const void *of) {
    (void)of;
    return RUN_COUNT;
}

static bool fill_run(const void *of, size_t index, void *values) {
    static const char *const keys[RUN_COUNT] = {"gemm_alone_ms", "copy_alone_ms",    "serial_ms",
                                                "together_ms",   "gemm_together_ms", "copy_together_ms"};
    const struct aorta_sdma *result = of;
    struct times_values *out = values;
    out->run = keys[index];
    if (index < AORTA_SDMA_MODE_COUNT) {
        out->times = result->times[index];
        out->samples = result->samples_ms[index];
        return true;
    }
    out->times = index == GEMM_TOGETHER ? result->gemm_together : result->copy_together;
    out->samples = index == GEMM_TOGETHER ? result->gemm_together_ms : result->copy_together_ms;
    return true;
}

static const struct aorta_result_table times = {.key = "times",
                                                .title = "Times",
                                                .rows = run_rows,
                                                .size = sizeof(struct times_values),
                                                .count = run_count,
                                                .fill = fill_run};
const struct aorta_result_table *const aorta_sdma_tables[] = {&times, NULL};

aorta_status aorta_sdma_csv(const struct aorta_sdma *result, const char *folder) {
    return aorta_table_csv(&times, result, folder);
}

/* ---- JSON ---- */

static void write_times(const struct aorta_sdma *result, struct aorta_json *json) {
    for (size_t i = 0; i < RUN_COUNT; i++) {
        struct times_values run;
        (void)fill_run(result, i, &run);
        aorta_json_key_object(json, run.run);
        aorta_rows_json(times_rows, &run.times, 0, json);
        aorta_json_key_array(json, "samples");
        for (size_t j = 0; j < run.times.count; j++) aorta_json_double(json, run.samples[j]);
        aorta_json_array_end(json);
        aorta_json_object_end(json);
    }
}

void aorta_sdma_json(const struct aorta_sdma *result, struct aorta_json *json) {
    const struct aorta_sdma_options *options = &result->options;
    const struct aorta_device_info *info = aorta_device_get_info(options->device);
    aorta_json_object(json);
    aorta_json_key_int(json, "schema_version", 1);
    aorta_json_key_string(json, "kind", "sdma");
    aorta_json_key_string(json, "device", aorta_device_kind_name(info->kind));
    aorta_json_key_int(json, "device_index", info->index);
    aorta_json_key_string(json, "device_name", info->name);
    aorta_json_key(json, "peer_index");
    if (options->peer)
        aorta_json_int(json, aorta_device_get_info(options->peer)->index);
    else
        aorta_json_null(json);
    aorta_json_key_string(json, "direction", direction_name(options->direction));
    aorta_json_key_string(json, "dtype", aorta_dtype_name(options->dtype));
    aorta_json_key_int(json, "matrix_size", options->matrix_size);
    aorta_json_key_int(json, "copy_bytes", (int64_t)options->copy_bytes);
    aorta_json_key_int(json, "iterations", options->iterations);
    aorta_json_key_int(json, "warmup", options->warmup);
    write_times(result, json);
    aorta_json_key_string(json, "copy_together_source", result->polled ? "host polling an event" : "timestamp");
    aorta_json_key_double(json, "sequential_ms", result->times[AORTA_SDMA_SERIAL].p50);
    aorta_json_key_double(json, "overlapped_ms", result->times[AORTA_SDMA_TOGETHER].p50);
    aorta_json_key_double(json, "ideal_ms", result->ideal_ms);
    aorta_json_key_double(json, "savings_percent", 100 * result->saved);
    aorta_json_key_double(json, "share_of_ideal", result->share_of_ideal);
    aorta_json_key_double(json, "hidden_share", result->hidden);
    aorta_json_key_double(json, "gemm_tflops", result->gemm_tflops);
    aorta_json_key_double(json, "copy_alone_gbps", result->copy_alone_gbps);
    aorta_json_key_double(json, "copy_together_gbps", result->copy_together_gbps);
    aorta_json_key(json, "peer_direct");
    if (options->direction == AORTA_SDMA_P2P)
        aorta_json_bool(json, result->direct);
    else
        aorta_json_null(json);
    struct aorta_text verdict = {0};
    say_verdict(result, &verdict);
    for (char *at = verdict.data; at && *at; at++)
        if (*at == '\n') *at = at[1] ? ' ' : '\0';
    aorta_json_key_string(json, "verdict", verdict.data);
    json->out->failed |= verdict.failed;
    aorta_text_free(&verdict);
    aorta_json_key_int(json, "verified_bytes", (int64_t)result->verified);
    aorta_json_key_double(json, "gemm_error_of_allowed", result->gemm_error);
    aorta_json_object_end(json);
}
