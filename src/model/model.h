/* The ranking transformer: parameters, forward and backward, one unit at a time.
 *
 * A unit is sharded, gathered and reduced as a whole: encoder layer 0 … num_layers−1, then the root unit with all other
 * parameters. The caller provides a unit's weights just before they are used and takes its gradients as they become
 * ready; the model owns the activations between forward and backward of one micro-batch. Names, shapes and formulas are
 * PyTorch's: nn.TransformerEncoderLayer (post-norm, exact GELU) between two input projections and a scorer.
 *
 * B batch, T positions, N = B·T rows, E model_dim, H mlp_hidden_dim, D embedding_dim, F·d dense inputs, S sparse ids.
 */
#ifndef AORTA_MODEL_MODEL_H
#define AORTA_MODEL_MODEL_H

#include "base/dtype.h"
#include "base/place.h"
#include "measure/recorder.h"
#include "ops/ops.h"

struct aorta_model_shape {
    int64_t batch, positions;
    int64_t vocab_size, embedding_dim, sparse_features;
    int64_t num_dense_features, dense_dim;
    int64_t model_dim, num_heads, num_layers, mlp_hidden_dim;
    double dropout;
    enum aorta_dtype dtype; /* of weights and activations in use */
    bool output_copies;     /* backward passes read copies of the layers' outputs: see aorta_model_output */
};

/* How a parameter starts out: PyTorch's own distributions. */
enum aorta_init {
    AORTA_INIT_ZERO,
    AORTA_INIT_ONE,
    AORTA_INIT_NORMAL,  /* N(0, 1): nn.Embedding */
    AORTA_INIT_UNIFORM, /* U(−bound, bound): nn.Linear 1/√fan_in, in_proj √(6/(rows + columns)) */
};

struct aorta_parameter {
    const char *name; /* "encoder.layers.0.self_attn.in_proj_weight" */
    int unit;
    int slot;              /* index within the unit: the position of its pointer in aorta_unit_view */
    int dimensions;        /* 1 or 2 */
    int64_t rows, columns; /* columns 1 for vectors */
    enum aorta_init init;
    float bound;        /* of the uniform distribution */
    bool before_layers; /* of the root unit: used before the layers, and its gradient made after theirs */
    bool forward_only;  /* backward passes do not read it */
};

enum { AORTA_UNIT_MAX_PARAMETERS = 12 };

/* Where a unit's parameters and gradients are, in the order of their slots. Device memory of the caller. */
struct aorta_unit_view {
    const void *weights[AORTA_UNIT_MAX_PARAMETERS]; /* shape.dtype, contiguous */
    float *gradients[AORTA_UNIT_MAX_PARAMETERS];    /* fp32; NULL in forward */
};

struct aorta_model;

/* Where forward writes a layer's output, and where backward reads it: the same memory, or with shape.output_copies a
 * copy, which the caller makes in between. */
struct aorta_layer_output {
    const void *made;
    void *copy; /* NULL without output_copies */
    size_t bytes;
};

/* Makes names, shapes and parameters. take_memory allocates the activations on the device, once, before the first pass;
 * AORTA_MEMORY names the tensor that did not fit. `reuse` (by unit, or NULL): memory of the caller that is used
 * before any is allocated. Its contents are lost. A layer's memory is used for its activations, from its forward pass
 * until its backward pass has run. The root unit's memory is used for tensors that are read only from the input's
 * forward pass until the backward pass of layer 0 has run. Not with output_copies. */
AORTA_MUST_USE aorta_status aorta_model_create(struct aorta_device *device, const struct aorta_model_shape *shape,
                                               struct aorta_model **model);
AORTA_MUST_USE aorta_status aorta_model_take_memory(struct aorta_model *model, const struct aorta_place *reuse);
void aorta_model_destroy(struct aorta_model *model);

int aorta_model_unit_count(const struct aorta_model *model); /* num_layers + 1; the last is the root */
int aorta_model_parameter_count(const struct aorta_model *model);
/* In the order of PyTorch's model.parameters(). */
const struct aorta_parameter *aorta_model_parameter(const struct aorta_model *model, int index);
int aorta_model_parameter_index(const struct aorta_model *model, int unit, int slot);
int64_t aorta_model_element_count(const struct aorta_model *model); /* over all parameters */
/* The work of a part of a step, products and attention only: a range's arithmetic, and the least bytes read and
 * written. */
struct aorta_range_info aorta_model_layer_work(const struct aorta_model *model, bool backward);
struct aorta_range_info aorta_model_input_work(const struct aorta_model *model, bool backward);
struct aorta_range_info aorta_model_head_work(const struct aorta_model *model); /* forward and backward */
struct aorta_layer_output aorta_model_output(const struct aorta_model *model, int layer);
const char *aorta_model_unit_name(const struct aorta_model *model, int unit); /* "encoder.layers.0", "root" */

/* Writes elements [first, first + count) of a parameter's start value to host memory. They depend only on the seed, not
 * on the rank. */
void aorta_model_initialise(const struct aorta_model *model, int parameter, uint64_t seed, int64_t first, int64_t count,
                            float *values);

/* One micro-batch on the device. */
struct aorta_batch {
    const float *dense;         /* [N, F·d] */
    const int64_t *categorical; /* [N, S], ids in [0, vocab_size) */
    const float *target;        /* [N] in [0, 1] */
    const float *importance;    /* [N] */
};

/* The settings of one pass. */
struct aorta_pass {
    struct aorta_stream *stream;
    struct aorta_recorder *recorder; /* NULL: nothing is recorded */
    enum aorta_role role;            /* of the stream, for the recorder */
    bool inner;                      /* operations are inner ranges of the caller's range around the pass */
    struct aorta_step_state *state;
    uint64_t seed; /* of dropout */
    uint32_t rank, micro;
    float loss_weight;     /* of this micro-batch in the step's loss: 1 / gradient_accumulation */
    float gradient_weight; /* weight of its gradients: 1 / (gradient_accumulation × ranks that are summed over) */
    bool accumulate;       /* add to the gradients instead of overwriting them */
    int gemm_chunks;       /* launches that each matrix product is cut into; 0 counts as 1 */
    /* Called when the launches that complete a parameter's gradient have been queued; NULL: not wanted. */
    aorta_status (*gradient_ready)(void *user, int parameter);
    /* Called just before work that reads the copy of a layer's output is queued; may be NULL. */
    aorta_status (*output_needed)(void *user, int layer);
    void *user;
};

AORTA_MUST_USE aorta_status aorta_model_input_forward(struct aorta_model *model, const struct aorta_pass *pass,
                                                      const struct aorta_batch *batch,
                                                      const struct aorta_unit_view *root);
AORTA_MUST_USE aorta_status aorta_model_layer_forward(struct aorta_model *model, const struct aorta_pass *pass,
                                                      int layer, const struct aorta_unit_view *view);
/* Final norm, scorer and loss, forward and backward; the loss goes to pass->state. */
AORTA_MUST_USE aorta_status aorta_model_head(struct aorta_model *model, const struct aorta_pass *pass,
                                             const struct aorta_batch *batch, const struct aorta_unit_view *root);
AORTA_MUST_USE aorta_status aorta_model_layer_backward(struct aorta_model *model, const struct aorta_pass *pass,
                                                       int layer, const struct aorta_unit_view *view);
AORTA_MUST_USE aorta_status aorta_model_input_backward(struct aorta_model *model, const struct aorta_pass *pass,
                                                       const struct aorta_batch *batch,
                                                       const struct aorta_unit_view *root);

#endif
