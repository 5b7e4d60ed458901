#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

static aorta_status forward(const void *args) {
    return aorta_cpu_ops()->norm_forward(args);
}

static aorta_status backward(const void *args) {
    return aorta_cpu_ops()->norm_backward(args);
}

static const struct aorta_kernel forward_kernel = {"layernorm_forward", forward, aorta_ops_gpu_norm_forward};
static const struct aorta_kernel backward_kernel = {"layernorm_backward", backward, aorta_ops_gpu_norm_backward};

static aorta_status check_norm(const char *operation, const struct aorta_norm *shape) {
    AORTA_TRY(aorta_check_dtype(operation, shape->dtype));
    AORTA_TRY(aorta_check_size(operation, "rows", shape->rows, 0));
    AORTA_TRY(aorta_check_size(operation, "width", shape->width, 1));
    if (!(shape->eps > 0.0f))
        return AORTA_ERROR(AORTA_INTERNAL, "%s: eps %g must be above 0", operation, (double)shape->eps);
    return aorta_check_dropout(operation, shape->dropout);
}

aorta_status aorta_norm_forward(struct aorta_stream *stream, struct aorta_norm shape, const void *x,
                                const void *residual, const void *gamma, const void *beta, void *sum, void *y,
                                float *mean, float *rstd) {
    AORTA_TRY(check_norm(forward_kernel.name, &shape));
    if (shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(
        forward_kernel.name,
        (const struct aorta_named_pointer[]){
            {"x", x}, {"gamma", gamma}, {"beta", beta}, {"y", y}, {"mean", mean}, {"rstd", rstd}, {0}}));
    if (residual || shape.dropout > 0.0f) AORTA_TRY(aorta_check_pointer(forward_kernel.name, "sum", sum));
    const struct aorta_norm_args args = {.shape = shape,
                                         .x = x,
                                         .residual = residual,
                                         .gamma = gamma,
                                         .beta = beta,
                                         .sum = sum,
                                         .y = y,
                                         .mean = mean,
                                         .rstd = rstd};
    return aorta_launch(stream, &forward_kernel, &args, sizeof args);
}

aorta_status aorta_norm_backward(struct aorta_stream *stream, struct aorta_norm shape, const void *dy,
                                 const void *dy_extra, const void *sum, const void *gamma, const float *mean,
                                 const float *rstd, void *dsum, void *dx, float *dgamma, float *dbeta, float *dbias,
                                 bool accumulate) {
    AORTA_TRY(check_norm(backward_kernel.name, &shape));
    AORTA_TRY(aorta_check_pointers(
        backward_kernel.name,
        (const struct aorta_named_pointer[]){{"gamma", gamma}, {"dgamma", dgamma}, {"dbeta", dbeta}, {0}}));
    if (shape.rows > 0)
        AORTA_TRY(aorta_check_pointers(
            backward_kernel.name, (const struct aorta_named_pointer[]){
                                      {"dy", dy}, {"sum", sum}, {"mean", mean}, {"rstd", rstd}, {"dsum", dsum}, {0}}));
    const struct aorta_norm_backward_args args = {.shape = shape,
                                                  .dy = dy,
                                                  .dy_extra = dy_extra,
                                                  .sum = sum,
                                                  .gamma = gamma,
                                                  .mean = mean,
                                                  .rstd = rstd,
                                                  .dsum = dsum,
                                                  .dx = dx,
                                                  .dgamma = dgamma,
                                                  .dbeta = dbeta,
                                                  .dbias = dbias,
                                                  .accumulate = accumulate};
    return aorta_launch(stream, &backward_kernel, &args, sizeof args);
}
