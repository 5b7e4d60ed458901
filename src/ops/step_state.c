#include "ops/check.h"
#include "ops/gpu/gpu.h"

#include <math.h>

static double schedule_lr(const struct aorta_schedule *schedule, int64_t step) {
    const double lr = (double)schedule->lr;
    if (step < schedule->warmup_steps) return lr * (double)(step + 1) / (double)schedule->warmup_steps;
    if (schedule->total_steps <= 0) return lr;
    if (step >= schedule->total_steps) return 0.0;
    return lr * (double)(schedule->total_steps - step) / (double)(schedule->total_steps - schedule->warmup_steps);
}

static aorta_status begin(const void *args) {
    const struct aorta_step_begin_args *a = args;
    a->state->lr = (float)schedule_lr(&a->schedule, a->state->step);
    a->state->loss = 0.0f;
    a->state->grad_norm = 0.0f;
    return NULL;
}

/* torch.amp.GradScaler's defaults: halve on overflow, double after growth_interval finite steps in a row. */
static void update_loss_scale(struct aorta_step_state *state, int32_t growth_interval) {
    if (!state->finite) {
        state->loss_scale *= 0.5f;
        state->growth_tracker = 0;
        return;
    }
    if (++state->growth_tracker < growth_interval) return;
    if (isfinite(state->loss_scale * 2.0f)) state->loss_scale *= 2.0f;
    state->growth_tracker = 0;
}

static aorta_status update(const void *args) {
    const struct aorta_step_update_args *a = args;
    struct aorta_step_state *state = a->state;
    const double norm = sqrt((double)*a->square_sum) / (double)state->loss_scale;
    state->grad_norm = (float)norm;
    state->finite = isfinite(norm) ? 1 : 0;
    if (state->finite) {
        double clip = a->max_norm > 0.0f ? fmin(1.0, (double)a->max_norm / (norm + 1e-6)) : 1.0;
        state->grad_factor = (float)(clip / (double)state->loss_scale);
        state->updates++;
        state->bias_correction1 = (float)(1.0 - pow((double)a->beta1, (double)state->updates));
        state->bias_correction2 = (float)(1.0 - pow((double)a->beta2, (double)state->updates));
    } else {
        state->grad_factor = 0.0f;
        state->skipped++;
    }
    if (a->dynamic_scale) update_loss_scale(state, a->growth_interval);
    return NULL;
}

static aorta_status end(const void *args) {
    const struct aorta_step_end_args *a = args;
    a->state->step++;
    return NULL;
}

static const struct aorta_kernel begin_kernel = {"step_begin", begin, aorta_ops_gpu_step_begin};
static const struct aorta_kernel update_kernel = {"step_update", update, aorta_ops_gpu_step_update};
static const struct aorta_kernel end_kernel = {"step_end", end, aorta_ops_gpu_step_end};

aorta_status aorta_step_begin(struct aorta_stream *stream, struct aorta_step_state *state,
                              struct aorta_schedule schedule) {
    AORTA_TRY(aorta_check_pointer(begin_kernel.name, "state", state));
    AORTA_TRY(aorta_check_size(begin_kernel.name, "warmup_steps", schedule.warmup_steps, 0));
    const struct aorta_step_begin_args args = {.state = state, .schedule = schedule};
    return aorta_launch(stream, &begin_kernel, &args, sizeof args);
}

aorta_status aorta_step_update(struct aorta_stream *stream, const struct aorta_step_update_args *args) {
    AORTA_TRY(aorta_check_pointers(
        update_kernel.name,
        (const struct aorta_named_pointer[]){{"state", args->state}, {"square_sum", args->square_sum}, {0}}));
    if (args->dynamic_scale)
        AORTA_TRY(aorta_check_size(update_kernel.name, "growth_interval", args->growth_interval, 1));
    return aorta_launch(stream, &update_kernel, args, sizeof *args);
}

aorta_status aorta_step_end(struct aorta_stream *stream, struct aorta_step_state *state) {
    AORTA_TRY(aorta_check_pointer(end_kernel.name, "state", state));
    const struct aorta_step_end_args args = {.state = state};
    return aorta_launch(stream, &end_kernel, &args, sizeof args);
}
