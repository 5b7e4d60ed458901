/* A training step outside the model: its state on the device, the loss, the norm of the gradients, AdamW. */
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"
#include "ops/shared.h"

#include <math.h>

/* ---- on the CPU ---- */

static aorta_status begin(const void *args) {
    aorta_state_begin(args);
    return NULL;
}

static aorta_status update(const void *args) {
    aorta_state_update(args);
    return NULL;
}

static aorta_status end(const void *args) {
    const struct aorta_step_end_args *a = args;
    a->state->step++;
    return NULL;
}

/* A handful of values per step: plain code in double. */
static aorta_status bce(const void *args) {
    const struct aorta_bce_args *a = args;
    const struct aorta_cpu_ops *ops = aorta_cpu_ops();
    const size_t size = aorta_dtype_size(a->dtype);
    const double share = (double)a->weight / (double)a->count;
    const double gradient_share = (double)a->gradient_weight / (double)a->count * (double)a->state->loss_scale;
    double total = 0.0;
    for (int64_t i = 0; i < a->count; i++) {
        float score;
        ops->to_float(&score, (const char *)a->scores + (size_t)i * size, a->dtype, 1);
        const double s = (double)score, t = (double)a->target[i], weight = (double)a->importance[i];
        const double e = exp(-fabs(s)); /* in [0, 1]: never overflows */
        const double sigmoid = s >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
        total += weight * (fmax(s, 0.0) - s * t + log1p(e));
        float gradient = (float)(gradient_share * weight * (sigmoid - t));
        ops->from_float((char *)a->dscores + (size_t)i * size, &gradient, a->dtype, 1);
    }
    a->state->loss += (float)(share * total);
    return NULL;
}

/* ---- on a GPU ---- */

static const struct aorta_gpu_grid one_thread = {.blocks = {1}};

/* *to += scale · Σ partial[0 … count) */
static aorta_status finish(struct aorta_stream *stream, const double *partial, uint32_t count, double scale,
                           float *to) {
    const struct aorta_gpu_finish_args args = {.partial = partial, .count = count, .scale = scale, .to = to};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_sum_finish, aorta_ops_grid(1, AORTA_SUM_THREADS), &args, sizeof args);
}

static aorta_status bce_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_bce_args *a = args;
    const uint32_t blocks = aorta_ops_blocks(a->count, AORTA_SUM_THREADS);
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, blocks * sizeof(double), &workspace));
    const struct aorta_gpu_bce_args gpu = {.op = *a, .partial = workspace.memory};
    const struct aorta_gpu_grid grid = aorta_ops_grid(blocks, AORTA_SUM_THREADS);
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_bce, a->dtype, grid, &gpu, sizeof gpu));
    return finish(stream, gpu.partial, blocks, (double)a->weight / (double)a->count, &a->state->loss);
}

/* The number of blocks does not depend on the device, so neither does the order of the additions. */
static aorta_status square_sum_gpu(struct aorta_stream *stream, const void *args) {
    enum { MOST_BLOCKS = 1024 };
    const struct aorta_square_sum_args *a = args;
    uint32_t blocks = aorta_ops_blocks(a->count, (int64_t)AORTA_SUM_THREADS * 8);
    if (blocks > MOST_BLOCKS) blocks = MOST_BLOCKS;
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, blocks * sizeof(double), &workspace));
    const struct aorta_gpu_square_sum_args gpu = {.op = *a, .partial = workspace.memory};
    const struct aorta_gpu_grid grid = aorta_ops_grid(blocks, AORTA_SUM_THREADS);
    AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_square_sum, grid, &gpu, sizeof gpu));
    return finish(stream, gpu.partial, blocks, 1.0, a->square_sum);
}

/* ---- both ---- */

AORTA_PLAIN_KERNEL(step_begin, begin, aorta_step_begin_args, one_thread);
AORTA_PLAIN_KERNEL(step_update, update, aorta_step_update_args, one_thread);
AORTA_PLAIN_KERNEL(step_end, end, aorta_step_end_args, one_thread);
static const struct aorta_kernel bce_kernel = {"bce_with_logits", bce, bce_gpu};
static const struct aorta_kernel square_kernel = {"square_sum", aorta_cpu_square_sum, square_sum_gpu};
AORTA_PLAIN_KERNEL(adamw, aorta_cpu_adamw, aorta_adamw_args, aorta_ops_pointwise_grid(a->count));

aorta_status aorta_step_begin(struct aorta_stream *stream, struct aorta_step_state *state,
                              struct aorta_schedule schedule) {
    AORTA_TRY(aorta_check_pointers(step_begin_kernel.name, AORTA_POINTERS(state)));
    AORTA_TRY(aorta_check_size(step_begin_kernel.name, "warmup_steps", schedule.warmup_steps, 0));
    const struct aorta_step_begin_args args = {.state = state, .schedule = schedule};
    return aorta_launch(stream, &step_begin_kernel, &args, sizeof args);
}

