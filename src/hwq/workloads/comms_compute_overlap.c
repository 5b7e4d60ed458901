/* Collectives on stream 0, products on all other streams: how much each slows the other, and the gain of overlap. */
#include "device/gpu.h"
#include "hwq/limit.h"
#include "hwq/operations.h"
#include "hwq/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum overlap_mode { OVERLAP_BOTH, OVERLAP_COMPUTE_ONLY, OVERLAP_COMMS_ONLY };
enum {
    OVERLAP_INPUT = 500, /* id of rank 0's input; those of the other ranks follow */
    CHECKED = 997        /* compared elements of a collective */
};

struct overlap_options {
    int mode, comp_dtype, comm_dtype, collective;
    const char *mm_dim, *comm_size, *process_groups;
    int64_t num_compute, num_coll, compute_streams;
    bool real_collectives, async_op;
};

/* A group that this rank is in. */
struct overlap_group {
    struct aorta_comm *comm;
    const int *ranks;
    int size;
    int64_t bytes; /* of the larger buffer of a rank, as nccl-tests count */
    size_t count;  /* elements as the collective takes them */
    struct hwq_tensor receive;
};

struct overlap_state {
    int64_t shape[3];   /* M, N, K */
    int64_t bytes;      /* requested */
    int first, streams; /* that compute */
    struct aorta_hwq_group_list list;
    struct overlap_group groups[AORTA_HWQ_MOST_GROUPS]; /* in the order written, the same on all ranks */
    int group_count;                                    /* 0: this rank is in none */
    struct hwq_tensor send;
    bool compute, comms; /* which sides run */
};

/* ---- options ---- */

static aorta_status check(const struct aorta_hwq *hwq) {
    const struct overlap_options *o = hwq->options;
    struct aorta_hwq_group_list list;
    int64_t bytes, shape[3];
    AORTA_TRY(aorta_hwq_shape_parse("mm-dim", o->mm_dim, shape));
    AORTA_TRY(aorta_hwq_size_parse("comm-size", o->comm_size, &bytes));
    if (o->process_groups) AORTA_TRY(aorta_hwq_groups_parse(o->process_groups, hwq->ranks.world_size, &list));
    const int most = hwq->stream_count > 1 ? hwq->stream_count - 1 : 1;
    if (o->compute_streams > most)
        return AORTA_ERROR(AORTA_USAGE,
                           "--compute-streams %" PRId64 ": %d of the %d streams can compute, as the first one has the "
                           "collectives",
                           o->compute_streams, most, hwq->stream_count);
    if (o->real_collectives && aorta_comm_simulated(hwq->world))
        return AORTA_ERROR(AORTA_USAGE, "--real-collectives needs several ranks: aorta launch -n 2 -- aorta hwq run "
                                        "comms_compute_overlap …");
    return NULL;
}

static enum aorta_priority priority(const struct aorta_hwq *hwq, int stream) {
    (void)hwq;
    return stream == 0 ? AORTA_PRIORITY_HIGH : AORTA_PRIORITY_NORMAL;
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    static const char *const sides[] = {
        [OVERLAP_BOTH] = "collectives", [OVERLAP_COMPUTE_ONLY] = "unused", [OVERLAP_COMMS_ONLY] = "collectives"};
    static const char *const ones[] = {
        [OVERLAP_BOTH] = "both", [OVERLAP_COMPUTE_ONLY] = "products", [OVERLAP_COMMS_ONLY] = "collectives"};
    const struct overlap_options *o = hwq->options;
    if (hwq->stream_count == 1) return ones[o->mode];
    return stream == 0 ? sides[o->mode] : "products";
}

static int64_t needs_streams(const void *options) {
    const struct overlap_options *o = options;
    return o->mode != OVERLAP_COMMS_ONLY && o->compute_streams ? o->compute_streams + 1 : 0;
}

static const char *summary_of(const struct aorta_hwq_run *run) {
    static const char *const summaries[] = {
        [OVERLAP_BOTH] =
            "collectives and products share multiprocessors and memory: how much does each slow the other?",
        [OVERLAP_COMPUTE_ONLY] = "products alone",
        [OVERLAP_COMMS_ONLY] = "collectives alone"};
    return summaries[((const struct overlap_options *)run->options)->mode];
}

/* ---- groups of ranks ---- */

