#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

static aorta_status forward(const void *args) {
    return aorta_cpu_ops()->embedding_forward(args);
}

static aorta_status backward(const void *args) {
    return aorta_cpu_ops()->embedding_backward(args);
}

static const struct aorta_kernel forward_kernel = {"embedding_forward", forward, aorta_ops_gpu_embedding_forward};
static const struct aorta_kernel backward_kernel = {"embedding_backward", backward, aorta_ops_gpu_embedding_backward};

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

aorta_status aorta_embedding_backward(struct aorta_stream *stream, struct aorta_embedding shape, const int64_t *ids,
                                      const void *dy, float *dtable) {
    AORTA_TRY(check_embedding(backward_kernel.name, &shape));
    if (shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(
        backward_kernel.name, (const struct aorta_named_pointer[]){{"ids", ids}, {"dy", dy}, {"dtable", dtable}, {0}}));
    const struct aorta_embedding_args args = {.shape = shape, .ids = ids, .dy = dy, .dtable = dtable};
    return aorta_launch(stream, &backward_kernel, &args, sizeof args);
}
