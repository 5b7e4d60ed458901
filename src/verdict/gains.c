#include "replay/unrecorded.h"
#include "trace/trace.h"
#include "verdict/causes.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MATTERS = 0.005; /* of the step: smaller gains get no finding of their own */
static const double GAINS = 0.01;    /* of the step: smaller gains count as none */
static const double NOTHING = 0.05;  /* of the upper end of a range: a smaller lower end counts as no gain */
static const double ABOVE = 1.25;    /* times: gains with a larger ratio are different */

double aorta_gains_step_ms(const struct gains *gains) {
    return gains->found.replayed_ns / 1e6;
}

/* ---- findings ---- */

struct aorta_finding *aorta_verdict_find(const struct aorta_verdict *verdict, enum aorta_cause cause) {
    struct aorta_finding *best = NULL;
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == cause && (!best || verdict->findings[i].cost_ms > best->cost_ms))
            best = &verdict->findings[i];
    return best;
}

/* Compute takes longer during hidden communication. */
static bool hides(enum aorta_cause cause) {
    return cause == AORTA_CAUSE_EXPOSED_COLLECTIVE || cause == AORTA_CAUSE_SERIALIZED_STREAMS;
}

static double lost_again(const struct gains *gains, enum aorta_cause cause) {
    const struct aorta_verdict *verdict = gains->verdict;
    const double lost = isnan(verdict->lost_beside) ? verdict->lost_usually[0] : verdict->lost_beside;
    return hides(cause) && lost > 0 ? lost : 0;
}

/* The most that compute loses. Overlap in this recording has precedence over the usual loss. */
static double lost_most(const struct gains *gains, enum aorta_cause cause) {
    const double most = gains->verdict->lost_usually[1];
    return hides(cause) && most > 0 ? most : lost_again(gains, cause);
}

/* Lower end of a gain from which lost_again is already subtracted, as a share of that gain. */
static double least_left(const struct gains *gains, enum aorta_cause cause) {
    return (1 - lost_most(gains, cause)) / (1 - lost_again(gains, cause));
}

static void set_loss(const struct gains *gains, struct aorta_finding *finding, double gain_ms) {
    const double lost = lost_most(gains, finding->cause);
    aorta_facts_remove(&finding->facts, AORTA_FACT_LOST_AGAIN);
    if (lost > 0.1 && gain_ms > 0)
        aorta_facts_set(&finding->facts, AORTA_FACT_LOST_AGAIN,
                        gain_ms / (1 - lost_again(gains, finding->cause)) * lost);
}

static double alone_of(const struct gains *gains, enum aorta_removal removal, enum aorta_cause cause) {
    return gains->found.gain_ns[removal] / 1e6 * (1 - lost_again(gains, cause));
}

/* Unexplained lags stay in the replay. In reality a lag may disappear with the cause, or the step may wait for the lag
 * then. Both change the gain by about the lag, at most by the gain itself. */
static double unsure_of(double gain_ms, double lag_ms) {
    return gain_ms + lag_ms > 0 ? gain_ms * lag_ms / (gain_ms + lag_ms) : 0;
}

/* `left`: lower end of the gain, as a share of it. */
static void set_range(const struct gains *gains, struct aorta_finding *finding, double left) {
    const double gain_ms = finding->gain_ms, lag_ms = gains->found.unexplained_share * aorta_gains_step_ms(gains);
    const double unsure_ms = unsure_of(gain_ms, lag_ms);
    const bool shares_cores = gains->analysis->measured && !gains->analysis->ranks[0].trace->on_gpu;
    const double most_ms = aorta_gains_step_ms(gains) > gain_ms ? aorta_gains_step_ms(gains) : gain_ms;
    finding->lag_ms = lag_ms;
    finding->gain_range_ms[0] = gain_ms - unsure_ms;
    finding->gain_range_ms[0] = fmin(finding->gain_range_ms[0], left * gain_ms);
    finding->gain_range_ms[1] = gain_ms + unsure_ms < most_ms ? gain_ms + unsure_ms : most_ms;
    /* Collectives on the host use its cores. How much they slow compute down is unknown. */
    if (hides(finding->cause) && shares_cores && isnan(gains->verdict->lost_beside)) finding->gain_range_ms[0] = 0;
}

/* ---- the shown gain and its range ---- */

bool aorta_finding_gains(const struct aorta_finding *finding) {
    return finding->gain_share >= GAINS || finding->at_best_ms > 0;
}

double aorta_finding_shown_ms(const struct aorta_finding *finding) {
    if (finding->at_best_ms > 0) return finding->at_best_ms;
    if (finding->joint_ms > 0) return finding->joint_ms;
    return finding->only_after || finding->displaced ? finding->gain_ms : fmax(finding->alone_ms, finding->gain_ms);
}

void aorta_finding_shown_range(const struct aorta_finding *finding, double range_ms[2]) {
    if (finding->at_best_ms > 0) {
        range_ms[0] = finding->slowed_ms;
        range_ms[1] = finding->at_best_ms;
        return;
    }
    const double gain_ms = finding->gain_ms, shown_ms = aorta_finding_shown_ms(finding);
    const double scale = gain_ms > 0 ? shown_ms / gain_ms : 0, unsure_ms = unsure_of(gain_ms, finding->lag_ms);
    for (int i = 0; i < 2; i++) range_ms[i] = scale * finding->gain_range_ms[i];
    /* The scaled range contains the lag several times. It counts once. */
    const double narrower_ms = scale * unsure_ms - unsure_of(shown_ms, finding->lag_ms);
    if (!finding->remedy && narrower_ms > 0) {
        if (finding->gain_range_ms[0] >= gain_ms - unsure_ms) range_ms[0] += narrower_ms;
        range_ms[1] -= narrower_ms;
    }
    range_ms[1] = fmax(range_ms[1], shown_ms);
    if (finding->only_after && !(finding->joint_ms > 0)) range_ms[0] = fmin(range_ms[0], finding->alone_ms);
}

