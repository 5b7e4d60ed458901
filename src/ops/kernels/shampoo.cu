/* Shampoo, as src/ops/cpu/shampoo.c: a thread block for a block of the matrix. Pairs of rows that share none are rotated
 * at the same time, 16 threads to a pair; every pair meets once in a sweep (the rounds of a tournament). */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"
#include "ops/kernels/reduce.h"

#define N AORTA_SHAMPOO_BLOCK
#define LANES (AORTA_SHAMPOO_THREADS / (N / 2)) /* of a pair */
#define OWN (AORTA_SHAMPOO_FACTOR / AORTA_SHAMPOO_THREADS) /* elements of a thread */

/* The place of the block. */
struct shampoo_part {
    int64_t first, at;
    int rows, columns;
};
DEVICE shampoo_part part_of(const aorta_shampoo_args &a) {
    const int64_t across = divide_up(a.shape.columns, N), block = (int64_t)blockIdx.x;
    const int64_t row = block / across * N, column = block % across * N;
    shampoo_part part;
    part.first = row * a.shape.columns + column;
    part.at = 2 * block * AORTA_SHAMPOO_FACTOR;
    part.rows = (int)least(a.shape.rows - row, N);
    part.columns = (int)least(a.shape.columns - column, N);
    return part;
}

/* Zero beyond the block. */
DEVICE double element(const aorta_shampoo_args &a, const shampoo_part &part, const float *from, int i, int j) {
    return i < part.rows && j < part.columns ? (double)from[part.first + i * a.shape.columns + j] : 0.0;
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
    const aorta_step_state *state = a.shape.state;
    const int t = (int)threadIdx.x, side = (int)blockIdx.y;
    if (!state->finite) return;
    const shampoo_part part = part_of(a);
    const double beta = (double)a.shape.beta2, scale = (double)state->grad_factor;
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
    if ((state->updates - 1) % a.shape.frequency) return;
    diagonalise(rows);
    take_root(rows, a.shape.columns == 1, a.roots + part.at + side * AORTA_SHAMPOO_FACTOR);
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
    const aorta_step_state *state = a.shape.state;
    const int t = (int)threadIdx.x;
    if (!state->finite) return;
    const shampoo_part part = part_of(a);
    const float beta1 = a.shape.beta1, beta2 = a.shape.beta2;
    const float rest1 = (float)(1.0 - (double)beta1), rest2 = (float)(1.0 - (double)beta2);
    double sum = 0.0;
    for (int at = t; at < AORTA_SHAMPOO_FACTOR; at += AORTA_SHAMPOO_THREADS) {
        const int i = at / N, j = at % N;
        from[i][j] = 0.0;
        if (i >= part.rows || j >= part.columns) continue;
        const int64_t place = part.first + i * a.shape.columns + j;
        const float g = a.gradient[place] * state->grad_factor;
        const float m = beta1 * a.m[place] + rest1 * g, v = beta2 * a.v[place] + rest2 * g * g;
        a.m[place] = m;
        a.v[place] = v;
        from[i][j] = (double)m / (double)state->bias_correction1;
        const double step = from[i][j] / (sqrt((double)v / (double)state->bias_correction2) + (double)a.shape.eps);
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
        if (a.shape.columns > 1) {
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
            a.direction[part.first + i * a.shape.columns + j] = (float)(scale * result[o]);
    }
}

KERNEL(AORTA_POINTWISE_THREADS, descent, aorta_descent_args) {
    const aorta_step_state *state = a.shape.state;
    const int64_t first = ((int64_t)blockIdx.x * AORTA_POINTWISE_THREADS + threadIdx.x) * 8;
    const int count = within(first, a.shape.count, 8);
    if (count == 0) return;
    const float lr = state->lr, keep = 1.0f - state->lr * a.shape.weight_decay;
    float parameter[8], direction[8];
    load8(a.parameter + first, count, parameter);
    if (state->finite) {
        load8(a.direction + first, count, direction);
        for (int i = 0; i < 8; i++) parameter[i] = parameter[i] * keep - lr * direction[i];
        store8(a.parameter + first, count, parameter);
    }
    if (a.copy) store8_any(a.copy, a.shape.copy_dtype, first, count, parameter);
}
