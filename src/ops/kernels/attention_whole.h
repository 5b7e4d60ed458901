/* Attention of heads that fit into shared memory as a whole, for the 16-bit types on tensor cores; part of
 * attention.cu. A block has one head at a time, and each 32 threads a unit of 16 of its positions. The host makes
 * sure that positions and the width of a head are multiples of 8 and that all tensors are aligned to 16 bytes. Here:
 * what both directions need, and forward. */
#ifndef AORTA_KERNELS_ATTENTION_WHOLE_H
#define AORTA_KERNELS_ATTENTION_WHOLE_H

/* How far scores, as powers of two, may exceed the reference that weights are relative to. */
#define AORTA_WHOLE_SLACK 8.0f

/* All rows of the head into shared memory, D / 8 threads to a row; zeros beyond the last and beyond the width. */
template <typename T, int D> DEVICE void copy_head(T *rows, const T *base, const head &h, int parts, int part) {
    const int chunk = (int)threadIdx.x % (D / 8) * 8, below = (int)blockDim.x / (D / 8);
    int left = (int)h.positions - (int)threadIdx.x / (D / 8); /* rows from the thread's on */
    const T *from = at(base, h, threadIdx.x / (D / 8), parts, part) + chunk;
    T *to = rows + (int)threadIdx.x / (D / 8) * (D + AORTA_WHOLE_PAD) + chunk;
    const int64_t step = below * parts * h.width;
    if (chunk >= (int)h.dim) left = 0;
#pragma unroll
    for (int i = 0; i < D / 16; i++, left -= below, from += step, to += below * (D + AORTA_WHOLE_PAD))
        copy_begin(to, left > 0 ? from : base, left > 0);
}

/* The 16 rows of this group times `factor` into memory, by way of `stage` [16, D] in shared memory, which is the
 * group's own: so whole rows are written at a time. */
template <typename T, int D>
DEVICE void store_unit(T *stage, T *base, const head &h, int first, int parts, int part, const product<D> &value,
                       const float factor[2]) {
    enum { STRIDE = D + AORTA_WHOLE_PAD, ROWS = 32 / (D / 8) /* written at a time */ };
    T *piece = stage + part_row(0) * STRIDE + part_column(0);
    group_sync();
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            *reinterpret_cast<uint32_t *>(piece + half * 8 * STRIDE + n * 8) =
                pack(value.part[n][2 * half] * factor[half], value.part[n][2 * half + 1] * factor[half], T());
    group_sync();
    const int chunk = lane_index() % (D / 8) * 8, row = lane_index() / (D / 8);
    const T *from = stage + row * STRIDE + chunk;
    T *to = at(base, h, first + row, parts, part) + chunk;
    const int64_t step = ROWS * parts * h.width;
    const int left = chunk < (int)h.dim ? (int)h.positions - first - row : 0; /* rows from the thread's on */
#pragma unroll
    for (int i = 0; i < D / 16; i++, to += step)
        if (i * ROWS < left)
            *reinterpret_cast<bytes16 *>(to) = *reinterpret_cast<const bytes16 *>(from + i * ROWS * STRIDE);
}

/* The weights that a thread keeps. For unit u of 16 keys, bit 15 − u is the even and bit 31 − u the odd column of a
 * pair of columns. pair[0] and [1]: upper row, first and last eight keys; pair[2] and [3]: lower row. */
struct mask_pairs {
    uint32_t pair[4];
};

/* Thread i of the four that share rows gets element i of the other three, in their order. */
DEVICE void exchange(mask_pairs &k) {
#pragma unroll
    for (int mask = 1; mask <= 2; mask *= 2) {
        const bool upper = lane_index() & mask;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & mask) continue;
            uint32_t &low = k.pair[i], &high = k.pair[i + mask];
            const uint32_t got = shuffle_xor(upper ? low : high, mask);
            (upper ? low : high) = got;
        }
    }
}

/* Each of a row's four threads makes one block of random numbers for each unit of keys, from `block` on: for the upper
 * or the lower row, the first or the last eight keys. Word i of a block holds the two samples of the weights that
 * thread i works on: both are compared at once. `bytes` gets one bit for each of the eight, unit after unit, `apart`
 * bytes from each other. */
