/* Lists of ids: sums of lengths, splits over ranks; pooled rows, their updates; columns of several ranks. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"
#include "ops/kernels/fault.h"
#include "ops/kernels/reduce.h"

/* ---- sums of lengths: of tiles, then where each tile begins, then all ---- */

DEVICE int64_t length_before(int64_t value, int64_t *all) {
    return sum_before<int64_t, AORTA_JAGGED_THREADS, AORTA_JAGGED_THREADS>(value, all);
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
    if (part.whole) { /* the lists of the block's samples are contiguous in source and target */
        for (int64_t i = offsets[first] + threadIdx.x; i < offsets[end]; i += AORTA_JAGGED_THREADS)
            copy_id(a, to[first] + i - offsets[first], i, part.first_row);
        return;
    }
    if (sample >= a.batch) return;
    int64_t at = to[sample];
    for (int64_t i = offsets[sample]; i < offsets[sample + 1]; i++)
        if (is_of_part(part, a.ids[i])) copy_id(a, at++, i, part.first_row);
}

/* ---- rows: 32 threads take one ---- */

DEVICE uint32_t any_of_lanes(uint32_t value) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) value |= shuffle_xor(value, mask);
    return value;
}

DEVICE uint32_t least_of_lanes(uint32_t value) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
        const uint32_t other = shuffle_xor(value, mask);
        value = other < value ? other : value;
    }
    return value;
}

DEVICE float most_of_lanes(float value) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) value = fmaxf(value, shuffle_xor(value, mask));
    return value;
}

struct table_row {
    uint8_t *bytes;
    bool coded;
    float scale, offset;
};

DEVICE float value_of(const table_row &row, int64_t column) {
    return row.coded ? row.offset + row.scale * (float)row.bytes[column] : ((const float *)row.bytes)[column];
}

DEVICE float *scale_of(const table_row &row, int64_t columns) {
    return (float *)(row.bytes + (columns + 3) / 4 * 4);
}

DEVICE uint8_t *in_table(const aorta_pool_slot &slot, int64_t number) {
    return (uint8_t *)slot.table + number * slot.row_bytes;
}

/* The newest version of the row. */
DEVICE uint8_t *in_cache_or_table(const aorta_row_cache &cache, const aorta_pool_slot &slot, int64_t number) {
    const uint32_t row = (uint32_t)(slot.base + number);
    const int64_t first = (int64_t)(row / (uint32_t)cache.per_set) * AORTA_ROW_WAYS;
    const uint32_t way = any_of_lanes(cache.rows[first + threadIdx.x] == row + 1 ? threadIdx.x + 1 : 0);
    return way ? cache.values + (first + way - 1) * cache.row_bytes : in_table(slot, number);
}

template <bool CACHED> DEVICE table_row open_row(const aorta_pool_args &a, const aorta_pool_slot &slot, int64_t number) {
    if (!CACHED) return {in_table(slot, number), false, 0.0f, 0.0f};
    table_row row = {in_cache_or_table(a.cache, slot, number), slot.coded != 0, 0.0f, 0.0f};
    if (row.coded) {
        const float *scale = scale_of(row, slot.columns);
        row.scale = scale[0];
        row.offset = scale[1];
    }
    return row;
}

/* ---- pooled rows: 32 threads take a list ---- */

enum { POOL_STRIP = 4 }; /* columns of a thread at a time, 32 apart */

template <bool CACHED> DEVICE void pool_list(const aorta_gpu_pool_args &a) {
    const aorta_pool &s = a.op.shape;
    const int64_t cell = (int64_t)blockIdx.x * AORTA_GATHER_ROWS + threadIdx.y;
    if (cell >= s.sources * s.slots * s.batch) return;
    const int64_t source = cell / (s.slots * s.batch), number = cell / s.batch % s.slots;
    const aorta_pool_slot slot = a.op.slot[number];
    const int64_t first = a.op.offsets[cell], end = a.op.offsets[cell + 1];
    float *to = a.op.pooled + (source * s.batch + cell % s.batch) * s.width + slot.column;
    for (int64_t strip = 0; strip < slot.columns; strip += POOL_STRIP * 32) { /* all threads of a row find it */
        const int64_t column = strip + threadIdx.x;
        float sum[POOL_STRIP] = {};
        for (int64_t i = first; i < end; i++) {
            const int64_t id = a.op.ids[i];
            const float weight = a.op.weights ? a.op.weights[i] : 1.0f;
            if (id < 0 || id >= slot.rows) {
                report(a.fault, id, number, 0, slot.rows);
                continue;
            }
            const table_row row = open_row<CACHED>(a.op, slot, id);
#pragma unroll
            for (int j = 0; j < POOL_STRIP; j++)
                if (column + j * 32 < slot.columns) sum[j] += weight * value_of(row, column + j * 32);
        }
#pragma unroll
        for (int j = 0; j < POOL_STRIP; j++)
            if (column + j * 32 < slot.columns) to[column + j * 32] = sum[j];
    }
}

KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, pool_forward, aorta_gpu_pool_args) {
    pool_list<false>(a);
}
KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, pool_forward_cached, aorta_gpu_pool_args) {
    pool_list<true>(a);
}

/* The keys for the sort. A thread processes one list. */
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

/* ---- the cache: 32 threads take a set, each one of its places ---- */

/* The first of sorted rows that is `row` or more. */
DEVICE int64_t first_from(const uint32_t *rows, int64_t count, int64_t row) {
    int64_t first = 0;
    while (count > 0) {
        const int64_t half = count / 2;
        if ((int64_t)rows[first + half] < row) {
            first += half + 1;
            count -= half + 1;
        } else
            count = half;
    }
    return first;
}

DEVICE bool occurs(const uint32_t *rows, int64_t count, uint32_t row) {
    const int64_t at = first_from(rows, count, row);
    return at < count && rows[at] == row;
}

DEVICE void copy_row(uint8_t *to, const uint8_t *from, int64_t bytes) {
    for (int64_t i = threadIdx.x; i < bytes / 4; i += 32) ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
}

/* A thread's place. */
struct cache_place {
    uint32_t row, slot, used;
};

/* Replaces the least recently used row, which is written back, by this row. Returns false if all places are in use. */
DEVICE bool bring_row(const aorta_gpu_pool_args &a, int64_t set, int64_t i, cache_place &mine, bool &written_back) {
    const aorta_row_cache &cache = a.op.cache;
    const uint32_t oldest = least_of_lanes(mine.used), lane = threadIdx.x;
    if (oldest + 1 >= a.batch) return false;
    const uint32_t way = least_of_lanes(mine.used == oldest ? lane : 32);
    const uint32_t old = any_of_lanes(lane == way ? mine.row : 0), old_slot = any_of_lanes(lane == way ? mine.slot : 0);
    uint8_t *values = cache.values + (set * AORTA_ROW_WAYS + way) * cache.row_bytes;
    written_back = old != 0;
    if (old) {
        const aorta_pool_slot slot = a.op.slot[old_slot];
        copy_row(in_table(slot, (int64_t)old - 1 - slot.base), values, slot.row_bytes);
    }
    const uint32_t row = a.order.rows[a.order.passes % 2][i];
    const uint32_t cell = a.order.cells[a.order.places[a.order.passes % 2][i]];
    const uint32_t number = cell / (uint32_t)a.op.shape.batch % (uint32_t)a.op.shape.slots;
    const aorta_pool_slot slot = a.op.slot[number];
    copy_row(values, in_table(slot, (int64_t)row - slot.base), slot.row_bytes);
    if (lane == way) mine = {row + 1, number, a.batch};
    return true;
}

KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, pool_cache, aorta_gpu_pool_args) {
    const aorta_row_cache &cache = a.op.cache;
    const int64_t set = (int64_t)blockIdx.x * AORTA_GATHER_ROWS + threadIdx.y;
    if (set >= cache.sets) return;
    const uint32_t *rows = a.order.rows[a.order.passes % 2];
    const int64_t first = first_from(rows, a.count, set * cache.per_set);
    const int64_t end = first + first_from(rows + first, a.count - first, (set + 1) * cache.per_set);
    if (first == end) return;
    const int64_t place = set * AORTA_ROW_WAYS + threadIdx.x;
    cache_place mine = {cache.rows[place], cache.slots[place], cache.used[place]};
    uint32_t counts[AORTA_ROW_COUNTS] = {};
    for (int64_t i = first; i < end; i++)
        if (mine.row == rows[i] + 1) mine.used = a.batch;
    for (int64_t i = first; i < end; i++) {
        bool written_back = false;
        if (i > first && rows[i - 1] == rows[i]) continue;
        if (any_of_lanes(mine.row == rows[i] + 1)) {
            counts[AORTA_ROWS_CACHED]++;
            continue;
        }
        const bool brought = !occurs(a.before, a.before_count, rows[i]) && bring_row(a, set, i, mine, written_back);
        counts[brought ? AORTA_ROWS_BROUGHT : AORTA_ROWS_WITHOUT_PLACE]++;
        counts[AORTA_ROWS_WRITTEN_BACK] += written_back ? 1 : 0;
    }
    cache.rows[place] = mine.row;
    cache.slots[place] = mine.slot;
    cache.used[place] = mine.used;
    if (threadIdx.x == 0)
        for (int i = 0; i < AORTA_ROW_COUNTS; i++)
            if (counts[i]) atomicAdd(&cache.counts[i], (uint64_t)counts[i]);
}

