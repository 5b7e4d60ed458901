/* Elementwise operations: cast, fill, add, GELU with dropout, ReLU's gradient, sums of pieces. On a GPU a
 * thread processes eight elements, or a strip of rows if their sums are wanted. */
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

static aorta_status relu_backward(const void *args) {
    const struct aorta_relu_args *a = args;
    for (int64_t i = 0; i < a->count; i++) a->dx[i] = a->y[i] > 0.0f ? a->dy[i] : 0.0f;
    return NULL;
}

static aorta_status sum_pieces(const void *args) {
    const struct aorta_sum_pieces_args *a = args;
    for (int64_t i = 0; i < a->count; i++) {
        float sum = 0.0f;
        for (int64_t p = 0; p < a->pieces; p++) sum += a->from[p * a->count + i];
        a->to[i] = a->scale * sum;
    }
    return NULL;
}

static aorta_status gelu(struct aorta_stream *stream, enum aorta_ops_entry entry, struct aorta_gelu_args args) {
    args.shape.rng = aorta_ops_gpu_key(args.shape.rng);
    const uint32_t blocks = aorta_ops_blocks(args.shape.count, AORTA_GELU_TILE);
    const struct aorta_gpu_grid grid = aorta_ops_grid(blocks, AORTA_POINTWISE_THREADS);
    return aorta_ops_gpu_run_typed(stream, entry, args.shape.dtype, grid, &args, sizeof args);
}

static aorta_status gelu_forward_gpu(struct aorta_stream *stream, const void *args) {
    return gelu(stream, AORTA_ENTRY_gelu_forward, *(const struct aorta_gelu_args *)args);
}

static aorta_status gelu_backward_columns(struct aorta_stream *stream, const struct aorta_gelu_args *a) {
    const int64_t width = a->shape.width;
    const struct aorta_ops_columns columns =
        aorta_ops_gpu_share_columns(aorta_stream_device(stream), a->shape.count / width, width);
    struct aorta_gpu_gelu_columns_args args = {
        .op = *a, .rows = a->shape.count / width, .rows_per_split = columns.rows_per_split};
    AORTA_TRY(aorta_ops_gpu_partial(stream, columns.partial_bytes, &args.partial));
    args.op.shape.rng = aorta_ops_gpu_key(a->shape.rng);
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_gelu_backward_columns, a->shape.dtype, columns.grid, &args,
                                      sizeof args));
    const struct aorta_gpu_column_sums finish = {.partial = args.partial,
                                                 .rows = columns.splits,
                                                 .columns = width,
                                                 .split = width,
                                                 .sums = {a->dbias},
                                                 .accumulate = a->accumulate};
    return aorta_ops_gpu_column_finish(stream, &finish);
}

static aorta_status gelu_backward_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_gelu_args *a = args;
    return a->dbias ? gelu_backward_columns(stream, a) : gelu(stream, AORTA_ENTRY_gelu_backward, *a);
}

AORTA_PLAIN_KERNEL(cast, aorta_cpu_cast, aorta_cast_args, aorta_ops_pointwise_grid(a->count));
AORTA_PLAIN_KERNEL(fill, aorta_cpu_fill, aorta_fill_args, aorta_ops_pointwise_grid(a->count));
AORTA_PLAIN_KERNEL(add, aorta_cpu_add, aorta_cast_args, aorta_ops_pointwise_grid(a->count));
static const struct aorta_kernel gelu_kernel = {"gelu_forward", aorta_cpu_gelu_forward, gelu_forward_gpu};
static const struct aorta_kernel gelu_backward_kernel = {"gelu_backward", aorta_cpu_gelu_backward, gelu_backward_gpu};
AORTA_PLAIN_KERNEL(relu_backward, relu_backward, aorta_relu_args, aorta_ops_pointwise_grid(a->count));
AORTA_PLAIN_KERNEL(sum_pieces, sum_pieces, aorta_sum_pieces_args, aorta_ops_pointwise_grid(a->count));

aorta_status aorta_cast(struct aorta_stream *stream, void *to, enum aorta_dtype to_dtype, const void *from,
                        enum aorta_dtype from_dtype, int64_t count, float scale) {
    AORTA_TRY(aorta_check_dtype(cast_kernel.name, to_dtype));
    AORTA_TRY(aorta_check_dtype(cast_kernel.name, from_dtype));
    AORTA_TRY(aorta_check_size(cast_kernel.name, "count", count, 0));
    const struct aorta_cast_args args = {
        .from = from, .to = to, .count = count, .to_dtype = to_dtype, .from_dtype = from_dtype, .scale = scale};
    return aorta_ops_launch(stream, &cast_kernel, count, &args, sizeof args, AORTA_POINTERS(to, from));
}

