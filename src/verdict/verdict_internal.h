/* The parts of aorta_verdict_make; for this folder only. */
#ifndef AORTA_VERDICT_VERDICT_INTERNAL_H
#define AORTA_VERDICT_VERDICT_INTERNAL_H

#include "replay/replay.h"
#include "verdict/gains.h"
#include "verdict/verdict.h"

/* The cause that idle time of a kind belongs to. (verdict.c) */
extern const enum aorta_cause aorta_cause_of_idle[AORTA_IDLE_CAUSE_COUNT];

/* Sums by name, for the places that the text of a cause names. */
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
    int64_t unknown_idle_ns;
    int64_t waits;                                  /* of our own hosts, for the device */
    int64_t page_read_ns;                           /* idle between pages of managed memory that the host reads */
    int64_t graph_latency_ns;                       /* idle between operations of graphs */
    bool latency_recurs;                            /* half of its mean or more without the step that has most */
    struct aorta_tally late_before, latency_before; /* operations that ended an idle gap, by its cause */
    struct aorta_tally exposed_where[AORTA_COLLECTIVE_COUNT]; /* layers of exposed collectives */
    int64_t slow_time_ns[AORTA_COLLECTIVE_COUNT];             /* slow transfers: their time, */
    int64_t slow_best_ns[AORTA_COLLECTIVE_COUNT];             /* what it would be at the best decile, */
    int64_t slow_bytes[AORTA_COLLECTIVE_COUNT];               /* and their bytes */
    double micro_batches;                                     /* of a pipeline's step; 0: there is none */
    int64_t rank_iterations;                                  /* sum over ranks */
};

/* What the facts of a finding are made from. */
struct aorta_fill {
    const struct aorta_verdict *verdict;
    const struct aorta_evidence_sums *sums;
    struct aorta_finding *finding;
};

/* Takes the bubble of a pipeline out of what its stages wait for each other. Returns the micro-batches of a step; 0:
 * there is no pipeline. (pipeline.c) */
double aorta_verdict_find_bubble(const struct aorta_rank_step *items, size_t count, struct aorta_verdict *verdict);
/* How many parts of the model each rank of an interleaved pipeline has; 1: it is none, or peers are not known
 * (pipeline.c). */
double aorta_verdict_model_parts(const struct aorta_trace_analysis *analysis);
/* Whether every stage launches more pieces of compute than forwards and backwards, as a zero-bubble schedule does;
 * false, too, where sends and receives are not known (pipeline.c). */
bool aorta_verdict_splits_backward(const struct aorta_trace_analysis *analysis);
void aorta_fill_bubble(struct aorta_fill *fill);
/* Makes the findings from the ranks' costs, with the facts that the sums show. (findings.c) */
void aorta_verdict_make_findings(struct aorta_verdict *verdict, const struct aorta_evidence_sums *sums);

/* Adds to each finding the facts of its worst place, and of the program. (findings.c) */
void aorta_verdict_find_worst(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict);
/* Whether the programs capture graphs in the recording, and hardly run any. */
bool aorta_verdict_captures(const struct aorta_trace_analysis *analysis);

/* The part of an exposed stretch after the last rank has arrived. The wait for the last rank is another cause.
 * (findings.c) */
int64_t aorta_exposed_without_wait(const struct aorta_trace_analysis *analysis, uint32_t collective,
                                   const struct aorta_exposed *exposed);
/* Adds the facts of a call that takes far longer than the other ones of its size. (gains_origin.c) */
void aorta_verdict_find_outliers(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict);

/* How often in a step the same reductions of this kind follow the same kernels, as for micro-batches whose gradients
 * are all reduced; 1: not so. (launched_work.c) */
int aorta_verdict_reduced_again(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                                enum aorta_collective kind, struct aorta_arena *memory);

/* Measures gloo's collectives in a recording without work of a device. (gains_origin.c) */
void aorta_verdict_host_collectives(const struct aorta_trace *trace, struct aorta_verdict *verdict);

/* ---- the parts of aorta_verdict_gains ---- */

/* The replay that gains are computed with. */
struct gains {
    struct aorta_verdict *verdict;
    const struct aorta_graph *graph;
    const struct aorta_trace_analysis *analysis;
    const struct aorta_trace_graph *built; /* its graph */
    struct aorta_remedy_gains *remedies;
    struct aorta_gains found;
};

/* The replayed steps of the first rank. */
static inline double aorta_gains_steps(const struct gains *gains) {
    return gains->graph->rank_count && gains->graph->ranks[0].steps ? gains->graph->ranks[0].steps : 1;
}

