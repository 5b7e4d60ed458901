/* Routing of tokens to experts. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/reduce.h"

/* A thread takes a token. */
KERNEL(AORTA_ROUTE_THREADS, route_choose, aorta_route_args) {
    const int64_t token = (int64_t)blockIdx.x * AORTA_ROUTE_THREADS + threadIdx.x, top = a.shape.top;
    if (token >= a.shape.tokens) return;
    const float *logits = a.logits + token * a.shape.experts;
    int32_t *choices = a.choices + token * top;
    float *weights = a.weights + token * top, sum = 0.0f, first = 0.0f;
    for (int64_t k = 0; k < top; k++) {
        float most = 0.0f;
        int32_t best = -1;
        for (int32_t e = 0; e < (int32_t)a.shape.experts; e++) {
            bool taken = false;
            for (int64_t i = 0; i < k; i++) taken = taken || choices[i] == e;
            if (taken || (best >= 0 && !(logits[e] > most))) continue;
            best = e;
            most = logits[e];
        }
        if (k == 0) first = most;
        choices[k] = best;
        weights[k] = natural_exp(most - first);
        sum += weights[k];
    }
    for (int64_t k = 0; k < top; k++) weights[k] /= sum;
}

/* A block takes an expert and walks over all choices, each thread over its own part, so that rows are given in
 * the order of the tokens. */
KERNEL(AORTA_ROUTE_THREADS, route_place, aorta_route_args) {
    __shared__ int32_t before[AORTA_ROUTE_THREADS];
    const int expert = (int)blockIdx.x, t = (int)threadIdx.x;
    const int64_t count = a.shape.tokens * a.shape.top, stretch = divide_up(count, AORTA_ROUTE_THREADS);
    const int64_t begin = least(t * stretch, count), end = least(begin + stretch, count);
    const int64_t capacity = a.shape.capacity, first_slot = expert * capacity;
    int32_t own = 0;
    for (int64_t i = begin; i < end; i++) own += a.choices[i] == expert ? 1 : 0;
    before[t] = own;
    __syncthreads();
    for (int step = 1; step < AORTA_ROUTE_THREADS; step *= 2) { /* sums of ever more neighbours */
        const int32_t left = t >= step ? before[t - step] : 0;
        __syncthreads();
        before[t] += left;
        __syncthreads();
    }
    int64_t row = before[t] - own;
    const int64_t load = before[AORTA_ROUTE_THREADS - 1];
    if (t == 0) a.loads[expert] = (int32_t)load;
    for (int64_t i = begin; i < end; i++) {
        if (a.choices[i] != expert) continue;
        a.slots[i] = row < capacity ? (int32_t)(first_slot + row) : -1;
        if (row < capacity) a.owners[first_slot + row] = (int32_t)(i / a.shape.top);
        row++;
    }
    for (int64_t i = load + t; i < capacity; i += AORTA_ROUTE_THREADS) a.owners[first_slot + i] = -1;
}

/* A block takes a row. */
KERNEL(AORTA_ROUTE_THREADS, route_dispatch, aorta_route_args) {
    const int64_t slot = blockIdx.x, width = a.shape.width;
    const int32_t token = a.owners[slot];
    const float *x = a.x + (token < 0 ? 0 : token) * width;
    float *y = a.y + slot * width;
    for (int64_t i = threadIdx.x * 8; i < width; i += AORTA_ROUTE_THREADS * 8) {
        const int count = within(i, width, 8);
        float value[8] = {};
        if (token >= 0) load8(x + i, count, value);
        store8(y + i, count, value);
    }
}

KERNEL(AORTA_ROUTE_THREADS, route_combine, aorta_route_args) {
    const int64_t token = blockIdx.x, width = a.shape.width, top = a.shape.top;
    for (int64_t i = threadIdx.x * 8; i < width; i += AORTA_ROUTE_THREADS * 8) {
        const int count = within(i, width, 8);
        float sum[8] = {};
        for (int64_t k = 0; k < top; k++) {
            const int32_t slot = a.slots[token * top + k];
            if (slot < 0) continue;
            const float weight = a.weights[token * top + k];
            float value[8];
            load8(a.x + slot * width + i, count, value);
            for (int j = 0; j < 8; j++) sum[j] += weight * value[j];
        }
        store8(a.y + token * width + i, count, sum);
    }
}
