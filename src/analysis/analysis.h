/* What recorded ranks did with their time, to the nanosecond of the source, and what limits them.
 *
 * Definitions: docs/trace.md; those of overlap are docs/metrics.md's, and so is the engine. A rank is
 * one device of one trace. Times are int64 ns on the trace's own clock. */
#ifndef AORTA_ANALYSIS_ANALYSIS_H
#define AORTA_ANALYSIS_ANALYSIS_H

#include "analysis/align.h"
#include "analysis/overlap.h"
#include "analysis/steps.h"
#include "base/text.h"

#include <math.h>

/* One rank's timeline, or a step of it. U and ∩ as in docs/metrics.md. */
struct aorta_trace_figures {
    int64_t start_ns, end_ns; /* first start, last end */
    int64_t span_ns, busy_ns, compute_ns, comm_ns, memcpy_ns, idle_ns;
    int64_t overlap_ns, exposed_comm_ns, exposed_copy_ns;
    double overlap_ratio;         /* NaN without communication */
    double compute_overlap_ratio; /* NaN without compute */
};

struct aorta_trace_times {
    size_t count;
    int64_t total_ns, min_ns, max_ns;
    double mean_ns, p50_ns, p95_ns; /* linear interpolation; NaN when count is 0 */
};

/* Kernels, and copies and fills, of one name. */
struct aorta_trace_kernel_row {
    uint32_t name; /* text of the trace */
    enum aorta_trace_kind kind;
    enum aorta_kernel_class class;
    struct aorta_trace_times times;
    double share;      /* of the summed time of all device work of the rank */
    int64_t bytes;     /* copies and fills: sum; -1: the file does not say */
    size_t step_count; /* runs that begin in counted steps, and their time within these steps */
    int64_t step_ns;
    double step_p50_ns, step_p95_ns; /* how long each of these runs takes; NaN: there are none */
    size_t launched;                 /* kernels with a launch of their own (no graph's) in the file, */
    size_t shorter;                  /* of these, those that take less time than their launch, */
    int64_t launch_ns;               /* and what all these launches took */
};

/* Matrix products of one kernel and shape; of one kernel, grid and block where the file does not say the shape. */
struct aorta_trace_gemm_row {
    uint32_t name;     /* text: the kernel (aorta_trace_product_name) */
    uint32_t shape;    /* row of shapes[]; NONE: the file does not say */
    uint32_t geometry; /* text: blocks and threads; NONE where the shape is known, or nothing */
    struct aorta_trace_times times;
    double flops;                       /* of one; NaN: shape not known */
    size_t alone, beside;               /* runs without a collective, and with one for at least half their time */
    double alone_p50_ns, beside_p50_ns; /* NaN: no such runs */
    double slowdown;                    /* beside / alone; NaN unless there are 8 of each */
    double lost; /* share of its time beside collectives that they cost; 0: not significant (aorta_product_slowdown) */
};

/* The name of the row that a product is in: its kernel's; of a measured operation, which bears the place in the model
 * as well, that of the operation. */
uint32_t aorta_trace_product_name(const struct aorta_trace *trace, const struct aorta_trace_work *work);

/* A stream or a hardware queue. */
struct aorta_trace_lane_row {
    uint32_t row; /* of streams[] or queues[] */
    size_t count;
    int64_t busy_ns, compute_ns, comm_ns, memcpy_ns; /* unions within the lane */
    int64_t overlapped_ns; /* time in which two or more ran on it at once: sum of durations beyond busy */
    size_t others;         /* queues that a stream used; streams that a queue served */
};

