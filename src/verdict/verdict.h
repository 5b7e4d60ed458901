/* The verdict: each nanosecond of a rank's step belongs to one cause; each cause is a finding with facts. Rules:
 * docs/metrics.md. */
#ifndef AORTA_VERDICT_VERDICT_H
#define AORTA_VERDICT_VERDICT_H

#include "analysis/analysis.h"
#include "verdict/facts.h"
#include "verdict/roofline.h"

enum aorta_cause {
#define CAUSE(name, ...) AORTA_CAUSE_##name,
#include "replay/causes.def"
#undef CAUSE
    AORTA_CAUSE_COUNT
};
const char *aorta_cause_name(int cause);           /* "host_launch", … */
bool aorta_cause_has_kind(enum aorta_cause cause); /* the cause has a finding for each kind of collective */

/* The kind of the recorded program, which selects the advice. Bits, as one piece of advice can serve several kinds. The
 * first bits are frameworks (trace/trace.h). */
enum aorta_program {
    AORTA_PROGRAM_NATIVE = 1 << AORTA_FRAMEWORK_OTHER,
    AORTA_PROGRAM_DIRECTIVES = 1 << AORTA_FRAMEWORK_DIRECTIVES,
    AORTA_PROGRAM_XLA = 1 << AORTA_FRAMEWORK_XLA,
    AORTA_PROGRAM_CUPY = 1 << AORTA_FRAMEWORK_CUPY,
    AORTA_PROGRAM_TRITON = 1 << AORTA_FRAMEWORK_TRITON,
    AORTA_PROGRAM_COMPILED = 1 << AORTA_FRAMEWORK_COMPILED,
    AORTA_PROGRAM_TORCH = 1 << AORTA_FRAMEWORK_TORCH,
    AORTA_PROGRAM_SERVING = 1 << 7, /* an inference engine: vLLM, SGLang */
    AORTA_PROGRAM_OURS = 1 << 8,    /* aorta train */
    AORTA_PROGRAM_SPARSE = 1 << 9,  /* the sparse pipeline of aorta train */
};

struct aorta_advice_row;
enum { AORTA_FIXES = 2, AORTA_SHARES = 2 };

/* A chosen row of advice. `now`: the present value if the row says "a larger KEY"; NULL: unknown. */
struct aorta_fix {
    const struct aorta_advice_row *row;
    const char *now;
};

/* Time that the finding and a finding of another cause both save. */
struct aorta_shared_gain {
    enum aorta_cause cause;
    double ms;
};

struct aorta_finding {
    enum aorta_cause cause;
    enum aorta_collective collective; /* for the causes about collectives */
    double cost_ms;                   /* per iteration, mean over ranks */
    double share;                     /* of the mean step time */
    int rank;          /* the rank with the largest cost (straggler: the late rank); -1: all have about the same */
    double gain_ms;    /* per step, after all causes with larger gains are fixed; meaningless without a replay */
    double gain_share; /* of the replayed step */
    double gain_range_ms[2];  /* of gain_ms; unexplained lags make it wider */
    double lag_ms;            /* per step, unexplained lags */
    double alone_ms;          /* per step, if only this cause is fixed */
    const char *remedy;       /* static: key of the remedy of compute, "precision=bf16"; NULL: none */
    double then_ms;           /* gain of a remedy after the remedies before it in verdict/remedies.def */
    bool only_after;          /* gains only if other causes are fixed, too */
    double at_best_ms;        /* upper bound of the gain if the recording does not show the gain; 0: none */
    double slowed_ms;         /* lower end of at_best_ms, by lost_usually; equal to at_best_ms if unknown */
    enum aorta_cause partner; /* AORTA_CAUSE_COUNT: all other causes */
    double joint_ms;          /* gain per step of this and `partner` together; 0 unless most of it is this finding's */
    bool displaced;           /* the more specific cause of shares[0] has most of the gain */
    struct aorta_shared_gain shares[AORTA_SHARES];
    int share_count;
    struct aorta_facts facts;
    struct aorta_fix fixes[AORTA_FIXES];
    int fix_count;
    bool all_set; /* our own programs: each key that helps is set already */
};

/* The critical path of the step without all causes. The parts add up to the step. (gains_origin.c) */
struct aorta_verdict_left {
    double compute_ms; /* kernels that are no collectives */
    double alone_ms;   /* part of compute_ms: kernels of one rank while all other ranks wait */
    double collective_ms[AORTA_COLLECTIVE_COUNT]; /* exposed on the path, by kind */
    double copy_ms, starts_ms, host_ms;           /* starts_ms: from the event that allows work to begin to its start */
    double unexplained_ms;                        /* lags without a known reason */
};

