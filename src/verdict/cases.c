/* The longest case of each cause, as evidence. */
#include "verdict/verdict_internal.h"

#include "timeline/framework.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 512 };

static struct aorta_brief ms(int64_t ns) {
    return aorta_brief((double)ns / 1e6);
}

/* The short name, for the sentence; the finding keeps the whole one. */
static const char *short_name(const struct aorta_trace_rank *rank, uint32_t text, struct aorta_finding *finding,
                              struct aorta_text *sentence, char name[NAME_SIZE]) {
    const char *whole = aorta_trace_text(rank->trace, text);
    free(finding->kernel);
    finding->kernel = strdup(whole);
    sentence->failed |= !finding->kernel;
    return aorta_kernel_short_name(whole, name, NAME_SIZE);
}

/* " (rank 1, step 16)", as far as it says anything. */
static void say_where(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank, int64_t step,
                      struct aorta_text *text) {
    const char *separator = " (";
    if (analysis->rank_count > 1) {
        aorta_text_printf(text, "%srank %d", separator, rank->rank);
        separator = ", ";
    }
    if (step != INT64_MIN) {
        aorta_text_printf(text, "%sstep %lld", separator, (long long)step);
        separator = ", ";
    }
    if (separator[0] == ',') aorta_text_puts(text, ")");
}

static void say_stream(const struct aorta_trace_rank *rank, uint32_t stream, struct aorta_text *text) {
    if (stream != AORTA_TRACE_NONE)
        aorta_text_printf(text, " on stream %lld", (long long)rank->trace->streams[stream].id);
}

/* ---- the worst of each cause ---- */

struct place {
    const struct aorta_trace_rank *rank;
    int64_t step, ns;
    uint32_t work;                     /* row of the rank's work[] */
    const struct aorta_trace_gap *gap; /* idle causes */
};

static int64_t gap_part(const struct aorta_trace_gap *gap, enum aorta_cause cause) {
    int64_t ns = 0;
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++) ns += aorta_cause_of_idle[i] == cause ? gap->idle.ns[i] : 0;
    return ns;
}

static struct place longest_gap(const struct aorta_trace_analysis *analysis, enum aorta_cause cause) {
    struct place worst = {0};
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        for (size_t j = 0; j < rank->gap_count; j++) {
            const struct aorta_trace_gap *gap = &rank->gaps[j];
            if (!aorta_trace_step_counts(analysis, gap->step)) continue;
            int64_t ns = gap_part(gap, cause);
            if (ns > worst.ns) worst = (struct place){rank, gap->step, ns, (uint32_t)gap->next, gap};
        }
    }
    return worst;
}

/* Of the calls with this name how many follow a copy to the host as the thread's next call, as those of .item() do. */
static double share_after_reads(const struct aorta_trace *trace, uint32_t name) {
    uint32_t *last = malloc((trace->thread_count + 1) * sizeof *last);
    bool *reads = aorta_trace_reading_calls(trace);
    size_t calls = 0, after = 0;
    for (size_t i = 0; last && i < trace->thread_count; i++) last[i] = AORTA_TRACE_NONE;
    for (size_t i = 0; last && reads && i < trace->call_count; i++) {
        const struct aorta_trace_call *call = &trace->calls[i];
        const uint32_t before = last[call->thread];
        last[call->thread] = (uint32_t)i;
        if (call->name != name) continue;
        calls++;
        after += reads[i] || (before != AORTA_TRACE_NONE && reads[before]);
    }
    free(last);
    free(reads);
    return calls ? (double)after / (double)calls : 0;
}

static void say_calls(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                      const struct aorta_trace_sync_row *row, struct aorta_text *text) {
    const double calls = (double)row->times.count / (double)rank->steps;
    aorta_text_printf(text, ", %s call%s%s", aorta_brief(calls).text, row->times.count == rank->steps ? "" : "s",
                      analysis->stepped ? " a step" : "");
}

/* Of a file without operations: the calls that wait longest in all, and what they follow. */
static void say_call(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                     struct aorta_text *text) {
    static const double MOST = 0.5;
    if (!rank->sync_count) return;
    const struct aorta_trace_sync_row *row = &rank->syncs[0];
    const double share = share_after_reads(rank->trace, row->name);
    aorta_text_printf(text, "; most in %s", aorta_trace_text(rank->trace, row->name));
    say_calls(analysis, rank, row, text);
    if (share > MOST) aorta_text_puts(text, ", after a copy to the host, as .item() and .cpu() do");
}

