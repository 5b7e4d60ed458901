#include "hwq/limit.h"

#include <math.h>

/* From these shares of an iteration on, queueing or the kernels limit. */
static const double by_queueing = 0.9, by_kernels = 0.7;
/* Stamped work this many times as long as a timed iteration: the stamps dominate. */
static const double too_slow = 1.2;
static const size_t fewest_gaps = 10;
/* From this ratio of a gap to its kernel on, gaps limit. */
static const double by_gaps = 0.5;

/* ---- what ran ---- */

aorta_status aorta_hwq_busy_add(struct aorta_hwq_busy *busy, const struct aorta_hwq_spans *spans) {
    struct aorta_span_times times;
    if (spans->unstamped || !spans->count) return NULL;
    for (size_t i = 0; i < spans->count; i++) {
        const struct aorta_span *span = &spans->items[i];
        if (span->kind == AORTA_SPAN_HOST) continue;
        busy->marked = busy->marked || span->marked;
        AORTA_TRY(aorta_hwq_samples_add(&busy->kernel, (double)(span->end_ns - span->start_ns)));
    }
    AORTA_TRY(aorta_spans_measure(spans->items, spans->count, &times));
    if (times.span_ns > 0) AORTA_TRY(aorta_hwq_samples_add(&busy->idle, (double)times.idle_ns / (double)times.span_ns));
    AORTA_TRY(aorta_hwq_samples_add(&busy->busy, (double)times.busy_ns));
    AORTA_TRY(aorta_hwq_samples_add(&busy->host, (double)times.host_ns));
    return aorta_hwq_samples_add(&busy->sum, (double)times.sum_ns);
}

void aorta_hwq_busy_free(struct aorta_hwq_busy *busy) {
    aorta_hwq_samples_free(&busy->busy);
    aorta_hwq_samples_free(&busy->host);
    aorta_hwq_samples_free(&busy->sum);
    aorta_hwq_samples_free(&busy->idle);
    aorta_hwq_samples_free(&busy->kernel);
}

/* ---- what limits ---- */

static enum aorta_hwq_limit_by find_cause(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                                          bool gate, bool marked) {
    const struct aorta_hwq_switch *gaps = &result->switch_latency;
    if (isnan(limit->busy_share)) return AORTA_HWQ_LIMIT_UNKNOWN;
    const bool idle = limit->busy_share<by_kernels, host = limit->host_share> limit->waiting_share;
    if (idle && host) return AORTA_HWQ_LIMIT_HOST_WORK;
    if (!gate && limit->queueing_share >= by_queueing && (marked || limit->busy_share < by_queueing))
        return AORTA_HWQ_LIMIT_LAUNCHES;
    if (!gate && marked && limit->queueing_share > 0.5 && limit->busy_ms > too_slow * result->latency_ms.p50)
        return AORTA_HWQ_LIMIT_UNKNOWN;
    if (idle) return AORTA_HWQ_LIMIT_WAITING;
    if (gaps->intra_samples >= fewest_gaps && gaps->intra_source && gaps->intra_source[0] == 'w' &&
        gaps->intra_gap_ms >= by_gaps * limit->kernel_ms)
        return AORTA_HWQ_LIMIT_GAPS;
    return AORTA_HWQ_LIMIT_KERNELS;
}

struct aorta_hwq_limit aorta_hwq_limit_find(const struct aorta_hwq_busy *busy, const struct aorta_hwq_result *result,
                                            bool gate) {
    const struct aorta_summary host = aorta_summarise(result->host_launch_ms, result->iteration_count);
    const double p50 = result->latency_ms.p50, ran = aorta_hwq_samples_median(&busy->busy);
    struct aorta_hwq_limit limit = {.busy_ms = 1e-6 * ran,
                                    .host_ms = 1e-6 * aorta_hwq_samples_median(&busy->host),
                                    .queueing_share = fmin(host.p50 / p50, 1.0),
                                    .at_once = aorta_hwq_samples_median(&busy->sum) / ran,
                                    .kernel_ms = 1e-6 * aorta_summarise(busy->kernel.items, busy->kernel.count).mean};
    /* The lower of stamped and timed iterations: only stamps or chance make one longer. */
    limit.waiting_share =
        fmin(aorta_hwq_samples_median(&busy->idle), fmax(1.0 - (limit.busy_ms + limit.host_ms) / p50, 0.0));
    limit.host_share = (1.0 - limit.waiting_share) * limit.host_ms / (limit.busy_ms + limit.host_ms);
    limit.busy_share = 1.0 - limit.waiting_share - limit.host_share;
    limit.by = find_cause(&limit, result, gate, busy->marked);
    return limit;
}

