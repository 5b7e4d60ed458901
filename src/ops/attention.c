/* Attention: softmax(q·kᵀ/√d)·v of each head. On a GPU in tiles, or a whole head at a time (kernels/attention.cu). */
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

#include <math.h>

static int64_t rows_of(const struct aorta_attention *shape) {
    return shape->batch * shape->heads * shape->positions;
}

static int64_t units_of(const struct aorta_attention *shape) {
    return (shape->positions + 15) / 16;
}

static size_t logsum_bytes(const struct aorta_attention *shape) {
    return ((size_t)rows_of(shape) * sizeof(float) + 255) / 256 * 256;
}

/* One number for each row and, with dropout, one bit for each weight. */
static size_t attention_saved_bytes_gpu(const struct aorta_attention *shape) {
    const size_t units = (size_t)units_of(shape);
    const size_t mask = (size_t)(shape->batch * shape->heads) * units * 16 * units * sizeof(uint16_t);
    return logsum_bytes(shape) + (shape->dropout > 0.0f ? mask : 0);
}

/* Kernels for heads up to this width. */
struct variant {
    int64_t dim;
    enum aorta_ops_entry forward, queries, keys;
    bool has_whole;                                     /* kernels that hold a whole head in shared memory */
    enum aorta_ops_entry whole_forward, whole_backward; /* for fp16; the one for bf16 follows */
};
#define WHOLE(dim)                                                                                                     \
    true, AORTA_ENTRY_attention_whole_forward_##dim##_fp16, AORTA_ENTRY_attention_whole_backward_##dim##_fp16
static const struct variant variants[] = {
    {32, AORTA_ENTRY_attention_forward_32, AORTA_ENTRY_attention_queries_32, AORTA_ENTRY_attention_keys_32, WHOLE(32)},
    {64, AORTA_ENTRY_attention_forward_64, AORTA_ENTRY_attention_queries_64, AORTA_ENTRY_attention_keys_64, WHOLE(64)},
    {128, AORTA_ENTRY_attention_forward_128, AORTA_ENTRY_attention_queries_128, AORTA_ENTRY_attention_keys_128, false,
     AORTA_ENTRY_COUNT, AORTA_ENTRY_COUNT}};

enum { VARIANTS = sizeof variants / sizeof *variants };

static const struct variant *find_variant(int64_t head_dim) {
    for (int i = 0; i < VARIANTS; i++)
        if (head_dim <= variants[i].dim) return &variants[i];
    return NULL;
}

int64_t aorta_ops_gpu_most_head_dim(void) {
    return variants[VARIANTS - 1].dim;
}

static aorta_status choose(const struct aorta_attention *shape, const struct variant **variant) {
    *variant = find_variant(shape->head_dim);
    if (*variant) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "attention: heads of %lld; on a GPU they have at most %lld elements",
                       (long long)shape->head_dim, (long long)aorta_ops_gpu_most_head_dim());
}

const struct aorta_gpu_source *aorta_ops_gpu_attention_source(enum aorta_dtype dtype, int64_t head_dim) {
    const struct variant *variant = find_variant(head_dim);
    return variant ? aorta_ops_entries[(int)variant->forward + (int)dtype].source : NULL;
}

static struct aorta_gpu_grid tiled_grid(const struct variant *variant, const struct aorta_attention *shape) {
    const uint32_t tile = AORTA_ATTENTION_TILE(variant->dim, aorta_dtype_size(shape->dtype));
    const int64_t tiles = (shape->positions + tile - 1) / tile;
    return (struct aorta_gpu_grid){.blocks = {(uint32_t)(shape->batch * shape->heads * tiles)}, .threads = {2 * tile}};
}

static struct aorta_gpu_grid whole_grid(const struct aorta_attention *shape, int64_t blocks, size_t shared_bytes) {
    return (struct aorta_gpu_grid){.blocks = {(uint32_t)blocks},
                                   .threads = {(uint32_t)units_of(shape) * 32},
                                   .shared_bytes = (uint32_t)shared_bytes};
}

