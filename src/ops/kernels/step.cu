/* The state of a step, the loss, the optimizers, and flags. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"
#include "ops/kernels/reduce.h"

#define AORTA_SHARED DEVICE
#include "ops/shared.h"

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
    if (i < op.count) {
        const double share = (double)op.gradient_weight / (double)op.count * (double)op.state->loss_scale;
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
TYPED_KERNELS(AORTA_SUM_THREADS, bce, aorta_gpu_bce_args, bce)

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
    const aorta_step_state *state = a.state;
    const int64_t first = ((int64_t)blockIdx.x * AORTA_POINTWISE_THREADS + threadIdx.x) * 8;
    const int count = within(first, a.count, 8);
    if (count == 0) return;
    const float factor = state->grad_factor, keep = 1.0f - state->lr * a.weight_decay;
    const float beta1 = a.beta1, beta2 = a.beta2, eps = a.eps;
    const float rest1 = (float)(1.0 - (double)beta1), rest2 = (float)(1.0 - (double)beta2);
    const float rate = state->lr / state->bias_correction1;
    const float root = 1.0f / sqrtf(state->bias_correction2);
    float parameter[8], gradient[8], m[8], v[8];
    load8(a.parameter + first, count, parameter);
    if (!state->finite) {
        if (a.copy) store8_any(a.copy, a.copy_dtype, first, count, parameter);
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
    if (a.copy) store8_any(a.copy, a.copy_dtype, first, count, parameter);
}

/* ---- Shampoo ---- */

/* Shampoo, as src/ops/cpu/shampoo.c: a thread block for a block of the matrix. Pairs of rows that share none are rotated
 * at the same time, 16 threads to a pair; every pair meets once in a sweep (the rounds of a tournament). */

enum {
    N = AORTA_SHAMPOO_BLOCK,
    LANES = AORTA_SHAMPOO_THREADS / (N / 2), /* of a pair */
    OWN = AORTA_SHAMPOO_FACTOR / AORTA_SHAMPOO_THREADS /* elements of a thread */
};

/* The place of the block. */
struct shampoo_part {
    int64_t first, at;
    int rows, columns;
};
DEVICE shampoo_part part_of(const aorta_shampoo_args &a) {
    const int64_t across = divide_up(a.columns, N), block = (int64_t)blockIdx.x;
    const int64_t row = block / across * N, column = block % across * N;
    shampoo_part part;
    part.first = row * a.columns + column;
    part.at = 2 * block * AORTA_SHAMPOO_FACTOR;
    part.rows = (int)least(a.rows - row, N);
    part.columns = (int)least(a.columns - column, N);
    return part;
}

/* Zero beyond the block. */
DEVICE double element(const aorta_shampoo_args &a, const shampoo_part &part, const float *from, int i, int j) {
    return i < part.rows && j < part.columns ? (double)from[part.first + i * a.columns + j] : 0.0;
}

DEVICE double size_of(double x) {
    return x < 0.0 ? -x : x;
}

/* Row p of pair k in this round; q is the other one. */
DEVICE int row_p(int round, int k) {
    return k == 0 ? N - 1 : (round + k) % (N - 1);
}
DEVICE int row_q(int round, int k) {
    return k == 0 ? round : (round - k + N - 1) % (N - 1);
}

struct shampoo_rows {
    double w[N][N + 1], v[N][N + 1];
    double part[3][AORTA_SHAMPOO_THREADS];
    int rotated;
};

DEVICE void rotate_pair(shampoo_rows &rows, int round) {
    const int t = (int)threadIdx.x, pair = t / LANES, lane = t % LANES;
    const int p = row_p(round, pair), q = row_q(round, pair);
    double pp = 0.0, qq = 0.0, pq = 0.0;
    for (int i = lane; i < N; i += LANES) {
        pp += rows.w[p][i] * rows.w[p][i];
        qq += rows.w[q][i] * rows.w[q][i];
        pq += rows.w[p][i] * rows.w[q][i];
    }
    rows.part[0][t] = pp;
    rows.part[1][t] = qq;
    rows.part[2][t] = pq;
    __syncthreads();
    pp = qq = pq = 0.0;
    for (int i = 0; i < LANES; i++) { /* all of a pair in the same order, so with the same result */
        pp += rows.part[0][pair * LANES + i];
        qq += rows.part[1][pair * LANES + i];
        pq += rows.part[2][pair * LANES + i];
    }
    if (size_of(pq) > 1e-15 * sqrt(pp) * sqrt(qq)) {
        const double zeta = (qq - pp) / (2.0 * pq);
        const double tangent = (zeta < 0.0 ? -1.0 : 1.0) / (size_of(zeta) + sqrt(1.0 + zeta * zeta));
        const double c = 1.0 / sqrt(1.0 + tangent * tangent), s = c * tangent;
        for (int i = lane; i < N; i += LANES) {
            const double w = rows.w[p][i], v = rows.v[p][i];
            rows.w[p][i] = c * w - s * rows.w[q][i];
            rows.w[q][i] = s * w + c * rows.w[q][i];
            rows.v[p][i] = c * v - s * rows.v[q][i];
            rows.v[q][i] = s * v + c * rows.v[q][i];
        }
        rows.rotated = 1;
    }
    __syncthreads();
}

