/* Tensor operations, each ordered on the stream that is its first argument.
 *
 * Tensors are dense, row-major, in device memory; shapes are given after names as [rows, columns]. `dtype` is the type
 * activations and weights are stored in (fp32, bf16, fp16); arithmetic and sums are fp32. Gradients of parameters,
 * LayerNorm statistics and optimizer state are always fp32. Buffers are the caller's and must not overlap unless a
 * comment says so. Formulas are PyTorch's (torch.nn.functional of the same name) unless a source is given.
 *
 * Argument structs are copied when the call is made. AORTA_INTERNAL names a shape that makes no sense. */
#ifndef AORTA_OPS_OPS_H
#define AORTA_OPS_OPS_H

#include "device/device.h"
#include "ops/types.h"

/* ---- settings and preparation of a device ---- */

/* How a GPU multiplies matrices; the CPU has no choice to make. The fastest of the library's candidates for a shape is
 * used. Two runs may choose different candidates, and their results then differ in the last bits. */
struct aorta_ops_settings {
    bool allow_tf32;   /* fp32 products may round their operands to TF32 */
    bool own_products; /* by our plain kernels, never by the vendor's library: slow, for tests */
};
/* Applies from the next operation on. Both settings are false before the first call. */
AORTA_MUST_USE aorta_status aorta_ops_configure(struct aorta_device *device, const struct aorta_ops_settings *settings);
/* On a GPU operations need scratch memory of the stream, the matrix library and compiled kernels. Each is created
 * when first needed, which is impossible inside a capture, so run the captured work once before. This call creates the
 * first two ahead of time. Two graphs captured from one stream share its scratch memory: do not run them at the same
 * time. */
AORTA_MUST_USE aorta_status aorta_ops_prepare(struct aorta_stream *stream);

/* Begins to compile the kernels of a transformer with these elements and heads of `head_dim`, so that the first step
 * does not wait for each of them in turn. Does nothing on a device without kernels to compile. Call once per device. */
void aorta_ops_expect_transformer(struct aorta_device *device, enum aorta_dtype dtype, int64_t head_dim);

/* The widest heads of attention and rows of a LayerNorm that the device's kernels take; INT64_MAX if unlimited. */
struct aorta_ops_limits {
    int64_t head_dim, row;
};
struct aorta_ops_limits aorta_ops_limits(const struct aorta_device *device);

/* Reports how each product so far is made on a GPU, one line for each shape: which of the library's candidates was
 * taken, its workspace, its time in a graph and its nodes there. Nothing on other devices. */
AORTA_MUST_USE aorta_status aorta_ops_report_products(struct aorta_device *device,
                                                      void (*print)(void *user, const char *line), void *user);

/* ---- state that lives on the device, so that no step waits for the host ---- */

/* Sets lr for state->step, clears loss and norm. Call first in each step. */
AORTA_MUST_USE aorta_status aorta_step_begin(struct aorta_stream *stream, struct aorta_step_state *state,
                                             struct aorta_schedule schedule);

/* From the square sum: norm, finite, grad_factor = min(1, max_norm / (norm + 1e-6)) / loss_scale, bias corrections, new
 * loss scale; increments `updates` when finite, else `skipped`. Call between the norm and AdamW. */
AORTA_MUST_USE aorta_status aorta_step_update(struct aorta_stream *stream, const struct aorta_step_update_args *args);
/* Increments state->step. Call last in each step. */
AORTA_MUST_USE aorta_status aorta_step_end(struct aorta_stream *stream, struct aorta_step_state *state);

/* ---- linear ---- */

/* y = x·weightᵀ + bias; bias [out] in dtype, or NULL; with `relu` negative elements become 0. With `tf32` fp32 products
 * may round their operands to TF32 where the device has it. */
AORTA_MUST_USE aorta_status aorta_linear_forward(struct aorta_stream *stream, const struct aorta_linear_args *args);
/* dx = dy·weight, or dx += dy·weight when `accumulate`. */
AORTA_MUST_USE aorta_status aorta_linear_backward_input(struct aorta_stream *stream,
                                                        const struct aorta_linear_args *args);
