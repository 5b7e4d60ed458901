/* The GPU side of the operations: each function works out a grid and queues kernels, or calls the vendor's matrix
 * library. They take what the CPU functions of the same operation take (ops/kernels.h), and stand beside them in a
 * struct aorta_kernel. */
#ifndef AORTA_OPS_GPU_GPU_H
#define AORTA_OPS_GPU_GPU_H

#include "device/gpu.h"
#include "ops/gpu/entries.h"
#include "ops/kernels/arguments.h"

AORTA_MUST_USE aorta_status aorta_ops_gpu_cast(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_fill(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_add(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_gelu_forward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_gelu_backward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_step_begin(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_step_update(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_step_end(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_flag_raise(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_flag_await(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_spin(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_bce(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_square_sum(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_adamw(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_norm_forward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_norm_backward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_embedding_forward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_embedding_order(struct aorta_stream *stream, const void *args);
int64_t aorta_ops_gpu_most_head_dim(void);
int64_t aorta_ops_gpu_most_norm_row(void);
size_t aorta_ops_gpu_embedding_order_bytes(const struct aorta_embedding *shape);
AORTA_MUST_USE aorta_status aorta_ops_gpu_embedding_backward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_linear_forward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_linear_backward_input(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_linear_backward_weight(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_attention_forward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_attention_backward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_relu_backward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_sum_pieces(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_products(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_softmax_forward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_softmax_backward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_cross_entropy(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_cache_attend(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_cache_append(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_cache_advance(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_sample(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_accept(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_top(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_normalise(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_route_plan(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_route_dispatch(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_route_combine(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_image_prepare(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_image_columns(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_image_pool(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_image_mean(struct aorta_stream *stream, const void *args);

/* Whether one kernel makes scores and their softmax: of rows that one block holds, read 16 bytes at a time. */
bool aorta_ops_gpu_scores_fit(struct aorta_stream *stream, const struct aorta_scores_args *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_scores_forward(struct aorta_stream *stream, const void *args);
AORTA_MUST_USE aorta_status aorta_ops_gpu_scores_backward(struct aorta_stream *stream, const void *args);

/* What attention keeps between forward and backward on a GPU, and needs while it runs. */
size_t aorta_ops_gpu_attention_saved_bytes(const struct aorta_attention *shape);
size_t aorta_ops_gpu_attention_scratch_bytes(const struct aorta_attention *shape);

/* Where its kernels for heads of this width are; NULL: there are none. */
const struct aorta_gpu_source *aorta_ops_gpu_attention_source(enum aorta_dtype dtype, int64_t head_dim);

/* ---- shared by the files of this folder ---- */

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

/* How sums over the rows of a matrix are shared out (kernels/column.h): a grid of strips of columns × shares of rows,
 * and the memory in which each block leaves its sums. */
struct aorta_ops_columns {
    int64_t rows_per_split, splits;
    size_t partial_bytes;
    struct aorta_gpu_grid grid;
};
struct aorta_ops_columns aorta_ops_gpu_share_columns(struct aorta_device *device, int64_t rows, int64_t columns);
/* Column sums of dy [rows, columns] into sums (+= when `accumulate`); 0 instead for columns [zero_from, zero_to). */
AORTA_MUST_USE aorta_status aorta_ops_gpu_column_sums(struct aorta_stream *stream, enum aorta_dtype dtype,
                                                      const void *dy, int64_t rows, int64_t columns, float *sums,
                                                      int64_t zero_from, int64_t zero_to, bool accumulate);
/* The second stage alone (sums.c). Its partial sums lie in memory that is asked for first, right before the first stage
 * is queued: the stream's workspace, or other memory while sums are gathered (aorta_sums_gather). */
AORTA_MUST_USE aorta_status aorta_ops_gpu_partial(struct aorta_stream *stream, size_t bytes, float **partial);
AORTA_MUST_USE aorta_status aorta_ops_gpu_column_finish(struct aorta_stream *stream,
                                                        const struct aorta_gpu_column_sums *sums);
AORTA_MUST_USE aorta_status aorta_ops_gpu_sums_gather(struct aorta_stream *stream);
AORTA_MUST_USE aorta_status aorta_ops_gpu_sums_finish(struct aorta_stream *stream, const void *none);

#endif
