/* Collectives on stream 0, products on the others: the cost of each to the other, and the gain of their overlap. */
#include "hwq/workloads/comms_compute_overlap.h"
#include "device/gpu.h"
#include "hwq/run.h"

#include <inttypes.h>

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
        return AORTA_ERROR(AORTA_USAGE, "--compute-streams %" PRId64 ": %d of the %d streams can compute",
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
    return hwq->stream_count == 1 ? "both" : stream == 0 ? "collectives" : "products";
}

/* ---- setup ---- */

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
static aorta_status open_groups(struct aorta_hwq *hwq, struct overlap_state *state) {
    const struct overlap_options *o = hwq->options;
    if (!o->process_groups) return open_world(hwq, state);
    AORTA_TRY(aorta_hwq_groups_parse(o->process_groups, hwq->ranks.world_size, &state->list));
    state->split = true;
    for (int g = 0; g < state->list.groups; g++) {
        const bool mine = aorta_hwq_group_has(&state->list, g, hwq->ranks.rank);
        struct aorta_comm *comm;
        AORTA_TRY(aorta_comm_split(hwq->world, state->list.ranks + state->list.first[g],
                                   mine ? aorta_hwq_group_size(&state->list, g) : 0, &comm));
        if (mine) add_group(state, comm, g);
    }
    return NULL;
}

/* As in nccl-tests, the size is that of the larger buffer. All groups send one buffer. */
static aorta_status size_group(struct aorta_hwq *hwq, const struct overlap_state *state, struct overlap_group *group) {
    const struct overlap_options *o = hwq->options;
    const size_t element = aorta_dtype_size((enum aorta_dtype)o->comm_dtype), ranks = (size_t)group->size;
    const bool whole = o->collective == AORTA_ALL_REDUCE;
    size_t elements = (size_t)state->bytes / element;
    if (!whole) elements -= elements % ranks;
    if (!elements)
        return AORTA_ERROR(AORTA_USAGE, "--comm-size %s: less than one element for each of %zu ranks", o->comm_size,
                           ranks);
    group->bytes = (int64_t)(elements * element);
    group->count = whole ? elements : elements / ranks;
    return aorta_hwq_alloc(hwq, elements * element, "what is received", &group->receive);
}

static aorta_status setup_comms(struct aorta_hwq *hwq, struct overlap_state *state) {
    const struct overlap_options *o = hwq->options;
    const enum aorta_dtype dtype = (enum aorta_dtype)o->comm_dtype;
    const size_t elements = (size_t)state->bytes / aorta_dtype_size(dtype);
    AORTA_TRY(open_groups(hwq, state));
    for (int g = 0; g < state->group_count; g++) AORTA_TRY(size_group(hwq, state, &state->groups[g]));
    if (!state->group_count) return NULL;
    AORTA_TRY(aorta_hwq_alloc(hwq, elements * aorta_dtype_size(dtype), "what is sent", &state->send));
    return aorta_hwq_fill(hwq, 0, OVERLAP_INPUT + (uint64_t)hwq->ranks.rank, dtype, (int64_t)elements, 1.0f,
                          state->send);
}

static aorta_status setup_compute(struct aorta_hwq *hwq, struct overlap_state *state) {
    const struct overlap_options *o = hwq->options;
    const enum aorta_dtype dtype = (enum aorta_dtype)o->comp_dtype;
    const size_t element = aorta_dtype_size(dtype);
    const int64_t m = state->shape[0], n = state->shape[1], k = state->shape[2];
    for (int s = state->first; s < state->first + state->streams; s++) {
        AORTA_TRY(aorta_hwq_alloc(hwq, (size_t)(m * k) * element, "first matrix", &state->x[s]));
        AORTA_TRY(aorta_hwq_alloc(hwq, (size_t)(n * k) * element, "second matrix", &state->weight[s]));
        AORTA_TRY(aorta_hwq_alloc(hwq, (size_t)(m * n) * element, "product", &state->y[s]));
        AORTA_TRY(aorta_hwq_fill(hwq, s, 2 * (uint64_t)s, dtype, m * k, 1.0f, state->x[s]));
        AORTA_TRY(aorta_hwq_fill(hwq, s, 2 * (uint64_t)s + 1, dtype, n * k, 1.0f, state->weight[s]));
    }
    return NULL;
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct overlap_options *o = hwq->options;
    const int most = hwq->stream_count > 1 ? hwq->stream_count - 1 : 1;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct overlap_state), made));
    struct overlap_state *state = *made;
    AORTA_TRY(aorta_hwq_shape_parse("mm-dim", o->mm_dim, state->shape));
    AORTA_TRY(aorta_hwq_size_parse("comm-size", o->comm_size, &state->bytes));
    state->first = hwq->stream_count > 1 ? 1 : 0;
    state->streams = o->compute_streams ? (int)o->compute_streams : most;
    state->compute = o->mode != OVERLAP_COMMS_ONLY;
    state->comms = o->mode != OVERLAP_COMPUTE_ONLY;
    if (state->comms) AORTA_TRY(setup_comms(hwq, state));
    return state->compute ? setup_compute(hwq, state) : NULL;
}

