/* Attention in tiles (kernels/attention.cu). */
#include "ops/gpu/gpu.h"

static int64_t rows_of(const struct aorta_attention *shape) {
    return shape->batch * shape->heads * shape->positions;
}

static int64_t units_of(const struct aorta_attention *shape) {
    return (shape->positions + 15) / 16;
}

static size_t logsum_bytes(const struct aorta_attention *shape) {
    return ((size_t)rows_of(shape) * sizeof(float) + 255) / 256 * 256;
}

/* One number for each row and, with dropout, one bit for each weight. */
size_t aorta_ops_gpu_attention_saved_bytes(const struct aorta_attention *shape) {
    const size_t kept = (size_t)(rows_of(shape) * units_of(shape)) * sizeof(uint16_t);
    return logsum_bytes(shape) + (shape->dropout > 0.0f ? kept : 0);
}

size_t aorta_ops_gpu_attention_scratch_bytes(const struct aorta_attention *shape) {
    return (size_t)rows_of(shape) * sizeof(float);
}

/* Kernels for heads up to this width. */
struct variant {
    int64_t dim;
    enum aorta_ops_entry forward, queries, keys;
};
static const struct variant variants[] = {
    {32, AORTA_ENTRY_attention_forward_32, AORTA_ENTRY_attention_queries_32, AORTA_ENTRY_attention_keys_32},
    {64, AORTA_ENTRY_attention_forward_64, AORTA_ENTRY_attention_queries_64, AORTA_ENTRY_attention_keys_64},
    {128, AORTA_ENTRY_attention_forward_128, AORTA_ENTRY_attention_queries_128, AORTA_ENTRY_attention_keys_128}};

static aorta_status choose(const struct aorta_attention *shape, const struct variant **variant,
                           struct aorta_gpu_grid *grid) {
    const size_t count = sizeof variants / sizeof *variants;
    for (size_t i = 0; i < count; i++) {
        if (shape->head_dim > variants[i].dim) continue;
        *variant = &variants[i];
        const uint32_t tile = AORTA_ATTENTION_TILE(variants[i].dim, aorta_dtype_size(shape->dtype));
        const int64_t tiles = (shape->positions + tile - 1) / tile;
        *grid =
            (struct aorta_gpu_grid){.blocks = {(uint32_t)(shape->batch * shape->heads * tiles)}, .threads = {2 * tile}};
        return NULL;
    }
    return AORTA_ERROR(AORTA_UNSUPPORTED, "attention: heads of %lld; on a GPU they have at most %lld elements",
                       (long long)shape->head_dim, (long long)variants[count - 1].dim);
}

static struct aorta_gpu_attention_args arguments(const struct aorta_attention_args *a, const void *saved) {
    char *logsum = (char *)saved;
    struct aorta_attention_args op = *a;
    op.shape.rng = aorta_ops_gpu_key(a->shape.rng);
    return (struct aorta_gpu_attention_args){.op = op,
                                             .logsum = (float *)(void *)logsum,
                                             .kept = (uint16_t *)(void *)(logsum + logsum_bytes(&a->shape)),
                                             .units = units_of(&a->shape),
                                             .along = a->scratch};
}

aorta_status aorta_ops_gpu_attention_forward(struct aorta_stream *stream, const void *args) {
    const struct aorta_attention_args *a = args;
    const struct variant *variant;
    struct aorta_gpu_grid grid;
    AORTA_TRY(choose(&a->shape, &variant, &grid));
    const struct aorta_gpu_attention_args gpu = arguments(a, a->saved);
    return aorta_ops_gpu_run_typed(stream, variant->forward, a->shape.dtype, grid, &gpu, sizeof gpu);
}

aorta_status aorta_ops_gpu_attention_backward(struct aorta_stream *stream, const void *args) {
    const struct aorta_attention_args *a = args;
    const struct variant *variant;
    struct aorta_gpu_grid grid;
    AORTA_TRY(choose(&a->shape, &variant, &grid));
    const struct aorta_gpu_attention_args gpu = arguments(a, a->saved_in);
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, variant->queries, a->shape.dtype, grid, &gpu, sizeof gpu));
    return aorta_ops_gpu_run_typed(stream, variant->keys, a->shape.dtype, grid, &gpu, sizeof gpu);
}
