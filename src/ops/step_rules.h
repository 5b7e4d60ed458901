/* How a step's state changes, the same on CPU and GPU: one thread in double. */
#ifndef AORTA_OPS_STEP_RULES_H
#define AORTA_OPS_STEP_RULES_H

#ifndef AORTA_STEP_FUNCTION /* kernels have a word of their own for it */
#include "ops/types.h"

#include <math.h>
#define AORTA_STEP_FUNCTION static inline
#endif

AORTA_STEP_FUNCTION double aorta_schedule_lr(const struct aorta_schedule *schedule, int64_t step) {
    const double lr = (double)schedule->lr;
    if (step < schedule->warmup_steps) return lr * (double)(step + 1) / (double)schedule->warmup_steps;
    if (schedule->total_steps <= 0) return lr;
    if (step >= schedule->total_steps) return 0.0;
    return lr * (double)(schedule->total_steps - step) / (double)(schedule->total_steps - schedule->warmup_steps);
}

AORTA_STEP_FUNCTION void aorta_state_begin(const struct aorta_step_begin_args *a) {
    a->state->lr = (float)aorta_schedule_lr(&a->schedule, a->state->step);
    a->state->loss = 0.0f;
    a->state->grad_norm = 0.0f;
}

AORTA_STEP_FUNCTION bool aorta_state_finite(double value) {
    return value - value == 0.0;
}

/* torch.amp.GradScaler's defaults: halve on overflow, double after growth_interval finite steps in a row. */
AORTA_STEP_FUNCTION void aorta_state_scale(struct aorta_step_state *state, int32_t growth_interval) {
    if (!state->finite) {
        state->loss_scale *= 0.5f;
        state->growth_tracker = 0;
        return;
    }
    if (++state->growth_tracker < growth_interval) return;
    if (aorta_state_finite((double)(state->loss_scale * 2.0f))) state->loss_scale *= 2.0f;
    state->growth_tracker = 0;
}

AORTA_STEP_FUNCTION void aorta_state_update(const struct aorta_step_update_args *a) {
    struct aorta_step_state *state = a->state;
    const double norm = sqrt((double)*a->square_sum) / (double)state->loss_scale;
    state->grad_norm = (float)norm;
    state->finite = aorta_state_finite(norm) ? 1 : 0;
    if (state->finite) {
        const double ratio = (double)a->max_norm / (norm + 1e-6);
        const double clip = a->max_norm > 0.0f && ratio < 1.0 ? ratio : 1.0;
        state->grad_factor = (float)(clip / (double)state->loss_scale);
        state->updates++;
        state->bias_correction1 = (float)(1.0 - pow((double)a->beta1, (double)state->updates));
        state->bias_correction2 = (float)(1.0 - pow((double)a->beta2, (double)state->updates));
    } else {
        state->grad_factor = 0.0f;
        state->skipped++;
    }
    if (a->dynamic_scale) aorta_state_scale(state, a->growth_interval);
}

#endif