/* dweight [out, in] fp32 = dyᵀ·x (+= when `accumulate`); dbias [out] fp32 likewise = Σ_rows dy; dbias may be NULL. */
AORTA_MUST_USE aorta_status aorta_linear_backward_weight(struct aorta_stream *stream,
                                                         const struct aorta_linear_args *args);

/* dx = dy where y > 0, else 0; all fp32; dx may be dy. */
AORTA_MUST_USE aorta_status aorta_relu_backward(struct aorta_stream *stream, const struct aorta_relu_args *args);
AORTA_MUST_USE aorta_status aorta_products_run(struct aorta_stream *stream, const struct aorta_products_args *args);
/* to[count] = scale · Σ_i from[i·count + …] over `pieces` pieces, in their order; fp32; `to` may be the first piece. */
AORTA_MUST_USE aorta_status aorta_sum_pieces(struct aorta_stream *stream, const struct aorta_sum_pieces_args *args);

/* ---- softmax and losses; fp32 ---- */

/* p = softmax(scale · x) over each row; elements that do not count become 0. p may be x. */
AORTA_MUST_USE aorta_status aorta_softmax_forward(struct aorta_stream *stream, const struct aorta_softmax_args *args);
/* dx = scale · p∘(dp − Σ dp∘p); dx may be dp. */
AORTA_MUST_USE aorta_status aorta_softmax_backward(struct aorta_stream *stream, const struct aorta_softmax_args *args);
/* p = softmax(scale · a·bᵀ) over each row of `products` (transpose_b, ldc = n, c_batch = m · n), and its gradient
 * dx = scale · p∘(dp − Σ dp∘p) with dp = a·bᵀ. On a GPU with n = 512, m a multiple of 32, k a multiple of 16 and
 * operands aligned to 16 bytes, products stay in registers until they are p or dx. */
AORTA_MUST_USE aorta_status aorta_scores_forward(struct aorta_stream *stream, const struct aorta_scores_args *args);
AORTA_MUST_USE aorta_status aorta_scores_backward(struct aorta_stream *stream, const struct aorta_scores_args *args);
/* losses[row] = log Σ exp(x[row]) − x[row, label]; dx = weight · (softmax(x) − one at the label); dx may be x.
 * AORTA_DEVICE names a label out of range on the CPU; on a GPU its row is NaN. */
AORTA_MUST_USE aorta_status aorta_cross_entropy(struct aorta_stream *stream,
                                                const struct aorta_cross_entropy_args *args);

/* ---- inference: attention against a cache, sampling; fp32 ---- */

/* Attention of new positions first … first + queries − 1 of one layer: each sees the cached positions of its sequence
 * and the new ones up to itself. keys, values [batch, window, E] of this layer hold the last `window` positions, of
 * positions[batch] in all: position p is in row p mod window. qkv [fresh, batch, 3E] of this layer; out [queries,
 * batch, E]. */
AORTA_MUST_USE aorta_status aorta_cache_attend(struct aorta_stream *stream, const struct aorta_cache_attend_args *args);
/* Writes keys and values of new positions 0 … n − 1 of all layers into the caches [layers, batch, window, E]; n is
 * counts[sequence], or `fresh` where counts is NULL, and at most `window`. */
AORTA_MUST_USE aorta_status aorta_cache_append(struct aorta_stream *stream, const struct aorta_cache_append_args *args);
/* positions[i] += counts[i], or += count where counts is NULL. */
AORTA_MUST_USE aorta_status aorta_cache_advance(struct aorta_stream *stream,
                                                const struct aorta_cache_advance_args *args);
/* tokens[row] is drawn from softmax(x[row]) (the largest of x − ln of an exponential random number: the Gumbel-max
 * method), logsums[row] = log Σ exp(x[row]). The numbers depend on seed, site, *step and row; step may be NULL. */
AORTA_MUST_USE aorta_status aorta_sample(struct aorta_stream *stream, const struct aorta_sample_args *args);
/* Speculative sampling by Leviathan et al. ("Fast Inference from Transformers via Speculative Decoding", ICML 2023):
 * proposed tokens are accepted one after the other with probability min(1, p/q). Then one more token is drawn: from the
 * excess of p over q at the first rejected token, or from p when all were accepted. tokens, q [drafted, batch(, vocab)]
 * with q_logsums, p [drafted + 1, batch, vocab] with p_logsums: logits and log Σ exp. accepted[batch] gets the number
 * accepted, next[batch] the token drawn, counts[batch] = accepted + 1, and totals[batch] (accepted) grows. *step counts
 * calls and is increased. */
