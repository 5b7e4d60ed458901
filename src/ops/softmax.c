/* Softmax over rows: alone, of a product's rows, and as part of the cross-entropy loss. */
#include "ops/check.h"
#include "ops/gpu/gpu.h"

#include <math.h>

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

/* Rows that 32 threads hold in their registers go several to a block. */
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

static aorta_status cross_entropy_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_cross_entropy_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_cross_entropy, aorta_ops_grid(a->rows, AORTA_ROW_THREADS), a,
                             sizeof *a);
}

static const struct aorta_kernel forward_kernel = {"softmax_forward", forward, softmax_forward_gpu};
static const struct aorta_kernel backward_kernel = {"softmax_backward", backward, softmax_backward_gpu};
static const struct aorta_kernel loss_kernel = {"cross_entropy", cross_entropy, cross_entropy_gpu};

static aorta_status check_softmax(const char *operation, const struct aorta_softmax *shape) {
    AORTA_TRY(aorta_check_size(operation, "rows", shape->rows, 0));
    return aorta_check_size(operation, "width", shape->width, 1);
}

aorta_status aorta_softmax_forward(struct aorta_stream *stream, const struct aorta_softmax_args *a) {
    AORTA_TRY(check_softmax(forward_kernel.name, &a->shape));
    if (a->shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(forward_kernel.name, AORTA_POINTERS({"x", a->x}, {"p", a->out})));
    return aorta_launch(stream, &forward_kernel, a, sizeof *a);
}

aorta_status aorta_softmax_backward(struct aorta_stream *stream, const struct aorta_softmax_args *a) {
    AORTA_TRY(check_softmax(backward_kernel.name, &a->shape));
    if (a->shape.rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(backward_kernel.name, AORTA_POINTERS({"p", a->x}, {"dp", a->dp}, {"dx", a->out})));
    return aorta_launch(stream, &backward_kernel, a, sizeof *a);
}

aorta_status aorta_cross_entropy(struct aorta_stream *stream, const struct aorta_cross_entropy_args *a) {
    AORTA_TRY(aorta_check_size(loss_kernel.name, "rows", a->rows, 0));
    AORTA_TRY(aorta_check_size(loss_kernel.name, "classes", a->classes, 1));
    if (a->rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(
        loss_kernel.name, AORTA_POINTERS({"x", a->x}, {"labels", a->labels}, {"losses", a->losses}, {"dx", a->dx})));
    return aorta_launch(stream, &loss_kernel, a, sizeof *a);
}

/* ---- of a product ---- */

enum { MOST_APART = INT32_MAX / AORTA_SCORES_WIDTH }; /* elements from row to row: the kernels count them in 32 bits */

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

static aorta_status run_scores(struct aorta_stream *stream, enum aorta_ops_entry entry,
                               const struct aorta_scores_args *a) {
    const struct aorta_gpu_grid grid = {
        .blocks = {aorta_ops_blocks(a->shape.m, AORTA_SCORES_ROWS), (uint32_t)a->shape.batch},
        .threads = {AORTA_SCORES_THREADS},
        .shared_bytes = AORTA_SCORES_BYTES};
    return aorta_ops_gpu_run(stream, entry, grid, a, sizeof *a);
}

static aorta_status scores_forward_gpu(struct aorta_stream *stream, const void *args) {
    return run_scores(stream, AORTA_ENTRY_scores_forward, args);
}

static aorta_status scores_backward_gpu(struct aorta_stream *stream, const void *args) {
    return run_scores(stream, AORTA_ENTRY_scores_backward, args);
}

/* Where one kernel makes both; else they are a product and a softmax. */
static const struct aorta_kernel scores_kernel = {"scores_forward", NULL, scores_forward_gpu};
static const struct aorta_kernel scores_backward_kernel = {"scores_backward", NULL, scores_backward_gpu};

static aorta_status check_scores(const char *operation, const struct aorta_products *s,
                                 const struct aorta_named_pointer *pointers) {
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
    AORTA_TRY(check_scores(scores_kernel.name, &a->shape, AORTA_POINTERS({"a", a->a}, {"b", a->b}, {"p", a->out})));
    if (aorta_ops_gpu_scores_fit(stream, a)) return aorta_launch(stream, &scores_kernel, a, sizeof *a);
    AORTA_TRY(aorta_products_run(stream, &products));
    return aorta_softmax_forward(stream, &softmax);
}

aorta_status aorta_scores_backward(struct aorta_stream *stream, const struct aorta_scores_args *a) {
    const struct aorta_products_args products = {.shape = a->shape, .a = a->a, .b = a->b, .c = a->out};
    const struct aorta_softmax_args softmax = {.shape = softmax_of(a), .x = a->p, .dp = a->out, .out = a->out};
    AORTA_TRY(check_scores(scores_backward_kernel.name, &a->shape,
                           AORTA_POINTERS({"a", a->a}, {"b", a->b}, {"p", a->p}, {"dx", a->out})));
    if (aorta_ops_gpu_scores_fit(stream, a)) return aorta_launch(stream, &scores_backward_kernel, a, sizeof *a);
    AORTA_TRY(aorta_products_run(stream, &products));
    return aorta_softmax_backward(stream, &softmax);
}
