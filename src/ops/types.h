/* Shapes and arguments of the operations: plain structs, equal on the host and inside kernels (the text of this header
 * is part of every GPU kernel's source). ops.h defines the operations. */
#ifndef AORTA_OPS_TYPES_H
#define AORTA_OPS_TYPES_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

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
    float grad_factor;      /* AdamW's factor for gradients: clip / loss scale, 0 when skipped */
    float loss;             /* mean loss of this rank over the micro-batches of the step */
    float bias_correction1; /* 1 − β1^t and 1 − β2^t for the current update */
    float bias_correction2;
    float reserved;
};

struct aorta_schedule {
    float lr;             /* the peak */
    int64_t warmup_steps; /* lr·(s+1)/warmup while s < warmup */
    int64_t total_steps;  /* then linearly to 0 at total; ≤ 0: constant lr */
};

struct aorta_step_update_args {
    struct aorta_step_state *state;
    const float *square_sum; /* Σ g² over all shards of the scaled gradients, one float in device memory */
    float max_norm;          /* clip threshold; ≤ 0: no clipping */
    float beta1, beta2;
    bool dynamic_scale;      /* fp16: halve on overflow, double after growth_interval finite steps */
    int32_t growth_interval; /* 2000 as in torch.amp.GradScaler */
};

/* Counter-based: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11). A mask depends on
 * nothing but these values and the element's index, so it is the same on every device and can be made again in the
 * backward pass instead of being stored. */
struct aorta_rng {
    uint64_t seed;
    uint32_t site; /* which dropout of which layer, e.g. layer × 8 + place */
    uint32_t rank;
    uint32_t micro;                       /* micro-batch within the step */
    const struct aorta_step_state *state; /* the step number is read on the device; NULL: step 0 */
};

struct aorta_linear {
    enum aorta_dtype dtype;
    int64_t rows, in, out; /* x [rows, in], weight [out, in] (PyTorch's layout), y [rows, out] */
};

/* `batch` products c [m, n] = op(a)·op(b), or += when `accumulate`, all row by row, fp32; op(a) is [m, k], op(b) is
 * [k, n]. `lda`, `ldb`, `ldc` are the distances, in elements, between two rows as stored, a_batch, b_batch and c_batch
 * the distances between two matrices. */
struct aorta_products {
    int64_t batch, m, n, k;
    bool transpose_a, transpose_b; /* a is stored as [k, m], b as [n, k] */
    int64_t lda, ldb, ldc, a_batch, b_batch, c_batch;
    bool accumulate;
};

/* Rows of fp32; with `causal` they form squares [width, width], and only the first r + 1 elements of row r of a square
 * count.
 */
struct aorta_softmax {
    int64_t rows, width;
    float scale; /* before the exponential */
    bool causal;
};

/* A few new positions of each sequence and a cache of earlier ones. E = heads × head_dim, head_dim ≤ 128; everything is
 * fp32. */
struct aorta_cache {
    int64_t layers, batch, window, heads, head_dim;
    int64_t fresh; /* rows for new positions in qkv [layers, fresh, batch, 3E], q|k|v */
};

/* Rows sent to experts: each token goes to its `top` best, each expert takes `capacity` rows and no more. */
struct aorta_route {
    int64_t tokens, experts, top, capacity, width; /* top ≤ 8; width of a row */
};

/* Draft and main model after `drafted` proposed tokens, for `batch` sequences. */
struct aorta_acceptance {
    int64_t batch, drafted, vocab; /* drafted ≤ 32 */
    uint64_t seed;
};

/* A square of an image's pixels, channels last: [images, height, width, channels]. */
struct aorta_image {
    int64_t images, height, width, channels;
};

/* An order of the numbers below `count`: aorta_shuffle_of makes it, ops/shared.h looks it up. */
struct aorta_shuffle {
    uint32_t keys[4];
    int32_t half_bits;
    int64_t count;
};