/* w holds the matrix. */
DEVICE void diagonalise(shampoo_rows &rows) {
    const int t = (int)threadIdx.x;
    for (int i = t; i < AORTA_SHAMPOO_FACTOR; i += AORTA_SHAMPOO_THREADS) rows.v[i / N][i % N] = i / N == i % N;
    int going = 1;
    for (int sweep = 0; sweep < AORTA_SHAMPOO_SWEEPS && going; sweep++) {
        __syncthreads();
        if (t == 0) rows.rotated = 0;
        __syncthreads();
        for (int round = 0; round < N - 1; round++) rotate_pair(rows, round);
        going = rows.rotated;
    }
    __syncthreads();
}

DEVICE void take_root(shampoo_rows &rows, bool vector, float *root) {
    const int t = (int)threadIdx.x;
    double *values = rows.part[0];
    if (t < N) {
        double sum = 0.0;
        for (int j = 0; j < N; j++) sum += rows.w[t][j] * rows.w[t][j];
        rows.part[1][t] = sqrt(sum);
    }
    __syncthreads();
    if (t < N) {
        double most = 0.0;
        for (int i = 0; i < N; i++) most = rows.part[1][i] > most ? rows.part[1][i] : most;
        const double half = 1.0 / sqrt(rows.part[1][t] + 1e-6 * most);
        values[t] = most <= 0.0 ? 1.0 : vector ? half : sqrt(half);
    }
    __syncthreads();
    for (int at = t; at < AORTA_SHAMPOO_FACTOR; at += AORTA_SHAMPOO_THREADS) {
        double sum = 0.0;
        for (int k = 0; k < N; k++) sum += values[k] * rows.v[k][at / N] * rows.v[k][at % N];
        root[at] = (float)sum;
    }
}

KERNEL(AORTA_SHAMPOO_THREADS, shampoo_factors, aorta_shampoo_args) {
    __shared__ shampoo_rows rows;
    const aorta_step_state *state = a.state;
    const int t = (int)threadIdx.x, side = (int)blockIdx.y;
    if (!state->finite) return;
    const shampoo_part part = part_of(a);
    const double beta = (double)a.beta2, scale = (double)state->grad_factor;
    double *factor = a.factors + part.at + side * AORTA_SHAMPOO_FACTOR;
    for (int at = t; at < AORTA_SHAMPOO_FACTOR; at += AORTA_SHAMPOO_THREADS) {
        const int i = at / N, j = at % N;
        rows.v[i][j] = scale * (side ? element(a, part, a.gradient, j, i) : element(a, part, a.gradient, i, j));
    }
    __syncthreads();
    for (int at = t; at < AORTA_SHAMPOO_FACTOR; at += AORTA_SHAMPOO_THREADS) {
        const int i = at / N, j = at % N;
        double sum = 0.0;
        for (int k = 0; k < N; k++) sum += rows.v[i][k] * rows.v[j][k];
        factor[at] = beta * factor[at] + (1.0 - beta) * sum;
        rows.w[i][j] = factor[at] / (double)state->bias_correction2;
    }
    __syncthreads();
    if ((state->updates - 1) % a.frequency) return;
    diagonalise(rows);
    take_root(rows, a.columns == 1, a.roots + part.at + side * AORTA_SHAMPOO_FACTOR);
}

/* Thread 0 has the sum; afterwards all threads have it. */
DEVICE double share_sum(double value) {
    __shared__ double shared;
    value = block_sum(value);
    if (threadIdx.x == 0) shared = value;
    __syncthreads();
    value = shared;
    __syncthreads();
    return value;
}

