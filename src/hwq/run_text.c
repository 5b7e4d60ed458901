/* The report of a run for a terminal: the answer, facts, tables of figures. */
#include "base/lines.h"
#include "hwq/run.h"

#include <math.h>
#include <string.h>

static void put_us(struct aorta_text *out, double ms) {
    aorta_text_printf(out, "%s us", aorta_brief(1e3 * ms).text);
}

static void put_gap(struct aorta_text *out, double ms, size_t samples, const char *where, const char *source) {
    if (!samples) return;
    if (out->length) aorta_text_puts(out, ", ");
    put_us(out, ms);
    aorta_text_printf(out, " %s (%s%s)", where, aorta_counted((long long)samples, "sample").text,
                      source && source[0] == 'p' ? ", probe" : "");
}

static void say_switches(const struct aorta_hwq_switches *found, double intra_ms, const char *which,
                         struct aorta_text *out) {
    struct aorta_text text = {0};
    if (!found->samples) return;
    put_us(&text, found->overhead_ms);
    aorta_text_printf(&text, " to a stream of %s priority: ", which);
    put_us(&text, found->gap_ms);
    aorta_text_puts(&text, " instead of ");
    put_us(&text, intra_ms);
    aorta_text_printf(&text, " (%s)", aorta_counted((long long)found->samples, "sample").text);
    aorta_text_fact(out, "switch", &text);
    aorta_text_free(&text);
}

/* A single median would hide that pairs of streams differ. */
static void say_probe(const struct aorta_hwq_probe *found, struct aorta_text *out) {
    const struct aorta_hwq_pair *quick = &found->quickest, *slow = &found->slowest;
    struct aorta_text text = {0};
    say_switches(&found->same_priority, found->intra_ms, "the same", out);
    say_switches(&found->across_priorities, found->intra_ms, "another", out);
    if (!(slow->gap_ms > 2.0 * quick->gap_ms && slow->gap_ms > quick->gap_ms + 1e-3)) return;
    aorta_text_puts(&text, "fastest ");
    put_us(&text, quick->gap_ms);
    aorta_text_printf(&text, ", from stream %d to %d; slowest ", quick->from, quick->to);
    put_us(&text, slow->gap_ms);
    aorta_text_printf(&text, ", from stream %d to %d", slow->from, slow->to);
    aorta_text_fact(out, "pairs", &text);
    aorta_text_free(&text);
}

static void say_gaps(const struct aorta_hwq_run *run, const struct aorta_hwq_switch *found, struct aorta_text *out) {
    const struct aorta_hwq_host_gaps *host = &found->host;
    const bool queued_late = !run->gate && !run->graph;
    struct aorta_text text = {0};
    put_gap(&text, found->intra_gap_ms, found->intra_samples, "on one stream", found->intra_source);
    put_gap(&text, found->inter_gap_ms, found->inter_samples, "between streams", found->inter_source);
    if (!text.length)
        aorta_text_printf(&text, "not known: %s", found->reason ? found->reason : "no kernel has timestamps");
    else if (found->reason)
        aorta_text_printf(&text, "; not known: %s", found->reason);
    aorta_text_fact(out, "gaps", &text);
    put_gap(&text, host->intra_ms, host->intra_samples, "on one stream", NULL);
    put_gap(&text, host->inter_ms, host->inter_samples, "between streams", NULL);
    if (text.length)
        aorta_text_printf(&text, "; the stream waits for the host%s", queued_late ? " (--gate excludes launches)" : "");
    aorta_text_fact(out, "host gaps", &text);
    aorta_text_free(&text);
    if (!isnan(found->overhead_ms)) say_probe(&found->probe, out);
}

static void say_time(const struct aorta_hwq_result *result, struct aorta_text *out) {
    const struct aorta_hwq_limit *limit = &result->limit;
    const struct {
        const char *name;
        double share;
    } parts[] = {{"busy", limit->busy_share}, {"only host work", limit->host_share}, {"waiting", limit->waiting_share}};
    struct aorta_text text = {0};
    size_t shown = 0;
    if (!limit->key) return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].share < 0.01) continue;
        shown++;
        aorta_text_printf(&text, "%s%s ", text.length ? ", " : "", parts[i].name);
        aorta_found_value_text(parts[i].share, "share", &text);
    }
    aorta_text_puts(&text, " of the iteration");
    if (shown > 1 || limit->by != AORTA_HWQ_LIMIT_KERNELS) /* else the limit says it */
        aorta_text_fact(out, "device", &text);
    aorta_text_free(&text);
}

/* The limit and the findings that the first line does not have. */
static void say_findings(const struct aorta_hwq_result *result, struct aorta_text *out) {
    const enum aorta_hwq_finding answer = aorta_hwq_answer(result);
    struct aorta_text text = {0};
    const char *head = "found";
    if (answer != result->limit.by) (void)aorta_hwq_finding_text(result, result->limit.by, &text);
    aorta_text_fact(out, "limit", &text);
    say_time(result, out);
    for (size_t i = 0; i < result->found.count; i++) {
        if (result->found.items[i].finding == answer) continue;
        aorta_found_sentence(&result->found.items[i], &text);
        aorta_text_fact(out, head, &text);
        head = "";
    }
    aorta_text_free(&text);
}

