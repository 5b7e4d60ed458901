/* The findings: what each cause costs, and the facts that the sums over all steps show. */
#include "verdict/advice.h"
#include "verdict/causes.h"
#include "verdict/verdict_internal.h"

#include "base/interval.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *aorta_verdict_kind_name(const struct aorta_verdict *verdict, enum aorta_collective kind) {
    return aorta_collective_words(kind, verdict->sends);
}

static double per_step_ms(const struct aorta_fill *fill, int64_t ns) {
    return (double)ns / 1e6 / (double)fill->sums->rank_iterations;
}

static struct aorta_fact *set(struct aorta_fill *fill, enum aorta_fact_key key, double value) {
    return aorta_facts_set(&fill->finding->facts, key, value);
}

static void flag(struct aorta_fill *fill, enum aorta_fact_key key) {
    aorta_facts_flag(&fill->finding->facts, key);
}

/* The row with most time, or -1. */
static int largest_row(const struct aorta_tally *tally) {
    int best = -1;
    for (size_t i = 0; i < tally->count; i++)
        if (best < 0 || tally->rows[i].ns > tally->rows[best].ns) best = (int)i;
    return best;
}

static void set_largest(struct aorta_fill *fill, enum aorta_fact_key key, const struct aorta_tally *tally) {
    const int row = largest_row(tally);
    if (row < 0) return;
    struct aorta_fact *fact = set(fill, key, per_step_ms(fill, tally->rows[row].ns));
    fact->place.name = aorta_facts_text(&fill->finding->facts, tally->rows[row].name);
}

/* A recording has its longest gap instead (worst.c). */
static void set_where_idle(struct aorta_fill *fill, const struct aorta_tally *before) {
    if (!fill->verdict->recorded) set_largest(fill, AORTA_FACT_GAP, before);
}

