/* Attention of heads that fit into shared memory as a whole, for the 16-bit types on tensor cores; part of
 * attention.cu. A block has one head, and each 32 threads a unit of 16 of its positions. The host sees to it that
 * positions and the width of a head are multiples of 8 and that all tensors are aligned to 16 bytes. */
#ifndef AORTA_KERNELS_ATTENTION_WHOLE_H
#define AORTA_KERNELS_ATTENTION_WHOLE_H

/* How far scores, as powers of two, may be above what weights are taken relative to. */
#define AORTA_WHOLE_SLACK 8.0f

/* All rows of the head into shared memory, two threads to a row; zeros behind the last and beyond the width. */
template <typename T, int D> DEVICE void copy_head(T *rows, const T *base, const head &h, int parts, int part) {
    const int chunk = (int)threadIdx.x % (D / 8) * 8, below = (int)blockDim.x / (D / 8);
    int row = (int)threadIdx.x / (D / 8);
#pragma unroll
    for (int i = 0; i < D / 16; i++, row += below) {
        const bool inside = row < h.positions && chunk < h.dim;
        copy_begin(rows + row * (D + AORTA_WHOLE_PAD) + chunk, inside ? at(base, h, row, parts, part) + chunk : base,
                   inside);
    }
}

/* The 16 rows of this group times `factor` into memory, by way of `stage` [16, D] in shared memory, which is the
 * group's own: so whole rows are written at a time. */
template <typename T, int D>
DEVICE void store_unit(T *stage, T *base, const head &h, int first, int parts, int part, const product<D> &value,
                       const float factor[2]) {
    enum { STRIDE = D + AORTA_WHOLE_PAD };
    group_sync();
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            *reinterpret_cast<uint32_t *>(stage + part_row(2 * half) * STRIDE + n * 8 + part_column(0)) =
                pack(value.part[n][2 * half] * factor[half], value.part[n][2 * half + 1] * factor[half], T());
    group_sync();
    const int chunk = lane_index() % (D / 8) * 8;
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        const int row = i * (32 / (D / 8)) + lane_index() / (D / 8);
        if (first + row < h.positions && chunk < h.dim)
            *reinterpret_cast<bytes16 *>(at(base, h, first + row, parts, part) + chunk) =
                *reinterpret_cast<const bytes16 *>(stage + row * STRIDE + chunk);
    }
}

/* Which of its weights a thread keeps: of unit u of 16 keys bit 15 − u for the even and bit 31 − u for the odd column
 * of pairs of columns: the upper row's among the first and the last eight keys, then the lower row's. */
struct kept_pairs {
    uint32_t pair[4];
};

/* Thread i of the four that share rows gets what the others, in their order, have in place i. */
DEVICE void exchange(kept_pairs &k) {
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
DEVICE void make_kept_pairs(const dropout &d, uint64_t block, int units, uint8_t *bytes, int apart, kept_pairs &k) {
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

/* Weights are powers of two below the running maximum. It is raised, and what was summed under the old one scaled down,
 * only when scores are far above it: a factor of 2^8 does no harm. */
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
    kept_pairs kept = {{~0u, ~0u, ~0u, ~0u}};
    if (drop.threshold) { /* while the rows are on their way */
        const int row = first + lane / 4 + quarter / 2 * 8;
        const uint64_t weight = (uint64_t)((h.index * positions + row) * positions);
        uint8_t *bytes = (uint8_t *)(a.kept + h.index * padded * (padded / 16) + row) + quarter % 2;
        make_kept_pairs(drop, weight / 8 + (uint64_t)(quarter % 2), padded / 16, bytes, 2 * padded, kept);
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
        if (other + 8 >= positions) /* the second half lies behind the last key */
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
            uint32_t &pair = kept.pair[i % 2 * 2 + i / 2];
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

/* What a row needs of forward: logsum, and Σ dout∘out over the factor of dropout. Rows behind the last get a logsum
 * that makes their weights 0. */
template <typename T, int D>
DEVICE void copy_rows_of_forward(const aorta_gpu_attention_args &a, const head &h, const T *dout, float inverse,
                                 float *logsum, float *along) {
    const int t = (int)threadIdx.x, padded = (int)blockDim.x / 2;
    const int chunk = t % (D / 8) * 8, below = (int)blockDim.x / (D / 8);
    bytes16 out[D / 16]; /* loads are on their way while the copies end */
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        const int row = t / (D / 8) + i * below;
        out[i] = bytes16{{0, 0, 0, 0}};
        if (row < h.positions && chunk < h.dim)
            out[i] = *reinterpret_cast<const bytes16 *>(at((const T *)a.op.out_in, h, row, 1, 0) + chunk);
    }
    if (t < padded) logsum[t] = t < h.positions ? a.logsum[h.index * h.positions + t] : -MINUS_INFINITY;
    copies_wait();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        const int row = t / (D / 8) + i * below;
        T element[8];
        copy_bytes(element, &out[i], 16);
        float other[8], sum = 0.0f;
        load_aligned(dout + row * (D + AORTA_WHOLE_PAD) + chunk, other);
#pragma unroll
        for (int j = 0; j < 8; j++) sum += to_float(element[j]) * other[j];
        for (int mask = 1; mask < D / 8; mask *= 2) sum += shuffle_xor(sum, mask);
        if (chunk == 0) along[row] = sum * inverse;
    }
    __syncthreads();
}

/* Weights and slopes of 16 keys (rows) and 16 queries, from scores and products with dout; without the factors of
 * dropout and of the scores, which dq, dk and dv get in the end. */
DEVICE void weigh(product<16> &score, product<16> &slope, const uint32_t kept[2], const float *logsum,
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
            score.part[n][i] = kept[n] & 1u << (i % 2 * 16 + i / 2 * 8) ? weight : 0.0f;
            slope.part[n][i] = score.part[n][i] * slope.part[n][i] - weight * mean.of[i % 2];
        }
    }
}

