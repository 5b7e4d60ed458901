/* Figures of comms_compute_overlap: both sides alone and together. */
#include "hwq/gaps.h"
#include "hwq/iterations.h"
#include "hwq/workloads/comms_compute_overlap_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { SIDE_ITERATIONS = 10, SIDE_MS = 2000 }; /* of one side, at most */

struct sides { /* ns */
    struct aorta_hwq_samples compute, comms, total, product;
    struct aorta_hwq_samples collective[AORTA_HWQ_MOST_GROUPS]; /* of each group */
    int groups;
};

/* From the first start to the last end of one kind; 0: there is none. */
static int64_t extent(const struct aorta_hwq_spans *spans, int kind) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < spans->count; i++) {
        const struct aorta_span *span = &spans->items[i];
        if (kind >= 0 && (int)span->kind != kind) continue;
        if (span->start_ns < first) first = span->start_ns;
        if (span->end_ns > last) last = span->end_ns;
    }
    return last > first ? last - first : 0;
}

/* A side that did not run, or left no stamp, has no time. */
static aorta_status add_extent(struct aorta_hwq_samples *samples, const struct aorta_hwq_spans *spans, int kind) {
    const int64_t ns = extent(spans, kind);
    return ns ? aorta_hwq_samples_add(samples, (double)ns) : NULL;
}

/* Stamps come in the order of launches: the groups take turns. */
static aorta_status add_spans(void *user, const struct aorta_hwq_spans *spans) {
    struct sides *sides = user;
    int collectives = 0;
    AORTA_TRY(add_extent(&sides->compute, spans, AORTA_SPAN_GEMM));
    AORTA_TRY(add_extent(&sides->comms, spans, AORTA_SPAN_COLLECTIVE));
    AORTA_TRY(add_extent(&sides->total, spans, -1));
    for (size_t i = 0; i < spans->count; i++) {
        const struct aorta_span *span = &spans->items[i];
        struct aorta_hwq_samples *samples =
            span->kind == AORTA_SPAN_GEMM ? &sides->product : &sides->collective[collectives++ % sides->groups];
        AORTA_TRY(aorta_hwq_samples_add(samples, (double)(span->end_ns - span->start_ns)));
    }
    return NULL;
}

static void free_sides(struct sides *sides) {
    aorta_hwq_samples_free(&sides->compute);
    aorta_hwq_samples_free(&sides->comms);
    aorta_hwq_samples_free(&sides->total);
    aorta_hwq_samples_free(&sides->product);
    for (int g = 0; g < sides->groups; g++) aorta_hwq_samples_free(&sides->collective[g]);
}

struct side_times { /* ms, medians; NaN: that side did not run */
    double compute, comms, total, product;
    double collective[AORTA_HWQ_MOST_GROUPS]; /* one, of each group */
};

static aorta_status measure(struct hwq_graph *g, int64_t iterations, bool compute, bool comms,
                            struct side_times *times) {
    const struct overlap_state *state = g->state;
    const struct aorta_hwq_plan plan = {.iterations = iterations, .iterate = hwq_graph_iterate, .state = g};
    struct sides sides = {.groups = state->group_count};
    g->without = (compute ? 0 : 1u << AORTA_SPAN_GEMM) | (comms ? 0 : 1u << AORTA_SPAN_COLLECTIVE);
    aorta_status status = aorta_hwq_stamp_iterations(g->hwq, &plan, add_spans, &sides);
    g->without = 0;
    const bool communicates = comms && state->group_count;
    *times = (struct side_times){
        .compute = compute ? aorta_hwq_samples_median(&sides.compute) * 1e-6 : NAN,
        .comms = communicates ? aorta_hwq_samples_median(&sides.comms) * 1e-6 : NAN,
        .total = aorta_hwq_samples_median(&sides.total) * 1e-6,
        .product = compute ? aorta_hwq_samples_median(&sides.product) * 1e-6 : NAN,
    };
    for (int i = 0; i < state->group_count; i++)
        times->collective[i] = comms ? aorta_hwq_samples_median(&sides.collective[i]) * 1e-6 : NAN;
    free_sides(&sides);
    return status;
}

