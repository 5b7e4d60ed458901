/* Shared by the GPU side of the operations. Each operation has a CPU function and a function NAME_gpu with equal
 * arguments (ops/types.h), which computes a grid and queues kernels, or calls the vendor's matrix library. */
#ifndef AORTA_OPS_GPU_GPU_H
#define AORTA_OPS_GPU_GPU_H

#include "base/dtype.h"
#include "device/gpu.h"
#include "ops/kernels/arguments.h"
#include "ops/ops.h"

/* ---- kernels as a table, made of kernels.def ---- */

enum aorta_ops_source {
#define SOURCE(source) AORTA_OPS_SOURCE_##source,
#include "ops/kernels.def"
    AORTA_OPS_SOURCE_COUNT
};

/* The entries of a kernel for several element types follow each other in the order of enum aorta_dtype: fp32, fp16,
 * bf16. */
enum aorta_ops_entry {
#define PLAIN(source, name) AORTA_ENTRY_##name,
#define TYPED(source, name) AORTA_ENTRY_##name, AORTA_ENTRY_##name##_fp16, AORTA_ENTRY_##name##_bf16,
#define APART TYPED
#include "ops/kernels.def"
    AORTA_ENTRY_COUNT
};

extern const struct aorta_gpu_source *const aorta_ops_sources[AORTA_OPS_SOURCE_COUNT];
extern const struct aorta_gpu_entry aorta_ops_entries[AORTA_ENTRY_COUNT];

/* ---- launches ---- */

/* Queues a plain entry, or the entry of a typed one that belongs to `dtype`. */
AORTA_MUST_USE aorta_status aorta_ops_gpu_run(struct aorta_stream *stream, enum aorta_ops_entry entry,
                                              struct aorta_gpu_grid grid, const void *args, size_t bytes);
AORTA_MUST_USE aorta_status aorta_ops_gpu_run_typed(struct aorta_stream *stream, enum aorta_ops_entry entry,
                                                    enum aorta_dtype dtype, struct aorta_gpu_grid grid,
                                                    const void *args, size_t bytes);

/* An operation whose work on a GPU is one launch of the plain entry of its name: NAME_kernel, with the function
 * `on_cpu`, for arguments `a` of a struct TYPE, on which the grid may depend. */
#define AORTA_PLAIN_KERNEL(name, on_cpu, type, grid)                                                                   \
    static aorta_status name##_gpu(struct aorta_stream *stream, const void *args) {                                    \
        const struct type *a = args;                                                                                   \
        return aorta_ops_gpu_run(stream, AORTA_ENTRY_##name, grid, a, sizeof *a);                                      \
    }                                                                                                                  \
    static const struct aorta_kernel name##_kernel = {#name, on_cpu, name##_gpu}

/* `rng` as kernels expect it: the key made from seed, site, rank and micro replaces the seed. */
struct aorta_rng aorta_ops_gpu_key(struct aorta_rng rng);

static inline uint32_t aorta_ops_blocks(int64_t count, int64_t per_block) {
    return (uint32_t)((count + per_block - 1) / per_block);
}

static inline struct aorta_gpu_grid aorta_ops_grid(int64_t blocks, uint32_t threads) {
    return (struct aorta_gpu_grid){.blocks = {(uint32_t)blocks}, .threads = {threads}};
}

/* For kernels whose threads process eight of `count` elements each. */
static inline struct aorta_gpu_grid aorta_ops_pointwise_grid(int64_t count) {
    return aorta_ops_grid(aorta_ops_blocks(count, AORTA_TILE), AORTA_POINTWISE_THREADS);
}

/* How the sums over the rows of a matrix are distributed (kernels/reduce.h): a grid of strips of columns × shares of
 * rows, and the memory for the sums of each block. */
struct aorta_ops_columns {
    int64_t rows_per_split, splits;
    size_t partial_bytes;
    struct aorta_gpu_grid grid;
};
struct aorta_ops_columns aorta_ops_gpu_share_columns(struct aorta_device *device, int64_t rows, int64_t columns);
/* Column sums of dy [rows, columns] into sums[0] (+= when `accumulate`); 0 instead for columns [zero_from, zero_to).
 * The other members of `wanted` are not read. */
AORTA_MUST_USE aorta_status aorta_ops_gpu_column_sums(struct aorta_stream *stream, enum aorta_dtype dtype,
                                                      const void *dy, const struct aorta_gpu_column_sums *wanted);