DEVICE void make_mask_pairs(const dropout &d, uint64_t block, int units, uint8_t *bytes, int apart, mask_pairs &k) {
    const uint32_t tops = 0x80008000u, below_top = (d.threshold & 0x7FFFu) * 0x10001u;
    const uint32_t low_threshold = d.threshold & 0x8000u ? 0u : ~0u;
#pragma unroll
    for (int i = 0; i < 4; i++) k.pair[i] = 0;
    for (int unit = units - 1; unit >= 0; unit--) {
        const philox samples = dropout_block(d, block + 2 * (uint64_t)unit);
        uint32_t bits = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t sample = samples.word[i],
                           rest = (sample | tops) - below_top; /* top bit: not less but for it */
            const uint32_t keep = ((sample & rest) | (low_threshold & (sample | rest))) & tops;
            k.pair[i] = k.pair[i] >> 1 | keep;
            bits |= keep >> (15 - 2 * i);
        }
        bytes[unit * apart] = (uint8_t)(bits | bits >> 15);
    }
    exchange(k);
}

/* Weights are powers of two below the running maximum. It is raised, and the sums scaled down, only when scores far
 * exceed it: a factor of 2^8 does no harm. */
template <int D>
DEVICE void raise_maximum(const product<16> &score, float scale, float greatest[2], float sum[2], product<D> &out) {
    float less[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float now = MINUS_INFINITY;
#pragma unroll
        for (int i = 0; i < 4; i++) now = fmaxf(now, score.part[i / 2][half * 2 + i % 2]);
        now = row_max(now) * scale;
        less[half] = 1.0f;
        if (!(now > greatest[half] + AORTA_WHOLE_SLACK)) continue;
        less[half] = fast_exp2(greatest[half] - now);
        greatest[half] = now;
    }
    sum[0] *= less[0];
    sum[1] *= less[1];
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) out.part[n][i] *= less[i / 2];
}

/* Whether any of the 32 threads has a score above its row's limit. */
DEVICE bool any_above(const product<16> &score, const float limit[2]) {
    float above[2];
#pragma unroll
    for (int half = 0; half < 2; half++)
        above[half] = fmaxf(fmaxf(score.part[0][half * 2], score.part[0][half * 2 + 1]),
                            fmaxf(score.part[1][half * 2], score.part[1][half * 2 + 1]));
    return group_any(above[0] > limit[0] || above[1] > limit[1]);
}

