#include "replay/unrecorded.h"
#include "verdict/advice.h"
#include "verdict/gains_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MATTERS = 0.005; /* of the step: smaller gains are no reason for a row of their own */
static const double ORDERS = 0.01;   /* … for a place before causes that cost more */
static const double PLACED = 0.2;    /* what gains this much at one place comes before launches in general, */
static const double NEARLY = 0.5;    /* … where that is this part of what they gain */
static const double SHOWS = 0.1;     /* of the gain: what costs less shows under other causes */
static const double ABOVE = 1.25;    /* times its cost, or its gain beside others: what gains more says why */
static const double WIDE = 0.3;      /* of a gain: a range that is wider is said */

/* The step that gains are of. */
static double step_ms(const struct gains *gains) {
    return gains->found.replayed_ns / 1e6;
}

/* ---- findings ---- */

static struct aorta_finding *find(struct aorta_verdict *verdict, enum aorta_cause cause) {
    struct aorta_finding *best = NULL; /* of several kinds of collectives the one that costs most */
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == cause && (!best || verdict->findings[i].cost_ms > best->cost_ms))
            best = &verdict->findings[i];
    return best;
}

/* Hidden communication has compute beside it, which takes longer then. */
static bool hides(enum aorta_cause cause) {
    return cause == AORTA_CAUSE_EXPOSED_COLLECTIVE || cause == AORTA_CAUSE_SERIALIZED_STREAMS;
}

static double lost_again(const struct gains *gains, enum aorta_cause cause) {
    return hides(cause) && gains->verdict->lost_beside > 0 ? gains->verdict->lost_beside : 0;
}

/* What the removal gains with all that gain more, and alone. */
static double gain_of(const struct gains *gains, enum aorta_removal removal, enum aorta_cause cause) {
    return gains->found.beyond_ns[removal] / 1e6 * (1 - lost_again(gains, cause));
}

static double alone_of(const struct gains *gains, enum aorta_removal removal, enum aorta_cause cause) {
    return gains->found.gain_ns[removal] / 1e6 * (1 - lost_again(gains, cause));
}

/* A lag that nothing explains stays in the replay. It may go with the cause, or be what the step waits for then: either
 * changes a gain by about as much, up to the gain itself. */
static void set_range(const struct gains *gains, struct aorta_finding *finding) {
    const double gain_ms = finding->gain_ms, lag_ms = gains->found.unexplained_share * step_ms(gains);
    const double unsure_ms = gain_ms + lag_ms > 0 ? gain_ms * lag_ms / (gain_ms + lag_ms) : 0;
    const bool shares_cores = gains->analysis->measured && !gains->analysis->ranks[0].trace->on_gpu;
    const double most_ms = step_ms(gains) > gain_ms ? step_ms(gains) : gain_ms;
    finding->gain_range_ms[0] = gain_ms - unsure_ms;
    finding->gain_range_ms[1] = gain_ms + unsure_ms < most_ms ? gain_ms + unsure_ms : most_ms;
    /* Collectives of the host take its cores; how much compute loses to them is not known. */
    if (hides(finding->cause) && shares_cores && isnan(gains->verdict->lost_beside)) finding->gain_range_ms[0] = 0;
}

void aorta_finding_say_range(const struct aorta_finding *finding, struct aorta_text *out) {
    const double *range_ms = finding->gain_range_ms;
    if (range_ms[1] - range_ms[0] > WIDE * finding->gain_ms)
        aorta_text_printf(out, ", %s to %s ms", aorta_brief(range_ms[0]).text, aorta_brief(range_ms[1]).text);
}

/* ---- gains that others have too ---- */

static bool cause_of(enum aorta_removal removal, enum aorta_cause *cause) {
    for (int i = 0; i < AORTA_CAUSE_COUNT; i++) {
        if (strcmp(aorta_cause_name((enum aorta_cause)i), aorta_removal_cause(removal)) != 0) continue;
        *cause = (enum aorta_cause)i;
        return true;
    }
    return false;
}

