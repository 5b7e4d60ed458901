#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

#include <math.h>

/* A handful of values per step: plain code in double. */
static aorta_status bce(const void *args) {
    const struct aorta_bce_args *a = args;
    const struct aorta_cpu_ops *ops = aorta_cpu_ops();
    const size_t size = aorta_dtype_size(a->shape.dtype);
    const double share = (double)a->shape.weight / (double)a->shape.count;
    const double gradient_share =
        (double)a->shape.gradient_weight / (double)a->shape.count * (double)a->state->loss_scale;
    double total = 0.0;
    for (int64_t i = 0; i < a->shape.count; i++) {
        float score;
        ops->to_float(&score, (const char *)a->scores + (size_t)i * size, a->shape.dtype, 1);
        const double s = (double)score, t = (double)a->target[i], weight = (double)a->importance[i];
        const double e = exp(-fabs(s)); /* in [0, 1]: never overflows */
        const double sigmoid = s >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
        total += weight * (fmax(s, 0.0) - s * t + log1p(e));
        float gradient = (float)(gradient_share * weight * (sigmoid - t));
        ops->from_float((char *)a->dscores + (size_t)i * size, &gradient, a->shape.dtype, 1);
    }
    a->state->loss += (float)(share * total);
    return NULL;
}

static const struct aorta_kernel kernel = {"bce_with_logits", bce, aorta_ops_gpu_bce};

aorta_status aorta_bce_with_logits(struct aorta_stream *stream, struct aorta_bce shape, const void *scores,
                                   const float *target, const float *importance, struct aorta_step_state *state,
                                   void *dscores) {
    AORTA_TRY(aorta_check_dtype(kernel.name, shape.dtype));
    AORTA_TRY(aorta_check_size(kernel.name, "count", shape.count, 1));
    AORTA_TRY(aorta_check_pointers(kernel.name, (const struct aorta_named_pointer[]){{"scores", scores},
                                                                                     {"target", target},
                                                                                     {"importance", importance},
                                                                                     {"state", state},
                                                                                     {"dscores", dscores},
                                                                                     {0}}));
    const struct aorta_bce_args args = {.shape = shape,
                                        .scores = scores,
                                        .target = target,
                                        .importance = importance,
                                        .state = state,
                                        .dscores = dscores};
    return aorta_launch(stream, &kernel, &args, sizeof args);
}
