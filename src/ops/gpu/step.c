/* The state of a step, the loss and the norm of the gradients. */
#include "ops/gpu/gpu.h"
#include "ops/gpu/workspace.h"

static const struct aorta_gpu_grid one_thread = {.blocks = {1}};

aorta_status aorta_ops_gpu_step_begin(struct aorta_stream *stream, const void *args) {
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_step_begin, one_thread, args, sizeof(struct aorta_step_begin_args));
}

aorta_status aorta_ops_gpu_step_update(struct aorta_stream *stream, const void *args) {
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_step_update, one_thread, args, sizeof(struct aorta_step_update_args));
}

aorta_status aorta_ops_gpu_step_end(struct aorta_stream *stream, const void *args) {
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_step_end, one_thread, args, sizeof(struct aorta_step_end_args));
}

/* *to += scale · Σ partial[0 … count) */
static aorta_status finish(struct aorta_stream *stream, const double *partial, uint32_t count, double scale,
                           float *to) {
    const struct aorta_gpu_finish_args args = {.partial = partial, .count = count, .scale = scale, .to = to};
    const struct aorta_gpu_grid grid = {.blocks = {1}, .threads = {AORTA_SUM_THREADS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_sum_finish, grid, &args, sizeof args);
}

aorta_status aorta_ops_gpu_bce(struct aorta_stream *stream, const void *args) {
    const struct aorta_bce_args *a = args;
    const uint32_t blocks = aorta_ops_blocks(a->shape.count, AORTA_SUM_THREADS);
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, blocks * sizeof(double), &workspace));
    const struct aorta_gpu_bce_args gpu = {.op = *a, .partial = workspace.memory};
    const struct aorta_gpu_grid grid = {.blocks = {blocks}, .threads = {AORTA_SUM_THREADS}};
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_bce, a->shape.dtype, grid, &gpu, sizeof gpu));
    return finish(stream, gpu.partial, blocks, (double)a->shape.weight / (double)a->shape.count, &a->state->loss);
}

/* The number of blocks does not depend on the device, so neither does the order of the additions. */
aorta_status aorta_ops_gpu_square_sum(struct aorta_stream *stream, const void *args) {
    enum { MOST_BLOCKS = 1024 };
    const struct aorta_square_sum_args *a = args;
    uint32_t blocks = aorta_ops_blocks(a->count, (int64_t)AORTA_SUM_THREADS * 8);
    if (blocks > MOST_BLOCKS) blocks = MOST_BLOCKS;
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, blocks * sizeof(double), &workspace));
    const struct aorta_gpu_square_sum_args gpu = {.op = *a, .partial = workspace.memory};
    const struct aorta_gpu_grid grid = {.blocks = {blocks}, .threads = {AORTA_SUM_THREADS}};
    AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_square_sum, grid, &gpu, sizeof gpu));
    return finish(stream, gpu.partial, blocks, 1.0, a->square_sum);
}
