/* The first sentence of the verdict. */
#include "verdict/verdict_internal.h"

#include <math.h>

/* All gains together below this share: the step is bound by what it computes. Also that of communication, exposed, from
 * which on it is no detail. */
static const double BOUND = 0.05;
static const double IDLE = 0.02; /* of the step: from there on it is said why step and busy time differ */

/* Causes that together say more than the largest of them. */
static const struct group {
    const char *name;
    unsigned causes; /* a bit for each */
} groups[] = {
    {"communication", 1U << AORTA_CAUSE_STRAGGLER | 1U << AORTA_CAUSE_SLOW_COLLECTIVE |
                          1U << AORTA_CAUSE_SERIALIZED_STREAMS | 1U << AORTA_CAUSE_EXPOSED_COLLECTIVE},
    /* the causes of idle time, launch latency too: "host-bound" is less (aorta_idle_host) */
    {"idle time of the device", 1U << AORTA_CAUSE_HOST_LAUNCH | 1U << AORTA_CAUSE_LAUNCH_LATENCY |
                                    1U << AORTA_CAUSE_HOST_SYNC | 1U << AORTA_CAUSE_DATA_WAIT},
};
enum { COMMUNICATION, IDLE_DEVICE, GROUP_COUNT };

bool aorta_cause_of_collectives(enum aorta_cause cause) {
    return groups[COMMUNICATION].causes & 1U << cause;
}

static double cost_of(const struct aorta_verdict *verdict, const struct group *group) {
    double cost_ms = 0;
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (group->causes & 1U << verdict->findings[i].cause) cost_ms += verdict->findings[i].cost_ms;
    return cost_ms;
}

const struct aorta_finding *aorta_verdict_costliest(const struct aorta_verdict *verdict) {
    const struct aorta_finding *most = &verdict->findings[0];
    for (size_t i = 1; i < verdict->finding_count; i++)
        if (verdict->findings[i].cost_ms > most->cost_ms) most = &verdict->findings[i];
    return most;
}

bool aorta_verdict_gains_matter(const struct aorta_verdict *verdict) {
    const struct aorta_verdict_replay *replay = &verdict->replay;
    const double step_ms = aorta_verdict_gained_ms(verdict);
    return replay->known && step_ms - replay->floor_ms >= BOUND * step_ms;
}

static const char *unit_of(const struct aorta_verdict *verdict) {
    return verdict->whole ? "time" : "step";
}

static void name_finding(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                         struct aorta_text *out) {
    if (finding->cause == AORTA_CAUSE_HOST_LAUNCH && verdict->idle_unexplained)
        aorta_text_puts(out, "idle time whose reason is not recorded");
    else
        aorta_text_printf(out, "%s%s", aorta_cause_plain_name(finding->cause),
                          aorta_cause_has_kind(finding->cause) ? aorta_verdict_kind_name(verdict, finding->collective)
                                                               : "");
}

/* "60% of the step (60.00 of 100.00 ms)" */
static void say_part(const struct aorta_verdict *verdict, double cost_ms, struct aorta_text *out) {
    const double step_ms = aorta_verdict_spent_ms(verdict);
    const int decimals = aorta_verdict_decimals(step_ms);
    aorta_text_printf(out, "%.0f%% of the %s (%.*f of %.*f ms)", 100 * cost_ms / step_ms, unit_of(verdict), decimals,
                      cost_ms, decimals, step_ms);
}

/* ---- what else is said of the step ---- */

static bool is_mostly_exposed(const struct aorta_verdict *verdict) {
    return verdict->overlap_ratio < 0.5 && verdict->exposed_ms >= BOUND * verdict->step_ms_mean;
}

static void say_exposed(const struct aorta_verdict *verdict, struct aorta_text *out) {
    aorta_text_printf(out, "; %.0f%% of communication is exposed (%.2f ms)", 100 * (1 - verdict->overlap_ratio),
                      verdict->exposed_ms);
}

