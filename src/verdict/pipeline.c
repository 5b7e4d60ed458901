/* Pipelines: stages wait for each other's sends while the first micro-batches arrive and the last ones leave.
 *
 *   stage 0   | F0 | F1 | F2 |         | B0 | B1 | B2 |      F: forward of a micro-batch, B: backward
 *   stage 1        | F0 | F1 | F2 | B0 | B1 | B2 |
 *
 * Each of p equal stages waits for (p - 1) / (m + p - 1) of a step with m micro-batches. k times as many micro-batches
 * reduce the wait to about one k-th. (Huang et al., GPipe, 2019.) The stage with the longest compute waits for nothing
 * else. Longer waits of the other stages come from unequal stages and count as straggler.
 *
 * In a zero-bubble schedule the backward of the weights (W) is computed separately and fills waits. Warm-up and drain
 * then leave a bubble of (p - 1) (F + B - W). More micro-batches reduce it in the same way. (Qi et al., Zero Bubble
 * Pipeline Parallelism, 2024.)
 *
 * In an interleaved schedule each rank has v parts of the model. The last rank sends to the first rank, too: v - 1
 * times per micro-batch, while neighbours exchange v times. (Narayanan et al., Megatron-LM, 2021.)
 *
 * The host launches the same number of kernels for a small micro-batch as for a large one. k times as many
 * micro-batches need k times the host's time. */
#include "base/sort.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <string.h>

/* One iteration of a rank: its compute before the first exchange, and its exchanges. */
struct begin {
    int64_t compute_ns;
    size_t exchanges;
};

/* The send or receive with its peer; NULL: the work is none, or its peer is unknown. */
static const struct aorta_trace_collective *exchange_of(const struct aorta_trace_rank *rank,
                                                        const struct aorta_trace_work *work) {
    if (work->collective == AORTA_TRACE_NONE) return NULL;
    const struct aorta_trace_collective *facts = &rank->trace->collectives[work->collective];
    return facts->peer >= 0 ? facts : NULL;
}

/* ---- zero-bubble schedules ---- */

struct launched {
    int64_t at_ns, compute_ns;
    bool sends, receives;
};

/* Kernels and exchanges in the order of their launches. */
static struct launched *order_launches(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    struct launched *rows = aorta_arena_raw(memory, (rank->work_count + 1) * sizeof *rows);
    for (size_t i = 0; rows && i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        const struct aorta_trace_collective *exchange = exchange_of(rank, work);
        const bool receives = exchange && strstr(aorta_trace_text(rank->trace, exchange->name), "recv");
        rows[i] = (struct launched){.at_ns = work->call == AORTA_TRACE_NONE ? work->start_ns
                                                                            : rank->trace->calls[work->call].start_ns,
                                    .compute_ns = aorta_trace_is_collective(work) ? 0 : work->end_ns - work->start_ns,
                                    .sends = exchange && !receives,
                                    .receives = receives};
    }
    if (rows) aorta_sort_rows(rows, rank->work_count, sizeof *rows, aorta_by_int64);
    return rows;
}

/* Weight gradients are pieces of compute between a send and a receive, in addition to the pieces that need received
 * data. Small pieces do not count. One such piece per step is the optimizer. *first: the stage sends before it
 * receives; its exchanges do not show weight gradients. */
static bool has_weight_gradients(const struct launched *rows, size_t count, size_t steps, bool *first) {
    enum { SMALL = 10, PART = 4 };
    int64_t least_ns = 0, piece_ns = 0;
    size_t exchanges = 0, receives = 0, pieces = 0, alone = 0;
    bool sent = false;
    for (size_t i = 0; i < count; i++) {
        least_ns += rows[i].compute_ns;
        receives += rows[i].receives;
        if ((rows[i].receives || rows[i].sends) && !exchanges++) *first = rows[i].sends;
    }
    least_ns /= SMALL * (int64_t)(receives + 1);
    for (size_t i = 0; i < count; i++) {
        piece_ns += rows[i].compute_ns;
        if (!rows[i].sends && !rows[i].receives) continue;
        pieces += piece_ns > least_ns;
        alone += piece_ns > least_ns && sent && rows[i].receives;
        sent = rows[i].sends;
        piece_ns = 0;
    }
    return alone > steps && PART * alone >= receives && PART * pieces >= (PART + 1) * receives;
}

