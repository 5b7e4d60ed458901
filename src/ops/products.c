/* Batched matrix products, and what stands around them: ReLU's gradient, sums of pieces. */
#include "ops/check.h"
#include "ops/gemm.h"
#include "ops/gpu/gpu.h"

static aorta_status multiply(const void *args) {
    const struct aorta_products_args *a = args;
    const struct aorta_products *s = &a->shape;
    const struct aorta_gemm gemm = {.m = s->m,
                                    .n = s->n,
                                    .k = s->k,
                                    .transpose_a = s->transpose_a,
                                    .transpose_b = s->transpose_b,
                                    .lda = s->lda,
                                    .ldb = s->ldb,
                                    .ldc = s->ldc,
                                    .accumulate = s->accumulate};
    for (int64_t i = 0; i < s->batch; i++)
        AORTA_TRY(aorta_gemm_f32(&gemm, a->a + i * s->a_batch, a->b + i * s->b_batch, a->c + i * s->c_batch));
    return NULL;
}

static aorta_status relu_backward(const void *args) {
    const struct aorta_relu_args *a = args;
    for (int64_t i = 0; i < a->count; i++) a->dx[i] = a->y[i] > 0.0f ? a->dy[i] : 0.0f;
    return NULL;
}

static aorta_status sum_pieces(const void *args) {
    const struct aorta_sum_pieces_args *a = args;
    for (int64_t i = 0; i < a->count; i++) {
        float sum = 0.0f;
        for (int64_t p = 0; p < a->pieces; p++) sum += a->from[p * a->count + i];
        a->to[i] = a->scale * sum;
    }
    return NULL;
}

static const struct aorta_kernel products_kernel = {"products", multiply, aorta_ops_gpu_products};
static const struct aorta_kernel relu_kernel = {"relu_backward", relu_backward, aorta_ops_gpu_relu_backward};
static const struct aorta_kernel pieces_kernel = {"sum_pieces", sum_pieces, aorta_ops_gpu_sum_pieces};

aorta_status aorta_products_run(struct aorta_stream *stream, const struct aorta_products *products, const float *a,
                                const float *b, float *c) {
    const char *name = products_kernel.name;
    AORTA_TRY(aorta_check_size(name, "batch", products->batch, 0));
    AORTA_TRY(aorta_check_size(name, "m", products->m, 1));
    AORTA_TRY(aorta_check_size(name, "n", products->n, 1));
    AORTA_TRY(aorta_check_size(name, "k", products->k, 1));
    AORTA_TRY(aorta_check_size(name, "lda", products->lda, products->transpose_a ? products->m : products->k));
    AORTA_TRY(aorta_check_size(name, "ldb", products->ldb, products->transpose_b ? products->k : products->n));
    AORTA_TRY(aorta_check_size(name, "ldc", products->ldc, products->n));
    if (products->batch == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(name, (const struct aorta_named_pointer[]){{"a", a}, {"b", b}, {"c", c}, {0}}));
    const struct aorta_products_args args = {.shape = *products, .a = a, .b = b, .c = c};
    return aorta_launch(stream, &products_kernel, &args, sizeof args);
}

aorta_status aorta_relu_backward(struct aorta_stream *stream, int64_t count, const float *y, const float *dy,
                                 float *dx) {
    AORTA_TRY(aorta_check_size(relu_kernel.name, "count", count, 0));
    if (count == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(relu_kernel.name,
                                   (const struct aorta_named_pointer[]){{"y", y}, {"dy", dy}, {"dx", dx}, {0}}));
    const struct aorta_relu_args args = {.count = count, .y = y, .dy = dy, .dx = dx};
    return aorta_launch(stream, &relu_kernel, &args, sizeof args);
}

aorta_status aorta_sum_pieces(struct aorta_stream *stream, float *to, const float *from, int64_t pieces, int64_t count,
                              float scale) {
    AORTA_TRY(aorta_check_size(pieces_kernel.name, "pieces", pieces, 1));
    AORTA_TRY(aorta_check_size(pieces_kernel.name, "count", count, 0));
    if (count == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(pieces_kernel.name,
                                   (const struct aorta_named_pointer[]){{"to", to}, {"from", from}, {0}}));
    const struct aorta_sum_pieces_args args = {
        .pieces = pieces, .count = count, .scale = scale, .from = from, .to = to};
    return aorta_launch(stream, &pieces_kernel, &args, sizeof args);
}