static struct overlap_group *add_group(struct overlap_state *state, struct aorta_comm *comm, int number) {
    struct overlap_group *group = &state->groups[state->group_count++];
    group->comm = comm;
    group->ranks = state->list.ranks + state->list.first[number];
    group->size = aorta_hwq_group_size(&state->list, number);
    return group;
}

static aorta_status open_world(struct aorta_hwq *hwq, struct overlap_state *state) {
    const int size = aorta_comm_size(hwq->world);
    if (size > AORTA_HWQ_MOST_MEMBERS)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%d ranks: %d at most", size, AORTA_HWQ_MOST_MEMBERS);
    for (int r = 0; r < size; r++) state->list.ranks[r] = r;
    state->list.first[1] = size;
    state->list.groups = 1;
    add_group(state, hwq->world, 0);
    return NULL;
}

/* All ranks open groups in one order, as groups may overlap. */
static aorta_status open_groups(struct hwq_graph *g, struct overlap_state *state) {
    struct aorta_hwq *hwq = g->hwq;
    const struct overlap_options *o = hwq->options;
    if (!o->process_groups) return open_world(hwq, state);
    AORTA_TRY(aorta_hwq_groups_parse(o->process_groups, hwq->ranks.world_size, &state->list));
    for (int i = 0; i < state->list.groups; i++) {
        const bool mine = aorta_hwq_group_has(&state->list, i, hwq->ranks.rank);
        struct aorta_comm *comm =
            hwq_split(g, state->list.ranks + state->list.first[i], mine ? aorta_hwq_group_size(&state->list, i) : 0);
        if (comm) add_group(state, comm, i);
    }
    return NULL;
}

/* The size is that of the larger buffer, as in nccl-tests. All groups send one buffer. */
static void size_group(struct hwq_graph *g, const struct overlap_state *state, struct overlap_group *group) {
    const struct overlap_options *o = g->options;
    const enum aorta_dtype dtype = (enum aorta_dtype)o->comm_dtype;
    const int64_t element = (int64_t)aorta_dtype_size(dtype), ranks = group->size;
    const bool whole = o->collective == AORTA_ALL_REDUCE;
    int64_t elements = state->bytes / element;
    if (!whole) elements -= elements % ranks;
    if (elements < 1) {
        hwq_fail(g, AORTA_ERROR(AORTA_USAGE, "--comm-size %s: less than one element for each of %" PRId64 " ranks",
                                o->comm_size, ranks));
        return;
    }
    group->bytes = elements * element;
    group->count = (size_t)(whole ? elements : elements / ranks);
    group->receive = hwq_result(g, dtype, 1, elements, "received values");
}

/* ---- collectives ---- */

struct call {
    int collective;
    const struct overlap_group *group;
};

static aorta_status run_collective(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct call *call = o->shape;
    const struct aorta_comm_call args = {
        .kind = (enum aorta_collective)call->collective,
        .dtype = o->in[0].dtype,
        .reduction = AORTA_SUM,
        .piece_count = 1,
        .pieces = {{hwq_at_device(o->in[0]), hwq_at_device(o->out[0]), call->group->count}}};
    return aorta_collective(o->comm, stream, &args);
}

/* One value that a member of the group sends, before rounding: all ranks' inputs are known. */
static struct hwq_value sent(const struct hwq_element *e, const struct overlap_group *group, int member,
                             int64_t index) {
    float value;
    aorta_status status =
        aorta_hwq_values(e->o->graph->hwq, OVERLAP_INPUT + (uint64_t)group->ranks[member], index, 1, 1.0f, &value);
    if (!status) return (struct hwq_value){(double)value, 0.0};
    aorta_status_free(status);
    return hwq_exact(NAN);
}

static struct hwq_value received(const struct hwq_element *e) {
    const struct call *call = e->o->shape;
    const struct overlap_group *group = call->group;
    const int64_t count = (int64_t)group->count, own = aorta_comm_rank(group->comm) * count;
    const bool moved = call->collective == AORTA_ALL_GATHER || call->collective == AORTA_ALL_TO_ALL;
    double value = 0.0;
    if (moved)
        value = sent(e, group, (int)(e->column / count),
                     e->column % count + (call->collective == AORTA_ALL_TO_ALL ? own : 0))
                    .value;
    for (int r = 0; r < group->size && !moved; r++)
        value += sent(e, group, r, e->column + (call->collective == AORTA_REDUCE_SCATTER ? own : 0)).value;
    return (struct hwq_value){value, hwq_tolerance(e->o->out[0].dtype) * group->size * (1.0 + fabs(value))};
}