/* Collectives of one kind and process group; in the finer table also of one size, type and number of channels. */
struct aorta_trace_collective_row {
    enum aorta_collective kind;
    uint32_t group;     /* of aorta_trace_analysis.groups; NONE: the file does not say */
    int64_t bytes_each; /* finer table: larger buffer of this rank; -1: not known */
    int64_t channels;   /* finer table: thread blocks of the kernel; -1: not known */
    uint32_t dtype;     /* finer table: text as in the file; NONE: not known */
    struct aorta_trace_times times;
    int64_t bytes;                           /* sum; -1: not known of every one */
    int64_t comm_ns, overlap_ns, exposed_ns; /* U(row), of it beside compute, the rest */
    int64_t blamed_ns;                       /* its part of the rank's exposed_comm_ns; the rows' add up to it */
    int64_t wait_ns;                         /* sum of the time before the last rank had arrived */
    size_t waits_known;                      /* collectives that all ranks of the group recorded */
    int64_t transfer_ns;                     /* sum over those: from when the last rank had arrived */
    struct {                                 /* the same of those in the steps that count */
        size_t count;
        int64_t ns, blamed_ns, wait_ns, transfer_ns;
    } steps;
    double algbw_gbps, busbw_gbps; /* over all of them, waiting included; NaN: not known */
    double transfer_busbw_gbps;    /* over those with known waits, without the waits; NaN: not known */
};

/* What the link did, as far as the file says: without the waits, else with them. */
static inline double aorta_trace_row_busbw(const struct aorta_trace_collective_row *row) {
    return isnan(row->transfer_busbw_gbps) ? row->busbw_gbps : row->transfer_busbw_gbps;
}

/* Calls of the host that wait for the device, of one name and from one place in the program. Texts; NONE: not recorded.
 */
struct aorta_trace_sync_row {
    uint32_t name, operation, function, range; /* as in aorta_trace_caller */
    struct aorta_trace_times times;            /* in the steps that count */
};

/* "cudaStreamSynchronize in aten::item at train.py(45): step", as far as it is known; returns `name`. */
const char *aorta_trace_sync_name(const struct aorta_trace *trace, const struct aorta_trace_sync_row *row, char *name,
                                  size_t size);

/* A kernel that takes one rank longer than the other ranks, or that only this rank runs. Figures are per step. */
struct aorta_trace_difference {
    const char *name; /* of the rank's trace */
    uint32_t rank;    /* place in ranks[] */
    double count, ns;
    double others_count, others_ns; /* median of the other ranks, */
    double excess_ns;               /* and the rank's time above others_ns; both times use only runs without a
                                     * concurrent collective where there are any */
};

/* A stretch in which nothing ran. */
struct aorta_trace_gap {
    int64_t start_ns, end_ns;
    int64_t launch_ns;      /* when what ended it was launched; INT64_MIN: not known */
    struct aorta_idle idle; /* adds up to its length */
    size_t next;            /* work that ended it: row of the rank's work[] */
    uint32_t call;          /* the longest call of the host within; row of calls[], or NONE */
    uint32_t annotation;    /* the innermost range that the program had marked there; or NONE */
    int64_t step;           /* number; INT64_MIN: in none */
};

/* A stretch of a rank's time that is analyzed on its own: a step, or what lies before, after or between. */
struct aorta_trace_window {
    int64_t number;               /* of the step; INT64_MIN: no step */
    int64_t start_ns, end_ns;     /* work is cut at these */
    int64_t step_ns;              /* from step to step, where a run measured it; 0: lead and span are */
    struct aorta_profile profile; /* kernel view of the window, on the common clock of the ranks, with its overlap */
    bool borrowed;                /* the profile is the trace's (aorta_trace_measured) */
    bool led;                     /* when the work before it ended is recorded, or where the host marked its start */
    uint32_t *work;               /* row of the rank's work[] for each range */
    uint32_t *shared;             /* row of alignment.shared[] for each range; NONE: no other rank
                                   * recorded that collective, or this is the rest of its kernel */
};

struct aorta_trace_rank {
    int rank;
    const struct aorta_trace *trace;
    int32_t device;                      /* the file's number */
    const struct aorta_trace_work *work; /* of this device and the chosen steps, ascending start */
    size_t work_count;
    uint32_t *source;             /* the trace's row of each; NULL: `work` is the trace's own array */
    bool trains, infers;          /* phases.h */
    int64_t stamps, stamps_ns;    /* kernels that measured; left out of all figures */
    struct aorta_intervals holes; /* between chosen steps that do not follow each other: not in any figure */
    struct aorta_arena memory;    /* of all arrays but those of profiles and overlaps */

