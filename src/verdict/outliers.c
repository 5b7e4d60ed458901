/* One call of a collective that takes far longer than the other calls of its kind and size. */
#include "base/sort.h"
#include "verdict/verdict_internal.h"

#include <stdlib.h>

static const double FAR = 100;  /* times the median call */
static const double MUCH = 0.3; /* of all that is exposed */
enum { FEWEST = 5 };            /* calls of that size */

struct calls {
    struct call {
        int64_t ns, bytes;
    } * items;
    size_t count;
};

/* The time of each call that counts, after the last rank has arrived. */
static void collect(const struct aorta_trace_analysis *analysis, enum aorta_collective kind, struct calls *calls) {
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        for (size_t j = 0; j < rank->window_count; j++) {
            const struct aorta_trace_window *window = &rank->windows[j];
            const struct aorta_profile *profile = &window->profile;
            if (!aorta_trace_window_counts(analysis, window)) continue;
            for (size_t k = 0; k < profile->range_count; k++) {
                const struct aorta_range *range = &profile->ranges[k];
                const struct aorta_exposed whole = {.start_ns = range->start_ns, .end_ns = range->end_ns};
                if (range->info.kind != AORTA_RANGE_COLLECTIVE || range->info.collective != kind) continue;
                calls->items[calls->count++] =
                    (struct call){aorta_exposed_without_wait(analysis, window->shared[k], &whole), range->info.bytes};
            }
        }
    }
}

static size_t ranges_of(const struct aorta_trace_analysis *analysis) {
    size_t count = 0;
    for (size_t i = 0; i < analysis->rank_count; i++)
        for (size_t j = 0; j < analysis->ranks[i].window_count; j++)
            count += analysis->ranks[i].windows[j].profile.range_count;
    return count;
}

static void name_outlier(struct calls *calls, double least_ns, struct aorta_facts *facts) {
    struct call longest = {0};
    size_t alike = 0;
    for (size_t i = 0; i < calls->count; i++)
        if (calls->items[i].ns > longest.ns) longest = calls->items[i];
    for (size_t i = 0; i < calls->count; i++)
        if (calls->items[i].bytes == longest.bytes) calls->items[alike++] = calls->items[i];
    if (alike < FEWEST || (double)longest.ns < least_ns) return;
    qsort(calls->items, alike, sizeof *calls->items, aorta_by_int64);
    const double times = (double)longest.ns / (double)calls->items[alike / 2].ns;
    if (!(calls->items[alike / 2].ns > 0) || times < FAR) return;
    aorta_facts_set(facts, AORTA_FACT_OUTLIER, (double)longest.ns / 1e6);
    aorta_facts_set(facts, AORTA_FACT_OUTLIER_TIMES, times);
}

void aorta_verdict_find_outliers(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    struct aorta_arena scratch = {0};
    struct calls calls = {.items = aorta_arena_alloc(&scratch, (ranges_of(analysis) + 1) * sizeof *calls.items)};
    for (size_t i = 0; calls.items && i < verdict->finding_count; i++) {
        struct aorta_finding *finding = &verdict->findings[i];
        if (finding->cause != AORTA_CAUSE_EXPOSED_COLLECTIVE) continue;
        calls.count = 0;
        collect(analysis, finding->collective, &calls);
        name_outlier(&calls, MUCH * finding->cost_ms * 1e6 * (double)verdict->iterations, &finding->facts);
    }
    aorta_arena_end(&scratch, verdict->arena);
}
