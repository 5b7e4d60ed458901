/* The findings: what each cause costs, and the evidence for it in words and numbers. */
#include "timeline/kernel_names.h"
#include "verdict/advice.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Findings are made for a cause or, where it is about collectives, for each kind. */
struct subject {
    const struct aorta_verdict *verdict;
    const struct aorta_evidence_sums *sums;
    struct aorta_finding *finding;
    struct aorta_text evidence;
};

static double per_step_ms(const struct subject *subject, int64_t ns) {
    return (double)ns / 1e6 / (double)subject->sums->rank_iterations;
}

/* The unit of the figures: "idle 3 ms a step", or "idle 3 ms" of a whole recording. */
static const char *each(const struct subject *subject) {
    return subject->verdict->whole ? "" : " a step";
}

enum { NAME_SIZE = 512 };

const char *aorta_verdict_kind_name(const struct aorta_verdict *verdict, enum aorta_collective kind) {
    return aorta_collective_words(kind, verdict->sends);
}

static const char *kind_name(const struct subject *subject) {
    return aorta_verdict_kind_name(subject->verdict, subject->finding->collective);
}

/* The row with most time, or -1. */
static int largest_row(const struct aorta_tally *tally) {
    int best = -1;
    for (size_t i = 0; i < tally->count; i++)
        if (best < 0 || tally->rows[i].ns > tally->rows[best].ns) best = (int)i;
    return best;
}

/* For a recording cases.c adds the longest gap instead. */
static void say_where_idle(struct subject *subject, const struct aorta_tally *before) {
    const int row = largest_row(before);
    char name[NAME_SIZE];
    if (row >= 0 && !subject->verdict->recorded)
        aorta_text_printf(&subject->evidence, "; within the step mostly before %s",
                          aorta_kernel_short_name(before->rows[row].name, name, sizeof name));
}

static void say_host_launch(struct subject *subject) {
    static const double LITTLE = 0.01; /* of what is known */
    const struct aorta_evidence_sums *sums = subject->sums;
    struct aorta_text *text = &subject->evidence;
    int64_t known = -sums->unknown_idle_ns;
    for (size_t i = 0; i < subject->verdict->rank_count; i++)
        known += subject->verdict->ranks[i].cause_ns[AORTA_CAUSE_HOST_LAUNCH];
    if (known > 0)
        aorta_text_printf(text, "idle %s ms%s because nothing had been launched",
                          aorta_brief(per_step_ms(subject, known)).text,
                          subject->verdict->whole ? ", start-up included," : each(subject));
    const struct aorta_brief unknown = aorta_brief(per_step_ms(subject, sums->unknown_idle_ns));
    if (known > 0 && LITTLE * (double)known < (double)sums->unknown_idle_ns)
        aorta_text_printf(text,
                          ", and %s ms%s before work whose launch is not recorded, so that the reason is not known",
                          unknown.text, each(subject));
    else if (known <= 0 && sums->unknown_idle_ns > 0)
        aorta_text_printf(text, "idle %s ms%s; these files contain no launch times, so the reason is not known",
                          unknown.text, each(subject));
    say_where_idle(subject, &sums->late_before);
    if (subject->verdict->idle_unexplained) subject->finding->circumstances |= AORTA_NOT_EXPLAINED;
}

/* Launched in time and not started: in a graph that is the device's own time from one operation to the next. */
static void say_launch_latency(struct subject *subject) {
    const double ms = subject->finding->cost_ms;
    const bool graph = 2 * per_step_ms(subject, subject->sums->graph_latency_ns) > ms;
    if (graph) subject->finding->circumstances |= AORTA_OF_GRAPH;
    if (subject->sums->latency_recurs) subject->finding->circumstances |= AORTA_RECURS;
    if (graph)
        aorta_text_printf(&subject->evidence, "idle %s ms%s from one operation of the graph to the next",
                          aorta_brief(ms).text, each(subject));
    else
        aorta_text_printf(&subject->evidence, "idle %s ms%s between launch and start", aorta_brief(ms).text,
                          each(subject));
    say_where_idle(subject, &subject->sums->latency_before);
}