/* The step by its replay (gains.h). */
struct aorta_verdict_replay {
    bool known;
    const char *reason; /* static: why the gains are unknown; NULL: they are known, or no replay was made */
    double measured_ms, replayed_ms, floor_ms;
    bool bounded; /* upper bounds of gains lower floor_ms below the replay without all causes, which `left` describes */
    /* The step without the recorder's cost, and its range. Gains and causes refer to it. 0: unknown. */
    double unrecorded_ms, unrecorded_range_ms[2];
    const char *unrecorded_reason; /* static: why unrecorded_ms is unknown; NULL: known, or recording cost nothing */
    double recording_ms;           /* recorder's cost that was subtracted from the costs of causes */
    double inferred_share, unexplained_share; /* of the critical path */
    struct aorta_verdict_left left;           /* of floor_ms */
};

/* Nanoseconds summed over one rank's measured iterations. */
struct aorta_rank_costs {
    int rank;
    size_t iterations;
    int64_t step_ns;                      /* span + lead; equals the sum of cause_ns */
    int64_t late_device_ns, late_host_ns; /* time that other ranks wait for its device, or for its host */
    int64_t cause_ns[AORTA_CAUSE_COUNT];
    int64_t collective_ns[AORTA_CAUSE_COUNT][AORTA_COLLECTIVE_COUNT]; /* the causes about collectives, by kind */
};

struct aorta_verdict {
    struct aorta_finding
        *findings; /* largest cost first (with a replay: largest gain); causes without cost are omitted */
    size_t finding_count;
    struct aorta_rank_costs *ranks; /* in order of rank */
    size_t rank_count;
    size_t warmup;      /* iterations that are omitted at the start of each rank */
    double outside;     /* share of the device's work that is in no step, if repeating kernels show the steps; else 0 */
    bool unled;         /* the first step is omitted, as its start is not recorded */
    bool drained;       /* the last step is omitted, as work that was queued before it ends in it */
    double together_ms; /* several devices of one process, without steps: from their first to their last work; else 0 */
    size_t iterations;  /* measured on each rank, at least */
    double step_ms_mean, step_ms_p50; /* from the end of a step to the end of the next step */
    double step_ms_p10, step_ms_p90;  /* of the steps of all ranks */
    double steps_unlike;  /* share of neighbouring steps with different work; NaN: unknown, or all steps take about as
                           * long */
    double copies_unlike; /* share of neighbouring steps with different copies; NaN: as above */
    double overlap_ratio; /* sum of overlap / sum of comm; NaN without communication */
    double exposed_ms, comm_ms, compute_ms, idle_ms; /* means per iteration and rank; idle with the lead */
    struct aorta_slowdown slowdown;
    double lost_beside;     /* ns that compute loses per ns of newly hidden collectives; NaN: the recording lacks it */
    double lost_usually[2]; /* least and most loss measured on such devices; NaN: unknown, or lost_beside is known
                               (gains.c) */
    struct aorta_verdict_replay replay;
    struct aorta_roofline *rooflines; /* of each rank; NULL: none */
    size_t roofline_count;
    const char *disturbed; /* what disturbed the machine, a sentence without its full stop; NULL: nothing known */
    bool undisturbed;      /* another reason for different steps is known, or nothing disturbed the watched machine */
    const char *clocks;    /* reason for low clocks that has no cost of its own; NULL: none */
    struct {
        const char *name; /* one of the collectives; NULL: there are none */
        double ran_ms, alone_ms;
    } host_collectives; /* recording without a device: their time, and their time without an operation of the program */
    const char *gpu_operation; /* recording without a device: an operation that needs a GPU; NULL: none */
    unsigned program;          /* enum aorta_program */
    struct aorta_arena *arena; /* owns findings, ranks and texts */
    double host_alone;         /* recording without a device: share of the time in which only collectives ran */
    int ranks_missing;         /* recording: ranks of its largest process group whose files were not given */
    bool splits_backward;      /* the pipeline computes weight gradients separately */
    double model_parts;        /* of an interleaved pipeline, on each rank; 1: unknown, or not interleaved */
    bool sends;                /* the collectives of kind all-to-all are sends and receives, as far as the file shows */
    bool simulated, common_clock;
    bool on_cpu;     /* the device is the CPU */
    bool incomplete; /* more of the device's work is missing than recorded: no cause can be named */
    struct aorta_trace_coverage coverage; /* of the incomplete recording */
    size_t processes;                     /* of the incomplete recording, if their events are mixed */
    bool host_only;        /* the files have no device work: operations of the host are analyzed instead */
    bool cut_off;          /* such files end early: device work may be missing */
    bool captures;         /* the program captures graphs during the recording, and hardly replays any */
    bool recorded;         /* a recording of any program; false: steps that our own recorder measured */
    bool whole, asked;     /* an iteration is a whole recording, not a step; the user asked for that */
    bool idle_unexplained; /* most of host_launch is idle time before work with unknown launches */
    /* No launch times: the ranges of such files include gaps of the host. Compute and overlap are upper bounds, and
     * nothing is known about the host. */
    bool coarse;
    /* Ranges of a GPU whose kernels were launched one by one include the gaps between kernels. Compute and overlap are
     * upper bounds. */
    bool gaps;
};