aorta_status aorta_fill(struct aorta_stream *stream, void *to, enum aorta_dtype dtype, int64_t count, float value) {
    AORTA_TRY(aorta_check_dtype(fill_kernel.name, dtype));
    AORTA_TRY(aorta_check_size(fill_kernel.name, "count", count, 0));
    if (count == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(fill_kernel.name, AORTA_POINTERS(to)));
    const struct aorta_fill_args args = {.to = to, .dtype = dtype, .count = count, .value = value};
    return aorta_launch(stream, &fill_kernel, &args, sizeof args);
}

aorta_status aorta_add(struct aorta_stream *stream, void *to, const void *from, enum aorta_dtype dtype, int64_t count,
                       float scale) {
    AORTA_TRY(aorta_check_dtype(add_kernel.name, dtype));
    AORTA_TRY(aorta_check_size(add_kernel.name, "count", count, 0));
    const struct aorta_cast_args args = {
        .from = from, .to = to, .count = count, .to_dtype = dtype, .from_dtype = dtype, .scale = scale};
    return aorta_ops_launch(stream, &add_kernel, count, &args, sizeof args, AORTA_POINTERS(to, from));
}

static aorta_status check_gelu(const char *operation, const struct aorta_gelu *shape) {
    AORTA_TRY(aorta_check_dtype(operation, shape->dtype));
    AORTA_TRY(aorta_check_size(operation, "count", shape->count, 0));
    return aorta_check_dropout(operation, shape->dropout);
}

static aorta_status check_rows(const struct aorta_gelu *shape) {
    AORTA_TRY(aorta_check_size(gelu_backward_kernel.name, "width", shape->width, 1));
    if (shape->count % shape->width == 0) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "%s: %lld elements are no whole rows of %lld", gelu_backward_kernel.name,
                       (long long)shape->count, (long long)shape->width);
}

aorta_status aorta_gelu_forward(struct aorta_stream *stream, const struct aorta_gelu_args *a) {
    AORTA_TRY(check_gelu(gelu_kernel.name, &a->shape));
    return aorta_ops_launch(stream, &gelu_kernel, a->shape.count, a, sizeof *a, AORTA_POINTERS(a->x, a->out));
}

aorta_status aorta_gelu_backward(struct aorta_stream *stream, const struct aorta_gelu_args *a) {
    AORTA_TRY(check_gelu(gelu_backward_kernel.name, &a->shape));
    if (a->dbias) AORTA_TRY(check_rows(&a->shape));
    if (a->shape.count == 0) {
        if (!a->dbias || a->accumulate) return NULL;
        return aorta_fill_bytes(stream, a->dbias, 0, (size_t)a->shape.width * sizeof *a->dbias);
    }
    return aorta_ops_launch(stream, &gelu_backward_kernel, a->shape.count, a, sizeof *a,
                            AORTA_POINTERS(a->x, a->dy, a->out));
}

aorta_status aorta_relu_backward(struct aorta_stream *stream, const struct aorta_relu_args *a) {
    AORTA_TRY(aorta_check_size(relu_backward_kernel.name, "count", a->count, 0));
    return aorta_ops_launch(stream, &relu_backward_kernel, a->count, a, sizeof *a, AORTA_POINTERS(a->y, a->dy, a->dx));
}

aorta_status aorta_sum_pieces(struct aorta_stream *stream, const struct aorta_sum_pieces_args *a) {
    AORTA_TRY(aorta_check_sizes(sum_pieces_kernel.name, AORTA_SIZES({"pieces", a->pieces, 1}, {"count", a->count, 0})));
    return aorta_ops_launch(stream, &sum_pieces_kernel, a->count, a, sizeof *a, AORTA_POINTERS(a->to, a->from));
}

/* ---- LayerNorm ---- */

/* The threads of a block: count[0] side by side for a row, count[1] rows. */
struct row_threads {
    bool wide;
    uint32_t count[2];
    uint32_t resident; /* blocks on a multiprocessor, as many as the registers of the backward kernel allow */
};

int64_t aorta_ops_gpu_most_norm_row(void) {
    return (int64_t)AORTA_NORM_CHUNKS * 8 * AORTA_NORM_THREADS;
}

static aorta_status choose_threads(int64_t width, enum aorta_dtype dtype, struct row_threads *threads) {
    const int64_t widest = aorta_ops_gpu_most_norm_row();
    if (width > widest)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "layernorm: a width of %lld; on a GPU rows have at most %lld elements",
                           (long long)width, (long long)widest);
    threads->wide = width > 8 * AORTA_NORM_NARROW;
    const int64_t per_thread = threads->wide ? AORTA_NORM_CHUNKS * 8 : 8;
    threads->count[0] = aorta_ops_blocks(width, per_thread * 32) * 32;
    threads->count[1] = threads->count[0] < AORTA_NORM_NARROW ? AORTA_NORM_NARROW / threads->count[0] : 1;
    const int narrow = dtype == AORTA_F32 ? AORTA_NORM_RESIDENT - 1 : AORTA_NORM_RESIDENT;
    const uint32_t together = threads->wide ? AORTA_NORM_THREADS : (uint32_t)(AORTA_NORM_NARROW * narrow);
    threads->resident = together / (threads->count[0] * threads->count[1]);
    return NULL;
}