/* The second stage alone (gpu.c). Memory for its partial sums, the stream's workspace, is requested right before the
 * first stage is queued. */
AORTA_MUST_USE aorta_status aorta_ops_gpu_partial(struct aorta_stream *stream, size_t bytes, float **partial);
AORTA_MUST_USE aorta_status aorta_ops_gpu_column_finish(struct aorta_stream *stream,
                                                        const struct aorta_gpu_column_sums *sums);

/* Sorts pairs by so many digits of their keys, stably (embedding.c). Pass i writes to keys[i % 2] and values[i % 2]. */
AORTA_MUST_USE aorta_status aorta_ops_gpu_sort(struct aorta_stream *stream, struct aorta_gpu_sort_args args, int passes,
                                               uint32_t *const keys[2], uint32_t *const values[2]);

int64_t aorta_ops_gpu_most_head_dim(void);
int64_t aorta_ops_gpu_most_norm_row(void);
/* The source of attention's kernels for heads of this width. Returns NULL if there are none. */
const struct aorta_gpu_source *aorta_ops_gpu_attention_source(enum aorta_dtype dtype, int64_t head_dim);
/* Whether one kernel can compute scores and softmax: rows must fit a block and be aligned for 16-byte loads. */
bool aorta_ops_gpu_scores_fit(struct aorta_stream *stream, const struct aorta_scores_args *args);

/* ---- scratch memory ----
 * Scratch memory of the operations, one piece for each stream: operations on a stream run one after the other, so all
 * of them can use the same. It is allocated before the first capture and is never moved, as graphs hold its address.
 */

#define AORTA_WORKSPACE_BYTES ((size_t)32 << 20) /* workspace of the library's products */

struct aorta_ops_workspace {
    void *memory;
    size_t bytes;
    struct aorta_gpu_fault *fault; /* pinned: where kernels report a failure */
};

/* The stream's workspace, of at least `bytes`. Inside a capture it must exist
 * already, large enough (AORTA_DEVICE otherwise). The device owns it. */
AORTA_MUST_USE aorta_status aorta_ops_workspace(struct aorta_stream *stream, size_t bytes,
                                                struct aorta_ops_workspace *workspace);
/* Takes a fault that kernels reported, if any; they may report again afterwards. */
bool aorta_ops_take_fault(struct aorta_gpu_fault *fault, struct aorta_gpu_fault *met);

/* Checks of arguments, made before anything is queued. Each failure is AORTA_INTERNAL and names operation and value. */

AORTA_MUST_USE aorta_status aorta_check_dtype(const char *operation, enum aorta_dtype dtype); /* fp32, bf16 or fp16 */
AORTA_MUST_USE aorta_status aorta_check_dropout(const char *operation, float dropout);        /* in [0, 1] */
AORTA_MUST_USE aorta_status aorta_check_size(const char *operation, const char *name, int64_t value, int64_t least);

/* Several sizes at once, with the least that each may be: aorta_check_sizes(operation, AORTA_SIZES({"rows", rows, 1})).
 */
struct aorta_named_size {
    const char *name;
    int64_t value, least;
};
#define AORTA_SIZES(...) ((const struct aorta_named_size[]){__VA_ARGS__, {0}})
AORTA_MUST_USE aorta_status aorta_check_sizes(const char *operation, const struct aorta_named_size *sizes);

/* Pointers that must not be NULL, for messages with their names: AORTA_POINTERS(a->x, a->y). Arguments have no commas.
 */
struct aorta_pointers {
    const char *names; /* "a->x, a->y" */
    const void *const *items;
    size_t count;
};
#define AORTA_POINTER_LIST(...) ((const void *const[]){__VA_ARGS__})
#define AORTA_POINTERS(...)                                                                                            \
    ((struct aorta_pointers){#__VA_ARGS__, AORTA_POINTER_LIST(__VA_ARGS__),                                            \
                             sizeof AORTA_POINTER_LIST(__VA_ARGS__) / sizeof(void *)})
AORTA_MUST_USE aorta_status aorta_check_pointers(const char *operation, struct aorta_pointers pointers);
/* Checks the pointers, then aorta_launch. `count` 0: there is nothing to do, and pointers may be NULL. */
AORTA_MUST_USE aorta_status aorta_ops_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel,
                                             int64_t count, const void *args, size_t bytes,
                                             struct aorta_pointers pointers);

#endif