/* Why the step is longer than the device is busy. */
static void say_idle(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_finding *most = NULL;
    if (verdict->idle_ms < IDLE * verdict->step_ms_mean) return;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        if (groups[IDLE_DEVICE].causes & 1U << finding->cause && (!most || finding->cost_ms > most->cost_ms))
            most = finding;
    }
    const double left_ms = verdict->idle_ms - verdict->replay.recording_ms;
    if (most && verdict->host_only) {
        aorta_text_printf(out, "; none ran in %.0f%% of it", 100 * left_ms / aorta_verdict_spent_ms(verdict));
        if (verdict->host_alone >= BOUND)
            aorta_text_printf(out, ", collectives on the host alone in %.0f%%", 100 * verdict->host_alone);
        return;
    }
    if (!most || left_ms < IDLE * aorta_verdict_spent_ms(verdict)) return;
    aorta_text_printf(out, "; the device is idle in %.0f%% of it", 100 * left_ms / aorta_verdict_spent_ms(verdict));
    if (most->cause == AORTA_CAUSE_HOST_LAUNCH && verdict->idle_unexplained)
        aorta_text_puts(out, ", and why is not recorded");
    else
        aorta_text_printf(out, ": mostly %s", aorta_cause_plain_name(most->cause));
}

/* ---- by gain ---- */

static void headline_of_gain(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_finding *first = &verdict->findings[0];
    aorta_text_puts(out, "Verdict: limited by ");
    name_finding(verdict, first, out);
    if (first->rank >= 0) aorta_text_printf(out, " (rank %d)", first->rank);
    const double step_ms = aorta_verdict_gained_ms(verdict);
    const int decimals = aorta_verdict_decimals(step_ms);
    aorta_text_printf(out, ": without it the %s is %.*f of %.*f ms shorter (%.0f%%", verdict->whole ? "run" : "step",
                      decimals, first->gain_ms, decimals, step_ms, 100 * first->gain_share);
    aorta_finding_say_range(first, out);
    aorta_text_puts(out, ")");
    if (verdict->replay.floor_ms < step_ms - 1.05 * first->gain_ms)
        aorta_text_printf(out, "; without all causes below it takes %.*f ms", decimals, verdict->replay.floor_ms);
}

/* Each is small; together they are not. */
static void headline_of_gains(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const double step_ms = aorta_verdict_gained_ms(verdict), all_ms = step_ms - verdict->replay.floor_ms;
    aorta_text_printf(
        out,
        "Verdict: several small causes: without all causes below the %s is %.2f of %.2f ms shorter (%.0f%%); "
        "the largest is ",
        verdict->whole ? "run" : "step", all_ms, step_ms, 100 * all_ms / step_ms);
    name_finding(verdict, &verdict->findings[0], out);
    if (is_mostly_exposed(verdict)) say_exposed(verdict, out);
}

/* Nobody knows whether it waits without the recording. */
static void headline_of_recording(const struct aorta_verdict *verdict, struct aorta_text *out) {
    aorta_text_puts(out, "Verdict: the device waits for its host in ");
    say_part(verdict, aorta_verdict_costliest(verdict)->cost_ms, out);
    aorta_text_printf(out, ", but %s: it may not without", verdict->replay.unrecorded_reason);
}

/* ---- by cost ---- */

/* Compute is the largest cause and less than half of the step: the others that are more than it together. */
static const struct group *group_above(const struct aorta_verdict *verdict, const struct aorta_finding *first,
                                       double *cost_ms) {
    const struct group *largest = NULL;
    *cost_ms = first->cost_ms;
    if (first->cause != AORTA_CAUSE_COMPUTE || first->share >= 0.5) return NULL;
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        const double own_ms = cost_of(verdict, &groups[i]);
        if (own_ms <= *cost_ms) continue;
        *cost_ms = own_ms;
        largest = &groups[i];
    }
    return largest;
}