/* "" for the only group, "_0_2_3" for that of ranks 0, 2 and 3; "_0_to_63" where they are many. */
static void name_group(const struct overlap_state *state, const struct overlap_group *group, char name[64]) {
    int used = 0;
    name[0] = '\0';
    if (state->group_count < 2) return;
    if (group->size > 8) {
        snprintf(name, 64, "_%d_to_%d_of_%d", group->ranks[0], group->ranks[group->size - 1], group->size);
        return;
    }
    for (int r = 0; r < group->size; r++) used += snprintf(name + used, (size_t)(64 - used), "_%d", group->ranks[r]);
}

static aorta_status say_bandwidth_of(const struct overlap_options *o, const struct overlap_state *state, int number,
                                     const char *which, double ms, struct aorta_hwq_result *result) {
    const struct overlap_group *group = &state->groups[number];
    const double factor = aorta_collective_bus_factor((enum aorta_collective)o->collective, group->size);
    const double algbw = (double)group->bytes / (ms * 1e6);
    const bool simulated = aorta_comm_simulated(group->comm);
    char name[128], members[64];
    name_group(state, group, members);
    snprintf(name, sizeof name, "algbw_%s%s", which, members);
    AORTA_TRY(aorta_hwq_result_figure(result, name, "GB/s", algbw, "no collective ran"));
    snprintf(name, sizeof name, "busbw_%s%s", which, members);
    return aorta_hwq_result_figure(result, name, "GB/s", simulated ? NAN : algbw * factor,
                                   simulated ? "one rank: no data crosses a bus" : "no collective ran");
}

static aorta_status say_bandwidth(struct aorta_hwq *hwq, const struct overlap_state *state, const char *which,
                                  const struct side_times *times, struct aorta_hwq_result *result) {
    result->figure_group = "bandwidth of one collective";
    if (!state->group_count)
        return aorta_hwq_result_figure(result, "algbw_alone", "GB/s", NAN, "this rank is in none of --process-groups");
    for (int g = 0; g < state->group_count; g++)
        AORTA_TRY(say_bandwidth_of(hwq->options, state, g, which, times->collective[g], result));
    return NULL;
}

/* Bandwidth of all groups of this rank together. */
static double carried(const struct aorta_hwq *hwq, const struct overlap_state *state, const struct side_times *comms) {
    const struct overlap_options *o = hwq->options;
    double bytes = 0.0;
    for (int g = 0; g < state->group_count; g++) bytes += (double)state->groups[g].bytes;
    if (state->group_count == 1) return bytes / (comms->collective[0] * 1e6);
    return (double)o->num_coll * bytes / (comms->comms * 1e6);
}

static aorta_status say_contention(const struct overlap_state *state, const struct side_times *alone,
                                   const struct side_times *both, struct aorta_hwq_result *result) {
    char name[96];
    snprintf(name, sizeof name, "gemm_%" PRId64 "x%" PRId64 "x%" PRId64 "_slowdown", state->shape[0], state->shape[1],
             state->shape[2]);
    result->figure_group = "one product";
    AORTA_TRY(aorta_hwq_result_figure(result, "gemm_alone_p50", "ms", alone->product, "no product ran"));
    AORTA_TRY(aorta_hwq_result_figure(result, "gemm_beside_p50", "ms", both->product, "no product ran"));
    return aorta_hwq_result_figure(result, name, "x", both->product / alone->product, "no product ran");
}

/* `most`: the shorter side, as a share of the sum. More can only be saved where a side was slower alone. */
static aorta_status say_saving(double together, double sum, double most, struct aorta_hwq_result *result) {
    const double saved = (sum - together) / sum;
    if (saved > most)
        return aorta_hwq_result_finding(
            result,
            "together %.4g ms instead of %.4g ms one after the other, more than the shorter "
            "side: times alone are not steady enough to compare; more --iterations help",
            together, sum);
    return aorta_hwq_result_finding(
        result,
        "together %.4g ms instead of %.4g ms one after the other: %.0f%% %s; no overlap saves more than %.0f%%, "
        "the shorter side",
        together, sum, 100 * fabs(saved), saved < 0 ? "lost, overlap does not help here" : "saved", 100 * most);
}

