/* Softmax over rows and the cross-entropy loss behind it. */
#include "ops/check.h"
#include "ops/gpu/gpu.h"

#include <math.h>

static int64_t counting(const struct aorta_softmax *shape, int64_t row) {
    return shape->causal ? row % shape->width + 1 : shape->width;
}

static aorta_status forward(const void *args) {
    const struct aorta_softmax_args *a = args;
    const int64_t width = a->shape.width;
    for (int64_t row = 0; row < a->shape.rows; row++) {
        const float *x = a->x + row * width;
        float *p = a->out + row * width;
        const int64_t end = counting(&a->shape, row);
        float greatest = x[0], sum = 0.0f;
        for (int64_t i = 1; i < end; i++) greatest = fmaxf(greatest, x[i]);
        for (int64_t i = 0; i < end; i++) sum += p[i] = expf(a->shape.scale * (x[i] - greatest));
        for (int64_t i = 0; i < end; i++) p[i] /= sum;
        for (int64_t i = end; i < width; i++) p[i] = 0.0f;
    }
    return NULL;
}

static aorta_status backward(const void *args) {
    const struct aorta_softmax_args *a = args;
    const int64_t width = a->shape.width;
    for (int64_t row = 0; row < a->shape.rows; row++) {
        const float *p = a->x + row * width, *dp = a->dp + row * width;
        float *dx = a->out + row * width, along = 0.0f;
        const int64_t end = counting(&a->shape, row);
        for (int64_t i = 0; i < end; i++) along += p[i] * dp[i];
        for (int64_t i = 0; i < end; i++) dx[i] = a->shape.scale * p[i] * (dp[i] - along);
        for (int64_t i = end; i < width; i++) dx[i] = 0.0f;
    }
    return NULL;
}

static aorta_status cross_entropy(const void *args) {
    const struct aorta_cross_entropy_args *a = args;
    for (int64_t row = 0; row < a->rows; row++) {
        const float *x = a->x + row * a->classes;
        float *dx = a->dx + row * a->classes;
        const int64_t label = a->labels[row];
        if (label < 0 || label >= a->classes)
            return AORTA_ERROR(AORTA_DEVICE, "cross_entropy: label %lld of row %lld is not in [0, %lld)",
                               (long long)label, (long long)row, (long long)a->classes);
        float greatest = x[0];
        double sum = 0.0;
        for (int64_t i = 1; i < a->classes; i++) greatest = fmaxf(greatest, x[i]);
        for (int64_t i = 0; i < a->classes; i++) sum += (double)expf(x[i] - greatest);
        a->losses[row] = (float)(log(sum) + (double)(greatest - x[label]));
        for (int64_t i = 0; i < a->classes; i++)
            dx[i] = a->weight * (expf(x[i] - greatest) / (float)sum - (i == label ? 1.0f : 0.0f));
    }
    return NULL;
}

static const struct aorta_kernel forward_kernel = {"softmax_forward", forward, aorta_ops_gpu_softmax_forward};
static const struct aorta_kernel backward_kernel = {"softmax_backward", backward, aorta_ops_gpu_softmax_backward};
static const struct aorta_kernel loss_kernel = {"cross_entropy", cross_entropy, aorta_ops_gpu_cross_entropy};

static aorta_status check_softmax(const char *operation, const struct aorta_softmax *shape) {
    AORTA_TRY(aorta_check_size(operation, "rows", shape->rows, 0));
    return aorta_check_size(operation, "width", shape->width, 1);
}

aorta_status aorta_softmax_forward(struct aorta_stream *stream, struct aorta_softmax shape, const float *x, float *p) {
    AORTA_TRY(check_softmax(forward_kernel.name, &shape));
    if (shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(forward_kernel.name, (const struct aorta_named_pointer[]){{"x", x}, {"p", p}, {0}}));
    const struct aorta_softmax_args args = {.shape = shape, .x = x, .out = p};
    return aorta_launch(stream, &forward_kernel, &args, sizeof args);
}

aorta_status aorta_softmax_backward(struct aorta_stream *stream, struct aorta_softmax shape, const float *p,
                                    const float *dp, float *dx) {
    AORTA_TRY(check_softmax(backward_kernel.name, &shape));
    if (shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(backward_kernel.name,
                                   (const struct aorta_named_pointer[]){{"p", p}, {"dp", dp}, {"dx", dx}, {0}}));
    const struct aorta_softmax_args args = {.shape = shape, .x = p, .dp = dp, .out = dx};
    return aorta_launch(stream, &backward_kernel, &args, sizeof args);
}

aorta_status aorta_cross_entropy(struct aorta_stream *stream, int64_t rows, int64_t classes, const float *x,
                                 const int64_t *labels, float weight, float *losses, float *dx) {
    AORTA_TRY(aorta_check_size(loss_kernel.name, "rows", rows, 0));
    AORTA_TRY(aorta_check_size(loss_kernel.name, "classes", classes, 1));
    if (rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(
        loss_kernel.name,
        (const struct aorta_named_pointer[]){{"x", x}, {"labels", labels}, {"losses", losses}, {"dx", dx}, {0}}));
    const struct aorta_cross_entropy_args args = {
        .rows = rows, .classes = classes, .weight = weight, .x = x, .labels = labels, .losses = losses, .dx = dx};
    return aorta_launch(stream, &loss_kernel, &args, sizeof args);
}
