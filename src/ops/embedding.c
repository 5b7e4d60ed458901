#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

static aorta_status forward(const void *args) {
    return aorta_cpu_ops()->embedding_forward(args);
}

static aorta_status backward(const void *args) {
    return aorta_cpu_ops()->embedding_backward(args);
}

/* Rows are added in their own order. */
static aorta_status keep_order(const void *args) {
    (void)args;
    return NULL;
}

static const struct aorta_kernel forward_kernel = {"embedding_forward", forward, aorta_ops_gpu_embedding_forward};
static const struct aorta_kernel backward_kernel = {"embedding_backward", backward, aorta_ops_gpu_embedding_backward};
static const struct aorta_kernel order_kernel = {"embedding_order", keep_order, aorta_ops_gpu_embedding_order};

static aorta_status check_embedding(const char *operation, const struct aorta_embedding *shape) {
    AORTA_TRY(aorta_check_dtype(operation, shape->dtype));
    AORTA_TRY(aorta_check_size(operation, "rows", shape->rows, 0));
    AORTA_TRY(aorta_check_size(operation, "features", shape->features, 1));
    AORTA_TRY(aorta_check_size(operation, "vocab", shape->vocab, 1));
    return aorta_check_size(operation, "dim", shape->dim, 1);
}

aorta_status aorta_embedding_forward(struct aorta_stream *stream, struct aorta_embedding shape, const int64_t *ids,
                                     const void *table, void *y) {
    AORTA_TRY(check_embedding(forward_kernel.name, &shape));
    if (shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(
        forward_kernel.name, (const struct aorta_named_pointer[]){{"ids", ids}, {"table", table}, {"y", y}, {0}}));
    const struct aorta_embedding_args args = {.shape = shape, .ids = ids, .table = table, .y = y};
    return aorta_launch(stream, &forward_kernel, &args, sizeof args);
}

size_t aorta_embedding_order_bytes(const struct aorta_device *device, struct aorta_embedding shape) {
    return aorta_device_is_gpu(device) ? aorta_ops_gpu_embedding_order_bytes(&shape) : 0;
}

aorta_status aorta_embedding_order(struct aorta_stream *stream, struct aorta_embedding shape, const int64_t *ids,
                                   void *order) {
    AORTA_TRY(check_embedding(order_kernel.name, &shape));
    if (shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(order_kernel.name,
                                   (const struct aorta_named_pointer[]){{"ids", ids}, {"order", order}, {0}}));
    const struct aorta_embedding_args args = {.shape = shape, .ids = ids, .order = order};
    return aorta_launch(stream, &order_kernel, &args, sizeof args);
}

aorta_status aorta_embedding_backward(struct aorta_stream *stream, struct aorta_embedding shape, const int64_t *ids,
                                      const void *order, const void *dy, float *dtable, bool zeros) {
    AORTA_TRY(check_embedding(backward_kernel.name, &shape));
    if (shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(
        backward_kernel.name, (const struct aorta_named_pointer[]){{"ids", ids}, {"dy", dy}, {"dtable", dtable}, {0}}));
    const struct aorta_embedding_args args = {
        .shape = shape, .ids = ids, .dy = dy, .dtable = dtable, .order = (void *)order, .zeros = zeros};
    return aorta_launch(stream, &backward_kernel, &args, sizeof args);
}