/* Column sums of the group's 16 rows [16, D] into their place, by a product with ones. */
template <typename T, int D> DEVICE void sum_columns(T *rows) {
    const uint32_t one = pack(1.0f, 1.0f, T()), ones[4] = {one, one, one, one};
    product<D> sums; /* 16 equal rows */
    clear(sums);
    add_left(sums, ones, rows, D + AORTA_WHOLE_PAD);
    group_sync();
    if (lane_index() < 4)
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) ((float *)rows)[n * 8 + part_column(i)] = sums.part[n][i];
}

/* The sums of the block's groups, in their order, into the sequence's row of a.partial: those of dq and of dv. */
template <typename T, int D>
DEVICE void store_sums(const aorta_gpu_attention_args &a, const head &h, const T *dquery, const T *dvalue) {
    enum { UNIT = 16 * (D + AORTA_WHOLE_PAD) };
    float *to = a.partial + (int64_t)(blockIdx.x / (uint32_t)a.op.shape.heads) * 3 * h.width + h.column;
    const int units = (int)blockDim.x / 32;
    __syncthreads();
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < 2 * D; i += (int)blockDim.x) {
        const int column = i % D;
        const T *rows = i < D ? dquery : dvalue;
        float sum = 0.0f;
        for (int unit = 0; unit < units; unit++) sum += ((const float *)(rows + unit * UNIT))[column];
        if (column < h.dim) to[(i < D ? 0 : 2 * h.width) + column] = sum;
    }
}

/* A group makes dk and dv of its 16 keys and leaves the slopes of their weights, transposed, to all; then it makes dq
 * of 16 queries from these. */
