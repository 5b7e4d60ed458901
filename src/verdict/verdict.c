/* Splits every measured iteration into causes. Each nanosecond has exactly one cause:
 *
 *   lead and idle time       by the activity of the host
 *   exposed copies
 *   exposed communication    wait for the last rank, serialized streams, slow transfer, remaining time
 *   compute                  contention, remaining time */
#include "analysis/phases.h"
#include "base/parallel.h"
#include "base/sort.h"
#include "base/statistics.h"
#include "verdict/advice.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add_to_tally(struct aorta_tally *tally, const char *name, int layer, int64_t ns) {
    if (ns <= 0) return;
    size_t at = 0;
    while (at < tally->count && (tally->rows[at].layer != layer || strcmp(tally->rows[at].name, name) != 0)) at++;
    if (at == AORTA_TALLY_ROWS) return; /* only the largest row is shown, which is among the first 64 in practice */
    if (at == tally->count) {
        tally->rows[at].name = name;
        tally->rows[at].layer = layer;
        tally->count++;
    }
    tally->rows[at].ns += ns;
}

/* The inputs of the verdict. */
struct work {
    struct aorta_arena memory;
    struct aorta_rank_step *items; /* measured iterations, by rank and step */
    size_t count;
    struct aorta_transfers transfers;
    struct aorta_shapes shapes;
    struct aorta_evidence_sums sums;
};

/* ---- which iterations count ---- */

static AORTA_ORDER(iteration_order, struct aorta_rank_step, AORTA_UP(iteration.rank) AORTA_UP(iteration.step));

/* Collects the windows that count as iterations, and the ranks that have any. */
static aorta_status collect_items(const struct aorta_trace_analysis *analysis, struct work *work,
                                  struct aorta_verdict *verdict) {
    size_t limit = 1;
    for (size_t i = 0; i < analysis->rank_count; i++) limit += analysis->ranks[i].window_count;
    work->items = aorta_arena_alloc(&work->memory, limit * sizeof *work->items);
    verdict->ranks = aorta_arena_alloc(verdict->arena, (analysis->rank_count + 1) * sizeof *verdict->ranks);
    work->memory.failed |= verdict->arena->failed;
    AORTA_TRY(aorta_arena_check(&work->memory, "the iterations"));
    for (size_t i = 0; i < analysis->rank_count; i++)
        for (size_t j = 0; j < analysis->ranks[i].window_count; j++)
            if (aorta_trace_window_counts(analysis, &analysis->ranks[i].windows[j]))
                work->items[work->count++].iteration = aorta_iteration_of(analysis, i, j);
    if (!work->count) return AORTA_ERROR(AORTA_USAGE, "no iteration is left to analyze: none holds any work");
    qsort(work->items, work->count, sizeof *work->items, iteration_order);
    for (size_t i = 0; i < work->count; i++) {
        const int rank = work->items[i].iteration.rank;
        work->items[i] = aorta_rank_step_make(&work->items[i].iteration, &work->memory);
        if (!i || work->items[i - 1].iteration.rank != rank) verdict->ranks[verdict->rank_count++].rank = rank;
        verdict->ranks[verdict->rank_count - 1].iterations++;
    }
    verdict->iterations = verdict->ranks[0].iterations;
    for (size_t i = 1; i < verdict->rank_count; i++)
        if (verdict->ranks[i].iterations < verdict->iterations) verdict->iterations = verdict->ranks[i].iterations;
    return aorta_arena_check(&work->memory, "the ranks");
}

/* ---- one iteration ---- */

/* A recorded gather waited for compute on its own stream. On another stream it could overlap this compute. */
static bool follows_compute(const struct aorta_order *order, const struct aorta_range *range) {
    const struct aorta_range *first = aorta_order_next_compute(order, range->stream, INT64_MIN);
    return range->info.layer < 0 && first && first->start_ns < range->start_ns;
}

/* When launched compute began to wait for this collective in the same queue; INT64_MAX: never. Compute of the layer
 * that an all-gather fetches waits for the data, not for the queue. */
