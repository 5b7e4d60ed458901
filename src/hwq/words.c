/* A run explains itself: ten lines or so for a terminal. */
#include "hwq/run.h"

#include <math.h>
#include <string.h>

static const char *meaning_of(enum aorta_hwq_sensitivity sensitivity) {
    static const char *const texts[AORTA_HWQ_SENSITIVITY_COUNT] = {
        "low: its kernels are long; a switch disappears in them", "medium: switches show where many streams take turns",
        "high: kernels wait for other streams often, so each hand-over counts",
        "critical: kernels are as short as the switches between them"};
    return texts[sensitivity];
}

static void say_gaps(const struct aorta_hwq_run *run, const struct aorta_hwq_switch *found, struct aorta_text *out) {
    if (!found->intra_samples && !found->inter_samples) {
        aorta_text_printf(out, "  gaps        not known: %s\n",
                          found->reason ? found->reason : "no kernel was stamped");
        return;
    }
    aorta_text_printf(
        out, "  gaps        on one stream %.3f us (%zu samples%s), between streams %.3f us (%zu samples%s)%s\n",
        1e3 * found->intra_gap_ms, found->intra_samples,
        found->intra_source && found->intra_source[0] == 'p' ? ", probe" : "", 1e3 * found->inter_gap_ms,
        found->inter_samples, found->inter_source && found->inter_source[0] == 'p' ? ", probe" : "",
        run->gate ? "" : "; the host's launches are part of them, --gate takes them out");
    if (found->reason) aorta_text_printf(out, "  not known   %s\n", found->reason);
    if (isnan(found->overhead_ms)) return;
    aorta_text_printf(
        out, "  switch      %+.3f us: going over to another stream takes %.3f us, staying %.3f us (%zu samples)\n",
        1e3 * found->overhead_ms, 1e3 * found->probe_inter_ms, 1e3 * found->probe_intra_ms, found->probe_samples);
}

/* What the time goes into: the host's launches, or the device's work and its gaps. */
static void say_meaning(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result,
                        struct aorta_text *out) {
    const struct aorta_summary host = aorta_summarise(result->host_launch_ms, result->iteration_count);
    const double share = host.p50 / result->latency_ms.p50;
    aorta_text_printf(out, "  meaning     sensitivity %s\n", meaning_of(run->workload->sensitivity));
    if (run->gate) return;
    if (share >= 0.9)
        aorta_text_printf(out,
                          "              the host queues for %.0f%% of the time: what you see is its launch rate%s\n",
                          100 * fmin(share, 1.0), run->graph ? "" : "; --graph or --gate show the device's own");
    else
        aorta_text_printf(out, "              the host queues for %.0f%% of the time: the device has the last word\n",
                          100 * share);
}

static void say_figures(const struct aorta_hwq_result *result, struct aorta_text *out) {
    static const char *const common[] = {"launches_per_iteration", "launches_per_second", "host_launch_p50",
                                         "host_us_per_launch",     "wall_iteration",      "verified_values",
                                         "verified_worst"};
    for (size_t i = 0; i < result->figure_count; i++) {
        const struct aorta_hwq_figure *figure = &result->figures[i];
        bool is_common = false;
        for (size_t j = 0; j < sizeof common / sizeof *common; j++) is_common |= strcmp(common[j], figure->name) == 0;
        if (is_common) continue;
        if (isnan(figure->value))
            aorta_text_printf(out, "  %-28s not known: %s\n", figure->name, figure->reason);
        else
            aorta_text_printf(out, "  %-28s %.4g %s\n", figure->name, figure->value, figure->unit);
    }
}

void aorta_hwq_run_text(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result,
                        struct aorta_text *out) {
    const struct aorta_hwq_workload *w = run->workload;
    const struct aorta_hwq_figure *rate = aorta_hwq_result_find(result, "launches_per_second");
    aorta_text_printf(out, "%s on %d stream%s of %s%s%s: %s\n", w->name, result->stream_count,
                      result->stream_count == 1 ? "" : "s", aorta_device_get_info(run->device)->name,
                      run->graph ? ", as a graph" : "", run->gate ? ", behind a gate" : "", w->summary);
    aorta_text_printf(out, "  iteration   p50 %.4f ms, p95 %.4f, p99 %.4f (%zu iterations, device timestamps)\n",
                      result->latency_ms.p50, result->latency_ms.p95, result->latency_ms.p99, result->iteration_count);
    aorta_text_printf(out, "  throughput  %.5g %s; %.4g launches/s\n", result->throughput, result->throughput_unit,
                      rate ? rate->value : NAN);
    say_gaps(run, &result->switch_latency, out);
    say_meaning(run, result, out);
    say_figures(result, out);
    if (result->verified) {
        const struct aorta_hwq_figure *worst = aorta_hwq_result_find(result, "verified_worst");
        aorta_text_printf(out, "  verified    %s (worst error %.3g of what is allowed)\n", result->verified,
                          worst ? worst->value : NAN);
    }
    if (result->simulated)
        aorta_text_puts(out,
                        "  simulated: the collectives were copies on one rank; their times say nothing of a link\n");
    aorta_text_printf(out, "  try: %s\n", w->try_next ? w->try_next : "aorta hwq sweep shows how it scales");
}
