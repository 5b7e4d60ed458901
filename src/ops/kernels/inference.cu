/* Attention of a few queries against many keys, limited by reading keys and values from memory. 32 threads process one
 * key at a time, each up to four of its elements. Keys are distributed over the groups of a block and over blocks
 * (splits), whose running softmaxes are joined at the end. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/dropout.h"

#define AORTA_SHARED DEVICE
#include "ops/shared.h"

enum { GROUPS = AORTA_CACHE_THREADS / 32, SHARE = 4, AHEAD = 4 }; /* elements of a thread; keys in flight at once */

struct running {
    float greatest, sum, value[SHARE];
};

DEVICE void clear(running &r) {
    r.greatest = AORTA_LOWEST;
    r.sum = 0.0f;
    for (int i = 0; i < SHARE; i++) r.value[i] = 0.0f;
}

/* This thread's elements of a head's row. */
DEVICE void load_share(const float *row, int64_t dim, float value[SHARE]) {
#pragma unroll
    for (int i = 0; i < SHARE; i++) {
        const int at = (int)(threadIdx.x % 32) + 32 * i;
        value[i] = at < dim ? row[at] : 0.0f;
    }
}

/* Rows of key number t: the cache's, then the new ones. */
struct sequence {
    const float *keys, *values, *fresh;
    int64_t cached, row, fresh_row, width;
};
DEVICE const float *key_row(const sequence &s, int64_t t) {
    return t < s.cached ? s.keys + t * s.row : s.fresh + (t - s.cached) * s.fresh_row + s.width;
}
DEVICE const float *value_row(const sequence &s, int64_t t) {
    return t < s.cached ? s.values + t * s.row : s.fresh + (t - s.cached) * s.fresh_row + 2 * s.width;
}

/* Keys t, t + GROUPS, … `count` in all. `q` carries scale and the change to powers of two. */
DEVICE void take_keys(running &r, const sequence &s, const float q[SHARE], int64_t t, int count, int64_t dim) {
    float key[AHEAD][SHARE], value[AHEAD][SHARE], score[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
        const int64_t at = j < count ? t + j * GROUPS : t;
        load_share(key_row(s, at), dim, key[j]);
        load_share(value_row(s, at), dim, value[j]);
    }
    float greatest = r.greatest;
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
        float sum = 0.0f;
        for (int i = 0; i < SHARE; i++) sum += q[i] * key[j][i];
        score[j] = group_sum(sum);
        if (j >= count) score[j] = AORTA_LOWEST;
        greatest = greater(greatest, score[j]);
    }
    const float before = fast_exp2(r.greatest - greatest);
    r.sum *= before;
    for (int i = 0; i < SHARE; i++) r.value[i] *= before;
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
        const float weight = j < count ? fast_exp2(score[j] - greatest) : 0.0f;
        r.sum += weight;
        for (int i = 0; i < SHARE; i++) r.value[i] += weight * value[j][i];
    }
    r.greatest = greatest;
}

/* Grid: splits, heads, queries × batch. */
KERNEL(AORTA_CACHE_THREADS, cache_attend, aorta_gpu_cache_args) {
    __shared__ float sums[GROUPS][2], parts[GROUPS][AORTA_CACHE_DIM];
    const aorta_cache &c = a.op.shape;
    const int64_t dim = c.head_dim, width = c.heads * dim, column = blockIdx.y * dim;
    const int64_t query = blockIdx.z / c.batch, b = blockIdx.z % c.batch, own = a.op.first + query;
    const int lane = (int)(threadIdx.x % 32), group = (int)(threadIdx.x / 32);
    const int64_t place = b * c.window * width + column, cached = least(a.op.positions[b], c.window);
    const sequence s = {a.op.keys + place, a.op.values + place, a.op.qkv + b * 3 * width + column, cached, width,
                        c.batch * 3 * width, width};
    const int64_t begin = blockIdx.x * a.per_split, end = least(begin + a.per_split, cached + own + 1);
    float q[SHARE];
    load_share(s.fresh + own * s.fresh_row, dim, q);
    for (int i = 0; i < SHARE; i++) q[i] *= 1.44269504088896341f / sqrtf((float)dim);
    running r;
    clear(r);
    for (int64_t t = begin + group; t < end; t += AHEAD * GROUPS)
        take_keys(r, s, q, t, (int)least(divide_up(end - t, GROUPS), AHEAD), dim);
    if (lane == 0) {
        sums[group][0] = r.greatest;
        sums[group][1] = r.sum;
    }
    for (int i = 0; i < SHARE; i++) parts[group][lane + 32 * i] = r.value[i];
    __syncthreads();
    float greatest = AORTA_LOWEST, total = 0.0f;
    for (int g = 0; g < GROUPS; g++) greatest = greater(greatest, sums[g][0]);
    for (int g = 0; g < GROUPS; g++) total += sums[g][1] * fast_exp2(sums[g][0] - greatest);
    const int64_t pair = blockIdx.z * c.heads + blockIdx.y;
    float *partial = a.partial + (pair * gridDim.x + blockIdx.x) * (AORTA_CACHE_DIM + 2);
    for (int i = (int)threadIdx.x; i < dim; i += AORTA_CACHE_THREADS) {
        float value = 0.0f;
        for (int g = 0; g < GROUPS; g++) value += parts[g][i] * fast_exp2(sums[g][0] - greatest);
        if (gridDim.x == 1)
            a.op.out[(query * c.batch + b) * width + column + i] = value / total;
        else
            partial[i] = value;
    }
    if (threadIdx.x == 0 && gridDim.x > 1) {
        partial[AORTA_CACHE_DIM] = greatest;
        partial[AORTA_CACHE_DIM + 1] = total;
    }
}

