/* Attention's scores and their softmax. */
#include "ops/check.h"
#include "ops/gpu/gpu.h"
#include "ops/ops.h"

/* Where one kernel makes both; else they are a product and a softmax. */
static const struct aorta_kernel forward_kernel = {"scores_forward", NULL, aorta_ops_gpu_scores_forward};
static const struct aorta_kernel backward_kernel = {"scores_backward", NULL, aorta_ops_gpu_scores_backward};

static aorta_status check(const char *operation, const struct aorta_products *s,
                          const struct aorta_named_pointer *pointers) {
    if (!s->transpose_a && s->transpose_b && !s->accumulate && s->ldc == s->n && s->c_batch == s->m * s->n)
        return aorta_check_pointers(operation, pointers);
    return AORTA_ERROR(AORTA_INTERNAL, "%s: products must be a·bᵀ, their rows and matrices side by side", operation);
}

static struct aorta_softmax softmax_of(const struct aorta_products *s, float scale) {
    return (struct aorta_softmax){.rows = s->batch * s->m, .width = s->n, .scale = scale};
}

aorta_status aorta_scores_forward(struct aorta_stream *stream, const struct aorta_products *products, float scale,
                                  const float *a, const float *b, float *p) {
    AORTA_TRY(
        check(forward_kernel.name, products, (const struct aorta_named_pointer[]){{"a", a}, {"b", b}, {"p", p}, {0}}));
    const struct aorta_scores_args args = {.shape = *products, .scale = scale, .a = a, .b = b, .out = p};
    if (aorta_ops_gpu_scores_fit(stream, &args)) return aorta_launch(stream, &forward_kernel, &args, sizeof args);
    AORTA_TRY(aorta_products_run(stream, products, a, b, p));
    return aorta_softmax_forward(stream, softmax_of(products, scale), p, p);
}

aorta_status aorta_scores_backward(struct aorta_stream *stream, const struct aorta_products *products, float scale,
                                   const float *a, const float *b, const float *p, float *dx) {
    AORTA_TRY(check(backward_kernel.name, products,
                    (const struct aorta_named_pointer[]){{"a", a}, {"b", b}, {"p", p}, {"dx", dx}, {0}}));
    const struct aorta_scores_args args = {.shape = *products, .scale = scale, .a = a, .b = b, .p = p, .out = dx};
    if (aorta_ops_gpu_scores_fit(stream, &args)) return aorta_launch(stream, &backward_kernel, &args, sizeof args);
    AORTA_TRY(aorta_products_run(stream, products, a, b, dx));
    return aorta_softmax_backward(stream, softmax_of(products, scale), p, dx, dx);
}
