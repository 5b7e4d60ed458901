/* Why the step takes as long as it does: each rank's step time, cut into causes without remainder or overlap, and the
 * causes put into words. Rules: docs/metrics.md. */
#ifndef AORTA_VERDICT_VERDICT_H
#define AORTA_VERDICT_VERDICT_H

#include "base/json.h"
#include "roofline/roofline.h"
#include "timeline/analysis.h"

enum aorta_cause {
#define CAUSE(name, key, plain, by_kind, at_place, sentence, in_steps, in_traces, ...) AORTA_CAUSE_##name,
#include "replay/causes.def"
#undef CAUSE
    AORTA_CAUSE_COUNT
};
const char *aorta_cause_name(enum aorta_cause cause);       /* "host_launch", … */
const char *aorta_cause_plain_name(enum aorta_cause cause); /* "late launches"; before the kind of a collective */
bool aorta_cause_has_kind(enum aorta_cause cause);          /* there is a finding for each kind of collective */
bool aorta_cause_has_place(enum aorta_cause cause);         /* it lies somewhere in the program, not all over it */

/* What else is known of a finding: bits. */
enum aorta_circumstance {
    AORTA_OF_GRAPH = 1,       /* launch_latency: most of it between operations of a graph */
    AORTA_LATE_DEVICE = 2,    /* straggler: the late rank's device was still busy; else its host came late */
    AORTA_LATE_CHANGES = 4,   /* straggler: less than two thirds are one rank's doing */
    AORTA_NOT_EXPLAINED = 8,  /* host_launch: of most of it the launches are not known */
    AORTA_COARSE = 16,        /* as the verdict's */
    AORTA_GAPS = 32,          /* as the verdict's */
    AORTA_POWER_LIMIT = 64,   /* contention: the device is at its power limit */
    AORTA_LAUNCHES = 128,     /* compute: as far as is known, launches cost time too */
    AORTA_MOVES_DATA = 256,   /* compute: more of it is pointwise kernels and reductions than products */
    AORTA_RECURS = 512,       /* launch_latency: about as much in most steps */
    AORTA_CAPTURE = 1024,     /* host_launch: graphs were captured, and not run */
    AORTA_INPUT = 2048,       /* host_pause: in most steps before a copy to the device */
    AORTA_OWN_WORK = 1 << 14, /* straggler: ranks wait for each other's compute, whatever else is mended */
    AORTA_STAGES = 1 << 15,   /* … most of it in sends and receives */
    AORTA_XLA = 1 << 16,      /* the program's kernels are XLA's: JAX */
    AORTA_CUPY = 1 << 17,     /* … CuPy's */
    AORTA_TRITON = 1 << 19,   /* … Triton's, which the driver launches */
    AORTA_SERVING = 1 << 23,  /* the steps are those of an inference engine: vLLM, SGLang */
    AORTA_FRAMEWORKS = AORTA_XLA | AORTA_CUPY | AORTA_TRITON | AORTA_SERVING,
    AORTA_REPEATED = 1 << 20,  /* exposed reductions: all gradients are reduced several times a step */
    AORTA_UNLIKE = 1 << 21,    /* straggler: the steps' work differs */
    AORTA_SENDS = 1 << 13,     /* exposed all_to_all: sends and receives, as far as the file says */
    AORTA_OFFLOADED = 1 << 18, /* host_pause: in most steps, after copies to the host as large as those back */
    AORTA_NARROW = 1 << 22,    /* compute: much of it is arithmetic in 16 bits or fewer */
    AORTA_SAVES = 1 << 24,     /* host_pause: in few steps, with much that is copied to the host */
    AORTA_HOST_WAITS = 4096,   /* copy: most of the gain is the host's, which waits in the copy */
};

struct aorta_finding {
    enum aorta_cause cause;
    unsigned circumstances;           /* enum aorta_circumstance */
    enum aorta_collective collective; /* for the causes about collectives */
    double cost_ms;                   /* per iteration, mean over ranks */
    double share;                     /* of the mean step time */
    int rank;                         /* the rank that pays most (straggler: that is late); -1: all alike */
    double gain_ms;                   /* a step's, without it and all that gain more; meaningless without a replay */
    double gain_share;                /* of the replayed step */
    double gain_range_ms[2];          /* of gain_ms: as sure as the lags of the recording are explained */
    double alone_ms;                  /* a step's, without it alone */
    const char *remedy; /* static: key of the remedy of compute that it is, "precision=bf16"; NULL: none */
    double then_ms;     /* of a remedy: what it gains after those before it in roofline/remedies.def */
    char *evidence, *advice;
    char *kernel;     /* whole name of the kernel that the evidence names; NULL: none */
    double kernel_ms; /* compute, copies: a step's in it */
};

/* What the step without all causes still takes, along the path that decides it; adds up to it (left.c). */
struct aorta_verdict_left {
    double compute_ms;                            /* kernels, */
    double alone_ms;                              /* of it those of one rank while the others wait for it */
    double collective_ms[AORTA_COLLECTIVE_COUNT]; /* with nothing beside them on the path, by kind */
    double copy_ms, starts_ms, host_ms;           /* starts: from what lets work begin to its beginning */
    double unexplained_ms;                        /* lags as recorded */
};

/* What the replay of the recorded step says (gains.h). */
struct aorta_verdict_replay {
    bool known;
    const char *reason; /* static: why there is none; NULL where none was asked for */
    double measured_ms, replayed_ms, floor_ms;
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
    int64_t step_ns; /* span + lead; equals the sum of cause_ns */
    int64_t cause_ns[AORTA_CAUSE_COUNT];
    int64_t collective_ns[AORTA_CAUSE_COUNT][AORTA_COLLECTIVE_COUNT]; /* the causes about collectives, by kind */
};

