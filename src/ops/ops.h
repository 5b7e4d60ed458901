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

#include "base/dtype.h"
#include "device/device.h"

/* ---- state that lives on the device, so that no step waits for the host ---- */

/* One per training run, in device memory. Advanced by aorta_step_begin and aorta_step_update, read by dropout, loss and
 * AdamW; the host reads copies of it. Plain floats and integers, the same layout on host and device. */
struct aorta_step_state {
    int64_t step;           /* index of the current step from 0; counts skipped ones too */
    int64_t updates;        /* optimizer updates applied so far (Adam's t) */
    int64_t skipped;        /* steps skipped because a gradient was not finite */
    float lr;               /* of the current step */
    float loss_scale;       /* the loss is multiplied by it; 1 without fp16 */
    int32_t growth_tracker; /* finite steps since the loss scale last changed */
    int32_t finite;         /* 1: the gradients of the current step are finite */
    float grad_norm;        /* global L2 norm of the unscaled gradients, before clipping */
    float grad_factor;      /* what AdamW multiplies gradients with: clip / loss scale, 0 when skipped */
    float loss;             /* mean loss of this rank over the micro-batches of the step */
    float bias_correction1; /* 1 − β1^t and 1 − β2^t for the update at hand */
    float bias_correction2;
    float reserved;
};

struct aorta_schedule {
    float lr;             /* the peak */
    int64_t warmup_steps; /* lr·(s+1)/warmup while s < warmup */
    int64_t total_steps;  /* then linearly to 0 at total; ≤ 0: constant lr */
};

/* Sets lr for state->step, clears loss and norm. Call first in each step. */
AORTA_MUST_USE aorta_status aorta_step_begin(struct aorta_stream *stream, struct aorta_step_state *state,
                                             struct aorta_schedule schedule);

struct aorta_step_update_args {
    struct aorta_step_state *state;
    const float *square_sum; /* Σ g² over all shards of the scaled gradients, one float in device memory */
    float max_norm;          /* clip threshold; ≤ 0: no clipping */
    float beta1, beta2;
    bool dynamic_scale;      /* fp16: halve on overflow, double after growth_interval finite steps */
    int32_t growth_interval; /* 2000 as in torch.amp.GradScaler */
};
/* From the square sum: norm, finite, grad_factor = min(1, max_norm / (norm + 1e-6)) / loss_scale, bias corrections, new
 * loss scale; increments `updates` when finite, else `skipped`. Call between the norm and AdamW. */
AORTA_MUST_USE aorta_status aorta_step_update(struct aorta_stream *stream, const struct aorta_step_update_args *args);
/* Increments state->step. Call last in each step. */
AORTA_MUST_USE aorta_status aorta_step_end(struct aorta_stream *stream, struct aorta_step_state *state);

/* ---- random numbers ---- */

/* Counter-based: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11). A mask depends on
 * nothing but these values and the element's index, so it is the same on every device and can be made again in the
 * backward pass instead of being kept. */
struct aorta_rng {
    uint64_t seed;
    uint32_t site; /* which dropout of which layer, e.g. layer × 8 + place */
    uint32_t rank;
    uint32_t micro;                       /* micro-batch within the step */
    const struct aorta_step_state *state; /* the step number is read on the device; NULL: step 0 */
};

/* ---- linear ---- */

struct aorta_linear {
    enum aorta_dtype dtype;
    int64_t rows, in, out; /* x [rows, in], weight [out, in] (PyTorch's layout), y [rows, out] */
};
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

struct aorta_attention {
    enum aorta_dtype dtype;
    int64_t batch, positions, heads, head_dim; /* width E = heads × head_dim */
    float dropout;                             /* on the attention weights; 0: none */
    struct aorta_rng rng;
};
/* Bytes of the buffer that forward fills and backward reads (0 is possible), and of scratch memory for either. */
size_t aorta_attention_saved_bytes(struct aorta_attention shape);
size_t aorta_attention_scratch_bytes(struct aorta_attention shape);
/* out [batch, positions, E] = dropout(softmax(q·kᵀ/√head_dim))·v per head; qkv [batch, positions, 3E] = q|k|v, heads
 * contiguous within each, as torch.nn.MultiheadAttention's in_proj lays them out. */
AORTA_MUST_USE aorta_status aorta_attention_forward(struct aorta_stream *stream, struct aorta_attention shape,
                                                    const void *qkv, void *out, void *saved, void *scratch);
AORTA_MUST_USE aorta_status aorta_attention_backward(struct aorta_stream *stream, struct aorta_attention shape,
                                                     const void *qkv, const void *out, const void *saved,
                                                     const void *dout, void *dqkv, void *scratch);

/* ---- residual + dropout + LayerNorm, in one pass over memory ---- */

