/* Softmax and cross-entropy; a block works on a row, or, where rows are short, 32 threads do. Threads touch their own
 * elements only, so that rows may be replaced in place. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/reduce.h"

DEVICE int64_t counting(const aorta_softmax &shape, int64_t row) {
    return shape.causal ? row % shape.width + 1 : shape.width;
}

KERNEL(AORTA_ROW_THREADS, softmax_forward, aorta_softmax_args) {
    const int64_t row = blockIdx.x, width = a.shape.width, end = counting(a.shape, row);
    const float *x = a.x + row * width;
    float *p = a.out + row * width, most = AORTA_LOWEST, sum = 0.0f;
    for (int64_t i = threadIdx.x; i < end; i += AORTA_ROW_THREADS) most = greater(most, x[i]);
    most = block_greatest(most);
    for (int64_t i = threadIdx.x; i < end; i += AORTA_ROW_THREADS) {
        const float e = natural_exp(a.shape.scale * (x[i] - most));
        p[i] = e;
        sum += e;
    }
    const float inverse = 1.0f / block_total(sum);
    for (int64_t i = threadIdx.x; i < width; i += AORTA_ROW_THREADS) p[i] = i < end ? p[i] * inverse : 0.0f;
}

KERNEL(AORTA_ROW_THREADS, softmax_backward, aorta_softmax_args) {
    const int64_t row = blockIdx.x, width = a.shape.width, end = counting(a.shape, row);
    const float *p = a.x + row * width, *dp = a.dp + row * width;
    float *dx = a.out + row * width, along = 0.0f;
    for (int64_t i = threadIdx.x; i < end; i += AORTA_ROW_THREADS) along += p[i] * dp[i];
    along = block_total(along);
    for (int64_t i = threadIdx.x; i < width; i += AORTA_ROW_THREADS)
        dx[i] = i < end ? a.shape.scale * p[i] * (dp[i] - along) : 0.0f;
}

/* ---- short rows: read once, four neighbours at a time, into registers of 32 threads ---- */

enum { FOURS = AORTA_SHORT_ROW / 128 };

struct short_row {
    float value[FOURS][4];
};

DEVICE int first_column(int four) {
    return (four * 32 + (int)threadIdx.x % 32) * 4;
}

/* Elements from `end` on are `fallback`. */
DEVICE short_row load_row(const float *from, int width, int end, float fallback) {
    short_row row;
#pragma unroll
    for (int i = 0; i < FOURS; i++) {
        const int column = first_column(i);
        if (column < width) load4(from + column, row.value[i]);
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (column + j >= end) row.value[i][j] = fallback;
    }
    return row;
}

DEVICE void store_row(float *to, int width, const short_row &row) {
#pragma unroll
    for (int i = 0; i < FOURS; i++)
        if (first_column(i) < width) store4(to + first_column(i), row.value[i]);
}

DEVICE int64_t short_row_index() {
    return (int64_t)blockIdx.x * (AORTA_ROW_THREADS / 32) + threadIdx.x / 32;
}

KERNEL(AORTA_ROW_THREADS, softmax_forward_short, aorta_softmax_args) {
    const int64_t index = short_row_index();
    if (index >= a.shape.rows) return;
    const int width = (int)a.shape.width, end = (int)counting(a.shape, index);
    short_row row = load_row(a.x + index * width, width, end, AORTA_LOWEST);
    float most = AORTA_LOWEST, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < FOURS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) most = greater(most, row.value[i][j]);
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) most = greater(most, shuffle_xor(most, mask));
#pragma unroll
    for (int i = 0; i < FOURS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const bool counts = first_column(i) + j < end;
            row.value[i][j] = counts ? natural_exp(a.shape.scale * (row.value[i][j] - most)) : 0.0f;
            sum += row.value[i][j];
        }
    const float inverse = 1.0f / group_sum(sum);
#pragma unroll
    for (int i = 0; i < FOURS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) row.value[i][j] *= inverse;
    store_row(a.out + index * width, width, row);
}