/* ---- updates: 32 threads take a row ---- */

/* Columns of a thread are 32 apart. */
template <int STRIP> DEVICE void encode_row(const table_row &row, const float value[STRIP], int64_t columns) {
    float most = -3.4e38f, negative_least = -3.4e38f;
#pragma unroll
    for (int j = 0; j < STRIP; j++) {
        if (threadIdx.x + j * 32 >= columns) continue;
        most = fmaxf(most, value[j]);
        negative_least = fmaxf(negative_least, -value[j]);
    }
    const float offset = -most_of_lanes(negative_least), scale = (most_of_lanes(most) - offset) / 255.0f;
#pragma unroll
    for (int j = 0; j < STRIP; j++)
        if (threadIdx.x + j * 32 < columns)
            row.bytes[threadIdx.x + j * 32] = scale > 0.0f ? (uint8_t)rintf((value[j] - offset) / scale) : 0;
    if (threadIdx.x != 0) return;
    float *to = scale_of(row, columns);
    to[0] = scale;
    to[1] = offset;
}

template <int STRIP>
DEVICE void apply_row(const table_row &row, float *state, const float gradient[STRIP], int64_t columns, float lr,
                      float eps) {
    float factor = lr, value[STRIP];
    if (state) {
        float squares = 0.0f;
#pragma unroll
        for (int j = 0; j < STRIP; j++) squares += gradient[j] * gradient[j];
        const float sum = *state + group_sum(squares) / (float)columns;
        factor = lr / (sqrtf(sum) + eps);
        if (threadIdx.x == 0) *state = sum;
    }
#pragma unroll
    for (int j = 0; j < STRIP; j++) {
        const int64_t column = threadIdx.x + j * 32;
        if (column >= columns) continue;
        value[j] = value_of(row, column) - factor * gradient[j];
        if (!row.coded) ((float *)row.bytes)[column] = value[j];
    }
    if (row.coded) encode_row<STRIP>(row, value, columns);
}

template <int STRIP, bool CACHED> DEVICE void update_run(const aorta_gpu_pool_args &a) {
    const aorta_pool &s = a.op.shape;
    const uint32_t *rows = a.order.rows[a.order.passes % 2], *places = a.order.places[a.order.passes % 2];
    const int64_t first = (int64_t)blockIdx.x * AORTA_GATHER_ROWS + threadIdx.y;
    if (first >= a.count || (first > 0 && rows[first - 1] == rows[first])) return; /* not the first row of a run */
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
        apply_row<STRIP>(open_row<CACHED>(a.op, slot, number), slot.state ? slot.state + number : nullptr, sum,
                         slot.columns, a.op.lr, a.op.eps);
        return;
    }
#pragma unroll
    for (int j = 0; j < STRIP; j++)
        if (threadIdx.x + j * 32 < slot.columns) slot.gradient[number * slot.columns + threadIdx.x + j * 32] = sum[j];
}

KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, pool_update, aorta_gpu_pool_args) {
    update_run<4, false>(a);
}
KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, pool_update_wide, aorta_gpu_pool_args) {
    update_run<AORTA_POOL_WIDEST / 32, false>(a);
}
KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, pool_update_cached, aorta_gpu_pool_args) {
    update_run<4, true>(a);
}
KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, pool_update_cached_wide, aorta_gpu_pool_args) {
    update_run<AORTA_POOL_WIDEST / 32, true>(a);
}

KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, rows_update, aorta_rows_args) {
    enum { STRIP = AORTA_POOL_WIDEST / 32 };
    const int64_t row = (int64_t)blockIdx.x * AORTA_GATHER_ROWS + threadIdx.y;
    if (row >= a.rows) return;
    float gradient[STRIP];
#pragma unroll
    for (int j = 0; j < STRIP; j++)
        gradient[j] = threadIdx.x + j * 32 < a.columns ? a.gradient[row * a.columns + threadIdx.x + j * 32] : 0.0f;
    apply_row<STRIP>({(uint8_t *)(a.table + row * a.columns), false, 0.0f, 0.0f}, a.state ? a.state + row : nullptr, gradient, a.columns, a.lr, a.eps);
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