template <typename T, int D> DEVICE void whole_forward(const aorta_gpu_attention_args &a) {
    enum { STRIDE = D + AORTA_WHOLE_PAD };
    const head h = head_begin(a.op.shape, blockIdx.x, a.op.qkv, a.op.out);
    const int positions = (int)h.positions, padded = (int)blockDim.x / 2, first = (int)threadIdx.x / 32 * 16;
    const int lane = lane_index(), quarter = lane % 4;
    T *query = (T *)dynamic_shared(), *key = query + padded * STRIDE, *value = key + padded * STRIDE;
    const T *qkv = (const T *)a.op.qkv;
    copy_head<T, D>(query, qkv, h, 3, 0);
    copy_head<T, D>(key, qkv, h, 3, 1);
    copy_head<T, D>(value, qkv, h, 3, 2);
    const dropout drop = dropout_begin(a.op.shape.dropout, a.op.shape.rng);
    const float scale = h.scale * 1.44269504088896341f;
    mask_pairs mask = {{~0u, ~0u, ~0u, ~0u}};
    if (drop.threshold) { /* while the rows are in flight */
        const int row = first + lane / 4 + quarter / 2 * 8;
        const uint64_t weight = (uint64_t)((h.index * positions + row) * positions);
        uint8_t *bytes = (uint8_t *)(a.mask + h.index * padded * (padded / 16) + row) + quarter % 2;
        make_mask_pairs(drop, weight / 8 + (uint64_t)(quarter % 2), padded / 16, bytes, 2 * padded, mask);
    }
    copies_wait();
    __syncthreads();
    left_side<D> left;
    load_left(left, query + first * STRIDE, STRIDE);
    product<D> out;
    clear(out);
    float greatest[2] = {MINUS_INFINITY, MINUS_INFINITY}, sum[2] = {0.0f, 0.0f};
    float limit[2] = {MINUS_INFINITY, MINUS_INFINITY}; /* of scores before `scale` */
    for (int other = 0; other < padded; other += 16) {
        product<16> p;
        clear(p);
        add_left_of_rows(p, left, key + other * STRIDE, STRIDE);
        if (other + 8 >= positions) /* the second half is past the last key */
            for (int i = 0; i < 4; i++) p.part[1][i] = MINUS_INFINITY;
        if (any_above(p, limit)) {
            raise_maximum(p, scale, greatest, sum, out);
            for (int half = 0; half < 2; half++)
                limit[half] = (greatest[half] + AORTA_WHOLE_SLACK) * fast_reciprocal(scale);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float &weight = p.part[i / 2][half * 2 + i % 2];
                weight = fast_exp2(weight * scale - greatest[half]);
                sum[half] += weight;
            }
        }
        uint32_t weights[4];
        pack_product(weights, p, T());
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t &pair = mask.pair[i % 2 * 2 + i / 2];
            weights[i] &= halves_by_sign(pair);
            pair <<= 1;
        }
        add_left(out, weights, value + other * STRIDE, STRIDE);
    }
    float factor[2];
    for (int half = 0; half < 2; half++) {
        sum[half] = row_sum(sum[half]);
        factor[half] = drop.scale / sum[half];
        const int position = first + part_row(2 * half);
        if (quarter == 0 && position < positions)
            a.logsum[h.index * positions + position] = greatest[half] + log2f(sum[half]);
    }
    store_unit<T, D>(query + first * STRIDE, (T *)a.op.out, h, first, 1, 0, out, factor);
}

/* Backward of attention_whole.h. A block may process several heads in turn: while it works on one, the next one's rows
 * are loaded into a second buffer and its other values into registers. */

/* One of the buffers: rows of queries, keys and gradients of the output; two numbers for each row; bits of the weights.
 * Column sums of the groups take the place of the numbers and bits once all slopes are made. */
template <typename T, int D> struct whole_buffer {
    T *query, *key, *dout;
    float *logsum, *along, *sums;
    uint16_t *mask;
};

template <typename T, int D> DEVICE whole_buffer<T, D> buffer_at(int index, int padded) {
    const int rows = padded * (D + AORTA_WHOLE_PAD), units = padded / 16;
    char *start = (char *)dynamic_shared() + index * AORTA_WHOLE_BUFFER_BYTES(units, D);
    T *query = (T *)start;
    float *numbers = (float *)(query + 3 * rows);
    return {
        query, query + rows, query + 2 * rows, numbers, numbers + padded, numbers, (uint16_t *)(numbers + 2 * padded)};
}

template <typename T, int D>
DEVICE void copy_rows(const aorta_gpu_attention_args &a, const head &h, const whole_buffer<T, D> &buffer) {
    copy_head<T, D>(buffer.query, (const T *)a.op.qkv, h, 3, 0);
    copy_head<T, D>(buffer.key, (const T *)a.op.qkv, h, 3, 1);
    copy_head<T, D>(buffer.dout, (const T *)a.op.dout, h, 1, 0);
}

/* Values that a thread loads ahead for its head: its part of the group's 16 values, chunks of the output at its chunks
 * of `dout`, and forward's saved values of one row. */
template <int D> struct whole_ahead {
    left_side<D> value;
    bytes16 out[D / 16];
    float logsum;
};