/* Samples of the synthetic data set (train/data.h): slot s holds sample order[first + s · stride]. Values are those of
 * the sequences of base/random.h under (seed, domain), one for each sample: normals [positions, dense_columns], ids
 * below `vocab` [positions, sparse_columns], targets and importances in [0, 1) [positions] each. The tensors have a row
 * for each position of each slot. */
struct aorta_batch_draw {
    uint64_t seed;
    uint32_t domain, vocab;
    struct aorta_shuffle order;
    int64_t first, stride, samples, positions, dense_columns, sparse_columns;
    int64_t shares;         /* blocks of a GPU that share a sample; set by the operation */
    const float *quantiles; /* of struct aorta_normal_table, on the device */
    float *dense;
    int64_t *categorical;
    float *target, *importance;
};

struct aorta_attention {
    enum aorta_dtype dtype;
    int64_t batch, positions, heads, head_dim; /* width E = heads × head_dim */
    float dropout;                             /* on the attention weights; 0: none */
    struct aorta_rng rng;
};

struct aorta_norm {
    enum aorta_dtype dtype;
    int64_t rows, width;
    float eps;     /* 1e-5 */
    float dropout; /* applied to `x` before it is added to the residual; 0: none */
    struct aorta_rng rng;
};

struct aorta_gelu {
    enum aorta_dtype dtype;
    int64_t count;
    float dropout; /* on the output; 0: none */
    struct aorta_rng rng;
    int64_t width; /* columns of x, if sums over its rows are wanted */
};

struct aorta_embedding {
    enum aorta_dtype dtype;
    int64_t rows, features, vocab, dim; /* ids [rows, features] int64 in [0, vocab), table [vocab, dim] */
};

/* Shampoo: a matrix [rows, columns] in blocks of so many rows and columns, or a vector of `rows` elements (columns 1).
 * A block of a matrix has two factors, one of a vector one. */
enum { AORTA_SHAMPOO_BLOCK = 32, AORTA_SHAMPOO_FACTOR = AORTA_SHAMPOO_BLOCK * AORTA_SHAMPOO_BLOCK };

/* ---- arguments of the operations; copied by aorta_launch ---- */

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
    enum aorta_dtype dtype; /* of scores and dscores */
    int64_t count;
    float weight;          /* of this micro-batch in the step's loss: 1 / gradient_accumulation */
    float gradient_weight; /* the same in the gradient: weight / number of ranks whose gradients are summed */
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
    uint64_t seed;
    uint32_t site;
    const int64_t *step;
    int64_t *tokens; /* NULL: the sums alone */
    float *logsums;
};

struct aorta_accept_args {
    struct aorta_acceptance shape;
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
    int64_t count;
    float beta1, beta2, eps, weight_decay;
    const struct aorta_step_state *state; /* lr, grad_factor, bias corrections; nothing is written when !finite */
    enum aorta_dtype copy_dtype;          /* type of `copy` */
    float *parameter, *m, *v;
    const float *gradient;
    void *copy;
};

struct aorta_shampoo_args {
    int64_t rows, columns;
    float beta1, beta2, eps;
    int64_t frequency; /* updates from one computation of the roots to the next; the first update computes them */
    const struct aorta_step_state *state; /* grad_factor, bias corrections, updates; nothing is written when !finite */
    const float *gradient;
    double *factors;
    float *m, *v, *roots, *direction;
};