KERNEL(AORTA_ROW_THREADS, softmax_backward_short, aorta_softmax_args) {
    const int64_t index = short_row_index();
    if (index >= a.shape.rows) return;
    const int width = (int)a.shape.width, end = (int)counting(a.shape, index);
    const short_row p = load_row(a.x + index * width, width, end, 0.0f);
    short_row dx = load_row(a.dp + index * width, width, end, 0.0f);
    float along = 0.0f;
#pragma unroll
    for (int i = 0; i < FOURS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) along += p.value[i][j] * dx.value[i][j];
    along = group_sum(along);
#pragma unroll
    for (int i = 0; i < FOURS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) dx.value[i][j] = a.shape.scale * p.value[i][j] * (dx.value[i][j] - along);
    store_row(a.out + index * width, width, dx);
}

KERNEL(AORTA_ROW_THREADS, cross_entropy, aorta_cross_entropy_args) {
    const int64_t row = blockIdx.x, label = a.labels[row];
    const bool known = label >= 0 && label < a.classes;
    const float *x = a.x + row * a.classes;
    float *dx = a.dx + row * a.classes, most = AORTA_LOWEST, sum = 0.0f;
    const float nan = float_of_bits(0x7FC00000u);
    for (int64_t i = threadIdx.x; i < a.classes; i += AORTA_ROW_THREADS) most = greater(most, x[i]);
    most = block_greatest(most);
    for (int64_t i = threadIdx.x; i < a.classes; i += AORTA_ROW_THREADS) sum += natural_exp(x[i] - most);
    sum = block_total(sum);
    if (threadIdx.x == 0) a.losses[row] = known ? natural_log(sum) + most - x[label] : nan;
    __syncthreads(); /* dx may be x */
    for (int64_t i = threadIdx.x; i < a.classes; i += AORTA_ROW_THREADS) {
        const float p = natural_exp(x[i] - most) / sum - (i == label ? 1.0f : 0.0f);
        dx[i] = known ? a.weight * p : nan;
    }
}

/* ---- attention's scores and their softmax ---- */

/* Attention's scores and their softmax in one: products of rows with rows, whose results stay in registers until whole
 * rows are complete. A block makes 32 rows of 512, a warp 128 columns of them, a thread eight rows of four times four
 * columns. Loads limit the speed as much as arithmetic does, so operands are loaded in whole sectors,
 * and their layout in shared memory
 * avoids bank conflicts for the threads that write and for those that multiply. */

enum {
    ROWS = AORTA_SCORES_ROWS,
    WIDTH = AORTA_SCORES_WIDTH,
    DEPTH = AORTA_SCORES_DEPTH, /* of a stage */
    THREADS = AORTA_SCORES_THREADS,
    WARPS = THREADS / 32,
    STRIP = WIDTH / WARPS, /* columns of a warp */
    THREAD_ROWS = 8,         /* of a thread */
    THREAD_COLUMNS = STRIP / 8,
    QUADS = DEPTH / 4,                /* of a row in a stage, each fetched by a thread */
    AT_ONCE = THREADS / QUADS,        /* rows that all threads fetch together: all of a's */
    PARTS = QUADS,                    /* in which a stage is fetched, and in which another is multiplied meanwhile */
    PASSES = WIDTH / PARTS / AT_ONCE, /* over a part of b's rows */
};

/* A thread's part of the rows. */
typedef float tile[THREAD_ROWS][THREAD_COLUMNS];

/* Where a block and its thread are. */
struct place {
    int64_t number, first_row; /* of the product; of the block */
    int row, column;           /* the thread's first row; its first column of every 32 in the strip, four of them */
};

DEVICE place here() {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    return place{(int64_t)blockIdx.y, (int64_t)blockIdx.x * ROWS, lane / 8 * THREAD_ROWS, warp * STRIP + lane % 8 * 4};
}

/* ---- operands ---- */

/* Two stages: while one is multiplied the other is filled. By depth, so that neighbours are side by side; a gap after
 * every four depths lets the 8 rows × 4 fours that a warp writes at a time use 32 banks. */
struct stage {
    float a[QUADS][4 * ROWS + AORTA_SCORES_GAP], b[QUADS][4 * WIDTH + AORTA_SCORES_GAP];
};

static_assert(2 * sizeof(stage) == AORTA_SCORES_BYTES && AT_ONCE == ROWS, "host and kernel agree");