/* Grid: heads, queries × batch. */
KERNEL(AORTA_CACHE_THREADS, cache_join, aorta_gpu_cache_args) {
    const aorta_cache &c = a.op.shape;
    const int64_t dim = c.head_dim, pair = blockIdx.y * c.heads + blockIdx.x, size = AORTA_CACHE_DIM + 2;
    const float *partial = a.partial + pair * a.splits * size;
    float greatest = AORTA_LOWEST, total = 0.0f, value = 0.0f;
    for (int64_t i = 0; i < a.splits; i++) greatest = greater(greatest, partial[i * size + AORTA_CACHE_DIM]);
    if (threadIdx.x >= dim) return;
    for (int64_t i = 0; i < a.splits; i++) {
        const float factor = fast_exp2(partial[i * size + AORTA_CACHE_DIM] - greatest);
        total += factor * partial[i * size + AORTA_CACHE_DIM + 1];
        value += factor * partial[i * size + threadIdx.x];
    }
    a.op.out[(blockIdx.y * c.heads + blockIdx.x) * dim + threadIdx.x] = value / total;
}

/* Grid: new rows, batch, layers. */
KERNEL(AORTA_CACHE_THREADS, cache_append, aorta_cache_append_args) {
    const aorta_cache &c = a.shape;
    const int64_t t = blockIdx.x, b = blockIdx.y, layer = blockIdx.z, width = c.heads * c.head_dim;
    if (a.counts && t >= a.counts[b]) return;
    const float *row = a.qkv + ((layer * c.fresh + t) * c.batch + b) * 3 * width;
    const int64_t place = ((layer * c.batch + b) * c.window + (a.positions[b] + t) % c.window) * width;
    for (int64_t i = threadIdx.x; i < width; i += AORTA_CACHE_THREADS) {
        a.keys[place + i] = row[width + i];
        a.values[place + i] = row[2 * width + i];
    }
}

KERNEL(AORTA_CACHE_THREADS, cache_advance, aorta_cache_advance_args) {
    for (int64_t b = threadIdx.x; b < a.batch; b += AORTA_CACHE_THREADS)
        a.positions[b] += a.counts ? a.counts[b] : a.count;
}

/* ---- drawing tokens; a block works on a row of logits. src/ops/inference.c does the same in a few lines ---- */

enum { ACCEPT_SITE = 0xACCE, REST_SITE = 0x4E57 };

/* The four words of numbers 4·group … 4·group + 3. */
DEVICE philox words_of(uint64_t seed, int64_t group, int64_t row, uint32_t site, int64_t step) {
    return philox4x32_10(philox{{(uint32_t)group, (uint32_t)row, site, (uint32_t)step}}, (uint32_t)seed, (uint32_t)(seed >> 32));
}

DEVICE float row_logsum(const float *x, int64_t count) {
    float most = AORTA_LOWEST, sum = 0.0f;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) most = greater(most, x[i]);
    most = block_greatest(most);
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += natural_exp(x[i] - most);
    return natural_log(block_total(sum)) + most;
}

KERNEL(AORTA_SAMPLE_THREADS, sample_rows, aorta_sample_args) {
    const int64_t row = blockIdx.x, step = a.step ? *a.step : 0;
    const float *x = a.x + row * a.vocab;
    const float logsum = row_logsum(x, a.vocab);
    if (threadIdx.x == 0) a.logsums[row] = logsum;
    if (!a.tokens) return;
    placed best = {AORTA_LOWEST, UINT32_MAX};
    for (int64_t group = threadIdx.x; group * 4 < a.vocab; group += blockDim.x) {
        const philox words = words_of(a.seed, group, row, a.site, step);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t at = group * 4 + i;
            if (at >= a.vocab) continue;
            const float score = x[at] - natural_log(aorta_draw_exponential(words.word[i]));
            best = better(best, placed{score, (uint32_t)at});
        }
    }
    best = block_best(best);
    if (threadIdx.x == 0) a.tokens[row] = best.place;
}