static size_t whole_forward_bytes(const struct variant *variant, const struct aorta_attention *shape) {
    return (size_t)AORTA_WHOLE_FORWARD_BYTES(units_of(shape), variant->dim);
}

static size_t whole_backward_bytes(const struct variant *variant, const struct aorta_attention *shape,
                                   int64_t buffers) {
    return (size_t)AORTA_WHOLE_BACKWARD_BYTES(units_of(shape), variant->dim, buffers);
}

static bool all_aligned(const void *const *pointers) {
    for (; *pointers; pointers++)
        if ((uintptr_t)*pointers % 16 != 0) return false;
    return true;
}

/* Whether the kernels for whole heads can be used; they need NVIDIA's tensor cores. */
static bool can_hold(struct aorta_stream *stream, const struct variant *variant, const struct aorta_attention *shape,
                     size_t shared_bytes, const void *const *pointers) {
    const struct aorta_device *device = aorta_stream_device(stream);
    return variant->has_whole && shape->dtype != AORTA_F32 && units_of(shape) <= AORTA_WHOLE_UNITS &&
           shape->positions % 8 == 0 && shape->head_dim % 8 == 0 &&
           aorta_device_get_info(device)->kind != AORTA_DEVICE_HIP &&
           shared_bytes <= aorta_gpu_get_properties(device)->shared_bytes_per_block && all_aligned(pointers);
}

static aorta_status run_whole(struct aorta_stream *stream, enum aorta_ops_entry entry, enum aorta_dtype dtype,
                              struct aorta_gpu_grid grid, const struct aorta_gpu_attention_args *args) {
    const int place = (int)dtype - (int)AORTA_F16;
    return aorta_ops_gpu_run(stream, (enum aorta_ops_entry)((int)entry + place), grid, args, sizeof *args);
}

static struct aorta_gpu_attention_args arguments(const struct aorta_attention_args *a, const void *saved) {
    char *logsum = (char *)saved;
    struct aorta_attention_args op = *a;
    op.shape.rng = aorta_ops_gpu_key(a->shape.rng);
    return (struct aorta_gpu_attention_args){.op = op,
                                             .logsum = (float *)(void *)logsum,
                                             .mask = (uint16_t *)(void *)(logsum + logsum_bytes(&a->shape)),
                                             .units = units_of(&a->shape),
                                             .along = a->scratch};
}

static aorta_status attention_forward_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_attention_args *a = args;
    const struct variant *variant;
    AORTA_TRY(choose(&a->shape, &variant));
    const struct aorta_gpu_attention_args gpu = arguments(a, a->saved);
    const size_t bytes = whole_forward_bytes(variant, &a->shape);
    if (can_hold(stream, variant, &a->shape, bytes, (const void *const[]){a->qkv, a->out, a->saved, NULL}))
        return run_whole(stream, variant->whole_forward, a->shape.dtype,
                         whole_grid(&a->shape, a->shape.batch * a->shape.heads, bytes), &gpu);
    return aorta_ops_gpu_run_typed(stream, variant->forward, a->shape.dtype, tiled_grid(variant, &a->shape), &gpu,
                                   sizeof gpu);
}

static aorta_status in_tiles(struct aorta_stream *stream, const struct variant *variant,
                             const struct aorta_attention_args *a, const struct aorta_gpu_attention_args *gpu) {
    const struct aorta_gpu_grid grid = tiled_grid(variant, &a->shape);
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, variant->queries, a->shape.dtype, grid, gpu, sizeof *gpu));
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, variant->keys, a->shape.dtype, grid, gpu, sizeof *gpu));
    if (!a->dbias) return NULL;
    const int64_t width = a->shape.heads * a->shape.head_dim;
    const struct aorta_gpu_column_sums bias = {.rows = a->shape.batch * a->shape.positions,
                                               .columns = 3 * width,
                                               .sums = {a->dbias},
                                               .zero_from = width,
                                               .zero_to = 2 * width,
                                               .accumulate = a->accumulate};
    return aorta_ops_gpu_column_sums(stream, a->shape.dtype, a->dqkv, &bias);
}