static aorta_status norm_forward_gpu(struct aorta_stream *stream, const void *args) {
    struct aorta_norm_args a = *(const struct aorta_norm_args *)args;
    struct row_threads threads;
    AORTA_TRY(choose_threads(a.shape.width, a.shape.dtype, &threads));
    a.shape.rng = aorta_ops_gpu_key(a.shape.rng);
    const struct aorta_gpu_grid grid = {.blocks = {aorta_ops_blocks(a.shape.rows, threads.count[1])},
                                        .threads = {threads.count[0], threads.count[1]}};
    const enum aorta_ops_entry entry = threads.wide ? AORTA_ENTRY_norm_forward_wide : AORTA_ENTRY_norm_forward;
    return aorta_ops_gpu_run_typed(stream, entry, a.shape.dtype, grid, &a, sizeof a);
}

static aorta_status norm_backward_gpu(struct aorta_stream *stream, const void *args) {
    enum { LEAST_ROWS = 4 }; /* least rows that a thread adds up */
    static const enum aorta_ops_entry entries[2][2] = {
        {AORTA_ENTRY_norm_backward, AORTA_ENTRY_norm_backward_bias},
        {AORTA_ENTRY_norm_backward_wide, AORTA_ENTRY_norm_backward_bias_wide}};
    const struct aorta_norm_backward_args *a = args;
    const int64_t rows = a->shape.rows, width = a->shape.width;
    struct row_threads threads;
    AORTA_TRY(choose_threads(width, a->shape.dtype, &threads));
    const struct aorta_gpu_properties *gpu = aorta_gpu_get_properties(aorta_stream_device(stream));
    const uint32_t most = aorta_ops_blocks(rows, (int64_t)LEAST_ROWS * threads.count[1]);
    uint32_t blocks = (uint32_t)gpu->multiprocessors * threads.resident;
    if (blocks > most) blocks = most;
    const int64_t sums = a->dbias ? 3 : 2;
    struct aorta_gpu_norm_backward_args first = {.op = *a};
    AORTA_TRY(aorta_ops_gpu_partial(stream, (size_t)(blocks * sums * width) * sizeof(float), &first.partial));
    first.op.shape.rng = aorta_ops_gpu_key(a->shape.rng);
    const struct aorta_gpu_grid grid = {.blocks = {blocks}, .threads = {threads.count[0], threads.count[1]}};
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, entries[threads.wide][a->dbias != NULL], a->shape.dtype, grid, &first,
                                      sizeof first));
    const struct aorta_gpu_column_sums second = {.partial = first.partial,
                                                 .rows = blocks,
                                                 .columns = sums * width,
                                                 .split = width,
                                                 .sums = {a->dgamma, a->dbeta, a->dbias},
                                                 .accumulate = a->accumulate};
    return aorta_ops_gpu_column_finish(stream, &second);
}

static const struct aorta_kernel forward_kernel = {"layernorm_forward", aorta_cpu_norm_forward, norm_forward_gpu};
static const struct aorta_kernel backward_kernel = {"layernorm_backward", aorta_cpu_norm_backward, norm_backward_gpu};

static aorta_status check_norm(const char *operation, const struct aorta_norm *shape) {
    AORTA_TRY(aorta_check_dtype(operation, shape->dtype));
    AORTA_TRY(aorta_check_sizes(operation, AORTA_SIZES({"rows", shape->rows, 0}, {"width", shape->width, 1})));
    if (!(shape->eps > 0.0f))
        return AORTA_ERROR(AORTA_INTERNAL, "%s: eps %g must be above 0", operation, (double)shape->eps);
    return aorta_check_dropout(operation, shape->dropout);
}

aorta_status aorta_norm_forward(struct aorta_stream *stream, const struct aorta_norm_args *a) {
    AORTA_TRY(check_norm(forward_kernel.name, &a->shape));
    if (a->shape.rows == 0) return NULL;
    AORTA_TRY(
        aorta_check_pointers(forward_kernel.name, AORTA_POINTERS(a->x, a->gamma, a->beta, a->y, a->mean, a->rstd)));
    if (a->residual || a->shape.dropout > 0.0f)
        AORTA_TRY(aorta_check_pointers(forward_kernel.name, AORTA_POINTERS(a->sum)));
    return aorta_launch(stream, &forward_kernel, a, sizeof *a);
}

aorta_status aorta_norm_backward(struct aorta_stream *stream, const struct aorta_norm_backward_args *a) {
    AORTA_TRY(check_norm(backward_kernel.name, &a->shape));
    AORTA_TRY(aorta_check_pointers(backward_kernel.name, AORTA_POINTERS(a->gamma, a->dgamma, a->dbeta)));
    if (a->shape.rows > 0)
        AORTA_TRY(aorta_check_pointers(backward_kernel.name, AORTA_POINTERS(a->dy, a->sum, a->mean, a->rstd, a->dsum)));
    return aorta_launch(stream, &backward_kernel, a, sizeof *a);
}
