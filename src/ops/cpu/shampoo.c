/* Shampoo's blocks, one after the other, in double. Roots come from one-sided Jacobi rotations (Hestenes): rows of a
 * symmetric matrix A are rotated by V until they are orthogonal; then V's rows are the eigenvectors, and the lengths of
 * the rows of V·A the eigenvalues. */
#include "ops/cpu/block.h"

#include <math.h>
#include <string.h>

enum { N = AORTA_SHAMPOO_BLOCK, SWEEPS = 16 };
static const double converged = 1e-15, ridge = 1e-6;

struct eigen {
    double w[N][N], v[N][N];
};

/* A block of the matrix. */
struct part {
    int64_t first; /* element */
    int rows, columns;
    double *factors[2];
    float *roots[2];
};

static int smaller(int64_t left) {
    return left < N ? (int)left : N;
}

static struct part part_of(const struct aorta_shampoo_args *a, int64_t row, int64_t column) {
    const int64_t across = (a->columns + N - 1) / N, block = row / N * across + column / N;
    const int64_t at = 2 * block * AORTA_SHAMPOO_FACTOR;
    return (struct part){.first = row * a->columns + column,
                         .rows = smaller(a->rows - row),
                         .columns = smaller(a->columns - column),
                         .factors = {a->factors + at, a->factors + at + AORTA_SHAMPOO_FACTOR},
                         .roots = {a->roots + at, a->roots + at + AORTA_SHAMPOO_FACTOR}};
}

/* Loads a block, zeros outside of it; transposed if `side` is 1. */
static void load(const struct aorta_shampoo_args *a, const struct part *part, const float *from, double factor,
                 int side, double to[N][N]) {
    memset(to, 0, sizeof(double[N][N]));
    for (int i = 0; i < part->rows; i++)
        for (int j = 0; j < part->columns; j++) {
            const double value = factor * (double)from[part->first + i * a->columns + j];
            if (side)
                to[j][i] = value;
            else
                to[i][j] = value;
        }
}

/* ---- roots ---- */

static bool rotate(struct eigen *e, int p, int q) {
    double pp = 0, qq = 0, pq = 0;
    for (int i = 0; i < N; i++) {
        pp += e->w[p][i] * e->w[p][i];
        qq += e->w[q][i] * e->w[q][i];
        pq += e->w[p][i] * e->w[q][i];
    }
    if (fabs(pq) <= converged * sqrt(pp) * sqrt(qq)) return false;
    const double zeta = (qq - pp) / (2 * pq);
    const double t = (zeta < 0 ? -1.0 : 1.0) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    const double c = 1 / sqrt(1 + t * t), s = c * t;
    for (int i = 0; i < N; i++) {
        const double w = e->w[p][i], v = e->v[p][i];
        e->w[p][i] = c * w - s * e->w[q][i];
        e->w[q][i] = s * w + c * e->w[q][i];
        e->v[p][i] = c * v - s * e->v[q][i];
        e->v[q][i] = s * v + c * e->v[q][i];
    }
    return true;
}

static void diagonalise(struct eigen *e) {
    bool rotated = true;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) e->v[i][j] = i == j;
    for (int sweep = 0; sweep < SWEEPS && rotated; sweep++) {
        rotated = false;
        for (int p = 0; p < N; p++)
            for (int q = p + 1; q < N; q++) rotated |= rotate(e, p, q);
    }
}

/* root = (factor / correction + ridge·λ)^(−1/2) of a vector, ^(−1/4) of a matrix. */
static void take_root(const double *factor, double correction, bool vector, struct eigen *e, float *root) {
    double values[N], most = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) e->w[i][j] = factor[i * N + j] / correction;
    diagonalise(e);
    for (int i = 0; i < N; i++) {
        values[i] = 0;
        for (int j = 0; j < N; j++) values[i] += e->w[i][j] * e->w[i][j];
        values[i] = sqrt(values[i]);
        if (values[i] > most) most = values[i];
    }
    for (int i = 0; i < N; i++) {
        const double half = 1 / sqrt(values[i] + ridge * most);
        values[i] = most <= 0 ? 1 : vector ? half : sqrt(half);
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++) sum += values[k] * e->v[k][i] * e->v[k][j];
            root[i * N + j] = (float)sum;
        }
}