bool aorta_finding_is_range(const struct aorta_finding *finding, double range_ms[2]) {
    static const double WIDE = 0.15; /* of the gain */
    aorta_finding_shown_range(finding, range_ms);
    return range_ms[0] >= NOTHING * range_ms[1] && range_ms[1] - range_ms[0] > WIDE * aorta_finding_shown_ms(finding);
}

bool aorta_finding_is_bound(const struct aorta_finding *finding) {
    double range_ms[2];
    aorta_finding_shown_range(finding, range_ms);
    return finding->at_best_ms > 0 || range_ms[0] < NOTHING * range_ms[1];
}

double aorta_finding_most_ms(const struct aorta_finding *finding) {
    double range_ms[2];
    const bool most = aorta_finding_is_range(finding, range_ms) || aorta_finding_is_bound(finding);
    return most ? range_ms[1] : aorta_finding_shown_ms(finding);
}

bool aorta_verdict_gains_matter(const struct aorta_verdict *verdict) {
    const struct aorta_verdict_replay *replay = &verdict->replay;
    const double all_ms = aorta_verdict_gained_ms(verdict);
    if (!replay->known) return false;
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].at_best_ms >= AORTA_GAINS_LITTLE * all_ms) return true;
    return all_ms - replay->floor_ms >= AORTA_GAINS_LITTLE * all_ms;
}

int aorta_verdict_gain_count(const struct aorta_verdict *verdict) {
    int count = 0;
    for (size_t i = 0; i < verdict->finding_count; i++) count += aorta_finding_gains(&verdict->findings[i]);
    return count;
}

const struct aorta_finding *aorta_verdict_costliest(const struct aorta_verdict *verdict) {
    const struct aorta_finding *most = verdict->finding_count ? &verdict->findings[0] : NULL;
    for (size_t i = 1; i < verdict->finding_count; i++)
        if (verdict->findings[i].cost_ms > most->cost_ms) most = &verdict->findings[i];
    return most;
}

bool aorta_verdict_is_bound(const struct aorta_verdict *verdict) {
    static const double MOST = 0.75, ALL = 0.95; /* of the step */
    const struct aorta_finding *compute = aorta_verdict_find(verdict, AORTA_CAUSE_COMPUTE);
    return compute && (compute->share > ALL || (compute->share >= MOST && compute == aorta_verdict_costliest(verdict)));
}

bool aorta_verdict_steps_differ(const struct aorta_verdict *verdict) {
    enum { FEWEST = 10 };           /* steps */
    static const double much = 0.4; /* of the median, between a tenth and nine tenths of the steps */
    const double spread_ms = verdict->step_ms_p90 - verdict->step_ms_p10;
    return verdict->recorded && verdict->iterations >= FEWEST && spread_ms >= much * verdict->step_ms_p50;
}

static const double MANY = 0.3; /* of the pairs of neighbouring steps */

bool aorta_verdict_work_differs(const struct aorta_verdict *verdict) {
    return verdict->steps_unlike >= MANY;
}

bool aorta_verdict_copies_differ(const struct aorta_verdict *verdict) {
    return verdict->copies_unlike >= MANY;
}

/* ---- gains that findings share ---- */

static enum aorta_cause cause_of(enum aorta_removal removal) {
    return aorta_cause_named(aorta_removal_cause(removal));
}

static size_t place_of(const struct gains *gains, enum aorta_removal removal) {
    size_t place = 0;
    while (gains->found.order[place] != removal) place++;
    return place;
}

/* The removal with the largest gain before `place`, among other causes that gain at most `alone_ms` alone; COUNT: none.
 */
static enum aorta_removal largest_before(const struct gains *gains, size_t place, enum aorta_cause own,
                                         double alone_ms) {
    enum aorta_removal largest = AORTA_REMOVAL_COUNT;
    for (size_t i = 0; i < place; i++) {
        const enum aorta_removal before = gains->found.order[i];
        if (gains->found.gain_ns[before] / 1e6 > alone_ms || cause_of(before) == own) continue;
        if (largest == AORTA_REMOVAL_COUNT || gains->found.beyond_ns[before] > gains->found.beyond_ns[largest])
            largest = before;
    }
    return largest;
}

void aorta_gains_share(struct aorta_finding *finding, enum aorta_cause cause, double ms) {
    if (finding->share_count < AORTA_SHARES && ms > 0)
        finding->shares[finding->share_count++] = (struct aorta_shared_gain){cause, ms};
}

double aorta_gain_without(const struct gains *gains, uint32_t removed) {
    struct aorta_replay replay = {0};
    aorta_replay_run(gains->graph, removed, &replay);
    const double gain_ms = (gains->found.replayed_ns - replay.step_ns) / 1e6;
    aorta_arena_end(&replay.memory, gains->verdict->arena);
    return fmax(gain_ms, 0);
}

static void pair(const struct gains *gains, uint32_t removed, enum aorta_removal partner,
                 struct aorta_finding *finding) {
    const bool unsure = finding->cause == AORTA_CAUSE_HOST_LAUNCH && gains->verdict->replay.unrecorded_reason;
    if (unsure && finding->cost_ms < AORTA_GAINS_LITTLE * aorta_gains_step_ms(gains))
        return; /* late launches may be the profiler's cost */
    const double joint_ms = aorta_gain_without(gains, removed | aorta_removal_bit(partner));
    const double partner_ms = gains->found.gain_ns[partner] / 1e6;
    if (joint_ms - partner_ms >= 0.5 * joint_ms) /* most of the joint gain is this finding's */
        finding->joint_ms = joint_ms - lost_again(gains, finding->cause) * (joint_ms - partner_ms);
}