    struct aorta_trace_figures figures;
    struct aorta_idle idle; /* adds up to figures.idle_ns */
    /* Largest total first, as all tables; in the steps that count, then in all. */
    struct aorta_trace_kernel_row *kernels;
    size_t kernel_count;
    int64_t step_work_ns; /* sum of their step_ns */
    struct aorta_trace_gemm_row *gemms;
    size_t gemm_count;
    struct aorta_trace_lane_row *streams, *queues; /* queue_count 0: the file names no queues */
    size_t stream_count, queue_count;
    struct aorta_trace_collective_row *collectives, *collective_sizes;
    size_t collective_count, collective_size_count;
    struct aorta_trace_sync_row *syncs;
    size_t sync_count;
    size_t steps;                 /* windows that count, which are what `a step` is; at least 1 */
    struct aorta_trace_gap *gaps; /* the longest */
    size_t gap_count;
    struct aorta_trace_window *windows; /* in order of time; those of chosen steps, or all */
    size_t window_count;
};

/* A process group as all ranks know it. */
struct aorta_trace_world_group {
    const char *name, *description; /* of the first trace that has it; may be "" */
    const int32_t *ranks;           /* NULL: not known */
    size_t rank_count;
    int32_t size; /* -1: not known */
};

/* When a rank arrives at the collectives that it shares with other ranks. */
struct aorta_trace_arrivals {
    uint32_t rank;                               /* place in ranks[] */
    size_t collectives, first, last;             /* shared ones, and how often it was there first and last */
    int64_t after_first_ns, after_first_most_ns; /* how long after the first rank: sum, longest */
    int64_t wait_ns;                             /* it waited for the last rank, in all */
    int64_t late_ns;                             /* the first rank waited for it where it was last, in all */
    int64_t ns;                                  /* of its kernels */
};

/* A rank's part in an all-to-all whose parts are not equal. */
struct aorta_trace_uneven {
    uint32_t rank, work;    /* place in ranks[], row of its work[] */
    int64_t sent, received; /* bytes; -1: not known */
    size_t parts;
    double imbalance; /* largest part / mean of those sent (received, where only these are known) */
};

/* What these move from one rank to another. */
struct aorta_trace_pair {
    uint32_t from, to; /* ranks of the job */
    size_t count;
    int64_t bytes;
};

struct aorta_trace_analysis {
    struct aorta_trace_rank *ranks; /* ascending rank */
    size_t rank_count, rank_capacity;
    struct aorta_trace_world_group *groups;
    size_t group_count, group_capacity;
    struct aorta_alignment alignment;      /* of the ranks, by their place */
    struct aorta_trace_arrivals *arrivals; /* of each rank, the most waited for first; none: no collective is shared */
    size_t arrival_count;
    struct aorta_trace_uneven *uneven; /* by rank, then time */
    size_t uneven_count;
    struct aorta_trace_pair *pairs; /* by from, then to */
    size_t pair_count;
    int32_t gpus_per_node;                      /* ranks 0 … n - 1 are on the first node, and so on; 0: not known */
    struct aorta_trace_difference *differences; /* largest excess first */
    size_t difference_count;
    bool stepped;        /* steps are known; else a rank's whole recording counts as one */
    bool measured;       /* a recorder of ours measured them (aorta_trace_measured) */
    bool common_clock;   /* of the ranks, once they are aligned; else each step has clocks of its own: nothing that
                          * needs one is known */
    bool sends;          /* what looks like all_to_all are sends and receives, as far as the files say */
    size_t warmup;       /* steps left out at each rank's start */
    bool whole, chosen;  /* was asked for: steps do not count; only some of them are analyzed */
    bool unled;          /* the first step is left out, as the end of the work before it is not recorded */
    double trend_ns[2];  /* a step at the start and at the end, where steps get ever shorter; else 0 */
    int64_t steady_from; /* number of the first step that counts; INT64_MIN: all, or the steps were measured */
    const struct aorta_trace *thin; /* the first of which too much is missing for a verdict (trace.h), or of several
                                     * processes, or almost without work; NULL: none */
    size_t mixed;                   /* processes of `thin` whose events are in one file; 0: it has those of one */
    size_t devices_idle;            /* left out: they ran no kernel, unlike other devices of their trace */
    size_t ranks_outside;           /* left out: they ran only outside the steps that they mark, unlike other ranks */
    struct aorta_arena memory;
};