static void teardown(struct aorta_hwq *hwq, void *opaque) {
    struct overlap_state *state = opaque;
    (void)hwq;
    for (int g = 0; state->split && g < state->group_count; g++) aorta_comm_close(state->groups[g].comm);
}

/* ---- iterations ---- */

static aorta_status communicate(const struct overlap_options *o, const struct overlap_group *g, const void *send,
                                struct aorta_stream *stream) {
    const enum aorta_dtype dtype = (enum aorta_dtype)o->comm_dtype;
    if (o->collective == AORTA_ALL_REDUCE)
        return aorta_all_reduce(g->comm, stream, send, g->receive, g->count, dtype, AORTA_SUM);
    if (o->collective == AORTA_REDUCE_SCATTER)
        return aorta_reduce_scatter(g->comm, stream, send, g->receive, g->count, dtype, AORTA_SUM);
    if (o->collective == AORTA_ALL_GATHER) return aorta_all_gather(g->comm, stream, send, g->receive, g->count, dtype);
    return aorta_all_to_all(g->comm, stream, send, g->receive, g->count, dtype);
}

/* One in each group, on one stream and in one order on all ranks: groups that overlap cannot deadlock. */
static aorta_status queue_collectives(struct aorta_hwq *hwq, const struct overlap_state *state) {
    const struct overlap_options *o = hwq->options;
    const char *name = aorta_collective_name((enum aorta_collective)o->collective);
    for (int g = 0; g < state->group_count; g++) {
        AORTA_TRY(aorta_hwq_begin(hwq, 0, AORTA_SPAN_COLLECTIVE, name));
        AORTA_TRY(communicate(o, &state->groups[g], state->send, hwq->streams[0]));
        AORTA_TRY(aorta_hwq_end(hwq, 0));
    }
    return NULL;
}

static aorta_status queue_products(struct aorta_hwq *hwq, const struct overlap_state *state) {
    const struct overlap_options *o = hwq->options;
    const struct aorta_linear shape = {.dtype = (enum aorta_dtype)o->comp_dtype,
                                       .rows = state->shape[0],
                                       .in = state->shape[2],
                                       .out = state->shape[1]};
    for (int s = state->first; s < state->first + state->streams; s++) {
        AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_SPAN_GEMM, "product"));
        AORTA_TRY(aorta_linear_forward(hwq->streams[s], shape, state->x[s], state->weight[s], NULL, state->y[s]));
        AORTA_TRY(aorta_hwq_end(hwq, s));
    }
    return NULL;
}

/* Collectives first; with --async-op products and collectives in turn. */
aorta_status aorta_hwq_overlap_iterate(struct aorta_hwq *hwq, void *opaque) {
    const struct overlap_state *state = opaque;
    const struct overlap_options *o = hwq->options;
    const int64_t products = state->compute ? o->num_compute : 0;
    const int64_t collectives = state->comms && state->group_count ? o->num_coll : 0;
    int64_t p = 0, c = 0;
    while (p < products || c < collectives) {
        const bool turn = !o->async_op || p * collectives >= c * products;
        if (c < collectives && (turn || p == products)) {
            AORTA_TRY(queue_collectives(hwq, state));
            c++;
        } else {
            AORTA_TRY(queue_products(hwq, state));
            p++;
        }
    }
    return NULL;
}

static double flops_of(const struct aorta_hwq *hwq, const struct overlap_state *state) {
    const struct overlap_options *o = hwq->options;
    const double m = (double)state->shape[0], n = (double)state->shape[1], k = (double)state->shape[2];
    return state->compute ? (double)(state->streams * o->num_compute) * 2.0 * m * n * k : 0.0;
}

