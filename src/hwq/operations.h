/* Operations of src/ops, collectives and copies for a workload's graph, each on stream number `s` and with its element
 * in double precision. ops/ops.h and comm/comm.h define what each computes. Outputs are new results, or go where
 * hwq_into says. Tensors are dense and fp32 unless a line says otherwise. */
#ifndef AORTA_HWQ_OPERATIONS_H
#define AORTA_HWQ_OPERATIONS_H

#include "hwq/graph.h"
#include "ops/ops.h"

#define HWQ_FP32 1e-5 /* allowed error of a sum of products, relative to the sum of magnitudes */
#define HWQ_TF32 2e-3
double hwq_tolerance(enum aorta_dtype dtype); /* for operands and results of this type */

/* ---- linear layers (operations/linear.c) ---- */

/* weight [out, in], bias [1, out]; gradients where it is trained. */
struct hwq_layer {
    int64_t in, out;
    struct hwq_tensor weight, bias, dweight, dbias;
};
/* Weights of standard deviation 1/√in, so that outputs are as large as inputs, from inputs number `id` and id + 1. */
struct hwq_layer hwq_layer(struct hwq_graph *g, uint64_t id, int64_t in, int64_t out, bool trained);
/* A layer in the next pieces of two memories (hwq_cut), at equal offsets in both. Without memory it has no tensors. */
struct hwq_layer hwq_layer_in(struct hwq_tensor weights, struct hwq_tensor gradients, int64_t *used, int64_t in,
                              int64_t out, bool bias, int64_t unit);
/* y [rows, out] = x·weightᵀ + bias for x [rows, in]; relu: negative values become 0. */
struct hwq_tensor hwq_linear(struct hwq_graph *g, int s, const struct hwq_layer *layer, struct hwq_tensor x);
struct hwq_tensor hwq_linear_relu(struct hwq_graph *g, int s, const struct hwq_layer *layer, struct hwq_tensor x,
                                  bool tf32);
/* One product [m, n] of two inputs [m, k] and [n, k], for hwq_again. `name` of the operation and its result; NULL:
 * those of a layer. */
struct hwq_operation *hwq_product(struct hwq_graph *g, int s, enum aorta_dtype dtype, int64_t m, int64_t n, int64_t k,
                                  const char *name);
struct hwq_tensor hwq_linear_input(struct hwq_graph *g, int s, const struct hwq_layer *layer, struct hwq_tensor dy);
/* Replaces the layer's gradients, or adds to them. */
void hwq_linear_weight(struct hwq_graph *g, int s, const struct hwq_layer *layer, struct hwq_tensor x,
                       struct hwq_tensor dy, bool accumulate);

/* ---- batches of products (operations/linear.c) ----
 * A tensor has `batch` matrices one below the other, or, as a comb (hwq_comb), side by side. */

/* c = a·b. Without hwq_into the results are one below the other. */
struct hwq_tensor hwq_products(struct hwq_graph *g, int s, int64_t batch, struct hwq_tensor a, struct hwq_tensor b);
/* p = softmax(scale · q·kᵀ), and its gradient from that of the context: scale · p∘(dp − Σ dp∘p), dp = dcontext·vᵀ. */
struct hwq_tensor hwq_scores(struct hwq_graph *g, int s, int64_t batch, float scale, struct hwq_tensor q,
                             struct hwq_tensor k);
struct hwq_tensor hwq_scores_backward(struct hwq_graph *g, int s, int64_t batch, float scale,
                                      struct hwq_tensor dcontext, struct hwq_tensor v, struct hwq_tensor p);
/* In place; row r of each square counts r + 1 elements. */
void hwq_softmax(struct hwq_graph *g, int s, struct hwq_tensor x, float scale);

/* ---- element by element (operations/rows.c) ---- */

struct hwq_tensor hwq_gelu(struct hwq_graph *g, int s, struct hwq_tensor x);
struct hwq_tensor hwq_gelu_backward(struct hwq_graph *g, int s, struct hwq_tensor x, struct hwq_tensor dy);
/* dy becomes 0 where y is. */
void hwq_relu_backward(struct hwq_graph *g, int s, struct hwq_tensor y, struct hwq_tensor dy);
/* to += scale · from. */
void hwq_add(struct hwq_graph *g, int s, struct hwq_tensor to, struct hwq_tensor from, float scale);
/* scale · the sum of `pieces` pieces, one below the other. */
struct hwq_tensor hwq_sum_pieces(struct hwq_graph *g, int s, struct hwq_tensor from, int64_t pieces, float scale);
struct hwq_tensor hwq_copy(struct hwq_graph *g, int s, struct hwq_tensor from);
/* Rows of the table; ids [1, rows] are int64. */
struct hwq_tensor hwq_embed(struct hwq_graph *g, int s, struct hwq_tensor ids, struct hwq_tensor table);

/* ---- row by row (operations/rows.c) ---- */