static void say_try(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result, struct aorta_text *out) {
    const struct aorta_hwq_workload *workload = run->workload;
    const enum aorta_hwq_finding answer = aorta_hwq_answer(result), by = result->limit.by;
    const char *all[] = {answer == by ? NULL : aorta_hwq_finding_rows[answer].advice,
                         run->graph && by != AORTA_HWQ_LIMIT_GAPS ? NULL : aorta_hwq_finding_rows[by].advice,
                         workload->try_of ? workload->try_of(run, result) : workload->try_next,
                         "aorta hwq sweep shows how the workload scales"};
    struct aorta_text text = {0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i] || (i == 3 && all[2])) continue;
        aorta_text_printf(&text, "%s%s", text.length ? "; " : "", all[i]);
    }
    aorta_text_fact(out, "try", &text);
    aorta_text_free(&text);
}

/* ---- tables of figures ---- */

static bool is_common(const struct aorta_hwq_figure *figure) {
    static const char *const common[] = {"launches_per_iteration", "launches_per_second", "host_launch_p50",
                                         "host_us_per_launch",     "wall_iteration",      "verified_values",
                                         "verified_worst"};
    return aorta_is_one_of(figure->name, common, sizeof common / sizeof *common);
}

static void say_figures(const struct aorta_hwq_result *result, struct aorta_text *out) {
    const struct aorta_hwq_figure *before = NULL;
    for (size_t i = 0; i < result->figure_count; i++) {
        const struct aorta_hwq_figure *figure = &result->figures[i];
        char label[64];
        if (is_common(figure)) continue;
        if (!before || before->group != figure->group)
            aorta_text_printf(out, "\n%s\n", figure->group ? figure->group : "The workload's figures");
        before = figure;
        snprintf(label, sizeof label, "%s", figure->name);
        for (char *at = label; *at; at++)
            if (*at == '_') *at = ' ';
        aorta_text_printf(out, "  %-31s ", label);
        if (isnan(figure->value))
            aorta_text_printf(out, "not known: %s", figure->reason);
        else
            aorta_found_value_text(figure->value, figure->unit, out);
        aorta_text_puts(out, "\n");
    }
}

/* ---- the report ---- */

static void say_verification(const struct aorta_hwq_result *result, struct aorta_text *out) {
    const struct aorta_hwq_figure *worst = aorta_hwq_result_find(result, "verified_worst");
    const struct aorta_hwq_figure *values = aorta_hwq_result_find(result, "verified_values");
    const bool none = !values || !(values->value > 0.0), passed = aorta_hwq_answer(result) != AORTA_HWQ_WRONG_RESULT;
    struct aorta_text text = {0};
    if (!result->verified) return;
    aorta_text_puts(&text, result->verified);
    if (none)
        aorta_text_puts(&text, passed ? ": this rank has no part in the workload" : ": nothing was compared");
    else
        aorta_text_printf(&text, ", %.0f values", values->value);
    if (!none && !result->worst_at) aorta_text_puts(&text, ", all exact");
    if (!none && result->worst_at && worst && isfinite(worst->value))
        aorta_text_printf(&text, ", the largest error is %.3g of the allowed one", worst->value);
    aorta_text_fact(out, "verified", &text);
    aorta_text_free(&text);
}

static void say_setup(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result, struct aorta_text *out) {
    const struct aorta_hwq_figure *rate = aorta_hwq_result_find(result, "launches_per_second");
    const struct aorta_hwq_workload *w = run->workload;
    struct aorta_text text = {0};
    aorta_text_printf(&text, "%s of %s%s%s", aorta_counted(result->stream_count, "stream").text,
                      aorta_device_get_info(run->device)->name, run->graph ? ", as a graph" : "",
                      run->gate ? ", with a gate" : "");
    aorta_text_fact(out, "setup", &text);
    aorta_text_puts(&text, w->summary_of ? w->summary_of(run) : w->summary);
    aorta_text_fact(out, "workload", &text);
    aorta_text_printf(&text, "%s ms median, %s p95, %s p99 (%s, device timestamps)",
                      aorta_brief(result->latency_ms.p50).text, aorta_brief(result->latency_ms.p95).text,
                      aorta_brief(result->latency_ms.p99).text,
                      aorta_counted((long long)result->iteration_count, "iteration").text);
    aorta_text_fact(out, "iteration", &text);
    if (isnan(result->throughput))
        aorta_text_puts(&text, "not known");
    else
        aorta_text_printf(&text, "%s %s", aorta_brief(result->throughput).text, result->throughput_unit);
    if (rate) aorta_text_printf(&text, ", %s launches/s", aorta_brief(rate->value).text);
    aorta_text_fact(out, "throughput", &text);
    aorta_text_free(&text);
}

void aorta_hwq_run_text(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result, bool answer,
                        struct aorta_text *out) {
    struct aorta_text text = {0};
    aorta_hwq_headline(result, &text);
    aorta_text_lines(out, text.data, &(struct aorta_lines){.indent = 2});
    aorta_text_end(&text, out);
    if (answer) return;
    aorta_text_puts(out, "\n");
    say_setup(run, result, out);
    say_findings(result, out);
    say_gaps(run, &result->switch_latency, out);
    say_verification(result, out);
    if (result->simulated) aorta_text_puts(&text, "the collectives are copies on one rank, not transfers on a link");
    aorta_text_fact(out, "simulated", &text);
    say_try(run, result, out);
    say_figures(result, out);
    aorta_text_free(&text);
}
