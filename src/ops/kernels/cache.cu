/* Attention of a few queries against many keys: what counts is that keys and values stream in from memory. 32 threads
 * take a key at a time, each a quarter or less of its elements; keys are distributed over the groups of a block and
 * blocks (splits), whose running softmaxes are put together at the end. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/reduce.h"

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
