/* Linear layers and batched matrix products. */
#include "ops/cpu/cpu.h"
#include "ops/gemm.h"
#include "ops/gpu/blas.h"
#include "ops/gpu/gpu.h"

#include <string.h>

static aorta_status check_linear(const char *operation, const struct aorta_linear *shape) {
    AORTA_TRY(aorta_check_dtype(operation, shape->dtype));
    return aorta_check_sizes(operation,
                             AORTA_SIZES({"rows", shape->rows, 0}, {"in", shape->in, 1}, {"out", shape->out, 1}));
}

/* ---- on the CPU ---- */

/* The products of a layer, of whole matrices: y = x·weightᵀ, dx = dy·weight, dweight = dyᵀ·x. */
static struct aorta_products whole(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
    return (struct aorta_products){.m = m,
                                   .n = n,
                                   .k = k,
                                   .transpose_a = transpose_a,
                                   .transpose_b = transpose_b,
                                   .lda = transpose_a ? m : k,
                                   .ldb = transpose_b ? k : n,
                                   .ldc = n};
}

static struct aorta_products forward_product(const struct aorta_linear *s) {
    return whole(s->rows, s->out, s->in, false, true);
}

static struct aorta_products input_product(const struct aorta_linear_args *a) {
    struct aorta_products product = whole(a->shape.rows, a->shape.in, a->shape.out, false, false);
    product.accumulate = a->accumulate;
    return product;
}

static struct aorta_products weight_product(const struct aorta_linear_args *a) {
    struct aorta_products product = whole(a->shape.out, a->shape.in, a->shape.rows, true, false);
    product.accumulate = a->accumulate;
    return product;
}

static void bias_rows(const struct aorta_linear *shape, const void *bias, void *y) {
    const size_t bytes = (size_t)shape->out * aorta_dtype_size(shape->dtype);
    for (int64_t row = 0; row < shape->rows; row++) memcpy((char *)y + (size_t)row * bytes, bias, bytes);
}

/* The bias is stored first and the product added to it: the sum is rounded once, and y is written once less than with
 * a separate pass. */
static aorta_status forward(const void *args) {
    const struct aorta_linear_args *a = args;
    const struct aorta_linear *shape = &a->shape;
    struct aorta_products product = forward_product(shape);
    product.accumulate = a->bias != NULL;
    if (a->bias) bias_rows(shape, a->bias, a->y);
    AORTA_TRY(aorta_gemm_typed(&product, shape->dtype, a->x, a->weight, shape->dtype, a->y));
    if (a->relu) aorta_cpu_ops()->relu(a->y, shape->dtype, shape->rows * shape->out);
    return NULL;
}

static aorta_status backward_input(const void *args) {
    const struct aorta_linear_args *a = args;
    const struct aorta_products product = input_product(a);
    return aorta_gemm_typed(&product, a->shape.dtype, a->dy, a->weight, a->shape.dtype, a->dx);
}

static aorta_status backward_weight(const void *args) {
    const struct aorta_linear_args *a = args;
    const struct aorta_products product = weight_product(a);
    if (a->dbias) aorta_cpu_ops()->column_sums(&a->shape, a->dy, a->dbias, a->accumulate);
    return aorta_gemm_typed(&product, a->shape.dtype, a->dy, a->x, AORTA_F32, a->dweight);
}

static aorta_status products(const void *args) {
    const struct aorta_products_args *a = args;
    const struct aorta_products *s = &a->shape;
    for (int64_t i = 0; i < s->batch; i++)
        AORTA_TRY(aorta_gemm_f32(s, a->a + i * s->a_batch, a->b + i * s->b_batch, a->c + i * s->c_batch));
    return NULL;
}

/* ---- on a GPU ---- */