struct aorta_trace_analysis_options {
    const int64_t *steps; /* only these (ProfilerStep#N); NULL: see all_steps */
    size_t step_count;
    bool all_steps;        /* only work within steps; false: everything */
    bool whole;            /* one window of everything: steps do not count */
    size_t gaps;           /* how many gaps to keep; 0: 10 */
    bool warmup_given;     /* of steps that were measured `warmup` are left out at each rank's start; false: */
    size_t warmup;         /* as many as aorta_analysis_warmup says of the first rank */
    int32_t gpus_per_node; /* 0: as the files say */
};

/* "all_reduce", …; of sends and receives what they are. */
const char *aorta_trace_kind_name(const struct aorta_trace_analysis *analysis, enum aorta_collective kind);

/* On how many nodes the group's ranks are; -1: not known. */
int32_t aorta_trace_nodes_of(const struct aorta_trace_analysis *analysis, uint32_t group);

/* How many of so many steps are warm-up where nothing else is asked for. */
size_t aorta_analysis_warmup(size_t steps);

/* `list` is borrowed until the analysis is freed. Options may be NULL. AORTA_USAGE: two traces of one rank, a step that
 * no trace has; AORTA_FORMAT: nothing ran on any device. */
AORTA_MUST_USE aorta_status aorta_trace_analyze(const struct aorta_trace_list *list,
                                                const struct aorta_trace_analysis_options *options,
                                                struct aorta_trace_analysis *analysis);
void aorta_trace_analysis_free(struct aorta_trace_analysis *analysis);
/* The ranges and segments of windows that were cut are most of an analysis, and only what compares steps reads them:
 * frees these. Their number stays, as there are so many rows of work. */
void aorta_trace_ranges_free(struct aorta_trace_analysis *analysis);

/* A window of a rank, by their places, as the engine takes it (steps.h). */
struct aorta_iteration aorta_iteration_of(const struct aorta_trace_analysis *analysis, size_t rank, size_t window);

/* Share of neighbouring counted steps that do different work of a kind: different kernels, or products with different
 * grids (for example because sequence lengths differ); copies of other sizes. NaN: fewer than two steps, or no memory.
 */
double aorta_trace_steps_unlike(const struct aorta_trace_analysis *analysis, enum aorta_trace_kind kind);

/* Whether work in the step of this number (INT64_MIN: in no step) counts for means and the verdict. Every step counts
 * that is no warm-up. Where no steps are known, the whole recording counts. */
bool aorta_trace_step_counts(const struct aorta_trace_analysis *analysis, int64_t number);
/* Whether work outside counted steps was analyzed. Totals of the whole recording then differ from totals of the
 * steps. */
bool aorta_trace_beyond_steps(const struct aorta_trace_analysis *analysis);
/* Whether the window's step counts, and something ran in the window. */
bool aorta_trace_window_counts(const struct aorta_trace_analysis *analysis, const struct aorta_trace_window *window);
/* The rank's next window that counts; `before` NULL: its first one. NULL: there are no more. */
const struct aorta_trace_window *aorta_step_after(const struct aorta_trace_analysis *analysis,
                                                  const struct aorta_trace_rank *rank,
                                                  const struct aorta_trace_window *before);

/* ---- what the link between the GPUs of a host can carry ---- */

enum { AORTA_LINK_RANKS = 8 }; /* so many ranks are within one host */

/* GB/s of 10^9 bytes in each direction, by the name of the trace's device; 0: not known. */
double aorta_link_gbps(const struct aorta_trace *trace, int32_t device);

/* The peak for this collective of the rank; 0 also where the collective's group is larger than a host. */
double aorta_trace_link_of(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                           const struct aorta_trace_collective_row *row);

/* How long each of alignment.shared[] takes at best; `times` has as many rows. */
void aorta_collective_times_make(const struct aorta_trace_analysis *analysis, struct aorta_collective_times *times,
                                 struct aorta_arena *memory);

#endif
