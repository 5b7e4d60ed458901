/* Lists of ids: sums of lengths, splits over ranks; pooled rows, their updates; columns of several ranks. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"

/* ---- sums of lengths: of tiles, then where each tile begins, then all ---- */

/* The sum of `value` over the threads before this one, and of all. */
DEVICE int64_t length_before(int64_t value, int64_t *all) {
    __shared__ int64_t sums[AORTA_JAGGED_THREADS];
    const int t = (int)threadIdx.x;
    sums[t] = value;
    __syncthreads();
    for (int step = 1; step < AORTA_JAGGED_THREADS; step *= 2) {
        const int64_t before = t >= step ? sums[t - step] : 0;
        __syncthreads();
        sums[t] += before;
        __syncthreads();
    }
    const int64_t up_to = sums[t];
    *all = sums[AORTA_JAGGED_THREADS - 1];
    __syncthreads();
    return up_to - value;
}

DEVICE int64_t lengths_of_thread(const aorta_gpu_offsets_args &a, int64_t first) {
    int64_t sum = 0;
    for (int i = 0; i < AORTA_JAGGED_ITEMS; i++)
        if (first + i < a.op.count) sum += a.op.lengths[first + i];
    return sum;
}

DEVICE int64_t first_length() {
    return ((int64_t)blockIdx.x * AORTA_JAGGED_THREADS + threadIdx.x) * AORTA_JAGGED_ITEMS;
}

KERNEL(AORTA_JAGGED_THREADS, jagged_tiles, aorta_gpu_offsets_args) {
    int64_t all;
    (void)length_before(lengths_of_thread(a, first_length()), &all);
    if (threadIdx.x == 0) a.tiles[blockIdx.x] = all;
}

/* One block. */
KERNEL(AORTA_JAGGED_THREADS, jagged_starts, aorta_gpu_offsets_args) {
    int64_t total = 0;
    for (int64_t first = 0; first < a.tile_count; first += AORTA_JAGGED_THREADS) {
        const int64_t at = first + threadIdx.x;
        int64_t all;
        const int64_t before = length_before(at < a.tile_count ? a.tiles[at] : 0, &all);
        if (at < a.tile_count) a.tiles[at] = total + before;
        total += all;
    }
    if (threadIdx.x == 0) a.op.offsets[a.op.count] = total;
}

KERNEL(AORTA_JAGGED_THREADS, jagged_offsets, aorta_gpu_offsets_args) {
    const int64_t first = first_length();
    int64_t all, at = a.tiles[blockIdx.x] + length_before(lengths_of_thread(a, first), &all);
    for (int i = 0; i < AORTA_JAGGED_ITEMS; i++) {
        if (first + i >= a.op.count) return;
        a.op.offsets[first + i] = at;
        at += a.op.lengths[first + i];
    }
}

/* ---- which ids are of which part; a thread takes a list ---- */

DEVICE bool is_of_part(const aorta_jagged_part &part, int64_t id) {
    return id >= part.first_row && id < part.first_row + part.rows;
}

KERNEL(AORTA_JAGGED_THREADS, jagged_count, aorta_jagged_split_args) {
    const int64_t sample = (int64_t)blockIdx.x * AORTA_JAGGED_THREADS + threadIdx.x, number = blockIdx.y;
    if (sample >= a.batch) return;
    const aorta_jagged_part part = a.part[number];
    const int64_t *offsets = a.offsets + part.feature * a.batch + sample;
    int32_t count = 0;
    if (part.whole)
        count = (int32_t)(offsets[1] - offsets[0]);
    else
        for (int64_t i = offsets[0]; i < offsets[1]; i++) count += is_of_part(part, a.ids[i]) ? 1 : 0;
    a.lengths[number * a.batch + sample] = count;
}

DEVICE void copy_id(const aorta_jagged_split_args &a, int64_t to, int64_t from, int64_t first_row) {
    a.part_ids[to] = a.ids[from] - first_row;
    if (a.weights) a.part_weights[to] = a.weights[from];
}

KERNEL(AORTA_JAGGED_THREADS, jagged_split, aorta_jagged_split_args) {
    const int64_t first = (int64_t)blockIdx.x * AORTA_JAGGED_THREADS, number = blockIdx.y;
    const int64_t end = least(first + AORTA_JAGGED_THREADS, a.batch), sample = first + threadIdx.x;
    const aorta_jagged_part part = a.part[number];
    const int64_t *offsets = a.offsets + part.feature * a.batch, *to = a.part_offsets + number * a.batch;
    if (part.whole) { /* the lists of the block's samples lie one behind the other, here and there */
        for (int64_t i = offsets[first] + threadIdx.x; i < offsets[end]; i += AORTA_JAGGED_THREADS)
            copy_id(a, to[first] + i - offsets[first], i, part.first_row);
        return;
    }
    if (sample >= a.batch) return;
    int64_t at = to[sample];
    for (int64_t i = offsets[sample]; i < offsets[sample + 1]; i++)
        if (is_of_part(part, a.ids[i])) copy_id(a, at++, i, part.first_row);
}

