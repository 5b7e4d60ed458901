#include "hwq/limit.h"
#include "base/rows.h"

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

static bool is_own(const char *source) { /* not the probe's */
    return source && source[0] == 'w';
}

static double host_gap_share(const struct aorta_hwq_switch *gaps) {
    const size_t host = gaps->host.intra_samples + gaps->host.inter_samples;
    const size_t own =
        (is_own(gaps->intra_source) ? gaps->intra_samples : 0) + (is_own(gaps->inter_source) ? gaps->inter_samples : 0);
    return host ? (double)host / (double)(host + own) : NAN;
}

static enum aorta_hwq_finding find_cause(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                                         bool gate, bool marked) {
    const struct aorta_hwq_switch *gaps = &result->switch_latency;
    if (isnan(limit->busy_share)) return AORTA_HWQ_LIMIT_UNSTAMPED;
    const bool idle = limit->busy_share<by_kernels, host = limit->host_share> limit->waiting_share;
    if (idle && host) return AORTA_HWQ_LIMIT_HOST_WORK;
    if (!gate && limit->queueing_share >= by_queueing && (marked || limit->busy_share < by_queueing))
        return AORTA_HWQ_LIMIT_LAUNCHES;
    if (!gate && marked && limit->queueing_share > 0.5 && limit->busy_ms > too_slow * result->latency_ms.p50)
        return AORTA_HWQ_LIMIT_UNKNOWN;
    if (idle) return AORTA_HWQ_LIMIT_WAITING;
    if (gaps->intra_samples >= fewest_gaps && is_own(gaps->intra_source) &&
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
    limit.host_gap_share = host_gap_share(&result->switch_latency);
    limit.by = find_cause(&limit, result, gate, busy->marked);
    limit.without_ms = p50 * (1.0 - (limit.by == AORTA_HWQ_LIMIT_WAITING     ? limit.waiting_share
                                     : limit.by == AORTA_HWQ_LIMIT_HOST_WORK ? limit.host_share
                                                                             : NAN));
    return limit;
}

/* ---- clocks and drift ---- */

aorta_status aorta_hwq_find_low_clocks(struct aorta_hwq_result *result) {
    return aorta_clocks_low(&result->clocks) ? aorta_hwq_result_finding(result, AORTA_HWQ_LOW_CLOCK) : NULL;
}

/* The clock can have fallen before its first sample. */
static enum aorta_hwq_finding why_slower(const struct aorta_clocks *clocks) {
    struct aorta_text why = {0};
    const bool several = clocks->readings > 1, limited = clocks->readings && aorta_clocks_why(clocks, &why);
    aorta_text_free(&why);
    if (several && clocks->last_mhz < 0.99 * clocks->first_mhz) return AORTA_HWQ_SLOWER_AS_CLOCK_FELL;
    if (limited) return AORTA_HWQ_SLOWER_AS_LIMITED;
    if (aorta_clocks_low(clocks)) return AORTA_HWQ_SLOWER_AT_LOW_CLOCK;
    return several ? AORTA_HWQ_SLOWER_AT_STEADY_CLOCK : AORTA_HWQ_SLOWER;
}

aorta_status aorta_hwq_find_drift(struct aorta_hwq_result *result) {
    enum { FEWEST = 20 };
    const size_t quarter = result->iteration_count / 4;
    if (result->iteration_count < FEWEST) return NULL;
    const double first = aorta_summarise(result->iteration_times_ms, quarter).p50;
    const double last = aorta_summarise(result->iteration_times_ms + result->iteration_count - quarter, quarter).p50;
    result->first_quarter_ms = first;
    result->last_quarter_ms = last;
    if (fabs(last / first - 1.0) < 0.05) return NULL;
    return aorta_hwq_result_finding(result, last > first ? why_slower(&result->clocks) : AORTA_HWQ_FASTER);
}

/* ---- JSON ---- */

#define ROW(key, member, unit, words)                                                                                  \
    { (key), AORTA_ROW_NUMBER, offsetof(struct aorta_hwq_limit, member), (unit), .help = (words) }
const struct aorta_row aorta_hwq_limit_rows[] = {
    ROW("busy_ms", busy_ms, "ms", "something runs on any stream"),
    ROW("busy_share", busy_share, "share", "the same as a share of the median iteration"),
    ROW("host_work_ms", host_ms, "ms", "only a call of the host runs"),
    ROW("host_work_share", host_share, "share", "the same as a share"),
    ROW("waiting_share", waiting_share, "share", "nothing runs"),
    ROW("host_queueing_share", queueing_share, "share", "the host queues work"),
    ROW("streams_at_once", at_once, NULL, "streams that run something while any does"),
    ROW("kernel_mean_ms", kernel_ms, "ms", "a kernel"),
    ROW("iteration_without_ms", without_ms, "ms", "the iteration without its limit, of host work or waiting"),
    ROW("host_gap_share", host_gap_share, "share", "gaps in which the device waits for the host"),
    {0}};

void aorta_hwq_limit_json(const struct aorta_hwq_result *result, struct aorta_json *json) {
    struct aorta_text text = {0};
    (void)aorta_hwq_finding_text(result, result->limit.by, &text);
    aorta_json_object(json);
    aorta_json_key_string(json, "by", aorta_hwq_finding_key(result->limit.by));
    aorta_json_key_string(json, "text", text.data);
    aorta_rows_json(aorta_hwq_limit_rows, &result->limit, 0, json);
    aorta_json_object_end(json);
    aorta_text_free(&text);
}