static const struct hwq_kind collective_kind = {.name = "collective",
                                                .span = AORTA_SPAN_COLLECTIVE,
                                                .run = run_collective,
                                                .element = received,
                                                .samples = CHECKED};

/* The collectives of a rank's groups run in one order on all ranks, so that overlapping groups cannot deadlock. A
 * reduce-scatter's results are the first part of the memory. */
static struct hwq_operation *add_collective(struct hwq_graph *g, const struct overlap_state *state,
                                            const struct overlap_group *group) {
    const struct overlap_options *o = g->options;
    const struct call call = {o->collective, group};
    const bool many = o->collective == AORTA_ALL_GATHER || o->collective == AORTA_ALL_TO_ALL;
    const int64_t count = (int64_t)group->count;
    const struct hwq_operation operation = {
        .kind = &collective_kind,
        .name = aorta_collective_name(o->collective),
        .comm = group->comm,
        .in = {state->send},
        .out = {hwq_columns(group->receive, 0, many ? count * group->size : count)}};
    return hwq_append(g, &operation, &call, sizeof call);
}

/* ---- the graph ---- */

static void add_once(struct hwq_graph *g, const struct overlap_state *state, bool of_comms,
                     struct hwq_operation **operations) {
    const struct overlap_options *o = g->options;
    const int64_t *shape = state->shape;
    const int first = of_comms ? 0 : state->first, count = of_comms ? state->group_count : state->streams;
    for (int i = 0; i < count; i++)
        if (operations[i])
            hwq_again(g, operations[i]);
        else if (of_comms)
            operations[i] = add_collective(g, state, &state->groups[i]);
        else
            operations[i] =
                hwq_product(g, first + i, (enum aorta_dtype)o->comp_dtype, shape[0], shape[1], shape[2], "product");
}

/* Adds collectives first; with --async-op products and collectives alternate. */
static void add_operations(struct hwq_graph *g, const struct overlap_state *state) {
    const struct overlap_options *o = g->options;
    struct hwq_operation *of_products[AORTA_HWQ_MAX_STREAMS] = {NULL}, *of_groups[AORTA_HWQ_MOST_GROUPS] = {NULL};
    const int64_t products = state->compute ? o->num_compute : 0;
    const int64_t collectives = state->comms && state->group_count ? o->num_coll : 0;
    int64_t p = 0, c = 0;
    while (p < products || c < collectives) {
        const bool turn = !o->async_op || p * collectives >= c * products;
        const bool comms = c < collectives && (turn || p == products);
        add_once(g, state, comms, comms ? of_groups : of_products);
        *(comms ? &c : &p) += 1;
    }
}

static void make_comms(struct hwq_graph *g, struct overlap_state *state) {
    const struct overlap_options *o = g->options;
    const enum aorta_dtype dtype = (enum aorta_dtype)o->comm_dtype;
    hwq_fail(g, open_groups(g, state));
    for (int i = 0; i < state->group_count; i++) size_group(g, state, &state->groups[i]);
    if (state->group_count)
        state->send = hwq_typed_input(g, OVERLAP_INPUT + (uint64_t)g->hwq->ranks.rank, dtype, 1,
                                      state->bytes / (int64_t)aorta_dtype_size(dtype), 1.0f, "sent values");
}

static void build(struct hwq_graph *g) {
    const struct overlap_options *o = g->options;
    const int most = g->hwq->stream_count > 1 ? g->hwq->stream_count - 1 : 1;
    struct overlap_state *state = g->state = hwq_state(g, sizeof *state);
    if (!state) return;
    hwq_fail(g, aorta_hwq_shape_parse("mm-dim", o->mm_dim, state->shape));
    hwq_fail(g, aorta_hwq_size_parse("comm-size", o->comm_size, &state->bytes));
    state->first = g->hwq->stream_count > 1 ? 1 : 0;
    state->streams = o->compute_streams ? (int)o->compute_streams : most;
    state->compute = o->mode != OVERLAP_COMMS_ONLY;
    state->comms = o->mode != OVERLAP_COMPUTE_ONLY;
    if (state->comms) make_comms(g, state);
    if (!g->status) add_operations(g, state);
}

static aorta_status verify(struct hwq_graph *g, struct aorta_hwq_check *found) {
    const struct overlap_state *state = g->state;
    found->no_part = !state->compute && !state->group_count;
    return hwq_graph_verify(g, found);
}

/* ---- figures: both sides alone and together ---- */

enum { SIDE_ITERATIONS = 10, SIDE_MS = 2000 }; /* of one side, at most */

