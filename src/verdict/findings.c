/* The findings: the cost of each cause, facts from the sums over all steps, and the worst place of each cause in a
 * recording. */
#include "trace/trace.h"
#include "verdict/causes.h"
#include "verdict/verdict_internal.h"

#include <stdlib.h>
#include <string.h>

const char *aorta_verdict_kind_name(const struct aorta_verdict *verdict, enum aorta_collective kind) {
    return aorta_collective_words(kind, verdict->sends);
}

static double per_step_ms(const struct aorta_fill *fill, int64_t ns) {
    return (double)ns / 1e6 / (double)fill->sums->rank_iterations;
}

static void set(struct aorta_fill *fill, enum aorta_fact_key key, double value) {
    aorta_facts_set(&fill->finding->facts, key, value);
}

static void flag(struct aorta_fill *fill, enum aorta_fact_key key) {
    aorta_facts_flag(&fill->finding->facts, key);
}

/* The row with most time; -1: no rows. */
static int largest_row(const struct aorta_tally *tally) {
    int best = -1;
    for (size_t i = 0; i < tally->count; i++)
        if (best < 0 || tally->rows[i].ns > tally->rows[best].ns) best = (int)i;
    return best;
}

static void set_largest(struct aorta_fill *fill, enum aorta_fact_key key, const struct aorta_tally *tally) {
    const int row = largest_row(tally);
    if (row < 0) return;
    aorta_facts_set_named(&fill->finding->facts, key, per_step_ms(fill, tally->rows[row].ns), tally->rows[row].name);
}

/* Recordings show their longest gap instead (find_gap). */
static void set_where_idle(struct aorta_fill *fill, const struct aorta_tally *before) {
    if (!fill->verdict->recorded) set_largest(fill, AORTA_FACT_GAP, before);
}

static void fill_host_launch(struct aorta_fill *fill) {
    static const double LITTLE = 0.01; /* of the known idle time */
    const struct aorta_evidence_sums *sums = fill->sums;
    int64_t known = -sums->unknown_idle_ns;
    for (size_t i = 0; i < fill->verdict->rank_count; i++)
        known += fill->verdict->ranks[i].cause_ns[AORTA_CAUSE_HOST_LAUNCH];
    if (known > 0) set(fill, AORTA_FACT_IDLE_UNQUEUED, per_step_ms(fill, known));
    if (sums->unknown_idle_ns > 0 && LITTLE * (double)known < (double)sums->unknown_idle_ns)
        set(fill, AORTA_FACT_IDLE_UNKNOWN, per_step_ms(fill, sums->unknown_idle_ns));
    if (fill->verdict->idle_unexplained) flag(fill, AORTA_FACT_UNEXPLAINED);
    set_where_idle(fill, &sums->late_before);
}

/* In our own runs the host waits once per step, at its end. */
static void fill_host_sync(struct aorta_fill *fill) {
    static const double SEVERAL = 1.5;
    const double waits = (double)fill->sums->waits / (double)fill->sums->rank_iterations;
    if (waits > SEVERAL) set(fill, AORTA_FACT_WAITS, waits);
}

/* In a graph, launch latency is the device's time between two operations. */
static void fill_launch_latency(struct aorta_fill *fill) {
    if (2 * per_step_ms(fill, fill->sums->graph_latency_ns) > fill->finding->cost_ms) flag(fill, AORTA_FACT_GRAPH_GAPS);
    if (fill->sums->latency_recurs) flag(fill, AORTA_FACT_RECURS);
    set_where_idle(fill, &fill->sums->latency_before);
}

static void fill_copy(struct aorta_fill *fill) {
    static const double DWARFED = 2; /* times the kernels */
    const double pages_ms = per_step_ms(fill, fill->sums->page_read_ns), copies_ms = fill->finding->cost_ms - pages_ms;
    set(fill, AORTA_FACT_COPY_ALONE, copies_ms);
    if (pages_ms > copies_ms) set(fill, AORTA_FACT_PAGE_READS, pages_ms);
    if (copies_ms > DWARFED * fill->verdict->compute_ms) set(fill, AORTA_FACT_OVERLAP_LIMIT, fill->verdict->compute_ms);
}

