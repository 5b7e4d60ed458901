/* Functions that host and kernels have in common: a step's state, random draws, an order of samples, the normal
 * distribution. A kernel defines AORTA_SHARED, its word for a function, before; its logarithm is natural_log. */
#ifndef AORTA_OPS_SHARED_H
#define AORTA_OPS_SHARED_H

#include "ops/types.h"

#ifndef AORTA_SHARED
#include <math.h>
#define AORTA_SHARED static inline
#define natural_log logf
#endif

/* ---- a step: one thread in double ---- */

AORTA_SHARED double aorta_schedule_lr(const struct aorta_schedule *schedule, int64_t step) {
    const double lr = (double)schedule->lr;
    if (step < schedule->warmup_steps) return lr * (double)(step + 1) / (double)schedule->warmup_steps;
    if (schedule->total_steps <= 0) return lr;
    if (step >= schedule->total_steps) return 0.0;
    return lr * (double)(schedule->total_steps - step) / (double)(schedule->total_steps - schedule->warmup_steps);
}

AORTA_SHARED void aorta_state_begin(const struct aorta_step_begin_args *a) {
    a->state->lr = (float)aorta_schedule_lr(&a->schedule, a->state->step);
    a->state->loss = 0.0f;
    a->state->grad_norm = 0.0f;
}

AORTA_SHARED bool aorta_state_finite(double value) {
    return value - value == 0.0;
}

/* torch.amp.GradScaler's defaults: halve on overflow, double after growth_interval finite steps in a row. */
AORTA_SHARED void aorta_state_scale(struct aorta_step_state *state, int32_t growth_interval) {
    if (!state->finite) {
        state->loss_scale *= 0.5f;
        state->growth_tracker = 0;
        return;
    }
    if (++state->growth_tracker < growth_interval) return;
    if (aorta_state_finite((double)(state->loss_scale * 2.0f))) state->loss_scale *= 2.0f;
    state->growth_tracker = 0;
}

AORTA_SHARED void aorta_state_update(const struct aorta_step_update_args *a) {
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

/* ---- sampling ---- */

/* Random numbers of sampling, the same on every device: number i of a draw is word i mod 4 of Philox4x32-10 of the
 * counter (i / 4, row, site, step), whose upper 24 bits and a half make w in (0, 1). −ln(1 − w) is an exponential
 * random number; near 0, where the largest scores come from, its series is used, as a logarithm near 1 has few correct
 * digits.
 */
AORTA_SHARED float aorta_draw_uniform(unsigned word) {
    return ((float)(word >> 8) + 0.5f) * 5.9604644775390625e-8f; /* 2^-24 */
}

AORTA_SHARED float aorta_draw_exponential(unsigned word) {
    const float w = aorta_draw_uniform(word);
    if (w < 0.03125f) return w * (1.0f + w * (0.5f + w * (0.333333333f + w * (0.25f + w * 0.2f))));
    return -natural_log(1.0f - w);
}

/* ---- the order of samples ---- */

/* A permutation of [0, count) without a table, the same on every device: a four-round Feistel network on the next even
 * number of bits, walked until it lands inside (Black & Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
 */
AORTA_SHARED int64_t aorta_shuffle_at(const struct aorta_shuffle *shuffle, int64_t position) {
    const uint64_t half = (uint64_t)shuffle->half_bits, mask = ((uint64_t)1 << half) - 1;
    uint64_t value = (uint64_t)position;
    do {
        uint64_t left = value >> half, right = value & mask;
        for (int round = 0; round < 4; round++) {
            const uint64_t mixed = (right ^ shuffle->keys[round]) * 0x9E3779B97F4A7C15u,
                           next = left ^ ((mixed >> 40) & mask);
            left = right;
            right = next;
        }
        value = left << half | right;
    } while (value >= (uint64_t)shuffle->count);
    return (int64_t)value;
}

/* ---- the normal distribution ---- */

/* The tail of the normal distribution, the same on CPU and GPU.
 *
 * Φ(−t) for t ≥ 0 is e^(−t²/2)·Q(u) with u = 1 / (1 + 0.21·t), the form of Abramowitz & Stegun 7.1.26 (C. Hastings).
 * Q is of degree 9, fitted for this file to erfcx(t/√2)/2 on 0 ≤ t ≤ 13.5 for least greatest relative error (Lawson's
 * reweighted least squares on Chebyshev nodes): 1.4e-8 exact. Φ(t) = 1 − Φ(−t). */
AORTA_SHARED float aorta_normal_tail(float u) {
    float q = -0.07203397899866104f;
    q = q * u + 0.2854534089565277f;
    q = q * u - 0.33418965339660645f;
    q = q * u + 0.3540336787700653f;
    q = q * u - 0.0972457304596901f;
    q = q * u + 0.1263551563024521f;
    q = q * u + 0.06879004091024399f;
    q = q * u + 0.08512941002845764f;
    q = q * u + 0.08370770514011383f;
    return q * u;
}

/* For 16-bit results: u = 1 / (1 + 0.255·t), degree 5, relative error 4.8e-5. */
AORTA_SHARED float aorta_normal_tail_short(float u) {
    float q = 0.2044269592f;
    q = q * u - 0.04614025745f;
    q = q * u + 0.1475242105f;
    q = q * u + 0.09177894759f;
    q = q * u + 0.1024337656f;
    return q * u;
}

#endif
