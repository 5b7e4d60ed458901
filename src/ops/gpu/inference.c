/* Softmax, attention against a cache, sampling and ranking: mostly a block for each row. */
#include "ops/gpu/gpu.h"
#include "ops/gpu/workspace.h"

static struct aorta_gpu_grid row_grid(int64_t rows, uint32_t threads) {
    return (struct aorta_gpu_grid){.blocks = {(uint32_t)rows}, .threads = {threads}};
}

/* Rows that 32 threads hold in their registers go several to a block. */
static aorta_status softmax(struct aorta_stream *stream, const struct aorta_softmax_args *a, enum aorta_ops_entry any,
                            enum aorta_ops_entry for_short) {
    const uintptr_t places = (uintptr_t)a->x | (uintptr_t)a->dp | (uintptr_t)a->out;
    if (a->shape.width > AORTA_SHORT_ROW || a->shape.width % 4 || places % 16)
        return aorta_ops_gpu_run(stream, any, row_grid(a->shape.rows, AORTA_ROW_THREADS), a, sizeof *a);
    const int64_t blocks = aorta_ops_blocks(a->shape.rows, AORTA_ROW_THREADS / 32);
    return aorta_ops_gpu_run(stream, for_short, row_grid(blocks, AORTA_ROW_THREADS), a, sizeof *a);
}

aorta_status aorta_ops_gpu_softmax_forward(struct aorta_stream *stream, const void *args) {
    return softmax(stream, args, AORTA_ENTRY_softmax_forward, AORTA_ENTRY_softmax_forward_short);
}

aorta_status aorta_ops_gpu_softmax_backward(struct aorta_stream *stream, const void *args) {
    return softmax(stream, args, AORTA_ENTRY_softmax_backward, AORTA_ENTRY_softmax_backward_short);
}

aorta_status aorta_ops_gpu_cross_entropy(struct aorta_stream *stream, const void *args) {
    const struct aorta_cross_entropy_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_cross_entropy, row_grid(a->rows, AORTA_ROW_THREADS), a, sizeof *a);
}

/* Enough blocks to keep the device reading, none with fewer keys than are worth the joining. */
static int64_t splits_of(const struct aorta_gpu_properties *gpu, const struct aorta_cache_attend_args *a,
                         int64_t most_keys) {
    enum { LEAST_KEYS = 64, BLOCKS_EACH = 8 };
    const int64_t pairs = a->shape.heads * a->shape.batch * a->queries;
    const int64_t wanted = (BLOCKS_EACH * gpu->multiprocessors + pairs - 1) / pairs, most = most_keys / LEAST_KEYS;
    const int64_t splits = wanted < most ? wanted : most;
    return splits > 1 ? splits : 1;
}

aorta_status aorta_ops_gpu_cache_attend(struct aorta_stream *stream, const void *args) {
    const struct aorta_cache_attend_args *a = args;
    const int64_t heads = a->shape.heads, rows = a->shape.batch * a->queries;
    const int64_t most_keys = a->shape.window + a->first + a->queries;
    const int64_t splits = splits_of(aorta_gpu_get_properties(aorta_stream_device(stream)), a, most_keys);
    struct aorta_gpu_cache_args gpu = {.op = *a, .splits = splits, .per_split = (most_keys + splits - 1) / splits};
    if (splits > 1) {
        struct aorta_ops_workspace workspace;
        AORTA_TRY(aorta_ops_workspace(stream, (size_t)(rows * heads * splits * (AORTA_CACHE_DIM + 2)) * sizeof(float),
                                      &workspace));
        gpu.partial = workspace.memory;
    }
    const struct aorta_gpu_grid grid = {.blocks = {(uint32_t)splits, (uint32_t)heads, (uint32_t)rows},
                                        .threads = {AORTA_CACHE_THREADS}};
    AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_cache_attend, grid, &gpu, sizeof gpu));
    if (splits == 1) return NULL;
    const struct aorta_gpu_grid joining = {.blocks = {(uint32_t)heads, (uint32_t)rows},
                                           .threads = {AORTA_CACHE_THREADS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_cache_join, joining, &gpu, sizeof gpu);
}

aorta_status aorta_ops_gpu_cache_append(struct aorta_stream *stream, const void *args) {
    const struct aorta_cache_append_args *a = args;
    const struct aorta_gpu_grid grid = {
        .blocks = {(uint32_t)a->shape.fresh, (uint32_t)a->shape.batch, (uint32_t)a->shape.layers},
        .threads = {AORTA_CACHE_THREADS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_cache_append, grid, a, sizeof *a);
}

aorta_status aorta_ops_gpu_cache_advance(struct aorta_stream *stream, const void *args) {
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_cache_advance, row_grid(1, AORTA_CACHE_THREADS), args,
                             sizeof(struct aorta_cache_advance_args));
}

aorta_status aorta_ops_gpu_sample(struct aorta_stream *stream, const void *args) {
    const struct aorta_sample_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_sample_rows, row_grid(a->rows, AORTA_SAMPLE_THREADS), a, sizeof *a);
}

aorta_status aorta_ops_gpu_accept(struct aorta_stream *stream, const void *args) {
    const struct aorta_accept_args *a = args;
    AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_accept_tokens, row_grid(a->shape.batch, AORTA_SAMPLE_THREADS), a,
                                sizeof *a));
    const struct aorta_cache_advance_args step = {.batch = 1, .count = 1, .positions = a->step};
    return aorta_ops_gpu_cache_advance(stream, &step);
}

aorta_status aorta_ops_gpu_top(struct aorta_stream *stream, const void *args) {
    const struct aorta_top_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_top_places, row_grid(a->rows, AORTA_ROW_THREADS), a, sizeof *a);
}

aorta_status aorta_ops_gpu_normalise(struct aorta_stream *stream, const void *args) {
    const struct aorta_normalise_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_normalise_rows, row_grid(a->rows, AORTA_ROW_THREADS), a, sizeof *a);
}
