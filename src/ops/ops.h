/* Tensor operations, each ordered on the stream that is its first argument.
 *
 * Tensors are dense, row-major, in device memory; shapes stand behind the names as [rows, columns]. `dtype` is the type
 * activations and weights are stored in (fp32, bf16, fp16); arithmetic and sums are fp32. Gradients of parameters,
 * LayerNorm statistics and optimizer state are always fp32. Buffers are the caller's and must not overlap unless a
 * comment says so. Formulas are PyTorch's (torch.nn.functional of the same name) unless a source is given.
 *
 * Argument structs are copied when the call is made. AORTA_INTERNAL names a shape that makes no sense. */
#ifndef AORTA_OPS_OPS_H
#define AORTA_OPS_OPS_H

#include "device/device.h"
#include "ops/types.h"

/* ---- what a device needs ---- */

/* How a GPU multiplies matrices; the CPU has no choice to make. */
struct aorta_ops_settings {
    bool allow_tf32;         /* fp32 products may round their operands to TF32 */
    bool tune_products;      /* the first product of a shape tries the library's best guesses and keeps the fastest; two
                                runs may then choose differently, and differ in the last bits */
    bool fuse_bias_gradient; /* dbias as a by-product of dweight, where the library offers it */
    bool own_products;       /* by our plain kernels, never by the vendor's library: slow, for tests */
};
extern const struct aorta_ops_settings aorta_ops_default_settings; /* tuned and fused, no TF32 */
/* Holds from the next operation on. */
AORTA_MUST_USE aorta_status aorta_ops_configure(struct aorta_device *device, const struct aorta_ops_settings *settings);
/* On a GPU operations need scratch memory of the stream, the matrix library and compiled kernels. Each is got when
 * first needed, which is impossible inside a capture: run what will be captured once before. This gets the first two
 * ahead of time. Two graphs captured from one stream share its scratch memory: do not run them at the same time. */
AORTA_MUST_USE aorta_status aorta_ops_prepare(struct aorta_stream *stream);

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

/* y = x·weightᵀ + bias; bias [out] in dtype, or NULL. */
AORTA_MUST_USE aorta_status aorta_linear_forward(struct aorta_stream *stream, struct aorta_linear shape, const void *x,
                                                 const void *weight, const void *bias, void *y);
/* dx = dy·weight, or dx += dy·weight when `accumulate`. */
AORTA_MUST_USE aorta_status aorta_linear_backward_input(struct aorta_stream *stream, struct aorta_linear shape,
                                                        const void *dy, const void *weight, void *dx, bool accumulate);
/* dweight [out, in] fp32 = dyᵀ·x (+= when `accumulate`); dbias [out] fp32 likewise = Σ_rows dy; dbias may be NULL. */
AORTA_MUST_USE aorta_status aorta_linear_backward_weight(struct aorta_stream *stream, struct aorta_linear shape,
                                                         const void *x, const void *dy, float *dweight, float *dbias,
                                                         bool accumulate);

/* ---- attention without mask ---- */

/* Bytes of the buffer that forward fills and backward reads (0 is possible), and of scratch memory for either. */
size_t aorta_attention_saved_bytes(const struct aorta_device *device, struct aorta_attention shape);
size_t aorta_attention_scratch_bytes(const struct aorta_device *device, struct aorta_attention shape);
/* out [batch, positions, E] = dropout(softmax(q·kᵀ/√head_dim))·v per head; qkv [batch, positions, 3E] = q|k|v, heads
 * contiguous within each, as torch.nn.MultiheadAttention's in_proj lays them out. */
AORTA_MUST_USE aorta_status aorta_attention_forward(struct aorta_stream *stream, struct aorta_attention shape,
                                                    const void *qkv, void *out, void *saved, void *scratch);
/* dbias [3E] fp32 (may be NULL): gradient of in_proj's bias, Σ_rows dqkv, += when `accumulate`. Its part for the keys
 * is 0, whatever rounding would leave there: a constant added to all keys changes every score of a row alike, and
 * softmax not at all. */
AORTA_MUST_USE aorta_status aorta_attention_backward(struct aorta_stream *stream, struct aorta_attention shape,
                                                     const void *qkv, const void *out, const void *saved,
                                                     const void *dout, void *dqkv, void *scratch, float *dbias,
                                                     bool accumulate);

/* ---- residual + dropout + LayerNorm, in one pass over memory ---- */

/* sum = residual + dropout(x); y = (sum − mean)·rstd·gamma + beta.
 * residual NULL: sum = dropout(x). sum [rows, width] is kept for backward and may be x itself; NULL is allowed when
 * residual is NULL and dropout is 0 (backward then takes x as sum). mean, rstd [rows] fp32. gamma, beta [width] dtype.
 */
AORTA_MUST_USE aorta_status aorta_norm_forward(struct aorta_stream *stream, struct aorta_norm shape, const void *x,
                                               const void *residual, const void *gamma, const void *beta, void *sum,
                                               void *y, float *mean, float *rstd);
/* dsum = gradient with respect to sum (that is, of the residual branch) [rows, width]; dx = dropoutᵀ(dsum), NULL when
 * the caller does not need it apart (no dropout: dx == dsum). dy_extra (may be NULL) is a second gradient of y that is
 * added to dy on the fly. dgamma, dbeta [width] fp32, += when `accumulate`; so is dbias = Σ_rows dx (of dsum where dx
 * is NULL), the gradient of the bias of the layer that made x; NULL: not wanted. */