/* ---- text ---- */

static double launch_us(const struct aorta_hwq_result *result) {
    const struct aorta_hwq_figure *figure = aorta_hwq_result_find(result, "host_us_per_launch");
    return figure ? figure->value : NAN;
}

static void say_waiting(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                        struct aorta_text *out) {
    const struct aorta_hwq_switch *gaps = &result->switch_latency;
    const size_t host = gaps->host.intra_samples + gaps->host.inter_samples;
    const size_t own = (gaps->intra_source && gaps->intra_source[0] == 'w' ? gaps->intra_samples : 0) +
                       (gaps->inter_source && gaps->inter_source[0] == 'w' ? gaps->inter_samples : 0);
    const double share = limit->waiting_share;
    aorta_text_printf(out,
                      "waiting: for %.0f%% of an iteration (%.4g ms) nothing runs on any stream; without waiting it "
                      "would be %.1f times as fast",
                      100 * share, share * result->latency_ms.p50, 1.0 / (1.0 - share));
    if (host && host + own)
        aorta_text_printf(out, "; in %.0f%% of the gaps the device waits for the host",
                          100.0 * (double)host / (double)(host + own));
    else
        aorta_text_puts(out, "; the next work is queued already: events between streams, launches and copies take the "
                             "time");
}

static void say_kernels(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                        struct aorta_text *out) {
    aorta_text_printf(out, "the kernels: something runs for %.0f%% of an iteration", 100 * limit->busy_share);
    if (result->stream_count > 1)
        aorta_text_printf(out, ", and %.1f of the %d streams run side by side", limit->at_once, result->stream_count);
    if (limit->host_share >= 0.01) aorta_text_printf(out, "; for %.0f%% only the host works", 100 * limit->host_share);
    if (limit->waiting_share < 0.005)
        aorta_text_puts(out, "; it never waits for a launch or a switch between streams");
    else
        aorta_text_printf(out, "; waiting for launches and switches takes at most %.1f%%", 100 * limit->waiting_share);
}

static void say_unknown(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                        struct aorta_text *out) {
    if (isnan(limit->busy_share)) {
        aorta_text_puts(out, "not known: no kernel was stamped");
        return;
    }
    aorta_text_printf(
        out,
        "not known: the host queues for %.0f%% of an iteration, and stamps around operations slow it down too much "
        "to measure the device (%.4g ms of work in an iteration of %.4g ms); --gate and --graph show it",
        100 * limit->queueing_share, limit->busy_ms, result->latency_ms.p50);
}

void aorta_hwq_limit_text(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                          struct aorta_text *out) {
    switch (limit->by) {
    case AORTA_HWQ_LIMIT_HOST_WORK:
        aorta_text_printf(out,
                          "the host's own work: for %.0f%% of an iteration (%.4g ms) it computes while the device is "
                          "idle; with that hidden an iteration would be %.1f times as fast",
                          100 * limit->host_share, limit->host_ms, 1.0 / (1.0 - limit->host_share));
        return;
    case AORTA_HWQ_LIMIT_LAUNCHES:
        aorta_text_printf(out,
                          "the host's launches: queueing takes %.0f%% of an iteration (%.2f us a launch), the device "
                          "runs something in %.0f%% of it at most",
                          100 * limit->queueing_share, launch_us(result), 100 * limit->busy_share);
        return;
    case AORTA_HWQ_LIMIT_WAITING:
        say_waiting(limit, result, out);
        return;
    case AORTA_HWQ_LIMIT_GAPS:
        aorta_text_printf(out,
                          "gaps within streams: %.3f us after each kernel of %.3f us; %.1f of %d streams run at a "
                          "time",
                          1e3 * result->switch_latency.intra_gap_ms, 1e3 * limit->kernel_ms, limit->at_once,
                          result->stream_count);
        return;
    case AORTA_HWQ_LIMIT_KERNELS:
        say_kernels(limit, result, out);
        return;
    case AORTA_HWQ_LIMIT_UNKNOWN:
    default:
        say_unknown(limit, result, out);
        return;
    }
}

