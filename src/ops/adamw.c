#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

static aorta_status square_sum(const void *args) {
    return aorta_cpu_ops()->square_sum(args);
}

static aorta_status adamw(const void *args) {
    return aorta_cpu_ops()->adamw(args);
}

static const struct aorta_kernel square_kernel = {"square_sum", square_sum, aorta_ops_gpu_square_sum};
static const struct aorta_kernel adamw_kernel = {"adamw", adamw, aorta_ops_gpu_adamw};

aorta_status aorta_square_sum(struct aorta_stream *stream, const float *gradient, int64_t count, float *sum) {
    AORTA_TRY(aorta_check_size(square_kernel.name, "count", count, 0));
    if (count == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(
        square_kernel.name, (const struct aorta_named_pointer[]){{"gradient", gradient}, {"square_sum", sum}, {0}}));
    const struct aorta_square_sum_args args = {.gradient = gradient, .count = count, .square_sum = sum};
    return aorta_launch(stream, &square_kernel, &args, sizeof args);
}

static aorta_status check_adamw(const struct aorta_adamw *shape) {
    AORTA_TRY(aorta_check_size(adamw_kernel.name, "count", shape->count, 0));
    AORTA_TRY(aorta_check_pointer(adamw_kernel.name, "state", shape->state));
    if (!(shape->beta1 >= 0.0f && shape->beta1 < 1.0f && shape->beta2 >= 0.0f && shape->beta2 < 1.0f))
        return AORTA_ERROR(AORTA_INTERNAL, "adamw: betas %g and %g must be in [0, 1)", (double)shape->beta1,
                           (double)shape->beta2);
    return NULL;
}

aorta_status aorta_adamw_step(struct aorta_stream *stream, struct aorta_adamw shape, float *parameter,
                              const float *gradient, float *m, float *v, void *copy) {
    AORTA_TRY(check_adamw(&shape));
    if (shape.count == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(adamw_kernel.name,
                                   (const struct aorta_named_pointer[]){
                                       {"parameter", parameter}, {"gradient", gradient}, {"m", m}, {"v", v}, {0}}));
    if (copy) AORTA_TRY(aorta_check_dtype(adamw_kernel.name, shape.copy_dtype));
    const struct aorta_adamw_args args = {
        .shape = shape, .parameter = parameter, .gradient = gradient, .m = m, .v = v, .copy = copy};
    return aorta_launch(stream, &adamw_kernel, &args, sizeof args);
}