struct sides { /* ns */
    struct aorta_arena memory;
    struct aorta_hwq_samples compute, comms, total, product;
    struct aorta_hwq_samples collective[AORTA_HWQ_MOST_GROUPS]; /* of each group */
    int groups;
};

/* The time from the first start to the last end of one kind; 0 if there is none. */
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
static void add_extent(struct sides *sides, struct aorta_hwq_samples *samples, const struct aorta_hwq_spans *spans,
                       int kind) {
    const int64_t ns = extent(spans, kind);
    if (ns) aorta_hwq_samples_add(samples, (double)ns, &sides->memory);
}

/* Stamps are in the order of launches, in which the groups alternate. */
static aorta_status add_spans(void *user, const struct aorta_hwq_spans *spans) {
    struct sides *sides = user;
    int collectives = 0;
    add_extent(sides, &sides->compute, spans, AORTA_SPAN_GEMM);
    add_extent(sides, &sides->comms, spans, AORTA_SPAN_COLLECTIVE);
    add_extent(sides, &sides->total, spans, -1);
    for (size_t i = 0; i < spans->count; i++) {
        const struct aorta_span *span = &spans->items[i];
        struct aorta_hwq_samples *samples =
            span->kind == AORTA_SPAN_GEMM ? &sides->product : &sides->collective[collectives++ % sides->groups];
        aorta_hwq_samples_add(samples, (double)(span->end_ns - span->start_ns), &sides->memory);
    }
    return aorta_arena_check(&sides->memory, "samples");
}

struct side_times { /* ms, medians; NaN: that side did not run */
    double compute, comms, total, product;
    double collective[AORTA_HWQ_MOST_GROUPS]; /* one, of each group */
};

static aorta_status measure(struct hwq_graph *g, int64_t iterations, bool compute, bool comms,
                            struct side_times *times) {
    const struct overlap_state *state = g->state;
    const struct aorta_hwq_plan plan = {.iterations = iterations, .g = g};
    struct sides sides = {.groups = state->group_count};
    g->without = (compute ? 0 : 1u << AORTA_SPAN_GEMM) | (comms ? 0 : 1u << AORTA_SPAN_COLLECTIVE);
    aorta_status status = aorta_hwq_stamp_iterations(&plan, add_spans, &sides);
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
    aorta_arena_free(&sides.memory);
    return status;
}

/* "" for the only group, "_0_2_3" for ranks 0, 2 and 3, "_0_to_63" for many ranks. */
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

static void say_bandwidth_of(const struct overlap_options *o, const struct overlap_state *state, int number,
                             const char *which, double ms, struct aorta_hwq_result *result) {
    const struct overlap_group *group = &state->groups[number];
    const double factor = aorta_collective_bus_factor((enum aorta_collective)o->collective, group->size);
    const double algbw = (double)group->bytes / (ms * 1e6);
    const bool simulated = aorta_comm_simulated(group->comm);
    char name[128], members[64];
    name_group(state, group, members);
    snprintf(name, sizeof name, "algbw_%s%s", which, members);
    aorta_hwq_result_figure(result, name, "GB/s", algbw, "no collective ran");
    snprintf(name, sizeof name, "busbw_%s%s", which, members);
    aorta_hwq_result_figure(result, name, "GB/s", simulated ? NAN : algbw * factor,
                            simulated ? "one rank: no data crosses a bus" : "no collective ran");
}

static void say_bandwidth(struct aorta_hwq *hwq, const struct overlap_state *state, const char *which,
                          const struct side_times *times, struct aorta_hwq_result *result) {
    result->figure_group = "Bandwidth of one collective";
    if (!state->group_count)
        aorta_hwq_result_figure(result, "algbw_alone", "GB/s", NAN, "this rank is in none of --process-groups");
    for (int g = 0; g < state->group_count; g++)
        say_bandwidth_of(hwq->options, state, g, which, times->collective[g], result);
}

/* Bandwidth of all groups of this rank together. */
static double carried(const struct aorta_hwq *hwq, const struct overlap_state *state, const struct side_times *comms) {
    const struct overlap_options *o = hwq->options;
    double bytes = 0.0;
    for (int g = 0; g < state->group_count; g++) bytes += (double)state->groups[g].bytes;
    if (state->group_count == 1) return bytes / (comms->collective[0] * 1e6);
    return (double)o->num_coll * bytes / (comms->comms * 1e6);
}