/* A cause whose gain is that of the removal at order[place]: removed after it, it gains next to nothing, and it was not
 * the same as an earlier one's. */
static bool is_instead(const struct gains *gains, size_t place, size_t other) {
    static const double most = 0.5, little = 0.3;
    const struct aorta_gains *found = &gains->found;
    const double own_ns = found->beyond_ns[found->order[place]], alone_ns = found->gain_ns[found->order[other]];
    if (found->beyond_ns[found->order[other]] > little * alone_ns || alone_ns < most * own_ns) return false;
    for (size_t i = 0; i < place; i++)
        if (alone_ns >= most * found->beyond_ns[found->order[i]] && found->beyond_ns[found->order[i]] >= own_ns)
            return false;
    return true;
}

static size_t place_of(const struct gains *gains, enum aorta_removal removal) {
    size_t place = 0;
    while (gains->found.order[place] != removal) place++;
    return place;
}

/* The one of those before it that gains most. */
static size_t largest_before(const struct gains *gains, size_t place) {
    size_t largest = 0;
    for (size_t i = 1; i < place; i++)
        if (gains->found.beyond_ns[gains->found.order[i]] > gains->found.beyond_ns[gains->found.order[largest]])
            largest = i;
    return largest;
}

static void say_instead(const struct gains *gains, enum aorta_removal removal, enum aorta_cause own,
                        struct aorta_text *text) {
    const size_t place = place_of(gains, removal);
    enum aorta_cause cause;
    for (size_t i = place + 1; i < AORTA_REMOVAL_COUNT; i++) {
        if (!is_instead(gains, place, i) || !cause_of(gains->found.order[i], &cause)) continue;
        if (cause == own || cause == AORTA_CAUSE_HOST_PAUSE || aorta_cause_has_kind(cause)) continue;
        if (alone_of(gains, gains->found.order[i], cause) < ORDERS * step_ms(gains)) continue;
        if ((own == AORTA_CAUSE_HOST_PAUSE || own == AORTA_CAUSE_DATA_WAIT) && cause == AORTA_CAUSE_HOST_SYNC)
            aorta_text_puts(text, "; a wait for the device before it keeps the host from being so far ahead that this "
                                  "does not matter");
        aorta_text_printf(text, "; either this or %s, which alone saves %s ms", aorta_cause_plain_name(cause),
                          aorta_brief(alone_of(gains, gains->found.order[i], cause)).text);
        return;
    }
}

static void say_together(const struct gains *gains, enum aorta_removal removal, const struct aorta_finding *finding,
                         struct aorta_text *text) {
    const size_t place = place_of(gains, removal);
    const double least_ms = ORDERS * step_ms(gains), alone_ms = finding->alone_ms;
    enum aorta_cause cause;
    if (!place || !cause_of(gains->found.order[largest_before(gains, place)], &cause) || hides(finding->cause)) return;
    const char *other =
        aorta_cause_has_kind(cause) ? "what is said of collectives above" : aorta_cause_plain_name(cause);
    if (alone_ms > ABOVE * finding->gain_ms + least_ms)
        aorta_text_printf(text, "; alone it saves %s ms, of which %s saves the most already",
                          aorta_brief(alone_ms).text, other);
    else if (finding->gain_ms > ABOVE * alone_ms + least_ms)
        aorta_text_printf(text, "; alone it saves %s ms: the rest only together with %s", aorta_brief(alone_ms).text,
                          other);
}

/* Why the step gains more than the cause costs where it is: what else is over then. NULL: in general. */
static const char *const saved_more[AORTA_CAUSE_COUNT] = {
    [AORTA_CAUSE_HOST_SYNC] = "the host is ahead of the device then, which hides its launches",
    [AORTA_CAUSE_COPY] = "what waits for the copies, on the device or on the host, comes sooner",
    [AORTA_CAUSE_STRAGGLER] = "all ranks wait for the last one",
    [AORTA_CAUSE_CONTENTION] = "each rank waits for the one that loses most at the time",
};