/* ---- pooled rows: 32 threads take a list ---- */

enum { POOL_STRIP = 4 }; /* columns of a thread at a time, 32 apart */

DEVICE void report_row(aorta_gpu_fault *fault, int64_t id, int64_t slot, int64_t rows) {
    if (atomicExch(&fault->claimed, 1) != 0) return;
    fault->id = id;
    fault->row = slot;
    fault->vocab = rows;
    __threadfence_system();
    *(volatile int32_t *)&fault->found = 1;
}

KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, pool_forward, aorta_gpu_pool_args) {
    const aorta_pool &s = a.op.shape;
    const int64_t cell = (int64_t)blockIdx.x * AORTA_GATHER_ROWS + threadIdx.y;
    if (cell >= s.sources * s.slots * s.batch) return;
    const int64_t source = cell / (s.slots * s.batch), number = cell / s.batch % s.slots;
    const aorta_pool_slot slot = a.op.slot[number];
    const int64_t first = a.op.offsets[cell], end = a.op.offsets[cell + 1];
    float *to = a.op.pooled + (source * s.batch + cell % s.batch) * s.width + slot.column;
    for (int64_t column = threadIdx.x; column < slot.columns; column += POOL_STRIP * 32) {
        float sum[POOL_STRIP] = {};
        for (int64_t i = first; i < end; i++) {
            const int64_t id = a.op.ids[i];
            const float weight = a.op.weights ? a.op.weights[i] : 1.0f;
            if (id < 0 || id >= slot.rows) {
                report_row(a.fault, id, number, slot.rows);
                continue;
            }
            const float *row = slot.table + id * slot.columns + column;
#pragma unroll
            for (int j = 0; j < POOL_STRIP; j++)
                if (column + j * 32 < slot.columns) sum[j] += weight * row[j * 32];
        }
#pragma unroll
        for (int j = 0; j < POOL_STRIP; j++)
            if (column + j * 32 < slot.columns) to[column + j * 32] = sum[j];
    }
}

/* What the sort begins with. A thread takes a list. */
KERNEL(AORTA_JAGGED_THREADS, pool_keys, aorta_gpu_pool_args) {
    const aorta_pool &s = a.op.shape;
    const int64_t cell = (int64_t)blockIdx.x * AORTA_JAGGED_THREADS + threadIdx.x;
    if (cell >= s.sources * s.slots * s.batch) return;
    const int64_t base = a.op.slot[cell / s.batch % s.slots].base;
    for (int64_t i = a.op.offsets[cell]; i < a.op.offsets[cell + 1]; i++) {
        a.order.rows[0][i] = (uint32_t)(base + a.op.ids[i]);
        a.order.places[0][i] = (uint32_t)i;
        a.order.cells[i] = (uint32_t)cell;
    }
}

/* ---- updates: 32 threads take a row ---- */

DEVICE float sum_of_lanes(float value) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
    return value;
}

/* Columns of a thread lie 32 apart. */
template <int STRIP>
DEVICE void apply_row(float *row, float *state, const float gradient[STRIP], int64_t columns, float lr, float eps) {
    float factor = lr;
    if (state) {
        float squares = 0.0f;
#pragma unroll
        for (int j = 0; j < STRIP; j++) squares += gradient[j] * gradient[j];
        const float sum = *state + sum_of_lanes(squares) / (float)columns;
        factor = lr / (sqrtf(sum) + eps);
        if (threadIdx.x == 0) *state = sum;
    }
#pragma unroll
    for (int j = 0; j < STRIP; j++) {
        const int64_t column = threadIdx.x + j * 32;
        if (column < columns) row[column] -= factor * gradient[j];
    }
}