template <typename T, int D> DEVICE void whole_backward(const aorta_gpu_attention_args &a) {
    enum { STRIDE = D + AORTA_WHOLE_PAD };
    const head h = head_begin(a.op.shape, blockIdx.x, a.op.qkv, a.op.dout);
    const int t = (int)threadIdx.x, padded = (int)blockDim.x / 2, units = padded / 16, first = t / 32 * 16;
    const int lane = lane_index(), slopes_stride = padded + AORTA_WHOLE_PAD;
    T *query = (T *)dynamic_shared(), *key = query + padded * STRIDE, *dout = key + padded * STRIDE;
    T *slopes = dout + padded * STRIDE, *value = slopes;
    float *logsum = (float *)(slopes + padded * (padded > D ? slopes_stride : STRIDE)), *along = logsum + padded;
    uint16_t *kept = (uint16_t *)(along + padded);
    const T *qkv = (const T *)a.op.qkv;
    copy_head<T, D>(query, qkv, h, 3, 0);
    copy_head<T, D>(key, qkv, h, 3, 1);
    copy_head<T, D>(value, qkv, h, 3, 2);
    copy_head<T, D>(dout, (const T *)a.op.dout, h, 1, 0);
    const dropout drop = dropout_begin(a.op.shape.dropout, a.op.shape.rng);
    const bool dropping = drop.threshold != 0;
    if (dropping && t < units * units * 2) copy_begin(kept + t * 8, a.kept + h.index * padded * units + t * 8, true);
    copy_rows_of_forward<T, D>(a, h, dout, 1.0f / drop.scale, logsum, along);
    const float scale = h.scale * 1.44269504088896341f;
    left_side<D> left_key, left_value;
    load_left(left_key, key + first * STRIDE, STRIDE);
    load_left(left_value, value + first * STRIDE, STRIDE);
    __syncthreads(); /* slopes take the place of values */
    product<D> dkey, dvalue;
    clear(dkey);
    clear(dvalue);
    const int column = part_column(0);
    const uint16_t *kept_row = kept + first / 16 * padded + column;
    T *slopes_row = slopes + (first + lane / 4) * slopes_stride + column;
    for (int other = 0; other < padded; other += 16) {
        product<16> p, dp;
        clear(p);
        clear(dp);
        add_left_of_rows(p, left_key, query + other * STRIDE, STRIDE);
        add_left_of_rows(dp, left_value, dout + other * STRIDE, STRIDE);
        uint32_t bits[2] = {~0u, ~0u};
        if (dropping)
            for (int n = 0; n < 2; n++)
                bits[n] = *reinterpret_cast<const uint32_t *>(kept_row + other + n * 8) >> (lane / 4);
        weigh(p, dp, bits, logsum + other + column, along + other + column, scale);
        if (first + 8 >= h.positions) /* the lower keys lie behind the last */
            for (int i = 0; i < 4; i++) p.part[i / 2][2 + i % 2] = dp.part[i / 2][2 + i % 2] = 0.0f;
        uint32_t weights[4], slope[4];
        pack_product(weights, p, T());
        pack_product(slope, dp, T());
        add_left(dvalue, weights, dout + other * STRIDE, STRIDE);
        add_left(dkey, slope, query + other * STRIDE, STRIDE);
#pragma unroll
        for (int i = 0; i < 4; i++)
            *reinterpret_cast<uint32_t *>(slopes_row + i % 2 * 8 * slopes_stride + other + i / 2 * 8) = slope[i];
    }
    __syncthreads();
    T *dqkv = (T *)a.op.dqkv;
    const float whole[2] = {drop.scale, drop.scale}, scaled[2] = {drop.scale * h.scale, drop.scale * h.scale};
    store_unit<T, D>(query + first * STRIDE, dqkv, h, first, 3, 1, dkey, scaled);
    store_unit<T, D>(dout + first * STRIDE, dqkv, h, first, 3, 2, dvalue, whole);
    if (a.partial) sum_columns<T, D>(dout + first * STRIDE);
    product<D> dquery;
    clear(dquery);
    const T *left = slopes + (lane % 8 + lane / 16 * 8) * slopes_stride + first + lane / 8 % 2 * 8;
    for (int other = 0; other < padded; other += 16) {
        uint32_t slope[4];
        load_pieces_transposed(slope, left + other * slopes_stride);
        add_left(dquery, slope, key + other * STRIDE, STRIDE);
    }
    store_unit<T, D>(query + first * STRIDE, dqkv, h, first, 3, 0, dquery, scaled);
    if (!a.partial) return;
    sum_columns<T, D>(query + first * STRIDE);
    store_sums<T, D>(a, h, query, dout);
}

#define WHOLE_KERNELS(dim)                                                                                             \
    KERNEL_RESIDENT(AORTA_WHOLE_THREADS, 2, attention_whole_forward_##dim##_fp16, aorta_gpu_attention_args) {          \
        whole_forward<fp16, dim>(a);                                                                                   \
    }                                                                                                                  \
    KERNEL_RESIDENT(AORTA_WHOLE_THREADS, 2, attention_whole_forward_##dim##_bf16, aorta_gpu_attention_args) {          \
        whole_forward<bf16, dim>(a);                                                                                   \
    }                                                                                                                  \
    KERNEL(AORTA_WHOLE_THREADS, attention_whole_backward_##dim##_fp16, aorta_gpu_attention_args) {                     \
        whole_backward<fp16, dim>(a);                                                                                  \
    }                                                                                                                  \
    KERNEL(AORTA_WHOLE_THREADS, attention_whole_backward_##dim##_bf16, aorta_gpu_attention_args) {                     \
        whole_backward<bf16, dim>(a);                                                                                  \
    }

#endif