static int64_t serialized_from(const struct aorta_order *order, const struct aorta_range *range) {
    const struct aorta_range *next = aorta_order_next_compute(order, range->stream, range->end_ns);
    if (!next || next->enqueue_ns == INT64_MIN || range->info.activations) return INT64_MAX;
    if (range->info.collective == AORTA_ALL_GATHER && next->info.layer == range->info.layer &&
        !follows_compute(order, range))
        return INT64_MAX;
    return next->enqueue_ns;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

static void add_cost(struct aorta_rank_costs *costs, enum aorta_cause cause, enum aorta_collective kind, int64_t ns) {
    costs->cause_ns[cause] += ns;
    costs->collective_ns[cause][kind] += ns;
}

static size_t rank_index(const struct aorta_verdict *verdict, int rank) {
    size_t at = 0;
    while (at + 1 < verdict->rank_count && verdict->ranks[at].rank != rank) at++;
    return at;
}

static void split_exposed(const struct aorta_rank_step *item, const struct aorta_exposed *exposed, struct work *work,
                          const struct aorta_verdict *verdict, struct aorta_rank_costs *costs) {
    const struct aorta_profile *profile = item->iteration.profile;
    const struct aorta_range *range = &profile->ranges[exposed->range];
    const struct aorta_arrival *arrival = &item->arrivals[exposed->range];
    struct aorta_evidence_sums *sums = &work->sums;
    enum aorta_collective kind = range->info.collective;
    int64_t start = exposed->start_ns, end = exposed->end_ns;

    int64_t arrived = arrival->late_rank < 0 ? start : clamp(arrival->until_ns, start, end);
    add_cost(costs, AORTA_CAUSE_STRAGGLER, kind, arrived - start);
    if (arrived > start) {
        struct aorta_rank_costs *late = &verdict->ranks[rank_index(verdict, arrival->late_rank)];
        *(arrival->late_device ? &late->late_device_ns : &late->late_host_ns) += arrived - start;
    }
    int64_t queued = clamp(serialized_from(item->order, range), arrived, end);
    add_cost(costs, AORTA_CAUSE_SERIALIZED_STREAMS, kind, end - queued);
    int64_t best = aorta_transfers_best_if_slow(&work->transfers, range, arrival);
    int64_t slow = best ? clamp(arrival->until_ns + best, arrived, queued) : queued;
    add_cost(costs, AORTA_CAUSE_SLOW_COLLECTIVE, kind, queued - slow);
    if (queued > slow) {
        sums->slow_time_ns[kind] += range->end_ns - arrival->until_ns;
        sums->slow_best_ns[kind] += best;
        sums->slow_bytes[kind] += range->info.bytes;
    }
    add_cost(costs, AORTA_CAUSE_EXPOSED_COLLECTIVE, kind, slow - arrived);
    const char *unit = range->info.within ? range->info.within : range->info.tag;
    add_to_tally(&sums->exposed_where[kind], unit, range->info.layer, slow - arrived);
}

/* Time of [start_ns, end_ns) without the host's recorded waits, which are other causes. */
static int64_t late_within(const struct aorta_profile *profile, int64_t start_ns, int64_t end_ns) {
    int64_t late_ns = end_ns - start_ns;
    AORTA_EACH (const struct aorta_host_range, wait, profile->host, profile->host_count)
        late_ns -= clamp(wait->end_ns, start_ns, end_ns) - clamp(wait->start_ns, start_ns, end_ns);
    return late_ns;
}

static void tally_idle(const struct aorta_rank_step *item, struct aorta_evidence_sums *sums) {
    const struct aorta_profile *profile = item->iteration.profile;
    const struct aorta_overlap *overlap = &profile->overlap;
    for (size_t i = 0; i < profile->host_count; i++) sums->waits += profile->host[i].kind == AORTA_HOST_SYNC;
    AORTA_EACH (const struct aorta_segment, segment, overlap->segments, overlap->segment_count) {
        const struct aorta_range *next = segment->roles ? NULL : aorta_order_starting(item->order, segment->end_ns);
        if (!next) continue;
        const int64_t start_ns = segment->start_ns, end_ns = segment->end_ns;
        const int64_t launched_ns = next->enqueue_ns == INT64_MIN ? end_ns : clamp(next->enqueue_ns, start_ns, end_ns);
        add_to_tally(&sums->late_before, next->info.function, -1, late_within(profile, start_ns, launched_ns));
        add_to_tally(&sums->latency_before, next->info.function, -1, end_ns - launched_ns);
    }
}

const enum aorta_cause aorta_cause_of_idle[AORTA_IDLE_CAUSE_COUNT] = {
    [AORTA_IDLE_DATA_WAIT] = AORTA_CAUSE_DATA_WAIT,     [AORTA_IDLE_HOST_SYNC] = AORTA_CAUSE_HOST_SYNC,
    [AORTA_IDLE_HOST_LAUNCH] = AORTA_CAUSE_HOST_LAUNCH, [AORTA_IDLE_LAUNCH_LATENCY] = AORTA_CAUSE_LAUNCH_LATENCY,
    [AORTA_IDLE_UNKNOWN] = AORTA_CAUSE_HOST_LAUNCH, /* the fact idle_unknown shows it separately */
};

/* Most ranges have one launch. */
static bool is_graph(const struct aorta_profile *profile) {
    const int64_t launch_ns = profile->range_count ? profile->ranges[profile->range_count / 2].enqueue_ns : INT64_MIN;
    size_t same = 0;
    for (size_t i = 0; i < profile->range_count; i++) same += profile->ranges[i].enqueue_ns == launch_ns;
    return launch_ns != INT64_MIN && same > 2 && 2 * same > profile->range_count;
}

static void split_iteration(const struct aorta_rank_step *item, struct work *work, const struct aorta_verdict *verdict,
                            struct aorta_rank_costs *costs) {
    const struct aorta_overlap *overlap = &item->iteration.profile->overlap;
    const struct aorta_idle *idle = &overlap->idle;
    const int64_t contention = aorta_shapes_contention(&work->shapes, item, &work->memory);
    costs->step_ns += overlap->lead_ns + overlap->span_ns;
    const struct aorta_idle *pages = &overlap->page_reads;
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++)
        costs->cause_ns[aorta_cause_of_idle[i]] += idle->ns[i] - pages->ns[i];
    costs->cause_ns[AORTA_CAUSE_COPY] += overlap->exposed_copy_ns + aorta_idle_total(pages);
    work->sums.page_read_ns += aorta_idle_total(pages);
    costs->cause_ns[AORTA_CAUSE_CONTENTION] += contention;
    costs->cause_ns[AORTA_CAUSE_COMPUTE] += overlap->compute_ns - contention;
    for (size_t i = 0; i < overlap->exposed_count; i++) split_exposed(item, &overlap->exposed[i], work, verdict, costs);
    if (is_graph(item->iteration.profile)) work->sums.graph_latency_ns += idle->ns[AORTA_IDLE_LAUNCH_LATENCY];
    work->sums.unknown_idle_ns += idle->ns[AORTA_IDLE_UNKNOWN] - pages->ns[AORTA_IDLE_UNKNOWN];
    work->sums.rank_iterations++;
    if (!verdict->recorded) tally_idle(item, &work->sums); /* a recording shows its longest gap instead */
}