static void say_straggler(struct subject *subject) {
    const struct aorta_evidence_sums *sums = subject->sums;
    const struct aorta_verdict *verdict = subject->verdict;
    size_t worst = 0;
    int64_t all = 0, worst_ns = 0;
    for (size_t i = 0; i < verdict->rank_count; i++) {
        int64_t caused = sums->late_device_ns[i] + sums->late_host_ns[i];
        all += caused;
        if (caused > worst_ns) {
            worst = i;
            worst_ns = caused;
        }
    }
    bool device = sums->late_device_ns[worst] >= sums->late_host_ns[worst];
    bool alternating = verdict->rank_count > 1 && worst_ns * 3 < all * 2; /* less than two thirds are its doing */
    int late = verdict->ranks[worst].rank;
    subject->finding->rank = late;
    aorta_text_printf(&subject->evidence, "ranks waited %s ms%s for the last one, %.0f%% of it for rank %d: %s",
                      aorta_brief(subject->finding->cost_ms).text, each(subject), 100 * (double)worst_ns / (double)all,
                      late, device ? "its device was still computing" : "its stream was empty, its host launched late");
    if (!verdict->common_clock) aorta_text_puts(&subject->evidence, " (clocks aligned on the ends of collectives)");
    if (device) subject->finding->circumstances |= AORTA_LATE_DEVICE;
    if (alternating) subject->finding->circumstances |= AORTA_LATE_CHANGES;
}

static void say_slow_collective(struct subject *subject) {
    const struct aorta_evidence_sums *sums = subject->sums;
    int kind = subject->finding->collective;
    double bytes = (double)sums->slow_bytes[kind];
    aorta_text_printf(&subject->evidence,
                      "%s moved %s GB/s where the best tenth of the same size reaches %s (waiting left out)",
                      kind_name(subject), aorta_brief(bytes / (double)sums->slow_time_ns[kind]).text,
                      aorta_brief(bytes / (double)sums->slow_best_ns[kind]).text);
}

static void say_serialized(struct subject *subject) {
    aorta_text_printf(&subject->evidence,
                      "%s ran on the compute stream: compute that was launched already waited for it "
                      "for %s ms%s",
                      kind_name(subject), aorta_brief(subject->finding->cost_ms).text, each(subject));
}

static void say_exposed(struct subject *subject) {
    const struct aorta_tally *where = &subject->sums->exposed_where[subject->finding->collective];
    bool unknown = subject->finding->collective == AORTA_COLLECTIVE_OTHER;
    aorta_text_printf(&subject->evidence, "%s ran %s ms%s with no compute beside %s",
                      unknown ? "collectives of unknown kind" : kind_name(subject),
                      aorta_brief(subject->finding->cost_ms).text, each(subject), unknown ? "them" : "it");
    int row = largest_row(where);
    char name[NAME_SIZE];
    if (row >= 0 && where->count > 1)
        aorta_text_printf(&subject->evidence, ", most of it for %s (%s ms)",
                          aorta_kernel_short_name(where->rows[row].name, name, sizeof name),
                          aorta_brief(per_step_ms(subject, where->rows[row].ns)).text);
}

static void say_contention(struct subject *subject) {
    const struct aorta_slowdown *slowdown = &subject->verdict->slowdown;
    aorta_text_printf(&subject->evidence,
                      "GEMMs beside collectives lose %s ms%s; the same %s take %+.3g%% (%zu run%s beside, %zu "
                      "alone)",
                      aorta_brief(subject->finding->cost_ms).text, each(subject),
                      slowdown->by_grid ? "kernels and grids (not all shapes are known)" : "shapes",
                      100 * (slowdown->ratio - 1), slowdown->samples_beside, slowdown->samples_beside == 1 ? "" : "s",
                      slowdown->samples_alone);
}

static void say_compute(struct subject *subject) {
    double cost = subject->finding->cost_ms;
    subject->finding->circumstances |= AORTA_LAUNCHES; /* a replay may say otherwise (gains.c) */
    if (subject->verdict->coarse) {
        subject->finding->circumstances |= AORTA_COARSE;
        aorta_text_printf(&subject->evidence,
                          "at most %s ms a step: ranges without launch times cover the host's gaps "
                          "too, so the device may have waited in them",
                          aorta_brief(cost).text);
        return;
    }
    if (subject->verdict->gaps) {
        subject->finding->circumstances |= AORTA_GAPS;
        aorta_text_printf(&subject->evidence,
                          "at most %s ms%s: some us lie between kernels that are launched one by one, and ranges "
                          "contain them; --kernel-timing separates them",
                          aorta_brief(cost).text, each(subject));
        return;
    }
    aorta_text_printf(&subject->evidence, "%s ms%s of operations", aorta_brief(cost).text, each(subject));
}