/* Where the thread's first rows begin. */
struct sources {
    const float *a, *b;
    int apart; /* elements from row to row of b */
};

DEVICE sources sources_of(const aorta_scores_args &a, const place &at) {
    const int row = (int)threadIdx.x / QUADS, quad = (int)threadIdx.x % QUADS;
    sources from;
    from.a = a.a + at.number * a.shape.a_batch + (at.first_row + row) * a.shape.lda + quad * 4;
    from.b = a.b + at.number * a.shape.b_batch + row * a.shape.ldb + quad * 4;
    from.apart = (int)a.shape.ldb;
    return from;
}

DEVICE void fetch_b(const sources &from, int part, int depth, float next[PASSES][4]) {
#pragma unroll
    for (int i = 0; i < PASSES; i++)
        load4(from.b + (int64_t)((part * PASSES + i) * AT_ONCE) * from.apart + depth, next[i]);
}

DEVICE void put_a(stage *to, const float next[4]) {
    float *first = to->a[threadIdx.x % QUADS] + threadIdx.x / QUADS;
#pragma unroll
    for (int i = 0; i < 4; i++) first[i * ROWS] = next[i];
}

DEVICE void put_b(stage *to, int part, const float next[PASSES][4]) {
    float *first = to->b[threadIdx.x % QUADS] + threadIdx.x / QUADS;
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++)
#pragma unroll
        for (int i = 0; i < 4; i++) first[i * WIDTH + (part * PASSES + pass) * AT_ONCE] = next[pass][i];
}

/* Part of a stage's depth. */
DEVICE void multiply(const stage *from, int part, const place &at, tile sum) {
    const float *a = from->a[part] + at.row, *b = from->b[part] + at.column;
#pragma unroll
    for (int d = 0; d < 4; d++) {
        float left[THREAD_ROWS], right[THREAD_COLUMNS];
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i += 4) load4(a + d * ROWS + i, left + i);
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j += 4) load4(b + d * WIDTH + j / 4 * 32, right + j);
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
            for (int j = 0; j < THREAD_COLUMNS; j++) sum[i][j] += left[i] * right[j];
    }
}

/* sum = a·bᵀ. Each part of a stage is in flight while the part before is multiplied and stored: two sets of registers
 * take turns. Two parts are unrolled and no more, as threads would wait for instructions of a longer loop. */
DEVICE void products(const aorta_scores_args &a, const place &at, tile sum) {
    stage *stages = (stage *)dynamic_shared();
    const sources from = sources_of(a, at);
    const int end = (int)a.shape.k;
    float next_a[4], next_b[PARTS][PASSES][4];
    int current = 0;
    load4(from.a, next_a);
#pragma unroll
    for (int part = 0; part < PARTS; part++) fetch_b(from, part, 0, next_b[part]);
    put_a(&stages[0], next_a);
#pragma unroll
    for (int part = 0; part < PARTS; part++) put_b(&stages[0], part, next_b[part]);
    if (DEPTH < end) fetch_b(from, 0, DEPTH, next_b[0]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) sum[i][j] = 0.0f;
    for (int depth = DEPTH; depth < end + DEPTH; depth += DEPTH, current ^= 1) {
        stage *other = &stages[current ^ 1];
        const bool more = depth < end;
        if (more) load4(from.a + depth, next_a);
#pragma unroll 1
        for (int part = 0; part < PARTS; part += 2) {
            if (more) fetch_b(from, part + 1, depth, next_b[1]);
            multiply(&stages[current], part, at, sum);
            if (more) put_b(other, part, next_b[0]);
            const bool wraps = part + 2 == PARTS;
            if (depth + wraps * DEPTH < end) fetch_b(from, (part + 2) % PARTS, depth + wraps * DEPTH, next_b[0]);
            multiply(&stages[current], part + 1, at, sum);
            if (more) put_b(other, part + 1, next_b[1]);
        }
        if (more) put_a(other, next_a);
        __syncthreads();
    }
}

/* ---- whole rows ---- */

DEVICE float joined(float a, float b, bool maximum) {
    return maximum ? greater(a, b) : a + b;
}

