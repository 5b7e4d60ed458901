/* Shared by the files of the model: its memory, and operations wrapped in ranges. */
#ifndef AORTA_MODEL_MODEL_INTERNAL_H
#define AORTA_MODEL_MODEL_INTERNAL_H

#include "base/random.h"
#include "device/owned.h"
#include "model/model.h"

/* Positions of a layer's parameters in aorta_unit_view. */
enum {
    IN_PROJ_WEIGHT,
    IN_PROJ_BIAS,
    OUT_PROJ_WEIGHT,
    OUT_PROJ_BIAS,
    LINEAR1_WEIGHT,
    LINEAR1_BIAS,
    LINEAR2_WEIGHT,
    LINEAR2_BIAS,
    NORM1_WEIGHT,
    NORM1_BIAS,
    NORM2_WEIGHT,
    NORM2_BIAS,
    LAYER_PARAMETERS
};
/* Positions of the root unit's parameters. */
enum {
    EMBEDDING_WEIGHT,
    DENSE_WEIGHT,
    DENSE_BIAS,
    PROJECTION_WEIGHT,
    PROJECTION_BIAS,
    FINAL_NORM_WEIGHT,
    FINAL_NORM_BIAS,
    SCORER0_WEIGHT,
    SCORER0_BIAS,
    SCORER3_WEIGHT,
    SCORER3_BIAS,
    ROOT_PARAMETERS
};

/* Places of dropout within a layer: the low bits of aorta_rng.site. */
enum { SITE_ATTENTION, SITE_AFTER_ATTENTION, SITE_INSIDE_MLP, SITE_AFTER_MLP, SITES_PER_LAYER = 8 };

struct norm_memory {
    void *sum, *y;      /* [N, E]: before and after; the last norm's sum is the last layer's output */
    float *mean, *rstd; /* [N] */
};

/* Activations of one layer, from forward to backward. */
struct layer_memory {
    void *qkv;       /* [N, 3E] */
    void *attention; /* as aorta_attention_saved_bytes says */
    void *context;   /* [N, E] */
    void *h, *g;     /* [N, H]: before and after GELU */
    struct norm_memory norm1, norm2;
    void *copy; /* [N, E]: of norm2.y, with output_copies */
};

/* Operations of a layer that have a tag. */
enum layer_tag {
    TAG_IN_PROJ,
    TAG_ATTENTION,
    TAG_OUT_PROJ,
    TAG_NORM1,
    TAG_LINEAR1,
    TAG_GELU,
    TAG_LINEAR2,
    TAG_NORM2,
    LAYER_TAGS
};

struct aorta_model {
    struct aorta_device *device;
    struct aorta_model_shape shape;
    struct aorta_arena arena;
    int64_t rows; /* N */
    int parameter_count;
    struct aorta_parameter *parameters;
    struct aorta_normal_table *normal; /* for start values */
    struct layer_memory *layers;
    const char *(*tags)[LAYER_TAGS]; /* of the layers, made once */
    const char **unit_names;
    struct aorta_owned owned;
    struct aorta_place reuse; /* while memory is taken: unused part of the caller's memory for this unit */
    /* root unit */
    void *dense;     /* [N, F·d] in dtype; NULL for fp32, which reads the batch */
    void *embedded;  /* [N, D] */
    void *order;     /* of the categorical ids, for the embedding's backward pass; NULL: the device needs none */
    void *x0;        /* [N, E] */
    void *projected; /* [N, E], in the memory of dx: only until it is added to x0 */
    struct norm_memory norm;
    void *s0;               /* [N, H] */
    void *s1;               /* [N, H], in the memory of dhidden: only until the gradient of scorer.3 is made */
    void *scores, *dscores; /* [N] */
    /* scratch of the backward pass */
    void *dy, *dsum; /* [N, E]; gradient with respect to a layer's output and input, swapped layer by layer */
    void *dx;        /* [N, E] */
    void *dhidden;   /* [N, H] */
    void *dqkv;      /* [N, 3E], in the memory of dhidden, which is no longer used then */
    void *dcontext;  /* [N, E] */
    void *dembedded; /* [N, D] */
    void *attention_scratch;
};

/* Shapes of operations. `pass` provides seed, rank and micro-batch of the random draws. */
struct aorta_embedding aorta_model_embedding(const struct aorta_model *model);
struct aorta_attention aorta_model_attention(const struct aorta_model *model, const struct aorta_pass *pass, int layer);

#endif