static aorta_status work(struct aorta_hwq *hwq, void *opaque, int64_t iterations, double *amount) {
    *amount = (double)iterations * flops_of(hwq, opaque) * 1e-12;
    return NULL;
}

/* ---- verification: every product, and the received data of every group ---- */

enum { CHECKED = 997 };

static double tolerance_of(enum aorta_dtype dtype) {
    return dtype == AORTA_F32 ? 1e-5 : dtype == AORTA_F16 ? 2e-3 : 1e-2;
}

/* One value of what a member of the group sends, before rounding. */
static aorta_status sent(const struct aorta_hwq *hwq, const struct overlap_group *group, int member, int64_t index,
                         float *value) {
    return aorta_hwq_values(hwq, OVERLAP_INPUT + (uint64_t)group->ranks[member], index, 1, 1.0f, value);
}

static aorta_status expect(const struct aorta_hwq *hwq, const struct overlap_group *group, int64_t i, double *value) {
    const int kind = ((const struct overlap_options *)hwq->options)->collective, me = aorta_comm_rank(group->comm);
    const int64_t count = (int64_t)group->count;
    float one;
    *value = 0.0;
    if (kind == AORTA_ALL_GATHER || kind == AORTA_ALL_TO_ALL) {
        const int from = (int)(i / count);
        AORTA_TRY(sent(hwq, group, from, i % count + (kind == AORTA_ALL_TO_ALL ? me * count : 0), &one));
        *value = (double)one;
        return NULL;
    }
    for (int r = 0; r < group->size; r++) {
        AORTA_TRY(sent(hwq, group, r, i + (kind == AORTA_REDUCE_SCATTER ? me * count : 0), &one));
        *value += (double)one;
    }
    return NULL;
}

/* `count` values of any type as fp32 on the device; freed by the caller. */
static aorta_status widen(struct aorta_hwq *hwq, const void *from, enum aorta_dtype dtype, int64_t count,
                          float **wide) {
    AORTA_TRY(aorta_device_alloc(hwq->device, (size_t)count * sizeof(float), "values to compare", (void **)wide));
    aorta_status status = aorta_cast(hwq->streams[0], *wide, AORTA_F32, from, dtype, count, 1.0f);
    return aorta_status_join(status, aorta_stream_synchronize(hwq->streams[0]));
}

static aorta_status verify_group(struct aorta_hwq_verifier *verifier, const struct overlap_group *group) {
    struct aorta_hwq *hwq = verifier->hwq;
    const struct overlap_options *o = hwq->options;
    const enum aorta_dtype dtype = (enum aorta_dtype)o->comm_dtype;
    const bool many = o->collective == AORTA_ALL_GATHER || o->collective == AORTA_ALL_TO_ALL;
    const int64_t count = (int64_t)group->count * (many ? group->size : 1);
    const int64_t step = count > CHECKED ? count / CHECKED : 1;
    const double allowed = tolerance_of(dtype) * group->size;
    float *wide = NULL;
    const float *got;
    aorta_status status = widen(hwq, group->receive, dtype, count, &wide);
    if (!status) status = aorta_hwq_fetch(verifier, wide, count, &got);
    for (int64_t i = 0; i < count && !status; i += step) {
        double expected;
        status = expect(hwq, group, i, &expected);
        if (!status)
            aorta_hwq_compare(verifier->check, (double)got[i], expected, allowed, allowed,
                              "received[%" PRId64 "] in the group of ranks %d to %d", i, group->ranks[0],
                              group->ranks[group->size - 1]);
    }
    aorta_device_free(hwq->device, wide);
    return status;
}