bool aorta_verdict_splits_backward(const struct aorta_trace_analysis *analysis) {
    bool every = analysis->sends, any = false;
    for (size_t i = 0; every && i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        struct aorta_arena memory = {0};
        bool first = false;
        const struct launched *rows = order_launches(rank, &memory);
        const bool seen = rows && has_weight_gradients(rows, rank->work_count, rank->steps, &first);
        every = first || seen;
        any |= !first && seen;
        aorta_arena_free(&memory);
    }
    return every && any;
}

/* ---- interleaved schedules ---- */

/* Ratio of a rank's exchanges with its two neighbours, the smaller number first. Last and first rank are neighbours. 0:
 * the rank has more or fewer peers. */
static double least_share(const struct aorta_trace_rank *rank) {
    int32_t peers[2] = {-1, -1};
    double counts[2] = {0};
    for (size_t i = 0; i < rank->work_count; i++) {
        const struct aorta_trace_collective *exchange = exchange_of(rank, &rank->work[i]);
        if (!exchange) continue;
        const int32_t peer = exchange->peer;
        const int at = peers[0] == peer || peers[0] < 0 ? 0 : 1;
        if (peers[at] >= 0 && peers[at] != peer) return 0;
        peers[at] = peer;
        counts[at]++;
    }
    return counts[1] > 0 ? fmin(counts[0], counts[1]) / fmax(counts[0], counts[1]) : 0;
}

double aorta_verdict_model_parts(const struct aorta_trace_analysis *analysis) {
    static const double MOST = 0.95; /* equal numbers of exchanges are a ring, not a pipeline */
    double share = 1;
    if (analysis->rank_count < 3) return 1;
    for (size_t i = 0; i < analysis->rank_count; i++) share = fmin(share, least_share(&analysis->ranks[i]));
    return share > 0 && share < MOST ? round(1 / (1 - share)) : 1;
}

/* ---- the bubble ---- */

static bool is_exchange(const struct aorta_range *range) {
    return range->info.kind == AORTA_RANGE_COLLECTIVE && range->info.collective == AORTA_ALL_TO_ALL;
}

static struct begin begin_of(const struct aorta_profile *profile) {
    struct begin begin = {0};
    int64_t first_ns = INT64_MAX;
    for (size_t i = 0; i < profile->range_count; i++) {
        if (!is_exchange(&profile->ranges[i])) continue;
        begin.exchanges++;
        if (profile->ranges[i].start_ns < first_ns) first_ns = profile->ranges[i].start_ns;
    }
    AORTA_EACH (const struct aorta_range, range, profile->ranges, profile->range_count)
        if (range->info.kind == AORTA_RANGE_COMPUTE && range->start_ns < first_ns)
            begin.compute_ns += range->end_ns - range->start_ns;
    return begin;
}

/* The first stage computes before it sends, the last stage receives before it computes. Sets the micro-batches of the
 * first stage. */
static bool is_pipeline(const struct aorta_rank_step *items, size_t count, double each, double *micro_batches) {
    static const double LESS = 0.7;
    double most_ns = 0, least_ns = INFINITY;
    for (size_t i = 0, same; i < count; i += same) {
        double compute_ns = 0, exchanges = 0;
        for (same = 0; i + same < count && items[i + same].iteration.rank == items[i].iteration.rank; same++) {
            const struct begin begin = begin_of(items[i + same].iteration.profile);
            compute_ns += (double)begin.compute_ns;
            exchanges += (double)begin.exchanges;
        }
        if (compute_ns > most_ns) *micro_batches = round(exchanges / (double)same / each);
        most_ns = fmax(most_ns, compute_ns);
        least_ns = fmin(least_ns, compute_ns);
    }
    return least_ns < LESS * most_ns && *micro_batches >= 1;
}

/* The shortest exchange is the time of the transfer. Longer exchanges contain waiting. */
static int64_t shortest_exchange(const struct aorta_rank_step *items, size_t count) {
    int64_t shortest_ns = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct aorta_profile *profile = items[i].iteration.profile;
        AORTA_EACH (const struct aorta_range, range, profile->ranges, profile->range_count)
            if (is_exchange(range) && range->sequence >= 0 && range->end_ns - range->start_ns < shortest_ns)
                shortest_ns = range->end_ns - range->start_ns;
    }
    return shortest_ns == INT64_MAX ? 0 : shortest_ns;
}

/* Waiting in exchanges per iteration, without the transfers. */
static int64_t waited_ns(const struct aorta_rank_costs *rank, int64_t transfers_ns) {
    const int64_t exposed_ns = rank->collective_ns[AORTA_CAUSE_STRAGGLER][AORTA_ALL_TO_ALL] +
                               rank->collective_ns[AORTA_CAUSE_EXPOSED_COLLECTIVE][AORTA_ALL_TO_ALL];
    const int64_t ns = exposed_ns / (int64_t)rank->iterations - transfers_ns;
    return ns > 0 ? ns : 0;
}

