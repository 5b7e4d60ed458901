/* LayerNorm and sums over rows. */
#include "ops/gpu/gpu.h"
#include "ops/gpu/workspace.h"

/* Threads side by side hold one row; short rows share a block of 128. */
static aorta_status threads_of(int64_t width, uint32_t threads[2]) {
    const int64_t per_thread = (int64_t)AORTA_NORM_CHUNKS * 8, widest = per_thread * AORTA_NORM_THREADS;
    if (width > widest)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "layernorm: a width of %lld; on a GPU rows have at most %lld elements",
                           (long long)width, (long long)widest);
    threads[0] = aorta_ops_blocks(width, per_thread * 32) * 32;
    threads[1] = threads[0] < 128 ? 128 / threads[0] : 1;
    return NULL;
}

aorta_status aorta_ops_gpu_norm_forward(struct aorta_stream *stream, const void *args) {
    struct aorta_norm_args a = *(const struct aorta_norm_args *)args;
    uint32_t threads[2];
    AORTA_TRY(threads_of(a.shape.width, threads));
    a.shape.rng = aorta_ops_gpu_key(a.shape.rng);
    const struct aorta_gpu_grid grid = {.blocks = {aorta_ops_blocks(a.shape.rows, threads[1])},
                                        .threads = {threads[0], threads[1]}};
    return aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_norm_forward, a.shape.dtype, grid, &a, sizeof a);
}

aorta_status aorta_ops_gpu_norm_backward(struct aorta_stream *stream, const void *args) {
    const struct aorta_norm_backward_args *a = args;
    const int64_t rows = a->shape.rows, width = a->shape.width;
    uint32_t threads[2];
    AORTA_TRY(threads_of(width, threads));
    const struct aorta_gpu_properties *gpu = aorta_gpu_get_properties(aorta_stream_device(stream));
    const uint32_t resident = 512 / (threads[0] * threads[1]); /* what their registers allow */
    uint32_t blocks = (uint32_t)gpu->multiprocessors * (resident > 0 ? resident : 1);
    if (blocks > aorta_ops_blocks(rows, threads[1])) blocks = aorta_ops_blocks(rows, threads[1]);
    const int64_t partial_rows = (int64_t)blocks * threads[1];
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, (size_t)(partial_rows * 2 * width) * sizeof(float), &workspace));
    struct aorta_gpu_norm_backward_args first = {.op = *a, .partial = workspace.memory};
    first.op.shape.rng = aorta_ops_gpu_key(a->shape.rng);
    const struct aorta_gpu_grid grid = {.blocks = {blocks}, .threads = {threads[0], threads[1]}};
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_norm_backward, a->shape.dtype, grid, &first, sizeof first));
    const struct aorta_gpu_column_finish_args second = {.partial = first.partial,
                                                        .rows = partial_rows,
                                                        .columns = 2 * width,
                                                        .split = width,
                                                        .first = a->dgamma,
                                                        .second = a->dbeta,
                                                        .accumulate = a->accumulate};
    return aorta_ops_gpu_column_finish(stream, &second);
}

aorta_status aorta_ops_gpu_column_finish(struct aorta_stream *stream, const struct aorta_gpu_column_finish_args *args) {
    const struct aorta_gpu_grid grid = {.blocks = {aorta_ops_blocks(args->columns, AORTA_COLUMN_LANES)},
                                        .threads = {AORTA_COLUMN_LANES, AORTA_FINISH_ROWS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_column_finish, grid, args, sizeof *args);
}

/* Enough blocks to fill the device, none with less than a few rows for each thread. */
aorta_status aorta_ops_gpu_column_sums(struct aorta_stream *stream, enum aorta_dtype dtype, const void *dy,
                                       int64_t rows, int64_t columns, float *sums, bool accumulate) {
    enum { LEAST_ROWS = 4 * AORTA_COLUMN_ROWS };
    const struct aorta_gpu_properties *gpu = aorta_gpu_get_properties(aorta_stream_device(stream));
    const uint32_t across = aorta_ops_blocks(columns, (int64_t)AORTA_COLUMN_LANES * 8);
    const int64_t wanted = (4 * gpu->multiprocessors + across - 1) / across;
    int64_t per_split = (rows + wanted - 1) / wanted;
    if (per_split < LEAST_ROWS) per_split = LEAST_ROWS;
    const uint32_t splits = aorta_ops_blocks(rows, per_split);
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, (size_t)(splits * columns) * sizeof(float), &workspace));
    const struct aorta_gpu_column_args first = {
        .x = dy, .rows = rows, .columns = columns, .rows_per_split = per_split, .partial = workspace.memory};
    const struct aorta_gpu_grid grid = {.blocks = {splits > 0 ? across : 0, splits},
                                        .threads = {AORTA_COLUMN_LANES, AORTA_COLUMN_ROWS}};
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_column_sums, dtype, grid, &first, sizeof first));
    const struct aorta_gpu_column_finish_args second = {.partial = first.partial,
                                                        .rows = splits,
                                                        .columns = columns,
                                                        .split = columns,
                                                        .first = sums,
                                                        .accumulate = accumulate};
    return aorta_ops_gpu_column_finish(stream, &second);
}
