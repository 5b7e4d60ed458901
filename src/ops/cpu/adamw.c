#include "ops/cpu/block.h"

#include <math.h>

/* 32 sums side by side, so that an addition need not wait for the one before it. */
aorta_status AORTA_ISA_NAME(square_sum)(const void *args) {
    enum { SUMS = 32 };
    const struct aorta_square_sum_args *a = args;
    double sums[SUMS] = {0.0}, total = (double)*a->square_sum;
    int64_t i = 0;
    for (; i + SUMS <= a->count; i += SUMS) {
        const float *gradient = a->gradient + i;
#pragma omp simd
        for (int j = 0; j < SUMS; j++) sums[j] += (double)gradient[j] * (double)gradient[j];
    }
    for (; i < a->count; i++) total += (double)a->gradient[i] * (double)a->gradient[i];
    for (int j = 0; j < SUMS; j++) total += sums[j];
    *a->square_sum = (float)total;
    return NULL;
}

static void copy_parameters(const struct aorta_adamw_args *a, int64_t first, int64_t count) {
    if (!a->copy) return;
    char *copy = (char *)a->copy + (size_t)first * aorta_dtype_size(a->shape.copy_dtype);
    AORTA_ISA_NAME(from_float)(copy, a->parameter + first, a->shape.copy_dtype, count);
}

/* The order of operations is torch.optim.AdamW's: decay, moments, then
 * p −= lr/(1 − β1^t) · m / (√v / √(1 − β2^t) + eps). */
aorta_status AORTA_ISA_NAME(adamw)(const void *args) {
    const struct aorta_adamw_args *a = args;
    const struct aorta_step_state *state = a->shape.state;
    if (!state->finite) {
        copy_parameters(a, 0, a->shape.count);
        return NULL;
    }
    const float factor = state->grad_factor, keep = 1.0f - state->lr * a->shape.weight_decay;
    const float beta1 = a->shape.beta1, beta2 = a->shape.beta2, eps = a->shape.eps;
    const float rest1 = (float)(1.0 - (double)beta1), rest2 = (float)(1.0 - (double)beta2);
    const float rate = state->lr / state->bias_correction1;
    const float root = 1.0f / sqrtf(state->bias_correction2);
    for (int64_t i = 0; i < a->shape.count; i += AORTA_BLOCK) {
        const int64_t n = block_length(i, a->shape.count);
        const float *gradient = a->gradient + i;
        float *parameter = a->parameter + i, *m = a->m + i, *v = a->v + i;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float g = gradient[j] * factor;
            float mean = beta1 * m[j] + rest1 * g;
            float square = beta2 * v[j] + rest2 * g * g;
            m[j] = mean;
            v[j] = square;
            parameter[j] = parameter[j] * keep - rate * mean / (sqrtf(square) * root + eps);
        }
        copy_parameters(a, i, n);
    }
    return NULL;
}