AORTA_MUST_USE aorta_status aorta_accept(struct aorta_stream *stream, const struct aorta_accept_args *args);
/* Finds the `top` largest elements of each row in descending order (equal ones by place): places and values [rows,
 * top]. width ≤ 4096. */
AORTA_MUST_USE aorta_status aorta_top(struct aorta_stream *stream, const struct aorta_top_args *args);
/* y = x / max(‖x‖, 1e-8) row by row; y may be x. */
AORTA_MUST_USE aorta_status aorta_normalise_rows(struct aorta_stream *stream, const struct aorta_normalise_args *args);

/* ---- routing to experts; fp32 ---- */

/* From logits [tokens, experts] it chooses the `top` largest of each row (equal ones by place): choices [tokens, top],
 * and weights [tokens, top], their softmax over the chosen ones. Then, in the order of the tokens, each expert gets
 * rows until its capacity is reached: slots [tokens, top] is expert · capacity + row, or −1 where the expert is full;
 * owners [experts · capacity] is the token of a row, or −1; loads [experts] counts the choices, also those beyond the
 * capacity.
 */
AORTA_MUST_USE aorta_status aorta_route_plan(struct aorta_stream *stream, const struct aorta_route_args *args);
/* to [experts · capacity, width] = the rows of x [tokens, width] that were routed there, zeros in rows without owner.
 */
AORTA_MUST_USE aorta_status aorta_route_dispatch(struct aorta_stream *stream, const struct aorta_route_args *args);
/* y [tokens, width] = Σ weights · rows of z [experts · capacity, width]. */
AORTA_MUST_USE aorta_status aorta_route_combine(struct aorta_stream *stream, const struct aorta_route_args *args);

/* ---- samples of the synthetic data set ---- */

struct aorta_shuffle aorta_shuffle_of(uint64_t seed, uint64_t epoch, int64_t count);
/* Fills the tensors; every device makes the same bits. */
AORTA_MUST_USE aorta_status aorta_draw_batch(struct aorta_stream *stream, const struct aorta_batch_draw *draw);
/* aorta_draw_batch at once on the calling thread; all memory, quantiles included, is the host's. */
void aorta_batch_draw_here(const struct aorta_batch_draw *draw);

/* ---- images; fp32 ---- */

/* y [images, height, width, channels] = (x − mean)/deviation of x [images, channels, height, width], mirrored left to
 * right where flips[image] is 1. mean and deviation have `channels` ≤ 4 values. */
AORTA_MUST_USE aorta_status aorta_image_prepare(struct aorta_stream *stream, const struct aorta_image_args *args);
/* y [images·height·width, 9·channels]: around each pixel the 3 × 3 pixels, zeros outside: with weights
 * [out, 3, 3, channels] a convolution is a linear layer. */
AORTA_MUST_USE aorta_status aorta_image_columns(struct aorta_stream *stream, const struct aorta_image_args *args);
/* The largest of 2 × 2 pixels: y [images, height / 2, width / 2, channels]; height and width are even. */
AORTA_MUST_USE aorta_status aorta_image_pool(struct aorta_stream *stream, const struct aorta_image_args *args);
/* The mean of all pixels: y [images, channels]. */
AORTA_MUST_USE aorta_status aorta_image_mean(struct aorta_stream *stream, const struct aorta_image_args *args);

/* ---- attention without mask ---- */

/* Bytes of the buffer that forward fills and backward reads (0 is possible), and of scratch memory for either. */
size_t aorta_attention_saved_bytes(const struct aorta_device *device, struct aorta_attention shape);
size_t aorta_attention_scratch_bytes(const struct aorta_device *device, struct aorta_attention shape);
/* out [batch, positions, E] = dropout(softmax(q·kᵀ/√head_dim))·v per head; qkv [batch, positions, 3E] = q|k|v, heads
 * contiguous within each, as torch.nn.MultiheadAttention's in_proj lays them out. */
AORTA_MUST_USE aorta_status aorta_attention_forward(struct aorta_stream *stream,
                                                    const struct aorta_attention_args *args);
