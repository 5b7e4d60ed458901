/* Shared by the GPU side of the operations. Each operation has a CPU function and a function NAME_gpu with equal
 * arguments (ops/types.h), which computes a grid and queues kernels, or calls the vendor's matrix library. */
#ifndef AORTA_OPS_GPU_GPU_H
#define AORTA_OPS_GPU_GPU_H

#include "device/gpu.h"
#include "ops/gpu/entries.h"
#include "ops/kernels/arguments.h"

/* Queues a plain entry, or the entry of a typed one that belongs to `dtype`. */
AORTA_MUST_USE aorta_status aorta_ops_gpu_run(struct aorta_stream *stream, enum aorta_ops_entry entry,
                                              struct aorta_gpu_grid grid, const void *args, size_t bytes);
AORTA_MUST_USE aorta_status aorta_ops_gpu_run_typed(struct aorta_stream *stream, enum aorta_ops_entry entry,
                                                    enum aorta_dtype dtype, struct aorta_gpu_grid grid,
                                                    const void *args, size_t bytes);

/* `rng` as kernels expect it: the key that seed, site, rank and micro make stands in the place of the seed. */
struct aorta_rng aorta_ops_gpu_key(struct aorta_rng rng);

static inline uint32_t aorta_ops_blocks(int64_t count, int64_t per_block) {
    return (uint32_t)((count + per_block - 1) / per_block);
}

static inline struct aorta_gpu_grid aorta_ops_grid(int64_t blocks, uint32_t threads) {
    return (struct aorta_gpu_grid){.blocks = {(uint32_t)blocks}, .threads = {threads}};
}

/* How sums over the rows of a matrix are shared out (kernels/column.h): a grid of strips of columns × shares of rows,
 * and the memory in which each block leaves its sums. */
struct aorta_ops_columns {
    int64_t rows_per_split, splits;
    size_t partial_bytes;
    struct aorta_gpu_grid grid;
};
struct aorta_ops_columns aorta_ops_gpu_share_columns(struct aorta_device *device, int64_t rows, int64_t columns);
/* Column sums of dy [rows, columns] into sums[0] (+= when `accumulate`); 0 instead for columns [zero_from, zero_to).
 * The other members of `wanted` are not read. */
AORTA_MUST_USE aorta_status aorta_ops_gpu_column_sums(struct aorta_stream *stream, enum aorta_dtype dtype,
                                                      const void *dy, const struct aorta_gpu_column_sums *wanted);
/* The second stage alone (sums.c). Memory for its partial sums is requested right before the first stage is queued: the
 * stream's workspace, or other memory while sums are gathered (aorta_sums_gather). */
AORTA_MUST_USE aorta_status aorta_ops_gpu_partial(struct aorta_stream *stream, size_t bytes, float **partial);
AORTA_MUST_USE aorta_status aorta_ops_gpu_column_finish(struct aorta_stream *stream,
                                                        const struct aorta_gpu_column_sums *sums);

/* The widest heads of attention and rows of a LayerNorm that have kernels. */
int64_t aorta_ops_gpu_most_head_dim(void);
int64_t aorta_ops_gpu_most_norm_row(void);
/* Where attention's kernels for heads of this width are; NULL: there are none. */
const struct aorta_gpu_source *aorta_ops_gpu_attention_source(enum aorta_dtype dtype, int64_t head_dim);
/* Whether one kernel makes scores and their softmax: rows must fit a block and be readable 16 bytes at a time. */
bool aorta_ops_gpu_scores_fit(struct aorta_stream *stream, const struct aorta_scores_args *args);
/* Takes struct aorta_cache_advance_args (cache.c). */
AORTA_MUST_USE aorta_status aorta_ops_gpu_cache_advance(struct aorta_stream *stream, const void *args);

#endif
