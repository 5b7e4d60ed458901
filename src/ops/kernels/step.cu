/* The state of a step, the loss, and the optimizer. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"
#include "ops/kernels/reduce.h"

#define AORTA_STEP_FUNCTION DEVICE
#include "ops/step_rules.h"

/* ---- one thread ---- */

KERNEL(1, step_begin, aorta_step_begin_args) {
    aorta_state_begin(&a);
}

KERNEL(1, step_update, aorta_step_update_args) {
    aorta_state_update(&a);
}

KERNEL(1, step_end, aorta_step_end_args) {
    a.state->step++;
}

/* ---- sums in two stages: blocks, then one block over their sums ---- */

KERNEL(AORTA_SUM_THREADS, sum_finish, aorta_gpu_finish_args) {
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < a.count; i += AORTA_SUM_THREADS) sum += a.partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *a.to = (float)((double)*a.to + a.scale * sum);
}

template <typename T> DEVICE void bce(const aorta_gpu_bce_args &a) {
    const aorta_bce_args &op = a.op;
    const int64_t i = (int64_t)blockIdx.x * AORTA_SUM_THREADS + threadIdx.x;
    double loss = 0.0;
    if (i < op.shape.count) {
        const double share = (double)op.shape.gradient_weight / (double)op.shape.count * (double)op.state->loss_scale;
        const double s = (double)to_float(((const T *)op.scores)[i]);
        const double t = (double)op.target[i], weight = (double)op.importance[i];
        const double e = exp(s < 0.0 ? s : -s); /* in [0, 1]: never overflows */
        const double sigmoid = s >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
        loss = weight * ((s > 0.0 ? s : 0.0) - s * t + log1p(e));
        ((T *)op.dscores)[i] = from_float<T>((float)(share * weight * (sigmoid - t)));
    }
    loss = block_sum(loss);
    if (threadIdx.x == 0) a.partial[blockIdx.x] = loss;
}
TYPED_KERNELS(AORTA_SUM_THREADS, bce, aorta_gpu_bce_args)

KERNEL(AORTA_SUM_THREADS, square_sum, aorta_gpu_square_sum_args) {
    double sum = 0.0;
    const int64_t stride = (int64_t)gridDim.x * AORTA_SUM_THREADS * 8;
    for (int64_t i = ((int64_t)blockIdx.x * AORTA_SUM_THREADS + threadIdx.x) * 8; i < a.op.count; i += stride) {
        float value[8];
        load8(a.op.gradient + i, within(i, a.op.count, 8), value);
        for (int j = 0; j < 8; j++) sum += (double)value[j] * (double)value[j];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) a.partial[blockIdx.x] = sum;
}

/* ---- AdamW: as src/ops/cpu/pointwise.c ---- */

KERNEL(AORTA_POINTWISE_THREADS, adamw, aorta_adamw_args) {
    const aorta_step_state *state = a.shape.state;
    const int64_t first = ((int64_t)blockIdx.x * AORTA_POINTWISE_THREADS + threadIdx.x) * 8;
    const int count = within(first, a.shape.count, 8);
    if (count == 0) return;
    const float factor = state->grad_factor, keep = 1.0f - state->lr * a.shape.weight_decay;
    const float beta1 = a.shape.beta1, beta2 = a.shape.beta2, eps = a.shape.eps;
    const float rest1 = (float)(1.0 - (double)beta1), rest2 = (float)(1.0 - (double)beta2);
    const float rate = state->lr / state->bias_correction1;
    const float root = 1.0f / sqrtf(state->bias_correction2);
    float parameter[8], gradient[8], m[8], v[8];
    load8(a.parameter + first, count, parameter);
    if (!state->finite) {
        if (a.copy) store8_any(a.copy, a.shape.copy_dtype, first, count, parameter);
        return;
    }
    load8(a.gradient + first, count, gradient);
    load8(a.m + first, count, m);
    load8(a.v + first, count, v);
    for (int i = 0; i < 8; i++) {
        const float g = gradient[i] * factor;
        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * g * g;
        parameter[i] = parameter[i] * keep - rate * m[i] / (sqrtf(v[i]) * root + eps);
    }
    store8(a.parameter + first, count, parameter);
    store8(a.m + first, count, m);
    store8(a.v + first, count, v);
    if (a.copy) store8_any(a.copy, a.shape.copy_dtype, first, count, parameter);
}