/* Moves up to `ns` from a cause to the bubble. Returns the remaining ns. */
static int64_t take(struct aorta_rank_costs *rank, enum aorta_cause cause, int64_t ns) {
    int64_t *of_exchanges = &rank->collective_ns[cause][AORTA_ALL_TO_ALL];
    const int64_t taken_ns = ns < *of_exchanges ? ns : *of_exchanges;
    *of_exchanges -= taken_ns;
    rank->cause_ns[cause] -= taken_ns;
    rank->cause_ns[AORTA_CAUSE_PIPELINE_BUBBLE] += taken_ns;
    rank->collective_ns[AORTA_CAUSE_PIPELINE_BUBBLE][AORTA_ALL_TO_ALL] += taken_ns;
    return ns - taken_ns;
}

double aorta_verdict_find_bubble(const struct aorta_rank_step *items, size_t count, struct aorta_verdict *verdict) {
    static const double EACH = 0.1; /* of the longest wait: in a bubble every stage waits */
    int64_t least_ns = INT64_MAX, most_ns = 0;
    const double each = 4 * fmax(verdict->model_parts, 1) - 2; /* exchanges of the first rank per micro-batch */
    double micro_batches = 0;
    if (!verdict->sends || verdict->rank_count < 2 || !is_pipeline(items, count, each, &micro_batches)) return 0;
    const int64_t transfers_ns = (int64_t)(each * micro_batches) * shortest_exchange(items, count);
    for (size_t i = 0; i < verdict->rank_count; i++) {
        const int64_t ns = waited_ns(&verdict->ranks[i], transfers_ns);
        if (ns < least_ns) least_ns = ns;
        if (ns > most_ns) most_ns = ns;
    }
    if ((double)least_ns < EACH * (double)most_ns) return 0;
    AORTA_EACH (struct aorta_rank_costs, rank, verdict->ranks, verdict->rank_count) {
        const int64_t left_ns = take(rank, AORTA_CAUSE_STRAGGLER, least_ns * (int64_t)rank->iterations);
        (void)take(rank, AORTA_CAUSE_EXPOSED_COLLECTIVE, left_ns);
    }
    return micro_batches;
}

void aorta_fill_bubble(struct aorta_fill *fill) {
    struct aorta_facts *facts = &fill->finding->facts;
    const double bubble_ms = fill->finding->cost_ms;
    aorta_facts_set(facts, AORTA_FACT_STAGE_COUNT, (double)fill->verdict->rank_count);
    aorta_facts_set(facts, AORTA_FACT_MICRO_BATCHES, fill->sums->micro_batches);
    if (fill->verdict->model_parts > 1) aorta_facts_set(facts, AORTA_FACT_MODEL_PARTS, fill->verdict->model_parts);
    if (fill->verdict->splits_backward) aorta_facts_set(facts, AORTA_FACT_SPLIT_BACKWARD, 1);
    aorta_facts_set(facts, AORTA_FACT_GAIN_OF_TWICE, bubble_ms * (1 - 1.0 / 2));
    aorta_facts_set(facts, AORTA_FACT_GAIN_OF_FOUR_TIMES, bubble_ms * (1 - 1.0 / 4));
    fill->finding->rank = -1;
}

static void end_at_once(const struct aorta_launched_work *launched) {
    for (size_t i = 0; i < launched->count; i++) *aorta_launched_scale(launched, i) = (struct aorta_work_scale){0};
}

void aorta_bubble_limit(const struct gains *gains, struct aorta_facts *facts) {
    static const enum aorta_fact_key keys[] = {AORTA_FACT_GAIN_OF_TWICE, AORTA_FACT_GAIN_OF_FOUR_TIMES};
    const double step_ms = gains->found.replayed_ns / 1e6;
    const double host_ms = step_ms - aorta_gain_without_work(gains, 0, end_at_once, NULL);
    for (int i = 0; i < 2; i++) {
        const struct aorta_fact *gain = aorta_facts_find(facts, keys[i]);
        const double most_ms = fmax(step_ms - (i ? 4 : 2) * host_ms, 0);
        if (!gain || gain->value <= most_ms) continue;
        aorta_facts_set(facts, keys[i], most_ms);
        aorta_facts_set(facts, AORTA_FACT_HOST_STEP, host_ms);
        if (!i) aorta_facts_flag(facts, AORTA_FACT_HOST_LIMITS);
    }
}