/* If there are more heads than blocks that run at once, only so many blocks are launched, and each loads its next head
 * ahead. If there are few heads, or shared memory does not fit two, each head has its own block. */
static struct aorta_gpu_grid backward_grid(struct aorta_stream *stream, const struct variant *variant,
                                           const struct aorta_attention *shape, int64_t *buffers) {
    const struct aorta_gpu_properties *gpu = aorta_gpu_get_properties(aorta_stream_device(stream));
    enum { RESERVED = 1024 }; /* bytes per block that the GPU reserves */
    const int64_t heads = shape->batch * shape->heads;
    const int64_t available = (int64_t)gpu->shared_bytes_per_block + RESERVED;
    const int64_t two = (int64_t)whole_backward_bytes(variant, shape, 2);
    int64_t resident = available / (two + RESERVED);
    if (resident > AORTA_WHOLE_UNITS / units_of(shape)) resident = AORTA_WHOLE_UNITS / units_of(shape); /* registers */
    *buffers = resident > 0 && heads > resident * gpu->multiprocessors ? 2 : 1;
    return whole_grid(shape, *buffers == 2 ? resident * gpu->multiprocessors : heads,
                      whole_backward_bytes(variant, shape, *buffers));
}

/* The kernel also sums dq and dv of each sequence. */
static aorta_status whole(struct aorta_stream *stream, const struct variant *variant,
                          const struct aorta_attention_args *a, struct aorta_gpu_attention_args gpu) {
    const int64_t width = a->shape.heads * a->shape.head_dim;
    if (a->dbias)
        AORTA_TRY(aorta_ops_gpu_partial(stream, (size_t)(a->shape.batch * 3 * width) * sizeof(float), &gpu.partial));
    const struct aorta_gpu_grid grid = backward_grid(stream, variant, &a->shape, &gpu.buffers);
    AORTA_TRY(run_whole(stream, variant->whole_backward, a->shape.dtype, grid, &gpu));
    if (!a->dbias) return NULL;
    const struct aorta_gpu_column_sums finish = {.partial = gpu.partial,
                                                 .rows = a->shape.batch,
                                                 .columns = 3 * width,
                                                 .split = 3 * width,
                                                 .sums = {a->dbias},
                                                 .zero_from = width,
                                                 .zero_to = 2 * width,
                                                 .accumulate = a->accumulate};
    return aorta_ops_gpu_column_finish(stream, &finish);
}

static aorta_status attention_backward_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_attention_args *a = args;
    const struct variant *variant;
    AORTA_TRY(choose(&a->shape, &variant));
    const struct aorta_gpu_attention_args gpu = arguments(a, a->saved_in);
    const size_t bytes = whole_backward_bytes(variant, &a->shape, 1);
    const void *const tensors[] = {a->qkv, a->out_in, a->dout, a->dqkv, a->saved_in, NULL};
    if (can_hold(stream, variant, &a->shape, bytes, tensors)) return whole(stream, variant, a, gpu);
    return in_tiles(stream, variant, a, &gpu);
}

static const struct aorta_kernel forward_kernel = {"attention_forward", aorta_cpu_attention_forward,
                                                   attention_forward_gpu};
static const struct aorta_kernel backward_kernel = {"attention_backward", aorta_cpu_attention_backward,
                                                    attention_backward_gpu};

static aorta_status check_attention(const char *operation, const struct aorta_attention *shape) {
    AORTA_TRY(aorta_check_dtype(operation, shape->dtype));
    AORTA_TRY(aorta_check_sizes(operation, AORTA_SIZES({"batch", shape->batch, 0}, {"positions", shape->positions, 1},
                                                       {"heads", shape->heads, 1}, {"head_dim", shape->head_dim, 1})));
    return aorta_check_dropout(operation, shape->dropout);
}

/* The CPU saves the probabilities of all heads, before dropout. */
size_t aorta_attention_saved_bytes(const struct aorta_device *device, struct aorta_attention shape) {
    if (aorta_device_is_gpu(device)) return attention_saved_bytes_gpu(&shape);
    return (size_t)(shape.batch * shape.heads * shape.positions * shape.positions) * aorta_dtype_size(shape.dtype);
}