static void say_more(struct gains *gains, const struct aorta_finding *finding, struct aorta_text *text) {
    const double more_ms = finding->gain_ms - finding->cost_ms;
    const char *why = saved_more[finding->cause];
    if (finding->circumstances & AORTA_HOST_WAITS) {
        aorta_text_puts(text, "; the host waits in the call until the device has come to the copy, and launches "
                              "what follows late");
        return;
    }
    if (!(finding->cost_ms > 0) || finding->gain_ms <= ABOVE * finding->cost_ms + ORDERS * step_ms(gains)) return;
    const struct aorta_finding *starts = find(gains->verdict, AORTA_CAUSE_LAUNCH_LATENCY);
    const double starts_ms = starts ? starts->cost_ms : 0;
    aorta_text_printf(text, "; %s ms more are saved, as ", aorta_brief(more_ms).text);
    if (finding->cause == AORTA_CAUSE_HOST_LAUNCH && starts_ms > 0.5 * more_ms)
        aorta_text_printf(text, "each launch that is late is followed by the time until its work starts (%s ms%s)",
                          aorta_brief(starts_ms).text, gains->verdict->whole ? "" : " a step");
    else if (finding->cause == AORTA_CAUSE_DATA_WAIT && gains->verdict->replay.unrecorded_ms > 0)
        aorta_text_puts(text, "the host comes to the batch sooner without the recording, and waits longer for it");
    else
        aorta_text_puts(text, why ? why : "what waits for it on other streams, ranks and on the host comes sooner");
}

/* What the device waits for a host that pauses is the cost of late launches, and the gain of the pause. */
static void say_pauses_within(const struct gains *gains, const struct aorta_finding *finding, struct aorta_text *text) {
    double pauses_ms = 0;
    if (finding->cause != AORTA_CAUSE_HOST_LAUNCH) return;
    for (int i = AORTA_WITHOUT_HOST_PAUSE; i <= AORTA_WITHOUT_HOST_PAUSE_ELSE; i++)
        pauses_ms += gains->found.beyond_ns[i] / 1e6;
    if (pauses_ms >= PLACED * finding->cost_ms && finding->cost_ms > finding->gain_ms)
        aorta_text_puts(text, "; the pauses of the host are part of that time");
}

static void say_lost_again(const struct gains *gains, const struct aorta_finding *finding, struct aorta_text *text) {
    const double lost = lost_again(gains, finding->cause);
    if (lost > 0.1 && finding->gain_ms > 0)
        aorta_text_printf(text, "; hidden, it makes compute beside it longer: %s of %s ms are lost again",
                          aorta_brief(finding->gain_ms / (1 - lost) * lost).text,
                          aorta_brief(finding->gain_ms / (1 - lost)).text);
}

/* ---- one finding ---- */

static aorta_status explain(struct gains *gains, struct aorta_finding *finding, enum aorta_removal removal,
                            const struct aorta_origin *origin) {
    struct aorta_text text = {0};
    if (origin->point != AORTA_GRAPH_NONE) aorta_gains_say_origin(gains, finding, origin, &text);
    bool shows = !text.length || finding->cost_ms >= SHOWS * finding->gain_ms;
    if (finding->evidence && shows) aorta_text_printf(&text, "%s%s", text.length ? "; " : "", finding->evidence);
    if (!text.length) aorta_text_puts(&text, aorta_removal_description(removal)); /* it matters once others are gone */
    say_pauses_within(gains, finding, &text);
    say_more(gains, finding, &text);
    say_lost_again(gains, finding, &text);
    say_instead(gains, removal, finding->cause, &text);
    say_together(gains, removal, finding, &text);
    return aorta_text_take(&text, &finding->evidence);
}