/* Rows beyond the last get a logsum that makes their weights 0. */
template <typename T, int D>
DEVICE void load_ahead(const aorta_gpu_attention_args &a, const head &h, bool dropping,
                       const whole_buffer<T, D> &buffer, whole_ahead<D> &ahead) {
    const int t = (int)threadIdx.x, padded = (int)blockDim.x / 2, units = padded / 16;
    if (dropping && t < units * units * 2)
        copy_begin(buffer.mask + t * 8, a.mask + h.index * padded * units + t * 8, true);
    const int upper = t / 32 * 16 + part_row(0), positions = (int)h.positions, dim = (int)h.dim;
    const T *value = at((const T *)a.op.qkv, h, upper, 3, 2) + part_column(0);
#pragma unroll
    for (int half = 0; half < 2; half++, value += 8 * 3 * h.width) {
        const int end = upper + half * 8 < positions ? dim - part_column(0) : 0;
#pragma unroll
        for (int column = 0; column < D; column += 8) {
            uint32_t &pair = ahead.value.piece[column / 16][column / 8 % 2 * 2 + half];
            pair = 0;
            if (column < end) pair = *reinterpret_cast<const uint32_t *>(value + column);
        }
    }
    const int chunk = t % (D / 8) * 8, row = t / (D / 8), below = (int)blockDim.x / (D / 8);
    const T *out = at((const T *)a.op.out_in, h, row, 1, 0) + chunk;
    const int left = chunk < dim ? positions - row : 0; /* rows from the thread's on */
#pragma unroll
    for (int i = 0; i < D / 16; i++, out += below * h.width) {
        ahead.out[i] = bytes16{{0, 0, 0, 0}};
        if (i * below < left) ahead.out[i] = *reinterpret_cast<const bytes16 *>(out);
    }
    ahead.logsum = t < positions ? a.logsum[h.index * h.positions + t] : -MINUS_INFINITY;
}

/* The numbers of the rows: logsum, and Σ dout∘out over the factor of dropout. A thread reads only the part of `dout`
 * that it copied. */
template <typename T, int D>
DEVICE void store_numbers(const whole_ahead<D> &ahead, const whole_buffer<T, D> &buffer, float inverse) {
    const int t = (int)threadIdx.x, chunk = t % (D / 8) * 8, below = (int)blockDim.x / (D / 8);
    if (t < (int)blockDim.x / 2) buffer.logsum[t] = ahead.logsum;
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        const int row = t / (D / 8) + i * below;
        T element[8];
        copy_bytes(element, &ahead.out[i], 16);
        float other[8], sum = 0.0f;
        load_aligned(buffer.dout + row * (D + AORTA_WHOLE_PAD) + chunk, other);
#pragma unroll
        for (int j = 0; j < 8; j++) sum += to_float(element[j]) * other[j];
        for (int mask = 1; mask < D / 8; mask *= 2) sum += shuffle_xor(sum, mask);
        if (chunk == 0) buffer.along[row] = sum * inverse;
    }
}

/* Weights and slopes of 16 keys (rows) and 16 queries, from scores and products with dout; without the factors of
 * dropout and of the scores, which dq, dk and dv get in the end. */
DEVICE void weigh(product<16> &score, product<16> &slope, const uint32_t mask[2], const float *logsum,
                  const float *along, float scale) {
    struct alignas(8) pair {
        float of[2];
    };
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const pair less = *reinterpret_cast<const pair *>(logsum + n * 8);
        const pair mean = *reinterpret_cast<const pair *>(along + n * 8);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float weight = fast_exp2(score.part[n][i] * scale - less.of[i % 2]);
            score.part[n][i] = mask[n] & 1u << (i % 2 * 16 + i / 2 * 8) ? weight : 0.0f;
            slope.part[n][i] = score.part[n][i] * slope.part[n][i] - weight * mean.of[i % 2];
        }
    }
}