/* The removal at order[later] gains most of the gain of order[place] alone, and nothing after it. */
static bool is_instead(const struct gains *gains, size_t place, size_t later) {
    static const double MOST = 0.5;
    const struct aorta_gains *found = &gains->found;
    const double alone_ns = found->gain_ns[found->order[later]];
    return alone_ns / 1e6 >= GAINS * aorta_gains_step_ms(gains) &&
           alone_ns >= MOST * found->beyond_ns[found->order[place]] &&
           found->beyond_ns[found->order[later]] / 1e6 < GAINS * aorta_gains_step_ms(gains);
}

/* Shares the gain with a later cause that saves the same time and therefore shows no gain itself. Example: a wait for
 * the GPU uses up the host's lead before the host stalls. */
static void find_instead(const struct gains *gains, enum aorta_removal removal, struct aorta_finding *finding) {
    const size_t place = place_of(gains, removal);
    for (size_t i = place + 1; i < AORTA_REMOVAL_COUNT && !finding->share_count; i++) {
        const enum aorta_cause cause = cause_of(gains->found.order[i]);
        if (cause == AORTA_CAUSE_HOST_PAUSE || aorta_cause_has_kind(cause)) continue;
        if (is_instead(gains, place, i))
            aorta_gains_share(finding, cause, fmin(alone_of(gains, gains->found.order[i], cause), finding->gain_ms));
    }
}

/* Finds another cause that saves the same time, or that must be fixed, too. `removed`: the finding's removals. */
static void relate(const struct gains *gains, enum aorta_removal removal, uint32_t removed,
                   struct aorta_finding *finding) {
    const size_t place = place_of(gains, removal);
    const double least_ms = GAINS * aorta_gains_step_ms(gains), gain_ms = finding->gain_ms,
                 alone_ms = finding->alone_ms;
    const enum aorta_removal before = largest_before(gains, place, finding->cause, INFINITY);
    finding->share_count = 0;
    if (before == AORTA_REMOVAL_COUNT) return;
    if (alone_ms > ABOVE * gain_ms + least_ms) {
        /* Specific causes are removed first, even if they gain less alone (replay.c). They get this gain. */
        const enum aorta_removal specific = largest_before(gains, place, finding->cause, alone_ms);
        finding->displaced = specific != AORTA_REMOVAL_COUNT && gains->found.beyond_ns[specific] > 0;
        aorta_gains_share(finding, cause_of(finding->displaced ? specific : before), alone_ms - gain_ms);
    } else if (gain_ms > ABOVE * alone_ms + least_ms) {
        finding->only_after = true;
        finding->partner = cause_of(before);
        pair(gains, removed, before, finding);
    }
}

/* ---- one finding ---- */

struct aorta_finding *aorta_gains_new_finding(struct aorta_verdict *verdict, enum aorta_cause cause) {
    struct aorta_finding *finding = &verdict->findings[verdict->finding_count++];
    *finding = (struct aorta_finding){.cause = cause, .rank = -1, .facts = {.arena = verdict->arena}};
    return finding;
}

/* `hidden`: the gain comes from communication during compute, which slows compute down. */
static void set_gain(const struct gains *gains, struct aorta_finding *finding, double gain_ms, double alone_ms,
                     bool hidden) {
    finding->gain_ms = gain_ms;
    finding->alone_ms = alone_ms;
    finding->gain_share = aorta_gains_step_ms(gains) > 0 ? gain_ms / aorta_gains_step_ms(gains) : 0;
    set_range(gains, finding, hidden ? least_left(gains, finding->cause) : 1);
    set_loss(gains, finding, hidden ? gain_ms : 0);
    /* The wait costs more than its idle time: the host launches late afterwards. */
    if (fmax(gain_ms, alone_ms) <= ABOVE * finding->cost_ms + GAINS * aorta_gains_step_ms(gains)) return;
    if (finding->cause == AORTA_CAUSE_COPY) aorta_facts_flag(&finding->facts, AORTA_FACT_HOST_WAITS);
    if (finding->cause == AORTA_CAUSE_HOST_SYNC && aorta_facts_has(&finding->facts, AORTA_FACT_IDLE_SYNCED)) {
        aorta_facts_set(&finding->facts, AORTA_FACT_LATE_AFTER, fmax(gain_ms, alone_ms) - finding->cost_ms);
        aorta_facts_remove(&finding->facts, AORTA_FACT_GAP); /* gaps are a small part of the gain */
    }
}

static void add_origin(struct gains *gains, struct aorta_finding *finding, enum aorta_removal removal) {
    struct aorta_origin origin;
    struct aorta_verdict *verdict = gains->verdict;
    aorta_replay_origin(gains->graph, removal, &origin, verdict->arena);
    if (verdict->rank_count > 1)
        finding->rank = origin.rank == AORTA_GRAPH_NONE ? -1 : gains->analysis->ranks[origin.rank].rank;
    if (finding->cause == AORTA_CAUSE_STRAGGLER) aorta_facts_flag(&finding->facts, AORTA_FACT_LATE_DEVICE);
    if (finding->cause == AORTA_CAUSE_STRAGGLER && origin.rank != AORTA_GRAPH_NONE &&
        gains->graph->ranks[origin.rank].more_work)
        aorta_facts_flag(&finding->facts, AORTA_FACT_UNEQUAL_WORK);
    if (origin.point != AORTA_GRAPH_NONE) aorta_gains_add_origin(gains, finding, &origin);
}

/* If most of the gain is in a collective on the compute stream, the gain belongs to the finding of serialized streams.
 */
static struct aorta_finding *of_its_kind(const struct gains *gains, struct aorta_finding *exposed) {
    struct aorta_origin origin;
    struct aorta_finding *found = exposed;
    if (!aorta_verdict_find(gains->verdict, AORTA_CAUSE_SERIALIZED_STREAMS)) return exposed;
    aorta_replay_origin(gains->graph, AORTA_WITHOUT_EXPOSED_COLLECTIVE, &origin, gains->verdict->arena);
    const bool known = origin.point != AORTA_GRAPH_NONE;
    const struct aorta_trace_work *work = known ? aorta_trace_graph_work(gains->built, origin.point) : NULL;
    if (!work || !aorta_trace_is_collective(work)) return exposed;
    const struct aorta_trace *trace = aorta_trace_graph_trace(gains->built, origin.point);
    AORTA_EACH (struct aorta_finding, finding, gains->verdict->findings, gains->verdict->finding_count)
        if (finding->cause == AORTA_CAUSE_SERIALIZED_STREAMS && !(found && found->cost_ms >= finding->cost_ms) &&
            finding->collective == aorta_trace_collective_kind(trace, work))
            found = finding;
    return found;
}