/* A few slow transfers are noise: below half a percent of the step they stay ordinary exposed communication. */
static void count_rare_slowness_as_exposed(struct aorta_rank_costs *costs) {
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        int64_t slow = costs->collective_ns[AORTA_CAUSE_SLOW_COLLECTIVE][kind];
        if (slow == 0 || slow >= costs->step_ns / 200) continue;
        add_cost(costs, AORTA_CAUSE_SLOW_COLLECTIVE, (enum aorta_collective)kind, -slow);
        add_cost(costs, AORTA_CAUSE_EXPOSED_COLLECTIVE, (enum aorta_collective)kind, slow);
    }
}

/* ---- the whole run ---- */

static void split_ranks(struct work *work, struct aorta_verdict *verdict) {
    for (size_t i = 0; i < work->count; i++) {
        const size_t rank = rank_index(verdict, work->items[i].iteration.rank);
        split_iteration(&work->items[i], work, verdict, &verdict->ranks[rank]);
    }
    for (size_t i = 0; i < verdict->rank_count; i++) count_rare_slowness_as_exposed(&verdict->ranks[i]);
}

static double mean_ms(int64_t sum_ns, int64_t count) {
    return (double)sum_ns / 1e6 / (double)count;
}

/* Ranges without launch times may include gaps of the host. Kernels do not. */
static bool may_hide_gaps(const struct work *work) {
    for (size_t i = 0; i < work->count; i++) {
        const struct aorta_profile *profile = work->items[i].iteration.profile;
        if (profile->source == AORTA_SOURCE_KERNEL) return false;
        for (size_t j = 0; j < profile->range_count; j++)
            if (profile->ranges[j].enqueue_ns != INT64_MIN) return false;
    }
    return true;
}