struct aorta_norm {
    enum aorta_dtype dtype;
    int64_t rows, width;
    float eps;     /* 1e-5 */
    float dropout; /* applied to `x` before it is added to the residual; 0: none */
    struct aorta_rng rng;
};
/* sum = residual + dropout(x); y = (sum − mean)·rstd·gamma + beta.
 * residual NULL: sum = dropout(x). sum [rows, width] is kept for backward and may be x itself; NULL is allowed when
 * residual is NULL and dropout is 0 (backward then takes x as sum). mean, rstd [rows] fp32. gamma, beta [width] dtype.
 */
AORTA_MUST_USE aorta_status aorta_norm_forward(struct aorta_stream *stream, struct aorta_norm shape, const void *x,
                                               const void *residual, const void *gamma, const void *beta, void *sum,
                                               void *y, float *mean, float *rstd);
/* dsum = gradient with respect to sum (that is, of the residual branch) [rows, width]; dx = dropoutᵀ(dsum), NULL when
 * the caller does not need it apart (no dropout: dx == dsum). dy_extra (may be NULL) is a second gradient of y that is
 * added to dy on the fly. dgamma, dbeta [width] fp32, += when `accumulate`. */
AORTA_MUST_USE aorta_status aorta_norm_backward(struct aorta_stream *stream, struct aorta_norm shape, const void *dy,
                                                const void *dy_extra, const void *sum, const void *gamma,
                                                const float *mean, const float *rstd, void *dsum, void *dx,
                                                float *dgamma, float *dbeta, bool accumulate);

/* ---- exact GELU with dropout behind it ---- */

struct aorta_gelu {
    enum aorta_dtype dtype;
    int64_t count;
    float dropout; /* on the output; 0: none */
    struct aorta_rng rng;
};
/* y = dropout(x·Φ(x)), Φ the normal distribution function (approximate="none"). */
AORTA_MUST_USE aorta_status aorta_gelu_forward(struct aorta_stream *stream, struct aorta_gelu shape, const void *x,
                                               void *y);
/* dx = dropoutᵀ(dy)·(Φ(x) + x·φ(x)); dx may be dy. */
AORTA_MUST_USE aorta_status aorta_gelu_backward(struct aorta_stream *stream, struct aorta_gelu shape, const void *x,
                                                const void *dy, void *dx);

/* ---- embedding with mean over the features ---- */

struct aorta_embedding {
    enum aorta_dtype dtype;
    int64_t rows, features, vocab, dim; /* ids [rows, features] int64 in [0, vocab), table [vocab, dim] */
};
/* y [rows, dim] = mean over features of table[ids]. AORTA_DEVICE names an id out of range (and nothing is read there).
 */
AORTA_MUST_USE aorta_status aorta_embedding_forward(struct aorta_stream *stream, struct aorta_embedding shape,
                                                    const int64_t *ids, const void *table, void *y);
/* dtable [vocab, dim] fp32 += dy/features scattered to the ids' rows. The caller has zeroed dtable. Deterministic. */
AORTA_MUST_USE aorta_status aorta_embedding_backward(struct aorta_stream *stream, struct aorta_embedding shape,
                                                     const int64_t *ids, const void *dy, float *dtable);

/* ---- loss ---- */

struct aorta_bce {
    enum aorta_dtype dtype; /* of scores and dscores */
    int64_t count;
    float weight;          /* of this micro-batch in the step's loss: 1 / gradient_accumulation */
    float gradient_weight; /* the same in the gradient: weight / number of ranks whose gradients are summed */
};
/* With l = mean_i(importance_i · bce(scores_i, target_i)): state->loss += weight · l;
 * dscores_i = gradient_weight · ∂l/∂scores_i · state->loss_scale.
 * target, importance [count] fp32. bce(s, t) = max(s, 0) − s·t + log1p(exp(−|s|)). */
AORTA_MUST_USE aorta_status aorta_bce_with_logits(struct aorta_stream *stream, struct aorta_bce shape,
                                                  const void *scores, const float *target, const float *importance,
                                                  struct aorta_step_state *state, void *dscores);

/* ---- optimizer ---- */

/* *square_sum += Σ g² over count fp32 values, accumulated in double inside; the caller has zeroed it. */
AORTA_MUST_USE aorta_status aorta_square_sum(struct aorta_stream *stream, const float *gradient, int64_t count,
                                             float *square_sum);

struct aorta_adamw {
    int64_t count;
    float beta1, beta2, eps, weight_decay;
    const struct aorta_step_state *state; /* lr, grad_factor, bias corrections; nothing is written when !finite */
    enum aorta_dtype copy_dtype;          /* type of `copy` */
};
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

/* Several pieces at once: for packing parameters into communication buffers and back, in one launch. */
struct aorta_piece {
    const void *from;
    void *to;
    int64_t count; /* elements */
};
/* Casts every piece; `pieces` is in device memory and stays valid until the work has run. */
AORTA_MUST_USE aorta_status aorta_cast_pieces(struct aorta_stream *stream, const struct aorta_piece *pieces,
                                              int64_t piece_count, enum aorta_dtype to_dtype,
                                              enum aorta_dtype from_dtype, float scale);

#endif