/* The CPU needs three tiles of weights for one head, and fp32 copies of the seven pieces that backward reads and
 * writes.
 */
size_t aorta_attention_scratch_bytes(const struct aorta_device *device, struct aorta_attention shape) {
    if (aorta_device_is_gpu(device)) return (size_t)rows_of(&shape) * sizeof(float);
    size_t weights = (size_t)(shape.positions * shape.positions);
    size_t piece = shape.dtype == AORTA_F32 ? 0 : (size_t)(shape.positions * shape.head_dim);
    return (3 * weights + 7 * piece) * sizeof(float);
}

aorta_status aorta_attention_forward(struct aorta_stream *stream, const struct aorta_attention_args *a) {
    AORTA_TRY(check_attention(forward_kernel.name, &a->shape));
    return aorta_ops_launch(stream, &forward_kernel, a->shape.batch, a, sizeof *a,
                            AORTA_POINTERS(a->qkv, a->out, a->saved, a->scratch));
}

/* `out_in` is needed on devices that do not save the probabilities. */
aorta_status aorta_attention_backward(struct aorta_stream *stream, const struct aorta_attention_args *a) {
    const struct aorta_attention *shape = &a->shape;
    AORTA_TRY(check_attention(backward_kernel.name, shape));
    if (shape->batch == 0) {
        if (!a->dbias || a->accumulate) return NULL;
        return aorta_fill_bytes(stream, a->dbias, 0, (size_t)(3 * shape->heads * shape->head_dim) * sizeof *a->dbias);
    }
    return aorta_ops_launch(stream, &backward_kernel, shape->batch, a, sizeof *a,
                            AORTA_POINTERS(a->qkv, a->out_in, a->saved_in, a->dout, a->dqkv, a->scratch));
}

/* ---- softmax, scores and the cross-entropy loss ---- */

static int64_t counting(const struct aorta_softmax *shape, int64_t row) {
    return shape->causal ? row % shape->width + 1 : shape->width;
}

static aorta_status forward(const void *args) {
    const struct aorta_softmax_args *a = args;
    const int64_t width = a->shape.width;
    for (int64_t row = 0; row < a->shape.rows; row++) {
        const float *x = a->x + row * width;
        float *p = a->out + row * width;
        const int64_t end = counting(&a->shape, row);
        float greatest = x[0], sum = 0.0f;
        for (int64_t i = 1; i < end; i++) greatest = fmaxf(greatest, x[i]);
        for (int64_t i = 0; i < end; i++) sum += p[i] = expf(a->shape.scale * (x[i] - greatest));
        for (int64_t i = 0; i < end; i++) p[i] /= sum;
        for (int64_t i = end; i < width; i++) p[i] = 0.0f;
    }
    return NULL;
}

static aorta_status backward(const void *args) {
    const struct aorta_softmax_args *a = args;
    const int64_t width = a->shape.width;
    for (int64_t row = 0; row < a->shape.rows; row++) {
        const float *p = a->x + row * width, *dp = a->dp + row * width;
        float *dx = a->out + row * width, along = 0.0f;
        const int64_t end = counting(&a->shape, row);
        for (int64_t i = 0; i < end; i++) along += p[i] * dp[i];
        for (int64_t i = 0; i < end; i++) dx[i] = a->shape.scale * p[i] * (dp[i] - along);
        for (int64_t i = end; i < width; i++) dx[i] = 0.0f;
    }
    return NULL;
}