/* Ranges of a GPU include the gaps between their kernels. Only gaps within graphs are short (half a microsecond). */
static bool may_hold_gaps(const struct work *work) {
    size_t such = 0;
    for (size_t i = 0; i < work->count; i++) {
        const struct aorta_iteration *iteration = &work->items[i].iteration;
        such += iteration->on_gpu && iteration->profile->source == AORTA_SOURCE_RANGE && !is_graph(iteration->profile);
    }
    return 2 * such > work->count;
}

static void summarise(struct work *work, struct aorta_verdict *verdict) {
    int64_t overlap = 0, comm = 0, compute = 0, exposed = 0, idle = 0;
    double *steps = aorta_arena_alloc(&work->memory, work->count * sizeof *steps);
    if (!steps) return;
    for (size_t i = 0; i < work->count; i++) {
        const struct aorta_overlap *one = &work->items[i].iteration.profile->overlap;
        steps[i] = (double)(one->span_ns + one->lead_ns) / 1e6;
        overlap += one->overlap_ns;
        comm += one->comm_ns;
        compute += one->compute_ns;
        exposed += one->exposed_comm_ns;
        idle += one->idle_ns + one->lead_ns;
        verdict->simulated |= one->simulated;
    }
    aorta_sort_double(steps, work->count);
    verdict->step_ms_p10 = aorta_percentile_sorted(steps, work->count, 10);
    verdict->step_ms_p50 = aorta_percentile_sorted(steps, work->count, 50);
    verdict->step_ms_p90 = aorta_percentile_sorted(steps, work->count, 90);
    verdict->coarse = may_hide_gaps(work);
    verdict->gaps = !verdict->coarse && may_hold_gaps(work);
    int64_t late = 0;
    for (size_t i = 0; i < verdict->rank_count; i++) late += verdict->ranks[i].cause_ns[AORTA_CAUSE_HOST_LAUNCH];
    verdict->idle_unexplained = 2 * work->sums.unknown_idle_ns > late;
    int64_t count = (int64_t)work->count;
    verdict->overlap_ratio = comm ? (double)overlap / (double)comm : NAN;
    verdict->exposed_ms = mean_ms(exposed, count);
    verdict->comm_ms = mean_ms(comm, count);
    verdict->compute_ms = mean_ms(compute, count);
    verdict->idle_ms = mean_ms(idle, count);
    for (size_t i = 0; i < verdict->rank_count; i++)
        verdict->step_ms_mean +=
            mean_ms(verdict->ranks[i].step_ns, (int64_t)verdict->ranks[i].iterations) / (double)verdict->rank_count;
}

/* Launch latency without the slowest step is still half of its mean or more. Kernels that load at first use slow down
 * one step only. */
static bool latency_recurs(const struct work *work) {
    double sum_ns = 0, most_ns = 0;
    for (size_t i = 0; i < work->count; i++) {
        const double ns = (double)work->items[i].iteration.profile->overlap.idle.ns[AORTA_IDLE_LAUNCH_LATENCY];
        sum_ns += ns;
        most_ns = fmax(most_ns, ns);
    }
    const double count = (double)work->count;
    return work->count > 1 && 2 * (sum_ns - most_ns) / (count - 1) >= sum_ns / count;
}

static aorta_status run_work(struct work *work, struct aorta_verdict *verdict) {
    verdict->common_clock = aorta_pair_collectives(work->items, work->count, &work->memory);
    work->transfers = aorta_transfers_collect(work->items, work->count, &work->memory);
    aorta_shapes_measure(work->items, work->count, &work->memory, &work->shapes, &verdict->slowdown);
    AORTA_TRY(aorta_arena_check(&work->memory, "the steps of the ranks"));
    split_ranks(work, verdict);
    work->sums.micro_batches = aorta_verdict_find_bubble(work->items, work->count, verdict);
    work->sums.latency_recurs = latency_recurs(work);
    summarise(work, verdict);
    aorta_verdict_make_findings(verdict, &work->sums);
    verdict->arena->failed |= work->memory.failed;
    return aorta_arena_check(verdict->arena, "the verdict");
}

/* ---- recorded ranks ---- */