struct hwq_norm {
    struct hwq_tensor gamma, beta, dgamma, dbeta; /* [1, width] */
};
struct hwq_norm hwq_norm(struct hwq_graph *g, uint64_t id, int64_t width); /* without gradients */
/* Inputs of the backward pass; hwq_norm_forward makes missing memory. */
struct hwq_norm_saved {
    struct hwq_tensor sum, mean, rstd; /* [rows, width], [rows, 1] */
};
/* LayerNorm of x + residual. */
struct hwq_tensor hwq_norm_forward(struct hwq_graph *g, int s, const struct hwq_norm *norm, struct hwq_tensor x,
                                   struct hwq_tensor residual, struct hwq_norm_saved *saved);
/* The gradient of x + residual; `extra` (may be none) is added to dy. */
struct hwq_tensor hwq_norm_backward(struct hwq_graph *g, int s, const struct hwq_norm *norm, struct hwq_tensor dy,
                                    struct hwq_tensor extra, const struct hwq_norm_saved *saved);
/* losses [rows, 1]; the gradient of `weight` times their sum. labels [1, rows] are int64. */
struct hwq_tensor hwq_cross_entropy(struct hwq_graph *g, int s, struct hwq_tensor x, struct hwq_tensor labels,
                                    float weight);
void hwq_normalise(struct hwq_graph *g, int s, struct hwq_tensor x); /* in place */
/* places (int64) and values [rows, count] of the largest, largest first. */
struct hwq_tensor hwq_top(struct hwq_graph *g, int s, struct hwq_tensor x, int64_t count);
/* tokens [1, rows] (int64) drawn from softmax(x); step (int64, may be none) as aorta_sample has it. *logsums: none
 * becomes memory for them. */
struct hwq_tensor hwq_sample(struct hwq_graph *g, int s, struct hwq_tensor x, uint32_t site, struct hwq_tensor step,
                             struct hwq_tensor tokens, struct hwq_tensor *logsums);
struct hwq_tensor hwq_logsum(struct hwq_graph *g, int s, struct hwq_tensor x); /* [rows, 1] */

/* ---- attention with a cache (operations/linear.c) ---- */

/* keys and values [layers · batch · window, E], positions [1, batch] (int64). */
struct hwq_cache {
    struct aorta_cache shape;
    struct hwq_tensor keys, values, positions;
};
/* Keys and values come from inputs number `id` and id + 1. */
struct hwq_cache hwq_cache(struct hwq_graph *g, uint64_t id, struct aorta_cache shape, struct hwq_tensor positions);
/* Attention of one layer. Its qkv [fresh · batch, 3E] may end with the last row that is read. */
struct hwq_tensor hwq_attend(struct hwq_graph *g, int s, const struct hwq_cache *cache, int64_t layer, int64_t first,
                             int64_t queries, struct hwq_tensor qkv);
/* Appends the rows of all layers, qkv one below the other. counts (int32) may be none: all fresh rows. */
void hwq_cache_append(struct hwq_graph *g, int s, const struct hwq_cache *cache, struct hwq_tensor qkv,
                      struct hwq_tensor counts);
/* positions += counts, or `count` where there are none. */
void hwq_cache_advance(struct hwq_graph *g, int s, struct hwq_tensor positions, struct hwq_tensor counts,
                       int64_t count);

/* Checks a workload's options: AORTA_USAGE where heads do not divide the width into at most 128. */
AORTA_MUST_USE aorta_status hwq_check_heads(const struct aorta_hwq *hwq, int64_t heads, int64_t width);

/* ---- collectives (operations/collectives.c) ---- */

/* The sum over the ranks. `alike`: all ranks have equal data, so the sum is known here. name NULL: "all_reduce". */
struct hwq_tensor hwq_all_reduce(struct hwq_graph *g, int s, struct aorta_comm *comm, const char *name,
                                 struct hwq_tensor from, bool alike);
/* [size, count] from each rank's [1, count]. `whole` (may be none): an input with the expected result. */
struct hwq_tensor hwq_all_gather(struct hwq_graph *g, int s, struct aorta_comm *comm, struct hwq_tensor from,
                                 struct hwq_tensor whole);
/* Blocks of rows for each rank. */
struct hwq_tensor hwq_all_to_all(struct hwq_graph *g, int s, struct aorta_comm *comm, struct hwq_tensor from);

/* ---- a transformer block (operations/linear.c) ---- */

/* y1 = norm(x + out(attention)), y = norm(y1 + down(gelu(up(y1)))). */
struct hwq_block {
    struct hwq_layer qkv, out, up, down;
    struct hwq_norm norm1, norm2;
};
struct hwq_block hwq_block(struct hwq_graph *g, uint64_t id, int64_t width); /* the MLP is four times as wide */
/* The block after attention: from its context to y. */
struct hwq_tensor hwq_block_rest(struct hwq_graph *g, int s, const struct hwq_block *block, struct hwq_tensor context,
                                 struct hwq_tensor x);

#endif