KERNEL(AORTA_SHAMPOO_THREADS, shampoo_direction, aorta_shampoo_args) {
    __shared__ double from[N][N + 1], to[N][N + 1];
    const aorta_step_state *state = a.state;
    const int t = (int)threadIdx.x;
    if (!state->finite) return;
    const shampoo_part part = part_of(a);
    const float beta1 = a.beta1, beta2 = a.beta2;
    const float rest1 = (float)(1.0 - (double)beta1), rest2 = (float)(1.0 - (double)beta2);
    double sum = 0.0;
    for (int at = t; at < AORTA_SHAMPOO_FACTOR; at += AORTA_SHAMPOO_THREADS) {
        const int i = at / N, j = at % N;
        from[i][j] = 0.0;
        if (i >= part.rows || j >= part.columns) continue;
        const int64_t place = part.first + i * a.columns + j;
        const float g = a.gradient[place] * state->grad_factor;
        const float m = beta1 * a.m[place] + rest1 * g, v = beta2 * a.v[place] + rest2 * g * g;
        a.m[place] = m;
        a.v[place] = v;
        from[i][j] = (double)m / (double)state->bias_correction1;
        const double step = from[i][j] / (sqrt((double)v / (double)state->bias_correction2) + (double)a.eps);
        sum += step * step;
    }
    const double wanted = share_sum(sum);
    const float *left = a.roots + part.at, *right = left + AORTA_SHAMPOO_FACTOR;
    double result[OWN];
    for (int o = 0; o < OWN; o++) {
        const int i = (t + o * AORTA_SHAMPOO_THREADS) / N, j = (t + o * AORTA_SHAMPOO_THREADS) % N;
        result[o] = 0.0;
        for (int k = 0; k < N; k++) result[o] += (double)left[i * N + k] * from[k][j];
        to[i][j] = result[o];
    }
    __syncthreads();
    sum = 0.0;
    for (int o = 0; o < OWN; o++) {
        const int i = (t + o * AORTA_SHAMPOO_THREADS) / N, j = (t + o * AORTA_SHAMPOO_THREADS) % N;
        if (a.columns > 1) {
            result[o] = 0.0;
            for (int k = 0; k < N; k++) result[o] += to[i][k] * (double)right[k * N + j];
        }
        if (i < part.rows && j < part.columns) sum += result[o] * result[o];
    }
    sum = share_sum(sum);
    const double scale = sum > 0.0 ? sqrt(wanted / sum) : 0.0;
    for (int o = 0; o < OWN; o++) {
        const int i = (t + o * AORTA_SHAMPOO_THREADS) / N, j = (t + o * AORTA_SHAMPOO_THREADS) % N;
        if (i < part.rows && j < part.columns)
            a.direction[part.first + i * a.columns + j] = (float)(scale * result[o]);
    }
}

KERNEL(AORTA_POINTWISE_THREADS, descent, aorta_descent_args) {
    const aorta_step_state *state = a.state;
    const int64_t first = ((int64_t)blockIdx.x * AORTA_POINTWISE_THREADS + threadIdx.x) * 8;
    const int count = within(first, a.count, 8);
    if (count == 0) return;
    const float lr = state->lr, keep = 1.0f - state->lr * a.weight_decay;
    float parameter[8], direction[8];
    load8(a.parameter + first, count, parameter);
    if (state->finite) {
        load8(a.direction + first, count, direction);
        for (int i = 0; i < 8; i++) parameter[i] = parameter[i] * keep - lr * direction[i];
        store8(a.parameter + first, count, parameter);
    }
    if (a.copy) store8_any(a.copy, a.copy_dtype, first, count, parameter);
}

/* ---- flags ---- */

/* Flags: as src/ops/ops.c. Exchanges happen in the cache that all multiprocessors share, so that the waiting kernel
 * sees the flag. Work queued before a kernel on its stream is written when the kernel begins. */

KERNEL(1, flag_raise, aorta_flag_args) {
    atomicExch(a.flag, 1);
}

/* A kernel has no clock that all devices share, so it counts its reads of a quarter of a microsecond or more. Later
 * work must not run early, so at the limit the kernel fails, and the device with it. */
KERNEL(1, flag_await, aorta_flag_args) {
    int64_t left = (int64_t)(a.limit_s * 4e6) + 1;
    while (atomicExch(a.flag, 0) == 0)
        if (--left == 0) fail_kernel();
}