/* A product by our own kernel: no operand is transposed; rows and columns have strides. */
static aorta_status multiply_without_library(struct aorta_stream *stream, const struct aorta_blas_product *product,
                                             const struct aorta_blas_operands *operands) {
    const struct aorta_products *s = &product->shape;
    const struct aorta_gpu_gemm_args args = {.a = operands->a,
                                             .b = operands->b,
                                             .bias = operands->bias,
                                             .c = operands->c,
                                             .m = s->m,
                                             .n = s->n,
                                             .k = s->k,
                                             .a_row = s->transpose_a ? 1 : s->lda,
                                             .a_column = s->transpose_a ? s->lda : 1,
                                             .b_row = s->transpose_b ? 1 : s->ldb,
                                             .b_column = s->transpose_b ? s->ldb : 1,
                                             .c_row = s->ldc,
                                             .accumulate = s->accumulate,
                                             .c_is_fp32 = product->c_dtype == AORTA_F32,
                                             .relu = product->epilogue == AORTA_BLAS_BIAS_RELU,
                                             .batch = s->batch,
                                             .a_batch = s->a_batch,
                                             .b_batch = s->b_batch,
                                             .c_batch = s->c_batch};
    const struct aorta_gpu_grid grid = {.blocks = {aorta_ops_blocks(args.m, AORTA_GEMM_TILE),
                                                   aorta_ops_blocks(args.n, AORTA_GEMM_TILE), (uint32_t)args.batch},
                                        .threads = {AORTA_GEMM_THREADS}};
    return aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_gemm, product->dtype, grid, &args, sizeof args);
}

/* Computes c by the library if it offers the product, else by our kernel. */
static aorta_status multiply(struct aorta_stream *stream, const struct aorta_blas_product *product,
                             const struct aorta_blas_operands *operands) {
    bool done;
    AORTA_TRY(aorta_blas_multiply(stream, product, operands, &done));
    return done ? NULL : multiply_without_library(stream, product, operands);
}

static aorta_status linear_forward_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_linear_args *a = args;
    const enum aorta_dtype dtype = a->shape.dtype;
    const struct aorta_blas_product product = {.dtype = dtype,
                                               .c_dtype = dtype,
                                               .shape = forward_product(&a->shape),
                                               .epilogue = a->relu   ? AORTA_BLAS_BIAS_RELU
                                                           : a->bias ? AORTA_BLAS_BIAS
                                                                     : AORTA_BLAS_PLAIN,
                                               .tf32 = a->tf32};
    const struct aorta_blas_operands operands = {.a = a->x, .b = a->weight, .c = a->y, .bias = a->bias};
    return multiply(stream, &product, &operands);
}

static aorta_status linear_backward_input_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_linear_args *a = args;
    const enum aorta_dtype dtype = a->shape.dtype;
    const struct aorta_blas_product product = {.dtype = dtype, .c_dtype = dtype, .shape = input_product(a)};
    const struct aorta_blas_operands operands = {.a = a->dy, .b = a->weight, .c = a->dx};
    return multiply(stream, &product, &operands);
}

/* Computes dbias together with dweight if the library can, so that dy is read only once. */
static aorta_status try_with_bias(struct aorta_stream *stream, const struct aorta_linear_args *a,
                                  struct aorta_blas_product product, bool *done) {
    *done = false;
    if (a->shape.rows == 0 || !a->dbias || a->accumulate) return NULL;
    product.epilogue = AORTA_BLAS_BIAS_GRADIENT;
    const struct aorta_blas_operands operands = {.a = a->dy, .b = a->x, .c = a->dweight, .bias = a->dbias};
    return aorta_blas_multiply(stream, &product, &operands, done);
}