static void fill_straggler(struct aorta_fill *fill) {
    static const double MORE = 1.25; /* times the mean */
    const struct aorta_verdict *verdict = fill->verdict;
    const struct aorta_rank_costs *worst = verdict->ranks;
    int64_t all = 0, worst_ns = 0;
    double most_ms = 0;
    for (const struct aorta_rank_costs *one = verdict->ranks; one < verdict->ranks + verdict->rank_count; one++) {
        const int64_t caused = one->late_device_ns + one->late_host_ns;
        all += caused;
        const double waited_ms = (double)one->cause_ns[AORTA_CAUSE_STRAGGLER] / 1e6 / (double)one->iterations;
        if (waited_ms > most_ms) most_ms = waited_ms;
        if (caused > worst_ns) {
            worst = one;
            worst_ns = caused;
        }
    }
    const bool device = worst->late_device_ns >= worst->late_host_ns;
    fill->finding->rank = worst->rank;
    if (most_ms > MORE * fill->finding->cost_ms) set(fill, AORTA_FACT_WAITED_MOST, most_ms);
    set(fill, AORTA_FACT_LATE_SHARE, (double)worst_ns / (double)all);
    flag(fill, device ? AORTA_FACT_LATE_DEVICE : AORTA_FACT_LATE_HOST);
    if (!verdict->common_clock) flag(fill, AORTA_FACT_ALIGNED);
    if (verdict->rank_count > 1 && worst_ns * 3 < all * 2) flag(fill, AORTA_FACT_LATE_CHANGES);
}

static void fill_slow_collective(struct aorta_fill *fill) {
    const int kind = fill->finding->collective;
    const double bytes = (double)fill->sums->slow_bytes[kind]; /* per ns: GB/s */
    set(fill, AORTA_FACT_BANDWIDTH, bytes / (double)fill->sums->slow_time_ns[kind]);
    set(fill, AORTA_FACT_BEST_BANDWIDTH, bytes / (double)fill->sums->slow_best_ns[kind]);
}

static void fill_serialized(struct aorta_fill *fill) {
    flag(fill, AORTA_FACT_OWN_STREAM);
}

/* Names the unit with most exposed time, unless it has all of it. */
static void fill_exposed(struct aorta_fill *fill) {
    static const double ALL = 0.95;
    const struct aorta_tally *where = &fill->sums->exposed_where[fill->finding->collective];
    const int row = largest_row(where);
    if (where->count > 1 && per_step_ms(fill, where->rows[row].ns) < ALL * fill->finding->cost_ms)
        set_largest(fill, AORTA_FACT_EXPOSED_UNIT, where);
}

static void fill_contention(struct aorta_fill *fill) {
    const struct aorta_slowdown *slowdown = &fill->verdict->slowdown;
    set(fill, AORTA_FACT_SLOWER, slowdown->ratio - 1);
    if (slowdown->by_grid) flag(fill, AORTA_FACT_BY_GRID);
    set(fill, AORTA_FACT_SAMPLES_BESIDE, (double)slowdown->samples_beside);
    set(fill, AORTA_FACT_SAMPLES_ALONE, (double)slowdown->samples_alone);
}

static void fill_compute(struct aorta_fill *fill) {
    flag(fill, AORTA_FACT_LAUNCHES_COST); /* a replay may remove it (gains.c) */
    if (fill->verdict->coarse)
        flag(fill, AORTA_FACT_COARSE);
    else if (fill->verdict->gaps)
        flag(fill, AORTA_FACT_GAPS);
}

/* ---- findings ---- */

static double rank_cost_ms(const struct aorta_rank_costs *costs, enum aorta_cause cause, int kind) {
    int64_t ns = aorta_cause_has_kind(cause) ? costs->collective_ns[cause][kind] : costs->cause_ns[cause];
    return (double)ns / 1e6 / (double)costs->iterations;
}

