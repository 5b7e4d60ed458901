/* Why the step takes as long as it does: each rank's step time, cut into causes without remainder or overlap, and the
 * causes as findings made of facts. Rules: docs/metrics.md. */
#ifndef AORTA_VERDICT_VERDICT_H
#define AORTA_VERDICT_VERDICT_H

#include "analysis/analysis.h"
#include "base/json.h"
#include "verdict/facts.h"
#include "verdict/roofline.h"

enum aorta_cause {
#define CAUSE(name, ...) AORTA_CAUSE_##name,
#include "replay/causes.def"
#undef CAUSE
    AORTA_CAUSE_COUNT
};
const char *aorta_cause_name(int cause);           /* "host_launch", … */
bool aorta_cause_has_kind(enum aorta_cause cause); /* there is a finding for each kind of collective */

/* Whose program was recorded: what its advice is made for. Bits, as advice can serve several. */
enum aorta_program {
    AORTA_PROGRAM_TORCH = 1,
    AORTA_PROGRAM_COMPILED = 2, /* PyTorch, some of it by torch.compile */
    AORTA_PROGRAM_SERVING = 4,  /* an inference engine: vLLM, SGLang */
    AORTA_PROGRAM_XLA = 8,      /* JAX */
    AORTA_PROGRAM_CUPY = 16,
    AORTA_PROGRAM_TRITON = 32,
    AORTA_PROGRAM_NATIVE = 64,     /* C, C++, Fortran, or not known */
    AORTA_PROGRAM_OURS = 128,      /* aorta train */
    AORTA_PROGRAM_SPARSE = 256,    /* its sparse pipeline */
    AORTA_PROGRAM_DIRECTIVES = 512 /* loops of OpenACC or OpenMP */
};

struct aorta_advice_row;
enum { AORTA_FIXES = 2, AORTA_SHARES = 2 };

/* A row of the table of advice; `now`: the value in force where the row says "a larger KEY"; NULL: not known. */
struct aorta_fix {
    const struct aorta_advice_row *row;
    const char *now;
};

/* Time that two findings both save. */
struct aorta_shared_gain {
    enum aorta_cause cause;
    double ms;
};

struct aorta_finding {
    enum aorta_cause cause;
    enum aorta_collective collective; /* for the causes about collectives */
    double cost_ms;                   /* per iteration, mean over ranks */
    double share;                     /* of the mean step time */
    int rank;                         /* the rank that pays most (straggler: that is late); -1: all alike */
    double gain_ms;           /* per step, beyond the gains of all that gain more; meaningless without a replay */
    double gain_share;        /* of the replayed step */
    double gain_range_ms[2];  /* of gain_ms: as sure as the lags of the recording are explained */
    double lag_ms;            /* per step, lags that make the range */
    double alone_ms;          /* per step, of this finding alone */
    const char *remedy;       /* static: key of the remedy of compute, "precision=bf16"; NULL: none */
    double then_ms;           /* of a remedy: its gain after those before it in verdict/remedies.def */
    bool only_after;          /* gains only once other causes are fixed, too */
    double at_best_ms;        /* upper bound of the gain where the recording cannot decide; 0: none */
    double slowed_ms;         /* the least of at_best_ms, with lost_usually; at_best_ms: not known */
    enum aorta_cause partner; /* AORTA_CAUSE_COUNT: all other causes */
    double joint_ms;          /* per step, of both together where that is mostly this finding's; else 0 */
    bool displaced;           /* the more specific cause of shares[0] has most of the gain */
    struct aorta_shared_gain shares[AORTA_SHARES];
    int share_count;
    struct aorta_facts facts;
    struct aorta_fix fixes[AORTA_FIXES];
    int fix_count;
    bool all_set; /* of our own programs: each key that helps is set already */
};

/* The time of the step without all causes, along its critical path. The parts add up to the step (gains_origin.c). */
struct aorta_verdict_left {
    double compute_ms; /* kernels, */
    double alone_ms;   /* part of compute_ms: kernels of one rank while all other ranks wait */
    double collective_ms[AORTA_COLLECTIVE_COUNT]; /* exposed on the path, by kind */
    double copy_ms, starts_ms, host_ms; /* starts_ms: delays between the event that lets work begin and its start */
    double unexplained_ms;              /* lags as recorded */
};

