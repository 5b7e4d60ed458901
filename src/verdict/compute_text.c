/* What the roofline says of compute. */
#include "timeline/kernel_names.h"
#include "verdict/advice.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <stdlib.h>

static struct aorta_finding *find_compute(struct aorta_verdict *verdict) {
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == AORTA_CAUSE_COMPUTE) return &verdict->findings[i];
    return NULL;
}

static aorta_status add_words(const struct aorta_verdict *verdict, const struct aorta_roofline *joined,
                              struct aorta_finding *compute) {
    struct aorta_text words = {0}, text = {0};
    if (aorta_roofline_say(joined, aorta_verdict_spent_ms(verdict), verdict->whole ? "the time" : "the step", &words)) {
        aorta_roofline_say_mfu(joined, &words);
        aorta_text_printf(&text, "%s; %s", compute->evidence, words.data ? words.data : "");
    }
    text.failed |= words.failed;
    aorta_text_free(&words);
    if (text.failed || !text.data) {
        bool failed = text.failed;
        aorta_text_free(&text);
        return failed ? AORTA_ERROR(AORTA_MEMORY, "no memory for the verdict") : NULL;
    }
    free(compute->evidence);
    compute->evidence = text.data;
    return NULL;
}

static bool moves_data(const struct aorta_roofline *roofline) {
    const struct aorta_roofline_class *class = roofline->classes;
    return class[AORTA_WORK_POINTWISE].ns + class[AORTA_WORK_REDUCTION].ns >
           class[AORTA_WORK_GEMM].ns + class[AORTA_WORK_CONVOLUTION].ns + class[AORTA_WORK_ATTENTION].ns +
               class[AORTA_WORK_OTHER].ns;
}

aorta_status aorta_verdict_roofline(struct aorta_verdict *verdict, struct aorta_roofline *rooflines, size_t count) {
    verdict->rooflines = rooflines;
    verdict->roofline_count = count;
    struct aorta_finding *compute = find_compute(verdict);
    struct aorta_roofline joined;
    aorta_roofline_join(rooflines, count, &joined);
    if (!compute || !joined.steps) return NULL;
    if (moves_data(&joined)) compute->circumstances |= AORTA_MOVES_DATA;
    AORTA_TRY(add_words(verdict, &joined, compute));
    return aorta_advise(verdict, NULL);
}

static double compute_ns(const struct aorta_roofline *roofline) {
    double ns = 0;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) ns += (double)roofline->classes[i].ns;
    return roofline->steps ? ns / (double)roofline->steps : INFINITY;
}

/* The rank that computes least: what the others do longer is among what gains. NULL: no rank has steps. */
static const struct aorta_roofline *fastest(const struct aorta_verdict *verdict) {
    const struct aorta_roofline *best = NULL;
    for (size_t i = 0; i < verdict->roofline_count; i++)
        if (compute_ns(&verdict->rooflines[i]) < (best ? compute_ns(best) : INFINITY)) best = &verdict->rooflines[i];
    return best;
}

struct part {
    double ms;
    const char *words, *kind; /* one of the two, "compute" or "all_gather" */
};

static int larger_part(const void *left, const void *right) {
    const struct part *a = left, *b = right;
    return (a->ms < b->ms) - (a->ms > b->ms);
}