static void add_gain(struct gains *gains, enum aorta_removal removal, enum aorta_cause cause) {
    struct aorta_finding *finding = aorta_verdict_find(gains->verdict, cause);
    if (cause == AORTA_CAUSE_EXPOSED_COLLECTIVE) finding = of_its_kind(gains, finding);
    const double gain_ms = gains->found.beyond_ns[removal] / 1e6 * (1 - lost_again(gains, cause));
    const bool matters = gain_ms >= MATTERS * aorta_gains_step_ms(gains) && gain_ms > 0;
    if (!finding && (!matters || aorta_cause_has_kind(cause))) return; /* the kind of collective is unknown */
    if (!finding) finding = aorta_gains_new_finding(gains->verdict, cause);
    if (finding->gain_ms > gain_ms) return; /* it already has the gain of exposed collectives (of_its_kind) */
    set_gain(gains, finding, gain_ms, alone_of(gains, removal, cause), true);
    relate(gains, removal, aorta_removal_bit(removal), finding);
    if (matters && !finding->only_after) find_instead(gains, removal, finding);
    if (matters) add_origin(gains, finding, removal);
}

/* The step waits for its input if a copy to the device follows almost all stalls. */
static const double MOSTLY = 0.8;

static double input_of(const struct gains *gains, uint32_t pauses) {
    double ns = 0;
    for (int i = AORTA_WITHOUT_HOST_PAUSE; i <= AORTA_WITHOUT_HOST_PAUSE_ELSE; i++)
        if (pauses & aorta_removal_bit((enum aorta_removal)i) && aorta_gains_input(gains, (enum aorta_removal)i))
            ns += gains->found.beyond_ns[i];
    return ns;
}

/* Stalls of the host at several places have the same fix. They are one finding with the gain of all of them. */
static void add_pauses(struct gains *gains) {
    enum aorta_removal largest = AORTA_WITHOUT_HOST_PAUSE;
    uint32_t removed = 0;
    int places = 0;
    double gain_ns = 0, stalls = 0;
    for (int i = AORTA_WITHOUT_HOST_PAUSE; i <= AORTA_WITHOUT_HOST_PAUSE_ELSE; i++) {
        const double beyond_ns = gains->found.beyond_ns[i];
        if (!(beyond_ns / 1e6 >= MATTERS * aorta_gains_step_ms(gains)) || !(beyond_ns > 0)) continue;
        if (!places || beyond_ns > gains->found.beyond_ns[largest]) largest = (enum aorta_removal)i;
        struct aorta_origin origin;
        aorta_replay_origin(gains->graph, (enum aorta_removal)i, &origin, gains->verdict->arena);
        stalls += origin.count;
        removed |= aorta_removal_bit((enum aorta_removal)i);
        gain_ns += beyond_ns;
        places++;
    }
    if (!places) return;
    struct aorta_finding *finding = aorta_gains_new_finding(gains->verdict, AORTA_CAUSE_HOST_PAUSE);
    if (stalls > 1) aorta_facts_set(&finding->facts, AORTA_FACT_STALLS, stalls);
    if (places > 1) aorta_facts_set(&finding->facts, AORTA_FACT_PAUSE_COUNT, places);
    if (places > 1 && stalls > places && removed & aorta_removal_bit(AORTA_WITHOUT_HOST_PAUSE_ELSE))
        aorta_facts_flag(&finding->facts, AORTA_FACT_PAUSE_ELSE);
    set_gain(gains, finding, gain_ns / 1e6, aorta_gain_without(gains, removed), false);
    relate(gains, largest, removed, finding);
    if (!finding->only_after) find_instead(gains, largest, finding);
    add_origin(gains, finding, largest);
    if (aorta_facts_has(&finding->facts, AORTA_FACT_PAUSE_INPUT) && input_of(gains, removed) >= MOSTLY * gain_ns &&
        !aorta_verdict_find(gains->verdict, AORTA_CAUSE_DATA_WAIT))
        finding->cause = AORTA_CAUSE_DATA_WAIT;
}

/* Findings refer to stalls that wait for input by the cause of waiting for data. */
static void name_input(struct aorta_verdict *verdict) {
    const struct aorta_finding *input = aorta_verdict_find(verdict, AORTA_CAUSE_DATA_WAIT);
    if (!input || !aorta_facts_has(&input->facts, AORTA_FACT_PAUSE_INPUT)) return;
    AORTA_EACH (struct aorta_finding, finding, verdict->findings, verdict->finding_count) {
        if (finding->partner == AORTA_CAUSE_HOST_PAUSE) finding->partner = AORTA_CAUSE_DATA_WAIT;
        for (int j = 0; j < finding->share_count; j++)
            if (finding->shares[j].cause == AORTA_CAUSE_HOST_PAUSE) finding->shares[j].cause = AORTA_CAUSE_DATA_WAIT;
    }
}

static int by_shown_gain(const void *left, const void *right) {
    const struct aorta_finding *a = left, *b = right;
    const double x = aorta_finding_gains(a) ? aorta_finding_most_ms(a) : 0;
    const double y = aorta_finding_gains(b) ? aorta_finding_most_ms(b) : 0;
    if (x > y || x < y) return x > y ? -1 : 1;
    return (a->cost_ms < b->cost_ms) - (a->cost_ms > b->cost_ms);
}