/* Names the rank with the largest cost if its cost is more than 1.25 times the mean. */
static struct aorta_finding weigh(const struct aorta_verdict *verdict, enum aorta_cause cause, int kind) {
    struct aorta_finding finding = {
        .cause = cause, .collective = (enum aorta_collective)kind, .rank = -1, .facts = {.arena = verdict->arena}};
    double most = 0;
    int rank = -1;
    for (size_t i = 0; i < verdict->rank_count; i++) {
        double cost = rank_cost_ms(&verdict->ranks[i], cause, kind);
        finding.cost_ms += cost / (double)verdict->rank_count;
        if (cost > most) {
            most = cost;
            rank = verdict->ranks[i].rank;
        }
    }
    if (verdict->rank_count > 1 && most > 1.25 * finding.cost_ms) finding.rank = rank;
    finding.share = verdict->step_ms_mean > 0 ? finding.cost_ms / verdict->step_ms_mean : 0;
    return finding;
}

void aorta_verdict_make_findings(struct aorta_verdict *verdict, const struct aorta_evidence_sums *sums) {
    verdict->findings = aorta_arena_alloc(verdict->arena, (size_t)AORTA_CAUSE_COUNT * AORTA_COLLECTIVE_COUNT *
                                                              sizeof *verdict->findings);
    if (!verdict->findings) return;
    for (int cause = 0; cause < AORTA_CAUSE_COUNT; cause++) {
        const struct aorta_cause_row *row = aorta_cause_row((enum aorta_cause)cause);
        for (int kind = 0; kind < (row->by_kind ? AORTA_COLLECTIVE_COUNT : 1); kind++) {
            struct aorta_finding *finding = &verdict->findings[verdict->finding_count];
            *finding = weigh(verdict, (enum aorta_cause)cause, kind);
            if (finding->cost_ms <= 0) continue;
            verdict->finding_count++;
            if (row->cost) aorta_facts_set(&finding->facts, row->cost, finding->cost_ms);
            if (row->fill) row->fill(&(struct aorta_fill){verdict, sums, finding});
        }
    }
    aorta_findings_order(verdict->findings, verdict->finding_count);
}

/* ---- the worst place of each cause in a recording ---- */

enum { NAME_SIZE = 512 };

struct place {
    const struct aorta_trace_rank *rank;
    int64_t step, ns;
    uint32_t work;                     /* row of the rank's work[] */
    const struct aorta_trace_gap *gap; /* idle causes */
    bool activations;                  /* collectives */
};

/* A fact about something that happened on a rank in a step. */
static struct aorta_fact *set_at(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                                 int64_t step, struct aorta_finding *finding, enum aorta_fact_key key, int64_t ns,
                                 const char *name) {
    struct aorta_fact *fact = aorta_facts_set_named(&finding->facts, key, (double)ns / 1e6, name);
    if (analysis->rank_count > 1) fact->place.rank = rank->rank;
    fact->place.step = step;
    return fact;
}

static struct aorta_fact *set_worst(const struct aorta_trace_analysis *analysis, const struct place *worst,
                                    struct aorta_finding *finding, enum aorta_fact_key key) {
    const struct aorta_trace *trace = worst->rank->trace;
    const struct aorta_trace_work *work = &worst->rank->work[worst->work];
    struct aorta_fact *fact =
        set_at(analysis, worst->rank, worst->step, finding, key, worst->ns, aorta_trace_text(trace, work->name));
    if (work->stream != AORTA_TRACE_NONE) fact->place.stream = trace->streams[work->stream].id;
    return fact;
}

static int64_t gap_part(const struct aorta_trace_gap *gap, enum aorta_cause cause) {
    int64_t ns = 0;
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++) ns += aorta_cause_of_idle[i] == cause ? gap->idle.ns[i] : 0;
    return ns;
}