/* ", decided by 46.00 compute + 14.00 all_reduce + …": where compute is not nearly all of it. False: nothing said. */
static bool say_parts(const struct aorta_verdict *verdict, struct aorta_text *out) {
    static const double ALL = 0.9, SHOWN = 0.03, ALONE = 0.1;
    static const char compute[] = "compute";
    const struct aorta_verdict_replay *replay = &verdict->replay;
    const struct aorta_verdict_left *left = &replay->left;
    struct part parts[5 + AORTA_COLLECTIVE_COUNT] = {{left->compute_ms, compute, ""},
                                                     {left->copy_ms, "copies", ""},
                                                     {left->starts_ms, "delays between operations", ""},
                                                     {left->host_ms, "the host", ""},
                                                     {left->unexplained_ms, "lags without a recorded reason", ""}};
    int count = 5, shown = 0;
    for (int i = 0; i < AORTA_COLLECTIVE_COUNT; i++)
        parts[count++] =
            (struct part){left->collective_ms[i], "", aorta_verdict_kind_name(verdict, (enum aorta_collective)i)};
    if (!(left->compute_ms < ALL * replay->floor_ms || left->alone_ms >= ALONE * replay->floor_ms)) return false;
    qsort(parts, (size_t)count, sizeof *parts, larger_part);
    for (int i = 0; i < count && parts[i].ms >= SHOWN * replay->floor_ms; i++) {
        aorta_text_printf(out, "%s%.2f %s%s", shown++ ? " + " : ", decided by ", parts[i].ms, parts[i].words,
                          parts[i].kind);
        if (parts[i].words == compute && left->alone_ms >= ALONE * replay->floor_ms)
            aorta_text_printf(out, " (%.2f of one rank while the others wait for it)", left->alone_ms);
    }
    return shown > 0;
}

/* Of compute whose operations nothing is known of: its largest kernel. */
static void say_largest(const struct aorta_verdict *verdict, bool parts, bool as_recorded, int decimals,
                        struct aorta_text *out) {
    const struct aorta_finding *compute = NULL;
    char name[256];
    if (!parts) aorta_text_printf(out, ", %.*f ms of it compute", decimals, verdict->replay.left.compute_ms);
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == AORTA_CAUSE_COMPUTE) compute = &verdict->findings[i];
    if (as_recorded && compute && compute->kernel && compute->kernel_ms > 0)
        aorta_text_printf(out, "; most compute in %s (%.*f ms)",
                          aorta_kernel_short_name(compute->kernel, name, sizeof name), decimals, compute->kernel_ms);
}

bool aorta_verdict_say_left(const struct aorta_verdict *verdict, struct aorta_text *out) {
    static const double AS_RECORDED = 0.9;
    const struct aorta_verdict_replay *replay = &verdict->replay;
    const struct aorta_roofline *roofline = fastest(verdict);
    struct aorta_text words = {0};
    if (!replay->known || !(replay->floor_ms > 0)) return false;
    /* Of a recording's steps the first is not replayed, but its compute is known. */
    const double longer = verdict->step_ms_mean > 0 ? verdict->step_ms_mean / replay->replayed_ms : 1;
    const int decimals = aorta_verdict_decimals(aorta_verdict_gained_ms(verdict));
    aorta_text_printf(out, "%.*f of %.*f ms without these causes", decimals, replay->floor_ms, decimals,
                      aorta_verdict_gained_ms(verdict));
    const bool parts = say_parts(verdict, out);
    /* Compute that is much less with remedies is no longer made of what was recorded. */
    const bool as_recorded = replay->left.compute_ms >= AS_RECORDED * verdict->compute_ms / longer;
    if (as_recorded && roofline && aorta_roofline_say(roofline, longer * replay->floor_ms, "it", &words))
        aorta_text_printf(out, "%s%s", parts ? "; " : ": ", words.data ? words.data : "");
    else
        say_largest(verdict, parts, as_recorded, decimals, out);
    out->failed |= words.failed;
    aorta_text_free(&words);
    return true;
}

bool aorta_verdict_say_compute(const struct aorta_verdict *verdict, struct aorta_text *out) {
    struct aorta_roofline joined;
    aorta_roofline_join(verdict->rooflines, verdict->roofline_count, &joined);
    if (!joined.steps) return false;
    const int decimals = aorta_verdict_decimals(aorta_verdict_spent_ms(verdict));
    aorta_text_printf(out, "%.*f of %.*f ms: ", decimals, verdict->compute_ms, decimals,
                      aorta_verdict_spent_ms(verdict));
    if (!aorta_roofline_say(&joined, aorta_verdict_spent_ms(verdict), verdict->whole ? "the time" : "the step", out))
        return false;
    aorta_roofline_say_mfu(&joined, out);
    return true;
}