static void update_factor(const struct aorta_shampoo_args *a, const struct part *part, int side, struct eigen *e) {
    const double beta = (double)a->beta2;
    double *factor = part->factors[side];
    load(a, part, a->gradient, (double)a->state->grad_factor, side, e->v);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++) sum += e->v[i][k] * e->v[j][k];
            factor[i * N + j] = beta * factor[i * N + j] + (1 - beta) * sum;
        }
}

aorta_status AORTA_ISA_NAME(shampoo_factors)(const void *args) {
    const struct aorta_shampoo_args *a = args;
    const struct aorta_step_state *state = a->state;
    const bool vector = a->columns == 1, due = (state->updates - 1) % a->frequency == 0;
    struct eigen e;
    if (!state->finite) return NULL;
    for (int64_t row = 0; row < a->rows; row += N)
        for (int64_t column = 0; column < a->columns; column += N) {
            const struct part part = part_of(a, row, column);
            for (int side = 0; side < (vector ? 1 : 2); side++) {
                update_factor(a, &part, side, &e);
                if (due) take_root(part.factors[side], (double)state->bias_correction2, vector, &e, part.roots[side]);
            }
        }
    return NULL;
}

/* ---- directions ---- */

/* Σ (m̂ / (√v̂ + eps))² */
static double update_moments(const struct aorta_shampoo_args *a, const struct part *part) {
    const struct aorta_step_state *state = a->state;
    const float factor = state->grad_factor, beta1 = a->beta1, beta2 = a->beta2;
    const float rest1 = (float)(1.0 - (double)beta1), rest2 = (float)(1.0 - (double)beta2);
    double sum = 0;
    for (int i = 0; i < part->rows; i++)
        for (int j = 0; j < part->columns; j++) {
            const int64_t at = part->first + i * a->columns + j;
            const float g = a->gradient[at] * factor;
            a->m[at] = beta1 * a->m[at] + rest1 * g;
            a->v[at] = beta2 * a->v[at] + rest2 * g * g;
            const double m = (double)a->m[at] / (double)state->bias_correction1;
            const double step = m / (sqrt((double)a->v[at] / (double)state->bias_correction2) + (double)a->eps);
            sum += step * step;
        }
    return sum;
}

/* to = root · from */
static void apply_root(const float *root, double from[N][N], double to[N][N]) {
    for (int i = 0; i < N; i++) {
        memset(to[i], 0, sizeof to[i]);
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++) to[i][j] += (double)root[i * N + k] * from[k][j];
    }
}

static void transpose(double matrix[N][N]) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++) {
            const double other = matrix[i][j];
            matrix[i][j] = matrix[j][i];
            matrix[j][i] = other;
        }
}

static void direct(const struct aorta_shampoo_args *a, const struct part *part) {
    double from[N][N], to[N][N], sum = 0;
    const double wanted = update_moments(a, part);
    load(a, part, a->m, 1.0 / (double)a->state->bias_correction1, 0, from);
    apply_root(part->roots[0], from, to);
    if (a->columns > 1) { /* roots are symmetric: (X·R)ᵀ = R·Xᵀ */
        transpose(to);
        apply_root(part->roots[1], to, from);
        transpose(from);
        memcpy(to, from, sizeof to);
    }
    for (int i = 0; i < part->rows; i++)
        for (int j = 0; j < part->columns; j++) sum += to[i][j] * to[i][j];
    const double scale = sum > 0 ? sqrt(wanted / sum) : 0;
    for (int i = 0; i < part->rows; i++)
        for (int j = 0; j < part->columns; j++)
            a->direction[part->first + i * a->columns + j] = (float)(scale * to[i][j]);
}

aorta_status AORTA_ISA_NAME(shampoo_direction)(const void *args) {
    const struct aorta_shampoo_args *a = args;
    if (!a->state->finite) return NULL;
    for (int64_t row = 0; row < a->rows; row += N)
        for (int64_t column = 0; column < a->columns; column += N) {
            const struct part part = part_of(a, row, column);
            direct(a, &part);
        }
    return NULL;
}

aorta_status AORTA_ISA_NAME(descent)(const void *args) {
    const struct aorta_descent_args *a = args;
    const struct aorta_step_state *state = a->state;
    const float lr = state->lr, keep = 1.0f - state->lr * a->weight_decay;
    for (int64_t i = 0; state->finite && i < a->count; i++)
        a->parameter[i] = a->parameter[i] * keep - lr * a->direction[i];
    if (a->copy) AORTA_ISA_NAME(from_float)(a->copy, a->parameter, a->copy_dtype, a->count);
    return NULL;
}