void aorta_fill_host_launch(struct aorta_fill *fill) {
    static const double LITTLE = 0.01; /* of what is known */
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

/* Launched in time and not started: in a graph that is the device's own time between two operations. */
void aorta_fill_launch_latency(struct aorta_fill *fill) {
    const double ms = fill->finding->cost_ms;
    set(fill, AORTA_FACT_IDLE_STARTED, ms);
    if (2 * per_step_ms(fill, fill->sums->graph_latency_ns) > ms) flag(fill, AORTA_FACT_GRAPH_GAPS);
    if (fill->sums->latency_recurs) flag(fill, AORTA_FACT_RECURS);
    set_where_idle(fill, &fill->sums->latency_before);
}

void aorta_fill_host_sync(struct aorta_fill *fill) {
    set(fill, AORTA_FACT_IDLE_SYNCED, fill->finding->cost_ms);
}

void aorta_fill_data_wait(struct aorta_fill *fill) {
    set(fill, AORTA_FACT_IDLE_DATA, fill->finding->cost_ms);
}

void aorta_fill_copy(struct aorta_fill *fill) {
    static const double DWARFED = 2; /* times the kernels */
    set(fill, AORTA_FACT_COPY_ALONE, fill->finding->cost_ms);
    if (fill->finding->cost_ms > DWARFED * fill->verdict->compute_ms)
        set(fill, AORTA_FACT_OVERLAP_LIMIT, fill->verdict->compute_ms);
}

void aorta_fill_straggler(struct aorta_fill *fill) {
    const struct aorta_evidence_sums *sums = fill->sums;
    const struct aorta_verdict *verdict = fill->verdict;
    size_t worst = 0;
    int64_t all = 0, worst_ns = 0;
    for (size_t i = 0; i < verdict->rank_count; i++) {
        const int64_t caused = sums->late_device_ns[i] + sums->late_host_ns[i];
        all += caused;
        if (caused > worst_ns) {
            worst = i;
            worst_ns = caused;
        }
    }
    const bool device = sums->late_device_ns[worst] >= sums->late_host_ns[worst];
    fill->finding->rank = verdict->ranks[worst].rank;
    set(fill, AORTA_FACT_WAITED, fill->finding->cost_ms);
    set(fill, AORTA_FACT_LATE_SHARE, (double)worst_ns / (double)all);
    flag(fill, device ? AORTA_FACT_LATE_DEVICE : AORTA_FACT_LATE_HOST);
    if (!verdict->common_clock) flag(fill, AORTA_FACT_ALIGNED);
    if (verdict->rank_count > 1 && worst_ns * 3 < all * 2) flag(fill, AORTA_FACT_LATE_CHANGES);
}

void aorta_fill_slow_collective(struct aorta_fill *fill) {
    const int kind = fill->finding->collective;
    const double bytes = (double)fill->sums->slow_bytes[kind]; /* per ns: GB/s */
    set(fill, AORTA_FACT_BANDWIDTH, bytes / (double)fill->sums->slow_time_ns[kind]);
    set(fill, AORTA_FACT_BEST_BANDWIDTH, bytes / (double)fill->sums->slow_best_ns[kind]);
}

void aorta_fill_serialized(struct aorta_fill *fill) {
    set(fill, AORTA_FACT_SERIALIZED, fill->finding->cost_ms);
    flag(fill, AORTA_FACT_OWN_STREAM);
}

void aorta_fill_exposed(struct aorta_fill *fill) {
    const struct aorta_tally *where = &fill->sums->exposed_where[fill->finding->collective];
    set(fill, AORTA_FACT_EXPOSED, fill->finding->cost_ms);
    if (where->count > 1) set_largest(fill, AORTA_FACT_EXPOSED_UNIT, where);
}

void aorta_fill_contention(struct aorta_fill *fill) {
    const struct aorta_slowdown *slowdown = &fill->verdict->slowdown;
    set(fill, AORTA_FACT_LOST, fill->finding->cost_ms);
    set(fill, AORTA_FACT_SLOWER, slowdown->ratio - 1);
    if (slowdown->by_grid) flag(fill, AORTA_FACT_BY_GRID);
    set(fill, AORTA_FACT_SAMPLES_BESIDE, (double)slowdown->samples_beside);
    set(fill, AORTA_FACT_SAMPLES_ALONE, (double)slowdown->samples_alone);
}

void aorta_fill_compute(struct aorta_fill *fill) {
    set(fill, AORTA_FACT_COMPUTE, fill->finding->cost_ms);
    flag(fill, AORTA_FACT_LAUNCHES_COST); /* a replay may say otherwise (gains.c) */
    if (fill->verdict->coarse)
        flag(fill, AORTA_FACT_COARSE);
    else if (fill->verdict->gaps)
        flag(fill, AORTA_FACT_GAPS);
}

/* ---- findings ---- */

struct aorta_facts aorta_verdict_facts(const struct aorta_verdict *verdict) {
    return (struct aorta_facts){.arena = verdict->arena};
}

static double rank_cost_ms(const struct aorta_rank_costs *costs, enum aorta_cause cause, int kind) {
    int64_t ns = aorta_cause_has_kind(cause) ? costs->collective_ns[cause][kind] : costs->cause_ns[cause];
    return (double)ns / 1e6 / (double)costs->iterations;
}

/* The rank that pays most is named when it pays a quarter more than the mean. */
static struct aorta_finding weigh(const struct aorta_verdict *verdict, enum aorta_cause cause, int kind) {
    struct aorta_finding finding = {
        .cause = cause, .collective = (enum aorta_collective)kind, .rank = -1, .facts = aorta_verdict_facts(verdict)};
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

static int finding_order(const void *left, const void *right) {
    const struct aorta_finding *a = left, *b = right;
    return (a->cost_ms < b->cost_ms) - (a->cost_ms > b->cost_ms);
}

void aorta_verdict_make_findings(struct aorta_verdict *verdict, const struct aorta_evidence_sums *sums) {
    verdict->findings = aorta_arena_alloc(verdict->arena, (size_t)AORTA_CAUSE_COUNT * AORTA_COLLECTIVE_COUNT *
                                                              sizeof *verdict->findings);
    if (!verdict->findings) return;
    for (int cause = 0; cause < AORTA_CAUSE_COUNT; cause++) {
        int kinds = aorta_cause_has_kind((enum aorta_cause)cause) ? AORTA_COLLECTIVE_COUNT : 1;
        for (int kind = 0; kind < kinds; kind++) {
            struct aorta_finding *finding = &verdict->findings[verdict->finding_count];
            *finding = weigh(verdict, (enum aorta_cause)cause, kind);
            if (finding->cost_ms <= 0) continue;
            verdict->finding_count++;
            if (aorta_cause_row(finding->cause)->fill)
                aorta_cause_row(finding->cause)->fill(&(struct aorta_fill){verdict, sums, finding});
        }
    }
    qsort(verdict->findings, verdict->finding_count, sizeof *verdict->findings, finding_order);
}

/* ---- collectives on the host ----
 * How long collectives ran on the host, in a recording without a device. */

/* `ran`: gloo's ranges; `compute`: operations of the program that are neither ranges nor collectives. */
static void collect(const struct aorta_trace *trace, struct aorta_intervals *ran, struct aorta_intervals *compute,
                    const char **name) {
    for (size_t i = 0; i < trace->annotation_count; i++) {
        const struct aorta_trace_annotation *range = &trace->annotations[i];
        if (!aorta_trace_is_gloo_range(aorta_trace_text(trace, range->name))) continue;
        *name = aorta_trace_text(trace, range->name);
        aorta_intervals_add(ran, range->start_ns, range->end_ns);
    }
    for (size_t i = 0; i < trace->operation_count; i++) {
        const struct aorta_trace_operation *operation = &trace->operations[i];
        if (operation->range || strncmp(aorta_trace_text(trace, operation->name), "c10d::", 6) == 0) continue;
        aorta_intervals_add(compute, operation->start_ns, operation->end_ns);
    }
}

void aorta_verdict_host_collectives(const struct aorta_trace *trace, struct aorta_verdict *verdict) {
    struct aorta_intervals ran = {0}, compute = {0}, alone = {0};
    const char *name = NULL;
    collect(trace, &ran, &compute, &name);
    aorta_intervals_normalise(&ran);
    aorta_intervals_normalise(&compute);
    aorta_intervals_subtract(&ran, &compute, &alone);
    verdict->arena->failed |= alone.failed;
    double ran_ns = 0, alone_ns = 0, all_ns = 0;
    for (size_t i = 0; i < trace->step_count; i++) {
        ran_ns += (double)aorta_intervals_within(&ran, trace->steps[i].start_ns, trace->steps[i].end_ns);
        alone_ns += (double)aorta_intervals_within(&alone, trace->steps[i].start_ns, trace->steps[i].end_ns);
        all_ns += (double)(trace->steps[i].end_ns - trace->steps[i].start_ns);
    }
    if (!trace->step_count) {
        ran_ns = (double)aorta_intervals_length(&ran);
        alone_ns = (double)aorta_intervals_length(&alone);
    }
    if (all_ns > 0) verdict->host_alone = alone_ns / all_ns;
    const double steps = trace->step_count ? (double)trace->step_count : 1;
    verdict->host_collectives.name = name ? aorta_arena_strdup(verdict->arena, name) : NULL;
    verdict->host_collectives.ran_ms = ran_ns / 1e6 / steps;
    verdict->host_collectives.alone_ms = alone_ns / 1e6 / steps;
    aorta_intervals_free(&ran);
    aorta_intervals_free(&compute);
    aorta_intervals_free(&alone);
}