AORTA_MUST_USE aorta_status aorta_norm_backward(struct aorta_stream *stream, struct aorta_norm shape, const void *dy,
                                                const void *dy_extra, const void *sum, const void *gamma,
                                                const float *mean, const float *rstd, void *dsum, void *dx,
                                                float *dgamma, float *dbeta, float *dbias, bool accumulate);

/* ---- exact GELU with dropout behind it ---- */

/* y = dropout(x·Φ(x)), Φ the normal distribution function (approximate="none"). */
AORTA_MUST_USE aorta_status aorta_gelu_forward(struct aorta_stream *stream, struct aorta_gelu shape, const void *x,
                                               void *y);
/* dx = dropoutᵀ(dy)·(Φ(x) + x·φ(x)); dx may be dy. dbias [shape.width] fp32 = Σ_rows dx (+= when `accumulate`), the
 * gradient of the bias of the layer that made x [count / width, width]; NULL: not wanted. */
AORTA_MUST_USE aorta_status aorta_gelu_backward(struct aorta_stream *stream, struct aorta_gelu shape, const void *x,
                                                const void *dy, void *dx, float *dbias, bool accumulate);

/* ---- embedding with mean over the features ---- */

/* y [rows, dim] = mean over features of table[ids]. AORTA_DEVICE names an id out of range (and nothing is read there).
 */
AORTA_MUST_USE aorta_status aorta_embedding_forward(struct aorta_stream *stream, struct aorta_embedding shape,
                                                    const int64_t *ids, const void *table, void *y);
/* dtable [vocab, dim] fp32 += dy/features scattered to the ids' rows. The caller has zeroed dtable. Deterministic. */
AORTA_MUST_USE aorta_status aorta_embedding_backward(struct aorta_stream *stream, struct aorta_embedding shape,
                                                     const int64_t *ids, const void *dy, float *dtable);

/* ---- loss ---- */

/* With l = mean_i(importance_i · bce(scores_i, target_i)): state->loss += weight · l;
 * dscores_i = gradient_weight · ∂l/∂scores_i · state->loss_scale.
 * target, importance [count] fp32. bce(s, t) = max(s, 0) − s·t + log1p(exp(−|s|)). */
AORTA_MUST_USE aorta_status aorta_bce_with_logits(struct aorta_stream *stream, struct aorta_bce shape,
                                                  const void *scores, const float *target, const float *importance,
                                                  struct aorta_step_state *state, void *dscores);

/* ---- flags ---- */

/* *flag, in device memory and 0 at first, becomes 1 when the stream comes here; other streams that then see it see
 * what was queued before on this one, too. */
AORTA_MUST_USE aorta_status aorta_flag_raise(struct aorta_stream *stream, int32_t *flag);
/* Holds the stream by a kernel that looks at the flag until it is 1, and takes it down. Unlike an event it occupies the
 * device meanwhile. Whatever raises the flag is queued before this call, on another stream, and waits for nothing
 * behind it. After limit_s seconds (a GPU counts its looks: after that or a few times as much) it fails: AORTA_TIMEOUT,
 * on a GPU a fault of the device.
 * A graph's branches may be run one after the other: inside a capture an event has to order the two as well. */
AORTA_MUST_USE aorta_status aorta_flag_await(struct aorta_stream *stream, int32_t *flag, double limit_s);

/* ---- time ---- */

/* Occupies the stream for this long by a kernel of one thread that watches the device's timer, and that notes when it
 * began and when it ended: stamps[0] and stamps[1], in pinned memory of the device or NULL, receive device time (ns).
 * Unlike aorta_timestamp that takes no kernel beside it. On the CPU device the stream's thread sleeps meanwhile, so
 * that more streams than processors can do so at the same time. */
AORTA_MUST_USE aorta_status aorta_spin(struct aorta_stream *stream, int64_t duration_ns, int64_t *stamps);

/* ---- optimizer ---- */

/* *square_sum += Σ g² over count fp32 values, accumulated in double inside; the caller has zeroed it. */
AORTA_MUST_USE aorta_status aorta_square_sum(struct aorta_stream *stream, const float *gradient, int64_t count,
                                             float *square_sum);

/* Loshchilov & Hutter, "Decoupled Weight Decay Regularization", as torch.optim.AdamW: p −= lr·wd·p; then the Adam step
 * with m, v [count] fp32. `copy` (may be NULL) receives the new parameters rounded to copy_dtype in the same pass. */
AORTA_MUST_USE aorta_status aorta_adamw_step(struct aorta_stream *stream, struct aorta_adamw args, float *parameter,
                                             const float *gradient, float *m, float *v, void *copy);

/* ---- casts, fills, sums ---- */

/* to[count] = scale · from[count], rounded to nearest even. Types fp32, fp16, bf16; same type and scale 1: a copy. */
AORTA_MUST_USE aorta_status aorta_cast(struct aorta_stream *stream, void *to, enum aorta_dtype to_dtype,
                                       const void *from, enum aorta_dtype from_dtype, int64_t count, float scale);
AORTA_MUST_USE aorta_status aorta_fill(struct aorta_stream *stream, void *to, enum aorta_dtype dtype, int64_t count,
                                       float value);
/* to[count] += scale · from[count], both of dtype. */
AORTA_MUST_USE aorta_status aorta_add(struct aorta_stream *stream, void *to, const void *from, enum aorta_dtype dtype,
                                      int64_t count, float scale);

/* Casts every piece; `pieces` is in device memory and stays valid until the work has run. */
AORTA_MUST_USE aorta_status aorta_cast_pieces(struct aorta_stream *stream, const struct aorta_piece *pieces,
                                              int64_t piece_count, enum aorta_dtype to_dtype,
                                              enum aorta_dtype from_dtype, float scale);

#endif
