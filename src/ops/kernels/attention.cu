/* Attention without the matrix of weights in memory. Tiles of it are computed, used and discarded, in forward with a
 * running maximum and sum (Dao et al., "FlashAttention", NeurIPS 2022; two backward passes, one over queries and one
 * over keys, so that no two blocks write to one place). Backward needs one number per row, and one bit per
 * weight that says whether dropout keeps it.
 *
 * AORTA_HEAD_DIM is defined when kernels for one width of heads are wanted; else all are made. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/dropout.h"
#include "ops/kernels/matrix.h"

#define MINUS_INFINITY float_of_bits(0xFF800000u)

/* Sizes: D is the padded width of a head, a tile is TILE rows of it. Rows in shared memory are padded by 16 bytes, so
 * that the rows of a piece use different banks. */
template <typename T, int D> struct layout {
    enum {
        TILE = AORTA_ATTENTION_TILE(D, sizeof(T)),
        THREADS = 2 * TILE,
        PAD = 16 / sizeof(T),
        STRIDE = D + PAD,
        WEIGHT_STRIDE = TILE + PAD
    };
};

/* One head of one sequence. */
struct head {
    int64_t positions, dim, width; /* width E: elements of a row of `out` */
    int64_t first, column;         /* row of its first position, column of its first element */
    int64_t index;                 /* among all heads of the batch */
    bool whole;                    /* rows can be moved 16 bytes at a time */
    float scale;                   /* 1/√dim */
};

DEVICE head head_begin(const aorta_attention &shape, int64_t index, const void *some, const void *other) {
    const uint32_t sequence = (uint32_t)index / (uint32_t)shape.heads; /* blocks are counted in 32 bits */
    const int64_t row = sequence * shape.positions, column = (index - sequence * shape.heads) * shape.head_dim;
    const bool whole = shape.head_dim % 8 == 0 && aligned16(some) && aligned16(other);
    return head{shape.positions, shape.head_dim, shape.heads * shape.head_dim,       row, column,
                index,           whole,          1.0f / sqrtf((float)shape.head_dim)};
}

/* Address of the head's part of a row: tensors have `parts` = 3 for qkv, 1 else. */
template <typename T> DEVICE T *at(T *base, const head &h, int64_t position, int parts, int part) {
    return base + ((h.first + position) * parts + part) * h.width + h.column;
}

/* A tile of rows from `position` on into shared memory, zeros beyond the last position and beyond the width. */
template <typename T, int D>
DEVICE void load_tile(T *tile, const T *base, const head &h, int64_t position, int parts, int part) {
    typedef layout<T, D> L;
    enum { CHUNKS = D / 8, COUNT = L::TILE * CHUNKS };
#pragma unroll
    for (int i = 0; i < COUNT / L::THREADS; i++) {
        const int chunk = i * L::THREADS + (int)threadIdx.x, row = chunk / CHUNKS, column = chunk % CHUNKS * 8;
        T *to = tile + row * L::STRIDE + column;
        const bool inside = position + row < h.positions;
        const T *from = at(base, h, position + row, parts, part) + column;
        const int count = inside ? within(column, h.dim, 8) : 0;
        bytes16 *wide = reinterpret_cast<bytes16 *>(to);
        if (h.whole || count == 0) {
            for (size_t j = 0; j < 8 * sizeof(T) / 16; j++)
                wide[j] = count > 0 ? reinterpret_cast<const bytes16 *>(from)[j] : bytes16{{0, 0, 0, 0}};
        } else {
            for (int j = 0; j < 8; j++) to[j] = j < count ? from[j] : from_float<T>(0.0f);
        }
    }
}

template <typename T> struct alignas(2 * sizeof(T)) pair { T left, right; };

/* The 16 rows of this thread's group, from `position` on, times `factor`, into memory. */
template <typename T, int D>
DEVICE void store_rows(T *base, const head &h, int64_t position, int parts, int part, const product<D> &value,
                       const float factor[2]) {
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t row = position + part_row(2 * half);
            const int column = n * 8 + part_column(0);
            if (row >= h.positions || column >= h.dim) continue;
            T *to = at(base, h, row, parts, part) + column;
            const pair<T> both = {from_float<T>(value.part[n][2 * half] * factor[half]),
                               from_float<T>(value.part[n][2 * half + 1] * factor[half])};
            if (h.whole) {
                *reinterpret_cast<pair<T> *>(to) = both;
            } else {
                to[0] = both.left;
                if (column + 1 < h.dim) to[1] = both.right;
            }
        }
}