struct aorta_descent_args {
    int64_t count;
    float weight_decay;
    const struct aorta_step_state *state; /* lr; the parameter stays when !finite */
    enum aorta_dtype copy_dtype;
    float *parameter;
    const float *direction;
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

/* ---- jagged features: cells [features, batch] of lists of ids, the lists one after the other ---- */

/* One rank's part of a feature: ids in [first_row, first_row + rows), counted from first_row. */
struct aorta_jagged_part {
    int64_t first_row, rows;
    int64_t feature;
    int64_t whole; /* 1: these are all rows of the table */
};

struct aorta_jagged_offsets_args {
    int64_t count;
    const int32_t *lengths;
    int64_t *offsets; /* [count + 1] */
};

struct aorta_jagged_split_args {
    int64_t batch, parts;
    const struct aorta_jagged_part *part;
    const int64_t *offsets, *ids; /* of the features */
    const float *weights;
    int32_t *lengths; /* [parts, batch] */
    const int64_t *part_offsets;
    int64_t *part_ids;
    float *part_weights;
};

/* A feature of a table that is looked up here, and the place of its pooled columns in a row. */
struct aorta_pool_slot {
    void *table;     /* [rows], row_bytes apart: fp32, or 8 bits a column (aorta_row_encode) */
    float *state;    /* [rows]: sum of mean squares of row-wise Adagrad; NULL: plain gradient descent */
    float *gradient; /* [rows, columns]: receives the sum, and the table is unchanged; NULL: the table is updated */
    int64_t rows, columns, row_bytes;
    int64_t coded; /* 1: 8 bits a column; on a GPU only with a cache */
    int64_t base;  /* number of the first row among those of all tables */
    int64_t column;
};

/* Rows of tables that are in host memory, cached on the device. Set s has AORTA_ROW_WAYS places for the rows
 * [s · per_set, (s + 1) · per_set) of all tables. A row that is cached is newer than in its table. */
enum { AORTA_ROW_WAYS = 32 };
struct aorta_row_cache {
    int64_t sets, per_set; /* sets 0: nothing is cached */
    int64_t row_bytes;     /* of a place: bytes of the longest row */
    uint32_t *rows;        /* [sets, ways]: 1 + the row's number; 0: free */
    uint32_t *slots;       /* [sets, ways]: of its table */
    uint32_t *used;        /* [sets, ways]: the last batch that has the row; 0: none */
    unsigned char *values; /* [sets, ways, row_bytes] */
    uint64_t *counts;      /* [AORTA_ROW_COUNTS]: are added to */
};
/* Counts of a batch's rows: already cached, brought in, found no place; and of replaced rows. */
enum { AORTA_ROWS_CACHED, AORTA_ROWS_BROUGHT, AORTA_ROWS_WITHOUT_PLACE, AORTA_ROWS_WRITTEN_BACK, AORTA_ROW_COUNTS };

/* Lists [sources, slots, batch]; pooled rows [sources, batch, width]. */
struct aorta_pool {
    int64_t sources, slots, batch, width;
    int64_t widest; /* columns of any slot */
};

struct aorta_pool_args {
    struct aorta_pool shape;
    const struct aorta_pool_slot *slot;
    const int64_t *offsets, *ids;
    const float *weights; /* NULL: all 1 */
    float *pooled;        /* backward: its gradient, which is read */
    struct aorta_pool_order *order;
    float lr, eps;
    struct aorta_row_cache cache;
};

/* Ids of a batch sorted by table row; ids of one row stay in the batch's order. */
struct aorta_pool_order {
    int64_t capacity;    /* ids that there is memory for */
    int64_t passes;      /* bytes of the largest row number */
    uint32_t *rows[2];   /* rows[passes % 2] is sorted */
    uint32_t *places[2]; /* the id's place in the batch */
    uint32_t *cells;     /* by place: the list it is in */
};

struct aorta_rows_args {
    int64_t rows, columns;
    float *table, *state;
    const float *gradient;
    float lr, eps;
};

/* Columns of rows [batch, width] that are sums of columns of other rows, all in one buffer. */
struct aorta_columns_piece {
    int64_t before; /* columns of all rows of buffer before those of this piece: [batch, before] */
    int64_t stride; /* columns of its rows */
    int64_t column; /* place in its row */
};
struct aorta_columns_block {
    int64_t to, columns;   /* place in the row */
    int64_t first, pieces; /* of the list of pieces; they are added in order */
};
struct aorta_columns {
    int64_t batch, width, blocks;
};
struct aorta_columns_args {
    struct aorta_columns shape;
    const struct aorta_columns_block *block;
    const struct aorta_columns_piece *piece;
    float *row, *buffer;
};

struct aorta_gate_args {
    int64_t count;
    const float *z, *d, *dy;
    float *y, *dz, *dd;
};

#endif
