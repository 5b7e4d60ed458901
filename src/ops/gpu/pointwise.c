/* Operations on elements of their own: a thread takes eight of them, or a strip of rows where their sums are wanted. */
#include "ops/gpu/gpu.h"

static struct aorta_gpu_grid grid_of(int64_t count) {
    return (struct aorta_gpu_grid){.blocks = {aorta_ops_blocks(count, AORTA_TILE)},
                                   .threads = {AORTA_POINTWISE_THREADS}};
}

aorta_status aorta_ops_gpu_cast(struct aorta_stream *stream, const void *args) {
    const struct aorta_cast_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_cast, grid_of(a->count), a, sizeof *a);
}

aorta_status aorta_ops_gpu_fill(struct aorta_stream *stream, const void *args) {
    const struct aorta_fill_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_fill, grid_of(a->count), a, sizeof *a);
}

aorta_status aorta_ops_gpu_add(struct aorta_stream *stream, const void *args) {
    const struct aorta_cast_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_add, grid_of(a->count), a, sizeof *a);
}

static aorta_status gelu(struct aorta_stream *stream, enum aorta_ops_entry entry, struct aorta_gelu_args args) {
    args.shape.rng = aorta_ops_gpu_key(args.shape.rng);
    const struct aorta_gpu_grid grid = {.blocks = {aorta_ops_blocks(args.shape.count, AORTA_GELU_TILE)},
                                        .threads = {AORTA_POINTWISE_THREADS}};
    return aorta_ops_gpu_run_typed(stream, entry, args.shape.dtype, grid, &args, sizeof args);
}

aorta_status aorta_ops_gpu_gelu_forward(struct aorta_stream *stream, const void *args) {
    return gelu(stream, AORTA_ENTRY_gelu_forward, *(const struct aorta_gelu_args *)args);
}

static aorta_status gelu_backward_columns(struct aorta_stream *stream, const struct aorta_gelu_args *a) {
    const int64_t width = a->shape.width;
    const struct aorta_ops_columns columns =
        aorta_ops_gpu_share_columns(aorta_stream_device(stream), a->shape.count / width, width);
    struct aorta_gpu_gelu_columns_args args = {
        .op = *a, .rows = a->shape.count / width, .rows_per_split = columns.rows_per_split};
    AORTA_TRY(aorta_ops_gpu_partial(stream, columns.partial_bytes, &args.partial));
    args.op.shape.rng = aorta_ops_gpu_key(a->shape.rng);
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_gelu_backward_columns, a->shape.dtype, columns.grid, &args,
                                      sizeof args));
    const struct aorta_gpu_column_sums finish = {.partial = args.partial,
                                                 .rows = columns.splits,
                                                 .columns = width,
                                                 .split = width,
                                                 .sums = {a->dbias},
                                                 .accumulate = a->accumulate};
    return aorta_ops_gpu_column_finish(stream, &finish);
}

aorta_status aorta_ops_gpu_gelu_backward(struct aorta_stream *stream, const void *args) {
    const struct aorta_gelu_args *a = args;
    return a->dbias ? gelu_backward_columns(stream, a) : gelu(stream, AORTA_ENTRY_gelu_backward, *a);
}

aorta_status aorta_ops_gpu_adamw(struct aorta_stream *stream, const void *args) {
    const struct aorta_adamw_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_adamw, grid_of(a->shape.count), a, sizeof *a);
}

aorta_status aorta_ops_gpu_relu_backward(struct aorta_stream *stream, const void *args) {
    const struct aorta_relu_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_relu_backward, grid_of(a->count), a, sizeof *a);
}

aorta_status aorta_ops_gpu_sum_pieces(struct aorta_stream *stream, const void *args) {
    const struct aorta_sum_pieces_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_sum_pieces, grid_of(a->count), a, sizeof *a);
}
