/* Attention of heads that fit into shared memory as a whole, for the 16-bit types on tensor cores; part of
 * attention.cu. A block has one head at a time, and each 32 threads a unit of 16 of its positions. The host makes
 * sure that positions and the width of a head are multiples of 8 and that all tensors are aligned to 16 bytes. Here:
 * what both directions need, and forward. */
#ifndef AORTA_KERNELS_ATTENTION_WHOLE_H
#define AORTA_KERNELS_ATTENTION_WHOLE_H

/* How far scores, as powers of two, may be above what weights are taken relative to. */
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

/* Which of its weights a thread keeps: of unit u of 16 keys bit 15 − u for the even and bit 31 − u for the odd column
 * of pairs of columns: the upper row's among the first and the last eight keys, then the lower row's. */
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

#endif