/* The number of ranks that the files name but that were not given. The reader of a run reports missing ranks itself. */
static int missing_ranks(const struct aorta_trace_analysis *analysis) {
    int world = 0;
    for (size_t i = 0; i < analysis->group_count; i++)
        if (analysis->groups[i].size > world) world = analysis->groups[i].size;
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (analysis->ranks[i].trace->world > world) world = analysis->ranks[i].trace->world;
    return world > (int)analysis->rank_count && !analysis->measured ? world - (int)analysis->rank_count : 0;
}

struct rooflines {
    const struct aorta_trace_analysis *analysis;
    struct aorta_roofline *items; /* of each rank */
};

static aorta_status make_roofline(void *user, size_t rank) {
    const struct rooflines *rooflines = user;
    return aorta_roofline_of_trace(rooflines->analysis, rank, &rooflines->items[rank]);
}

static bool moves_data(const struct aorta_roofline *roofline) {
    const struct aorta_roofline_class *class = roofline->classes;
    return class[AORTA_WORK_POINTWISE].ns + class[AORTA_WORK_REDUCTION].ns >
           class[AORTA_WORK_GEMM].ns + class[AORTA_WORK_CONVOLUTION].ns + class[AORTA_WORK_ATTENTION].ns +
               class[AORTA_WORK_OTHER].ns;
}

static aorta_status add_rooflines(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    const size_t bytes = (analysis->rank_count + 1) * sizeof(struct aorta_roofline);
    struct rooflines rooflines = {analysis, aorta_arena_alloc(verdict->arena, bytes)};
    AORTA_TRY(aorta_arena_check(verdict->arena, "the rooflines"));
    aorta_status status = aorta_parallel(analysis->rank_count, make_roofline, &rooflines);
    verdict->rooflines = rooflines.items;
    verdict->roofline_count = analysis->rank_count;
    struct aorta_roofline joined;
    aorta_roofline_join(rooflines.items, analysis->rank_count, &joined);
    struct aorta_finding *compute = aorta_verdict_find(verdict, AORTA_CAUSE_COMPUTE);
    if (compute && joined.steps && moves_data(&joined)) aorta_facts_flag(&compute->facts, AORTA_FACT_MOVES_DATA);
    return status;
}

static aorta_status make(struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    struct work work = {0};
    aorta_status status = collect_items(analysis, &work, verdict);
    if (!status) status = run_work(&work, verdict);
    aorta_arena_free(&work.memory);
    AORTA_TRY(status);
    if (verdict->recorded) aorta_verdict_find_worst(analysis, verdict);
    const bool differ = aorta_verdict_steps_differ(verdict);
    verdict->steps_unlike = differ ? aorta_trace_steps_unlike(analysis, AORTA_TRACE_KERNEL) : NAN;
    verdict->copies_unlike = differ ? aorta_trace_steps_unlike(analysis, AORTA_TRACE_COPY) : NAN;
    AORTA_TRY(add_rooflines(analysis, verdict));
    aorta_trace_ranges_free(analysis); /* the graph of the same kernels needs the memory */
    return aorta_verdict_gains(analysis, verdict);
}

enum { LOOP = 8 }; /* turns of a loop in a step */

static const struct aorta_trace_window *middle_step(const struct aorta_trace_rank *rank) {
    return rank->window_count ? &rank->windows[rank->window_count / 2] : NULL;
}

/* nn.LSTMCell and nn.GRUCell in a loop; nn.LSTM and nn.GRU run kernels of cuDNN or MIOpen instead. */
static bool runs_cells(const struct aorta_trace_rank *rank) {
    size_t cells = 0;
    const struct aorta_trace_window *window = middle_step(rank);
    for (size_t i = 0; window && i < window->profile.range_count && cells < LOOP; i++) {
        const char *name = aorta_trace_text(rank->trace, rank->work[window->work[i]].name);
        cells += strstr(name, "lstm_cell_forward") || strstr(name, "gru_cell_forward");
    }
    return cells >= LOOP;
}

bool aorta_verdict_loops_over_experts(const struct aorta_trace_rank *rank) {
    size_t turns = 0;
    bool selected = false, multiplied = false;
    const struct aorta_trace_window *window = middle_step(rank);
    for (size_t i = 0; window && i < window->profile.range_count && turns < LOOP; i++) {
        const char *name = aorta_trace_text(rank->trace, rank->work[window->work[i]].name);
        if (strstr(name, "DeviceSelectSweep")) {
            selected = true;
        } else if (selected && aorta_kernel_is_gemm(name)) {
            multiplied = true;
        } else if (strstr(name, "indexFuncLargeIndex") || strstr(name, "indexFuncSmallIndex")) {
            turns += multiplied;
            selected = multiplied = false;
        }
    }
    return turns >= LOOP;
}