void aorta_findings_order(struct aorta_finding *findings, size_t count) {
    qsort(findings, count, sizeof *findings, by_shown_gain);
}

/* Launches cost nothing if late launches gain nothing and no ranges hide gaps. */
static void clear_launches(struct aorta_verdict *verdict) {
    struct aorta_finding *compute = aorta_verdict_find(verdict, AORTA_CAUSE_COMPUTE);
    const struct aorta_finding *launches = aorta_verdict_find(verdict, AORTA_CAUSE_HOST_LAUNCH);
    bool cost = verdict->gaps || verdict->coarse || (launches && aorta_finding_gains(launches));
    if (compute && !cost) aorta_facts_remove(&compute->facts, AORTA_FACT_LAUNCHES_COST);
}

/* The replay cannot split micro-batches. The gain of twice as many follows from the formula and the host's time. */
static void add_bubble(struct gains *gains) {
    struct aorta_finding *finding = aorta_verdict_find(gains->verdict, AORTA_CAUSE_PIPELINE_BUBBLE);
    if (finding) aorta_bubble_limit(gains, &finding->facts);
    const struct aorta_fact *twice = finding ? aorta_facts_find(&finding->facts, AORTA_FACT_GAIN_OF_TWICE) : NULL;
    if (twice) set_gain(gains, finding, twice->value, twice->value, false);
}

void aorta_gains_replace(const struct gains *gains, struct aorta_finding *finding, double gain_ms) {
    set_gain(gains, finding, gain_ms, gain_ms, false);
    finding->only_after = finding->displaced = false;
    finding->joint_ms = 0;
    finding->share_count = 0;
}

/* Stalls are part of the idle time with nothing queued. They do not count as late launches. */
static void separate_stalls(struct aorta_verdict *verdict) {
    static const double LITTLE = 0.1;
    struct aorta_finding *launches = aorta_verdict_find(verdict, AORTA_CAUSE_HOST_LAUNCH);
    const struct aorta_fact *idle = launches ? aorta_facts_find(&launches->facts, AORTA_FACT_IDLE_UNQUEUED) : NULL;
    double stalled_ms = 0;
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == AORTA_CAUSE_HOST_PAUSE || verdict->findings[i].cause == AORTA_CAUSE_DATA_WAIT)
            stalled_ms += verdict->findings[i].alone_ms;
    if (!idle) return;
    stalled_ms = fmin(stalled_ms, idle->value - launches->gain_ms); /* the gain of late launches is no stall */
    if (stalled_ms < LITTLE * idle->value) return;
    const struct aorta_fact *count = aorta_facts_find(&launches->facts, AORTA_FACT_LAUNCHES);
    const struct aorta_fact *period = aorta_facts_find(&launches->facts, AORTA_FACT_LAUNCH_PERIOD);
    if (count && period)
        aorta_facts_set(&launches->facts, AORTA_FACT_LAUNCH_PERIOD,
                        fmax(period->value - 1e3 * stalled_ms / count->value, 0));
    aorta_facts_set(&launches->facts, AORTA_FACT_IDLE_STALLED, stalled_ms);
}

/* A recording does not show whether compute on the same stream needs the collective, or the copy from another GPU. */
static bool is_upper_bound(const struct aorta_verdict *verdict, const struct aorta_finding *finding) {
    const bool queued =
        finding->cause == AORTA_CAUSE_SERIALIZED_STREAMS && aorta_facts_has(&finding->facts, AORTA_FACT_OWN_STREAM);
    const bool peer = finding->cause == AORTA_CAUSE_COPY && aorta_facts_has(&finding->facts, AORTA_FACT_PEER_COPIES);
    return verdict->recorded && aorta_finding_gains(finding) && (queued || peer);
}

static void bound(const struct gains *gains, struct aorta_finding *finding, double most_ms) {
    const bool slowed = !gains->verdict->ranks_missing;
    finding->at_best_ms = most_ms;
    finding->slowed_ms = slowed ? least_left(gains, finding->cause) * most_ms : most_ms;
    set_loss(gains, finding, slowed ? most_ms : 0);
}

/* Another GPU needs the copied data. Only kernels that run during the copy can hide it. */
static void limit_peers(const struct gains *gains) {
    struct aorta_finding *copy = aorta_verdict_find(gains->verdict, AORTA_CAUSE_COPY);
    const struct aorta_fact *limit = copy ? aorta_facts_find(&copy->facts, AORTA_FACT_OVERLAP_LIMIT) : NULL;
    if (!limit || !aorta_facts_has(&copy->facts, AORTA_FACT_PEER_COPIES)) return;
    const double beyond_ms = aorta_finding_shown_ms(copy) - limit->value;
    if (beyond_ms <= 0) return;
    aorta_gains_replace(gains, copy, limit->value);
    gains->verdict->replay.floor_ms += beyond_ms;
}

/* Gradients that are reduced after the backward pass could be reduced during it. */
static void bound_reductions(const struct gains *gains, struct aorta_finding *finding) {
    const bool exposed = finding->cause == AORTA_CAUSE_EXPOSED_COLLECTIVE;
    if (!exposed && finding->cause != AORTA_CAUSE_SERIALIZED_STREAMS) return;
    if (finding->cost_ms < AORTA_GAINS_LITTLE * aorta_gains_step_ms(gains)) return;
    if (2 * fmax(finding->alone_ms, finding->gain_ms) >= finding->cost_ms) return;
    const double most_ms = fmin(finding->cost_ms, aorta_limit_of_earlier_reductions(gains, finding->collective));
    if (!(most_ms > finding->gain_ms)) return;
    aorta_facts_flag(&finding->facts, AORTA_FACT_AFTER_BACKWARD);
    if (!gains->verdict->ranks_missing) bound(gains, finding, (1 - lost_again(gains, finding->cause)) * most_ms);
}

/* Without the files of the other ranks, waiting and transfer cannot be separated: all exposed time may disappear. The
 * same applies if compute waits for activations or for data of other ranks, as parts of compute could run meanwhile. */