/* The findings' array has places for all causes. */
static aorta_status add_gain(struct gains *gains, enum aorta_removal removal, enum aorta_cause cause) {
    struct aorta_verdict *verdict = gains->verdict;
    const double gain_ms = gain_of(gains, removal, cause);
    /* Pauses at several places have a row each. */
    struct aorta_finding *finding = cause == AORTA_CAUSE_HOST_PAUSE ? NULL : find(verdict, cause);
    bool matters = gain_ms >= MATTERS * step_ms(gains) && gain_ms > 0;
    if (!finding && !matters) return NULL;
    if (!finding) {
        finding = &verdict->findings[verdict->finding_count++];
        *finding = (struct aorta_finding){
            .cause = cause, .circumstances = verdict->findings[0].circumstances & AORTA_FRAMEWORKS, .rank = -1};
    }
    finding->gain_ms = gain_ms;
    finding->alone_ms = alone_of(gains, removal, cause);
    finding->gain_share = step_ms(gains) > 0 ? gain_ms / step_ms(gains) : 0;
    set_range(gains, finding);
    if (cause == AORTA_CAUSE_COPY && gain_ms > ABOVE * finding->cost_ms + ORDERS * step_ms(gains))
        finding->circumstances |= AORTA_HOST_WAITS;
    struct aorta_origin origin;
    if (!matters && finding->evidence) return NULL;
    AORTA_TRY(aorta_replay_origin(gains->graph, removal, &origin));
    if (verdict->rank_count > 1)
        finding->rank = origin.rank == AORTA_GRAPH_NONE ? -1 : gains->analysis->ranks[origin.rank].rank;
    if (cause == AORTA_CAUSE_STRAGGLER) finding->circumstances |= AORTA_LATE_DEVICE;
    return explain(gains, finding, removal, &origin);
}

bool aorta_finding_gains(const struct aorta_finding *finding) {
    return finding->gain_share >= ORDERS;
}

/* A remedy's place is by what it gains after those before it: fusing what attention writes out comes after attention.
 */
static double gain_in_order(const struct aorta_finding *finding) {
    if (!aorta_finding_gains(finding)) return 0;
    return finding->remedy ? finding->then_ms : finding->gain_ms;
}

/* What gains, largest first; then the rest in the order of their costs. */
static int by_gain(const void *left, const void *right) {
    const struct aorta_finding *a = left, *b = right;
    double x = gain_in_order(a), y = gain_in_order(b);
    if (x > y || x < y) return x > y ? -1 : 1;
    return (a->cost_ms < b->cost_ms) - (a->cost_ms > b->cost_ms);
}

/* Launches have no place: what they gain is what a captured step would save. That a host is slow all along does not
 * hide that it stands still somewhere for a fifth of each step, unless launches gain far more. */
static bool precedes_launches(const struct aorta_finding *finding, const struct aorta_finding *launches) {
    return aorta_cause_has_place(finding->cause) && finding->gain_share >= PLACED &&
           finding->gain_ms >= NEARLY * launches->gain_ms;
}

void aorta_findings_order(struct aorta_finding *findings, size_t count, bool whole) {
    size_t launches = 0;
    qsort(findings, count, sizeof *findings, by_gain);
    if (whole) return; /* what stands still may lie between the steps */
    while (launches < count && findings[launches].cause != AORTA_CAUSE_HOST_LAUNCH) launches++;
    for (size_t i = launches + 1; i < count; i++) {
        const struct aorta_finding placed = findings[i];
        if (!precedes_launches(&placed, &findings[launches])) continue;
        memmove(&findings[launches + 1], &findings[launches], (i - launches) * sizeof *findings);
        findings[launches++] = placed;
    }
}

/* Ranges may hide gaps between launches. */
static void clear_launches(struct aorta_verdict *verdict) {
    struct aorta_finding *compute = find(verdict, AORTA_CAUSE_COMPUTE);
    const struct aorta_finding *launches = find(verdict, AORTA_CAUSE_HOST_LAUNCH);
    bool cost = verdict->gaps || verdict->coarse || (launches && aorta_finding_gains(launches));
    if (compute && !cost) compute->circumstances &= ~(unsigned)AORTA_LAUNCHES;
}