/* Of the rank's calls that wait, the one that waits longest in all, where something is known of its place. */
static void say_caller(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                       struct aorta_text *text) {
    char name[NAME_SIZE];
    for (size_t i = 0; i < rank->sync_count; i++) {
        const struct aorta_trace_sync_row *row = &rank->syncs[i];
        bool placed = row->operation != AORTA_TRACE_NONE || row->function != AORTA_TRACE_NONE;
        if (!placed && row->range == AORTA_TRACE_NONE) continue;
        aorta_text_printf(text, "; most in %s", aorta_trace_sync_name(rank->trace, row, name, sizeof name));
        say_calls(analysis, rank, row, text);
        return;
    }
    say_call(analysis, rank, text);
}

static void say_gap(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding,
                    struct aorta_text *text) {
    struct place worst = longest_gap(analysis, finding->cause);
    if (!worst.rank) return;
    char name[NAME_SIZE];
    const struct aorta_trace *trace = worst.rank->trace;
    const struct aorta_trace_work *work = &worst.rank->work[worst.work];
    aorta_text_printf(text, "; longest %s ms, before %s", ms(worst.ns).text,
                      short_name(worst.rank, work->name, finding, text, name));
    say_stream(worst.rank, work->stream, text);
    if (worst.gap->annotation != AORTA_TRACE_NONE)
        aorta_text_printf(text, ", host in %s",
                          aorta_trace_text(trace, trace->annotations[worst.gap->annotation].name));
    else if (worst.gap->call != AORTA_TRACE_NONE && finding->cause == AORTA_CAUSE_HOST_SYNC)
        aorta_text_printf(text, ", host in %s", aorta_trace_text(trace, trace->calls[worst.gap->call].name));
    say_where(analysis, worst.rank, worst.step, text);
}

/* The calls that wait; the longest gap only where it is much of what they cost. */
static void say_waits(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding,
                      struct aorta_text *text) {
    static const double MUCH = 0.2;
    const struct aorta_trace_rank *most = &analysis->ranks[0];
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        if (!rank->sync_count) continue;
        if (!most->sync_count || rank->syncs[0].times.total_ns > most->syncs[0].times.total_ns) most = rank;
    }
    say_caller(analysis, most, text);
    const struct place worst = longest_gap(analysis, finding->cause);
    if ((double)worst.ns / 1e6 >= MUCH * finding->cost_ms) say_gap(analysis, finding, text);
}

/* Of an exposed stretch what is left when the wait for the last rank is over: that is another cause. */
static int64_t without_wait(const struct aorta_trace_analysis *analysis, uint32_t collective,
                            const struct aorta_exposed *exposed) {
    if (collective == AORTA_TRACE_NONE || !analysis->shared_collectives[collective].complete)
        return exposed->end_ns - exposed->start_ns;
    const struct aorta_align_shared *shared = &analysis->alignment.shared[collective];
    int64_t from_ns = exposed->start_ns;
    for (size_t i = 0; i < shared->part_count; i++)
        if (shared->parts[i].start_ns > from_ns) from_ns = shared->parts[i].start_ns;
    return exposed->end_ns - from_ns;
}

static void look_for_exposed(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                             const struct aorta_trace_window *window, enum aorta_collective kind, struct place *worst) {
    for (size_t i = 0; i < window->overlap.exposed_count; i++) {
        const struct aorta_exposed *exposed = &window->overlap.exposed[i];
        const struct aorta_range *range = &window->profile.ranges[exposed->range];
        int64_t ns = without_wait(analysis, window->shared[exposed->range], exposed);
        if (range->info.collective != kind || ns <= worst->ns) continue;
        *worst = (struct place){rank, window->number, ns, window->work[exposed->range], NULL};
    }
}

/* All streams of a rank on one hardware queue cannot run side by side. */
static bool shares_one_queue(const struct aorta_trace_rank *rank) {
    return rank->queue_count == 1 && rank->stream_count > 1;
}

