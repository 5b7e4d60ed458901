#include "hwq/sweep.h"
#include "base/files.h"
#include "base/lines.h"
#include "hwq/limit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAR = 30 };
static const double inflection = 0.8;

aorta_status aorta_hwq_scaling_make(const struct aorta_hwq_result *results, size_t count,
                                    struct aorta_hwq_scaling *scaling) {
    *scaling = (struct aorta_hwq_scaling){.efficiencies = malloc(count * sizeof(double))};
    if (!scaling->efficiencies) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %zu efficiencies", count);
    double first = NAN, before = NAN, peak = 0.0;
    for (size_t i = 0; i < count; i++) {
        const double throughput = results[i].throughput, each = throughput / results[i].stream_count;
        const bool known = isfinite(throughput) && throughput > 0.0;
        if (known && isnan(first)) first = each;
        scaling->efficiencies[i] = known ? each / first : NAN;
        if (!known) continue;
        if (!scaling->inflection_point && scaling->efficiencies[i] <= inflection * before)
            scaling->inflection_point = results[i].stream_count;
        before = scaling->efficiencies[i];
        if (throughput <= peak) continue;
        peak = throughput;
        scaling->peak_streams = results[i].stream_count;
    }
    return NULL;
}

void aorta_hwq_scaling_free(struct aorta_hwq_scaling *scaling) {
    free(scaling->efficiencies);
    *scaling = (struct aorta_hwq_scaling){0};
}

static double peak_of(const struct aorta_hwq_result *results, size_t count) {
    double peak = 0.0;
    for (size_t i = 0; i < count; i++) peak = fmax(peak, results[i].throughput);
    return peak;
}

static void say_row(const struct aorta_hwq_result *result, double efficiency, double peak, struct aorta_text *out) {
    char bar[BAR + 1];
    const char *limit = aorta_hwq_limit_name(result->limit.by);
    const double share = result->throughput / peak;
    const int filled = share > 0.0 ? (int)lround(share * BAR) : 0;
    memset(bar, '#', (size_t)filled);
    bar[filled] = '\0';
    aorta_text_printf(out, "%7d %12.5g %10.4f %10.4f %9.0f%% %11.3f  %-9s  %s\n", result->stream_count,
                      result->throughput, result->latency_ms.p50, result->latency_ms.p99, 100 * efficiency,
                      1e3 * result->switch_latency.overhead_ms, limit ? limit : "-", bar);
}

/* For the best count and the largest one. */
static void say_limits(const struct aorta_hwq_result *results, size_t count, int peak_streams, struct aorta_text *out) {
    static const struct aorta_lines lines = {.width = 118, .indent = 2};
    for (size_t i = 0; i < count; i++) {
        struct aorta_text text = {0};
        if (results[i].stream_count != peak_streams && i + 1 < count) continue;
        aorta_text_printf(&text, "What limits on %s: ", aorta_counted(results[i].stream_count, "stream").text);
        aorta_hwq_limit_text(&results[i].limit, &results[i], &text);
        if (text.data) aorta_text_lines(out, text.data, &lines);
        out->failed |= text.failed;
        aorta_text_free(&text);
    }
    aorta_text_printf(out, "aorta hwq run %s --streams N shows the gaps and figures of one count.\n",
                      results[0].workload_name);
}

void aorta_hwq_sweep_text(const struct aorta_hwq_result *results, size_t count, const struct aorta_hwq_scaling *scaling,
                          struct aorta_text *out) {
    const double peak = peak_of(results, count);
    aorta_text_printf(out, "%s\n%7s %12s %10s %10s %10s %11s  %-9s  throughput\n", results[0].workload_name, "streams",
                      results[0].throughput_unit, "p50 ms", "p99 ms", "efficiency", "switch us", "limit");
    for (size_t i = 0; i < count; i++) say_row(&results[i], scaling->efficiencies[i], peak, out);
    aorta_text_printf(out, "Highest throughput with %s. ", aorta_counted(scaling->peak_streams, "stream").text);
    if (scaling->inflection_point)
        aorta_text_printf(out, "From %d streams on, throughput per stream falls by a fifth or more.\n",
                          scaling->inflection_point);
    else
        aorta_text_puts(out, "At no count does throughput per stream fall by a fifth.\n");
    say_limits(results, count, scaling->peak_streams, out);
    if (results[0].simulated)
        aorta_text_puts(out, "Simulated: collectives were copies on one rank; their times are not those of a link.\n");
}

void aorta_hwq_sweep_json(const struct aorta_hwq_result *results, size_t count, const struct aorta_hwq_scaling *scaling,
                          struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_int(json, "schema_version", AORTA_HWQ_SCHEMA_VERSION);
    aorta_json_key_string(json, "timestamp", results[count - 1].timestamp);
    aorta_json_key_string(json, "workload", results[0].workload_name);
    aorta_json_key_array(json, "results");
    for (size_t i = 0; i < count; i++) aorta_hwq_result_json(&results[i], json);
    aorta_json_array_end(json);
    aorta_json_key_object(json, "analysis");
    aorta_json_key_array(json, "stream_counts");
    for (size_t i = 0; i < count; i++) aorta_json_int(json, results[i].stream_count);
    aorta_json_array_end(json);
    aorta_json_key_array(json, "throughputs");
    for (size_t i = 0; i < count; i++) aorta_json_double(json, results[i].throughput);
    aorta_json_array_end(json);
    aorta_json_key_array(json, "efficiencies");
    for (size_t i = 0; i < count; i++) aorta_json_double(json, scaling->efficiencies[i]);
    aorta_json_array_end(json);
    aorta_json_key(json, "inflection_point");
    if (scaling->inflection_point)
        aorta_json_int(json, scaling->inflection_point);
    else
        aorta_json_null(json);
    aorta_json_key_int(json, "peak_stream_count", scaling->peak_streams);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

aorta_status aorta_hwq_sweep_write(const struct aorta_hwq_result *results, size_t count, const char *path) {
    struct aorta_hwq_scaling scaling;
    struct aorta_text text = {0};
    struct aorta_json json;
    AORTA_TRY(aorta_hwq_scaling_make(results, count, &scaling));
    aorta_json_begin(&json, &text, 2);
    aorta_hwq_sweep_json(results, count, &scaling, &json);
    aorta_text_puts(&text, "\n");
    aorta_status status = aorta_text_check(&text);
    if (!status) status = aorta_file_replace(path, text.data, text.length);
    aorta_text_free(&text);
    aorta_hwq_scaling_free(&scaling);
    return status;
}