static aorta_status verify_product(struct aorta_hwq_verifier *verifier, const struct overlap_state *state, int s) {
    struct aorta_hwq *hwq = verifier->hwq;
    const enum aorta_dtype dtype = (enum aorta_dtype)((const struct overlap_options *)hwq->options)->comp_dtype;
    const int64_t m = state->shape[0], n = state->shape[1], k = state->shape[2];
    struct aorta_hwq_layer layer = {.in = k, .out = n};
    float *x = NULL, *y = NULL;
    aorta_status status = widen(hwq, state->x[s], dtype, m * k, &x);
    if (!status) status = widen(hwq, state->weight[s], dtype, n * k, &layer.weight);
    if (!status) status = widen(hwq, state->y[s], dtype, m * n, &y);
    if (!status)
        status = aorta_hwq_verify_linear(verifier, "product", &layer, m, x, y, AORTA_HWQ_PLAIN, tolerance_of(dtype));
    aorta_device_free(hwq->device, x);
    aorta_device_free(hwq->device, layer.weight);
    aorta_device_free(hwq->device, y);
    return status;
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct overlap_state *state = opaque;
    for (int g = 0; state->comms && g < state->group_count; g++) AORTA_TRY(verify_group(verifier, &state->groups[g]));
    for (int s = state->first; state->compute && s < state->first + state->streams; s++)
        AORTA_TRY(verify_product(verifier, state, s));
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *found) {
    const struct aorta_hwq_results none = {0};
    struct overlap_state *state = opaque;
    const struct overlap_options *o = hwq->options;
    found->no_part = !state->compute && !state->group_count;
    for (int g = 0; state->comms && g < state->group_count; g++)
        AORTA_TRY(aorta_fill_bytes(hwq->streams[0], state->groups[g].receive, 0xFF, (size_t)state->groups[g].bytes));
    for (int s = state->first; state->compute && s < state->first + state->streams; s++)
        AORTA_TRY(aorta_fill_bytes(hwq->streams[s], state->y[s], 0xFF,
                                   (size_t)(state->shape[0] * state->shape[1]) *
                                       aorta_dtype_size((enum aorta_dtype)o->comp_dtype)));
    return aorta_hwq_verify_iteration(hwq, found, &none, state, aorta_hwq_overlap_iterate, compare);
}

/* ---- the workload ---- */

#define AT(field) offsetof(struct overlap_options, field)
static const struct aorta_range_limits counts = {.min = 1, .max = 10000};
static const struct aorta_range_limits stream_counts = {.min = 0, .max = AORTA_HWQ_MAX_STREAMS};
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
    {"mm_dim", AORTA_OPTION_STRING, AT(mm_dim), "4096", .help = "sizes M,N,K of a product; one value: all three"},
    AORTA_HWQ_ROW(struct overlap_options, num_compute, "10", counts, "products on each compute stream"),
    {"comp_dtype", AORTA_OPTION_CHOICE, AT(comp_dtype), "float32", .choices = types, .help = "type of the products"},
    {"comm_size", AORTA_OPTION_STRING, AT(comm_size), "128M",
     .help = "bytes of a collective: the larger buffer of a rank, as in 65536, 64K, 128M, 1G"},
    AORTA_HWQ_ROW(struct overlap_options, num_coll, "1", counts, "collectives in an iteration, in each group"),
    {"comm_dtype", AORTA_OPTION_CHOICE, AT(comm_dtype), "float32", .choices = types, .help = "type of the collectives"},
    {"collective", AORTA_OPTION_CHOICE, AT(collective), "all_reduce", .choices = collectives,
     .help = "which collective"},
    AORTA_HWQ_ROW(struct overlap_options, compute_streams, "0", stream_counts,
                  "streams that compute; 0: all but the first"),
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
    if (run->ranks.world_size == 1) return "aorta launch -n 2 -- … makes the collectives real";
    return aorta_device_is_gpu(run->device) ? "NCCL_MAX_CTAS=8 gives products more multiprocessors" : NULL;
}

static const struct aorta_hwq_size on_cpu[] = {{"mm_dim", "192"}, {"comm_size", "1M"}, {0}};

const struct aorta_hwq_workload aorta_hwq_comms_compute_overlap = {
    .name = "comms_compute_overlap",
    .summary = "a collective and products share multiprocessors and memory: what each costs the other",
    .group = AORTA_HWQ_P1,
    .category = AORTA_HWQ_DISTRIBUTED,
    .sensitivity = AORTA_HWQ_HIGH,
    .min_streams = 1,
    .max_streams = 32,
    .recommended_streams = 4,
    .unit = "TFLOPS",
    .collectives = true,
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct overlap_options),
    .on_cpu = on_cpu,
    .try_of = try_of,
    .check = check,
    .priority = priority,
    .role = role,
    .setup = setup,
    .iterate = aorta_hwq_overlap_iterate,
    .work = work,
    .verify = verify,
    .report = aorta_hwq_overlap_report,
    .teardown = teardown,
};
