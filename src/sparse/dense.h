/* The dense part of the sparse model, fp32 and the same on every rank:
 *
 *   d = layers on the dense features (linear, ReLU), the last of width H
 *   z = projection of all pooled features to H, with bias
 *   i = z · (1 + d)             interaction
 *   s = layers on i (linear, ReLU), then one of width 1; loss: binary cross entropy with s as the logit
 *
 * Start values: uniform in ±1/√in, weights and biases, as torch.nn.Linear's. */
#ifndef AORTA_SPARSE_DENSE_H
#define AORTA_SPARSE_DENSE_H

#include "sparse/options.h"
#include "train/context.h"

struct aorta_sparse_layer {
    int64_t in, out;
    int64_t weight, bias; /* first element among the parameters */
};

/* The shape of the dense part: layers in the order bottom, projection, top, score. */
struct aorta_sparse_shape {
    struct aorta_sparse_layer *layers;
    int bottom, top, count; /* layers on the dense features; after the interaction; all */
    int64_t width;          /* H */
    int64_t parameters;
};

AORTA_MUST_USE aorta_status aorta_sparse_shape_make(const struct aorta_sparse_options *options, int64_t pooled_columns,
                                                    struct aorta_arena *arena, struct aorta_sparse_shape *shape);
/* Start values of all parameters; host memory. */
void aorta_sparse_shape_initialise(const struct aorta_sparse_shape *shape, uint64_t seed, float *values);

struct aorta_sparse_dense;

/* For batches of up to `samples`; it ends with the context. */
AORTA_MUST_USE aorta_status aorta_sparse_dense_create(struct aorta_train_context *context,
                                                      const struct aorta_sparse_options *options,
                                                      int64_t pooled_columns, int64_t samples,
                                                      struct aorta_sparse_dense **dense);

/* Runs on the compute stream. The loss is added to the context's state. Gradients are of the mean over all ranks. */
struct aorta_sparse_pass {
    int64_t samples;
    const float *features, *labels, *pooled;
    float *pooled_gradient;
};
/* Three parts: the layers on the dense features; all later layers with the loss and the gradient up to that of the
 * pooled rows; the gradients of the projection and of the layers on the dense features. */
AORTA_MUST_USE aorta_status aorta_sparse_dense_bottom(struct aorta_sparse_dense *dense,
                                                      const struct aorta_sparse_pass *pass);
AORTA_MUST_USE aorta_status aorta_sparse_dense_top(struct aorta_sparse_dense *dense,
                                                   const struct aorta_sparse_pass *pass);
AORTA_MUST_USE aorta_status aorta_sparse_dense_backward(struct aorta_sparse_dense *dense,
                                                        const struct aorta_sparse_pass *pass);
/* The buffer to sum over the ranks: gradients of all parameters, and one more element for the stop flag. */
float *aorta_sparse_dense_gradients(struct aorta_sparse_dense *dense, int64_t *count);
/* Writes the gradients' norm to the state, then updates: parameters −= lr · gradient. */
AORTA_MUST_USE aorta_status aorta_sparse_dense_update(struct aorta_sparse_dense *dense);

#endif