/* How many of the proposed tokens are accepted. */
DEVICE int64_t accepted_of(const aorta_accept_args &a, int64_t b, int64_t step) {
    int64_t at = 0;
    for (; at < a.shape.drafted; at++) {
        const int64_t row = at * a.shape.batch + b, token = a.tokens[row];
        const float p = a.p[row * a.shape.vocab + token] - a.p_logsums[row];
        const float q = a.q[row * a.shape.vocab + token] - a.q_logsums[row];
        const uint32_t word = words_of(a.shape.seed, at / 4, b, ACCEPT_SITE, step).word[at % 4];
        if (aorta_draw_uniform(word) >= natural_exp(p - q)) break;
    }
    return at;
}

DEVICE int64_t draw_rest(const aorta_accept_args &a, int64_t b, int64_t at, int64_t step) {
    const int64_t vocab = a.shape.vocab, row = at * a.shape.batch + b;
    const bool all = at == a.shape.drafted;
    const float *p = a.p + row * vocab, *q = a.q + (all ? 0 : row * vocab);
    const float p_logsum = a.p_logsums[row], q_logsum = all ? 0.0f : a.q_logsums[row];
    placed best = {AORTA_LOWEST, UINT32_MAX};
    for (int64_t group = threadIdx.x; group * 4 < vocab; group += blockDim.x) {
        const philox words = words_of(a.shape.seed, group, b, REST_SITE, step);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t token = group * 4 + i;
            if (token >= vocab) continue;
            const float rest = natural_exp(p[token] - p_logsum) - (all ? 0.0f : natural_exp(q[token] - q_logsum));
            if (rest <= 0.0f) continue;
            const float score = natural_log(rest) - natural_log(aorta_draw_exponential(words.word[i]));
            best = better(best, placed{score, (uint32_t)token});
        }
    }
    best = block_best(best);
    return best.place == UINT32_MAX ? 0 : best.place;
}

/* A block takes a sequence; the step is advanced after all of them. */
KERNEL(AORTA_SAMPLE_THREADS, accept_tokens, aorta_accept_args) {
    const int64_t step = *a.step, b = blockIdx.x, at = accepted_of(a, b, step), next = draw_rest(a, b, at, step);
    if (threadIdx.x > 0) return;
    a.next[b] = next;
    a.accepted[b] = (int32_t)at;
    a.counts[b] = (int32_t)at + 1;
    a.totals[b] += at;
}

/* ---- the largest elements of rows, and rows of length one; a block works on a row ---- */

KERNEL(AORTA_ROW_THREADS, top_places, aorta_top_args) {
    __shared__ float value[AORTA_TOP_WIDTH];
    const int64_t row = blockIdx.x;
    for (int i = (int)threadIdx.x; i < a.width; i += AORTA_ROW_THREADS) value[i] = a.x[row * a.width + i];
    __syncthreads();
    for (int64_t k = 0; k < a.top; k++) {
        placed best = {AORTA_LOWEST, UINT32_MAX};
        for (int i = (int)threadIdx.x; i < a.width; i += AORTA_ROW_THREADS)
            best = better(best, placed{value[i], (uint32_t)i});
        best = block_best(best);
        if (threadIdx.x == 0) {
            a.places[row * a.top + k] = best.place;
            a.values[row * a.top + k] = best.value;
            value[best.place] = AORTA_LOWEST;
        }
        __syncthreads();
    }
}

KERNEL(AORTA_ROW_THREADS, normalise_rows, aorta_normalise_args) {
    const float *x = a.x + blockIdx.x * a.width;
    float *y = a.y + blockIdx.x * a.width, square = 0.0f;
    for (int64_t i = threadIdx.x; i < a.width; i += AORTA_ROW_THREADS) square += x[i] * x[i];
    const float inverse = 1.0f / greater(sqrtf(block_total(square)), 1e-8f);
    for (int64_t i = threadIdx.x; i < a.width; i += AORTA_ROW_THREADS) y[i] = x[i] * inverse;
}

/* ---- routing of tokens to experts ---- */

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
    const int expert = (int)blockIdx.x, t = (int)threadIdx.x;
    const int64_t count = a.shape.tokens * a.shape.top, stretch = divide_up(count, AORTA_ROUTE_THREADS);
    const int64_t begin = least(t * stretch, count), end = least(begin + stretch, count);
    const int64_t capacity = a.shape.capacity, first_slot = expert * capacity;
    int32_t own = 0, load;
    for (int64_t i = begin; i < end; i++) own += a.choices[i] == expert ? 1 : 0;
    int64_t row = sum_before<int32_t, AORTA_ROUTE_THREADS, AORTA_ROUTE_THREADS>(own, &load);
    if (t == 0) a.loads[expert] = load;
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