/* Weights into this group's rows of shared memory, as the left side of the next product. */
template <typename T, int TILE, int STRIDE> DEVICE void store_weights(T *rows, const product<TILE> &value) {
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const pair<T> both = {from_float<T>(value.part[n][2 * half]), from_float<T>(value.part[n][2 * half + 1])};
            *reinterpret_cast<pair<T> *>(rows + part_row(2 * half) * STRIDE + n * 8 + part_column(0)) = both;
        }
}

/* Over the four threads that share a row. */
DEVICE float row_sum(float value) {
    value += shuffle_xor(value, 1);
    return value + shuffle_xor(value, 2);
}
DEVICE float row_max(float value) {
    const float other = shuffle_xor(value, 1);
    value = other > value ? other : value;
    const float third = shuffle_xor(value, 2);
    return third > value ? third : value;
}

/* ---- dropout: which of 16 weights of a row are not dropped, as bits; mask[0] for the thread's upper row, mask[1] for
 * its lower one ---- */

DEVICE uint32_t keeps_one(const dropout &d, int64_t index) {
    return dropout_keeps(d, dropout_block(d, (uint64_t)index / 8), (int)(index % 8)) ? 1u : 0u;
}

/* `row` is the thread's upper row, `key` the first of the 16, both within the head. When rows are a whole number of
 * blocks of random numbers, each of a row's four threads makes one block: for the upper or the lower row, the left or
 * the right eight weights. */
DEVICE void make_mask(const dropout &d, const head &h, int64_t row, int64_t key, uint32_t mask[2]) {
    const int64_t upper = (h.index * h.positions + row) * h.positions + key, lower = upper + 8 * h.positions;
    const int quarter = lane_index() % 4;
    if (h.positions % 8 == 0) {
        const int64_t mine = (quarter < 2 ? upper : lower) + quarter % 2 * 8;
        const philox samples = dropout_block(d, (uint64_t)mine / 8);
        uint32_t bits = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) bits |= dropout_keeps(d, samples, i) ? 1u << i : 0u;
        bits <<= quarter % 2 * 8;
        bits |= shuffle_xor(bits, 1);
        const uint32_t other = shuffle_xor(bits, 2);
        mask[0] = quarter < 2 ? bits : other;
        mask[1] = quarter < 2 ? other : bits;
        return;
    }
    mask[0] = mask[1] = 0;
    for (int i = 0; i < 4; i++) {
        const int column = i / 2 * 8 + quarter * 2 + i % 2;
        mask[0] |= keeps_one(d, upper + column) << column;
        mask[1] |= keeps_one(d, lower + column) << column;
    }
    for (int i = 0; i < 2; i++) {
        mask[i] |= shuffle_xor(mask[i], 1);
        mask[i] |= shuffle_xor(mask[i], 2);
    }
}

DEVICE int64_t mask_place(const aorta_gpu_attention_args &a, const head &h, int64_t row, int64_t key) {
    return (h.index * a.units + key / 16) * a.units * 16 + row;
}

DEVICE void store_mask(const aorta_gpu_attention_args &a, const head &h, int64_t row, int64_t key,
                       const uint32_t mask[2]) {
    const int quarter = lane_index() % 4;
    const int64_t mine = row + quarter / 2 * 8;
    if (quarter % 2 != 0 || mine >= h.positions || key >= h.positions) return;
    a.mask[mask_place(a, h, mine, key)] = (uint16_t)(quarter < 2 ? mask[0] : mask[1]);
}

DEVICE uint32_t load_mask(const aorta_gpu_attention_args &a, const head &h, int64_t row, int64_t key) {
    if (row >= h.positions || key >= h.positions) return 0;
    return a.mask[mask_place(a, h, row, key)];
}

/* ---- forward ---- */