/* dk and dv of the group's 16 keys, and the slopes of their weights, transposed, for all groups to read. */
template <typename T, int D>
DEVICE void slopes_of_keys(const head &h, const whole_buffer<T, D> &buffer, const left_side<D> &value, bool dropping,
                           T *slopes, product<D> &dkey, product<D> &dvalue) {
    enum { STRIDE = D + AORTA_WHOLE_PAD };
    const int padded = (int)blockDim.x / 2, first = (int)threadIdx.x / 32 * 16, lane = lane_index();
    const int slopes_stride = padded + AORTA_WHOLE_PAD, column = part_column(0);
    const float scale = h.scale * 1.44269504088896341f;
    const uint32_t lower = first + 8 < (int)h.positions ? ~0u : 0u; /* the lower eight keys may be past the last */
    left_side<D> key;
    load_left(key, buffer.key + first * STRIDE, STRIDE);
    clear(dkey);
    clear(dvalue);
    const uint16_t *mask_row = buffer.mask + first / 16 * padded + column;
    T *slopes_row = slopes + (first + lane / 4) * slopes_stride + column;
    for (int other = 0; other < padded; other += 16) {
        product<16> p, dp;
        clear(p);
        clear(dp);
        add_left_of_rows(p, key, buffer.query + other * STRIDE, STRIDE);
        add_left_of_rows(dp, value, buffer.dout + other * STRIDE, STRIDE);
        uint32_t bits[2] = {~0u, ~0u};
        if (dropping)
            for (int n = 0; n < 2; n++)
                bits[n] = *reinterpret_cast<const uint32_t *>(mask_row + other + n * 8) >> (lane / 4);
        weigh(p, dp, bits, buffer.logsum + other + column, buffer.along + other + column, scale);
        uint32_t weights[4], slope[4];
        pack_product(weights, p, T());
        pack_product(slope, dp, T());
        weights[1] &= lower, weights[3] &= lower;
        slope[1] &= lower, slope[3] &= lower;
        add_left(dvalue, weights, buffer.dout + other * STRIDE, STRIDE);
        add_left(dkey, slope, buffer.query + other * STRIDE, STRIDE);
#pragma unroll
        for (int i = 0; i < 4; i++)
            *reinterpret_cast<uint32_t *>(slopes_row + i % 2 * 8 * slopes_stride + other + i / 2 * 8) = slope[i];
    }
}

/* dq of the group's 16 queries. */
template <typename T, int D>
DEVICE void slopes_of_queries(const whole_buffer<T, D> &buffer, const T *slopes, product<D> &dquery) {
    enum { STRIDE = D + AORTA_WHOLE_PAD };
    const int padded = (int)blockDim.x / 2, first = (int)threadIdx.x / 32 * 16, lane = lane_index();
    const int slopes_stride = padded + AORTA_WHOLE_PAD;
    const T *left = slopes + (lane % 8 + lane / 16 * 8) * slopes_stride + first + lane / 8 % 2 * 8;
    clear(dquery);
    for (int other = 0; other < padded; other += 16) {
        uint32_t slope[4];
        load_pieces_transposed(slope, left + other * slopes_stride);
        add_left(dquery, slope, buffer.key + other * STRIDE, STRIDE);
    }
}

/* Column sums of the group's 16 rows [16, D] into sums [D], by a product with ones. */
template <typename T, int D> DEVICE void sum_columns(const T *rows, float *sums) {
    const uint32_t one = pack(1.0f, 1.0f, T()), ones[4] = {one, one, one, one};
    product<D> sum; /* 16 equal rows */
    clear(sum);
    add_left(sum, ones, rows, D + AORTA_WHOLE_PAD);
    if (lane_index() >= 4) return;
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) sums[n * 8 + part_column(i)] = sum.part[n][i];
}

/* The sums [units, 2, D] of the block's groups, in their order, into the sequence's row of a.partial: those of dq and
 * of dv. */
template <int D> DEVICE void store_sums(const aorta_gpu_attention_args &a, const head &h, const float *sums) {
    float *to = a.partial + (int64_t)((uint32_t)h.index / (uint32_t)a.op.shape.heads) * 3 * h.width + h.column;
    const int units = (int)blockDim.x / 32;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < 2 * D; i += (int)blockDim.x) {
        float sum = 0.0f;
#pragma unroll 4
        for (int unit = 0; unit < units; unit++) sum += sums[unit * 2 * D + i];
        if (i % D < h.dim) to[(i < D ? 0 : 2 * h.width) + i % D] = sum;
    }
}