/* What the replay of the recorded step says (gains.h). */
struct aorta_verdict_replay {
    bool known;
    const char *reason; /* static: why there is none; NULL where none was asked for */
    double measured_ms, replayed_ms, floor_ms;
    bool bounded; /* floor_ms is less than the replay says, by upper bounds; `left` is of the replay */
    /* The step as it runs without being recorded, of which gains and causes are; 0: not known. Recording may have cost
     * more or less: the range. */
    double unrecorded_ms, unrecorded_range_ms[2];
    const char *unrecorded_reason; /* static: why it is not known; NULL: it is, or the step is measured without */
    double recording_ms;           /* what the costs of causes are less than recorded, together */
    double inferred_share, unexplained_share; /* of the critical path */
    struct aorta_verdict_left left;           /* of floor_ms */
};

/* Nanoseconds summed over one rank's measured iterations. */
struct aorta_rank_costs {
    int rank;
    size_t iterations;
    int64_t step_ns;                      /* span + lead; equals the sum of cause_ns */
    int64_t late_device_ns, late_host_ns; /* other ranks wait for its device, or for its host */
    int64_t cause_ns[AORTA_CAUSE_COUNT];
    int64_t collective_ns[AORTA_CAUSE_COUNT][AORTA_COLLECTIVE_COUNT]; /* the causes about collectives, by kind */
};

struct aorta_verdict {
    struct aorta_finding *findings; /* largest cost first; causes that cost nothing are left out */
    size_t finding_count;
    struct aorta_rank_costs *ranks; /* in order of rank */
    size_t rank_count;
    size_t warmup;      /* iterations left out at the start of each rank */
    double outside;     /* share of the device's work that is in no step, where repeating kernels show the steps */
    bool unled;         /* the first step is left out, as its start is not recorded */
    double together_ms; /* without steps: from the first to the last work of all devices of one process; 0: not so */
    size_t iterations;  /* measured on each rank, at least */
    double step_ms_mean, step_ms_p50; /* from the end of a step to that of the next */
    double step_ms_p10, step_ms_p90;  /* of all ranks' steps together */
    double steps_unlike;  /* share of neighbouring steps that do different work; NaN: not known, or the steps are alike
                           * in length */
    double copies_unlike; /* likewise, of steps whose copies differ */
    double overlap_ratio; /* sum of overlap / sum of comm; NaN without communication */
    double exposed_ms, comm_ms, compute_ms, idle_ms; /* means per iteration and rank; idle with the lead */
    struct aorta_slowdown slowdown;
    double lost_beside;     /* extra time of compute per ns of collectives that it newly hides; NaN: not recorded */
    double lost_usually[2]; /* the least and the most, measured on such devices; NaN: not known, or lost_beside is
                               (gains.c) */
    struct aorta_verdict_replay replay;
    struct aorta_roofline *rooflines; /* of each rank; NULL: none were made */
    size_t roofline_count;
    const char
        *disturbed;     /* what disturbed the machine, a sentence without its full stop; NULL: nothing that is known */
    bool undisturbed;   /* the machine was watched, and nothing disturbed it */
    const char *clocks; /* why they were low, without a cost of its own; NULL: they were not */
    struct {
        const char *name; /* of one of the collectives; NULL: there are none */
        double ran_ms, alone_ms;
    } host_collectives; /* of a recording without a device: what they ran, and without an operation of the program */
    const char *gpu_operation; /* of a recording without a device: it needs a GPU; NULL: none does */
    unsigned program;          /* enum aorta_program */
    struct aorta_arena *arena; /* of all this */
    double host_alone;    /* of a recording without a device: share of the time in which its collectives ran alone */
    int ranks_missing;    /* of a recording: ranks of its largest process group that were not given */
    bool splits_backward; /* its pipeline computes weight gradients apart */
    double model_parts;   /* of an interleaved pipeline, on each rank; 1: none is known */
    bool sends;           /* what is called all-to-all are sends and receives, as far as the file says */
    bool simulated, common_clock;
    bool on_cpu;     /* the device is the CPU */
    bool incomplete; /* more of the device's work is missing than recorded: no cause can be named */
    struct aorta_trace_coverage coverage; /* of the incomplete recording */
    size_t processes;                     /* of the incomplete recording, where their events are mixed */
    bool host_only;        /* the files have no work of a device: operations of the host take its place */
    bool cut_off;          /* such files end early: the device's work may have followed */
    bool captures;         /* the program captures graphs in the recording, and hardly runs any */
    bool recorded;         /* of any program: not of steps that a recorder of ours measured */
    bool whole, asked;     /* an iteration is a whole recording, not a step; the user asked for that */
    bool idle_unexplained; /* most of host_launch is idle time of which the launches are not known */
    /* No launch times at all: ranges of such files cover the host's gaps, so that compute, and with it overlap, is
     * only an upper bound and nothing can be said about the host. */
    bool coarse;
    /* Ranges of a GPU whose kernels were launched one by one: the microseconds from one kernel to the next count as
     * compute, which, and with it overlap, is only an upper bound. */
    bool gaps;
};