static aorta_status cross_entropy(const void *args) {
    const struct aorta_cross_entropy_args *a = args;
    for (int64_t row = 0; row < a->rows; row++) {
        const float *x = a->x + row * a->classes;
        float *dx = a->dx + row * a->classes;
        const int64_t label = a->labels[row];
        if (label < 0 || label >= a->classes)
            return AORTA_ERROR(AORTA_DEVICE, "cross_entropy: label %lld of row %lld is not in [0, %lld)",
                               (long long)label, (long long)row, (long long)a->classes);
        float greatest = x[0];
        double sum = 0.0;
        for (int64_t i = 1; i < a->classes; i++) greatest = fmaxf(greatest, x[i]);
        for (int64_t i = 0; i < a->classes; i++) sum += (double)expf(x[i] - greatest);
        a->losses[row] = (float)(log(sum) + (double)(greatest - x[label]));
        for (int64_t i = 0; i < a->classes; i++)
            dx[i] = a->weight * (expf(x[i] - greatest) / (float)sum - (i == label ? 1.0f : 0.0f));
    }
    return NULL;
}

/* If 32 threads hold a row in their registers, several rows share a block. */
static aorta_status softmax(struct aorta_stream *stream, const struct aorta_softmax_args *a, enum aorta_ops_entry any,
                            enum aorta_ops_entry for_short) {
    const uintptr_t places = (uintptr_t)a->x | (uintptr_t)a->dp | (uintptr_t)a->out;
    if (a->shape.width > AORTA_SHORT_ROW || a->shape.width % 4 || places % 16)
        return aorta_ops_gpu_run(stream, any, aorta_ops_grid(a->shape.rows, AORTA_ROW_THREADS), a, sizeof *a);
    const int64_t blocks = aorta_ops_blocks(a->shape.rows, AORTA_ROW_THREADS / 32);
    return aorta_ops_gpu_run(stream, for_short, aorta_ops_grid(blocks, AORTA_ROW_THREADS), a, sizeof *a);
}

static aorta_status softmax_forward_gpu(struct aorta_stream *stream, const void *args) {
    return softmax(stream, args, AORTA_ENTRY_softmax_forward, AORTA_ENTRY_softmax_forward_short);
}

static aorta_status softmax_backward_gpu(struct aorta_stream *stream, const void *args) {
    return softmax(stream, args, AORTA_ENTRY_softmax_backward, AORTA_ENTRY_softmax_backward_short);
}

static const struct aorta_kernel softmax_forward_kernel = {"softmax_forward", forward, softmax_forward_gpu};
static const struct aorta_kernel softmax_backward_kernel = {"softmax_backward", backward, softmax_backward_gpu};
AORTA_PLAIN_KERNEL(cross_entropy, cross_entropy, aorta_cross_entropy_args, aorta_ops_grid(a->rows, AORTA_ROW_THREADS));

static aorta_status check_softmax(const char *operation, const struct aorta_softmax *shape) {
    return aorta_check_sizes(operation, AORTA_SIZES({"rows", shape->rows, 0}, {"width", shape->width, 1}));
}

aorta_status aorta_softmax_forward(struct aorta_stream *stream, const struct aorta_softmax_args *a) {
    AORTA_TRY(check_softmax(softmax_forward_kernel.name, &a->shape));
    return aorta_ops_launch(stream, &softmax_forward_kernel, a->shape.rows, a, sizeof *a, AORTA_POINTERS(a->x, a->out));
}

aorta_status aorta_softmax_backward(struct aorta_stream *stream, const struct aorta_softmax_args *a) {
    AORTA_TRY(check_softmax(softmax_backward_kernel.name, &a->shape));
    return aorta_ops_launch(stream, &softmax_backward_kernel, a->shape.rows, a, sizeof *a,
                            AORTA_POINTERS(a->x, a->dp, a->out));
}

aorta_status aorta_cross_entropy(struct aorta_stream *stream, const struct aorta_cross_entropy_args *a) {
    AORTA_TRY(
        aorta_check_sizes(cross_entropy_kernel.name, AORTA_SIZES({"rows", a->rows, 0}, {"classes", a->classes, 1})));
    return aorta_ops_launch(stream, &cross_entropy_kernel, a->rows, a, sizeof *a,
                            AORTA_POINTERS(a->x, a->labels, a->losses, a->dx));
}

/* ---- of a product ---- */

enum { MOST_APART = INT32_MAX / AORTA_SCORES_WIDTH }; /* largest row stride: the kernels use 32-bit indices */