/* Adds to the findings of two causes a fact that their advice depends on. */
static void mark(struct aorta_verdict *verdict, enum aorta_cause one, enum aorta_cause other,
                 enum aorta_fact_key fact) {
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == one || verdict->findings[i].cause == other)
            aorta_facts_flag(&verdict->findings[i].facts, fact);
}

/* One process uses several devices with collectives, as DataParallel does. Its threads share one lock. */
static bool shares_process(const struct aorta_trace_analysis *analysis) {
    if (analysis->rank_count < 2 || analysis->ranks[0].trace != analysis->ranks[1].trace) return false;
    for (size_t i = 0; i < analysis->ranks[0].work_count; i++)
        if (aorta_trace_is_collective(&analysis->ranks[0].work[i])) return true;
    return false;
}

/* A remedy removes copies of a growing cache of keys and values. */
static bool copies_cache(const struct aorta_verdict *verdict) {
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].remedy && strcmp(verdict->findings[i].remedy, "casts=cache") == 0) return true;
    return false;
}

static void mark_launches(const struct aorta_trace_rank *rank, struct aorta_verdict *verdict,
                          struct aorta_arena *memory) {
    static const enum aorta_cause cause = AORTA_CAUSE_HOST_LAUNCH;
    if (!aorta_verdict_find(verdict, cause)) return;
    if (copies_cache(verdict) || aorta_program_decodes(rank, memory)) mark(verdict, cause, cause, AORTA_FACT_DECODES);
    if (aorta_program_optimizes(rank, memory)) mark(verdict, cause, cause, AORTA_FACT_OPTIMIZES);
}

/* Waits for values prevent the capture of a graph. */
static void mark_values(struct aorta_verdict *verdict) {
    enum { SEVERAL = 4 }; /* per step */
    const struct aorta_finding *waits = aorta_verdict_find(verdict, AORTA_CAUSE_HOST_SYNC);
    const struct aorta_fact *caller = waits ? aorta_facts_find(&waits->facts, AORTA_FACT_CALLER) : NULL;
    if (!caller || caller->value < SEVERAL) return;
    const bool item =
        strstr(caller->place.name, "aten::item") || strstr(caller->place.name, "aten::_local_scalar_dense");
    if (!item && !aorta_facts_has(&waits->facts, AORTA_FACT_VALUES)) return;
    mark(verdict, AORTA_CAUSE_HOST_LAUNCH, AORTA_CAUSE_HOST_SYNC, AORTA_FACT_MANY_VALUES);
}

/* All-gathers and reduce-scatters move parameters and gradients if these are sharded. Else, in inference, they move
 * activations. */
static void mark_shards(const struct aorta_trace_rank *rank, struct aorta_verdict *verdict,
                        struct aorta_arena *memory) {
    const bool shards = aorta_program_shards(rank, memory);
    AORTA_EACH (struct aorta_finding, finding, verdict->findings, verdict->finding_count) {
        const bool gathers = finding->cause == AORTA_CAUSE_EXPOSED_COLLECTIVE &&
                             (finding->collective == AORTA_ALL_GATHER || finding->collective == AORTA_REDUCE_SCATTER);
        if (shards && (gathers || finding->cause == AORTA_CAUSE_HOST_LAUNCH))
            aorta_facts_flag(&finding->facts, AORTA_FACT_SHARDED);
        else if (gathers && rank->infers)
            aorta_facts_flag(&finding->facts, AORTA_FACT_ACTIVATIONS);
    }
}

