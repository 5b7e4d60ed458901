/* Collectives on stream 0, products on the others: what each costs the other, and what their overlap gains. */
#include "hwq/gaps.h"
#include "hwq/groups.h"
#include "hwq/pass.h"
#include "hwq/proof.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum mode { BOTH, COMPUTE_ONLY, COMMS_ONLY };
enum { SIDE_ITERATIONS = 10, INPUT = 500, CHECKED = 997 };

struct options {
    int mode, comp_dtype, comm_dtype, collective;
    const char *mm_dim, *comm_size, *process_groups;
    int64_t num_compute, num_coll, compute_streams;
    bool real_collectives, async_op;
};

struct state {
    int64_t shape[3];         /* M, N, K */
    int64_t bytes;            /* of the larger buffer of a rank, as nccl-tests count */
    size_t count;             /* elements as the collective takes them */
    int first, streams;       /* that compute */
    struct aorta_comm *comm;  /* NULL: this rank is in no group */
    struct aorta_comm *split; /* owned; NULL: comm is the world */
    struct aorta_hwq_group_list group;
    void *x[AORTA_HWQ_MAX_STREAMS], *weight[AORTA_HWQ_MAX_STREAMS], *y[AORTA_HWQ_MAX_STREAMS];
    void *send, *receive;
    bool compute, comms; /* which side is queued now */
};

/* ---- options ---- */

