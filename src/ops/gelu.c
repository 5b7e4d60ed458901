#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

static aorta_status forward(const void *args) {
    return aorta_cpu_ops()->gelu_forward(args);
}

static aorta_status backward(const void *args) {
    return aorta_cpu_ops()->gelu_backward(args);
}

static const struct aorta_kernel forward_kernel = {"gelu_forward", forward, aorta_ops_gpu_gelu_forward};
static const struct aorta_kernel backward_kernel = {"gelu_backward", backward, aorta_ops_gpu_gelu_backward};

static aorta_status check_gelu(const char *operation, const struct aorta_gelu *shape) {
    AORTA_TRY(aorta_check_dtype(operation, shape->dtype));
    AORTA_TRY(aorta_check_size(operation, "count", shape->count, 0));
    return aorta_check_dropout(operation, shape->dropout);
}

static aorta_status check_rows(const struct aorta_gelu *shape) {
    AORTA_TRY(aorta_check_size(backward_kernel.name, "width", shape->width, 1));
    if (shape->count % shape->width == 0) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "%s: %lld elements are no whole rows of %lld", backward_kernel.name,
                       (long long)shape->count, (long long)shape->width);
}

aorta_status aorta_gelu_forward(struct aorta_stream *stream, struct aorta_gelu shape, const void *x, void *y) {
    AORTA_TRY(check_gelu(forward_kernel.name, &shape));
    if (shape.count == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(forward_kernel.name, (const struct aorta_named_pointer[]){{"x", x}, {"y", y}, {0}}));
    const struct aorta_gelu_args args = {.shape = shape, .x = x, .out = y};
    return aorta_launch(stream, &forward_kernel, &args, sizeof args);
}

aorta_status aorta_gelu_backward(struct aorta_stream *stream, struct aorta_gelu shape, const void *x, const void *dy,
                                 void *dx, float *dbias, bool accumulate) {
    AORTA_TRY(check_gelu(backward_kernel.name, &shape));
    if (dbias) AORTA_TRY(check_rows(&shape));
    if (shape.count == 0) {
        if (!dbias || accumulate) return NULL;
        return aorta_fill_bytes(stream, dbias, 0, (size_t)shape.width * sizeof *dbias);
    }
    AORTA_TRY(aorta_check_pointers(backward_kernel.name,
                                   (const struct aorta_named_pointer[]){{"x", x}, {"dy", dy}, {"dx", dx}, {0}}));
    const struct aorta_gelu_args args = {
        .shape = shape, .x = x, .dy = dy, .out = dx, .dbias = dbias, .accumulate = accumulate};
    return aorta_launch(stream, &backward_kernel, &args, sizeof args);
}