static void mark_kind_of_program(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    struct aorta_arena scratch = {0};
    if (aorta_verdict_work_differs(verdict)) { /* the replay marks ranks with unequal work (gains.c) */
        mark(verdict, AORTA_CAUSE_STRAGGLER, AORTA_CAUSE_STRAGGLER, AORTA_FACT_UNEQUAL_WORK);
        mark(verdict, AORTA_CAUSE_HOST_PAUSE, AORTA_CAUSE_HOST_PAUSE, AORTA_FACT_PAUSE_SIZES);
    }
    if (runs_cells(&analysis->ranks[0]))
        mark(verdict, AORTA_CAUSE_HOST_LAUNCH, AORTA_CAUSE_SMALL_KERNELS, AORTA_FACT_RNN_CELLS);
    if (aorta_verdict_loops_over_experts(&analysis->ranks[0]))
        mark(verdict, AORTA_CAUSE_HOST_LAUNCH, AORTA_CAUSE_HOST_SYNC, AORTA_FACT_EXPERTS);
    if (verdict->whole) mark(verdict, AORTA_CAUSE_COPY, AORTA_CAUSE_ALLOCATION, AORTA_FACT_NO_STEPS);
    if (!analysis->ranks[0].trains)
        mark(verdict, AORTA_CAUSE_HOST_LAUNCH, AORTA_CAUSE_PRECISION, AORTA_FACT_NO_GRADIENTS);
    mark_launches(&analysis->ranks[0], verdict, &scratch);
    mark_values(verdict);
    mark_shards(&analysis->ranks[0], verdict, &scratch);
    aorta_arena_end(&scratch, verdict->arena);
    if (aorta_trace_has_text(analysis->ranks[0].trace, "LaunchHostFunc") ||
        aorta_trace_has_text(analysis->ranks[0].trace, "StreamAddCallback"))
        mark(verdict, AORTA_CAUSE_LAUNCH_LATENCY, AORTA_CAUSE_LAUNCH_LATENCY, AORTA_FACT_HOST_FUNCTIONS);
    if (aorta_trace_has_text(analysis->ranks[0].trace, "MallocManaged") ||
        aorta_trace_has_text(analysis->ranks[0].trace, "MemAllocManaged"))
        mark(verdict, AORTA_CAUSE_HOST_PAUSE, AORTA_CAUSE_HOST_PAUSE, AORTA_FACT_PAUSE_MANAGED);
    if (shares_process(analysis))
        mark(verdict, AORTA_CAUSE_HOST_LAUNCH, AORTA_CAUSE_HOST_PAUSE, AORTA_FACT_ONE_PROCESS);
}

/* Programs that are no engines have ranges with such names, too: execute_diffusion_… */
static bool is_engine(const struct aorta_trace *trace) {
    static const char *const names[] = {"vllm", "sgl", "step[", NULL};
    for (uint32_t i = 0; i < aorta_trace_text_count(trace); i++)
        if (aorta_has_any(aorta_trace_text(trace, i), names)) return true;
    return false;
}

static unsigned program_of(const struct aorta_trace_analysis *analysis) {
    if (analysis->measured) return AORTA_PROGRAM_OURS;
    if (!analysis->rank_count) return AORTA_PROGRAM_NATIVE;
    const struct aorta_trace *trace = analysis->ranks[0].trace;
    if (analysis->stepped && trace->steps_by == AORTA_STEPS_BY_ENGINE && is_engine(trace)) return AORTA_PROGRAM_SERVING;
    return 1U << aorta_trace_framework(trace);
}

/* An operation that exists only in libraries for GPUs. */
static const char *find_gpu_operation(const struct aorta_trace *trace) {
    static const char *const begins[] = {"aten::cudnn_", "aten::_cudnn_", "aten::miopen_"};
    for (uint32_t i = 0; i < aorta_trace_text_count(trace); i++)
        for (size_t j = 0; j < sizeof begins / sizeof *begins; j++)
            if (!strncmp(aorta_trace_text(trace, i), begins[j], strlen(begins[j]))) return aorta_trace_text(trace, i);
    return NULL;
}

/* An empty verdict has no arena. */
static aorta_status make_arena(struct aorta_verdict *verdict) {
    if (!verdict->arena) verdict->arena = calloc(1, sizeof *verdict->arena);
    return verdict->arena ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for the verdict");
}

static double work_outside(const struct aorta_trace_analysis *analysis) {
    const struct aorta_trace_rank *rank = analysis->ranks;
    double within = 0, all = 0;
    if (!analysis->rank_count || !analysis->stepped || rank->trace->steps_by != AORTA_STEPS_BY_REPETITION) return 0;
    for (size_t i = 0; i < rank->work_count; i++) all += (double)(rank->work[i].end_ns - rank->work[i].start_ns);
    for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));)
        for (size_t i = 0; i < window->profile.range_count; i++)
            within += (double)(window->profile.ranges[i].end_ns - window->profile.ranges[i].start_ns);
    return all > 0 ? 1 - within / all : 0;
}

