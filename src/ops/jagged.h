/* Operations of sparse features: lists of ids of varying length, tables of rows, pooled sums. Numbers are fp32, ids
 * int64. "Feature" is a list for each sample of the batch; a rank gets the lists of its parts from all ranks (sources).
 *
 * Sums have a fixed order: that of the batch. Failures are those of ops.h; an id outside of its table is AORTA_DEVICE.
 * A GPU updates rows of up to 512 columns. */
#ifndef AORTA_OPS_JAGGED_H
#define AORTA_OPS_JAGGED_H

#include "ops/ops.h"

/* offsets[i] = sum of lengths before i; offsets[count] = all. */
AORTA_MUST_USE aorta_status aorta_jagged_offsets(struct aorta_stream *stream, int64_t count, const int32_t *lengths,
                                                 int64_t *offsets);
/* How many ids of each list belong to each part; then the ids themselves (minus first_row), with their weights where
 * `weights` is not NULL. part_offsets are those of the lengths that the first made. */
AORTA_MUST_USE aorta_status aorta_jagged_count(struct aorta_stream *stream, const struct aorta_jagged_split_args *args);
AORTA_MUST_USE aorta_status aorta_jagged_split(struct aorta_stream *stream, const struct aorta_jagged_split_args *args);

/* A row of 8 bits a column: a code for each, padded to a multiple of 4, then scale and offset (fp32), with
 * value = offset + scale · code, offset the least value, scale a 255th of their range; a value gets the nearest code.
 * As FBGEMM's fused 8-bit row-wise format, which does not pad. */
int64_t aorta_row_bytes(int64_t columns, bool coded);
void aorta_row_encode(const float *values, int64_t columns, unsigned char *row);

/* pooled [sources, batch, width] = weighted sums of table rows; empty lists make zeros. */
AORTA_MUST_USE aorta_status aorta_pool_forward(struct aorta_stream *stream, const struct aorta_pool_args *args);
/* Fills *order (host memory, copied by the call) for `count` ids, which the lists hold in all. */
AORTA_MUST_USE aorta_status aorta_pool_sort(struct aorta_stream *stream, const struct aorta_pool_args *args,
                                            int64_t count);
/* Brings the rows of a sorted batch into args->cache; args->order has been filled. `batch` counts up by 1 from 2. Rows
 * of this batch and the previous one stay in the cache, and a row that found no place for the previous batch stays in
 * its table. So this can run during lookups and updates of the previous batch. The least recently used row is replaced
 * and written back. `before` is the order of the previous batch, of before_count ids. */
AORTA_MUST_USE aorta_status aorta_pool_cache(struct aorta_stream *stream, const struct aorta_pool_args *args,
                                             int64_t count, const struct aorta_pool_order *before, int64_t before_count,
                                             int64_t batch);
/* For each row that occurs: the gradient is summed over its ids, and applied (row-wise Adagrad: state += mean of the
 * squares, row −= lr · gradient / (√state + eps); plain: row −= lr · gradient) or written where the slot asks for that.
 * Mudigere et al., "Software-Hardware Co-design for Fast and Scalable Training of Deep Learning Recommendation
 * Models" (ISCA 2022), section 4.1. */
AORTA_MUST_USE aorta_status aorta_pool_update(struct aorta_stream *stream, const struct aorta_pool_args *args,
                                              int64_t count);
/* The update of aorta_pool_update for all rows of a table, from a gradient [rows, columns]. */
AORTA_MUST_USE aorta_status aorta_rows_update(struct aorta_stream *stream, const struct aorta_rows_args *args);

/* row [batch, width]: each block is the sum of its pieces of `buffer`; and back: each piece gets a copy of its block.
 */
AORTA_MUST_USE aorta_status aorta_columns_gather(struct aorta_stream *stream, const struct aorta_columns_args *args);
AORTA_MUST_USE aorta_status aorta_columns_scatter(struct aorta_stream *stream, const struct aorta_columns_args *args);

/* y = z · (1 + d); backward dz = dy · (1 + d), dd = dy · z. */
AORTA_MUST_USE aorta_status aorta_gate_forward(struct aorta_stream *stream, const struct aorta_gate_args *args);
AORTA_MUST_USE aorta_status aorta_gate_backward(struct aorta_stream *stream, const struct aorta_gate_args *args);

#endif