static aorta_status check(const struct aorta_hwq *hwq) {
    const struct options *o = hwq->options;
    struct aorta_hwq_group_list list;
    int64_t bytes, shape[3];
    AORTA_TRY(aorta_hwq_shape_parse("mm-dim", o->mm_dim, shape));
    AORTA_TRY(aorta_hwq_size_parse("comm-size", o->comm_size, &bytes));
    if (o->process_groups)
        AORTA_TRY(aorta_hwq_groups_parse(o->process_groups, hwq->ranks.rank, hwq->ranks.world_size, &list));
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

static aorta_status open_group(struct aorta_hwq *hwq, struct state *state) {
    const struct options *o = hwq->options;
    state->comm = hwq->world;
    if (!o->process_groups) {
        state->group.count = aorta_comm_size(hwq->world);
        for (int r = 0; r < state->group.count; r++) state->group.ranks[r] = r;
        return NULL;
    }
    AORTA_TRY(aorta_hwq_groups_parse(o->process_groups, hwq->ranks.rank, hwq->ranks.world_size, &state->group));
    AORTA_TRY(aorta_comm_split(hwq->world, state->group.ranks, state->group.count, &state->split));
    state->comm = state->split;
    return NULL;
}

/* nccl-tests: the size is that of the larger buffer. */
static aorta_status setup_comms(struct aorta_hwq *hwq, struct state *state) {
    const struct options *o = hwq->options;
    AORTA_TRY(open_group(hwq, state));
    if (!state->comm) return NULL;
    const size_t element = aorta_dtype_size((enum aorta_dtype)o->comm_dtype), ranks = (size_t)state->group.count;
    const bool whole = o->collective == AORTA_ALL_REDUCE;
    size_t elements = (size_t)state->bytes / element;
    if (!whole) elements -= elements % ranks;
    if (!elements)
        return AORTA_ERROR(AORTA_USAGE, "--comm-size %s: less than one element for each of %zu ranks", o->comm_size,
                           ranks);
    state->bytes = (int64_t)(elements * element);
    state->count = whole ? elements : elements / ranks;
    AORTA_TRY(aorta_hwq_alloc(hwq, elements * element, "what is sent", &state->send));
    AORTA_TRY(aorta_hwq_alloc(hwq, elements * element, "what is received", &state->receive));
    return aorta_hwq_fill(hwq, 0, INPUT + (uint64_t)hwq->ranks.rank, (enum aorta_dtype)o->comm_dtype, (int64_t)elements,
                          1.0f, state->send);
}

static aorta_status setup_compute(struct aorta_hwq *hwq, struct state *state) {
    const struct options *o = hwq->options;
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
    const struct options *o = hwq->options;
    const int most = hwq->stream_count > 1 ? hwq->stream_count - 1 : 1;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    AORTA_TRY(aorta_hwq_shape_parse("mm-dim", o->mm_dim, state->shape));
    AORTA_TRY(aorta_hwq_size_parse("comm-size", o->comm_size, &state->bytes));
    state->first = hwq->stream_count > 1 ? 1 : 0;
    state->streams = o->compute_streams ? (int)o->compute_streams : most;
    state->compute = o->mode != COMMS_ONLY;
    state->comms = o->mode != COMPUTE_ONLY;
    if (state->comms) AORTA_TRY(setup_comms(hwq, state));
    return state->compute ? setup_compute(hwq, state) : NULL;
}

static void teardown(struct aorta_hwq *hwq, void *opaque) {
    (void)hwq;
    aorta_comm_close(((struct state *)opaque)->split);
}

/* ---- iterations ---- */

static aorta_status queue_collective(struct aorta_hwq *hwq, const struct state *state) {
    const struct options *o = hwq->options;
    const enum aorta_dtype dtype = (enum aorta_dtype)o->comm_dtype;
    struct aorta_stream *stream = hwq->streams[0];
    aorta_status status;
    AORTA_TRY(
        aorta_hwq_begin(hwq, 0, AORTA_HWQ_COLLECTIVE, aorta_collective_name((enum aorta_collective)o->collective)));
    if (o->collective == AORTA_ALL_REDUCE)
        status = aorta_all_reduce(state->comm, stream, state->send, state->receive, state->count, dtype, AORTA_SUM);
    else if (o->collective == AORTA_REDUCE_SCATTER)
        status = aorta_reduce_scatter(state->comm, stream, state->send, state->receive, state->count, dtype, AORTA_SUM);
    else if (o->collective == AORTA_ALL_GATHER)
        status = aorta_all_gather(state->comm, stream, state->send, state->receive, state->count, dtype);
    else
        status = aorta_all_to_all(state->comm, stream, state->send, state->receive, state->count, dtype);
    return status ? status : aorta_hwq_end(hwq, 0);
}

static aorta_status queue_products(struct aorta_hwq *hwq, const struct state *state) {
    const struct options *o = hwq->options;
    const struct aorta_linear shape = {.dtype = (enum aorta_dtype)o->comp_dtype,
                                       .rows = state->shape[0],
                                       .in = state->shape[2],
                                       .out = state->shape[1]};
    for (int s = state->first; s < state->first + state->streams; s++) {
        AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_HWQ_GEMM, "product"));
        AORTA_TRY(aorta_linear_forward(hwq->streams[s], shape, state->x[s], state->weight[s], NULL, state->y[s]));
        AORTA_TRY(aorta_hwq_end(hwq, s));
    }
    return NULL;
}

/* Collectives first; with --async-op products and collectives in turn. */
static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    const struct state *state = opaque;
    const struct options *o = hwq->options;
    const int64_t products = state->compute ? o->num_compute : 0;
    const int64_t collectives = state->comms && state->comm ? o->num_coll : 0;
    int64_t p = 0, c = 0;
    while (p < products || c < collectives) {
        const bool turn = !o->async_op || p * collectives >= c * products;
        if (c < collectives && (turn || p == products)) {
            AORTA_TRY(queue_collective(hwq, state));
            c++;
        } else {
            AORTA_TRY(queue_products(hwq, state));
            p++;
        }
    }
    return NULL;
}

static double flops_of(const struct aorta_hwq *hwq, const struct state *state) {
    const struct options *o = hwq->options;
    const double m = (double)state->shape[0], n = (double)state->shape[1], k = (double)state->shape[2];
    return state->compute ? (double)(state->streams * o->num_compute) * 2.0 * m * n * k : 0.0;
}

static aorta_status work(struct aorta_hwq *hwq, void *opaque, int64_t iterations, double *amount) {
    *amount = (double)iterations * flops_of(hwq, opaque) * 1e-12;
    return NULL;
}

/* ---- both sides, alone and together ---- */

