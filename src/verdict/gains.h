/* Gains of causes by replays of the recorded step (replay/replay.h). */
#ifndef AORTA_VERDICT_GAINS_H
#define AORTA_VERDICT_GAINS_H

#include "analysis/analysis.h"
#include "replay/replay.h"
#include "replay/trace_graph.h"
#include "verdict/remedies.h"
#include "verdict/verdict.h"

/* Sets the verdict's replay and the gains of its findings, adds findings that only a replay shows, and sorts by gain.
 * If the replay is impossible or unreliable, only its reason is set. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_verdict_gains(const struct aorta_trace_analysis *analysis,
                                                struct aorta_verdict *verdict);

/* Finds remedies of compute (remedy_gains.c). It runs before the graph is made: a recording without remedies then never
 * needs the memory of both at once. The analysis is borrowed. AORTA_MEMORY. */
struct aorta_remedy_gains;
AORTA_MUST_USE aorta_status aorta_remedy_gains_find(const struct aorta_trace_analysis *analysis,
                                                    struct aorta_remedy_gains **gains);
void aorta_remedy_gains_free(struct aorta_remedy_gains *gains); /* NULL is fine */
/* Adds a finding for each remedy that gains at least 1% of the step. `found`: the gains in the graph `built`. */
void aorta_remedy_gains_add(struct aorta_remedy_gains *gains, const struct aorta_trace_graph *built,
                            const struct aorta_gains *found, struct aorta_verdict *verdict);

/* Splits `floor_ms` by the work on the critical path without all causes. `graph`: of `built`, or a scaled copy.
 * (gains_origin.c) */
void aorta_verdict_walk_left(const struct aorta_trace_graph *built, const struct aorta_graph *graph, double floor_ms,
                             struct aorta_verdict_left *left, struct aorta_arena *memory);

struct aorta_remedies_worth {
    double before_ns;                   /* the replayed step without remedies */
    struct aorta_remedies_applied mean; /* over ranks */
    double least;                       /* lower end of the gain, as a share of it */
    const char *lacks;                  /* data that remedies with shapes lack; NULL: none. Static */
    const char *unknown;                /* why no remedy can be computed; NULL: remedies are known. Static */
};
/* Sets the graph's lags to those of a step with these remedies (bits), in place. AORTA_MEMORY. (remedy_gains.c) */
AORTA_MUST_USE aorta_status aorta_verdict_apply_remedies(const struct aorta_trace_analysis *analysis,
                                                         struct aorta_trace_graph *built, uint32_t set,
                                                         struct aorta_remedies_worth *worth);

#endif
