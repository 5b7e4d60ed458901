/* What the public functions hand to the functions that run on the stream: plain structs, copied by aorta_launch. The
 * same for CPU and GPU. */
#ifndef AORTA_OPS_KERNELS_H
#define AORTA_OPS_KERNELS_H

#include "ops/types.h"

struct aorta_step_begin_args {
    struct aorta_step_state *state;
    struct aorta_schedule schedule;
};

struct aorta_step_end_args {
    struct aorta_step_state *state;
};

struct aorta_flag_args {
    int32_t *flag;
    double limit_s; /* waiting only */
};

struct aorta_spin_args {
    int64_t duration_ns;
    int64_t *stamps;   /* pinned: start and end in device time; NULL: not wanted */
    const void *clock; /* a GPU's (aorta_gpu_clock_page), filled in by the launch */
};

struct aorta_bce_args {
    struct aorta_bce shape;
    const void *scores;
    const float *target, *importance;
    struct aorta_step_state *state;
    void *dscores;
};

struct aorta_linear_args {
    struct aorta_linear shape;
    const void *x, *weight, *bias, *dy;
    void *y, *dx;
    float *dweight, *dbias;
    bool accumulate, relu, tf32;
};

struct aorta_relu_args {
    int64_t count;
    const float *y, *dy;
    float *dx;
};

struct aorta_products_args {
    struct aorta_products shape;
    const float *a, *b;
    float *c;
};

struct aorta_sum_pieces_args {
    int64_t pieces, count;
    float scale;
    const float *from;
    float *to;
};

struct aorta_softmax_args {
    struct aorta_softmax shape;
    const float *x, *dp; /* x: p in the backward pass */
    float *out;
};

struct aorta_scores_args {
    struct aorta_products shape;
    float scale;
    const float *a, *b, *p; /* p: in the backward pass */
    float *out;
};

struct aorta_cross_entropy_args {
    int64_t rows, classes;
    float weight;
    const float *x;
    const int64_t *labels;
    float *losses, *dx;
};

struct aorta_cache_attend_args {
    struct aorta_cache shape;
    int64_t first, queries;
    const float *qkv, *keys, *values;
    const int64_t *positions;
    float *out;
};

struct aorta_cache_append_args {
    struct aorta_cache shape;
    const float *qkv;
    float *keys, *values;
    const int64_t *positions;
    const int32_t *counts;
};

struct aorta_cache_advance_args {
    int64_t batch, count;
    int64_t *positions;
    const int32_t *counts;
};

struct aorta_sample_args {
    int64_t rows, vocab;
    const float *x;
    uint32_t key[2], site;
    const int64_t *step;
    int64_t *tokens; /* NULL: the sums alone */
    float *logsums;
};

struct aorta_accept_args {
    struct aorta_acceptance shape;
    uint32_t key[2];
    const int64_t *tokens;
    const float *q, *q_logsums, *p, *p_logsums;
    int64_t *step, *next, *totals;
    int32_t *accepted, *counts;
};

struct aorta_top_args {
    int64_t rows, width, top;
    const float *x;
    int64_t *places;
    float *values;
};

struct aorta_normalise_args {
    int64_t rows, width;
    const float *x;
    float *y;
};

struct aorta_route_args {
    struct aorta_route shape;
    const float *logits, *x;
    int32_t *choices, *slots, *owners, *loads;
    float *weights, *y;
};

struct aorta_image_args {
    struct aorta_image shape;
    const float *x;
    const uint8_t *flips;
    float mean[4], deviation[4];
    float *y;
};

struct aorta_attention_args {
    struct aorta_attention shape;
    const void *qkv, *saved_in, *out_in, *dout; /* the latter three: backward only */
    void *out, *saved, *dqkv, *scratch;
    float *dbias; /* backward only; NULL: not wanted */
    bool accumulate;
};

struct aorta_norm_args {
    struct aorta_norm shape;
    const void *x, *residual, *gamma, *beta;
    void *sum, *y;
    float *mean, *rstd;
};

struct aorta_norm_backward_args {
    struct aorta_norm shape;
    const void *dy, *dy_extra, *sum, *gamma;
    const float *mean, *rstd;
    void *dsum, *dx;
    float *dgamma, *dbeta, *dbias; /* dbias may be NULL */
    bool accumulate;
};

struct aorta_gelu_args {
    struct aorta_gelu shape;
    const void *x, *dy; /* dy: backward only */
    void *out;          /* y or dx */
    float *dbias;       /* backward only; NULL: not wanted */
    bool accumulate;
};

struct aorta_embedding_args {
    struct aorta_embedding shape;
    const int64_t *ids;
    const void *table, *dy;
    void *y;
    float *dtable;
    void *order; /* NULL: none was made */
    bool zeros;  /* in dtable */
};

struct aorta_square_sum_args {
    const float *gradient;
    int64_t count;
    float *square_sum;
};

struct aorta_adamw_args {
    struct aorta_adamw shape;
    float *parameter, *m, *v;
    const float *gradient;
    void *copy;
};

struct aorta_cast_args {
    const void *from;
    void *to;
    int64_t count;
    enum aorta_dtype to_dtype, from_dtype;
    float scale;
};

struct aorta_fill_args {
    void *to;
    enum aorta_dtype dtype;
    int64_t count;
    float value;
};

#endif
