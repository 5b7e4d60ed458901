/* Embedding: gathers rows forward; backward sorts ids stably and sums the runs of equal ids, so that no two threads
 * write to one row and the order of additions is fixed. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"
#include "ops/kernels/fault.h"
#include "ops/kernels/reduce.h"

/* Eight columns of some rows. Where all rows begin at multiples of 16 bytes they are in flight together before the
 * first is looked at. */
template <typename T, bool WHOLE, int ROWS> struct some_rows {
    chunk<T> raw[ROWS];

    MEMBER void fetch(int row, const T *from) {
        raw[row] = load_chunk(from);
    }
    MEMBER void get(int row, int, float value[8]) const {
        open_chunk(raw[row], value);
    }
};
template <typename T, int ROWS> struct some_rows<T, false, ROWS> {
    const T *place[ROWS];

    MEMBER void fetch(int row, const T *from) {
        place[row] = from;
    }
    MEMBER void get(int row, int count, float value[8]) const {
        load8(place[row], count, value);
    }
};

DEVICE bool rows_aligned(const void *base, int64_t dim) {
    return dim % 8 == 0 && aligned16(base);
}

/* For an invalid id, row 0 is read and not counted. */
template <typename T, bool WHOLE>
DEVICE void embedding_mean(const aorta_gpu_embedding_args &args, int64_t row, int64_t column, int count) {
    enum { AT_ONCE = 8 };
    const aorta_embedding_args &a = args.op;
    const int64_t features = a.shape.features, dim = a.shape.dim;
    const int64_t *ids = a.ids + row * features;
    int64_t wrong = -1;
    float sum[8] = {};
    for (int64_t first = 0; first < features; first += AT_ONCE) {
        some_rows<T, WHOLE, AT_ONCE> rows;
        bool added[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int64_t f = least(first + i, features - 1), id = ids[f];
            const bool right = id >= 0 && id < a.shape.vocab;
            if (!right) wrong = f;
            added[i] = right && first + i < features;
            rows.fetch(i, (const T *)a.table + (right ? id : 0) * dim + column);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            float value[8];
            rows.get(i, count, value);
            for (int j = 0; j < 8; j++) sum[j] += added[i] ? value[j] : 0.0f;
        }
    }
    if (wrong >= 0) report(args.fault, ids[wrong], row, wrong, a.shape.vocab);
    const float scale = 1.0f / (float)features;
    for (int i = 0; i < 8; i++) sum[i] *= scale;
    store8((T *)a.y + row * dim + column, count, sum);
}

template <typename T> DEVICE void embedding_forward(const aorta_gpu_embedding_args &a) {
    const int64_t row = (int64_t)blockIdx.x * AORTA_GATHER_ROWS + threadIdx.y;
    const int64_t column = ((int64_t)blockIdx.y * AORTA_GATHER_LANES + threadIdx.x) * 8;
    const int count = within(column, a.op.shape.dim, 8);
    if (row >= a.op.shape.rows || count == 0) return;
    if (rows_aligned(a.op.table, a.op.shape.dim))
        embedding_mean<T, true>(a, row, column, count);
    else
        embedding_mean<T, false>(a, row, column, count);
}
TYPED_KERNELS(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, embedding_forward, aorta_gpu_embedding_args,
              embedding_forward)

/* ---- sorting: counts of digits in each block, where each block's share of a digit begins, and the moves ---- */

/* Ids out of range get the greatest key and are added nowhere. */
DEVICE uint32_t sort_key(const aorta_gpu_sort_args &a, int64_t place) {
    if (a.keys) return a.keys[place];
    const int64_t id = a.ids[place];
    return (uint32_t)(id < 0 || id >= a.vocab ? a.vocab : id);
}

DEVICE int sort_digit(uint32_t key, int32_t shift) {
    return (int)(key >> shift & (AORTA_SORT_DIGITS - 1));
}