static void say_contention(const struct overlap_state *state, const struct side_times *alone,
                           const struct side_times *both, struct aorta_hwq_result *result) {
    char name[96];
    snprintf(name, sizeof name, "gemm_%" PRId64 "x%" PRId64 "x%" PRId64 "_slowdown", state->shape[0], state->shape[1],
             state->shape[2]);
    result->figure_group = "One product";
    aorta_hwq_result_figure(result, "gemm_alone_p50", "ms", alone->product, "no product ran");
    aorta_hwq_result_figure(result, "gemm_together_p50", "ms", both->product, "no product ran");
    aorta_hwq_result_figure(result, name, "x", both->product / alone->product, "no product ran");
}

static enum aorta_hwq_finding find_overlap(double saved, double shorter) {
    if (saved > shorter) return AORTA_HWQ_OVERLAP_UNCLEAR;
    return saved >= HWQ_LEAST_HIDDEN * shorter ? AORTA_HWQ_OVERLAP : AORTA_HWQ_NO_OVERLAP;
}

static enum aorta_hwq_finding find_contention(double products, double collectives) {
    if (fmax(products, collectives) < 1.1) return AORTA_HWQ_NO_CONTENTION;
    return collectives > products ? AORTA_HWQ_SLOW_COLLECTIVES : AORTA_HWQ_SLOW_PRODUCTS;
}

/* gain: time saved by running together, as a share of the sum; hidden: as a share of the shorter side. */
static void say_overlap(const struct side_times *compute, const struct side_times *comms, const struct side_times *both,
                        bool simulated, struct aorta_hwq_result *result) {
    const double sum = compute->compute + comms->comms, saved = sum - both->total;
    const double shorter = fmin(compute->compute, comms->comms);
    const char *none = "a side did not run";
    const char *unknown = simulated         ? "one rank: copies replace collectives, there is nothing to hide"
                          : saved > shorter ? "more was saved than the time of the shorter side: it was slower alone"
                                            : none;
    result->figure_group = "All products, from the first start to the last end";
    aorta_hwq_result_figure(result, "compute_alone", "ms", compute->compute, none);
    aorta_hwq_result_figure(result, "compute_together", "ms", both->compute, none);
    aorta_hwq_result_figure(result, "compute_slowdown", "x", both->compute / compute->compute, none);
    result->figure_group = "All collectives, from the first start to the last end";
    aorta_hwq_result_figure(result, "comms_alone", "ms", comms->comms, none);
    aorta_hwq_result_figure(result, "comms_together", "ms", both->comms, none);
    aorta_hwq_result_figure(result, "comms_slowdown", "x", both->comms / comms->comms, none);
    result->figure_group = "Products and collectives";
    aorta_hwq_result_figure(result, "one_after_the_other", "ms", sum, none);
    aorta_hwq_result_figure(result, "together", "ms", both->total, none);
    aorta_hwq_result_figure(result, "gain", "of the sum", simulated ? NAN : saved / sum, unknown);
    aorta_hwq_result_figure(result, "hidden", "of the shorter side",
                            simulated || saved > shorter ? NAN : saved / shorter, unknown);
    if (!simulated) aorta_hwq_result_finding(result, find_overlap(saved, shorter));
    aorta_hwq_result_finding(result, find_contention(both->compute / compute->compute, both->comms / comms->comms));
}

/* A result's throughput counts products, or collectives if there are no products. */
static aorta_status report(struct hwq_graph *g, struct aorta_hwq_result *result) {
    const struct overlap_state *state = g->state;
    const struct overlap_options *o = g->options;
    struct side_times compute = {0}, comms = {0}, both;
    const int64_t iterations = aorta_hwq_result_iterations(result, SIDE_MS, SIDE_ITERATIONS);
    result->simulated = false;
    for (int i = 0; i < state->group_count; i++) result->simulated |= aorta_comm_simulated(state->groups[i].comm);
    if (state->compute) AORTA_TRY(measure(g, iterations, true, false, &compute));
    if (state->comms) AORTA_TRY(measure(g, iterations, false, true, &comms));
    if (state->comms) say_bandwidth(g->hwq, state, "alone", &comms, result);
    if (o->mode == OVERLAP_COMMS_ONLY) {
        result->throughput_unit = "GB/s";
        result->throughput = state->group_count ? carried(g->hwq, state, &comms) : NAN;
    }
    if (o->mode != OVERLAP_BOTH || !state->group_count) return NULL;
    AORTA_TRY(measure(g, iterations, true, true, &both));
    say_bandwidth(g->hwq, state, "together", &both, result);
    say_contention(state, &compute, &both, result);
    say_overlap(&compute, &comms, &both, result->simulated, result);
    return NULL;
}