template <typename T, int D> DEVICE void forward(const aorta_gpu_attention_args &a) {
    typedef layout<T, D> L;
    alignas(16) __shared__ T query[L::TILE * L::STRIDE], key[L::TILE * L::STRIDE], value[L::TILE * L::STRIDE];
    alignas(16) __shared__ T weights[L::TILE * L::WEIGHT_STRIDE];
    const int64_t tiles = divide_up(a.op.shape.positions, L::TILE);
    const head h = head_begin(a.op.shape, blockIdx.x / tiles, a.op.qkv, a.op.out);
    const int group = (int)threadIdx.x / 32 * 16;
    const int64_t first = blockIdx.x % tiles * L::TILE, row = first + group + part_row(0);
    const dropout drop = dropout_begin(a.op.shape.dropout, a.op.shape.rng);
    const float scale = h.scale * 1.44269504088896341f; /* powers of two are what processors compute */
    const T *qkv = (const T *)a.op.qkv;
    load_tile<T, D>(query, qkv, h, first, 3, 0);
    product<D> out;
    clear(out);
    float greatest[2] = {MINUS_INFINITY, MINUS_INFINITY}, sum[2] = {0.0f, 0.0f};
    for (int64_t other = 0; other < h.positions; other += L::TILE) {
        __syncthreads();
        load_tile<T, D>(key, qkv, h, other, 3, 1);
        load_tile<T, D>(value, qkv, h, other, 3, 2);
        __syncthreads();
        product<L::TILE> p;
        clear(p);
        add_product_of_rows<D>(p, query + group * L::STRIDE, L::STRIDE, key, L::STRIDE);
        float now[2] = {greatest[0], greatest[1]};
#pragma unroll
        for (int n = 0; n < L::TILE / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const bool inside = other + n * 8 + part_column(i) < h.positions;
                const float score = inside ? p.part[n][i] * scale : MINUS_INFINITY;
                p.part[n][i] = score;
                now[i / 2] = score > now[i / 2] ? score : now[i / 2];
            }
        float less[2]; /* factors of earlier tiles under the new maximum */
        for (int half = 0; half < 2; half++) {
            now[half] = row_max(now[half]);
            less[half] = fast_exp2(greatest[half] - now[half]);
            greatest[half] = now[half];
            sum[half] *= less[half];
        }
#pragma unroll
        for (int n = 0; n < L::TILE / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                p.part[n][i] = fast_exp2(p.part[n][i] - greatest[i / 2]);
                sum[i / 2] += p.part[n][i];
            }
        if (drop.threshold) {
#pragma unroll
            for (int n = 0; n < L::TILE / 8; n += 2) {
                uint32_t mask[2];
                make_mask(drop, h, row, other + n * 8, mask);
                store_mask(a, h, row, other + n * 8, mask);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const int bit = i / 4 * 8 + part_column(i % 4);
                    p.part[n + i / 4][i % 4] *= mask[i % 4 / 2] >> bit & 1u ? drop.scale : 0.0f;
                }
            }
        }
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            for (int i = 0; i < 4; i++) out.part[n][i] *= less[i / 2];
        T *mine = weights + group * L::WEIGHT_STRIDE;
        store_weights<T, L::TILE, L::WEIGHT_STRIDE>(mine, p);
        group_sync();
        add_product<L::TILE>(out, mine, L::WEIGHT_STRIDE, value, L::STRIDE);
    }
    float factor[2];
    for (int half = 0; half < 2; half++) {
        sum[half] = row_sum(sum[half]);
        factor[half] = 1.0f / sum[half];
        const int64_t position = row + half * 8;
        if (lane_index() % 4 == 0 && position < h.positions)
            a.logsum[h.index * h.positions + position] = greatest[half] + log2f(sum[half]);
    }
    store_rows<T, D>((T *)a.op.out, h, first + group, 1, 0, out, factor);
}

/* ---- backward: with p the weights, m the dropout's factors, dp = m∘(dout·vᵀ):
 * dv = (m∘p)ᵀ·dout, ds = p∘(dp − Σ_row dout∘out)·scale, dq = ds·k, dk = dsᵀ·q ---- */

/* Σ dout∘out of each row of the tile: two threads to a row. */
template <typename T, int D>
DEVICE void row_products(const aorta_gpu_attention_args &a, const head &h, int64_t first, const T *dout, float *along) {
    typedef layout<T, D> L;
    const int row = (int)threadIdx.x / 2;
    const bool inside = first + row < h.positions;
    const T *out = at((const T *)a.op.out_in, h, first + row, 1, 0);
    float sum = 0.0f;
    for (int column = (int)threadIdx.x % 2 * 8; column < h.dim; column += 16) {
        float value[8];
        const int count = inside ? within(column, h.dim, 8) : 0;
        load8(out + column, count, value);
        for (int i = 0; i < 8; i++) sum += i < count ? value[i] * to_float(dout[row * L::STRIDE + column + i]) : 0.0f;
    }
    sum += shuffle_xor(sum, 1);
    if (threadIdx.x % 2 != 0) return;
    along[row] = sum;
    if (inside) a.along[h.index * h.positions + first + row] = sum;
}

