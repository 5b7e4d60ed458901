#include "ops/gpu/gpu.h"

enum { MOST_APART = INT32_MAX / AORTA_SCORES_WIDTH }; /* elements from row to row: the kernels count them in 32 bits */

bool aorta_ops_gpu_scores_fit(struct aorta_stream *stream, const struct aorta_scores_args *a) {
    const struct aorta_products *s = &a->shape;
    const struct aorta_device *device = aorta_stream_device(stream);
    const uintptr_t places = (uintptr_t)a->a | (uintptr_t)a->b | (uintptr_t)a->p | (uintptr_t)a->out;
    if (!aorta_device_is_gpu(device) || places % 16) return false;
    if (aorta_gpu_get_properties(device)->shared_bytes_per_block < AORTA_SCORES_BYTES) return false;
    if (s->batch < 1 || s->batch > UINT16_MAX || s->m < 1 || s->k < 1 || s->lda < s->k || s->ldb < s->k) return false;
    return s->m % AORTA_SCORES_ROWS == 0 && s->n == AORTA_SCORES_WIDTH && s->k % AORTA_SCORES_DEPTH == 0 &&
           s->ldb <= MOST_APART && (s->lda | s->ldb | s->a_batch | s->b_batch) % 4 == 0;
}

static aorta_status run(struct aorta_stream *stream, enum aorta_ops_entry entry, const struct aorta_scores_args *a) {
    const struct aorta_gpu_grid grid = {
        .blocks = {aorta_ops_blocks(a->shape.m, AORTA_SCORES_ROWS), (uint32_t)a->shape.batch},
        .threads = {AORTA_SCORES_THREADS},
        .shared_bytes = AORTA_SCORES_BYTES};
    return aorta_ops_gpu_run(stream, entry, grid, a, sizeof *a);
}

aorta_status aorta_ops_gpu_scores_forward(struct aorta_stream *stream, const void *args) {
    return run(stream, AORTA_ENTRY_scores_forward, args);
}

aorta_status aorta_ops_gpu_scores_backward(struct aorta_stream *stream, const void *args) {
    return run(stream, AORTA_ENTRY_scores_backward, args);
}