/* ---- the workload ---- */

#define AT(field) offsetof(struct overlap_options, field)
static const struct aorta_choice modes[] = {
    {"comms_compute", OVERLAP_BOTH}, {"compute_only", OVERLAP_COMPUTE_ONLY}, {"comms_only", OVERLAP_COMMS_ONLY}, {0}};
static const struct aorta_choice types[] = {{"float32", AORTA_F32},
                                            {"fp32", AORTA_F32},
                                            {"float16", AORTA_F16},
                                            {"fp16", AORTA_F16},
                                            {"bfloat16", AORTA_BF16},
                                            {"bf16", AORTA_BF16},
                                            {0}};
static const struct aorta_choice collectives[] = {{"all_reduce", AORTA_ALL_REDUCE},
                                                  {"reduce_scatter", AORTA_REDUCE_SCATTER},
                                                  {"all_gather", AORTA_ALL_GATHER},
                                                  {"all_to_all", AORTA_ALL_TO_ALL},
                                                  {0}};
static const struct aorta_option rows[] = {
    {"mode", AORTA_OPTION_CHOICE, AT(mode), "comms_compute", .choices = modes, .help = "both sides, or one alone"},
    {"mm_dim", AORTA_OPTION_STRING, AT(mm_dim), "4096", .on_cpu = "192",
     .help = "sizes M,N,K of a product; one value: all three"},
    AORTA_HWQ_ROW(struct overlap_options, num_compute, "10", NULL, 1, 10000, "products on each compute stream"),
    {"comp_dtype", AORTA_OPTION_CHOICE, AT(comp_dtype), "float32", .choices = types, .help = "type of the products"},
    {"comm_size", AORTA_OPTION_STRING, AT(comm_size), "128M", .on_cpu = "1M",
     .help = "bytes of a collective: the larger buffer of a rank, as in 65536, 64K, 128M, 1G"},
    AORTA_HWQ_ROW(struct overlap_options, num_coll, "1", NULL, 1, 10000, "collectives in an iteration, in each group"),
    {"comm_dtype", AORTA_OPTION_CHOICE, AT(comm_dtype), "float32", .choices = types, .help = "type of the collectives"},
    {"collective", AORTA_OPTION_CHOICE, AT(collective), "all_reduce", .choices = collectives,
     .help = "which collective"},
    AORTA_HWQ_ROW(struct overlap_options, compute_streams, "0", NULL, 0, 31,
                  "streams that compute; more than --streams has are added; 0: all but the first"),
    {"real_collectives", AORTA_OPTION_BOOL, AT(real_collectives), "false",
     .help = "require several ranks: a copy on one rank is an error"},
    {"async_op", AORTA_OPTION_BOOL, AT(async_op), "false",
     .help = "queue products and collectives in turn instead of the collectives first"},
    {"process_groups", AORTA_OPTION_STRING, AT(process_groups), "null",
     .help = "groups of ranks that communicate, as in \"[0,1],[2,3]\"; they may overlap: a rank takes part in its "
             "groups one after the other; default: all ranks"},
};

static const char *try_of(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result) {
    (void)result;
    if (((const struct overlap_options *)run->options)->mode == OVERLAP_COMPUTE_ONLY)
        return "--mode comms_compute shows how much collectives slow these products";
    if (run->ranks.world_size == 1) return "aorta launch -n 2 -- … makes the collectives real";
    return aorta_device_is_gpu(run->device) ? "NCCL_MAX_CTAS=8 gives products more multiprocessors" : NULL;
}

const struct aorta_hwq_workload aorta_hwq_comms_compute_overlap = {
    .name = "comms_compute_overlap",
    .summary = "collectives and products share multiprocessors and memory: how much does each slow the other?",
    .group = AORTA_HWQ_P1,
    .category = "distributed",
    .sensitivity = "high",
    .streams = {.min = 1, .max = 32, .recommended = 4},
    .unit = "TFLOPS",
    .collectives = true,
    AORTA_HWQ_OPTIONS(rows, struct overlap_options),
    .try_of = try_of,
    .summary_of = summary_of,
    .needs_streams = needs_streams,
    .check = check,
    .priority = priority,
    .role = role,
    .build = build,
    .verify = verify,
    .report = report,
};
