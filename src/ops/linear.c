#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gemm.h"
#include "ops/gpu/gpu.h"

static aorta_status check_linear(const char *operation, const struct aorta_linear *shape) {
    AORTA_TRY(aorta_check_dtype(operation, shape->dtype));
    AORTA_TRY(aorta_check_size(operation, "rows", shape->rows, 0));
    AORTA_TRY(aorta_check_size(operation, "in", shape->in, 1));
    return aorta_check_size(operation, "out", shape->out, 1);
}

/* The bias is laid down first and the product added to it: the sum is rounded once, and y is written once less than
 * with a pass of its own. */
static aorta_status forward(const void *args) {
    const struct aorta_linear_args *a = args;
    const struct aorta_linear *shape = &a->shape;
    if (a->bias) aorta_cpu_ops()->bias_rows(shape, a->bias, a->y);
    const struct aorta_gemm gemm = {.m = shape->rows,
                                    .n = shape->out,
                                    .k = shape->in,
                                    .transpose_b = true,
                                    .lda = shape->in,
                                    .ldb = shape->in,
                                    .ldc = shape->out,
                                    .accumulate = a->bias != NULL};
    AORTA_TRY(aorta_gemm_typed(&gemm, shape->dtype, a->x, a->weight, shape->dtype, a->y));
    if (a->relu) aorta_cpu_ops()->relu(a->y, shape->dtype, shape->rows * shape->out);
    return NULL;
}

static aorta_status backward_input(const void *args) {
    const struct aorta_linear_args *a = args;
    const struct aorta_linear *shape = &a->shape;
    const struct aorta_gemm gemm = {.m = shape->rows,
                                    .n = shape->in,
                                    .k = shape->out,
                                    .lda = shape->out,
                                    .ldb = shape->in,
                                    .ldc = shape->in,
                                    .accumulate = a->accumulate};
    return aorta_gemm_typed(&gemm, shape->dtype, a->dy, a->weight, shape->dtype, a->dx);
}

static aorta_status backward_weight(const void *args) {
    const struct aorta_linear_args *a = args;
    const struct aorta_linear *shape = &a->shape;
    if (a->dbias) aorta_cpu_ops()->column_sums(shape, a->dy, a->dbias, a->accumulate);
    const struct aorta_gemm gemm = {.m = shape->out,
                                    .n = shape->in,
                                    .k = shape->rows,
                                    .transpose_a = true,
                                    .lda = shape->out,
                                    .ldb = shape->in,
                                    .ldc = shape->in,
                                    .accumulate = a->accumulate};
    return aorta_gemm_typed(&gemm, shape->dtype, a->dy, a->x, AORTA_F32, a->dweight);
}

static const struct aorta_kernel forward_kernel = {"linear_forward", forward, aorta_ops_gpu_linear_forward};
static const struct aorta_kernel relu_kernel = {"linear_relu_forward", forward, aorta_ops_gpu_linear_forward};
static const struct aorta_kernel input_kernel = {"linear_backward_input", backward_input,
                                                 aorta_ops_gpu_linear_backward_input};
static const struct aorta_kernel weight_kernel = {"linear_backward_weight", backward_weight,
                                                  aorta_ops_gpu_linear_backward_weight};

aorta_status aorta_linear_forward(struct aorta_stream *stream, struct aorta_linear shape, const void *x,
                                  const void *weight, const void *bias, void *y) {
    AORTA_TRY(check_linear(forward_kernel.name, &shape));
    if (shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(forward_kernel.name,
                                   (const struct aorta_named_pointer[]){{"x", x}, {"weight", weight}, {"y", y}, {0}}));
    const struct aorta_linear_args args = {.shape = shape, .x = x, .weight = weight, .bias = bias, .y = y};
    return aorta_launch(stream, &forward_kernel, &args, sizeof args);
}

aorta_status aorta_linear_relu_forward(struct aorta_stream *stream, struct aorta_linear shape, const void *x,
                                       const void *weight, const void *bias, void *y, bool tf32) {
    AORTA_TRY(check_linear(relu_kernel.name, &shape));
    if (shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(relu_kernel.name, (const struct aorta_named_pointer[]){
                                                         {"x", x}, {"weight", weight}, {"bias", bias}, {"y", y}, {0}}));
    const struct aorta_linear_args args = {
        .shape = shape, .x = x, .weight = weight, .bias = bias, .y = y, .relu = true, .tf32 = tf32};
    return aorta_launch(stream, &relu_kernel, &args, sizeof args);
}

aorta_status aorta_linear_backward_input(struct aorta_stream *stream, struct aorta_linear shape, const void *dy,
                                         const void *weight, void *dx, bool accumulate) {
    AORTA_TRY(check_linear(input_kernel.name, &shape));
    if (shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(
        input_kernel.name, (const struct aorta_named_pointer[]){{"dy", dy}, {"weight", weight}, {"dx", dx}, {0}}));
    const struct aorta_linear_args args = {
        .shape = shape, .dy = dy, .weight = weight, .dx = dx, .accumulate = accumulate};
    return aorta_launch(stream, &input_kernel, &args, sizeof args);
}

aorta_status aorta_linear_backward_weight(struct aorta_stream *stream, struct aorta_linear shape, const void *x,
                                          const void *dy, float *dweight, float *dbias, bool accumulate) {
    AORTA_TRY(check_linear(weight_kernel.name, &shape));
    AORTA_TRY(aorta_check_pointer(weight_kernel.name, "dweight", dweight));
    if (shape.rows > 0)
        AORTA_TRY(
            aorta_check_pointers(weight_kernel.name, (const struct aorta_named_pointer[]){{"x", x}, {"dy", dy}, {0}}));
    const struct aorta_linear_args args = {
        .shape = shape, .x = x, .dy = dy, .dweight = dweight, .dbias = dbias, .accumulate = accumulate};
    return aorta_launch(stream, &weight_kernel, &args, sizeof args);
}
