/* Routing of tokens to experts. */
#include "ops/check.h"
#include "ops/gpu/gpu.h"

#include <math.h>
#include <string.h>

enum { MOST_CHOICES = 8 };

static void choose(const struct aorta_route_args *a, int64_t token) {
    const int64_t experts = a->shape.experts, top = a->shape.top;
    const float *logits = a->logits + token * experts;
    int32_t *choices = a->choices + token * top;
    float *weights = a->weights + token * top, sum = 0.0f;
    for (int64_t k = 0; k < top; k++) {
        int32_t best = -1;
        for (int32_t e = 0; e < experts; e++) {
            bool taken = false;
            for (int64_t i = 0; i < k; i++) taken = taken || choices[i] == e;
            if (!taken && (best < 0 || logits[e] > logits[best])) best = e;
        }
        choices[k] = best;
        sum += weights[k] = expf(logits[best] - logits[choices[0]]);
    }
    for (int64_t k = 0; k < top; k++) weights[k] /= sum;
}

static aorta_status plan(const void *args) {
    const struct aorta_route_args *a = args;
    const struct aorta_route *s = &a->shape;
    for (int64_t token = 0; token < s->tokens; token++) choose(a, token);
    for (int64_t e = 0; e < s->experts; e++) a->loads[e] = 0;
    for (int64_t slot = 0; slot < s->experts * s->capacity; slot++) a->owners[slot] = -1;
    for (int64_t i = 0; i < s->tokens * s->top; i++) {
        const int64_t expert = a->choices[i], row = a->loads[expert]++;
        a->slots[i] = row < s->capacity ? (int32_t)(expert * s->capacity + row) : -1;
        if (a->slots[i] >= 0) a->owners[a->slots[i]] = (int32_t)(i / s->top);
    }
    return NULL;
}

static aorta_status dispatch(const void *args) {
    const struct aorta_route_args *a = args;
    const size_t bytes = (size_t)a->shape.width * sizeof(float);
    for (int64_t slot = 0; slot < a->shape.experts * a->shape.capacity; slot++) {
        float *to = a->y + slot * a->shape.width;
        if (a->owners[slot] >= 0)
            memcpy(to, a->x + a->owners[slot] * a->shape.width, bytes);
        else
            memset(to, 0, bytes);
    }
    return NULL;
}

static aorta_status combine(const void *args) {
    const struct aorta_route_args *a = args;
    const int64_t top = a->shape.top, width = a->shape.width;
    for (int64_t token = 0; token < a->shape.tokens; token++) {
        float *y = a->y + token * width;
        memset(y, 0, (size_t)width * sizeof(float));
        for (int64_t k = 0; k < top; k++) {
            const int32_t slot = a->slots[token * top + k];
            if (slot < 0) continue;
            const float weight = a->weights[token * top + k], *row = a->x + slot * width;
            for (int64_t i = 0; i < width; i++) y[i] += weight * row[i];
        }
    }
    return NULL;
}

static aorta_status route_plan_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_route_args *a = args;
    AORTA_TRY(aorta_ops_gpu_run(
        stream, AORTA_ENTRY_route_choose,
        aorta_ops_grid(aorta_ops_blocks(a->shape.tokens, AORTA_ROUTE_THREADS), AORTA_ROUTE_THREADS), a, sizeof *a));
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_route_place, aorta_ops_grid(a->shape.experts, AORTA_ROUTE_THREADS), a,
                             sizeof *a);
}

static aorta_status route_dispatch_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_route_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_route_dispatch,
                             aorta_ops_grid(a->shape.experts * a->shape.capacity, AORTA_ROUTE_THREADS), a, sizeof *a);
}

static aorta_status route_combine_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_route_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_route_combine, aorta_ops_grid(a->shape.tokens, AORTA_ROUTE_THREADS), a,
                             sizeof *a);
}

static const struct aorta_kernel plan_kernel = {"route_plan", plan, route_plan_gpu};
static const struct aorta_kernel dispatch_kernel = {"route_dispatch", dispatch, route_dispatch_gpu};
static const struct aorta_kernel combine_kernel = {"route_combine", combine, route_combine_gpu};

static aorta_status check_route(const char *operation, const struct aorta_route *shape) {
    AORTA_TRY(aorta_check_size(operation, "tokens", shape->tokens, 0));
    AORTA_TRY(aorta_check_size(operation, "top", shape->top, 1));
    AORTA_TRY(aorta_check_size(operation, "experts", shape->experts, shape->top));
    AORTA_TRY(aorta_check_size(operation, "capacity", shape->capacity, 1));
    AORTA_TRY(aorta_check_size(operation, "width", shape->width, 1));
    if (shape->top <= MOST_CHOICES && shape->tokens * shape->top < INT32_MAX &&
        shape->experts * shape->capacity < INT32_MAX)
        return NULL;
    return AORTA_ERROR(AORTA_INTERNAL,
                       "%s: %lld tokens, %lld experts of %lld rows, %lld choices (at most %d): too many", operation,
                       (long long)shape->tokens, (long long)shape->experts, (long long)shape->capacity,
                       (long long)shape->top, MOST_CHOICES);
}

aorta_status aorta_route_plan(struct aorta_stream *stream, const struct aorta_route_args *a) {
    AORTA_TRY(check_route(plan_kernel.name, &a->shape));
    AORTA_TRY(aorta_check_pointers(plan_kernel.name, AORTA_POINTERS({"logits", a->logits}, {"choices", a->choices},
                                                                    {"slots", a->slots}, {"owners", a->owners},
                                                                    {"loads", a->loads}, {"weights", a->weights})));
    return aorta_launch(stream, &plan_kernel, a, sizeof *a);
}

aorta_status aorta_route_dispatch(struct aorta_stream *stream, const struct aorta_route_args *a) {
    AORTA_TRY(check_route(dispatch_kernel.name, &a->shape));
    AORTA_TRY(
        aorta_check_pointers(dispatch_kernel.name, AORTA_POINTERS({"owners", a->owners}, {"x", a->x}, {"to", a->y})));
    return aorta_launch(stream, &dispatch_kernel, a, sizeof *a);
}

aorta_status aorta_route_combine(struct aorta_stream *stream, const struct aorta_route_args *a) {
    AORTA_TRY(check_route(combine_kernel.name, &a->shape));
    if (a->shape.tokens == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(
        combine_kernel.name, AORTA_POINTERS({"slots", a->slots}, {"weights", a->weights}, {"z", a->x}, {"y", a->y})));
    return aorta_launch(stream, &combine_kernel, a, sizeof *a);
}
