/* LayerNorm and sums over rows. */
#include "ops/gpu/gpu.h"

/* How rows are held: by threads[0] side by side, threads[1] rows in a block. */
struct holding {
    bool wide;
    uint32_t threads[2];
    uint32_t resident; /* blocks on a multiprocessor, as many as the registers of the backward kernel allow */
};

int64_t aorta_ops_gpu_most_norm_row(void) {
    return (int64_t)AORTA_NORM_CHUNKS * 8 * AORTA_NORM_THREADS;
}

static aorta_status hold(int64_t width, enum aorta_dtype dtype, struct holding *holding) {
    const int64_t widest = aorta_ops_gpu_most_norm_row();
    if (width > widest)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "layernorm: a width of %lld; on a GPU rows have at most %lld elements",
                           (long long)width, (long long)widest);
    holding->wide = width > 8 * AORTA_NORM_NARROW;
    const int64_t per_thread = holding->wide ? AORTA_NORM_CHUNKS * 8 : 8;
    holding->threads[0] = aorta_ops_blocks(width, per_thread * 32) * 32;
    holding->threads[1] = holding->threads[0] < AORTA_NORM_NARROW ? AORTA_NORM_NARROW / holding->threads[0] : 1;
    const int narrow = dtype == AORTA_F32 ? AORTA_NORM_RESIDENT - 1 : AORTA_NORM_RESIDENT;
    const uint32_t together = holding->wide ? AORTA_NORM_THREADS : (uint32_t)(AORTA_NORM_NARROW * narrow);
    holding->resident = together / (holding->threads[0] * holding->threads[1]);
    return NULL;
}

aorta_status aorta_ops_gpu_norm_forward(struct aorta_stream *stream, const void *args) {
    struct aorta_norm_args a = *(const struct aorta_norm_args *)args;
    struct holding holding;
    AORTA_TRY(hold(a.shape.width, a.shape.dtype, &holding));
    a.shape.rng = aorta_ops_gpu_key(a.shape.rng);
    const struct aorta_gpu_grid grid = {.blocks = {aorta_ops_blocks(a.shape.rows, holding.threads[1])},
                                        .threads = {holding.threads[0], holding.threads[1]}};
    const enum aorta_ops_entry entry = holding.wide ? AORTA_ENTRY_norm_forward_wide : AORTA_ENTRY_norm_forward;
    return aorta_ops_gpu_run_typed(stream, entry, a.shape.dtype, grid, &a, sizeof a);
}

aorta_status aorta_ops_gpu_norm_backward(struct aorta_stream *stream, const void *args) {
    enum { LEAST_ROWS = 4 }; /* that a thread adds up before its sums are written */
    static const enum aorta_ops_entry entries[2][2] = {
        {AORTA_ENTRY_norm_backward, AORTA_ENTRY_norm_backward_bias},
        {AORTA_ENTRY_norm_backward_wide, AORTA_ENTRY_norm_backward_bias_wide}};
    const struct aorta_norm_backward_args *a = args;
    const int64_t rows = a->shape.rows, width = a->shape.width;
    struct holding holding;
    AORTA_TRY(hold(width, a->shape.dtype, &holding));
    const struct aorta_gpu_properties *gpu = aorta_gpu_get_properties(aorta_stream_device(stream));
    const uint32_t most = aorta_ops_blocks(rows, (int64_t)LEAST_ROWS * holding.threads[1]);
    uint32_t blocks = (uint32_t)gpu->multiprocessors * holding.resident;
    if (blocks > most) blocks = most;
    const int64_t sums = a->dbias ? 3 : 2;
    struct aorta_gpu_norm_backward_args first = {.op = *a};
    AORTA_TRY(aorta_ops_gpu_partial(stream, (size_t)(blocks * sums * width) * sizeof(float), &first.partial));
    first.op.shape.rng = aorta_ops_gpu_key(a->shape.rng);
    const struct aorta_gpu_grid grid = {.blocks = {blocks}, .threads = {holding.threads[0], holding.threads[1]}};
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, entries[holding.wide][a->dbias != NULL], a->shape.dtype, grid, &first,
                                      sizeof first));
    const struct aorta_gpu_column_sums second = {.partial = first.partial,
                                                 .rows = blocks,
                                                 .columns = sums * width,
                                                 .split = width,
                                                 .sums = {a->dgamma, a->dbeta, a->dbias},
                                                 .accumulate = a->accumulate};
    return aorta_ops_gpu_column_finish(stream, &second);
}

/* As many blocks as run at once, none with less than a few rows for each thread. */
struct aorta_ops_columns aorta_ops_gpu_share_columns(struct aorta_device *device, int64_t rows, int64_t columns) {
    enum { LEAST_ROWS = 4 * AORTA_COLUMN_ROWS };
    const struct aorta_gpu_properties *gpu = aorta_gpu_get_properties(device);
    const uint32_t across = aorta_ops_blocks(columns, (int64_t)AORTA_COLUMN_LANES * 8);
    const int64_t wanted = AORTA_COLUMN_RESIDENT * (int64_t)gpu->multiprocessors / across;
    int64_t per_split = wanted > 1 ? (rows + wanted - 1) / wanted : rows;
    if (per_split < LEAST_ROWS) per_split = LEAST_ROWS;
    const uint32_t splits = aorta_ops_blocks(rows, per_split);
    return (struct aorta_ops_columns){
        .rows_per_split = per_split,
        .splits = splits,
        .partial_bytes = (size_t)(splits * columns) * sizeof(float),
        .grid = {.blocks = {splits > 0 ? across : 0, splits}, .threads = {AORTA_COLUMN_LANES, AORTA_COLUMN_ROWS}}};
}

aorta_status aorta_ops_gpu_column_sums(struct aorta_stream *stream, enum aorta_dtype dtype, const void *dy,
                                       int64_t rows, int64_t columns, float *sums, int64_t zero_from, int64_t zero_to,
                                       bool accumulate) {
    const struct aorta_ops_columns share = aorta_ops_gpu_share_columns(aorta_stream_device(stream), rows, columns);
    struct aorta_gpu_column_args first = {
        .x = dy, .rows = rows, .columns = columns, .rows_per_split = share.rows_per_split};
    AORTA_TRY(aorta_ops_gpu_partial(stream, share.partial_bytes, &first.partial));
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_column_sums, dtype, share.grid, &first, sizeof first));
    const struct aorta_gpu_column_sums second = {.partial = first.partial,
                                                 .rows = share.splits,
                                                 .columns = columns,
                                                 .split = columns,
                                                 .sums = {sums},
                                                 .zero_from = zero_from,
                                                 .zero_to = zero_to,
                                                 .accumulate = accumulate};
    return aorta_ops_gpu_column_finish(stream, &second);
}