DEVICE int64_t sort_place(int item) {
    return ((int64_t)blockIdx.x * AORTA_SORT_ITEMS + item) * AORTA_SORT_THREADS + threadIdx.x;
}

KERNEL(AORTA_SORT_THREADS, sort_count, aorta_gpu_sort_args) {
    __shared__ uint32_t counts[AORTA_SORT_DIGITS];
    const int t = (int)threadIdx.x;
    counts[t] = 0;
    __syncthreads();
    for (int item = 0; item < AORTA_SORT_ITEMS; item++) {
        const int64_t place = sort_place(item);
        if (place >= a.count) break;
        const uint32_t key = sort_key(a, place);
        if (!a.keys && key == (uint32_t)a.vocab) report(a.fault, a.ids[place], place / a.features, place % a.features, a.vocab);
        atomicAdd(&counts[sort_digit(key, a.shift)], 1u);
    }
    __syncthreads();
    a.histogram[t * a.blocks + blockIdx.x] = counts[t];
}

/* A warp for each digit: its counts become beginnings within the digit. */
KERNEL(AORTA_SORT_THREADS, sort_scan, aorta_gpu_sort_args) {
    const int lane = (int)threadIdx.x % 32, digit = (int)(blockIdx.x * AORTA_SCAN_DIGITS + threadIdx.x / 32);
    uint32_t *counts = a.histogram + digit * a.blocks;
    uint32_t total = 0;
    for (int64_t first = 0; first < a.blocks; first += 32) {
        const bool live = first + lane < a.blocks;
        uint32_t round;
        const uint32_t before = sum_before<uint32_t, AORTA_SORT_THREADS, 32>(live ? counts[first + lane] : 0, &round);
        if (live) counts[first + lane] = total + before;
        total += round;
    }
    if (lane == 0) a.totals[digit] = total;
}

/* Equal digits keep their order: a thread's place among its round is the number of equal digits before it, those of
 * earlier warps from their counts. */
KERNEL(AORTA_SORT_THREADS, sort_move, aorta_gpu_sort_args) {
    enum { WARPS = AORTA_SORT_THREADS / 32 };
    __shared__ uint32_t next[AORTA_SORT_DIGITS], counts[WARPS][AORTA_SORT_DIGITS];
    __shared__ int digits[AORTA_SORT_THREADS];
    const int t = (int)threadIdx.x, warp = t / 32;
    uint32_t all;
    next[t] = sum_before<uint32_t, AORTA_SORT_THREADS, AORTA_SORT_THREADS>(a.totals[t], &all) + a.histogram[t * a.blocks + blockIdx.x];
    for (int item = 0; item < AORTA_SORT_ITEMS; item++) {
        const int64_t place = sort_place(item);
        const bool live = place < a.count;
        const uint32_t key = live ? sort_key(a, place) : 0;
        const int digit = live ? sort_digit(key, a.shift) : -1;
        digits[t] = digit;
        for (int w = 0; w < WARPS; w++) counts[w][t] = 0;
        __syncthreads();
        if (live) atomicAdd(&counts[warp][digit], 1u);
        __syncthreads();
        if (live) {
            uint32_t to = next[digit];
            for (int w = 0; w < warp; w++) to += counts[w][digit];
            for (int u = warp * 32; u < t; u++) to += digits[u] == digit;
            a.keys_out[to] = key;
            a.values_out[to] = a.keys ? a.values[place] : (uint32_t)place;
        }
        __syncthreads();
        for (int w = 0; w < WARPS; w++) next[t] += counts[w][t];
    }
}

/* ---- sums of runs of equal keys ---- */

/* The range of one row of threads, and its run at the end. */
struct gather {
    int64_t begin, end;
    int64_t column;
    int count;
};

DEVICE gather gather_begin(const aorta_gpu_gather_args &a) {
    const int64_t range = (int64_t)blockIdx.x * AORTA_GATHER_ROWS + threadIdx.y;
    const int64_t column = ((int64_t)blockIdx.y * AORTA_GATHER_LANES + threadIdx.x) * 8;
    const int64_t begin = least(range * a.range, a.count);
    return gather{begin, least(begin + a.range, a.count), column, within(column, a.op.shape.dim, 8)};
}