template <int STRIP> DEVICE void update_run(const aorta_gpu_pool_args &a) {
    const aorta_pool &s = a.op.shape;
    const uint32_t *rows = a.order.rows[a.order.passes % 2], *places = a.order.places[a.order.passes % 2];
    const int64_t first = (int64_t)blockIdx.x * AORTA_GATHER_ROWS + threadIdx.y;
    if (first >= a.count || (first > 0 && rows[first - 1] == rows[first])) return; /* no beginning of a run */
    const uint32_t row = rows[first], slots = (uint32_t)s.slots, batch = (uint32_t)s.batch;
    const aorta_pool_slot slot = a.op.slot[a.order.cells[places[first]] / batch % slots];
    float sum[STRIP] = {};
    for (int64_t i = first; i < a.count && rows[i] == row; i++) {
        const uint32_t place = places[i], cell = a.order.cells[place], list = cell / batch;
        const int64_t source = list / slots, column = a.op.slot[list % slots].column;
        const float *gradient = a.op.pooled + (source * s.batch + cell % batch) * s.width + column + threadIdx.x;
        const float weight = a.op.weights ? a.op.weights[place] : 1.0f;
#pragma unroll
        for (int j = 0; j < STRIP; j++)
            if (threadIdx.x + j * 32 < slot.columns) sum[j] += weight * gradient[j * 32];
    }
    const int64_t number = row - slot.base;
    if (!slot.gradient) {
        apply_row<STRIP>(slot.table + number * slot.columns, slot.state ? slot.state + number : nullptr, sum,
                         slot.columns, a.op.lr, a.op.eps);
        return;
    }
#pragma unroll
    for (int j = 0; j < STRIP; j++)
        if (threadIdx.x + j * 32 < slot.columns) slot.gradient[number * slot.columns + threadIdx.x + j * 32] = sum[j];
}

KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, pool_update, aorta_gpu_pool_args) {
    update_run<4>(a);
}
KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, pool_update_wide, aorta_gpu_pool_args) {
    update_run<AORTA_POOL_WIDEST / 32>(a);
}

KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, rows_update, aorta_rows_args) {
    enum { STRIP = AORTA_POOL_WIDEST / 32 };
    const int64_t row = (int64_t)blockIdx.x * AORTA_GATHER_ROWS + threadIdx.y;
    if (row >= a.rows) return;
    float gradient[STRIP];
#pragma unroll
    for (int j = 0; j < STRIP; j++)
        gradient[j] = threadIdx.x + j * 32 < a.columns ? a.gradient[row * a.columns + threadIdx.x + j * 32] : 0.0f;
    apply_row<STRIP>(a.table + row * a.columns, a.state ? a.state + row : nullptr, gradient, a.columns, a.lr, a.eps);
}

/* ---- columns: 32 threads take a block of columns of a row ---- */

DEVICE int64_t piece_place(const aorta_columns_args &a, const aorta_columns_piece &piece, int64_t row) {
    return piece.before * a.shape.batch + row * piece.stride + piece.column;
}

KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, columns_gather, aorta_columns_args) {
    const aorta_columns_block block = a.block[blockIdx.x];
    const int64_t row = (int64_t)blockIdx.y * AORTA_GATHER_ROWS + threadIdx.y;
    if (row >= a.shape.batch) return;
    float *to = a.row + row * a.shape.width + block.to;
    for (int64_t column = threadIdx.x; column < block.columns; column += 32) {
        float sum = a.buffer[piece_place(a, a.piece[block.first], row) + column];
        for (int64_t p = 1; p < block.pieces; p++)
            sum += a.buffer[piece_place(a, a.piece[block.first + p], row) + column];
        to[column] = sum;
    }
}

KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, columns_scatter, aorta_columns_args) {
    const aorta_columns_block block = a.block[blockIdx.x];
    const int64_t row = (int64_t)blockIdx.y * AORTA_GATHER_ROWS + threadIdx.y;
    if (row >= a.shape.batch) return;
    const float *from = a.row + row * a.shape.width + block.to;
    for (int64_t column = threadIdx.x; column < block.columns; column += 32)
        for (int64_t p = 0; p < block.pieces; p++)
            a.buffer[piece_place(a, a.piece[block.first + p], row) + column] = from[column];
}

/* ---- the interaction ---- */

KERNEL(AORTA_JAGGED_THREADS, gate_forward, aorta_gate_args) {
    const int64_t i = (int64_t)blockIdx.x * AORTA_JAGGED_THREADS + threadIdx.x;
    if (i < a.count) a.y[i] = a.z[i] * (1.0f + a.d[i]);
}

KERNEL(AORTA_JAGGED_THREADS, gate_backward, aorta_gate_args) {
    const int64_t i = (int64_t)blockIdx.x * AORTA_JAGGED_THREADS + threadIdx.x;
    if (i >= a.count) return;
    const float dy = a.dy[i];
    a.dz[i] = dy * (1.0f + a.d[i]);
    a.dd[i] = dy * a.z[i];
}