/* Makes the verdict on recorded ranks (analysis/analysis.h), with general advice; aorta_advise adapts the advice to a
 * run of our own. The caller ends *verdict with aorta_verdict_free; it borrows nothing of the analysis. An analysis has
 * one verdict only, as making it frees what comparing steps needs (aorta_trace_ranges_free). */
AORTA_MUST_USE aorta_status aorta_verdict_make(struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict);
/* How much of late launches may be the recording's own cost, which makes each launch longer (verdict.c): ms per
 * step; 0: too little for a note. */
double aorta_recording_share(const struct aorta_verdict *verdict, double launches);
AORTA_MUST_USE aorta_status aorta_verdict_clocks(struct aorta_verdict *verdict, const char *sentence);
/* Sets what disturbed the machine; NULL: nothing did. */
AORTA_MUST_USE aorta_status aorta_verdict_machine(struct aorta_verdict *verdict, const char *disturbed);
void aorta_verdict_free(struct aorta_verdict *verdict);

/* The step that gains are of, and the one that costs are of: both without the recording where that is known. */
double aorta_verdict_gained_ms(const struct aorta_verdict *verdict);
double aorta_verdict_spent_ms(const struct aorta_verdict *verdict);
/* Whether the step without the profiler is another one than the recorded step. (gains.c) */
bool aorta_verdict_is_unrecorded(const struct aorta_verdict *verdict);

/* Whether the finding's gain is a hundredth of the step or more. (gains.c) */
bool aorta_finding_gains(const struct aorta_finding *finding);
int aorta_verdict_gain_count(const struct aorta_verdict *verdict); /* findings that do (gains.c) */
/* The gain that is shown, ms per step: alone; with its partner; of a finding that gains only with all fixes, beyond
 * them. (gains.c) */
double aorta_finding_shown_ms(const struct aorta_finding *finding);
/* The range of that. (gains.c) */
void aorta_finding_shown_range(const struct aorta_finding *finding, double range_ms[2]);
/* Whether that range is so wide that it is shown instead of the gain. */
bool aorta_finding_is_range(const struct aorta_finding *finding, double range_ms[2]);
/* Whether only the upper end of the gain is known. */
bool aorta_finding_is_bound(const struct aorta_finding *finding);
/* The gain or the upper end of such a range: findings are in its order, and bars have its length. */
double aorta_finding_most_ms(const struct aorta_finding *finding);
/* All gains together are a twentieth of the step or more. (gains.c) */
bool aorta_verdict_gains_matter(const struct aorta_verdict *verdict);
/* The finding of a cause; of several kinds of collectives the one that costs most. NULL: there is none. (gains.c) */
struct aorta_finding *aorta_verdict_find(const struct aorta_verdict *verdict, enum aorta_cause cause);
/* Most of the step is compute, and nothing costs more. */
bool aorta_verdict_is_bound(const struct aorta_verdict *verdict);
/* The finding with the largest cost. NULL: there are no findings. (gains.c) */
const struct aorta_finding *aorta_verdict_costliest(const struct aorta_verdict *verdict);
/* Whether the steps of a recording take so different times that one must know. (gains.c) */
bool aorta_verdict_steps_differ(const struct aorta_verdict *verdict);
/* … because their work does: many neighbouring steps run other kernels, or products of other sizes. */
bool aorta_verdict_work_differs(const struct aorta_verdict *verdict);
bool aorta_verdict_copies_differ(const struct aorta_verdict *verdict);
/* "all_reduce", …; "sends and receives" where all-to-all is made of these. (findings.c) */
const char *aorta_verdict_kind_name(const struct aorta_verdict *verdict, enum aorta_collective kind);

#endif