/* Joins each row's values over the threads that hold its parts: at every exchange a thread gives half of its rows to
 * its partner and takes the partner's half of its remaining rows, until it has one row, number lane % 8. Then warps
 * join, each for a few rows. */
DEVICE void join_rows(const place &at, bool maximum, float value[THREAD_ROWS]) {
    __shared__ float parts[WARPS][ROWS];
    alignas(16) __shared__ float totals[ROWS];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int rows = THREAD_ROWS / 2; rows > 0; rows /= 2) {
        const bool upper = (lane & rows) != 0;
#pragma unroll
        for (int i = 0; i < rows; i++) {
            const float own = upper ? value[i + rows] : value[i], given = upper ? value[i] : value[i + rows];
            value[i] = joined(own, shuffle_xor(given, rows), maximum);
        }
    }
    parts[warp][at.row + lane % THREAD_ROWS] = value[0];
    __syncthreads();
    const int row = warp * (ROWS / WARPS) + lane / WARPS;
    float total = parts[lane % WARPS][row];
#pragma unroll
    for (int mask = WARPS / 2; mask > 0; mask /= 2) total = joined(total, shuffle_xor(total, mask), maximum);
    if (lane % WARPS == 0) totals[row] = total;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i += 4) load4(&totals[at.row + i], value + i);
}

/* From the beginning of p or its gradient to the thread's first element. */
DEVICE int64_t offset_of(const aorta_scores_args &a, const place &at) {
    return (at.number * a.shape.m + at.first_row + at.row) * WIDTH + at.column;
}

DEVICE void store_row(float *to, const float value[THREAD_COLUMNS]) {
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4) store4(to + j / 4 * 32, value + j);
}

DEVICE void load_row(const float *from, float value[THREAD_COLUMNS]) {
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4) load4(from + j / 4 * 32, value + j);
}

KERNEL_RESIDENT(AORTA_SCORES_THREADS, AORTA_SCORES_RESIDENT, scores_forward, aorta_scores_args) {
    const place at = here();
    const float factor = a.scale * 1.44269504088896341f; /* log2 e */
    float *p = a.out + offset_of(a, at), joint[THREAD_ROWS];
    tile sum;
    products(a, at, sum);
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
        joint[i] = sum[i][0];
#pragma unroll
        for (int j = 1; j < THREAD_COLUMNS; j++) joint[i] = greater(joint[i], sum[i][j]);
    }
    join_rows(at, true, joint);
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
        const float most = joint[i] * factor;
        joint[i] = 0.0f;
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) joint[i] += sum[i][j] = fast_exp2(sum[i][j] * factor - most);
    }
    join_rows(at, false, joint);
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
        const float inverse = fast_reciprocal(joint[i]);
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) sum[i][j] *= inverse;
        store_row(p + i * WIDTH, sum[i]);
    }
}

/* Where a thread saves four of its elements for later, in the memory of the operands, which are no longer used. */
DEVICE float *saved_elements(int i, int j) {
    return (float *)dynamic_shared() + ((i * (THREAD_COLUMNS / 4) + j / 4) * THREADS + (int)threadIdx.x) * 4;
}

static_assert(4 * ROWS * WIDTH <= AORTA_SCORES_BYTES, "all rows of a block fit");

/* p is read twice, as keeping it in registers would leave none for a second block. */
KERNEL_RESIDENT(AORTA_SCORES_THREADS, AORTA_SCORES_RESIDENT, scores_backward, aorta_scores_args) {
    const place at = here();
    const float *weights = a.p + offset_of(a, at);
    float *to = a.out + offset_of(a, at), along[THREAD_ROWS], p[THREAD_COLUMNS];
    tile sum;
    products(a, at, sum);
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
        load_row(weights + i * WIDTH, p);
        along[i] = 0.0f;
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) along[i] += p[j] * sum[i][j];
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j += 4) store4(saved_elements(i, j), p + j);
    }
    join_rows(at, false, along);
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j += 4) load4(saved_elements(i, j), p + j);
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) sum[i][j] = a.scale * p[j] * (sum[i][j] - along[i]);
        store_row(to + i * WIDTH, sum[i]);
    }
}
