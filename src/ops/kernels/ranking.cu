/* The largest elements of rows, and rows of length one; a block works on a row. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/reduce.h"

KERNEL(AORTA_ROW_THREADS, top_places, aorta_top_args) {
    __shared__ float value[AORTA_TOP_WIDTH];
    const int64_t row = blockIdx.x;
    for (int i = (int)threadIdx.x; i < a.width; i += AORTA_ROW_THREADS) value[i] = a.x[row * a.width + i];
    __syncthreads();
    for (int64_t k = 0; k < a.top; k++) {
        placed best = {AORTA_LOWEST, UINT32_MAX};
        for (int i = (int)threadIdx.x; i < a.width; i += AORTA_ROW_THREADS)
            best = better(best, placed{value[i], (uint32_t)i});
        best = block_best(best);
        if (threadIdx.x == 0) {
            a.places[row * a.top + k] = best.place;
            a.values[row * a.top + k] = best.value;
            value[best.place] = AORTA_LOWEST;
        }
        __syncthreads();
    }
}

KERNEL(AORTA_ROW_THREADS, normalise_rows, aorta_normalise_args) {
    const float *x = a.x + blockIdx.x * a.width;
    float *y = a.y + blockIdx.x * a.width, square = 0.0f;
    for (int64_t i = threadIdx.x; i < a.width; i += AORTA_ROW_THREADS) square += x[i] * x[i];
    const float inverse = 1.0f / greater(sqrtf(block_total(square)), 1e-8f);
    for (int64_t i = threadIdx.x; i < a.width; i += AORTA_ROW_THREADS) y[i] = x[i] * inverse;
}
