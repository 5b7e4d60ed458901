/* The report of a run for a terminal, about ten lines. */
#include "base/lines.h"
#include "hwq/limit.h"
#include "hwq/run.h"

#include <math.h>
#include <string.h>

static const char *meaning_of(enum aorta_hwq_sensitivity sensitivity) {
    static const char *const texts[AORTA_HWQ_SENSITIVITY_COUNT] = {
        "low: its kernels are long compared with a switch", "medium: switches matter where many streams alternate",
        "high: kernels often wait for other streams, so each switch counts",
        "critical: kernels are as short as the switches between them"};
    return texts[sensitivity];
}

static void say_sentence(const char *label, const char *sentence, struct aorta_text *out) {
    static const struct aorta_lines lines = {.width = 118, .taken = 14, .indent = 14};
    aorta_text_printf(out, "  %-11s ", label);
    aorta_text_lines(out, sentence, &lines);
}

static void say_switches(const struct aorta_hwq_switches *found, double intra_ms, const char *which,
                         struct aorta_text *out) {
    if (!found->samples) return;
    aorta_text_printf(out, "  switch      %+.3f us %s: the gap is %.3f us, on one stream %.3f us (%s)\n",
                      1e3 * found->overhead_ms, which, 1e3 * found->gap_ms, 1e3 * intra_ms,
                      aorta_counted((long long)found->samples, "sample").text);
}

/* One median for all pairs would mislead where pairs differ. */
static void say_probe(const struct aorta_hwq_probe *found, struct aorta_text *out) {
    const struct aorta_hwq_pair *quick = &found->quickest, *slow = &found->slowest;
    say_switches(&found->same_priority, found->intra_ms, "to a stream of the same priority", out);
    say_switches(&found->across_priorities, found->intra_ms, "to a stream of another priority", out);
    if (!(slow->gap_ms > 2.0 * quick->gap_ms && slow->gap_ms > quick->gap_ms + 1e-3)) return;
    aorta_text_printf(
        out, "              pairs of streams differ: from %d to %d the gap is %.3f us, from %d to %d %.3f us\n",
        quick->from, quick->to, 1e3 * quick->gap_ms, slow->from, slow->to, 1e3 * slow->gap_ms);
}

static void say_host_gaps(const struct aorta_hwq_run *run, const struct aorta_hwq_host_gaps *host,
                          struct aorta_text *out) {
    struct aorta_text text = {0};
    if (!host->intra_samples && !host->inter_samples) return;
    aorta_text_puts(&text, "without those in which the device waited for the host:");
    if (host->intra_samples)
        aorta_text_printf(&text, " %zu on one stream (%.3f us)", host->intra_samples, 1e3 * host->intra_ms);
    if (host->inter_samples)
        aorta_text_printf(&text, "%s %zu between (%.3f us)", host->intra_samples ? "," : "", host->inter_samples,
                          1e3 * host->inter_ms);
    if (!run->gate && !run->graph) aorta_text_puts(&text, "; --gate excludes launches");
    if (text.data) say_sentence("", text.data, out);
    aorta_text_free(&text);
}

static void say_gaps(const struct aorta_hwq_run *run, const struct aorta_hwq_switch *found, struct aorta_text *out) {
    if (!found->intra_samples && !found->inter_samples) {
        aorta_text_printf(out, "  gaps        not known: %s\n",
                          found->reason ? found->reason : "no kernel was stamped");
        return;
    }
    aorta_text_printf(out, "  gaps        on one stream %.3f us (%s%s), between streams %.3f us (%s%s)\n",
                      1e3 * found->intra_gap_ms, aorta_counted((long long)found->intra_samples, "sample").text,
                      found->intra_source && found->intra_source[0] == 'p' ? ", probe" : "", 1e3 * found->inter_gap_ms,
                      aorta_counted((long long)found->inter_samples, "sample").text,
                      found->inter_source && found->inter_source[0] == 'p' ? ", probe" : "");
    say_host_gaps(run, &found->host, out);
    if (found->reason) aorta_text_printf(out, "  not known   %s\n", found->reason);
    if (isnan(found->overhead_ms)) return;
    say_probe(&found->probe, out);
}

static void say_limit(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result, struct aorta_text *out) {
    struct aorta_text text = {0};
    aorta_hwq_limit_text(&result->limit, result, &text);
    if (text.data) say_sentence("limit", text.data, out);
    aorta_text_free(&text);
    aorta_text_printf(out, "  sensitivity %s\n", meaning_of(run->workload->sensitivity));
}

static void say_try(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result, struct aorta_text *out) {
    const struct aorta_hwq_workload *workload = run->workload;
    const char *next = workload->try_of ? workload->try_of(run, result) : workload->try_next;
    struct aorta_text text = {0};
    aorta_hwq_limit_try(&result->limit, run->graph, &text);
    aorta_text_puts(&text, next ? next : "aorta hwq sweep shows how the workload scales");
    if (text.data) say_sentence("try", text.data, out);
    aorta_text_free(&text);
}