/* The gap belongs to another cause: a blocking launch is a stall, a call that changes memory is an allocation. */
static bool is_of_other(const struct aorta_trace_rank *rank, const struct aorta_trace_gap *gap,
                        enum aorta_cause cause) {
    const struct aorta_trace *trace = rank->trace;
    if (cause == AORTA_CAUSE_HOST_LAUNCH) return aorta_trace_launch_blocks(trace, &rank->work[gap->next]);
    return cause == AORTA_CAUSE_HOST_SYNC && gap->call != AORTA_TRACE_NONE &&
           aorta_trace_changes_memory(aorta_trace_text(trace, trace->calls[gap->call].name));
}

static struct place longest_gap(const struct aorta_trace_analysis *analysis, enum aorta_cause cause) {
    struct place worst = {0};
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        AORTA_EACH (const struct aorta_trace_gap, gap, rank->gaps, rank->gap_count) {
            if (!aorta_trace_step_counts(analysis, gap->step)) continue;
            int64_t ns = gap_part(gap, cause);
            if (ns > worst.ns && !is_of_other(rank, gap, cause))
                worst = (struct place){rank, gap->step, ns, (uint32_t)gap->next, gap, false};
        }
    }
    return worst;
}

/* Share of the calls with this name that copy to the host, or directly follow such a copy on their thread, as calls of
 * .item() do. `values`: only copies of a few bytes count. */
static double share_of_reads(const struct aorta_trace *trace, uint32_t name, bool values, struct aorta_arena *memory) {
    uint32_t *last = aorta_arena_alloc(memory, (trace->thread_count + 1) * sizeof *last);
    const bool *reads = aorta_trace_reading_calls(trace, values, memory);
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
    return calls ? (double)after / (double)calls : 0;
}

static void set_caller(const struct aorta_trace_rank *rank, const struct aorta_trace_sync_row *row, const char *name,
                       struct aorta_finding *finding) {
    const double calls = (double)row->times.count / (double)rank->steps;
    aorta_facts_set_named(&finding->facts, AORTA_FACT_CALLER, calls, name);
    const char *within =
        aorta_trace_text(rank->trace, row->operation == AORTA_TRACE_NONE ? row->range : row->operation);
    /* Events time convolutions only while cuDNN or MIOpen searches for the fastest algorithm. */
    if (strstr(name, "EventSynchronize") && strstr(within, "aten::") && strstr(within, "conv"))
        aorta_facts_flag(&finding->facts, AORTA_FACT_CONVOLUTION_SEARCH);
}

/* Names the calls with the longest total wait, among calls with a known place in the program if there are any. */
static void find_caller(const struct aorta_trace_rank *rank, struct aorta_finding *finding) {
    static const double MOST = 0.5;
    char name[NAME_SIZE];
    const struct aorta_trace_sync_row *row = NULL; /* the longest, with or without a place */
    const bool known = aorta_verdict_find_awaited(rank, &finding->facts);
    AORTA_EACH (const struct aorta_trace_sync_row, one, rank->syncs, rank->sync_count) {
        const bool placed = one->operation != AORTA_TRACE_NONE || one->function != AORTA_TRACE_NONE;
        if (aorta_trace_changes_memory(aorta_trace_text(rank->trace, one->name))) continue; /* of another cause */
        if (!row) row = one;
        if (!placed && one->range == AORTA_TRACE_NONE) continue;
        set_caller(rank, one, aorta_trace_sync_name(rank->trace, one, name, sizeof name), finding);
        if (!known && (strstr(name, "aten::nonzero") || strstr(name, "aten::masked_select")))
            aorta_facts_flag(&finding->facts, AORTA_FACT_SELECTS);
        return;
    }
    if (!row) return;
    set_caller(rank, row, aorta_trace_text(rank->trace, row->name), finding);
    if (known || share_of_reads(rank->trace, row->name, false, finding->facts.arena) <= MOST) return;
    const bool values = share_of_reads(rank->trace, row->name, true, finding->facts.arena) > MOST;
    aorta_facts_flag(&finding->facts, values ? AORTA_FACT_VALUES : AORTA_FACT_READS);
}