/* Nothing is known of what the step would be without its causes. */
static void headline_of_unknown(const struct aorta_verdict *verdict, const struct aorta_finding *first,
                                struct aorta_text *out) {
    double cost_ms;
    const struct group *group = group_above(verdict, first, &cost_ms);
    aorta_text_puts(out, "Verdict: gains unknown");
    if (verdict->replay.reason) aorta_text_printf(out, " (%s)", verdict->replay.reason);
    aorta_text_puts(out, ": ");
    say_part(verdict, group ? cost_ms : first->cost_ms, out);
    aorta_text_puts(out, " is ");
    if (group)
        aorta_text_printf(out, "%s, %.0f%% compute", group->name, 100 * first->share);
    else
        name_finding(verdict, first, out);
    if (verdict->comm_ms > 0 && verdict->exposed_ms >= BOUND * verdict->step_ms_mean) say_exposed(verdict, out);
    if (!group && first->cause == AORTA_CAUSE_COMPUTE) say_idle(verdict, out);
}

static void headline_of_compute(const struct aorta_verdict *verdict, const struct aorta_finding *compute,
                                struct aorta_text *out) {
    const bool exposed = is_mostly_exposed(verdict) && verdict->replay.known;
    const char *words = verdict->host_only ? "no device in the files; operations of the host: "
                        : verdict->coarse
                            ? "these files do not show what limits: their compute ranges may contain gaps "
                              "of the host: "
                        : verdict->gaps        ? "compute with the gaps between its kernels: "
                        : exposed              ? "nothing to gain: compute is "
                        : compute->share < 0.5 ? "compute is the largest part, below half: "
                                               : "compute-bound: ";
    aorta_text_printf(out, "Verdict: %s", words);
    say_part(verdict, compute->cost_ms, out);
    if (exposed && !verdict->coarse) {
        say_exposed(verdict, out);
        aorta_text_puts(out, verdict->lost_beside > 0.5 ? ", but compute beside it would take longer instead"
                                                        : ", but hiding it would not shorten the step");
    }
    if (!verdict->coarse) say_idle(verdict, out);
}

static void headline_of_cost(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_finding *first = aorta_verdict_costliest(verdict);
    const bool all = first->cause == AORTA_CAUSE_COMPUTE && first->share > 1 - BOUND;
    double cost_ms;
    const struct group *group = group_above(verdict, first, &cost_ms);
    if (!verdict->replay.known && !all && !verdict->coarse && !verdict->gaps) {
        headline_of_unknown(verdict, first, out);
    } else if (group && !verdict->coarse) {
        aorta_text_printf(out, "Verdict: limited by %s: ", group->name);
        say_part(verdict, cost_ms, out);
        aorta_text_printf(out, "; compute is %.0f%%", 100 * first->share);
    } else if (first->cause == AORTA_CAUSE_COMPUTE) {
        headline_of_compute(verdict, first, out);
    } else {
        aorta_text_puts(out, "Verdict: limited by ");
        name_finding(verdict, first, out);
        aorta_text_puts(out, ": ");
        say_part(verdict, first->cost_ms, out);
    }
}

void aorta_verdict_headline(const struct aorta_verdict *verdict, struct aorta_text *out) {
    if (!verdict->finding_count) {
        aorta_text_puts(out, "Verdict: nothing ran");
        return;
    }
    const struct aorta_finding *first = &verdict->findings[0];
    const bool by_gain = aorta_verdict_gains_matter(verdict) && aorta_finding_gains(first);
    const struct aorta_finding *named = by_gain ? first : aorta_verdict_costliest(verdict);
    if (named->cause == AORTA_CAUSE_HOST_LAUNCH && verdict->replay.unrecorded_reason && !verdict->idle_unexplained)
        headline_of_recording(verdict, out);
    else if (by_gain)
        (first->gain_share >= BOUND ? headline_of_gain : headline_of_gains)(verdict, out);
    else
        headline_of_cost(verdict, out);
}
