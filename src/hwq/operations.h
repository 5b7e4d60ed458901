/* Operations of src/ops, collectives and copies as workloads queue them: with a stamp around each, on stream number
 * `s`. All in fp32; ops/ops.h and comm/comm.h define what each computes. */
#ifndef AORTA_HWQ_OPERATIONS_H
#define AORTA_HWQ_OPERATIONS_H

#include "hwq/workload.h"
#include "ops/ops.h"

/* A linear layer: weight [out, in], bias [out], and gradients where it is trained. */
struct aorta_hwq_layer {
    int64_t in, out;
    float *weight, *bias, *dweight, *dbias;
};

/* Allocates and fills (on stream 0): weights of standard deviation 1/√in, so that outputs are as large as inputs. Uses
 * the inputs number `id` and id + 1. */
AORTA_MUST_USE aorta_status aorta_hwq_layer_make(struct aorta_hwq *hwq, uint64_t id, int64_t in, int64_t out,
                                                 bool trained, struct aorta_hwq_layer *layer);
/* Zeroed host memory that lives as long as the workload. */
AORTA_MUST_USE aorta_status aorta_hwq_state(struct aorta_hwq *hwq, size_t bytes, void **memory);
/* Memory for `count` floats, filled with inputs. */
AORTA_MUST_USE aorta_status aorta_hwq_input(struct aorta_hwq *hwq, uint64_t id, int64_t count, float scale,
                                            const char *what, float **memory);

/* y = x·weightᵀ + bias for x [rows, in]; with relu negative values become 0. */
AORTA_MUST_USE aorta_status aorta_hwq_linear(struct aorta_hwq *hwq, int s, const struct aorta_hwq_layer *layer,
                                             int64_t rows, const float *x, float *y);
AORTA_MUST_USE aorta_status aorta_hwq_linear_relu(struct aorta_hwq *hwq, int s, const struct aorta_hwq_layer *layer,
                                                  int64_t rows, const float *x, float *y, bool tf32);
AORTA_MUST_USE aorta_status aorta_hwq_linear_input(struct aorta_hwq *hwq, int s, const struct aorta_hwq_layer *layer,
                                                   int64_t rows, const float *dy, float *dx, bool accumulate);
/* Adds to or replaces the layer's gradients; dbias NULL in the layer: the next kernel computes it. */
AORTA_MUST_USE aorta_status aorta_hwq_linear_weight(struct aorta_hwq *hwq, int s, const struct aorta_hwq_layer *layer,
                                                    int64_t rows, const float *x, const float *dy, bool accumulate);
AORTA_MUST_USE aorta_status aorta_hwq_products(struct aorta_hwq *hwq, int s, const struct aorta_products *products,
                                               const float *a, const float *b, float *c);

/* See aorta_scores_forward and aorta_scores_backward. */
AORTA_MUST_USE aorta_status aorta_hwq_scores(struct aorta_hwq *hwq, int s, const struct aorta_products *products,
                                             float scale, const float *a, const float *b, float *p);
AORTA_MUST_USE aorta_status aorta_hwq_scores_backward(struct aorta_hwq *hwq, int s,
                                                      const struct aorta_products *products, float scale,
                                                      const float *a, const float *b, const float *p, float *dx);

AORTA_MUST_USE aorta_status aorta_hwq_relu_backward(struct aorta_hwq *hwq, int s, int64_t count, const float *y,
                                                    const float *dy, float *dx);
AORTA_MUST_USE aorta_status aorta_hwq_gelu(struct aorta_hwq *hwq, int s, int64_t count, const float *x, float *y);
/* dbias [width] (may be NULL) = the column sums of dx. */
AORTA_MUST_USE aorta_status aorta_hwq_gelu_backward(struct aorta_hwq *hwq, int s, int64_t rows, int64_t width,
                                                    const float *x, const float *dy, float *dx, float *dbias);