struct sides {
    struct aorta_hwq_samples compute, comms, total, product, collective; /* ns */
};

/* From the first start to the last end of one kind; 0: there is none. */
static int64_t extent(const struct aorta_hwq_spans *spans, int kind) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < spans->count; i++) {
        const struct aorta_hwq_span *span = &spans->items[i];
        if (kind >= 0 && (int)span->kind != kind) continue;
        if (span->start_ns < first) first = span->start_ns;
        if (span->end_ns > last) last = span->end_ns;
    }
    return last > first ? last - first : 0;
}

/* What did not run, or left no stamp, has no time. */
static aorta_status add_extent(struct aorta_hwq_samples *samples, const struct aorta_hwq_spans *spans, int kind) {
    const int64_t ns = extent(spans, kind);
    return ns ? aorta_hwq_samples_add(samples, (double)ns) : NULL;
}

static aorta_status see(void *user, const struct aorta_hwq_spans *spans) {
    struct sides *sides = user;
    AORTA_TRY(add_extent(&sides->compute, spans, AORTA_HWQ_GEMM));
    AORTA_TRY(add_extent(&sides->comms, spans, AORTA_HWQ_COLLECTIVE));
    AORTA_TRY(add_extent(&sides->total, spans, -1));
    for (size_t i = 0; i < spans->count; i++) {
        const struct aorta_hwq_span *span = &spans->items[i];
        struct aorta_hwq_samples *samples = span->kind == AORTA_HWQ_GEMM ? &sides->product : &sides->collective;
        AORTA_TRY(aorta_hwq_samples_add(samples, (double)(span->end_ns - span->start_ns)));
    }
    return NULL;
}

static void free_sides(struct sides *sides) {
    aorta_hwq_samples_free(&sides->compute);
    aorta_hwq_samples_free(&sides->comms);
    aorta_hwq_samples_free(&sides->total);
    aorta_hwq_samples_free(&sides->product);
    aorta_hwq_samples_free(&sides->collective);
}

struct side_times { /* ms, medians; NaN: that side is not there */
    double compute, comms, total, product, collective;
};

static aorta_status measure(struct aorta_hwq *hwq, struct state *state, bool compute, bool comms,
                            struct side_times *times) {
    const struct aorta_hwq_plan plan = {.iterations = SIDE_ITERATIONS, .iterate = iterate, .state = state};
    struct sides sides = {0};
    const bool kept_compute = state->compute, kept_comms = state->comms;
    state->compute = compute;
    state->comms = comms;
    aorta_status status = aorta_hwq_pass_stamp(hwq, &plan, see, &sides);
    state->compute = kept_compute;
    state->comms = kept_comms;
    const bool communicates = comms && state->comm;
    *times = (struct side_times){
        .compute = compute ? aorta_hwq_samples_median(&sides.compute) * 1e-6 : NAN,
        .comms = communicates ? aorta_hwq_samples_median(&sides.comms) * 1e-6 : NAN,
        .total = aorta_hwq_samples_median(&sides.total) * 1e-6,
        .product = compute ? aorta_hwq_samples_median(&sides.product) * 1e-6 : NAN,
        .collective = communicates ? aorta_hwq_samples_median(&sides.collective) * 1e-6 : NAN,
    };
    free_sides(&sides);
    return status;
}

static aorta_status say_bandwidth(struct aorta_hwq *hwq, const struct state *state, const char *which, double ms,
                                  struct aorta_hwq_result *result) {
    const struct options *o = hwq->options;
    const double factor = aorta_collective_bus_factor((enum aorta_collective)o->collective, state->group.count);
    const double algbw = (double)state->bytes / (ms * 1e6);
    const bool simulated = aorta_comm_simulated(state->comm);
    char name[64];
    result->figure_group = "bandwidth of one collective";
    snprintf(name, sizeof name, "algbw_%s", which);
    AORTA_TRY(aorta_hwq_result_figure(result, name, "GB/s", algbw, "no collective ran"));
    snprintf(name, sizeof name, "busbw_%s", which);
    return aorta_hwq_result_figure(result, name, "GB/s", simulated ? NAN : algbw * factor,
                                   simulated ? "one rank: no bus carries anything" : "no collective ran");
}