static void add_upper_bounds(const struct gains *gains) {
    struct aorta_verdict *verdict = gains->verdict;
    const double step = aorta_verdict_gained_ms(verdict);
    AORTA_EACH (struct aorta_finding, finding, verdict->findings, verdict->finding_count) {
        if (is_upper_bound(verdict, finding)) bound(gains, finding, aorta_finding_shown_ms(finding));
        bound_reductions(gains, finding);
        const bool less =
            2 * finding->alone_ms < finding->cost_ms ||
            (aorta_facts_has(&finding->facts, AORTA_FACT_GAIN_OF_ONCE) && finding->alone_ms < finding->cost_ms);
        const bool much = finding->cost_ms >= AORTA_GAINS_LITTLE * step && less;
        const bool needed = aorta_facts_has(&finding->facts, AORTA_FACT_ACTIVATIONS) ||
                            (verdict->recorded && finding->collective == AORTA_ALL_TO_ALL);
        const bool exchange =
            finding->cause == AORTA_CAUSE_SERIALIZED_STREAMS && finding->collective == AORTA_ALL_TO_ALL;
        if (finding->cause != AORTA_CAUSE_EXPOSED_COLLECTIVE && !exchange) continue;
        if (!much || !(verdict->ranks_missing || needed)) continue;
        const double lost = verdict->ranks_missing ? 0 : lost_again(gains, finding->cause);
        bound(gains, finding, (1 - lost) * fmin(finding->cost_ms, step));
        if (verdict->ranks_missing) aorta_facts_set(&finding->facts, AORTA_FACT_RANKS_MISSING, verdict->ranks_missing);
    }
}

/* A stall that is longer than the gain of all steps is mostly not gained, as other work does not end sooner. */
static void split_stalls(struct aorta_verdict *verdict) {
    const double steps = verdict->whole ? 1 : (double)verdict->iterations;
    AORTA_EACH (struct aorta_finding, finding, verdict->findings, verdict->finding_count) {
        const struct aorta_fact *pause = aorta_facts_find(&finding->facts, AORTA_FACT_PAUSE);
        double range_ms[2];
        aorta_finding_shown_range(finding, range_ms);
        if (!pause || pause->value <= ABOVE * range_ms[1] * steps) continue;
        const struct aorta_fact stall = *pause;
        aorta_facts_remove(&finding->facts, AORTA_FACT_PAUSE);
        struct aorta_fact *partly = aorta_facts_set(&finding->facts, AORTA_FACT_PARTLY_GAINED, stall.value);
        partly->place = stall.place;
    }
}

/* A gain can exceed idle time: waits make later launches late, other ranks wait for late launches, and work that is
 * launched ahead starts sooner. */
static void explain_beyond_idle(const struct gains *gains) {
    const struct aorta_verdict *verdict = gains->verdict;
    struct aorta_finding *waits = aorta_verdict_find(verdict, AORTA_CAUSE_HOST_SYNC);
    struct aorta_finding *launches = aorta_verdict_find(verdict, AORTA_CAUSE_HOST_LAUNCH);
    const struct aorta_finding *starts = aorta_verdict_find(verdict, AORTA_CAUSE_LAUNCH_LATENCY),
                               *late = aorta_verdict_find(verdict, AORTA_CAUSE_STRAGGLER);
    const struct aorta_fact *after = waits ? aorta_facts_find(&waits->facts, AORTA_FACT_LATE_AFTER) : NULL;
    const double after_ms = after ? fmin(after->value, aorta_finding_shown_ms(waits) - waits->cost_ms) : 0;
    if (after) aorta_facts_remove(&waits->facts, AORTA_FACT_LATE_AFTER);
    if (after_ms > 0) aorta_facts_set(&waits->facts, AORTA_FACT_LATE_AFTER, after_ms);
    if (!launches) return;
    double left_ms = aorta_finding_shown_ms(launches) - launches->cost_ms;
    const double little_ms = (ABOVE - 1) * launches->cost_ms + GAINS * aorta_gains_step_ms(gains);
    if (left_ms > little_ms && late && aorta_facts_has(&late->facts, AORTA_FACT_LATE_HOST) &&
        late->cost_ms >= AORTA_GAINS_LITTLE * aorta_gains_step_ms(gains)) {
        const double waited_ms = fmin(late->cost_ms, left_ms);
        aorta_facts_set(&launches->facts, AORTA_FACT_WAITED, waited_ms);
        left_ms -= waited_ms;
    }
    if (left_ms > little_ms && starts)
        aorta_facts_set(&launches->facts, AORTA_FACT_STARTED_TOO, fmin(left_ms, starts->cost_ms));
}

/* Launches that limit the step only after another cause is fixed: the joint gain moves to that cause. */
static void put_launches_second(struct aorta_verdict *verdict) {
    static const double LITTLE = 0.01; /* of the gain */
    struct aorta_finding *launches = aorta_verdict_find(verdict, AORTA_CAUSE_HOST_LAUNCH);
    if (!launches || !launches->only_after) return;
    if (verdict->replay.recording_ms > 0 || launches->cost_ms > LITTLE * launches->gain_ms) return;
    static const enum aorta_fact_key idle[] = {AORTA_FACT_IDLE_UNQUEUED, AORTA_FACT_IDLE_UNKNOWN,
                                               AORTA_FACT_UNEXPLAINED, AORTA_FACT_GAP};
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) aorta_facts_remove(&launches->facts, idle[i]);
    aorta_facts_flag(&launches->facts, AORTA_FACT_LIMIT_NEXT);
    struct aorta_finding *first = aorta_verdict_find(verdict, launches->partner);
    if (!first || first->joint_ms > 0 || !(launches->joint_ms > 0)) return;
    first->partner = AORTA_CAUSE_HOST_LAUNCH;
    first->joint_ms = launches->joint_ms;
    launches->joint_ms = 0;
}

