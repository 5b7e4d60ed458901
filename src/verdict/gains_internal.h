/* What the parts of aorta_verdict_gains share; for this folder only. */
#ifndef AORTA_VERDICT_GAINS_INTERNAL_H
#define AORTA_VERDICT_GAINS_INTERNAL_H

#include "replay/replay.h"
#include "verdict/gains.h"
#include "verdict/verdict_internal.h"

/* The replay that gains are computed with. */
struct gains {
    struct aorta_verdict *verdict;
    const struct aorta_graph *graph;
    const struct aorta_trace_analysis *analysis;
    const struct aorta_trace_graph *built; /* its graph */
    struct aorta_remedy_gains *remedies;
    struct aorta_gains found;
};

/* By the gain that is shown, largest first; then by cost. */
void aorta_findings_order(struct aorta_finding *findings, size_t count);

/* What a step saves when its gradients are reduced once instead of so many times, ms. (accumulation.c) */
double aorta_gain_of_reducing_once(const struct gains *gains, enum aorta_collective kind, int times);
/* Adds the facts of causes whose place in the program is worth knowing. (gains_origin.c) */
void aorta_gains_add_origin(const struct gains *gains, struct aorta_finding *finding,
                            const struct aorta_origin *origin);

#endif