static void find_gap(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding) {
    const struct place worst = longest_gap(analysis, finding->cause);
    if (!worst.rank) return;
    const struct aorta_trace *trace = worst.rank->trace;
    struct aorta_fact *fact = set_worst(analysis, &worst, finding, AORTA_FACT_GAP);
    if (worst.gap->annotation != AORTA_TRACE_NONE)
        fact->place.host =
            aorta_facts_text(&finding->facts, aorta_trace_text(trace, trace->annotations[worst.gap->annotation].name));
    else if (worst.gap->call != AORTA_TRACE_NONE && finding->cause == AORTA_CAUSE_HOST_SYNC)
        fact->place.host =
            aorta_facts_text(&finding->facts, aorta_trace_text(trace, trace->calls[worst.gap->call].name));
}

/* Names the calls that wait. The longest gap is named only if it is a large part of the cost. */
static void find_waits(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding) {
    static const double MUCH = 0.2;
    const struct aorta_trace_rank *most = &analysis->ranks[0];
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        if (!rank->sync_count) continue;
        if (!most->sync_count || rank->syncs[0].times.total_ns > most->syncs[0].times.total_ns) most = rank;
    }
    find_caller(most, finding);
    if ((double)longest_gap(analysis, finding->cause).ns / 1e6 >= MUCH * finding->cost_ms) find_gap(analysis, finding);
}

/* The part of an exposed stretch after the last rank has arrived. The wait for the last rank is another cause. */
static int64_t exposed_without_wait(const struct aorta_trace_analysis *analysis, uint32_t collective,
                                    const struct aorta_exposed *exposed) {
    const struct aorta_align_shared *shared =
        collective == AORTA_TRACE_NONE ? NULL : &analysis->alignment.shared[collective];
    if (!shared || !shared->complete) return exposed->end_ns - exposed->start_ns;
    int64_t from_ns = exposed->start_ns;
    for (size_t i = 0; i < shared->part_count; i++)
        if (shared->parts[i].start_ns > from_ns) from_ns = shared->parts[i].start_ns;
    return exposed->end_ns - from_ns;
}

static void look_for_exposed(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                             const struct aorta_trace_window *window, enum aorta_collective kind, struct place *worst) {
    AORTA_EACH (const struct aorta_exposed, exposed, window->profile.overlap.exposed,
                window->profile.overlap.exposed_count) {
        const struct aorta_range *range = &window->profile.ranges[exposed->range];
        int64_t ns = exposed_without_wait(analysis, window->shared[exposed->range], exposed);
        if (range->info.collective != kind || ns <= worst->ns) continue;
        *worst = (struct place){rank, window->number, ns, window->work[exposed->range], NULL, range->info.activations};
    }
}

static void find_exposed(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding) {
    struct place worst = {0};
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count)
        for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));)
            look_for_exposed(analysis, rank, window, finding->collective, &worst);
    if (!worst.rank) return;
    (void)set_worst(analysis, &worst, finding, AORTA_FACT_EXPOSED_WORST);
    AORTA_EACH (const struct aorta_trace_collective_row, row, worst.rank->collectives, worst.rank->collective_count) {
        if (row->kind == finding->collective && row->busbw_gbps > 0) {
            aorta_facts_set(&finding->facts, AORTA_FACT_BUS_BANDWIDTH, aorta_trace_row_busbw(row));
            break;
        }
    }
    if (finding->cause == AORTA_CAUSE_EXPOSED_COLLECTIVE && finding->collective <= AORTA_REDUCE_SCATTER) {
        const int times = aorta_verdict_reduced_again(analysis, worst.rank, finding->collective, finding->facts.arena);
        if (times > 1) aorta_facts_set(&finding->facts, AORTA_FACT_REDUCED_AGAIN, times);
    }
    if (worst.activations) aorta_facts_flag(&finding->facts, AORTA_FACT_ACTIVATIONS);
    if (worst.rank->queue_count == 1 && worst.rank->stream_count > 1) /* the streams cannot overlap */
        aorta_facts_set(&finding->facts, AORTA_FACT_ONE_QUEUE, (double)worst.rank->stream_count);
}

