/* A plain matrix product for cases that the vendor's library rejects, and for tests. Sums are fp32. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"

/* A tile [rows, 32] of the matrix whose element (i, j) is at i·row + j·column, zero outside [rows_end, columns_end).
 * Neighbouring threads read neighbouring memory in both layouts. */
template <typename T>
DEVICE void load_tile(const T *base, int64_t row, int64_t column, int64_t first_row, int64_t first_column,
                      int64_t rows_end, int64_t columns_end, float tile[AORTA_GEMM_TILE][AORTA_GEMM_TILE + 1]) {
    for (int i = (int)threadIdx.x; i < AORTA_GEMM_TILE * AORTA_GEMM_TILE; i += AORTA_GEMM_THREADS) {
        const int fast = i % AORTA_GEMM_TILE, slow = i / AORTA_GEMM_TILE;
        const int r = column == 1 ? slow : fast, c = column == 1 ? fast : slow;
        const bool inside = first_row + r < rows_end && first_column + c < columns_end;
        tile[r][c] = inside ? to_float(base[(first_row + r) * row + (first_column + c) * column]) : 0.0f;
    }
}

template <typename T> DEVICE void gemm(const aorta_gpu_gemm_args &a) {
    enum { ROWS = AORTA_GEMM_THREADS / AORTA_GEMM_TILE, SHARE = AORTA_GEMM_TILE / ROWS };
    __shared__ float a_tile[AORTA_GEMM_TILE][AORTA_GEMM_TILE + 1], b_tile[AORTA_GEMM_TILE][AORTA_GEMM_TILE + 1];
    const int x = (int)threadIdx.x % AORTA_GEMM_TILE, y = (int)threadIdx.x / AORTA_GEMM_TILE;
    const int64_t first_row = (int64_t)blockIdx.x * AORTA_GEMM_TILE;
    const int64_t first_column = (int64_t)blockIdx.y * AORTA_GEMM_TILE, column = first_column + x;
    const int64_t number = blockIdx.z;
    float sum[SHARE] = {};
    for (int64_t depth = 0; depth < a.k; depth += AORTA_GEMM_TILE) {
        load_tile((const T *)a.a + number * a.a_batch, a.a_row, a.a_column, first_row, depth, a.m, a.k, a_tile);
        load_tile((const T *)a.b + number * a.b_batch, a.b_row, a.b_column, depth, first_column, a.k, a.n, b_tile);
        __syncthreads();
        for (int p = 0; p < AORTA_GEMM_TILE; p++)
            for (int i = 0; i < SHARE; i++) sum[i] += a_tile[y + i * ROWS][p] * b_tile[p][x];
        __syncthreads();
    }
    for (int i = 0; i < SHARE; i++) {
        const int64_t row = first_row + y + i * ROWS, place = number * a.c_batch + row * a.c_row + column;
        if (row >= a.m || column >= a.n) continue;
        float *wide = (float *)a.c + place;
        T *narrow = (T *)a.c + place;
        float value = sum[i];
        if (a.bias) value += to_float(((const T *)a.bias)[column]);
        if (a.accumulate) value += a.c_is_fp32 ? *wide : to_float(*narrow);
        if (a.relu) value = value > 0.0f ? value : 0.0f;
        if (a.c_is_fp32)
            *wide = value;
        else
            *narrow = from_float<T>(value);
    }
}
TYPED_KERNELS(AORTA_GEMM_THREADS, gemm, aorta_gpu_gemm_args, gemm)