aorta_status aorta_step_update(struct aorta_stream *stream, const struct aorta_step_update_args *args) {
    AORTA_TRY(aorta_check_pointers(step_update_kernel.name, AORTA_POINTERS(args->state, args->square_sum)));
    if (args->dynamic_scale)
        AORTA_TRY(aorta_check_size(step_update_kernel.name, "growth_interval", args->growth_interval, 1));
    return aorta_launch(stream, &step_update_kernel, args, sizeof *args);
}

aorta_status aorta_step_end(struct aorta_stream *stream, struct aorta_step_state *state) {
    AORTA_TRY(aorta_check_pointers(step_end_kernel.name, AORTA_POINTERS(state)));
    const struct aorta_step_end_args args = {.state = state};
    return aorta_launch(stream, &step_end_kernel, &args, sizeof args);
}

aorta_status aorta_bce_with_logits(struct aorta_stream *stream, const struct aorta_bce_args *a) {
    AORTA_TRY(aorta_check_dtype(bce_kernel.name, a->dtype));
    AORTA_TRY(aorta_check_size(bce_kernel.name, "count", a->count, 1));
    return aorta_ops_launch(stream, &bce_kernel, a->count, a, sizeof *a,
                            AORTA_POINTERS(a->scores, a->target, a->importance, a->state, a->dscores));
}

aorta_status aorta_square_sum(struct aorta_stream *stream, const float *gradient, int64_t count, float *sum) {
    AORTA_TRY(aorta_check_size(square_kernel.name, "count", count, 0));
    const struct aorta_square_sum_args args = {.gradient = gradient, .count = count, .square_sum = sum};
    return aorta_ops_launch(stream, &square_kernel, count, &args, sizeof args, AORTA_POINTERS(gradient, sum));
}

aorta_status aorta_adamw_step(struct aorta_stream *stream, const struct aorta_adamw_args *a) {
    AORTA_TRY(aorta_check_size(adamw_kernel.name, "count", a->count, 0));
    AORTA_TRY(aorta_check_pointers(adamw_kernel.name, AORTA_POINTERS(a->state)));
    if (!(a->beta1 >= 0.0f && a->beta1 < 1.0f && a->beta2 >= 0.0f && a->beta2 < 1.0f))
        return AORTA_ERROR(AORTA_INTERNAL, "adamw: betas %g and %g must be in [0, 1)", (double)a->beta1,
                           (double)a->beta2);
    if (a->copy) AORTA_TRY(aorta_check_dtype(adamw_kernel.name, a->copy_dtype));
    return aorta_ops_launch(stream, &adamw_kernel, a->count, a, sizeof *a,
                            AORTA_POINTERS(a->parameter, a->gradient, a->m, a->v));
}

/* ---- Shampoo ---- */

int64_t aorta_shampoo_blocks(int64_t rows, int64_t columns) {
    return aorta_ops_blocks(rows, AORTA_SHAMPOO_BLOCK) * (int64_t)aorta_ops_blocks(columns, AORTA_SHAMPOO_BLOCK);
}

static struct aorta_gpu_grid shampoo_grid(const struct aorta_shampoo_args *a, uint32_t sides) {
    return (struct aorta_gpu_grid){.blocks = {(uint32_t)aorta_shampoo_blocks(a->rows, a->columns), sides},
                                   .threads = {AORTA_SHAMPOO_THREADS}};
}

AORTA_PLAIN_KERNEL(shampoo_factors, aorta_cpu_shampoo_factors, aorta_shampoo_args,
                   shampoo_grid(a, a->columns > 1 ? 2 : 1));
AORTA_PLAIN_KERNEL(shampoo_direction, aorta_cpu_shampoo_direction, aorta_shampoo_args, shampoo_grid(a, 1));
AORTA_PLAIN_KERNEL(descent, aorta_cpu_descent, aorta_descent_args, aorta_ops_pointwise_grid(a->count));

aorta_status aorta_shampoo_direction(struct aorta_stream *stream, const struct aorta_shampoo_args *a) {
    const char *name = shampoo_direction_kernel.name;
    AORTA_TRY(aorta_check_sizes(
        name, AORTA_SIZES({"rows", a->rows, 1}, {"columns", a->columns, 1}, {"frequency", a->frequency, 1})));
    if (aorta_shampoo_blocks(a->rows, a->columns) > INT32_MAX)
        return AORTA_ERROR(AORTA_INTERNAL, "%s: %lld x %lld elements are too many blocks", name, (long long)a->rows,
                           (long long)a->columns);
    AORTA_TRY(aorta_check_pointers(
        name, AORTA_POINTERS(a->state, a->gradient, a->m, a->v, a->factors, a->roots, a->direction)));
    AORTA_TRY(aorta_launch(stream, &shampoo_factors_kernel, a, sizeof *a));
    return aorta_launch(stream, &shampoo_direction_kernel, a, sizeof *a);
}

aorta_status aorta_descent_step(struct aorta_stream *stream, const struct aorta_descent_args *a) {
    AORTA_TRY(aorta_check_size(descent_kernel.name, "count", a->count, 0));
    if (a->copy) AORTA_TRY(aorta_check_dtype(descent_kernel.name, a->copy_dtype));
    return aorta_ops_launch(stream, &descent_kernel, a->count, a, sizeof *a,
                            AORTA_POINTERS(a->state, a->parameter, a->direction));
}