static void find_straggler(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding) {
    const struct aorta_align_shared *worst = NULL;
    AORTA_EACH (const struct aorta_align_shared, shared, analysis->alignment.shared, analysis->alignment.shared_count) {
        if (!shared->chosen || !shared->complete || !aorta_trace_step_counts(analysis, shared->step)) continue;
        if (!worst || shared->skew_ns > worst->skew_ns) worst = shared;
    }
    if (!worst) return;
    (void)set_at(analysis, &analysis->ranks[worst->last_rank], worst->step, finding, AORTA_FACT_SKEW, worst->skew_ns,
                 aorta_collective_words(worst->kind, analysis->sends));
}

/* The time of all kernels or copies of one name in the steps that count. */
struct total {
    const struct aorta_trace_rank *rank;
    uint32_t name;
    size_t count;
    int64_t ns;
};

enum { LARGEST = 3 };

/* by_name[]: one row per text of the trace, zeroed. */
static void add_totals(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank, bool copies,
                       struct total *by_name) {
    for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));) {
        for (size_t j = 0; j < window->profile.range_count; j++) {
            const struct aorta_trace_work *work = &rank->work[window->work[j]];
            const bool kernel = work->kind == AORTA_TRACE_KERNEL;
            if (copies ? kernel : !kernel || work->class != AORTA_KERNEL_COMPUTE) continue;
            const struct aorta_range *range = &window->profile.ranges[j];
            struct total *total = &by_name[work->name];
            *total = (struct total){rank, work->name, total->count + (work->start_ns >= window->start_ns),
                                    total->ns + range->end_ns - range->start_ns};
        }
    }
}

/* Replaces the largest kernels by those of this rank if its largest kernel is larger. */
static void keep_largest(const struct total *by_name, size_t count, struct total largest[LARGEST]) {
    struct total own[LARGEST] = {{0}};
    for (size_t i = 0; i < count; i++) {
        int place = LARGEST;
        while (place > 0 && by_name[i].ns > own[place - 1].ns) place--;
        if (place == LARGEST) continue;
        memmove(&own[place + 1], &own[place], (size_t)(LARGEST - 1 - place) * sizeof *own);
        own[place] = by_name[i];
    }
    if (own[0].ns > largest[0].ns) memcpy(largest, own, sizeof own);
}

/* Names the kernels or copies with most time, of the rank where the first of them is largest. */
static void find_largest(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding) {
    static const enum aorta_fact_key keys[LARGEST] = {AORTA_FACT_KERNEL, AORTA_FACT_KERNEL_2, AORTA_FACT_KERNEL_3};
    static const double MUCH_BACK = 0.5; /* for example offloaded activations */
    static const double MUCH_GRAPH = 0.3;
    struct total largest[LARGEST] = {{0}};
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        const size_t count = aorta_trace_text_count(rank->trace);
        struct total *by_name = calloc(count + 1, sizeof *by_name);
        finding->facts.arena->failed |= !by_name;
        if (!by_name) return;
        add_totals(analysis, rank, finding->cause == AORTA_CAUSE_COPY, by_name);
        keep_largest(by_name, count, largest);
        free(by_name);
    }
    for (int i = 0; i < LARGEST && largest[i].rank; i++) {
        const double steps = (double)largest[i].rank->steps;
        const char *name = aorta_trace_text(largest[i].rank->trace, largest[i].name);
        aorta_facts_set_named(&finding->facts, keys[i], (double)largest[i].ns / 1e6 / steps, name)->place.count =
            (double)largest[i].count / steps;
    }
    const struct aorta_fact *first = aorta_facts_find(&finding->facts, AORTA_FACT_KERNEL);
    if (!first || !first->place.name) return;
    if (strncmp(first->place.name, AORTA_WHOLE_GRAPH, strlen(AORTA_WHOLE_GRAPH)) == 0 &&
        first->value > MUCH_GRAPH * finding->cost_ms)
        aorta_facts_flag(&finding->facts, AORTA_FACT_WHOLE_GRAPHS);
    if (finding->cause != AORTA_CAUSE_COPY) return;
    const enum aorta_copied how = aorta_copied_how(first->place.name);
    if (how == AORTA_COPIED_BETWEEN) aorta_facts_flag(&finding->facts, AORTA_FACT_PEER_COPIES);
    if (strstr(first->place.name, "Pageable")) aorta_facts_flag(&finding->facts, AORTA_FACT_PAGEABLE);
    if (strncmp(first->place.name, "Memset", strlen("Memset")) == 0)
        aorta_facts_flag(&finding->facts, AORTA_FACT_FILLS);
    if (strstr(first->place.name, "Unified") || aorta_facts_has(&finding->facts, AORTA_FACT_PAGE_READS))
        aorta_facts_flag(&finding->facts, AORTA_FACT_MIGRATIONS);
    if (aorta_facts_has(&finding->facts, AORTA_FACT_OVERLAP_LIMIT) && how <= AORTA_COPIED_TO_HOST &&
        !strstr(first->place.name, "Unified") && aorta_verdict_copies_once(analysis))
        aorta_facts_flag(&finding->facts, AORTA_FACT_COPIES_ONCE);
    if (how == AORTA_COPIED_WITHIN) aorta_facts_flag(&finding->facts, AORTA_FACT_COPIES_WITHIN);
    if (how == AORTA_COPIED_TO_HOST && largest[1].ns < MUCH_BACK * largest[0].ns)
        aorta_facts_flag(&finding->facts, AORTA_FACT_COPIES_OUT);
}