static aorta_status say_contention(const struct state *state, const struct side_times *alone,
                                   const struct side_times *both, struct aorta_hwq_result *result) {
    char name[96];
    snprintf(name, sizeof name, "gemm_%" PRId64 "x%" PRId64 "x%" PRId64 "_slowdown", state->shape[0], state->shape[1],
             state->shape[2]);
    result->figure_group = "one product";
    AORTA_TRY(aorta_hwq_result_figure(result, "gemm_alone_p50", "ms", alone->product, "no product ran"));
    AORTA_TRY(aorta_hwq_result_figure(result, "gemm_beside_p50", "ms", both->product, "no product ran"));
    return aorta_hwq_result_figure(result, name, "x", both->product / alone->product, "no product ran");
}

/* Which side pays for running beside the other, and whether the sum of both is the better for it. */
static aorta_status say_meaning(const struct side_times *compute, const struct side_times *comms,
                                const struct side_times *both, struct aorta_hwq_result *result) {
    const double sum = compute->compute + comms->comms, change = (sum - both->total) / sum;
    const double products = both->compute / compute->compute, collective = both->comms / comms->comms;
    if (!isfinite(change) || !isfinite(products) || !isfinite(collective)) return NULL;
    AORTA_TRY(aorta_hwq_result_say(
        result,
        "together %.4g ms instead of %.4g ms one after the other: %.0f%% %s; no overlap saves more than %.0f%%, "
        "the shorter side",
        both->total, sum, 100 * fabs(change), change < 0 ? "lost, overlap does not pay here" : "saved",
        100 * fmin(compute->compute, comms->comms) / sum));
    if (fmax(products, collective) < 1.1)
        return aorta_hwq_result_say(result,
                                    "neither side holds back the other (products take %.3g times as long as "
                                    "alone, collectives %.3g times)",
                                    products, collective);
    if (collective > products)
        return aorta_hwq_result_say(result,
                                    "the collectives pay: they take %.3g times as long as alone, held back by "
                                    "products, which take %.3g times as long",
                                    collective, products);
    return aorta_hwq_result_say(result,
                                "the products pay: they take %.3g times as long as alone, held back by "
                                "collectives, which take %.3g times as long",
                                products, collective);
}

/* gain: what running together saves of the sum of both; hidden: the share of the shorter side that it saves. */
static aorta_status say_overlap(const struct side_times *compute, const struct side_times *comms,
                                const struct side_times *both, struct aorta_hwq_result *result) {
    const double sum = compute->compute + comms->comms, saved = sum - both->total;
    const char *none = "a side did not run";
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
    AORTA_TRY(aorta_hwq_result_figure(result, "gain", "of the sum", saved / sum, none));
    AORTA_TRY(aorta_hwq_result_figure(result, "hidden", "of the shorter side",
                                      saved / fmin(compute->compute, comms->comms), none));
    return say_meaning(compute, comms, both, result);
}

/* A result's throughput is of products; of collectives where there is nothing else. */
static aorta_status report(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_result *result) {
    struct state *state = opaque;
    const struct options *o = hwq->options;
    struct side_times compute = {0}, comms = {0}, both;
    if (state->compute) AORTA_TRY(measure(hwq, state, true, false, &compute));
    if (state->comms) AORTA_TRY(measure(hwq, state, false, true, &comms));
    if (state->comms && state->comm) AORTA_TRY(say_bandwidth(hwq, state, "alone", comms.collective, result));
    if (o->mode == COMMS_ONLY) {
        const struct aorta_hwq_figure *bandwidth = aorta_hwq_result_find(result, "algbw_alone");
        result->throughput_unit = "GB/s";
        result->throughput = bandwidth ? bandwidth->value : NAN;
    }
    if (o->mode != BOTH || !state->comm) return NULL;
    AORTA_TRY(measure(hwq, state, true, true, &both));
    AORTA_TRY(say_bandwidth(hwq, state, "together", both.collective, result));
    AORTA_TRY(say_contention(state, &compute, &both, result));
    return say_overlap(&compute, &comms, &both, result);
}