/* The step that gains are of, ms. (gains.c) */
double aorta_gains_step_ms(const struct gains *gains);
/* A share of that step: smaller changes are left out. */
static const double AORTA_GAINS_LITTLE = 0.05;
/* What the step gains without these causes (bits), ms. */
double aorta_gain_without(const struct gains *gains, uint32_t removed);
/* The findings' array has places for all causes. */
struct aorta_finding *aorta_gains_new_finding(struct aorta_verdict *verdict, enum aorta_cause cause);
/* Sets a gain that the replay of no cause finds. */
void aorta_gains_replace(const struct gains *gains, struct aorta_finding *finding, double gain_ms);
/* Says that another cause gains so much of it, too. */
void aorta_gains_share(struct aorta_finding *finding, enum aorta_cause cause, double ms);
void aorta_gains_add_fixes(struct gains *gains);

/* By the gain that is shown, largest first; then by cost. */
void aorta_findings_order(struct aorta_finding *findings, size_t count);

/* Each expert of a mixture selects its tokens by a mask, multiplies them and adds its output to them (index_add_).
 * (verdict.c) */
bool aorta_verdict_loops_over_experts(const struct aorta_trace_rank *rank);

/* A step's work in order of launch, and what becomes of each row of the trace's work[]. (launched_work.c) */
struct aorta_launched_work {
    const struct aorta_trace_rank *rank;
    const struct aorta_trace_work *const *work;
    size_t count;
    uint32_t main_stream; /* of most launches, where any has most; NONE */
    struct aorta_work_scale *scales;
};
typedef void aorta_work_dropper(const struct aorta_launched_work *launched, const void *context);
bool aorta_launches_named(const struct aorta_launched_work *launched, size_t at, const char *part);
bool aorta_launches_copy(const struct aorta_launched_work *launched, size_t at, enum aorta_copied how);
bool aorta_launches_collective(const struct aorta_launched_work *launched, size_t at, enum aorta_collective kind);
struct aorta_work_scale *aorta_launched_scale(const struct aorta_launched_work *launched, size_t at);
void aorta_drop_work(const struct aorta_launched_work *launched, size_t at);
/* What a step saves without the work that `drop` takes out of each rank, and without these causes (bits), ms. */
double aorta_gain_without_work(const struct gains *gains, uint32_t removed, aorta_work_dropper *drop,
                               const void *context);

/* What the host waits for, where kernels show it: sets a fact. (awaited.c) */
bool aorta_verdict_find_awaited(const struct aorta_trace_rank *rank, struct aorta_facts *facts);
/* Waits that go with the work that only serves them: its launches are more of the gain than the waits. (awaited.c) */
void aorta_gains_add_awaited(struct gains *gains);

/* Limits the facts on more micro-batches to what the host can launch. (pipeline.c) */
void aorta_bubble_limit(const struct gains *gains, struct aorta_facts *facts);

/* What a step saves when small collectives of this kind are one, ms; 0: there are few. (launched_work.c) */
double aorta_gain_of_coalescing(const struct gains *gains, enum aorta_collective kind);

/* What a step saves when its parameters are gathered once instead of so many times, ms; 0: they are, or
 * nothing says how often. (launched_work.c) */
double aorta_gain_of_gathering_once(const struct gains *gains, int *times);

/* What a step saves when small copies to the device that follow each other are one, ms, and how many would go. */
double aorta_gain_of_joined_copies(const struct gains *gains, double *copies);

/* What a step saves when its gradients are reduced once instead of so many times, ms. (launched_work.c) */
double aorta_gain_of_reducing_once(const struct gains *gains, enum aorta_collective kind, int times);
/* Whether about as much is copied to the host as to the device. (fixes.c) */
bool aorta_verdict_is_offloaded(const struct gains *gains);
/* Whether pauses of this origin are in less than half of the steps, while much is copied to the host: as where a
 * checkpoint is written. */
bool aorta_verdict_saves(const struct gains *gains, const struct aorta_origin *origin);
/* Whether a recording without steps copies hardly anything to the device after it has copied to the host: then nothing
 * comes back. (fixes.c) */
bool aorta_verdict_copies_once(const struct aorta_trace_analysis *analysis);

/* Adds the facts of causes whose place in the program is worth knowing. (gains_origin.c) */
void aorta_gains_add_origin(const struct gains *gains, struct aorta_finding *finding,
                            const struct aorta_origin *origin);
/* Whether these stalls come before a copy to the device in most steps. (gains_origin.c) */
bool aorta_gains_input(const struct gains *gains, enum aorta_removal pause);

#endif
