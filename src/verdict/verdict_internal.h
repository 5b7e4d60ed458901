/* The parts of aorta_verdict_make; for this folder only. */
#ifndef AORTA_VERDICT_VERDICT_INTERNAL_H
#define AORTA_VERDICT_VERDICT_INTERNAL_H

#include "replay/replay.h"
#include "verdict/gains.h"
#include "verdict/verdict.h"

/* The cause that idle time of a kind belongs to. (verdict.c) */
extern const enum aorta_cause aorta_cause_of_idle[AORTA_IDLE_CAUSE_COUNT];

/* Time by operation or layer. Facts name the largest row. Zero-initialise it; names are borrowed. */
enum { AORTA_TALLY_ROWS = 64 };
struct aorta_tally {
    struct {
        const char *name;
        int layer; /* -1: none */
        int64_t ns;
    } rows[AORTA_TALLY_ROWS];
    size_t count;
};

struct aorta_evidence_sums {
    int64_t unknown_idle_ns;
    int64_t waits;                                  /* of the host for the device, in our own runs */
    int64_t page_read_ns;                           /* idle between pages of managed memory that the host reads */
    int64_t graph_latency_ns;                       /* idle between operations of graphs */
    bool latency_recurs;                            /* launch latency is not the problem of a single step */
    struct aorta_tally late_before, latency_before; /* operations that ended an idle gap, by the gap's cause */
    struct aorta_tally exposed_where[AORTA_COLLECTIVE_COUNT]; /* layers of exposed collectives */
    int64_t slow_time_ns[AORTA_COLLECTIVE_COUNT];             /* time of slow transfers */
    int64_t slow_best_ns[AORTA_COLLECTIVE_COUNT];             /* time of these transfers at the best decile */
    int64_t slow_bytes[AORTA_COLLECTIVE_COUNT];               /* bytes of these transfers */
    double micro_batches;                                     /* per step of a pipeline; 0: no pipeline */
    int64_t rank_iterations;                                  /* sum over ranks */
};

/* A finding, and the inputs of its facts. */
struct aorta_fill {
    const struct aorta_verdict *verdict;
    const struct aorta_evidence_sums *sums;
    struct aorta_finding *finding;
};

/* Moves the bubble of a pipeline from the waits between stages to a cause of its own. Returns the micro-batches of a
 * step; 0: no pipeline. (pipeline.c) */
double aorta_verdict_find_bubble(const struct aorta_rank_step *items, size_t count, struct aorta_verdict *verdict);
/* Parts of the model on each rank of an interleaved pipeline; 1: not interleaved, or peers are unknown. (pipeline.c) */
double aorta_verdict_model_parts(const struct aorta_trace_analysis *analysis);
/* Every stage launches more pieces of compute than forward and backward passes, as a zero-bubble schedule does. False
 * if sends and receives are unknown. (pipeline.c) */
bool aorta_verdict_splits_backward(const struct aorta_trace_analysis *analysis);
void aorta_fill_bubble(struct aorta_fill *fill);
/* Makes the findings from the ranks' costs, with the facts from the sums. (findings.c) */
void aorta_verdict_make_findings(struct aorta_verdict *verdict, const struct aorta_evidence_sums *sums);

/* Adds facts about the worst place of each finding, and about the program. (findings.c) */
void aorta_verdict_find_worst(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict);
/* The programs capture graphs during the recording, and hardly replay any. */
bool aorta_verdict_captures(const struct aorta_trace_analysis *analysis);

/* How often a step repeats the same kernels and reductions, because it reduces the gradients of each micro-batch; 1: no
 * repetition. (launched_work.c) */
int aorta_verdict_reduced_again(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                                enum aorta_collective kind, struct aorta_arena *memory);

/* Measures gloo's collectives in a recording without device work. (gains_origin.c) */
void aorta_verdict_host_collectives(const struct aorta_trace *trace, struct aorta_verdict *verdict);

/* ---- the parts of aorta_verdict_gains ---- */

/* The replay that gains are computed with. */
struct gains {
    struct aorta_verdict *verdict;
    const struct aorta_graph *graph;
    const struct aorta_trace_analysis *analysis;
    const struct aorta_trace_graph *built; /* owns `graph` */
    struct aorta_remedy_gains *remedies;
    struct aorta_gains found;
};

/* The replayed steps of the first rank. */
static inline double aorta_gains_steps(const struct gains *gains) {
    return gains->graph->rank_count && gains->graph->ranks[0].steps ? gains->graph->ranks[0].steps : 1;
}