struct aorta_verdict {
    struct aorta_finding *findings; /* largest cost first; causes that cost nothing are left out */
    size_t finding_count;
    struct aorta_rank_costs *ranks; /* in order of rank */
    size_t rank_count;
    size_t warmup;                    /* iterations left out at the start of each rank */
    size_t iterations;                /* measured on each rank, at least */
    double step_ms_mean, step_ms_p50; /* from the end of a step to that of the next */
    double step_ms_p10, step_ms_p90;  /* of all ranks' steps together */
    double steps_unlike;  /* share of neighbouring steps that do different work; NaN: not known, or the steps are alike
                           * in length */
    double overlap_ratio; /* sum of overlap / sum of comm; NaN without communication */
    double exposed_ms, comm_ms, compute_ms, idle_ms; /* means per iteration and rank; idle with the lead */
    struct aorta_slowdown slowdown;
    double lost_beside; /* of each ns of a collective newly hidden, what compute beside it takes longer; NaN: unknown */
    struct aorta_verdict_replay replay;
    struct aorta_roofline *rooflines; /* of each rank; NULL: none were made */
    size_t roofline_count;
    char *disturbed;   /* what disturbed the machine, a sentence without its full stop; NULL: nothing that is known */
    bool undisturbed;  /* the machine was watched, and nothing disturbed it */
    char *note;        /* beside the causes, without a cost of its own: "clocks: ..."; NULL: none */
    double host_alone; /* of a recording without a device: share of the time in which its collectives ran alone */
    int ranks_missing; /* of a recording: ranks of its largest process group that were not given */
    bool sends;        /* what is called all-to-all are sends and receives, as far as the file says */
    bool simulated, common_clock;
    bool host_only;        /* no work of a device is in the files: operations of the host stand for it */
    bool recorded;         /* of any program: not of steps that a recorder of ours measured */
    bool whole;            /* an iteration is a whole recording, not a step */
    bool idle_unexplained; /* most of host_launch is idle time of which the launches are not known */
    /* No launch times at all: ranges of such files cover the host's gaps, so that compute, and with it overlap, is
     * only an upper bound and nothing can be said about the host. */
    bool coarse;
    /* Ranges of a GPU whose kernels were launched one by one: the microseconds from one kernel to the next count as
     * compute, which, and with it overlap, is only an upper bound. */
    bool gaps;
};

/* The verdict on recorded ranks (timeline/analysis.h). Of a program whose configuration nobody knows advice is general;
 * of steps that a recorder of ours measured aorta_advise makes it for their settings. The caller ends
 * *verdict with aorta_verdict_free; it borrows nothing of the analysis, which loses what only comparing steps needs
 * (aorta_trace_ranges_free): one verdict of an analysis. */
AORTA_MUST_USE aorta_status aorta_verdict_make(struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict);
/* What of late launches may be the recording's own, which makes each of so many launches a step longer
 * (trace_recorder.c). False: below what deserves a note. */
bool aorta_recording_share(const struct aorta_verdict *verdict, double launches, char *sentence, size_t size);
/* Sets the note, "ABOUT: SENTENCE". */
AORTA_MUST_USE aorta_status aorta_verdict_note(struct aorta_verdict *verdict, const char *about, const char *sentence);
/* Sets what disturbed the machine; NULL: nothing did. */
AORTA_MUST_USE aorta_status aorta_verdict_machine(struct aorta_verdict *verdict, const char *disturbed);
/* Gives the verdict the ranks' rooflines, `count` of an array from malloc, also when it fails, and says in the evidence
 * of compute what they show. (compute_text.c) */
AORTA_MUST_USE aorta_status aorta_verdict_roofline(struct aorta_verdict *verdict, struct aorta_roofline *rooflines,
                                                   size_t count);
void aorta_verdict_free(struct aorta_verdict *verdict);

/* The step that gains are of, and the one that costs are of: both without the recording where that is known. */
double aorta_verdict_gained_ms(const struct aorta_verdict *verdict);
double aorta_verdict_spent_ms(const struct aorta_verdict *verdict);

/* Whether the finding's gain is a hundredth of the step or more (gains.c). */
bool aorta_finding_gains(const struct aorta_finding *finding);
/* Adds ", 9 to 26 ms" where the range of the gain is worth saying (gains.c). */
void aorta_finding_say_range(const struct aorta_finding *finding, struct aorta_text *out);

/* "Verdict: compute-bound: …": the first sentence of the verdict's text, without an end. */
void aorta_verdict_headline(const struct aorta_verdict *verdict, struct aorta_text *out);
/* Key and value of "verdict": [{cause, collective?, gain_ms?, gain_share?, gain_range_ms?, alone_ms?, cost_ms, share,
 * rank, evidence, advice, kernel?}]; the gains where a replay was asked for. At most eight rows; the rest are a count
 * and a sum, "verdict_folded": {rows, cost_ms, share}. */
void aorta_verdict_findings(const struct aorta_verdict *verdict, struct aorta_json *json);
/* Keys and values of "replay": {measured_ms, replayed_ms, inferred_share, unexplained_share, reason} and "floor_ms". */
void aorta_verdict_replay_write(const struct aorta_verdict *verdict, struct aorta_json *json);

/* Headline, figures, note, up to eight causes, how many more there are, and two pieces of advice, each a sentence
 * wrapped at `width` columns (aorta_terminal_width of base/lines.h; 0: 100). Nothing is cut; causes below 1% are left
 * out. */
void aorta_verdict_text(const struct aorta_verdict *verdict, int width, struct aorta_text *out);
/* The same as GitHub's Markdown, for pull requests: the causes are a table. */
void aorta_verdict_markdown(const struct aorta_verdict *verdict, struct aorta_text *out);

#endif