static aorta_status linear_backward_weight_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_linear_args *a = args;
    const struct aorta_linear *s = &a->shape;
    const struct aorta_blas_product product = {.dtype = s->dtype, .c_dtype = AORTA_F32, .shape = weight_product(a)};
    const struct aorta_gpu_column_sums bias = {
        .rows = s->rows, .columns = s->out, .sums = {a->dbias}, .accumulate = a->accumulate};
    const struct aorta_blas_operands operands = {.a = a->dy, .b = a->x, .c = a->dweight};
    bool done;
    AORTA_TRY(try_with_bias(stream, a, product, &done));
    if (done) return NULL;
    if (a->dbias) AORTA_TRY(aorta_ops_gpu_column_sums(stream, s->dtype, a->dy, &bias));
    if (s->rows > 0) return multiply(stream, &product, &operands);
    /* a product over nothing is zero */
    return a->accumulate ? NULL : aorta_fill_bytes(stream, a->dweight, 0, (size_t)(s->out * s->in) * sizeof(float));
}

static aorta_status products_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_products_args *a = args;
    const struct aorta_blas_product product = {.dtype = AORTA_F32, .c_dtype = AORTA_F32, .shape = a->shape};
    const struct aorta_blas_operands operands = {.a = a->a, .b = a->b, .c = a->c};
    return multiply(stream, &product, &operands);
}

/* ---- both ---- */

static const struct aorta_kernel forward_kernel = {"linear_forward", forward, linear_forward_gpu};
static const struct aorta_kernel relu_kernel = {"linear_relu_forward", forward, linear_forward_gpu};
static const struct aorta_kernel input_kernel = {"linear_backward_input", backward_input, linear_backward_input_gpu};
static const struct aorta_kernel weight_kernel = {"linear_backward_weight", backward_weight,
                                                  linear_backward_weight_gpu};
static const struct aorta_kernel products_kernel = {"products", products, products_gpu};

aorta_status aorta_linear_forward(struct aorta_stream *stream, const struct aorta_linear_args *a) {
    const struct aorta_kernel *kernel = a->relu ? &relu_kernel : &forward_kernel;
    AORTA_TRY(check_linear(kernel->name, &a->shape));
    if (a->shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(kernel->name, AORTA_POINTERS(a->x, a->weight, a->y)));
    if (a->relu) AORTA_TRY(aorta_check_pointers(kernel->name, AORTA_POINTERS(a->bias)));
    return aorta_launch(stream, kernel, a, sizeof *a);
}

aorta_status aorta_linear_backward_input(struct aorta_stream *stream, const struct aorta_linear_args *a) {
    AORTA_TRY(check_linear(input_kernel.name, &a->shape));
    return aorta_ops_launch(stream, &input_kernel, a->shape.rows, a, sizeof *a,
                            AORTA_POINTERS(a->dy, a->weight, a->dx));
}

aorta_status aorta_linear_backward_weight(struct aorta_stream *stream, const struct aorta_linear_args *a) {
    AORTA_TRY(check_linear(weight_kernel.name, &a->shape));
    AORTA_TRY(aorta_check_pointers(weight_kernel.name, AORTA_POINTERS(a->dweight)));
    if (a->shape.rows > 0) AORTA_TRY(aorta_check_pointers(weight_kernel.name, AORTA_POINTERS(a->x, a->dy)));
    return aorta_launch(stream, &weight_kernel, a, sizeof *a);
}

aorta_status aorta_products_run(struct aorta_stream *stream, const struct aorta_products_args *a) {
    const char *name = products_kernel.name;
    AORTA_TRY(aorta_check_sizes(name, AORTA_SIZES({"batch", a->shape.batch, 0}, {"m", a->shape.m, 1},
                                                  {"n", a->shape.n, 1}, {"k", a->shape.k, 1},
                                                  {"lda", a->shape.lda, a->shape.transpose_a ? a->shape.m : a->shape.k},
                                                  {"ldb", a->shape.ldb, a->shape.transpose_b ? a->shape.k : a->shape.n},
                                                  {"ldc", a->shape.ldc, a->shape.n})));
    return aorta_ops_launch(stream, &products_kernel, a->shape.batch, a, sizeof *a, AORTA_POINTERS(a->a, a->b, a->c));
}