static void say_exposed(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding,
                        struct aorta_text *text) {
    struct place worst = {0};
    for (size_t i = 0; i < analysis->rank_count; i++)
        for (size_t j = 0; j < analysis->ranks[i].window_count; j++)
            if (aorta_trace_window_counts(analysis, &analysis->ranks[i].windows[j]))
                look_for_exposed(analysis, &analysis->ranks[i], &analysis->ranks[i].windows[j], finding->collective,
                                 &worst);
    if (!worst.rank) return;
    char name[NAME_SIZE];
    const struct aorta_trace_work *work = &worst.rank->work[worst.work];
    aorta_text_printf(text, "; longest %s ms in %s", ms(worst.ns).text,
                      short_name(worst.rank, work->name, finding, text, name));
    say_stream(worst.rank, work->stream, text);
    say_where(analysis, worst.rank, worst.step, text);
    if (finding->cause == AORTA_CAUSE_EXPOSED_COLLECTIVE && finding->collective <= AORTA_REDUCE_SCATTER) {
        const int times = aorta_verdict_reduced_again(analysis, worst.rank, finding->collective);
        if (times > 1) finding->circumstances |= AORTA_REPEATED;
        if (times > 1) aorta_text_printf(text, "; all gradients are reduced %d times a step", times);
    }
    if (shares_one_queue(worst.rank))
        aorta_text_printf(text, "; all %zu streams use one hardware queue (CUDA_DEVICE_MAX_CONNECTIONS=1?)",
                          worst.rank->stream_count);
}

static void say_straggler(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding,
                          struct aorta_text *text) {
    const struct aorta_align_shared *worst = NULL;
    const struct aorta_shared_collective *collective = NULL;
    for (size_t i = 0; i < analysis->alignment.shared_count; i++) {
        const struct aorta_align_shared *shared = &analysis->alignment.shared[i];
        if (!analysis->shared_collectives[i].chosen || !analysis->shared_collectives[i].complete) continue;
        if (!aorta_trace_step_counts(analysis, analysis->shared_collectives[i].step)) continue;
        if (worst && shared->skew_ns <= worst->skew_ns) continue;
        worst = shared;
        collective = &analysis->shared_collectives[i];
    }
    if (!worst) return;
    const bool sends = collective->kind == AORTA_ALL_TO_ALL && finding->circumstances & AORTA_SENDS;
    aorta_text_printf(text, "; longest %s ms in %s", ms(worst->skew_ns).text,
                      sends ? "a send or receive" : aorta_collective_name(collective->kind));
    say_where(analysis, &analysis->ranks[worst->last_rank], collective->step, text);
}

/* What a name takes in the steps that count. */
struct total {
    const struct aorta_trace_rank *rank;
    uint32_t name;
    size_t count;
    int64_t ns;
};

/* by_name[]: of all the trace's texts, zeroed; its name with most time if that is more than `largest`. */
static void add_totals(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank, bool copies,
                       struct total *by_name, struct total *largest) {
    for (size_t i = 0; i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        if (!aorta_trace_window_counts(analysis, window)) continue;
        for (size_t j = 0; j < window->profile.range_count; j++) {
            const struct aorta_trace_work *work = &rank->work[window->work[j]];
            const bool kernel = work->kind == AORTA_TRACE_KERNEL;
            if (copies ? kernel : !kernel || work->class != AORTA_KERNEL_COMPUTE) continue;
            const struct aorta_range *range = &window->profile.ranges[j];
            struct total *total = &by_name[work->name];
            *total = (struct total){rank, work->name, total->count + (work->start_ns >= window->start_ns),
                                    total->ns + range->end_ns - range->start_ns};
            if (total->ns > largest->ns) *largest = *total;
        }
    }
}

/* The name that takes most time among the rank's kernels or copies. */
static void say_largest(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding,
                        struct aorta_text *text) {
    struct total largest = {0};
    char name[NAME_SIZE];
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        struct total *by_name = calloc(aorta_trace_text_count(rank->trace) + 1, sizeof *by_name);
        text->failed |= !by_name;
        if (by_name) add_totals(analysis, rank, finding->cause == AORTA_CAUSE_COPY, by_name, &largest);
        free(by_name);
    }
    if (!largest.rank) return;
    const double steps = (double)largest.rank->steps, per_step = (double)largest.count / steps;
    finding->kernel_ms = (double)largest.ns / 1e6 / steps;
    aorta_text_printf(text, "; most of it %s (%s run%s%s, %s ms%s)",
                      short_name(largest.rank, largest.name, finding, text, name), aorta_brief(per_step).text,
                      per_step == 1 ? "" : "s", analysis->stepped ? " a step" : "",
                      aorta_brief(finding->kernel_ms).text, analysis->stepped ? "" : " in all");
}

static void say_slowest_gemm(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding,
                             struct aorta_text *text) {
    const struct aorta_trace_rank *where = NULL;
    const struct aorta_trace_gemm_row *worst = NULL;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        for (size_t j = 0; j < analysis->ranks[i].gemm_count; j++) {
            const struct aorta_trace_gemm_row *row = &analysis->ranks[i].gemms[j];
            if (!(row->slowdown > (worst ? worst->slowdown : 1))) continue;
            worst = row;
            where = &analysis->ranks[i];
        }
    }
    if (!worst) return;
    char name[NAME_SIZE];
    aorta_text_printf(text, "; worst %s %+.0f%%", short_name(where, worst->name, finding, text, name),
                      100 * (worst->slowdown - 1));
}

