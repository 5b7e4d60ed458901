/* Lines of rank_RR_metrics.jsonl: whatever they hold, the reader returns, and what it accepts adds up. */
#include "fuzz.h"
#include "measure/clocks.h"
#include "measure/run_files.h"
#include "verdict/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_view(const struct aorta_step_metrics *step, const struct aorta_profile *profile) {
    const struct aorta_overlap *o = &profile->overlap;
    int64_t idle = aorta_idle_total(&o->idle);
    if (profile->range_count && idle != o->idle_ns + o->lead_ns) abort();
    if (o->overlap_ns > o->comm_ns || o->busy_ns > o->span_ns) abort();
    if (!profile->range_count) return;
    const struct aorta_measured_step measured = {step->global_step, 0, profile};
    const struct aorta_measured_rank rank = {
        .rank = step->rank, .world_size = step->world_size, .path = "lines", .steps = &measured, .step_count = 1};
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis = {0};
    struct aorta_trace *trace = NULL;
    struct aorta_verdict verdict;
    aorta_status status = aorta_trace_of_measured(&rank, &trace);
    if (!status) status = aorta_trace_list_add(&list, trace);
    if (!status) status = aorta_trace_analyze(&list, NULL, &analysis);
    if (!status) status = aorta_verdict_make(&analysis, &verdict);
    if (status) abort();
    int64_t costs = 0;
    for (int cause = 0; cause < AORTA_CAUSE_COUNT; cause++) costs += verdict.ranks[0].cause_ns[cause];
    if (costs != o->span_ns + o->lead_ns) abort();
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

static void check(const struct aorta_step_metrics *step) {
    if (step->profile) check_view(step, step->profile);
    if (step->kernel_profile) check_view(step, step->kernel_profile);
}

static void check_clocks(const struct aorta_step_metrics *const *steps, size_t count) {
    struct aorta_clock_sample samples[2];
    struct aorta_clocks clocks;
    size_t clocked = 0;
    for (size_t i = 0; i < count; i++)
        if (steps[i]->readings)
            samples[clocked++] =
                (struct aorta_clock_sample){&steps[i]->readings->clocks.values, steps[i]->readings->clocks.at_ns, true};
    aorta_status status = aorta_clocks_make(samples, clocked, &clocks);
    if (status || clocks.readings > clocked || clocks.limit_readings > clocks.readings) abort();
    if (!clocks.readings != !!clocks.reason[0]) abort();
    const double shares[] = {clocks.power_share, clocks.thermal_share};
    for (int i = 0; i < 2; i++)
        if (!isnan(shares[i]) && !(shares[i] >= 0 && shares[i] <= 1)) abort();
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_object(&json);
    aorta_clocks_json(&clocks, &json);
    aorta_json_object_end(&json);
    fuzz_require_json(text.data);
    aorta_text_free(&text);
}

/* The input is two lines, so that strings are shared between them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct aorta_run run = {0};
    struct aorta_step_metrics first = {0}, second = {0};
    const char *text = (const char *)data, *line_break = size ? memchr(text, '\n', size) : NULL;
    size_t length = line_break ? (size_t)(line_break - text) : size;
    aorta_status status = aorta_run_parse_line(size ? text : "", length, true, &run, &first);
    const struct aorta_step_metrics *steps[2];
    size_t count = 0;
    if (!status) {
        check(&first);
        steps[count++] = &first;
    }
    aorta_status_free(status);
    if (line_break) {
        status = aorta_run_parse_line(line_break + 1, size - length - 1, true, &run, &second);
        if (!status) {
            check(&second);
            steps[count++] = &second;
        }
        aorta_status_free(status);
    }
    check_clocks(steps, count);
    aorta_run_step_free(&second);
    aorta_run_step_free(&first);
    aorta_arena_free(&run.arena);
    aorta_texts_free(&run.strings);
    return 0;
}