/* Makes the verdict on the ranks of an analysis, with general advice. aorta_advise adapts the advice to a run of our
 * own. The caller ends *verdict with aorta_verdict_free. The verdict borrows nothing from the analysis. An analysis can
 * have one verdict only, as this call frees its ranges (aorta_trace_ranges_free). */
AORTA_MUST_USE aorta_status aorta_verdict_make(struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict);
/* The part of late launches that may be the recorder's cost, ms per step; 0: too little for a note. `launches`: number
 * per step. (verdict.c) */
double aorta_recording_share(const struct aorta_verdict *verdict, double launches);
AORTA_MUST_USE aorta_status aorta_verdict_clocks(struct aorta_verdict *verdict, const char *sentence);
/* `disturbed`: what disturbed the machine; NULL: nothing. */
AORTA_MUST_USE aorta_status aorta_verdict_machine(struct aorta_verdict *verdict, const char *disturbed);
void aorta_verdict_free(struct aorta_verdict *verdict);

/* The step that gains refer to, and the step that costs refer to. Both exclude the recorder's cost if it is known. */
double aorta_verdict_gained_ms(const struct aorta_verdict *verdict);
double aorta_verdict_spent_ms(const struct aorta_verdict *verdict);
/* The step without the profiler is at least 0.5% shorter than the recorded step. (gains.c) */
bool aorta_verdict_is_unrecorded(const struct aorta_verdict *verdict);

/* The finding's gain is at least 1% of the step, or has an upper bound. (gains.c) */
bool aorta_finding_gains(const struct aorta_finding *finding);
int aorta_verdict_gain_count(const struct aorta_verdict *verdict); /* findings with such a gain (gains.c) */
/* The gain that is shown, ms per step: its upper bound, else with its partner, else alone. A finding that gains only
 * after other fixes shows its gain after them. (gains.c) */
double aorta_finding_shown_ms(const struct aorta_finding *finding);
/* The range of the shown gain. (gains.c) */
void aorta_finding_shown_range(const struct aorta_finding *finding, double range_ms[2]);
/* The range is so wide that it is shown instead of the gain. */
bool aorta_finding_is_range(const struct aorta_finding *finding, double range_ms[2]);
/* Only the upper end of the gain is known. */
bool aorta_finding_is_bound(const struct aorta_finding *finding);
/* The shown gain, or the upper end of its range. It determines the order of findings and the length of bars. */
double aorta_finding_most_ms(const struct aorta_finding *finding);
/* All gains together are at least 5% of the step. (gains.c) */
bool aorta_verdict_gains_matter(const struct aorta_verdict *verdict);
/* The finding of a cause; if there are several (kinds of collectives), that with the largest cost. NULL: none.
 * (gains.c) */
struct aorta_finding *aorta_verdict_find(const struct aorta_verdict *verdict, enum aorta_cause cause);
/* Compute is 75% of the step or more and has the largest cost, or is more than 95% of the step. */
bool aorta_verdict_is_bound(const struct aorta_verdict *verdict);
/* The finding with the largest cost. NULL: no findings. (gains.c) */
const struct aorta_finding *aorta_verdict_costliest(const struct aorta_verdict *verdict);
/* The times of a recording's steps differ so much that the user must know. (gains.c) */
bool aorta_verdict_steps_differ(const struct aorta_verdict *verdict);
/* They differ because many neighbouring steps run different kernels, or products of different sizes. */
bool aorta_verdict_work_differs(const struct aorta_verdict *verdict);
bool aorta_verdict_copies_differ(const struct aorta_verdict *verdict);
/* "all_reduce", …; "sends and receives" for all-to-all if `sends` is set. (findings.c) */
const char *aorta_verdict_kind_name(const struct aorta_verdict *verdict, enum aorta_collective kind);

#endif