/* Gains are shared only with causes of the verdict. */
static void drop_foreign_shares(struct aorta_verdict *verdict) {
    AORTA_EACH (struct aorta_finding, finding, verdict->findings, verdict->finding_count) {
        int left = 0;
        for (int j = 0; j < finding->share_count; j++)
            if (aorta_verdict_find(verdict, finding->shares[j].cause)) finding->shares[left++] = finding->shares[j];
        finding->share_count = left;
    }
}

/* All fixes together save at least as much as the best single fix, even if the replay cannot make that fix. Upper
 * bounds are about different times: they add up, also with the other gains. */
static void bound_floor(struct aorta_verdict *verdict) {
    const double step = aorta_verdict_gained_ms(verdict), replayed = verdict->replay.floor_ms;
    double bounds = 0, beyond = 0;
    AORTA_EACH (const struct aorta_finding, finding, verdict->findings, verdict->finding_count) {
        if (!aorta_finding_gains(finding)) continue;
        *(finding->at_best_ms > 0 ? &bounds : &beyond) +=
            finding->at_best_ms > 0 ? finding->at_best_ms : finding->gain_ms;
        verdict->replay.floor_ms = fmin(verdict->replay.floor_ms, step - aorta_finding_shown_ms(finding));
    }
    if (bounds > 0 && bounds + beyond < step) /* else they overlap */
        verdict->replay.floor_ms = fmin(verdict->replay.floor_ms, step - bounds - beyond);
    if (verdict->replay.floor_ms <= 0) verdict->replay.floor_ms = fmax(verdict->compute_ms - bounds, 0);
    verdict->replay.bounded = bounds > 0 && verdict->replay.floor_ms < replayed;
}

static void add_gains(struct gains *gains) {
    struct aorta_verdict *verdict = gains->verdict;
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        const enum aorta_cause cause = cause_of(gains->found.order[i]);
        if (cause != AORTA_CAUSE_HOST_PAUSE) add_gain(gains, gains->found.order[i], cause);
    }
    add_pauses(gains);
    separate_stalls(verdict);
    aorta_verdict_walk_left(gains->built, gains->graph, verdict->replay.floor_ms, &verdict->replay.left,
                            verdict->arena);
    if (verdict->arena->failed) return; /* without a step time all remedies would gain, also those without a model */
    add_bubble(gains);
    aorta_gains_add_fixes(gains);
    aorta_remedy_gains_add(gains->remedies, gains->built, &gains->found, verdict);
    name_input(verdict);
    clear_launches(verdict);
    put_launches_second(verdict);
    limit_peers(gains);
    add_upper_bounds(gains);
    bound_floor(verdict);
    drop_foreign_shares(verdict);
    split_stalls(verdict);
    explain_beyond_idle(gains);
    aorta_findings_order(verdict->findings, verdict->finding_count);
}

double aorta_verdict_gained_ms(const struct aorta_verdict *verdict) {
    return verdict->replay.unrecorded_ms > 0 ? verdict->replay.unrecorded_ms : verdict->replay.replayed_ms;
}

double aorta_verdict_spent_ms(const struct aorta_verdict *verdict) {
    return verdict->step_ms_mean - verdict->replay.recording_ms;
}

bool aorta_verdict_is_unrecorded(const struct aorta_verdict *verdict) {
    static const double CHANGES = 0.005;
    const struct aorta_verdict_replay *replay = &verdict->replay;
    return replay->unrecorded_ms > 0 && replay->measured_ms - replay->unrecorded_ms >= CHANGES * replay->measured_ms;
}

/* Subtracts the recorder's cost from causes in which the device waits for the host. */
static void take_recording_out(struct aorta_verdict *verdict) {
    static const enum aorta_cause waits[] = {AORTA_CAUSE_HOST_LAUNCH, AORTA_CAUSE_LAUNCH_LATENCY, AORTA_CAUSE_HOST_SYNC,
                                             AORTA_CAUSE_DATA_WAIT};
    struct aorta_verdict_replay *replay = &verdict->replay;
    if (!(replay->unrecorded_ms > 0) || replay->unrecorded_ms >= replay->replayed_ms) return;
    double left_ms = verdict->step_ms_mean - replay->unrecorded_ms; /* costs then add up to unrecorded_ms */
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        struct aorta_finding *finding = aorta_verdict_find(verdict, waits[i]);
        if (!finding) continue;
        const double taken_ms = finding->cost_ms < left_ms ? finding->cost_ms : left_ms;
        finding->cost_ms -= taken_ms;
        if (aorta_verdict_is_unrecorded(verdict))
            aorta_facts_set(&finding->facts, AORTA_FACT_RECORDED_STEP, replay->measured_ms);
        left_ms -= taken_ms;
        replay->recording_ms += taken_ms;
    }
    const double step_ms = aorta_verdict_spent_ms(verdict);
    for (size_t i = 0; i < verdict->finding_count && replay->recording_ms > 0; i++)
        verdict->findings[i].share = step_ms > 0 ? verdict->findings[i].cost_ms / step_ms : 0;
}

/* `unrecorded`: the removal of the recorder's cost from the graph. */
static void measure(struct gains *gains, const struct aorta_unrecorded *unrecorded) {
    aorta_gains_measure(gains->graph, &gains->found, gains->verdict->arena);
    if (gains->verdict->arena->failed) return;
    const struct aorta_gains *found = &gains->found;
    struct aorta_verdict *verdict = gains->verdict;
    struct aorta_verdict_replay *replay = &verdict->replay;
    double again_ns = 0; /* compute is slower during hidden collectives */
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++)
        again_ns += found->beyond_ns[i] * lost_again(gains, cause_of((enum aorta_removal)i));
    *replay = (struct aorta_verdict_replay){
        .known = found->unexplained_share <= AORTA_UNEXPLAINED_LIMIT && found->path.length_ns > 0,
        .measured_ms = (unrecorded->known ? unrecorded->recorded_ns : found->measured_ns) / 1e6,
        .replayed_ms = (unrecorded->known ? unrecorded->recorded_ns : found->replayed_ns) / 1e6,
        .unrecorded_ms = unrecorded->known ? found->replayed_ns / 1e6 : 0,
        .unrecorded_range_ms = {unrecorded->range_ns[0] / 1e6, unrecorded->range_ns[1] / 1e6},
        .unrecorded_reason = unrecorded->reason,
        .floor_ms = (found->floor_ns + again_ns) / 1e6,
        .inferred_share = found->inferred_share,
        .unexplained_share = found->unexplained_share,
    };
    take_recording_out(gains->verdict);
    if (replay->known)
        add_gains(gains);
    else
        replay->reason = "the recording does not explain most of what the step waits for";
}