/* Which side becomes slower beside the other, and whether overlap gains time. */
static aorta_status say_meaning(const struct side_times *compute, const struct side_times *comms,
                                const struct side_times *both, bool simulated, struct aorta_hwq_result *result) {
    const double sum = compute->compute + comms->comms, change = (sum - both->total) / sum;
    const double products = both->compute / compute->compute, collective = both->comms / comms->comms;
    if (!isfinite(change) || !isfinite(products) || !isfinite(collective)) return NULL;
    if (!simulated) AORTA_TRY(say_saving(both->total, sum, fmin(compute->compute, comms->comms) / sum, result));
    if (fmax(products, collective) < 1.1)
        return aorta_hwq_result_finding(result,
                                        "neither side slows the other (products take %.3g times as long as alone, "
                                        "collectives %.3g times)",
                                        products, collective);
    if (collective > products)
        return aorta_hwq_result_finding(result,
                                        "the collectives become slower: %.3g times as long as alone, beside products, "
                                        "which take %.3g times as long",
                                        collective, products);
    return aorta_hwq_result_finding(
        result,
        "the products become slower: %.3g times as long as alone, beside collectives, which "
        "take %.3g times as long",
        products, collective);
}

/* gain: what running together saves of the sum of both; hidden: the share of the shorter side that it saves. */
static aorta_status say_overlap(const struct side_times *compute, const struct side_times *comms,
                                const struct side_times *both, bool simulated, struct aorta_hwq_result *result) {
    const double sum = compute->compute + comms->comms, saved = sum - both->total;
    const double shorter = fmin(compute->compute, comms->comms);
    const char *none = "a side did not run";
    const char *unknown = simulated         ? "one rank: copies stand for collectives, there is nothing to hide"
                          : saved > shorter ? "more was saved than the shorter side takes: it was slower alone"
                                            : none;
    result->figure_group = "products, from the first start to the last end";
    AORTA_TRY(aorta_hwq_result_figure(result, "compute_alone", "ms", compute->compute, none));
    AORTA_TRY(aorta_hwq_result_figure(result, "compute_together", "ms", both->compute, none));
    AORTA_TRY(aorta_hwq_result_figure(result, "compute_slowdown", "x", both->compute / compute->compute, none));
    result->figure_group = "collectives, from the first start to the last end";
    AORTA_TRY(aorta_hwq_result_figure(result, "comms_alone", "ms", comms->comms, none));
    AORTA_TRY(aorta_hwq_result_figure(result, "comms_together", "ms", both->comms, none));
    AORTA_TRY(aorta_hwq_result_figure(result, "comms_slowdown", "x", both->comms / comms->comms, none));
    result->figure_group = "the sum of both";
    AORTA_TRY(aorta_hwq_result_figure(result, "one_after_the_other", "ms", sum, none));
    AORTA_TRY(aorta_hwq_result_figure(result, "together", "ms", both->total, none));
    AORTA_TRY(aorta_hwq_result_figure(result, "gain", "of the sum", simulated ? NAN : saved / sum, unknown));
    AORTA_TRY(aorta_hwq_result_figure(result, "hidden", "of the shorter side",
                                      simulated || saved > shorter ? NAN : saved / shorter, unknown));
    return say_meaning(compute, comms, both, simulated, result);
}

/* A result's throughput is of products; of collectives where there is nothing else. */
aorta_status aorta_hwq_overlap_report(struct hwq_graph *g, struct aorta_hwq_result *result) {
    const struct overlap_state *state = g->state;
    const struct overlap_options *o = g->options;
    struct side_times compute = {0}, comms = {0}, both;
    const int64_t iterations = aorta_hwq_result_iterations(result, SIDE_MS, SIDE_ITERATIONS);
    result->simulated = false;
    for (int i = 0; i < state->group_count; i++) result->simulated |= aorta_comm_simulated(state->groups[i].comm);
    if (state->compute) AORTA_TRY(measure(g, iterations, true, false, &compute));
    if (state->comms) AORTA_TRY(measure(g, iterations, false, true, &comms));
    if (state->comms) AORTA_TRY(say_bandwidth(g->hwq, state, "alone", &comms, result));
    if (o->mode == OVERLAP_COMMS_ONLY) {
        result->throughput_unit = "GB/s";
        result->throughput = state->group_count ? carried(g->hwq, state, &comms) : NAN;
    }
    if (o->mode != OVERLAP_BOTH || !state->group_count) return NULL;
    AORTA_TRY(measure(g, iterations, true, true, &both));
    AORTA_TRY(say_bandwidth(g->hwq, state, "together", &both, result));
    AORTA_TRY(say_contention(state, &compute, &both, result));
    return say_overlap(&compute, &comms, &both, result->simulated, result);
}