AORTA_MUST_USE aorta_status aorta_hwq_add(struct aorta_hwq *hwq, int s, float *to, const float *from, int64_t count,
                                          float scale);
AORTA_MUST_USE aorta_status aorta_hwq_sum_pieces(struct aorta_hwq *hwq, int s, float *to, const float *from,
                                                 int64_t pieces, int64_t count, float scale);
AORTA_MUST_USE aorta_status aorta_hwq_softmax(struct aorta_hwq *hwq, int s, struct aorta_softmax shape, const float *x,
                                              float *p);
AORTA_MUST_USE aorta_status aorta_hwq_cross_entropy(struct aorta_hwq *hwq, int s, int64_t rows, int64_t classes,
                                                    const float *x, const int64_t *labels, float weight, float *losses,
                                                    float *dx);

/* LayerNorm of residual + x (residual NULL: of x), with what its backward pass needs. */
struct aorta_hwq_norm {
    int64_t width;
    float *gamma, *beta, *dgamma, *dbeta;
};
struct aorta_hwq_norm_saved {
    float *sum, *mean, *rstd; /* [rows, width], [rows], [rows] */
};
AORTA_MUST_USE aorta_status aorta_hwq_norm_make(struct aorta_hwq *hwq, uint64_t id, int64_t width, bool trained,
                                                struct aorta_hwq_norm *norm);
AORTA_MUST_USE aorta_status aorta_hwq_norm_forward(struct aorta_hwq *hwq, int s, const struct aorta_hwq_norm *norm,
                                                   int64_t rows, const float *x, const float *residual,
                                                   const struct aorta_hwq_norm_saved *saved, float *y);
/* `extra` (may be NULL) is added to dy; dbias (may be NULL): see aorta_norm_backward. */
AORTA_MUST_USE aorta_status aorta_hwq_norm_backward(struct aorta_hwq *hwq, int s, const struct aorta_hwq_norm *norm,
                                                    int64_t rows, const float *dy, const float *extra,
                                                    const struct aorta_hwq_norm_saved *saved, float *dsum,
                                                    float *dbias);

AORTA_MUST_USE aorta_status aorta_hwq_all_reduce(struct aorta_hwq *hwq, int s, struct aorta_comm *comm, float *buffer,
                                                 int64_t count);
/* receive [size × count]. */
AORTA_MUST_USE aorta_status aorta_hwq_all_gather(struct aorta_hwq *hwq, int s, struct aorta_comm *comm,
                                                 const float *send, float *receive, int64_t count);
/* Blocks of `count` for each rank. */
AORTA_MUST_USE aorta_status aorta_hwq_all_to_all(struct aorta_hwq *hwq, int s, struct aorta_comm *comm,
                                                 const float *send, float *receive, int64_t count);
AORTA_MUST_USE aorta_status aorta_hwq_copy(struct aorta_hwq *hwq, int s, void *to, const void *from, size_t bytes);
AORTA_MUST_USE aorta_status aorta_hwq_embed(struct aorta_hwq *hwq, int s, int64_t rows, int64_t vocab, int64_t width,
                                            const int64_t *ids, const float *table, float *y);

/* Of the layer whose qkv, keys and values these are. */
AORTA_MUST_USE aorta_status aorta_hwq_attend(struct aorta_hwq *hwq, int s, const struct aorta_cache *cache,
                                             int64_t first, int64_t queries, const float *qkv, const float *keys,
                                             const float *values, const int64_t *positions, float *out);
/* Of all layers. */
AORTA_MUST_USE aorta_status aorta_hwq_append(struct aorta_hwq *hwq, int s, const struct aorta_cache *cache,
                                             const float *qkv, float *keys, float *values, const int64_t *positions,
                                             const int32_t *counts);
AORTA_MUST_USE aorta_status aorta_hwq_advance(struct aorta_hwq *hwq, int s, int64_t batch, int64_t *positions,
                                              const int32_t *counts, int64_t count);

#endif