/* Whether graphs are captured, and hardly any is run. */
static bool captures(const struct aorta_trace *trace) {
    enum { FEW = 3 };
    bool found = false;
    size_t runs = 0;
    for (size_t i = 0; i < aorta_trace_text_count(trace) && !found; i++)
        found = strstr(aorta_trace_text(trace, (uint32_t)i), "StreamBeginCapture") != NULL;
    for (size_t i = 0; i < trace->call_count && found; i++) runs += trace->calls[i].kind == AORTA_CALL_GRAPH_LAUNCH;
    return found && runs < FEW;
}

/* How often the host launches and how short the work is, collectives left out: of the rank with most launches. */
static void say_launch_rate(const struct aorta_trace_analysis *analysis, struct aorta_text *text) {
    double most = 0, work_us = 0, step_us = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        double launches = 0, pieces = 0, work_ns = 0, step_ns = 0;
        for (size_t j = 0; j < rank->window_count; j++) {
            const struct aorta_trace_window *window = &rank->windows[j];
            if (!aorta_trace_window_counts(analysis, window)) continue;
            step_ns += (double)(window->overlap.lead_ns + window->overlap.span_ns);
            for (size_t k = 0; k < window->profile.range_count; k++) {
                const struct aorta_trace_work *work = &rank->work[window->work[k]];
                if (work->call == AORTA_TRACE_NONE || work->start_ns < window->start_ns) continue;
                launches++;
                if (aorta_trace_is_collective(work)) continue; /* which waits for other ranks */
                pieces++;
                work_ns += (double)(work->end_ns - work->start_ns);
            }
        }
        if (launches / (double)rank->steps <= most) continue;
        most = launches / (double)rank->steps;
        work_us = pieces > 0 ? work_ns / pieces / 1e3 : 0;
        step_us = step_ns / launches / 1e3;
    }
    if (most >= 2)
        aorta_text_printf(text, "; %.0f launches%s, one in %s us, of work that takes %s us", most,
                          analysis->stepped ? " a step" : "", aorta_brief(step_us).text, aorta_brief(work_us).text);
}

static void say_launches(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding,
                         struct aorta_text *text) {
    bool all = true;
    say_launch_rate(analysis, text);
    for (size_t i = 0; i < analysis->rank_count; i++) all &= captures(analysis->ranks[i].trace);
    if (all) finding->circumstances |= AORTA_CAPTURE;
    if (all) aorta_text_puts(text, "; the program captures graphs here, which it does once");
    say_gap(analysis, finding, text);
}

static void (*const say[AORTA_CAUSE_COUNT])(const struct aorta_trace_analysis *, struct aorta_finding *,
                                            struct aorta_text *) = {
#define CAUSE(name, key, plain, by_kind, at_place, sentence, in_steps, in_traces, ...) in_traces,
#include "replay/causes.def"
#undef CAUSE
};

static aorta_status add_evidence(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding) {
    struct aorta_text text = {0};
    aorta_text_puts(&text, finding->evidence);
    if (say[finding->cause]) say[finding->cause](analysis, finding, &text);
    return aorta_text_take(&text, &finding->evidence);
}

aorta_status aorta_verdict_add_cases(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    static const unsigned circumstances[] = {[AORTA_FRAMEWORK_XLA] = AORTA_XLA,
                                             [AORTA_FRAMEWORK_CUPY] = AORTA_CUPY,
                                             [AORTA_FRAMEWORK_TRITON] = AORTA_TRITON,
                                             [AORTA_FRAMEWORK_COMPILED] = 0};
    const unsigned framework =
        analysis->rank_count ? circumstances[aorta_trace_framework(analysis->ranks[0].trace)] : 0;
    const bool serving = analysis->stepped && analysis->ranks[0].trace->steps_by == AORTA_STEPS_BY_ENGINE;
    const unsigned known =
        framework | (serving ? (unsigned)AORTA_SERVING : 0) | (verdict->sends ? (unsigned)AORTA_SENDS : 0);
    for (size_t i = 0; i < verdict->finding_count; i++) verdict->findings[i].circumstances |= known;
    for (size_t i = 0; i < verdict->finding_count; i++) AORTA_TRY(add_evidence(analysis, &verdict->findings[i]));
    return NULL;
}