template <typename T, int D> DEVICE void whole_backward(const aorta_gpu_attention_args &a) {
    const int padded = (int)blockDim.x / 2, unit = (int)threadIdx.x / 32, first = unit * 16;
    const int mine =
        first * (D + AORTA_WHOLE_PAD); /* the group's rows, which serve as its stage when all have read them */
    const int64_t heads = a.op.shape.batch * a.op.shape.heads;
    T *slopes = (T *)((char *)dynamic_shared() + a.buffers * AORTA_WHOLE_BUFFER_BYTES(padded / 16, D));
    T *dqkv = (T *)a.op.dqkv;
    const dropout drop = dropout_begin(a.op.shape.dropout, a.op.shape.rng);
    const bool dropping = drop.threshold != 0;
    int current = 0;
    head h = head_begin(a.op.shape, blockIdx.x, a.op.qkv, a.op.dout), before = h;
    whole_ahead<D> ahead;
    copy_rows(a, h, buffer_at<T, D>(0, padded));
    load_ahead(a, h, dropping, buffer_at<T, D>(0, padded), ahead);
    for (bool begun = false;; begun = true) {
        const whole_buffer<T, D> buffer = buffer_at<T, D>(current, padded),
                                 other = buffer_at<T, D>(1 - current, padded);
        const bool more = h.index + gridDim.x < heads; /* only with two buffers */
        const head next = head_begin(a.op.shape, more ? h.index + gridDim.x : h.index, a.op.qkv, a.op.dout);
        copies_wait();
        store_numbers(ahead, buffer, 1.0f / drop.scale);
        __syncthreads(); /* rows and numbers are stored; the head before this one is done */
        if (more) copy_rows(a, next, other);
        if (begun && a.partial) store_sums<D>(a, before, other.sums);
        product<D> dkey, dvalue, dquery;
        slopes_of_keys(h, buffer, ahead.value, dropping, slopes, dkey, dvalue);
        __syncthreads(); /* slopes are stored */
        if (more) load_ahead(a, next, dropping, other, ahead);
        const float whole[2] = {drop.scale, drop.scale}, scaled[2] = {drop.scale * h.scale, drop.scale * h.scale};
        float *sums = buffer.sums + unit * 2 * D;
        store_unit(buffer.query + mine, dqkv, h, first, 3, 1, dkey, scaled);
        store_unit(buffer.dout + mine, dqkv, h, first, 3, 2, dvalue, whole);
        if (a.partial) sum_columns<T, D>(buffer.dout + mine, sums + D);
        slopes_of_queries(buffer, slopes, dquery);
        store_unit(buffer.query + mine, dqkv, h, first, 3, 0, dquery, scaled);
        if (a.partial) sum_columns<T, D>(buffer.query + mine, sums);
        if (!more) break;
        before = h;
        h = next;
        current = 1 - current;
    }
    if (!a.partial) return;
    __syncthreads();
    store_sums<D>(a, h, buffer_at<T, D>(current, padded).sums);
}

#define WHOLE_KERNELS(dim)                                                                                             \
    ENTRY_FP16(KERNEL_RESIDENT(AORTA_WHOLE_THREADS, 2, attention_whole_forward_##dim##_fp16,                           \
                               aorta_gpu_attention_args) { whole_forward<fp16, dim>(a); })                             \
    ENTRY_BF16(KERNEL_RESIDENT(AORTA_WHOLE_THREADS, 2, attention_whole_forward_##dim##_bf16,                           \
                               aorta_gpu_attention_args) { whole_forward<bf16, dim>(a); })                             \
    ENTRY_FP16(KERNEL(AORTA_WHOLE_THREADS, attention_whole_backward_##dim##_fp16, aorta_gpu_attention_args) {          \
        whole_backward<fp16, dim>(a);                                                                                  \
    })                                                                                                                 \
    ENTRY_BF16(KERNEL(AORTA_WHOLE_THREADS, attention_whole_backward_##dim##_bf16, aorta_gpu_attention_args) {          \
        whole_backward<bf16, dim>(a);                                                                                  \
    })

#endif