/* ---- verification ---- */

static double tolerance_of(enum aorta_dtype dtype) {
    return dtype == AORTA_F32 ? 1e-5 : dtype == AORTA_F16 ? 2e-3 : 1e-2;
}

/* One value of what rank r sends, before rounding. */
static aorta_status sent(const struct aorta_hwq *hwq, const struct state *state, int member, int64_t index,
                         float *value) {
    return aorta_hwq_values(hwq, INPUT + (uint64_t)state->group.ranks[member], index, 1, 1.0f, value);
}

static aorta_status expect(const struct aorta_hwq *hwq, const struct state *state, int64_t i, double *value) {
    const int kind = ((const struct options *)hwq->options)->collective, me = aorta_comm_rank(state->comm);
    const int64_t count = (int64_t)state->count;
    float one;
    *value = 0.0;
    if (kind == AORTA_ALL_GATHER || kind == AORTA_ALL_TO_ALL) {
        const int from = (int)(i / count);
        AORTA_TRY(sent(hwq, state, from, i % count + (kind == AORTA_ALL_TO_ALL ? me * count : 0), &one));
        *value = (double)one;
        return NULL;
    }
    for (int r = 0; r < state->group.count; r++) {
        AORTA_TRY(sent(hwq, state, r, i + (kind == AORTA_REDUCE_SCATTER ? me * count : 0), &one));
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

static aorta_status prove_comms(struct aorta_hwq_proof *proof, const struct state *state) {
    struct aorta_hwq *hwq = proof->hwq;
    const struct options *o = hwq->options;
    const enum aorta_dtype dtype = (enum aorta_dtype)o->comm_dtype;
    const bool many = o->collective == AORTA_ALL_GATHER || o->collective == AORTA_ALL_TO_ALL;
    const int64_t count = (int64_t)state->count * (many ? state->group.count : 1);
    const int64_t step = count > CHECKED ? count / CHECKED : 1;
    const double allowed = tolerance_of(dtype) * state->group.count;
    float *wide = NULL;
    const float *got;
    aorta_status status = widen(hwq, state->receive, dtype, count, &wide);
    if (!status) status = aorta_hwq_fetch(proof, wide, count, &got);
    for (int64_t i = 0; i < count && !status; i += step) {
        double expected;
        status = expect(hwq, state, i, &expected);
        if (!status)
            aorta_hwq_compare(proof->check, (double)got[i], expected, allowed, allowed, "received[%" PRId64 "]", i);
    }
    aorta_device_free(hwq->device, wide);
    return status;
}

static aorta_status prove_product(struct aorta_hwq_proof *proof, const struct state *state, int s) {
    struct aorta_hwq *hwq = proof->hwq;
    const enum aorta_dtype dtype = (enum aorta_dtype)((const struct options *)hwq->options)->comp_dtype;
    const int64_t m = state->shape[0], n = state->shape[1], k = state->shape[2];
    struct aorta_hwq_layer layer = {.in = k, .out = n};
    float *x = NULL, *y = NULL;
    aorta_status status = widen(hwq, state->x[s], dtype, m * k, &x);
    if (!status) status = widen(hwq, state->weight[s], dtype, n * k, &layer.weight);
    if (!status) status = widen(hwq, state->y[s], dtype, m * n, &y);
    if (!status)
        status = aorta_hwq_prove_linear(proof, "product", &layer, m, x, y, AORTA_HWQ_PLAIN, tolerance_of(dtype));
    aorta_device_free(hwq->device, x);
    aorta_device_free(hwq->device, layer.weight);
    aorta_device_free(hwq->device, y);
    return status;
}

static aorta_status compare(struct aorta_hwq_proof *proof, void *opaque) {
    const struct state *state = opaque;
    if (state->comms && state->comm) AORTA_TRY(prove_comms(proof, state));
    for (int s = state->first; state->compute && s < state->first + state->streams; s++)
        AORTA_TRY(prove_product(proof, state, s));
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *found) {
    const struct aorta_hwq_results none = {0};
    struct state *state = opaque;
    const struct options *o = hwq->options;
    if (state->comm && state->comms)
        AORTA_TRY(aorta_fill_bytes(hwq->streams[0], state->receive, 0xFF, (size_t)state->bytes));
    for (int s = state->first; state->compute && s < state->first + state->streams; s++)
        AORTA_TRY(aorta_fill_bytes(hwq->streams[s], state->y[s], 0xFF,
                                   (size_t)(state->shape[0] * state->shape[1]) *
                                       aorta_dtype_size((enum aorta_dtype)o->comp_dtype)));
    return aorta_hwq_prove(hwq, found, &none, state, iterate, compare);
}

#define AT(field) offsetof(struct options, field)
static const struct aorta_range_limits counts = {.min = 1, .max = 10000};
static const struct aorta_range_limits stream_counts = {.min = 0, .max = AORTA_HWQ_MAX_STREAMS};
static const struct aorta_choice modes[] = {
    {"comms_compute", BOTH}, {"compute_only", COMPUTE_ONLY}, {"comms_only", COMMS_ONLY}, {0}};
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
    {.key = "mode",
     .type = AORTA_OPTION_CHOICE,
     .offset = AT(mode),
     .fallback = "comms_compute",
     .choices = modes,
     .help = "both sides, or one alone"},
    {.key = "mm_dim",
     .type = AORTA_OPTION_STRING,
     .offset = AT(mm_dim),
     .fallback = "4096",
     .help = "sizes M,N,K of a product; one value: all three"},
    AORTA_HWQ_ROW(struct options, num_compute, "10", counts, "products on each compute stream"),
    {.key = "comp_dtype",
     .type = AORTA_OPTION_CHOICE,
     .offset = AT(comp_dtype),
     .fallback = "float32",
     .choices = types,
     .help = "type of the products"},
    {.key = "comm_size",
     .type = AORTA_OPTION_STRING,
     .offset = AT(comm_size),
     .fallback = "128M",
     .help = "bytes of a collective, of the larger buffer of a rank: 65536, 64K, 128M, 1G"},
    AORTA_HWQ_ROW(struct options, num_coll, "1", counts, "collectives in an iteration"),
    {.key = "comm_dtype",
     .type = AORTA_OPTION_CHOICE,
     .offset = AT(comm_dtype),
     .fallback = "float32",
     .choices = types,
     .help = "type of what is sent"},
    {.key = "collective",
     .type = AORTA_OPTION_CHOICE,
     .offset = AT(collective),
     .fallback = "all_reduce",
     .choices = collectives,
     .help = "which collective"},
    AORTA_HWQ_ROW(struct options, compute_streams, "0", stream_counts, "streams that compute; 0: all but the first"),
    {.key = "real_collectives",
     .type = AORTA_OPTION_BOOL,
     .offset = AT(real_collectives),
     .fallback = "false",
     .help = "insist on several ranks: a copy on one rank is an error"},
    {.key = "async_op",
     .type = AORTA_OPTION_BOOL,
     .offset = AT(async_op),
     .fallback = "false",
     .help = "queue products and collectives in turn instead of the collectives first"},
    {.key = "process_groups",
     .type = AORTA_OPTION_STRING,
     .offset = AT(process_groups),
     .fallback = "null",
     .nullable = true,
     .help = "groups of ranks that communicate, as in \"[0,1],[2,3]\"; default: all ranks"},
};
#undef AT

const struct aorta_hwq_workload aorta_hwq_comms_compute_overlap = {
    .name = "comms_compute_overlap",
    .summary = "a collective and products fight for multiprocessors and memory: what each costs the other",
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
    .option_bytes = sizeof(struct options),
    .try_next =
        "NCCL_MAX_CTAS=8 gives products more multiprocessors; aorta launch -n 2 -- … makes the collectives real",
    .check = check,
    .priority = priority,
    .role = role,
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
    .report = report,
    .teardown = teardown,
};