/* The sentence is enough, or a function says it. */
static const struct {
    const char *sentence;
    void (*say)(struct subject *);
} words[AORTA_CAUSE_COUNT] = {
#define CAUSE(name, key, plain, by_kind, at_place, sentence, in_steps, in_traces, ...) {sentence, in_steps},
#include "replay/causes.def"
#undef CAUSE
};

static void say_cost(struct subject *subject, const char *sentence) {
    int before = (int)strcspn(sentence, "#");
    aorta_text_printf(&subject->evidence, "%.*s%s ms%s%s", before, sentence,
                      aorta_brief(subject->finding->cost_ms).text, each(subject), sentence + before + 1);
}

/* ---- findings ---- */

static double rank_cost_ms(const struct aorta_rank_costs *costs, enum aorta_cause cause, int kind) {
    int64_t ns = aorta_cause_has_kind(cause) ? costs->collective_ns[cause][kind] : costs->cause_ns[cause];
    return (double)ns / 1e6 / (double)costs->iterations;
}

/* The rank that pays most is named when it pays a quarter more than the mean. */
static struct aorta_finding weigh(const struct aorta_verdict *verdict, enum aorta_cause cause, int kind) {
    struct aorta_finding finding = {.cause = cause, .collective = (enum aorta_collective)kind, .rank = -1};
    double most = 0;
    int rank = -1;
    for (size_t i = 0; i < verdict->rank_count; i++) {
        double cost = rank_cost_ms(&verdict->ranks[i], cause, kind);
        finding.cost_ms += cost / (double)verdict->rank_count;
        if (cost > most) {
            most = cost;
            rank = verdict->ranks[i].rank;
        }
    }
    if (verdict->rank_count > 1 && most > 1.25 * finding.cost_ms) finding.rank = rank;
    finding.share = verdict->step_ms_mean > 0 ? finding.cost_ms / verdict->step_ms_mean : 0;
    return finding;
}

static aorta_status put_into_words(const struct aorta_verdict *verdict, const struct aorta_evidence_sums *sums,
                                   struct aorta_finding *finding) {
    struct subject subject = {.verdict = verdict, .sums = sums, .finding = finding};
    if (words[finding->cause].sentence)
        say_cost(&subject, words[finding->cause].sentence);
    else
        words[finding->cause].say(&subject);
    finding->evidence = subject.evidence.data; /* the finding owns the text from here on */
    return aorta_text_check(&subject.evidence);
}

static int finding_order(const void *left, const void *right) {
    const struct aorta_finding *a = left, *b = right;
    return (a->cost_ms < b->cost_ms) - (a->cost_ms > b->cost_ms);
}

aorta_status aorta_verdict_make_findings(struct aorta_verdict *verdict, const struct aorta_evidence_sums *sums) {
    verdict->findings = calloc(AORTA_CAUSE_COUNT * AORTA_COLLECTIVE_COUNT, sizeof *verdict->findings);
    if (!verdict->findings) return AORTA_ERROR(AORTA_MEMORY, "no memory for the findings");
    for (int cause = 0; cause < AORTA_CAUSE_COUNT; cause++) {
        int kinds = aorta_cause_has_kind((enum aorta_cause)cause) ? AORTA_COLLECTIVE_COUNT : 1;
        for (int kind = 0; kind < kinds; kind++) {
            struct aorta_finding *finding = &verdict->findings[verdict->finding_count];
            *finding = weigh(verdict, (enum aorta_cause)cause, kind);
            if (finding->cost_ms <= 0) continue;
            verdict->finding_count++;
            AORTA_TRY(put_into_words(verdict, sums, finding));
        }
    }
    qsort(verdict->findings, verdict->finding_count, sizeof *verdict->findings, finding_order);
    return aorta_advise(verdict, NULL);
}