/* dqkv from dout, the gradient of `out`; out_in and saved_in come from forward (`out` and `saved` are not read). dbias
 * [3E] fp32 (may be NULL): gradient of in_proj's bias, Σ_rows dqkv, += when `accumulate`. Its part for the keys is set
 * to 0, as a constant added to all keys changes all scores of a row equally, and softmax not at all. */
AORTA_MUST_USE aorta_status aorta_attention_backward(struct aorta_stream *stream,
                                                     const struct aorta_attention_args *args);

/* ---- residual + dropout + LayerNorm, in one pass over memory ---- */

/* sum = residual + dropout(x); y = (sum − mean)·rstd·gamma + beta.
 * residual NULL: sum = dropout(x). sum [rows, width] is read by backward and may be x itself; NULL is allowed when
 * residual is NULL and dropout is 0 (backward then takes x as sum). mean, rstd [rows] fp32. gamma, beta [width] dtype.
 */
AORTA_MUST_USE aorta_status aorta_norm_forward(struct aorta_stream *stream, const struct aorta_norm_args *args);
/* dsum = gradient with respect to sum (that is, of the residual branch) [rows, width]; dx = dropoutᵀ(dsum), NULL when
 * the caller does not need it apart (no dropout: dx == dsum). dy_extra (may be NULL) is a second gradient of y that is
 * added to dy on the fly. dgamma, dbeta [width] fp32, += when `accumulate`; so is dbias = Σ_rows dx (of dsum where dx
 * is NULL), the gradient of the bias of the layer that made x; NULL: not wanted. */
AORTA_MUST_USE aorta_status aorta_norm_backward(struct aorta_stream *stream,
                                                const struct aorta_norm_backward_args *args);

/* ---- exact GELU, then dropout ---- */

/* y = dropout(x·Φ(x)), Φ the normal distribution function (approximate="none"). */
AORTA_MUST_USE aorta_status aorta_gelu_forward(struct aorta_stream *stream, const struct aorta_gelu_args *args);
/* dx = dropoutᵀ(dy)·(Φ(x) + x·φ(x)); dx may be dy. dbias [shape.width] fp32 = Σ_rows dx (+= when `accumulate`), the
 * gradient of the bias of the layer that made x [count / width, width]; NULL: not wanted. */
AORTA_MUST_USE aorta_status aorta_gelu_backward(struct aorta_stream *stream, const struct aorta_gelu_args *args);

/* ---- embedding with mean over the features ---- */

/* y [rows, dim] = mean over features of table[ids]. AORTA_DEVICE names an id out of range (and nothing is read there).
 */
AORTA_MUST_USE aorta_status aorta_embedding_forward(struct aorta_stream *stream,
                                                    const struct aorta_embedding_args *args);
/* The part of the backward pass that needs only the ids, so that it can run while the stream would wait. `order` is
 * device memory of this many bytes; 0: the device needs none. */
size_t aorta_embedding_order_bytes(const struct aorta_device *device, struct aorta_embedding shape);
AORTA_MUST_USE aorta_status aorta_embedding_order(struct aorta_stream *stream, const struct aorta_embedding_args *args);
/* dtable [vocab, dim] fp32 += dy/features scattered to the ids' rows; with `zeros` dtable contains zeros and need not
 * be read. `order`: made from these ids by aorta_embedding_order; if NULL, it is made here. Deterministic. */
AORTA_MUST_USE aorta_status aorta_embedding_backward(struct aorta_stream *stream,
                                                     const struct aorta_embedding_args *args);

/* ---- loss ---- */

/* With l = mean_i(importance_i · bce(scores_i, target_i)): state->loss += weight · l;
 * dscores_i = gradient_weight · ∂l/∂scores_i · state->loss_scale.
 * target, importance [count] fp32. bce(s, t) = max(s, 0) − s·t + log1p(exp(−|s|)). */
AORTA_MUST_USE aorta_status aorta_bce_with_logits(struct aorta_stream *stream, const struct aorta_bce_args *args);

/* ---- flags ---- */

/* *flag, in device memory and 0 at first, becomes 1 when the stream reaches this call. A stream that sees the flag also
 * sees the results of all work queued before this call. */