static void find_slowest_gemm(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding) {
    const struct aorta_trace_rank *where = NULL;
    const struct aorta_trace_gemm_row *worst = NULL;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        AORTA_EACH (const struct aorta_trace_gemm_row, row, analysis->ranks[i].gemms, analysis->ranks[i].gemm_count) {
            if (!(row->slowdown > (worst ? worst->slowdown : 1))) continue;
            worst = row;
            where = &analysis->ranks[i];
        }
    }
    if (!worst) return;
    aorta_facts_set_named(&finding->facts, AORTA_FACT_GEMM_SLOWER, worst->slowdown - 1,
                          aorta_trace_text(where->trace, worst->name));
}

/* The host captures many of its launches in graphs, and hardly replays any. */
static bool captures(const struct aorta_trace *trace) {
    enum { FEW = 3, PART = 8 };
    size_t runs = 0;
    for (size_t i = 0; i < trace->call_count; i++) runs += trace->calls[i].kind == AORTA_CALL_GRAPH_LAUNCH;
    return trace->captured_count && runs < FEW && PART * trace->captured_count >= trace->coverage.launches;
}

/* Launches per step of the rank with most launches, and the mean work of its launches without collectives. The period
 * is the mean step of all ranks divided by these launches. A graph is one launch. */
static void count_launches(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding) {
    double most = 0, work_us = 0, all_us = 0, steps = 0, ns_of[2] = {0}; /* ns_of: work outside and inside of graphs */
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        double launches = 0, pieces = 0, work_ns = 0;
        uint32_t before = AORTA_TRACE_NONE;
        for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));) {
            all_us += (double)(window->profile.overlap.lead_ns + window->profile.overlap.span_ns) / 1e3;
            for (size_t k = 0; k < window->profile.range_count; k++) {
                const struct aorta_trace_work *work = &rank->work[window->work[k]];
                ns_of[work->graph] += (double)(work->end_ns - work->start_ns);
                if (work->call == AORTA_TRACE_NONE || work->start_ns < window->start_ns) continue;
                const bool another = work->call != before, collective = aorta_trace_is_collective(work);
                before = work->call;
                launches += another;
                if (collective) continue; /* it waits for other ranks */
                pieces += another;
                work_ns += (double)(work->end_ns - work->start_ns);
            }
        }
        steps += (double)rank->steps;
        if (launches / (double)rank->steps <= most) continue;
        most = launches / (double)rank->steps;
        work_us = pieces > 0 ? work_ns / pieces / 1e3 : 0;
    }
    if (ns_of[true] > ns_of[false]) aorta_facts_flag(&finding->facts, AORTA_FACT_REPLAYS);
    if (most < 2) return;
    aorta_facts_set(&finding->facts, AORTA_FACT_LAUNCHES, most);
    aorta_facts_set(&finding->facts, AORTA_FACT_LAUNCH_PERIOD, all_us / steps / most);
    aorta_facts_set(&finding->facts, AORTA_FACT_LAUNCH_WORK, work_us);
}