static bool is_mostly_sent(const struct aorta_verdict *verdict) {
    int64_t sent_ns = 0, all_ns = 0;
    for (size_t i = 0; i < verdict->rank_count; i++) {
        sent_ns += verdict->ranks[i].collective_ns[AORTA_CAUSE_STRAGGLER][AORTA_ALL_TO_ALL];
        all_ns += verdict->ranks[i].cause_ns[AORTA_CAUSE_STRAGGLER];
    }
    return 2 * sent_ns > all_ns;
}

/* Ranks that wait for each other's compute: stages of a pipeline, batches that differ. Nothing of the graph's takes it
 * away, so the row has a cost and no gain. */
static aorta_status say_own_work(struct gains *gains) {
    static const double MUCH = 0.05;
    struct aorta_finding *finding = find(gains->verdict, AORTA_CAUSE_STRAGGLER);
    const double alone_ms = gains->verdict->replay.left.alone_ms;
    if (!finding || alone_ms < MUCH * step_ms(gains) || finding->cost_ms < MUCH * step_ms(gains)) return NULL;
    if (aorta_finding_gains(finding)) return NULL;
    struct aorta_text text = {0};
    const bool stages = is_mostly_sent(gains->verdict);
    finding->circumstances |= (unsigned)AORTA_OWN_WORK | (stages ? (unsigned)AORTA_STAGES : 0);
    finding->rank = -1;
    aorta_text_printf(
        &text,
        "ranks waited %s ms%s for each other%s; without all causes below %s ms%s are still compute of one "
        "rank while the others wait for it",
        aorta_brief(finding->cost_ms).text, gains->verdict->whole ? "" : " a step",
        stages ? " in sends and receives, as stages of a pipeline do (its bubble)"
               : ", each in turn, as their compute differs from step to step",
        aorta_brief(alone_ms).text, gains->verdict->whole ? "" : " a step");
    return aorta_text_take(&text, &finding->evidence);
}

static aorta_status add_gains(struct gains *gains) {
    struct aorta_verdict *verdict = gains->verdict;
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        enum aorta_cause cause;
        if (cause_of(gains->found.order[i], &cause)) AORTA_TRY(add_gain(gains, gains->found.order[i], cause));
    }
    AORTA_TRY(aorta_verdict_walk_left(gains->built, gains->graph, verdict->replay.floor_ms, &verdict->replay.left));
    AORTA_TRY(say_own_work(gains));
    AORTA_TRY(aorta_remedy_gains_add(gains->remedies, gains->built, gains->found.replayed_ns, verdict));
    clear_launches(verdict);
    aorta_findings_order(verdict->findings, verdict->finding_count, verdict->whole);
    return aorta_advise(verdict, NULL);
}

double aorta_verdict_gained_ms(const struct aorta_verdict *verdict) {
    return verdict->replay.unrecorded_ms > 0 ? verdict->replay.unrecorded_ms : verdict->replay.replayed_ms;
}

double aorta_verdict_spent_ms(const struct aorta_verdict *verdict) {
    return verdict->step_ms_mean - verdict->replay.recording_ms;
}

/* The evidence counts what was recorded. */
static aorta_status say_as_recorded(struct aorta_finding *finding) {
    struct aorta_text text = {0};
    if (!finding->evidence) return NULL;
    aorta_text_printf(&text, "as recorded, %s", finding->evidence);
    return aorta_text_take(&text, &finding->evidence);
}

