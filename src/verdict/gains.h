/* What each cause costs the recorded step, by its replay (replay/replay.h). */
#ifndef AORTA_VERDICT_GAINS_H
#define AORTA_VERDICT_GAINS_H

#include "analysis/analysis.h"
#include "replay/replay.h"
#include "replay/trace_graph.h"
#include "verdict/remedies.h"
#include "verdict/verdict.h"

/* Sets the verdict's replay and its findings' gains, adds findings that only a replay shows, and puts those that gain
 * most first. A replay that cannot be trusted or made leaves them as they are, with the reason. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_verdict_gains(const struct aorta_trace_analysis *analysis,
                                                struct aorta_verdict *verdict);

/* Remedies of compute (remedy_gains.c): found before there is a graph, so that of a recording without any the memory of
 * both is never needed at once. The analysis is borrowed. AORTA_MEMORY. */
struct aorta_remedy_gains;
AORTA_MUST_USE aorta_status aorta_remedy_gains_find(const struct aorta_trace_analysis *analysis,
                                                    struct aorta_remedy_gains **gains);
void aorta_remedy_gains_free(struct aorta_remedy_gains *gains); /* NULL is fine */
/* Adds a finding for each that gains a hundredth of the step. `built`: the graph that `found` is of. */
void aorta_remedy_gains_add(struct aorta_remedy_gains *gains, const struct aorta_trace_graph *built,
                            const struct aorta_gains *found, struct aorta_verdict *verdict);

/* What the step of `floor_ms` is made of along its path in `graph`, which is that of `built` or a scaled one.
 * (gains_origin.c)
 */
void aorta_verdict_walk_left(const struct aorta_trace_graph *built, const struct aorta_graph *graph, double floor_ms,
                             struct aorta_verdict_left *left, struct aorta_arena *memory);

struct aorta_remedies_worth {
    double before_ns;                   /* the step replayed without them */
    struct aorta_remedies_applied mean; /* over ranks */
    double least;                       /* of their gain, at least this share */
    const char *lacks;                  /* what a recording lacks for those that need shapes; NULL: nothing. Static */
    const char *unknown;                /* why none can be computed; NULL: they can. Static */
};
/* Gives the graph the lags of a step with these remedies (bits), in place. AORTA_MEMORY. (remedy_gains.c) */
AORTA_MUST_USE aorta_status aorta_verdict_apply_remedies(const struct aorta_trace_analysis *analysis,
                                                         struct aorta_trace_graph *built, uint32_t set,
                                                         struct aorta_remedies_worth *worth);

#endif
