/* Arguments of GPU kernels in addition to ops/types.h, and the sizes that host and kernel must agree on. Plain C: the
 * host includes it, and it is part of the kernels' text. */
#ifndef AORTA_OPS_KERNELS_ARGUMENTS_H
#define AORTA_OPS_KERNELS_ARGUMENTS_H

#include "ops/types.h"

enum {
    AORTA_POINTWISE_THREADS = 256, /* a thread processes eight elements */
    AORTA_TILE = AORTA_POINTWISE_THREADS * 8,
    AORTA_GELU_CHUNKS = 2, /* of eight elements, taken by one thread */
    AORTA_GELU_TILE = AORTA_TILE * AORTA_GELU_CHUNKS,
    AORTA_SUM_THREADS = 256,
    AORTA_NORM_NARROW = 128,   /* most threads of a row, with eight elements each; short rows share a block */
    AORTA_NORM_RESIDENT = 5,   /* blocks of that size per multiprocessor in backward; one less in fp32 */
    AORTA_NORM_THREADS = 512,  /* most threads for wider rows, … */
    AORTA_NORM_CHUNKS = 2,     /* … with this many chunks of eight elements each */
    AORTA_COLUMN_LANES = 32,   /* threads side by side in the first stage of sums over rows, eight columns each … */
    AORTA_COLUMN_ROWS = 8,     /* … and below each other */
    AORTA_COLUMN_RESIDENT = 4, /* such blocks on a multiprocessor */
    AORTA_FINISH_LANES = 8,    /* lanes in the second stage, one column each; few, so that there are many blocks */
    AORTA_FINISH_ROWS = 64,
    AORTA_SORT_THREADS = 256, /* also the number of digits */
    AORTA_SORT_ITEMS = 8,     /* of one thread */
    AORTA_SORT_DIGITS = 256,
    AORTA_SCAN_DIGITS = AORTA_SORT_THREADS / 32, /* of one block */
    AORTA_GATHER_LANES = 32, /* threads that share a row of an embedding; each takes eight columns */
    AORTA_GATHER_ROWS = 8,
    AORTA_GEMM_TILE = 32,
    AORTA_GEMM_THREADS = 256,
    AORTA_ROW_THREADS = 128,  /* threads per row */
    AORTA_SHORT_ROW = 1024,   /* longest row that 32 threads hold in registers */
    AORTA_SCORES_ROWS = 32,   /* of scores in a block, … */
    AORTA_SCORES_WIDTH = 512, /* … all of this many columns */
    AORTA_SCORES_DEPTH = 16,  /* of operands in shared memory, twice */
    AORTA_SCORES_GAP = 8,     /* elements after every fourth depth */
    AORTA_SCORES_BYTES = 2 * AORTA_SCORES_DEPTH * (4 * (AORTA_SCORES_ROWS + AORTA_SCORES_WIDTH) + 2 * AORTA_SCORES_GAP),
    AORTA_SCORES_THREADS = 128,
    AORTA_SCORES_RESIDENT = 2, /* such blocks on a multiprocessor */
    AORTA_CACHE_THREADS = 128,
    AORTA_CACHE_DIM = 128, /* widest head */
    AORTA_SAMPLE_THREADS = 512,
    AORTA_TOP_WIDTH = 4096, /* longest row for aorta_top */
    AORTA_ROUTE_THREADS = 256,
    AORTA_IMAGE_THREADS = 256,
    AORTA_BATCH_THREADS = 256,
    AORTA_BATCH_LARGE_THREADS = 1024,
    AORTA_BATCH_LEVELS = 32768,                /* half of the levels of a normal table */
    AORTA_SHAMPOO_THREADS = AORTA_SUM_THREADS, /* that work on a block */
    AORTA_SHAMPOO_SWEEPS = 16,                 /* over all pairs of rows, at most */
};

/* ---- sums ---- */

/* *to += scale · Σ partial, in the order of the partial sums. */
struct aorta_gpu_finish_args {
    const double *partial;
    int64_t count;
    double scale;
    float *to;
};

struct aorta_gpu_square_sum_args {
    struct aorta_square_sum_args op;
    double *partial; /* of each block */
};

struct aorta_gpu_bce_args {
    struct aorta_bce_args op;
    double *partial; /* of each block */
};

/* ---- sums over rows ---- */

/* partial [splits, columns] = sums of x [rows, columns] over a share of the rows each. */
struct aorta_gpu_column_args {
    const void *x;
    int64_t rows, columns, rows_per_split;
    float *partial;
};

/* Column sums of partial [rows, columns] into sums[0 … split), sums[1][0 … split), …, += when `accumulate`. Columns
 * [zero_from, zero_to) are written as 0. */
struct aorta_gpu_column_sums {
    const float *partial;
    int64_t rows, columns, split;
    float *sums[3];
    int64_t zero_from, zero_to;
    bool accumulate;
};

struct aorta_gpu_norm_backward_args {
    struct aorta_norm_backward_args op;
    float *partial; /* [blocks, sums·width]: dgamma, dbeta and, of three, dbias */
};

/* A block takes 8·AORTA_COLUMN_LANES columns of a share of the rows. */
struct aorta_gpu_gelu_columns_args {
    struct aorta_gelu_args op;
    int64_t rows, rows_per_split;
    float *partial; /* [splits, width]: sums of dx */
};

/* ---- embedding ---- */

/* In pinned memory: the first id out of range that any thread read. The host may read it at any time: `found` is
 * written last, by the thread that was the first to set `claimed`. */
struct aorta_gpu_fault {
    int32_t claimed, found;
    int64_t id, row, feature, vocab;
};