/* What recording cost the step is part of what the device waited for its host. */
static aorta_status take_recording_out(struct aorta_verdict *verdict) {
    static const enum aorta_cause waits[] = {AORTA_CAUSE_HOST_LAUNCH, AORTA_CAUSE_LAUNCH_LATENCY, AORTA_CAUSE_HOST_SYNC,
                                             AORTA_CAUSE_DATA_WAIT};
    struct aorta_verdict_replay *replay = &verdict->replay;
    if (!(replay->unrecorded_ms > 0) || replay->unrecorded_ms >= replay->replayed_ms) return NULL;
    double left_ms = verdict->step_ms_mean - replay->unrecorded_ms; /* so that costs add up to that step */
    for (size_t i = 0; i < sizeof waits / sizeof *waits && left_ms > 0; i++) {
        struct aorta_finding *finding = find(verdict, waits[i]);
        if (!finding) continue;
        const double taken_ms = finding->cost_ms < left_ms ? finding->cost_ms : left_ms;
        finding->cost_ms -= taken_ms;
        AORTA_TRY(say_as_recorded(finding));
        left_ms -= taken_ms;
        replay->recording_ms += taken_ms;
    }
    const double step_ms = aorta_verdict_spent_ms(verdict);
    for (size_t i = 0; i < verdict->finding_count && replay->recording_ms > 0; i++)
        verdict->findings[i].share = step_ms > 0 ? verdict->findings[i].cost_ms / step_ms : 0;
    return NULL;
}

/* `unrecorded`: what the graph was turned into before. */
static aorta_status measure(struct gains *gains, const struct aorta_unrecorded *unrecorded) {
    AORTA_TRY(aorta_gains_measure(gains->graph, &gains->found));
    const struct aorta_gains *found = &gains->found;
    struct aorta_verdict *verdict = gains->verdict;
    struct aorta_verdict_replay *replay = &verdict->replay;
    double again_ns = 0; /* what hidden collectives cost compute */
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        enum aorta_cause cause;
        if (cause_of((enum aorta_removal)i, &cause)) again_ns += found->beyond_ns[i] * lost_again(gains, cause);
    }
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
    AORTA_TRY(take_recording_out(gains->verdict));
    if (replay->known) return add_gains(gains);
    replay->reason = "the recording does not explain most of what the step waits for";
    return NULL;
}

/* A replay that cannot be made is no failure: the verdict is given without. */
static aorta_status without_replay(aorta_status status, struct aorta_verdict *verdict, const char *reason) {
    if (aorta_status_code(status) != AORTA_UNSUPPORTED) return status;
    aorta_status_free(status);
    verdict->replay.reason = reason;
    return NULL;
}

/* Why there is no graph. */
static const char *reason_of(const struct aorta_trace_analysis *analysis) {
    if (!analysis->common_clock) return "the ranks' clocks are not one";
    return analysis->measured ? "fewer than three steps follow each other"
                              : "the steps that were chosen do not follow each other, or are too large";
}

static aorta_status measure_with(const struct aorta_trace_analysis *analysis, struct aorta_remedy_gains *remedies,
                                 struct aorta_trace_graph *built, struct aorta_verdict *verdict) {
    struct aorta_unrecorded unrecorded;
    aorta_status unbuilt = aorta_trace_graph_make(analysis, built);
    if (unbuilt) return without_replay(unbuilt, verdict, reason_of(analysis));
    AORTA_TRY(aorta_trace_graph_unrecord(built, &unrecorded));
    struct gains gains = {
        .verdict = verdict, .graph = &built->graph, .analysis = analysis, .built = built, .remedies = remedies};
    verdict->lost_beside = verdict->slowdown.lost_per_ns;
    return measure(&gains, &unrecorded);
}

/* Remedies first: most of their memory is free again before there is a graph. */
aorta_status aorta_verdict_gains(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    struct aorta_remedy_gains *remedies = NULL;
    struct aorta_trace_graph built = {0};
    aorta_status status = aorta_remedy_gains_find(analysis, &remedies);
    if (!status) status = measure_with(analysis, remedies, &built, verdict);
    aorta_trace_graph_free(&built);
    aorta_remedy_gains_free(remedies);
    return status;
}