/* The step that gains refer to, ms. (gains.c) */
double aorta_gains_step_ms(const struct gains *gains);
static const double AORTA_GAINS_LITTLE = 0.05; /* of that step: smaller changes do not matter */
/* Gain per step if these causes (bits) are removed, ms. */
double aorta_gain_without(const struct gains *gains, uint32_t removed);
/* The array of findings has space for all causes. */
struct aorta_finding *aorta_gains_new_finding(struct aorta_verdict *verdict, enum aorta_cause cause);
/* Sets a gain that does not come from the removal of the cause in the replay. */
void aorta_gains_replace(const struct gains *gains, struct aorta_finding *finding, double gain_ms);
/* Adds a cause that saves `ms` of the finding's gain, too. */
void aorta_gains_share(struct aorta_finding *finding, enum aorta_cause cause, double ms);
void aorta_gains_add_fixes(struct gains *gains);

/* By the gain that is shown, largest first; then by cost. */
void aorta_findings_order(struct aorta_finding *findings, size_t count);

/* The program loops over experts: each selects its tokens by a mask, multiplies them, and adds its output (index_add_).
 * (verdict.c) */
bool aorta_verdict_loops_over_experts(const struct aorta_trace_rank *rank);

/* A step's work in order of launch, and the changes to each row of the trace's work[]. (launched_work.c) */
struct aorta_launched_work {
    const struct aorta_trace_rank *rank;
    const struct aorta_trace_work *const *work;
    size_t count;
    uint32_t main_stream; /* stream with more than half of the launches; NONE: none has */
    struct aorta_work_scale *scales;
    const void *context; /* for the function that drops work */
};
typedef void aorta_work_dropper(const struct aorta_launched_work *launched);
bool aorta_launches_named(const struct aorta_launched_work *launched, size_t at, const char *part);
bool aorta_launches_copy(const struct aorta_launched_work *launched, size_t at, enum aorta_copied how);
bool aorta_launches_collective(const struct aorta_launched_work *launched, size_t at, enum aorta_collective kind);
struct aorta_work_scale *aorta_launched_scale(const struct aorta_launched_work *launched, size_t at);
void aorta_drop_work(const struct aorta_launched_work *launched, size_t at);
/* Gain per step without the work that `drop` removes from each rank, and without these causes (bits), ms. */
double aorta_gain_without_work(const struct gains *gains, uint32_t removed, aorta_work_dropper *drop,
                               const void *context);

/* Sets a fact about what the host waits for, if kernels show it. False: they do not. (awaited.c) */
bool aorta_verdict_find_awaited(const struct aorta_trace_rank *rank, struct aorta_facts *facts);
/* Raises the gain of waits by that of work that only computes the awaited values. (awaited.c) */
void aorta_gains_add_awaited(struct gains *gains);

/* Limits the gains of more micro-batches to what the host can launch. (pipeline.c) */
void aorta_bubble_limit(const struct gains *gains, struct aorta_facts *facts);

/* Gain per step if one collective replaces the small collectives of this kind, ms; 0: there are few.
 * (launched_work.c) */
double aorta_gain_of_coalescing(const struct gains *gains, enum aorta_collective kind);

/* The most of a step that reductions could save during the backward pass, ms; 0: they run during it, or the step has at
 * most one. (launched_work.c) */
double aorta_limit_of_earlier_reductions(const struct gains *gains, enum aorta_collective kind);

/* Gain per step if parameters are gathered once instead of *times, ms; 0: they are gathered once, or the number is
 * unknown. (launched_work.c) */
double aorta_gain_of_gathering_once(const struct gains *gains, int *times);

/* Gain per step if one copy replaces neighbouring small copies to the device, ms. Sets how many copies disappear. */
double aorta_gain_of_joined_copies(const struct gains *gains, double *copies);

/* Gain per step if gradients are reduced once instead of `times`, ms. (launched_work.c) */
double aorta_gain_of_reducing_once(const struct gains *gains, enum aorta_collective kind, int times);
/* The program copies about as much to the host as to the device. (fixes.c) */
bool aorta_verdict_is_offloaded(const struct gains *gains);
/* Fewer than half of the steps have such pauses, and much is copied to the host: the program may write a checkpoint. */
bool aorta_verdict_saves(const struct gains *gains, const struct aorta_origin *origin);
/* A recording without steps copies hardly anything to the device after its copies to the host: no data comes back.
 * (fixes.c) */
bool aorta_verdict_copies_once(const struct aorta_trace_analysis *analysis);

/* Adds facts about the place of a cause in the program. (gains_origin.c) */
void aorta_gains_add_origin(const struct gains *gains, struct aorta_finding *finding,
                            const struct aorta_origin *origin);
/* In most steps a copy to the device follows these stalls. (gains_origin.c) */
bool aorta_gains_input(const struct gains *gains, enum aorta_removal pause);

#endif