/* Each step of a rank copies values to the host. XLA waits for them, but no call shows the wait. */
static bool waits_for_values(const struct aorta_trace_analysis *analysis) {
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        size_t values = 0;
        if (aorta_trace_framework(rank->trace) != AORTA_FRAMEWORK_XLA) continue;
        for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));)
            for (size_t k = 0; k < window->profile.range_count; k++)
                values += aorta_trace_is_value(rank->trace, &rank->work[window->work[k]]);
        if (rank->steps && values >= rank->steps) return true;
    }
    return false;
}

bool aorta_verdict_captures(const struct aorta_trace_analysis *analysis) {
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (!captures(analysis->ranks[i].trace)) return false;
    return analysis->rank_count > 0;
}

static void find_launches(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding) {
    count_launches(analysis, finding);
    if (aorta_verdict_captures(analysis)) aorta_facts_flag(&finding->facts, AORTA_FACT_CAPTURES);
    if (waits_for_values(analysis)) aorta_facts_flag(&finding->facts, AORTA_FACT_STEP_VALUES);
    find_gap(analysis, finding);
}

void aorta_verdict_find_worst(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    AORTA_EACH (struct aorta_finding, finding, verdict->findings, verdict->finding_count) {
        if (aorta_cause_row(finding->cause)->find) aorta_cause_row(finding->cause)->find(analysis, finding);
        if (verdict->sends) aorta_facts_flag(&finding->facts, AORTA_FACT_SENDS);
    }
}

/* ---- the table of causes ---- */

#define AORTA_REMEDY_GAIN_TEXT                                                                                         \
    "Replay with kernels that take as long as the rule says (docs/remedies.md). The range says how sure the rule is."
#define AORTA_REMEDY_MEASURED                                                                                          \
    {                                                                                                                  \
        "{operations*operations take|operation takes} {touched#} of {kernels}[{kernels.text}]{kernels.where}"          \
        "[; {kernel_gain#} ms of kernels and {launch_gain} of launches can go]"                                        \
        "[; {gain_unknown}][; {waits_for_host}][{waits_for_host.text}]"                                                \
        "[; {parameter_groups*groups|group} of parameters][; {with_attention}][; {fallback}][; {reorders}]"            \
        "[; {widens}][; needs {memory} of memory]"                                                                     \
    }
#define AORTA_REMEDY_WORST                                                                                             \
    { "{operation.name}[ {operation.shape}][, {operation.count}], {operation}" }

static const struct aorta_cause_row rows[AORTA_CAUSE_COUNT] = {
#define CAUSE(name_, key_, removal_, description_, late_, free_, off_, on_, ...)                                       \
    [AORTA_CAUSE_##name_] = {.key = key_, __VA_ARGS__},
#include "replay/causes.def"
#undef CAUSE
};

const struct aorta_cause_row *aorta_cause_row(enum aorta_cause cause) {
    return &rows[cause];
}

enum aorta_cause aorta_cause_named(const char *key) {
    int cause = 0;
    while (cause < AORTA_CAUSE_COUNT && strcmp(rows[cause].key, key) != 0) cause++;
    return (enum aorta_cause)cause;
}

const char *aorta_cause_name(int cause) {
    return (unsigned)cause < AORTA_CAUSE_COUNT ? rows[cause].key : "unknown";
}

bool aorta_cause_has_kind(enum aorta_cause cause) {
    return rows[cause].by_kind;
}
