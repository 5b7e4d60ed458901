/* The parts of aorta_verdict_make; for this folder only. */
#ifndef AORTA_VERDICT_VERDICT_INTERNAL_H
#define AORTA_VERDICT_VERDICT_INTERNAL_H

#include "verdict/verdict.h"

/* The cause that idle time of a kind belongs to. (verdict.c) */
extern const enum aorta_cause aorta_cause_of_idle[AORTA_IDLE_CAUSE_COUNT];

/* What is summed to put a cause into words. */
enum { AORTA_TALLY_ROWS = 64 };
struct aorta_tally { /* zero-initialise; names are borrowed */
    struct {
        const char *name;
        int layer; /* -1: none */
        int64_t ns;
    } rows[AORTA_TALLY_ROWS];
    size_t count;
};

struct aorta_evidence_sums {
    int64_t unknown_idle_ns, lead_ns;
    int64_t graph_latency_ns;                                 /* idle between operations of graphs */
    bool latency_recurs;                                      /* half of its mean or more in three steps of four */
    struct aorta_tally late_before, latency_before;           /* operations that ended an idle gap, by its cause */
    struct aorta_tally exposed_where[AORTA_COLLECTIVE_COUNT]; /* layers of exposed collectives */
    int64_t *late_device_ns, *late_host_ns;                   /* waits caused by each rank (index in ranks) */
    int64_t slow_time_ns[AORTA_COLLECTIVE_COUNT];             /* slow transfers: their time, */
    int64_t slow_best_ns[AORTA_COLLECTIVE_COUNT];             /* what it would be at the best decile, */
    int64_t slow_bytes[AORTA_COLLECTIVE_COUNT];               /* and their bytes */
    int64_t rank_iterations;                                  /* sum over ranks */
};

/* The causes that exposed communication is cut into. (headline.c) */
bool aorta_cause_of_collectives(enum aorta_cause cause);
/* Where most of the step goes. (headline.c) */
const struct aorta_finding *aorta_verdict_costliest(const struct aorta_verdict *verdict);
/* All gains together are a twentieth of the step or more. (headline.c) */
bool aorta_verdict_gains_matter(const struct aorta_verdict *verdict);

/* The step with all losses removed, and what its compute is made of. False: not known. (compute_text.c) */
bool aorta_verdict_say_left(const struct aorta_verdict *verdict, struct aorta_text *out);
/* What the step's compute is made of. False: nothing can be said. (compute_text.c) */
bool aorta_verdict_say_compute(const struct aorta_verdict *verdict, struct aorta_text *out);

/* Makes the findings from the ranks' costs. (verdict_findings.c) */
AORTA_MUST_USE aorta_status aorta_verdict_make_findings(struct aorta_verdict *verdict,
                                                        const struct aorta_evidence_sums *sums);

/* Adds to the findings' evidence the longest case of each. (cases.c) */
AORTA_MUST_USE aorta_status aorta_verdict_add_cases(const struct aorta_trace_analysis *analysis,
                                                    struct aorta_verdict *verdict);

/* Decimals of a part of the whole in ms: two, more where a whole step is shorter than one. */
static inline int aorta_verdict_decimals(double whole_ms) {
    return whole_ms < 1 ? 4 : 2;
}

/* How often in a step the same reductions of this kind follow the same kernels, as for micro-batches whose gradients
 * are all reduced; 1: not so. (accumulation.c) */
int aorta_verdict_reduced_again(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                                enum aorta_collective kind);

/* "all_reduce", …; of sends and receives what they are. (verdict_findings.c) */
const char *aorta_verdict_kind_name(const struct aorta_verdict *verdict, enum aorta_collective kind);

/* Of a trace without a device's work: says in the verdict's note how long gloo's collectives ran, if it has any.
 * (host_collectives.c) */
AORTA_MUST_USE aorta_status aorta_verdict_note_host_collectives(const struct aorta_trace *trace,
                                                                struct aorta_verdict *verdict);

/* A recording's steps take so different times that one must know. (verdict_text.c) */
bool aorta_verdict_steps_differ(const struct aorta_verdict *verdict);

#endif
