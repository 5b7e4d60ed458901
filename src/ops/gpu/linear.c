/* Linear layers. Our matrices lie row by row, the vendor's column by column: what is y [rows, out] to us is its
 * transpose to the library, and the operands change places. */
#include "ops/gpu/blas.h"
#include "ops/gpu/gpu.h"

/* The same product by a kernel of our own: nothing changes places or is transposed, rows and columns have strides. */
static aorta_status multiply_plainly(struct aorta_stream *stream, const struct aorta_blas_product *p,
                                     const struct aorta_blas_operands *operands) {
    const struct aorta_gpu_gemm_args args = {.a = operands->b,
                                             .b = operands->a,
                                             .bias = operands->bias,
                                             .c = operands->c,
                                             .m = p->n,
                                             .n = p->m,
                                             .k = p->k,
                                             .a_row = p->transpose_b ? 1 : p->b_stride,
                                             .a_column = p->transpose_b ? p->b_stride : 1,
                                             .b_row = p->transpose_a ? 1 : p->a_stride,
                                             .b_column = p->transpose_a ? p->a_stride : 1,
                                             .c_row = p->c_stride,
                                             .accumulate = p->accumulate,
                                             .c_is_fp32 = p->c_dtype == AORTA_F32,
                                             .relu = p->epilogue == AORTA_BLAS_BIAS_RELU,
                                             .batch = p->batch,
                                             .a_batch = p->b_batch,
                                             .b_batch = p->a_batch,
                                             .c_batch = p->c_batch};
    const struct aorta_gpu_grid grid = {.blocks = {aorta_ops_blocks(args.m, AORTA_GEMM_TILE),
                                                   aorta_ops_blocks(args.n, AORTA_GEMM_TILE), (uint32_t)args.batch},
                                        .threads = {AORTA_GEMM_THREADS}};
    return aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_gemm, p->dtype, grid, &args, sizeof args);
}

/* c by the library where it offers that, else by our kernel. */
static aorta_status multiply(struct aorta_stream *stream, const struct aorta_ops_settings *settings,
                             const struct aorta_blas_product *product, const struct aorta_blas_operands *operands) {
    bool done = false;
    if (!settings->own_products) AORTA_TRY(aorta_blas_multiply(stream, product, operands, &done));
    return done ? NULL : multiply_plainly(stream, product, operands);
}

aorta_status aorta_ops_gpu_linear_forward(struct aorta_stream *stream, const void *args) {
    const struct aorta_linear_args *a = args;
    const struct aorta_linear *s = &a->shape;
    struct aorta_ops_settings settings;
    AORTA_TRY(aorta_blas_settings(aorta_stream_device(stream), &settings));
    const struct aorta_blas_product product = {.dtype = s->dtype,
                                               .c_dtype = s->dtype,
                                               .epilogue = a->relu   ? AORTA_BLAS_BIAS_RELU
                                                           : a->bias ? AORTA_BLAS_BIAS
                                                                     : AORTA_BLAS_PLAIN,
                                               .m = s->out,
                                               .n = s->rows,
                                               .k = s->in,
                                               .a_stride = s->in,
                                               .b_stride = s->in,
                                               .c_stride = s->out,
                                               .transpose_a = true,
                                               .tf32 = a->tf32};
    const struct aorta_blas_operands operands = {.a = a->weight, .b = a->x, .c = a->y, .bias = a->bias};
    return multiply(stream, &settings, &product, &operands);
}

aorta_status aorta_ops_gpu_linear_backward_input(struct aorta_stream *stream, const void *args) {
    const struct aorta_linear_args *a = args;
    const struct aorta_linear *s = &a->shape;
    struct aorta_ops_settings settings;
    AORTA_TRY(aorta_blas_settings(aorta_stream_device(stream), &settings));
    const struct aorta_blas_product product = {.dtype = s->dtype,
                                               .c_dtype = s->dtype,
                                               .m = s->in,
                                               .n = s->rows,
                                               .k = s->out,
                                               .a_stride = s->in,
                                               .b_stride = s->out,
                                               .c_stride = s->in,
                                               .accumulate = a->accumulate};
    const struct aorta_blas_operands operands = {.a = a->weight, .b = a->dy, .c = a->dx};
    return multiply(stream, &settings, &product, &operands);
}

/* dbias as a by-product of dweight, where the library can: then dy is read once. */
static aorta_status try_with_bias(struct aorta_stream *stream, const struct aorta_linear_args *a,
                                  struct aorta_blas_product product, bool *done) {
    product.epilogue = AORTA_BLAS_BIAS_GRADIENT_B;
    const struct aorta_blas_operands operands = {.a = a->x, .b = a->dy, .c = a->dweight, .bias = a->dbias};
    return aorta_blas_multiply(stream, &product, &operands, done);
}

aorta_status aorta_ops_gpu_linear_backward_weight(struct aorta_stream *stream, const void *args) {
    const struct aorta_linear_args *a = args;
    const struct aorta_linear *s = &a->shape;
    struct aorta_ops_settings settings;
    AORTA_TRY(aorta_blas_settings(aorta_stream_device(stream), &settings));
    const struct aorta_blas_product product = {.dtype = s->dtype,
                                               .c_dtype = AORTA_F32,
                                               .m = s->in,
                                               .n = s->out,
                                               .k = s->rows,
                                               .a_stride = s->in,
                                               .b_stride = s->out,
                                               .c_stride = s->in,
                                               .transpose_b = true,
                                               .accumulate = a->accumulate};
    if (s->rows > 0 && a->dbias && !a->accumulate && settings.fuse_bias_gradient && !settings.own_products) {
        bool done;
        AORTA_TRY(try_with_bias(stream, a, product, &done));
        if (done) return NULL;
    }
    if (a->dbias)
        AORTA_TRY(aorta_ops_gpu_column_sums(stream, s->dtype, a->dy, s->rows, s->out, a->dbias, 0, 0, a->accumulate));
    if (s->rows == 0) /* a product over nothing is zero */
        return a->accumulate ? NULL : aorta_fill_bytes(stream, a->dweight, 0, (size_t)(s->out * s->in) * sizeof(float));
    const struct aorta_blas_operands operands = {.a = a->x, .b = a->dy, .c = a->dweight};
    return multiply(stream, &settings, &product, &operands);
}

/* Ours row by row, the library's column by column: its a is our b. */
aorta_status aorta_ops_gpu_products(struct aorta_stream *stream, const void *args) {
    const struct aorta_products_args *a = args;
    const struct aorta_products *s = &a->shape;
    struct aorta_ops_settings settings;
    AORTA_TRY(aorta_blas_settings(aorta_stream_device(stream), &settings));
    const struct aorta_blas_product product = {.dtype = AORTA_F32,
                                               .c_dtype = AORTA_F32,
                                               .m = s->n,
                                               .n = s->m,
                                               .k = s->k,
                                               .a_stride = s->ldb,
                                               .b_stride = s->lda,
                                               .c_stride = s->ldc,
                                               .transpose_a = s->transpose_b,
                                               .transpose_b = s->transpose_a,
                                               .accumulate = s->accumulate,
                                               .batch = (int32_t)s->batch,
                                               .a_batch = s->b_batch,
                                               .b_batch = s->a_batch,
                                               .c_batch = s->c_batch};
    const struct aorta_blas_operands operands = {.a = a->b, .b = a->a, .c = a->c};
    return multiply(stream, &settings, &product, &operands);
}