template <typename T, int D> DEVICE void backward_queries(const aorta_gpu_attention_args &a) {
    typedef layout<T, D> L;
    alignas(16) __shared__ T query[L::TILE * L::STRIDE], dout[L::TILE * L::STRIDE];
    alignas(16) __shared__ T key[L::TILE * L::STRIDE], value[L::TILE * L::STRIDE];
    alignas(16) __shared__ T weights[L::TILE * L::WEIGHT_STRIDE];
    __shared__ float along[L::TILE];
    const int64_t tiles = divide_up(a.op.shape.positions, L::TILE);
    head h = head_begin(a.op.shape, blockIdx.x / tiles, a.op.qkv, a.op.dout);
    h.whole = h.whole && aligned16(a.op.dqkv);
    const int group = (int)threadIdx.x / 32 * 16;
    const int64_t first = blockIdx.x % tiles * L::TILE, row = first + group + part_row(0);
    const dropout drop = dropout_begin(a.op.shape.dropout, a.op.shape.rng);
    const float scale = h.scale * 1.44269504088896341f;
    const T *qkv = (const T *)a.op.qkv;
    load_tile<T, D>(query, qkv, h, first, 3, 0);
    load_tile<T, D>(dout, (const T *)a.op.dout, h, first, 1, 0);
    __syncthreads();
    row_products<T, D>(a, h, first, dout, along);
    __syncthreads();
    float logsum[2], mine[2];
    for (int half = 0; half < 2; half++) {
        const int64_t position = row + half * 8;
        logsum[half] = position < h.positions ? a.logsum[h.index * h.positions + position] : 0.0f;
        mine[half] = along[group + part_row(2 * half)];
    }
    product<D> dquery;
    clear(dquery);
    for (int64_t other = 0; other < h.positions; other += L::TILE) {
        __syncthreads();
        load_tile<T, D>(key, qkv, h, other, 3, 1);
        load_tile<T, D>(value, qkv, h, other, 3, 2);
        __syncthreads();
        product<L::TILE> p, dp;
        clear(p);
        clear(dp);
        add_product_of_rows<D>(p, query + group * L::STRIDE, L::STRIDE, key, L::STRIDE);
        add_product_of_rows<D>(dp, dout + group * L::STRIDE, L::STRIDE, value, L::STRIDE);
#pragma unroll
        for (int n = 0; n < L::TILE / 8; n += 2) {
            uint32_t mask[2] = {0xFFFFu, 0xFFFFu};
            if (drop.threshold)
                for (int half = 0; half < 2; half++) mask[half] = load_mask(a, h, row + half * 8, other + n * 8);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int bit = i / 4 * 8 + part_column(i % 4), half = i % 4 / 2;
                const bool inside = other + n * 8 + bit < h.positions;
                float &score = p.part[n + i / 4][i % 4], &slope = dp.part[n + i / 4][i % 4];
                const float weight = inside ? fast_exp2(score * scale - logsum[half]) : 0.0f;
                const float factor = mask[half] >> bit & 1u ? drop.scale : 0.0f;
                score = weight * (slope * factor - mine[half]) * h.scale;
            }
        }
        T *left = weights + group * L::WEIGHT_STRIDE;
        store_weights<T, L::TILE, L::WEIGHT_STRIDE>(left, p);
        group_sync();
        add_product<L::TILE>(dquery, left, L::WEIGHT_STRIDE, key, L::STRIDE);
    }
    const float one[2] = {1.0f, 1.0f};
    store_rows<T, D>((T *)a.op.dqkv, h, first + group, 3, 0, dquery, one);
}