DEVICE void add_row(const aorta_gpu_gather_args &a, uint32_t key, int64_t column, int count, const float sum[8]) {
    if (key == (uint32_t)a.op.shape.vocab) return;
    float *to = a.op.dtable + (int64_t)key * a.op.shape.dim + column;
    const float scale = 1.0f / (float)a.op.shape.features;
    float value[8] = {}; /* a row has one writer: zeros need not be read */
    if (!a.op.zeros) load8(to, count, value);
    for (int i = 0; i < 8; i++) value[i] += sum[i] * scale;
    store8(to, count, value);
}

template <typename T, bool WHOLE> DEVICE void gather_range(const aorta_gpu_gather_args &a, const gather &g) {
    enum { AT_ONCE = 4 };
    const int64_t dim = a.op.shape.dim, features = a.op.shape.features, slot = g.begin / a.range * dim + g.column;
    uint32_t current = a.keys[g.begin];
    bool open = g.begin > 0 && a.keys[g.begin - 1] == current; /* the run began before this range */
    float sum[8] = {};
    for (int64_t first = g.begin; first < g.end; first += AT_ONCE) {
        some_rows<T, WHOLE, AT_ONCE> rows;
        uint32_t keys[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int64_t at = least(first + i, g.end - 1);
            keys[i] = a.keys[at];
            rows.fetch(i, (const T *)a.op.dy + a.values[at] / features * dim + g.column);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (first + i >= g.end) break;
            if (keys[i] != current) {
                if (open)
                    store8(a.head + slot, g.count, sum);
                else
                    add_row(a, current, g.column, g.count, sum);
                open = false;
                current = keys[i];
                for (int j = 0; j < 8; j++) sum[j] = 0.0f;
            }
            float value[8];
            rows.get(i, g.count, value);
            for (int j = 0; j < 8; j++) sum[j] += value[j];
        }
    }
    if (g.end < a.count && a.keys[g.end] == current)
        store8(a.tail + slot, g.count, sum);
    else if (open)
        store8(a.head + slot, g.count, sum);
    else
        add_row(a, current, g.column, g.count, sum);
}

template <typename T> DEVICE void gather_ranges(const aorta_gpu_gather_args &a) {
    const gather g = gather_begin(a);
    if (g.begin >= g.end || g.count == 0) return;
    if (rows_aligned(a.op.dy, a.op.shape.dim))
        gather_range<T, true>(a, g);
    else
        gather_range<T, false>(a, g);
}
TYPED_KERNELS(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, gather_ranges, aorta_gpu_gather_args, gather_ranges)

/* A run that crosses ranges is summed by the threads of the range it begins in. */
KERNEL(AORTA_GATHER_LANES *AORTA_GATHER_ROWS, gather_runs, aorta_gpu_gather_args) {
    const gather g = gather_begin(a);
    if (g.begin >= g.end || g.end >= a.count || g.count == 0) return;
    const uint32_t key = a.keys[g.end - 1];
    if (a.keys[g.end] != key) return;                                                /* ends here */
    if (a.keys[g.begin] == key && g.begin > 0 && a.keys[g.begin - 1] == key) return; /* began earlier */
    const int64_t dim = a.op.shape.dim;
    float sum[8], more[8];
    load8(a.tail + g.begin / a.range * dim + g.column, g.count, sum);
    for (int64_t begin = g.end;; begin += a.range) {
        const int64_t end = least(begin + a.range, a.count);
        const bool through = end < a.count && a.keys[end - 1] == key && a.keys[end] == key;
        load8((through ? a.tail : a.head) + begin / a.range * dim + g.column, g.count, more);
        for (int i = 0; i < 8; i++) sum[i] += more[i];
        if (!through) break;
    }
    add_row(a, key, g.column, g.count, sum);
}
