/* Residual, dropout and LayerNorm in one pass over memory. */
#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

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
    enum { LEAST_ROWS = 4 }; /* that a thread adds up before its sums are written */
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
    AORTA_TRY(aorta_check_size(operation, "rows", shape->rows, 0));
    AORTA_TRY(aorta_check_size(operation, "width", shape->width, 1));
    if (!(shape->eps > 0.0f))
        return AORTA_ERROR(AORTA_INTERNAL, "%s: eps %g must be above 0", operation, (double)shape->eps);
    return aorta_check_dropout(operation, shape->dropout);
}

aorta_status aorta_norm_forward(struct aorta_stream *stream, const struct aorta_norm_args *a) {
    AORTA_TRY(check_norm(forward_kernel.name, &a->shape));
    if (a->shape.rows == 0) return NULL;
    AORTA_TRY(
        aorta_check_pointers(forward_kernel.name, AORTA_POINTERS({"x", a->x}, {"gamma", a->gamma}, {"beta", a->beta},
                                                                 {"y", a->y}, {"mean", a->mean}, {"rstd", a->rstd})));
    if (a->residual || a->shape.dropout > 0.0f) AORTA_TRY(aorta_check_pointer(forward_kernel.name, "sum", a->sum));
    return aorta_launch(stream, &forward_kernel, a, sizeof *a);
}

aorta_status aorta_norm_backward(struct aorta_stream *stream, const struct aorta_norm_backward_args *a) {
    AORTA_TRY(check_norm(backward_kernel.name, &a->shape));
    AORTA_TRY(aorta_check_pointers(backward_kernel.name,
                                   AORTA_POINTERS({"gamma", a->gamma}, {"dgamma", a->dgamma}, {"dbeta", a->dbeta})));
    if (a->shape.rows > 0)
        AORTA_TRY(
            aorta_check_pointers(backward_kernel.name, AORTA_POINTERS({"dy", a->dy}, {"sum", a->sum}, {"mean", a->mean},
                                                                      {"rstd", a->rstd}, {"dsum", a->dsum})));
    return aorta_launch(stream, &backward_kernel, a, sizeof *a);
}
