/* Collectives on stream 0, products on the others: the cost of each to the other, and the gain of their overlap. */
#include "device/gpu.h"
#include "hwq/run.h"
#include "hwq/workloads/comms_compute_overlap_internal.h"

#include <inttypes.h>
#include <math.h>

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
        [OVERLAP_BOTH] = "a collective and products share multiprocessors and memory: what each costs the other",
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

/* One after the other, by all ranks: groups may overlap. */
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

/* As in nccl-tests, the size is that of the larger buffer. All groups send one buffer. */
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
    group->receive = hwq_result(g, dtype, 1, elements, "what is received");
}

/* ---- collectives ---- */

struct call {
    int collective;
    const struct overlap_group *group;
};

static aorta_status run_collective(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct call *call = o->shape;
    const enum aorta_dtype dtype = o->in[0].dtype;
    const void *send = hwq_at_device(o->in[0]);
    void *receive = hwq_at_device(o->out[0]);
    const size_t count = call->group->count;
    if (call->collective == AORTA_ALL_REDUCE)
        return aorta_all_reduce(o->comm, stream, send, receive, count, dtype, AORTA_SUM);
    if (call->collective == AORTA_REDUCE_SCATTER)
        return aorta_reduce_scatter(o->comm, stream, send, receive, count, dtype, AORTA_SUM);
    if (call->collective == AORTA_ALL_GATHER) return aorta_all_gather(o->comm, stream, send, receive, count, dtype);
    return aorta_all_to_all(o->comm, stream, send, receive, count, dtype);
}

/* One value of what a member of the group sends, before rounding: all ranks' inputs are known. */
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

static const struct hwq_kind collective = {.name = "collective",
                                           .span = AORTA_SPAN_COLLECTIVE,
                                           .run = run_collective,
                                           .element = received,
                                           .samples = CHECKED};

/* The collectives of a rank's groups, one after the other: in one order on all ranks, groups that overlap cannot
 * deadlock. Results of a reduce-scatter are the first part of the memory. */
static struct hwq_operation *add_collective(struct hwq_graph *g, const struct overlap_state *state,
                                            const struct overlap_group *group) {
    const struct overlap_options *o = g->options;
    const struct call call = {o->collective, group};
    const bool many = o->collective == AORTA_ALL_GATHER || o->collective == AORTA_ALL_TO_ALL;
    const int64_t count = (int64_t)group->count;
    const struct hwq_operation operation = {
        .kind = &collective,
        .name = aorta_collective_name((enum aorta_collective)o->collective),
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

/* Collectives first; with --async-op products and collectives in turn. */
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
                                      state->bytes / (int64_t)aorta_dtype_size(dtype), 1.0f, "what is sent");
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
    {"process_groups", AORTA_OPTION_STRING, AT(process_groups), "null", .nullable = true,
     .help = "groups of ranks that communicate, as in \"[0,1],[2,3]\"; they may overlap: a rank takes part in its "
             "groups one after the other; default: all ranks"},
};
#undef AT

static const char *try_of(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result) {
    (void)result;
    if (((const struct overlap_options *)run->options)->mode == OVERLAP_COMPUTE_ONLY)
        return "--mode comms_compute shows what collectives cost these products";
    if (run->ranks.world_size == 1) return "aorta launch -n 2 -- … makes the collectives real";
    return aorta_device_is_gpu(run->device) ? "NCCL_MAX_CTAS=8 gives products more multiprocessors" : NULL;
}

const struct aorta_hwq_workload aorta_hwq_comms_compute_overlap = {
    .name = "comms_compute_overlap",
    .summary = "a collective and products share multiprocessors and memory: what each costs the other",
    .group = AORTA_HWQ_P1,
    .category = AORTA_HWQ_DISTRIBUTED,
    .sensitivity = AORTA_HWQ_HIGH,
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
    .report = aorta_hwq_overlap_report,
};
