/* comms_compute_overlap, verified: every product, and what every group received. */
#include "hwq/workloads/comms_compute_overlap.h"

#include <inttypes.h>

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

aorta_status aorta_hwq_overlap_verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *found) {
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
