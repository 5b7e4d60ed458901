#include "ops/gemm.h"
#include "ops/cpu/cpu.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static aorta_status check_gemm(const struct aorta_gemm *gemm) {
    const bool fits = gemm->m >= 0 && gemm->n >= 0 && gemm->k >= 0 && gemm->m < INT_MAX && gemm->n < INT_MAX &&
                      gemm->k < INT_MAX && gemm->lda < INT_MAX && gemm->ldb < INT_MAX && gemm->ldc < INT_MAX;
    if (!fits)
        return AORTA_ERROR(AORTA_INTERNAL, "matrix product %lldx%lldx%lld: a size is negative or beyond 2^31",
                           (long long)gemm->m, (long long)gemm->n, (long long)gemm->k);
    if (gemm->lda < (gemm->transpose_a ? gemm->m : gemm->k) || gemm->ldb < (gemm->transpose_b ? gemm->k : gemm->n) ||
        gemm->ldc < gemm->n)
        return AORTA_ERROR(AORTA_INTERNAL, "matrix product %lldx%lldx%lld: rows are %lld, %lld, %lld apart, too close",
                           (long long)gemm->m, (long long)gemm->n, (long long)gemm->k, (long long)gemm->lda,
                           (long long)gemm->ldb, (long long)gemm->ldc);
    return NULL;
}

/* A product over nothing is zero; libraries do not agree on it. */
static void clear(const struct aorta_gemm *gemm, enum aorta_dtype dtype, void *c) {
    const size_t size = aorta_dtype_size(dtype);
    for (int64_t row = 0; row < gemm->m; row++)
        memset((char *)c + (size_t)(row * gemm->ldc) * size, 0, (size_t)gemm->n * size);
}

aorta_status aorta_gemm_f32(const struct aorta_gemm *gemm, const float *a, const float *b, float *c) {
    return aorta_gemm_typed(gemm, AORTA_F32, a, b, AORTA_F32, c);
}

/* ---- 16-bit types without a product of their own: pieces are converted, multiplied in fp32 and converted back ---- */

#define PIECE 512 /* rows, columns or depth: 1 MiB of fp32 each for a, b and c */

struct pieces {
    const struct aorta_gemm *gemm;
    const struct aorta_cpu_ops *ops;
    enum aorta_dtype dtype, c_dtype;
    float *a, *b, *c;
};

static int64_t piece_length(int64_t first, int64_t count) {
    return count - first < PIECE ? count - first : PIECE;
}

/* Converts `rows` × `columns` elements from (row, column) on, as stored. */
/* Part of a matrix of any type. */
struct piece {
    const void *base;
    enum aorta_dtype dtype;
    int64_t stride, row, column, rows, columns;
};

static void piece_read(const struct pieces *p, struct piece from, float *to) {
    for (int64_t i = 0; i < from.rows; i++) {
        const size_t at = (size_t)((from.row + i) * from.stride + from.column) * aorta_dtype_size(from.dtype);
        p->ops->to_float(to + i * from.columns, (const char *)from.base + at, from.dtype, from.columns);
    }
}

static void piece_write(const struct pieces *p, void *c, int64_t row, int64_t column, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++)
        p->ops->from_float((char *)c + (size_t)((row + i) * p->gemm->ldc + column) * aorta_dtype_size(p->c_dtype),
                           p->c + i * columns, p->c_dtype, columns);
}

static aorta_status piece_multiply(const struct pieces *p, const void *a, const void *b, void *c, int64_t row,
                                   int64_t column) {
    const struct aorta_gemm *gemm = p->gemm;
    const int64_t m = piece_length(row, gemm->m), n = piece_length(column, gemm->n);
    if (gemm->accumulate) piece_read(p, (struct piece){c, p->c_dtype, gemm->ldc, row, column, m, n}, p->c);
    for (int64_t depth = 0; depth < gemm->k; depth += PIECE) {
        const int64_t k = piece_length(depth, gemm->k);
        if (gemm->transpose_a)
            piece_read(p, (struct piece){a, p->dtype, gemm->lda, depth, row, k, m}, p->a);
        else
            piece_read(p, (struct piece){a, p->dtype, gemm->lda, row, depth, m, k}, p->a);
        if (gemm->transpose_b)
            piece_read(p, (struct piece){b, p->dtype, gemm->ldb, column, depth, n, k}, p->b);
        else
            piece_read(p, (struct piece){b, p->dtype, gemm->ldb, depth, column, k, n}, p->b);
        const struct aorta_gemm part = {.m = m,
                                        .n = n,
                                        .k = k,
                                        .transpose_a = gemm->transpose_a,
                                        .transpose_b = gemm->transpose_b,
                                        .lda = gemm->transpose_a ? m : k,
                                        .ldb = gemm->transpose_b ? k : n,
                                        .ldc = n,
                                        .accumulate = gemm->accumulate || depth > 0};
        AORTA_TRY(aorta_gemm_backend_f32(&part, p->a, p->b, p->c));
    }
    piece_write(p, c, row, column, m, n);
    return NULL;
}

static aorta_status multiply_in_pieces(const struct aorta_gemm *gemm, enum aorta_dtype dtype, const void *a,
                                       const void *b, enum aorta_dtype c_dtype, void *c) {
    float *memory = malloc(3 * sizeof(float) * PIECE * PIECE);
    if (!memory)
        return AORTA_ERROR(AORTA_MEMORY, "matrix product in %s: no memory to convert in", aorta_dtype_name(dtype));
    const struct pieces pieces = {
        gemm, aorta_cpu_ops(), dtype, c_dtype, memory, memory + PIECE * PIECE, memory + 2 * PIECE * PIECE};
    aorta_status status = NULL;
    for (int64_t row = 0; row < gemm->m && !status; row += PIECE)
        for (int64_t column = 0; column < gemm->n && !status; column += PIECE)
            status = piece_multiply(&pieces, a, b, c, row, column);
    free(memory);
    return status;
}

aorta_status aorta_gemm_typed(const struct aorta_gemm *gemm, enum aorta_dtype dtype, const void *a, const void *b,
                              enum aorta_dtype c_dtype, void *c) {
    AORTA_TRY(check_gemm(gemm));
    if (gemm->m == 0 || gemm->n == 0) return NULL;
    if (gemm->k == 0) {
        if (!gemm->accumulate) clear(gemm, c_dtype, c);
        return NULL;
    }
    if (dtype == AORTA_F32) return aorta_gemm_backend_f32(gemm, a, b, c);
    if (aorta_gemm_backend_has(dtype)) return aorta_gemm_backend_typed(gemm, dtype, a, b, c_dtype, c);
    return multiply_in_pieces(gemm, dtype, a, b, c_dtype, c);
}