AORTA_MUST_USE aorta_status aorta_flag_raise(struct aorta_stream *stream, int32_t *flag);
/* Blocks the stream with a kernel that reads the flag until it is 1, and clears it. Unlike an event it occupies the
 * device meanwhile. The work that raises the flag must be queued before this call, on another stream, and wait for
 * nothing queued after it. After limit_s seconds (a GPU counts its reads: after up to a few times as long) it fails:
 * AORTA_TIMEOUT, on a GPU a fault of the device. A graph's branches may run one after the other, so inside a capture an
 * event must order the two as well. */
AORTA_MUST_USE aorta_status aorta_flag_await(struct aorta_stream *stream, int32_t *flag, double limit_s);

/* ---- time ---- */

/* Occupies the stream for this long with a kernel of one thread that reads the device's timer and records its start and
 * end: stamps[0] and stamps[1], in pinned memory of the device or NULL, receive device time (ns). Unlike
 * aorta_timestamp it needs no second kernel. On the CPU device the stream's thread sleeps meanwhile, so that more
 * streams than processors can spin at once. */
AORTA_MUST_USE aorta_status aorta_spin(struct aorta_stream *stream, int64_t duration_ns, int64_t *stamps);

/* ---- optimizer ---- */

/* *square_sum += Σ g² over count fp32 values, accumulated in double inside; the caller has zeroed it. */
AORTA_MUST_USE aorta_status aorta_square_sum(struct aorta_stream *stream, const float *gradient, int64_t count,
                                             float *square_sum);

/* Loshchilov & Hutter, "Decoupled Weight Decay Regularization", as torch.optim.AdamW: p −= lr·wd·p; then the Adam step
 * with m, v [count] fp32. `copy` (may be NULL) receives the updated parameters, rounded to copy_dtype, in the same
 * pass. It is also written when the step is skipped, which changes nothing else. */
AORTA_MUST_USE aorta_status aorta_adamw_step(struct aorta_stream *stream, const struct aorta_adamw_args *args);

/* Shampoo with blocked preconditioners, grafted to Adam: Anil et al., "Scalable Second Order Optimization for Deep
 * Learning", and Shi et al., "A Distributed Data-Parallel PyTorch Implementation of the Distributed Shampoo Optimizer".
 * For a block G with g = grad_factor · G: L ← β2·L + (1 − β2)·g·gᵀ, R ← β2·R + (1 − β2)·gᵀ·g, m and v as Adam's;
 * direction = s · L̂^(−1/4) · m̂ · R̂^(−1/4) with s such that the block's norm is that of Adam's step m̂ / (√v̂ + eps).
 * For a vector: L̂^(−1/2) · m̂. Hats are bias-corrected; before an inverse root, 1e-6 of the factor's largest
 * eigenvalue is added to its diagonal. gradient, m, v, direction [rows, columns]; factors, roots [2,
 * AORTA_SHAMPOO_FACTOR] for each block, row by row, zeroed before the first call. Factors are double: with 1e-6 of the
 * largest eigenvalue, errors of fp32 would dominate the smallest. */
AORTA_MUST_USE aorta_status aorta_shampoo_direction(struct aorta_stream *stream, const struct aorta_shampoo_args *args);
int64_t aorta_shampoo_blocks(int64_t rows, int64_t columns);
/* p −= lr·wd·p + lr·direction; `copy` as aorta_adamw_step. */
AORTA_MUST_USE aorta_status aorta_descent_step(struct aorta_stream *stream, const struct aorta_descent_args *args);

/* ---- casts, fills, sums ---- */

/* to[count] = scale · from[count], rounded to nearest even. Types fp32, fp16, bf16; same type and scale 1: a copy. */
AORTA_MUST_USE aorta_status aorta_cast(struct aorta_stream *stream, void *to, enum aorta_dtype to_dtype,
                                       const void *from, enum aorta_dtype from_dtype, int64_t count, float scale);
AORTA_MUST_USE aorta_status aorta_fill(struct aorta_stream *stream, void *to, enum aorta_dtype dtype, int64_t count,
                                       float value);
/* to[count] += scale · from[count], both of dtype. */
AORTA_MUST_USE aorta_status aorta_add(struct aorta_stream *stream, void *to, const void *from, enum aorta_dtype dtype,
                                      int64_t count, float scale);