static double together_ms(const struct aorta_trace_analysis *analysis) {
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        if (rank->trace != analysis->ranks[0].trace) return 0;
        if (rank->figures.start_ns < first_ns) first_ns = rank->figures.start_ns;
        if (rank->figures.end_ns > last_ns) last_ns = rank->figures.end_ns;
    }
    return analysis->rank_count > 1 && !analysis->stepped ? (double)(last_ns - first_ns) / 1e6 : 0;
}

aorta_status aorta_verdict_make(struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    const bool host_only = analysis->rank_count && analysis->ranks[0].trace->host_only;
    *verdict = (struct aorta_verdict){
        .recorded = !analysis->measured,
        .host_only = host_only,
        .cut_off = host_only && analysis->ranks[0].trace->warnings[AORTA_REASON_TRUNCATED].count > 0,
        .captures = !analysis->measured && aorta_verdict_captures(analysis),
        .incomplete = analysis->thin != NULL,
        .processes = analysis->mixed,
        .coverage = analysis->thin ? analysis->thin->coverage : (struct aorta_trace_coverage){0},
        .on_cpu = analysis->measured && analysis->rank_count && !analysis->ranks[0].trace->on_gpu,
        .whole = !analysis->stepped,
        .warmup = analysis->warmup,
        .outside = work_outside(analysis),
        .asked = analysis->whole,
        .together_ms = together_ms(analysis),
        .unled = analysis->unled,
        .drained = analysis->drained,
        .undisturbed = analysis->trend_ns[0] > 0, /* the program itself makes its steps differ */
        .ranks_missing = missing_ranks(analysis),
        .sends = analysis->sends,
        .model_parts = aorta_verdict_model_parts(analysis),
        .splits_backward = aorta_verdict_splits_backward(analysis),
        .program = program_of(analysis)};
    AORTA_TRY(make_arena(verdict));
    aorta_status status = make(analysis, verdict);
    if (!status && verdict->recorded) mark_kind_of_program(analysis, verdict);
    if (!status && host_only) aorta_verdict_host_collectives(analysis->ranks[0].trace, verdict);
    const char *operation = host_only ? find_gpu_operation(analysis->ranks[0].trace) : NULL;
    if (operation) verdict->gpu_operation = aorta_arena_strdup(verdict->arena, operation);
    if (!status) status = aorta_advise(verdict, NULL);
    if (status) aorta_verdict_free(verdict);
    return status;
}

aorta_status aorta_verdict_clocks(struct aorta_verdict *verdict, const char *sentence) {
    AORTA_TRY(make_arena(verdict));
    verdict->clocks = aorta_arena_strdup(verdict->arena, sentence);
    return aorta_arena_check(verdict->arena, "the clocks");
}

aorta_status aorta_verdict_machine(struct aorta_verdict *verdict, const char *disturbed) {
    verdict->undisturbed = !disturbed;
    if (!disturbed) return NULL;
    AORTA_TRY(make_arena(verdict));
    verdict->disturbed = aorta_arena_strdup(verdict->arena, disturbed);
    return aorta_arena_check(verdict->arena, "what disturbed the machine");
}

void aorta_verdict_free(struct aorta_verdict *verdict) {
    for (size_t i = 0; i < verdict->roofline_count; i++) aorta_roofline_free(&verdict->rooflines[i]);
    if (verdict->arena) aorta_arena_free(verdict->arena);
    free(verdict->arena);
    memset(verdict, 0, sizeof *verdict);
}

/* ---- the part of late launches that is the recorder's cost ---- */

/* Cost of CUPTI's callbacks and record per launch: 2.8 ms for a step of 813 kernels on an H100's host (docs/results.md,
 * bench/trace_run_cost.py). A replayed graph is one launch. */
enum { LAUNCH_NS = 3500 };

static const double least_share = 0.05; /* of a step: a smaller loss gets no note */
static const double least_part = 0.10;  /* of the late launches */

double aorta_recording_share(const struct aorta_verdict *verdict, double launches) {
    const struct aorta_finding *late = aorta_verdict_find(verdict, AORTA_CAUSE_HOST_LAUNCH);
    const double late_ms = late ? late->cost_ms : 0, own_ms = launches * LAUNCH_NS * 1e-6;
    if (verdict->idle_unexplained || late_ms < least_share * verdict->step_ms_mean) return 0;
    if (own_ms < least_part * late_ms) return 0;
    return own_ms < late_ms ? own_ms : late_ms;
}