void aorta_hwq_limit_try(const struct aorta_hwq_limit *limit, bool graph, struct aorta_text *out) {
    if (limit->by == AORTA_HWQ_LIMIT_LAUNCHES && !graph)
        aorta_text_puts(out, "--graph queues an iteration with one launch, --gate shows the device without the host; ");
    if (limit->by == AORTA_HWQ_LIMIT_WAITING && !graph)
        aorta_text_puts(out, "--graph makes launches and waits between streams cheaper; ");
    if (limit->by == AORTA_HWQ_LIMIT_GAPS)
        aorta_text_puts(out, "fewer and longer kernels (fusing them), or more streams while there are free queues "
                             "(aorta hwq map); ");
}

aorta_status aorta_hwq_find_low_clocks(struct aorta_hwq_result *result) {
    const struct aorta_clocks *clocks = &result->clocks;
    struct aorta_text text = {0};
    if (!aorta_clocks_low(clocks)) return NULL;
    aorta_clocks_sentence(clocks, &text);
    aorta_status status = aorta_text_check(&text);
    if (!status) status = aorta_hwq_result_finding(result, "the device's clock was low, %s", text.data);
    aorta_text_free(&text);
    return status;
}

/* The clock can have fallen before its first sample. */
static void say_slower(const struct aorta_clocks *clocks, struct aorta_text *out) {
    struct aorta_text why = {0};
    const bool several = clocks->readings > 1, known = clocks->readings && aorta_clocks_why(clocks, &why);
    if (several && clocks->last_mhz < 0.99 * clocks->first_mhz)
        aorta_text_printf(out, "its clock fell from %.0f to %.0f MHz", clocks->first_mhz, clocks->last_mhz);
    else if (known)
        aorta_text_printf(out, "the device was %s", why.data);
    else if (aorta_clocks_low(clocks))
        aorta_text_puts(out, "its clock is low");
    else if (several)
        aorta_text_printf(out, "not for its clock, %.0f MHz in all %zu readings at least: other work on the machine",
                          clocks->mhz.min, clocks->readings);
    else
        aorta_text_puts(out, "clocks that fall under power or heat limits, or other work on the machine");
    out->failed |= why.failed;
    aorta_text_free(&why);
}

aorta_status aorta_hwq_find_drift(struct aorta_hwq_result *result) {
    enum { FEWEST = 20 };
    const size_t quarter = result->iteration_count / 4;
    struct aorta_text why = {0};
    if (result->iteration_count < FEWEST) return NULL;
    const double first = aorta_summarise(result->iteration_times_ms, quarter).p50;
    const double last = aorta_summarise(result->iteration_times_ms + result->iteration_count - quarter, quarter).p50;
    if (fabs(last / first - 1.0) < 0.05) return NULL;
    if (last > first)
        say_slower(&result->clocks, &why);
    else
        aorta_text_puts(&why, "more --warmup would exclude them");
    aorta_status status = aorta_text_check(&why);
    if (!status)
        status = aorta_hwq_result_finding(
            result, "iterations become %s: the last quarter takes %.4g ms, the first %.4g ms (%+.0f%%): %s",
            last > first ? "slower" : "faster", last, first, 100 * (last / first - 1.0), why.data);
    aorta_text_free(&why);
    return status;
}

static const char *const names[] = {[AORTA_HWQ_LIMIT_HOST_WORK] = "host_work",
                                    [AORTA_HWQ_LIMIT_LAUNCHES] = "launches",
                                    [AORTA_HWQ_LIMIT_WAITING] = "waiting",
                                    [AORTA_HWQ_LIMIT_GAPS] = "gaps",
                                    [AORTA_HWQ_LIMIT_KERNELS] = "kernels"};

const char *aorta_hwq_limit_name(enum aorta_hwq_limit_by by) {
    return names[by];
}

void aorta_hwq_limit_json(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                          struct aorta_json *json) {
    struct aorta_text text = {0};
    aorta_hwq_limit_text(limit, result, &text);
    aorta_json_object(json);
    aorta_json_key_string(json, "by", names[limit->by]);
    aorta_json_key_string(json, "text", text.data);
    aorta_json_key_double(json, "busy_ms", limit->busy_ms);
    aorta_json_key_double(json, "busy_share", limit->busy_share);
    aorta_json_key_double(json, "host_work_ms", limit->host_ms);
    aorta_json_key_double(json, "host_work_share", limit->host_share);
    aorta_json_key_double(json, "waiting_share", limit->waiting_share);
    aorta_json_key_double(json, "host_queueing_share", limit->queueing_share);
    aorta_json_key_double(json, "streams_at_once", limit->at_once);
    aorta_json_key_double(json, "kernel_mean_ms", limit->kernel_ms);
    aorta_json_object_end(json);
    aorta_text_free(&text);
}
