/* Attention of heads that fit into shared memory as a whole, for the 16-bit types on tensor cores; part of
 * attention.cu. A block has one head, and each 32 threads a unit of 16 of its positions. The host sees to it that
 * positions and the width of a head are multiples of 8 and that all tensors are aligned to 16 bytes. */
#ifndef AORTA_KERNELS_ATTENTION_WHOLE_H
#define AORTA_KERNELS_ATTENTION_WHOLE_H

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

/* As make_kept, from the block of random numbers of this thread's eight weights. */
DEVICE void make_kept_block(const dropout &d, uint64_t block, uint32_t kept[2]) {
    const philox samples = dropout_block(d, block);
    const int quarter = lane_index() % 4;
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) bits |= dropout_keeps(d, samples, i) ? 1u << i : 0u;
    bits <<= quarter % 2 * 8;
    bits |= shuffle_xor(bits, 1);
    const uint32_t other = shuffle_xor(bits, 2);
    kept[0] = quarter < 2 ? bits : other;
    kept[1] = quarter < 2 ? other : bits;
}

/* Weights are powers of two below the running maximum. It is raised, and what was summed under the old one scaled down,
 * only when scores are far above it: a factor of 2^8 does no harm. */
template <int D>
DEVICE void raise_maximum(const product<16> &score, float scale, float greatest[2], float sum[2], product<D> &out) {
    float less[2];
    bool raise = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float now = MINUS_INFINITY;
#pragma unroll
        for (int i = 0; i < 4; i++) now = fmaxf(now, score.part[i / 2][half * 2 + i % 2]);
        now = row_max(now) * scale;
        less[half] = 1.0f;
        if (!(now > greatest[half] + 8.0f)) continue;
        less[half] = fast_exp2(greatest[half] - now);
        greatest[half] = now;
        raise = true;
    }
    if (!raise) return;
    sum[0] *= less[0];
    sum[1] *= less[1];
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) out.part[n][i] *= less[i / 2];
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
    const int mine = first + lane / 4 + quarter / 2 * 8; /* row whose bits this thread makes, for the half … */
    uint64_t block = (uint64_t)((h.index * positions + mine) * positions) / 8 + (uint64_t)(quarter % 2); /* … of 8 */
    uint16_t *kept_row = a.kept + h.index * padded * (padded / 16) + mine;
    copies_wait();
    __syncthreads();
    left_side<D> left;
    load_left(left, query + first * STRIDE, STRIDE);
    product<D> out;
    clear(out);
    float greatest[2] = {MINUS_INFINITY, MINUS_INFINITY}, sum[2] = {0.0f, 0.0f};
    for (int other = 0; other < padded; other += 16) {
        product<16> p;
        clear(p);
        add_left_of_rows(p, left, key + other * STRIDE, STRIDE);
        if (other + 8 >= positions) /* the second half lies behind the last key */
            for (int i = 0; i < 4; i++) p.part[1][i] = MINUS_INFINITY;
        uint32_t kept[2] = {0xFFFFu, 0xFFFFu};
        if (drop.threshold) {
            make_kept_block(drop, block, kept);
            if (quarter % 2 == 0) *kept_row = (uint16_t)(quarter < 2 ? kept[0] : kept[1]);
            block += 2;
            kept_row += padded;
        }
        raise_maximum(p, scale, greatest, sum, out);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t bits = kept[half] >> part_column(0);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float &weight = p.part[i / 2][half * 2 + i % 2];
                weight = fast_exp2(weight * scale - greatest[half]);
                sum[half] += weight;
                weight = bits >> (i / 2 * 8 + i % 2) & 1u ? weight : 0.0f;
            }
        }
        uint32_t weights[4];
        pack_product(weights, p, T());
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
            const bool keep = kept[n] >> (i % 2 * 16 + i / 2 * 8) & 1u;
            const float weight = fast_exp2(score.part[n][i] * scale - less.of[i % 2]);
            slope.part[n][i] = weight * ((keep ? slope.part[n][i] : 0.0f) - mean.of[i % 2]);
            score.part[n][i] = keep ? weight : 0.0f;
        }
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
            for (int i = 0; i < 4; i++) dp.part[i / 2][2 + i % 2] = 0.0f;
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
    product<D> dquery;
    clear(dquery);
    const T *left = slopes + (lane % 8 + lane / 16 * 8) * slopes_stride + first + lane / 8 % 2 * 8;
    for (int other = 0; other < padded; other += 16) {
        uint32_t slope[4];
        load_pieces_transposed(slope, left + other * slopes_stride);
        add_left(dquery, slope, key + other * STRIDE, STRIDE);
    }
    store_unit<T, D>(query + first * STRIDE, dqkv, h, first, 3, 0, dquery, scaled);
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
