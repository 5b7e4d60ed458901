/* What a step copies to the host, and whether it comes back: gradients and parameters of an optimizer on the host, rows
 * of a table that lies there. */
#include "verdict/verdict_internal.h"

#include <math.h>

static const double LEAST = 4e6; /* bytes a step: less are figures that are printed */

/* Bytes copied in the steps of a rank that count, by direction. */
static void add_copied(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                       double copied[AORTA_COPIED_COUNT]) {
    const struct aorta_trace *trace = rank->trace;
    for (size_t i = 0, next = 0; i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        if (!aorta_trace_window_counts(analysis, window)) continue;
        for (; next < trace->work_count && trace->work[next].start_ns < window->end_ns; next++) {
            const struct aorta_trace_work *work = &trace->work[next];
            if (work->start_ns < window->start_ns || work->kind != AORTA_TRACE_COPY || work->bytes <= 0) continue;
            const enum aorta_copied how = aorta_copied_how(aorta_trace_text(trace, work->name));
            if (how != AORTA_COPIED_UNKNOWN) copied[how] += (double)work->bytes;
        }
    }
}

static void sum_copied(const struct gains *gains, double copied[AORTA_COPIED_COUNT]) {
    for (size_t i = 0; i < gains->analysis->rank_count; i++)
        add_copied(gains->analysis, &gains->analysis->ranks[i], copied);
}

/* Whether about as much is copied to the host as to the device: as gradients and parameters of an optimizer there. */
bool aorta_verdict_is_offloaded(const struct gains *gains) {
    double copied[AORTA_COPIED_COUNT] = {0};
    sum_copied(gains, copied);
    return copied[AORTA_COPIED_TO_HOST] > LEAST * aorta_gains_steps(gains) &&
           copied[AORTA_COPIED_TO_HOST] > 0.25 * copied[AORTA_COPIED_TO_DEVICE];
}

/* In less than half of the steps, while much is copied to the host: as where a checkpoint is written. */
bool aorta_verdict_saves(const struct gains *gains, const struct aorta_origin *origin) {
    double copied[AORTA_COPIED_COUNT] = {0};
    if (gains->verdict->whole || 2 * origin->times >= aorta_gains_steps(gains)) return false;
    sum_copied(gains, copied);
    return copied[AORTA_COPIED_TO_HOST] > LEAST * origin->times &&
           copied[AORTA_COPIED_TO_HOST] > copied[AORTA_COPIED_TO_DEVICE];
}

/* Data that stays on the device is not copied, read or waited for. */
double aorta_gain_of_keeping(const struct gains *gains) {
    struct aorta_replay replay = {0};
    uint32_t removed = aorta_removal_bit(AORTA_WITHOUT_COPY) | aorta_removal_bit(AORTA_WITHOUT_HOST_SYNC);
    for (uint32_t i = AORTA_WITHOUT_HOST_PAUSE; i <= AORTA_WITHOUT_HOST_PAUSE_ELSE; i++)
        removed |= aorta_removal_bit((enum aorta_removal)i);
    aorta_replay_run(gains->graph, removed, &replay);
    const double gain_ms = (gains->found.replayed_ns - replay.step_ns) / 1e6;
    aorta_arena_end(&replay.memory, gains->verdict->arena);
    return fmax(gain_ms, 0);
}