static bool is_common(const struct aorta_hwq_figure *figure) {
    static const char *const common[] = {"launches_per_iteration", "launches_per_second", "host_launch_p50",
                                         "host_us_per_launch",     "wall_iteration",      "verified_values",
                                         "verified_worst"};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (!strcmp(common[i], figure->name)) return true;
    return false;
}

static void say_figure(const struct aorta_hwq_figure *figure, struct aorta_text *out) {
    if (isnan(figure->value))
        aorta_text_printf(out, "%s not known (%s)", figure->name, figure->reason);
    else
        aorta_text_printf(out, "%s %.4g %s", figure->name, figure->value, figure->unit);
}

static bool is_same_group(const struct aorta_hwq_figure *a, const struct aorta_hwq_figure *b) {
    return a->group == b->group || (a->group && b->group && !strcmp(a->group, b->group));
}

static void say_figures(const struct aorta_hwq_result *result, struct aorta_text *out) {
    struct aorta_text line = {0};
    const struct aorta_hwq_figure *before = NULL;
    const char *label = "figures";
    for (size_t i = 0; i <= result->figure_count; i++) {
        const struct aorta_hwq_figure *figure = i < result->figure_count ? &result->figures[i] : NULL;
        if (figure && is_common(figure)) continue;
        if (before && (!figure || !is_same_group(before, figure))) {
            if (line.data) say_sentence(label, line.data, out);
            aorta_text_free(&line);
            label = "";
            before = NULL;
        }
        if (!figure) break;
        if (before)
            aorta_text_puts(&line, ", ");
        else if (figure->group)
            aorta_text_printf(&line, "%s: ", figure->group);
        say_figure(figure, &line);
        before = figure;
    }
    for (size_t i = 0; i < result->finding_count; i++) say_sentence(i ? "" : "found", result->findings[i], out);
}

static void say_verification(const struct aorta_hwq_result *result, struct aorta_text *out) {
    const struct aorta_hwq_figure *worst = aorta_hwq_result_find(result, "verified_worst");
    const struct aorta_hwq_figure *values = aorta_hwq_result_find(result, "verified_values");
    if (!result->verified) return;
    aorta_text_printf(out, "  verified    %s", result->verified);
    if (values && values->value > 0.0) aorta_text_printf(out, ", %.0f values", values->value);
    const bool none = !values || !(values->value > 0.0);
    if (none && strcmp(result->verified, "passed") == 0)
        aorta_text_puts(out, ": this rank has no part in the workload");
    else if (!result->worst_at)
        aorta_text_puts(out, none ? ": nothing was compared" : ", all exact");
    else if (worst && isfinite(worst->value))
        aorta_text_printf(out, ", the largest error is %.3g of the allowed one", worst->value);
    if (result->worst_at && strcmp(result->verified, "passed") != 0)
        aorta_text_printf(out, "\n              %s is %.9g, expected %.9g", result->worst_at, result->worst_got,
                          result->worst_expected);
    aorta_text_puts(out, "\n");
}

void aorta_hwq_run_text(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result,
                        struct aorta_text *out) {
    static const double LARGE = 1e4; /* from there on no exponents */
    const struct aorta_hwq_workload *w = run->workload;
    const struct aorta_hwq_figure *rate = aorta_hwq_result_find(result, "launches_per_second");
    aorta_text_printf(out, "%s on %s of %s%s%s: %s\n", w->name, aorta_counted(result->stream_count, "stream").text,
                      aorta_device_get_info(run->device)->name, run->graph ? ", as a graph" : "",
                      run->gate ? ", with a gate" : "", w->summary);
    aorta_text_printf(out, "  iteration   p50 %.4f ms, p95 %.4f, p99 %.4f (%s, device timestamps)\n",
                      result->latency_ms.p50, result->latency_ms.p95, result->latency_ms.p99,
                      aorta_counted((long long)result->iteration_count, "iteration").text);
    if (isnan(result->throughput))
        aorta_text_puts(out, "  throughput  not known");
    else
        aorta_text_printf(out, result->throughput < LARGE ? "  throughput  %.5g %s" : "  throughput  %.0f %s",
                          result->throughput, result->throughput_unit);
    aorta_text_printf(out, rate && rate->value >= LARGE ? "; %.0f launches/s\n" : "; %.4g launches/s\n",
                      rate ? rate->value : NAN);
    say_limit(run, result, out);
    say_gaps(run, &result->switch_latency, out);
    say_figures(result, out);
    say_verification(result, out);
    if (result->simulated)
        aorta_text_puts(out,
                        "  simulated   the collectives were copies on one rank; their times are not those of a link\n");
    say_try(run, result, out);
}