/* Operations of sparse features: lists of ids of varying length, tables of rows, pooled sums. Numbers are fp32, ids
 * int64. "Feature" is a list for each sample of the batch; a rank gets the lists of its parts from all ranks (sources).
 *
 * Sums have a fixed order: that of the batch. Failures are those of ops.h; an id outside of its table is AORTA_DEVICE.
 * A GPU updates rows of up to 512 columns. */

/* offsets[i] = sum of lengths before i; offsets[count] = all. */
AORTA_MUST_USE aorta_status aorta_jagged_offsets(struct aorta_stream *stream, int64_t count, const int32_t *lengths,
                                                 int64_t *offsets);
/* How many ids of each list belong to each part; then the ids themselves (minus first_row), with their weights where
 * `weights` is not NULL. part_offsets are the offsets of the lengths that aorta_jagged_count made. */
AORTA_MUST_USE aorta_status aorta_jagged_count(struct aorta_stream *stream, const struct aorta_jagged_split_args *args);
AORTA_MUST_USE aorta_status aorta_jagged_split(struct aorta_stream *stream, const struct aorta_jagged_split_args *args);

/* A row of 8 bits a column: a code for each, padded to a multiple of 4, then scale and offset (fp32), with
 * value = offset + scale · code, offset the least value, scale a 255th of their range; a value gets the nearest code.
 * As FBGEMM's fused 8-bit row-wise format, which does not pad. */
int64_t aorta_row_bytes(int64_t columns, bool coded);
void aorta_row_encode(const float *values, int64_t columns, unsigned char *row);

/* pooled [sources, batch, width] = weighted sums of table rows; empty lists make zeros. */
AORTA_MUST_USE aorta_status aorta_pool_forward(struct aorta_stream *stream, const struct aorta_pool_args *args);
/* Fills *order (host memory, copied by the call) for `count` ids, the total of all lists. */
AORTA_MUST_USE aorta_status aorta_pool_sort(struct aorta_stream *stream, const struct aorta_pool_args *args,
                                            int64_t count);
/* Brings the rows of a sorted batch into args->cache; args->order has been filled. `batch` counts up by 1 from 2. Rows
 * of this batch and the previous one stay in the cache, and a row of the previous batch that was not cached stays
 * in its table. So this can run during lookups and updates of the previous batch. The least recently used row is
 * replaced and written back. `before` is the order of the previous batch, of before_count ids. */
AORTA_MUST_USE aorta_status aorta_pool_cache(struct aorta_stream *stream, const struct aorta_pool_args *args,
                                             int64_t count, const struct aorta_pool_order *before, int64_t before_count,
                                             int64_t batch);
/* For each row that occurs: the gradient is summed over its ids, and applied (row-wise Adagrad: state += mean of the
 * squares, row −= lr · gradient / (√state + eps); plain: row −= lr · gradient) or written if the slot requests it.
 * Mudigere et al., "Software-Hardware Co-design for Fast and Scalable Training of Deep Learning Recommendation
 * Models" (ISCA 2022), section 4.1. */
AORTA_MUST_USE aorta_status aorta_pool_update(struct aorta_stream *stream, const struct aorta_pool_args *args,
                                              int64_t count);
/* The update of aorta_pool_update for all rows of a table, from a gradient [rows, columns]. */
AORTA_MUST_USE aorta_status aorta_rows_update(struct aorta_stream *stream, const struct aorta_rows_args *args);

/* gather: each block of row [batch, width] becomes the sum of its pieces of `buffer`. scatter: each piece gets a copy
 * of its block.
 */
AORTA_MUST_USE aorta_status aorta_columns_gather(struct aorta_stream *stream, const struct aorta_columns_args *args);
AORTA_MUST_USE aorta_status aorta_columns_scatter(struct aorta_stream *stream, const struct aorta_columns_args *args);

/* y = z · (1 + d); backward dz = dy · (1 + d), dd = dy · z. */
AORTA_MUST_USE aorta_status aorta_gate_forward(struct aorta_stream *stream, const struct aorta_gate_args *args);
AORTA_MUST_USE aorta_status aorta_gate_backward(struct aorta_stream *stream, const struct aorta_gate_args *args);

#endif