template <typename T, int D> DEVICE void backward_keys(const aorta_gpu_attention_args &a) {
    typedef layout<T, D> L;
    alignas(16) __shared__ T query[L::TILE * L::STRIDE], dout[L::TILE * L::STRIDE];
    alignas(16) __shared__ T key[L::TILE * L::STRIDE], value[L::TILE * L::STRIDE];
    alignas(16) __shared__ T weights[L::TILE * L::WEIGHT_STRIDE];
    __shared__ float logsum[L::TILE], along[L::TILE];
    const int64_t tiles = divide_up(a.op.shape.positions, L::TILE);
    head h = head_begin(a.op.shape, blockIdx.x / tiles, a.op.qkv, a.op.dout);
    h.whole = h.whole && aligned16(a.op.dqkv);
    const int group = (int)threadIdx.x / 32 * 16;
    const int64_t first = blockIdx.x % tiles * L::TILE;
    const dropout drop = dropout_begin(a.op.shape.dropout, a.op.shape.rng);
    const float scale = h.scale * 1.44269504088896341f;
    const T *qkv = (const T *)a.op.qkv;
    load_tile<T, D>(key, qkv, h, first, 3, 1);
    load_tile<T, D>(value, qkv, h, first, 3, 2);
    product<D> dkey, dvalue;
    clear(dkey);
    clear(dvalue);
    for (int64_t other = 0; other < h.positions; other += L::TILE) {
        __syncthreads();
        load_tile<T, D>(query, qkv, h, other, 3, 0);
        load_tile<T, D>(dout, (const T *)a.op.dout, h, other, 1, 0);
        if (threadIdx.x < (unsigned)L::TILE) {
            const int64_t position = other + threadIdx.x;
            const bool inside = position < h.positions;
            logsum[threadIdx.x] = inside ? a.logsum[h.index * h.positions + position] : 0.0f;
            along[threadIdx.x] = inside ? a.along[h.index * h.positions + position] : 0.0f;
        }
        __syncthreads();
        product<L::TILE> p, dp; /* rows are keys, columns are queries */
        clear(p);
        clear(dp);
        add_product_of_rows<D>(p, key + group * L::STRIDE, L::STRIDE, query, L::STRIDE);
        add_product_of_rows<D>(dp, value + group * L::STRIDE, L::STRIDE, dout, L::STRIDE);
#pragma unroll
        for (int n = 0; n < L::TILE / 8; n++)
#pragma unroll
            for (int side = 0; side < 2; side++) {
                const int column = n * 8 + part_column(side);
                const bool inside = other + column < h.positions;
                const uint32_t mask = drop.threshold ? load_mask(a, h, other + column, first + group) : 0xFFFFu;
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    float &score = p.part[n][2 * half + side], &slope = dp.part[n][2 * half + side];
                    const float weight = inside ? fast_exp2(score * scale - logsum[column]) : 0.0f;
                    const float factor = mask >> part_row(2 * half) & 1u ? drop.scale : 0.0f;
                    score = weight * factor;
                    slope = weight * (slope * factor - along[column]) * h.scale;
                }
            }
        T *left = weights + group * L::WEIGHT_STRIDE;
        store_weights<T, L::TILE, L::WEIGHT_STRIDE>(left, p);
        group_sync();
        add_product<L::TILE>(dvalue, left, L::WEIGHT_STRIDE, dout, L::STRIDE);
        group_sync();
        store_weights<T, L::TILE, L::WEIGHT_STRIDE>(left, dp);
        group_sync();
        add_product<L::TILE>(dkey, left, L::WEIGHT_STRIDE, query, L::STRIDE);
    }
    const float one[2] = {1.0f, 1.0f};
    store_rows<T, D>((T *)a.op.dqkv, h, first + group, 3, 1, dkey, one);
    store_rows<T, D>((T *)a.op.dqkv, h, first + group, 3, 2, dvalue, one);
}

#if defined(AORTA_CUDA) || defined(AORTA_EMULATOR)
#include "ops/kernels/attention_whole.h"
#else
#define WHOLE_KERNELS(dim) /* without tensor cores of NVIDIA's kind */
#endif

#define ATTENTION_KERNELS(dim)                                                                                         \
    TYPED_KERNELS(AORTA_ATTENTION_THREADS, attention_forward_##dim, aorta_gpu_attention_args, forward, dim)            \
    TYPED_KERNELS(AORTA_ATTENTION_THREADS, attention_queries_##dim, aorta_gpu_attention_args, backward_queries, dim)   \
    TYPED_KERNELS(AORTA_ATTENTION_THREADS, attention_keys_##dim, aorta_gpu_attention_args, backward_keys, dim)

#if !defined(AORTA_HEAD_DIM) || AORTA_HEAD_DIM == 32
ATTENTION_KERNELS(32)
WHOLE_KERNELS(32)
#endif
#if !defined(AORTA_HEAD_DIM) || AORTA_HEAD_DIM == 64
ATTENTION_KERNELS(64)
WHOLE_KERNELS(64)
#endif
#if !defined(AORTA_HEAD_DIM) || AORTA_HEAD_DIM == 128
ATTENTION_KERNELS(128)
#endif