bool aorta_ops_gpu_scores_fit(struct aorta_stream *stream, const struct aorta_scores_args *a) {
    const struct aorta_products *s = &a->shape;
    const struct aorta_device *device = aorta_stream_device(stream);
    const uintptr_t places = (uintptr_t)a->a | (uintptr_t)a->b | (uintptr_t)a->p | (uintptr_t)a->out;
    if (!aorta_device_is_gpu(device) || places % 16) return false;
    if (aorta_gpu_get_properties(device)->shared_bytes_per_block < AORTA_SCORES_BYTES) return false;
    if (s->batch < 1 || s->batch > UINT16_MAX || s->m < 1 || s->k < 1 || s->lda < s->k || s->ldb < s->k) return false;
    return s->m % AORTA_SCORES_ROWS == 0 && s->n == AORTA_SCORES_WIDTH && s->k % AORTA_SCORES_DEPTH == 0 &&
           s->ldb <= MOST_APART && (s->lda | s->ldb | s->a_batch | s->b_batch) % 4 == 0;
}

static struct aorta_gpu_grid scores_grid(const struct aorta_products *shape) {
    return (struct aorta_gpu_grid){.blocks = {aorta_ops_blocks(shape->m, AORTA_SCORES_ROWS), (uint32_t)shape->batch},
                                   .threads = {AORTA_SCORES_THREADS},
                                   .shared_bytes = AORTA_SCORES_BYTES};
}

/* One kernel computes product and softmax if it supports the shape. Otherwise they are separate kernels. */
AORTA_PLAIN_KERNEL(scores_forward, NULL, aorta_scores_args, scores_grid(&a->shape));
AORTA_PLAIN_KERNEL(scores_backward, NULL, aorta_scores_args, scores_grid(&a->shape));

static aorta_status check_scores(const char *operation, const struct aorta_products *s,
                                 struct aorta_pointers pointers) {
    if (!s->transpose_a && s->transpose_b && !s->accumulate && s->ldc == s->n && s->c_batch == s->m * s->n)
        return aorta_check_pointers(operation, pointers);
    return AORTA_ERROR(AORTA_INTERNAL, "%s: products must be a·bᵀ, their rows and matrices side by side", operation);
}

static struct aorta_softmax softmax_of(const struct aorta_scores_args *a) {
    return (struct aorta_softmax){.rows = a->shape.batch * a->shape.m, .width = a->shape.n, .scale = a->scale};
}

aorta_status aorta_scores_forward(struct aorta_stream *stream, const struct aorta_scores_args *a) {
    const struct aorta_products_args products = {.shape = a->shape, .a = a->a, .b = a->b, .c = a->out};
    const struct aorta_softmax_args softmax = {.shape = softmax_of(a), .x = a->out, .out = a->out};
    AORTA_TRY(check_scores(scores_forward_kernel.name, &a->shape, AORTA_POINTERS(a->a, a->b, a->out)));
    if (aorta_ops_gpu_scores_fit(stream, a)) return aorta_launch(stream, &scores_forward_kernel, a, sizeof *a);
    AORTA_TRY(aorta_products_run(stream, &products));
    return aorta_softmax_forward(stream, &softmax);
}

aorta_status aorta_scores_backward(struct aorta_stream *stream, const struct aorta_scores_args *a) {
    const struct aorta_products_args products = {.shape = a->shape, .a = a->a, .b = a->b, .c = a->out};
    const struct aorta_softmax_args softmax = {.shape = softmax_of(a), .x = a->p, .dp = a->out, .out = a->out};
    AORTA_TRY(check_scores(scores_backward_kernel.name, &a->shape, AORTA_POINTERS(a->a, a->b, a->p, a->out)));
    if (aorta_ops_gpu_scores_fit(stream, a)) return aorta_launch(stream, &scores_backward_kernel, a, sizeof *a);
    AORTA_TRY(aorta_products_run(stream, &products));
    return aorta_softmax_backward(stream, &softmax);
}