/* ---- usual loss of compute during newly hidden communication, if the recording has no overlap to measure ---- */

/* The share of the shorter side that overlap did not save, measured on two H200 (tests/gpu/contention.py,
 * docs/results.md). First figure: nothing depends on the communication. Second figure: each layer waits for data that
 * is fetched during the previous layer. Products and attention occupy all multiprocessors until they end. Attention:
 * forward pass; the backward pass loses 0.22. */
static const double lost[AORTA_WORK_CLASS_COUNT][2] = {
    [AORTA_WORK_GEMM] = {0.50, 0.78},      [AORTA_WORK_CONVOLUTION] = {0.20, 0.20},
    [AORTA_WORK_ATTENTION] = {0.39, 0.74}, [AORTA_WORK_POINTWISE] = {0.33, 0.33},
    [AORTA_WORK_REDUCTION] = {0.38, 0.38}, [AORTA_WORK_OTHER] = {0.36, 0.36},
};

/* Collectives use multiprocessors, not copy engines. */
static bool are_kernels(const struct aorta_trace_analysis *analysis) {
    int64_t kernels_ns = 0, copies_ns = 0;
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        for (size_t j = 0; j < rank->work_count; j++) {
            if (!aorta_trace_is_collective(&rank->work[j])) continue;
            *(rank->work[j].kind == AORTA_TRACE_COPY ? &copies_ns : &kernels_ns) +=
                rank->work[j].end_ns - rank->work[j].start_ns;
        }
    }
    return kernels_ns > copies_ns;
}

/* Share of compute in kernels with at least one thread block per multiprocessor. Communication waits for these. */
static double covering(const struct aorta_trace_rank *rank) {
    const int32_t most = aorta_trace_multiprocessors(rank->trace, rank->device);
    int64_t covering_ns = 0, ns = 0;
    AORTA_EACH (const struct aorta_trace_work, work, rank->work, rank->work_count) {
        if (work->kind != AORTA_TRACE_KERNEL || aorta_trace_is_collective(work)) continue;
        ns += work->end_ns - work->start_ns;
        if (most > 0 && work->blocks >= most) covering_ns += work->end_ns - work->start_ns;
    }
    return ns ? (double)covering_ns / (double)ns : 0;
}

static void find_usual_loss(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    verdict->lost_usually[0] = verdict->lost_usually[1] = NAN;
    if (!isnan(verdict->slowdown.lost_per_ns) || !verdict->roofline_count || !are_kernels(analysis)) return;
    const struct aorta_roofline *roofline = &verdict->rooflines[0];
    const char *device = roofline->peaks.device;
    if (!device || !(strstr(device, "H100") || strstr(device, "H200"))) return; /* `lost` was measured on these */
    double lost_ns[2] = {0}, ns = 0;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        ns += (double)roofline->classes[i].ns;
        for (int j = 0; j < 2; j++) lost_ns[j] += lost[i][j] * (double)roofline->classes[i].ns;
    }
    if (!(ns > 0)) return;
    verdict->lost_usually[0] = covering(&analysis->ranks[0]) * lost_ns[0] / ns;
    verdict->lost_usually[1] = lost_ns[1] / ns;
}

/* ---- the whole ---- */

/* Why no graph could be made. */
static const char *reason_of(const struct aorta_trace_analysis *analysis) {
    if (!analysis->common_clock) return "the ranks' clocks are not one";
    return analysis->measured ? "fewer than three steps follow each other"
                              : "the steps that were chosen do not follow each other, or are too large";
}

static aorta_status measure_with(const struct aorta_trace_analysis *analysis, struct aorta_remedy_gains *remedies,
                                 struct aorta_trace_graph *built, struct aorta_verdict *verdict) {
    struct aorta_unrecorded unrecorded;
    aorta_status unbuilt = aorta_trace_graph_make(analysis, built);
    if (aorta_status_code(unbuilt) == AORTA_UNSUPPORTED) { /* no failure: the verdict then has no gains */
        aorta_status_free(unbuilt);
        verdict->replay.reason = reason_of(analysis);
        return NULL;
    }
    AORTA_TRY(unbuilt);
    AORTA_TRY(aorta_trace_graph_unrecord(built, &unrecorded));
    struct gains gains = {
        .verdict = verdict, .graph = &built->graph, .analysis = analysis, .built = built, .remedies = remedies};
    verdict->lost_beside = verdict->slowdown.lost_per_ns;
    find_usual_loss(analysis, verdict);
    measure(&gains, &unrecorded);
    return aorta_arena_check(verdict->arena, "the gains");
}

/* Remedies come first, as most of their memory is free again before the graph is made. */
aorta_status aorta_verdict_gains(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    struct aorta_remedy_gains *remedies = NULL;
    struct aorta_trace_graph built = {0};
    if (verdict->host_only) {
        verdict->replay.reason = "the recording has no device";
        return NULL;
    }
    aorta_status status = aorta_remedy_gains_find(analysis, &remedies);
    if (!status) status = measure_with(analysis, remedies, &built, verdict);
    aorta_trace_graph_free(&built);
    aorta_remedy_gains_free(remedies);
    return status;
}