struct aorta_gpu_embedding_args {
    struct aorta_embedding_args op;
    struct aorta_gpu_fault *fault;
};

/* One pass of a stable radix sort of (key, value) by eight bits of the key. */
struct aorta_gpu_sort_args {
    const uint32_t *keys, *values; /* keys NULL: the ids are the keys, their places the values */
    uint32_t *keys_out, *values_out;
    uint32_t *histogram; /* [digits, blocks], after the scan: start of each block's share of a digit */
    uint32_t *totals;    /* [digits] */
    int64_t count, blocks;
    int32_t shift;
    const int64_t *ids;
    int64_t vocab, features;
    struct aorta_gpu_fault *fault;
};

/* Adds rows of dy, sorted by id, into dtable: ranges of equal length side by side; sums of runs that cross the end of a
 * range go through `head` (begun before the range, ended in it) and `tail` (continues after it). */
struct aorta_gpu_gather_args {
    struct aorta_embedding_args op;
    const uint32_t *keys, *values;
    int64_t count, range;
    float *head, *tail; /* [ranges, dim] */
};

/* ---- lists of ids ---- */

enum {
    AORTA_JAGGED_THREADS = 256,
    AORTA_JAGGED_ITEMS = 16, /* lengths of a thread */
    AORTA_POOL_WIDEST = 512, /* columns of a row that is updated */
};

struct aorta_gpu_offsets_args {
    struct aorta_jagged_offsets_args op;
    int64_t *tiles; /* [tile_count]: sums, then where each begins */
    int64_t tile_count;
};

struct aorta_gpu_pool_args {
    struct aorta_pool_args op;
    struct aorta_pool_order order;
    int64_t count;
    struct aorta_gpu_fault *fault;
    const uint32_t *before; /* [before_count]: rows of the batch before, sorted */
    int64_t before_count;
    uint32_t batch;
};

/* ---- matrix products ---- */

/* c [m, n] = a·b + bias, or += without bias; element (i, j) of a is at i·a_row + j·a_column. One or several products,
 * whose matrices are a_batch, b_batch and c_batch elements apart. */
struct aorta_gpu_gemm_args {
    const void *a, *b, *bias;
    void *c;
    int64_t m, n, k, a_row, a_column, b_row, b_column, c_row;
    bool accumulate, c_is_fp32, relu;
    int64_t batch, a_batch, b_batch, c_batch;
};

/* ---- attention against a cache ---- */

struct aorta_gpu_cache_args {
    struct aorta_cache_attend_args op;
    int64_t splits, per_split; /* keys are distributed over `splits` blocks, per_split to each */
    float *partial;            /* [batch · queries, heads, splits, AORTA_CACHE_DIM + 2]: values, maximum, sum */
};

/* ---- attention ---- */

/* Widths of a head that kernels are made for; a head in between is padded with zeros. A block works on a tile of
 * queries (or keys): 32 threads on 16 of them. The tiles of four matrices and one of weights fit into 48 KiB. */
#define AORTA_ATTENTION_TILE(dim, element_bytes)                                                                       \
    ((element_bytes) == 2 ? ((dim) <= 64 ? 64 : 32) : (dim) <= 64 ? 32 : 16)
enum { AORTA_ATTENTION_THREADS = 128 }; /* at most */

/* Kernels that hold a whole head in shared memory: 32 threads for each unit of 16 positions, up to this many units.
 * Rows of a unit are padded by 16 bytes. */
enum { AORTA_WHOLE_UNITS = 12, AORTA_WHOLE_THREADS = AORTA_WHOLE_UNITS * 32, AORTA_WHOLE_PAD = 8 };
/* Forward: queries, keys, values. Backward: one or two buffers, each with queries, keys, gradients of the output, two
 * numbers per row and the bits of the weights, later replaced by column sums; and the slopes of the weights. */
#define AORTA_WHOLE_ROWS_BYTES(units, dim) ((units)*16 * ((dim) + AORTA_WHOLE_PAD) * 2)
#define AORTA_WHOLE_FORWARD_BYTES(units, dim) (3 * AORTA_WHOLE_ROWS_BYTES(units, dim))
#define AORTA_WHOLE_NUMBERS_BYTES(units, dim) ((units) * ((units)*32 + 128 > (dim)*8 ? (units)*32 + 128 : (dim)*8))
#define AORTA_WHOLE_BUFFER_BYTES(units, dim)                                                                           \
    (3 * AORTA_WHOLE_ROWS_BYTES(units, dim) + AORTA_WHOLE_NUMBERS_BYTES(units, dim))
#define AORTA_WHOLE_SLOPES_BYTES(units) ((units)*16 * ((units)*16 + AORTA_WHOLE_PAD) * 2)
#define AORTA_WHOLE_BACKWARD_BYTES(units, dim, buffers)                                                                \
    ((buffers)*AORTA_WHOLE_BUFFER_BYTES(units, dim) + AORTA_WHOLE_SLOPES_BYTES(units))

struct aorta_gpu_attention_args {
    struct aorta_attention_args op;
    float *logsum;  /* [batch, heads, positions]: log2 of the sum that softmax divides by, its maximum included */
    uint16_t *mask; /* [batch, heads, units, 16·units]: a bit for each weight that is not dropped, 16 keys of a query */
    int64_t units;  /* of 16 positions */
    float *along;   /* [batch, heads, positions]: Σ dout∘out; backward only */
    float *partial;  /* [batch, 3·width]: each sequence's sums of dq and dv (not of dk); NULL: not wanted. Backward of
                        whole heads only, as is … */
    int64_t buffers; /* 2: blocks process several heads in turn; 1: one block per head */
};

#endif
