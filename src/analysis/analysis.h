/* Analyzes the time of recorded ranks, to the nanosecond of the source.
 *
 * Definitions: docs/trace.md, of overlap docs/metrics.md. A rank is one device of one
 * trace. Times are int64 ns on the trace's own clock. */
#ifndef AORTA_ANALYSIS_ANALYSIS_H
#define AORTA_ANALYSIS_ANALYSIS_H

#include "analysis/align.h"
#include "analysis/overlap.h"
#include "analysis/steps.h"
#include "base/text.h"

#include <math.h>

/* Figures of a rank's timeline or of a step. U and ∩ as in docs/metrics.md. */
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

/* Kernels, copies or fills of one name. */
struct aorta_trace_kernel_row {
    uint32_t name; /* text of the trace */
    enum aorta_trace_kind kind;
    enum aorta_kernel_class class;
    struct aorta_trace_times times;
    double share;      /* of the total time of the rank's device work */
    int64_t bytes;     /* copies and fills: sum; -1: not known */
    size_t step_count; /* runs that begin in counted steps; time within these steps */
    int64_t step_ns;
    double step_p50_ns, step_p95_ns; /* of the durations of these runs; NaN: none */
    size_t launched;                 /* kernels with their own recorded launch (no graph), … */
    size_t shorter;                  /* … those of them shorter than their launch, … */
    int64_t launch_ns;               /* … and the total time of these launches */
};

/* Matrix products of one kernel and shape, or of one kernel, grid and block if the shape is unknown. */
struct aorta_trace_gemm_row {
    uint32_t name;     /* text: the kernel (aorta_trace_product_name) */
    uint32_t shape;    /* row of shapes[]; NONE: not known */
    uint32_t geometry; /* text: blocks and threads; NONE if the shape is known, or neither */
    struct aorta_trace_times times;
    double flops;                       /* of one product; NaN: shape not known */
    size_t alone, beside;               /* runs without a concurrent collective; runs with one for at least half their
                                         * time */
    double alone_p50_ns, beside_p50_ns; /* NaN: no such runs */
    double slowdown;                    /* during collectives / alone; NaN unless there are 8 of each */
    double lost; /* share of its time during collectives that they cost; 0: not significant (aorta_product_slowdown) */
};

/* The name of a product's row: the operation's for a measured operation, else the kernel's. A measured kernel's name
 * contains its place in the model. */
uint32_t aorta_trace_product_name(const struct aorta_trace *trace, const struct aorta_trace_work *work);

/* A stream or a hardware queue. */
struct aorta_trace_lane_row {
    uint32_t row; /* of streams[] or queues[] */
    size_t count;
    int64_t busy_ns, compute_ns, comm_ns, memcpy_ns; /* unions within the lane */
    int64_t overlapped_ns; /* sum of durations − busy_ns: time in which work ran concurrently on it */
    size_t others;         /* queues that a stream used; streams that a queue served */
};

/* Collectives of one kind and process group; in the finer table also of one size, type and number of channels. */
struct aorta_trace_collective_row {
    enum aorta_collective kind;
    uint32_t group;     /* of aorta_trace_analysis.groups; NONE: not known */
    int64_t bytes_each; /* finer table: larger buffer of this rank; -1: not known */
    int64_t channels;   /* finer table: thread blocks of the kernel; -1: not known */
    uint32_t dtype;     /* finer table: text as in the file; NONE: not known */
    struct aorta_trace_times times;
    int64_t bytes;                           /* sum; -1: not known for all */
    int64_t comm_ns, overlap_ns, exposed_ns; /* U(row), its hidden part, its exposed part */
    int64_t blamed_ns;                       /* its part of the rank's exposed_comm_ns; the rows' add up to it */
    int64_t wait_ns;                         /* sum of the time before the last rank had arrived */
    size_t waits_known;                      /* collectives that all ranks of the group recorded */
    int64_t transfer_ns;                     /* sum over those: time after the last rank had arrived */
    struct {                                 /* in counted steps */
        size_t count;
        int64_t ns, blamed_ns, wait_ns, transfer_ns;
    } steps;
    double algbw_gbps, busbw_gbps; /* over all collectives, waits included; NaN: not known */
    double transfer_busbw_gbps;    /* over those with known waits, waits excluded; NaN: not known */
};

/* The bus bandwidth, without waits if they are known. */
static inline double aorta_trace_row_busbw(const struct aorta_trace_collective_row *row) {
    return isnan(row->transfer_busbw_gbps) ? row->busbw_gbps : row->transfer_busbw_gbps;
}

/* Calls of the host that wait for the device, of one name and from one place in the program. Texts; NONE: not recorded.
 */
struct aorta_trace_sync_row {
    uint32_t name, operation, function, range; /* as in aorta_trace_caller */
    struct aorta_trace_times times;            /* in the steps that count */
};

/* "cudaStreamSynchronize in aten::item at train.py(45): step", without unknown parts; returns `name`. */
const char *aorta_trace_sync_name(const struct aorta_trace *trace, const struct aorta_trace_sync_row *row, char *name,
                                  size_t size);

/* A kernel that is slower on one rank than on the other ranks, or that only this rank runs. Figures are per step. */
struct aorta_trace_difference {
    const char *name; /* in the rank's trace */
    uint32_t rank;    /* place in ranks[] */
    double count, ns;
    double others_count, others_ns; /* median of the other ranks, */
    double excess_ns;               /* and the rank's time above others_ns; both times use only runs without a
                                     * concurrent collective where there are any */
};

/* A stretch in which nothing ran. */
struct aorta_trace_gap {
    int64_t start_ns, end_ns;
    int64_t launch_ns;      /* launch of the work that ended it; INT64_MIN: not known */
    struct aorta_idle idle; /* adds up to its length */
    size_t next;            /* work that ended it: row of the rank's work[] */
    uint32_t call;          /* the host's longest call within; row of calls[], or NONE */
    uint32_t annotation;    /* the program's innermost range there; or NONE */
    int64_t step;           /* number; INT64_MIN: in none */
};

/* A stretch of a rank's time that is analyzed on its own: a step, or the time before, after or between steps. */
struct aorta_trace_window {
    int64_t number;               /* of the step; INT64_MIN: no step */
    int64_t start_ns, end_ns;     /* work is cut at these */
    int64_t step_ns;              /* step time as measured by a run; 0: lead + span is used */
    struct aorta_profile profile; /* kernel view of the window, on the common clock of the ranks, with its overlap */
    bool borrowed;                /* the profile is the trace's (aorta_trace_measured) */
    bool led;                     /* its start is known: the end of the work before it, or a mark of the host */
    uint32_t *work;               /* row of the rank's work[] for each range */
    uint32_t *shared;             /* row of alignment.shared[] for each range; NONE: no other rank recorded the
                                   * collective, or the range is a later part of its kernel */
};

struct aorta_trace_rank {
    int rank;
    const struct aorta_trace *trace;
    int32_t device;                      /* number in the file */
    const struct aorta_trace_work *work; /* of this device and the chosen steps, ascending start */
    size_t work_count;
    uint32_t *source;             /* by work: row in the trace; NULL: `work` is the trace's own array */
    bool trains, infers;          /* phases.h */
    int64_t stamps, stamps_ns;    /* kernels that only measure; excluded from all figures */
    struct aorta_intervals holes; /* between chosen steps that are not consecutive; excluded from all figures */
    struct aorta_arena memory;    /* of all arrays except those of profiles and overlaps */

    struct aorta_trace_figures figures;
    struct aorta_idle idle; /* adds up to figures.idle_ns */
    /* Sorted by time in counted steps, then by total time, largest first. */
    struct aorta_trace_kernel_row *kernels;
    size_t kernel_count;
    int64_t step_work_ns; /* sum of the rows' step_ns */
    struct aorta_trace_gemm_row *gemms;
    size_t gemm_count;
    struct aorta_trace_lane_row *streams, *queues; /* queue_count 0: no queues in the file */
    size_t stream_count, queue_count;
    struct aorta_trace_collective_row *collectives, *collective_sizes;
    size_t collective_count, collective_size_count;
    struct aorta_trace_sync_row *syncs;
    size_t sync_count;
    size_t steps;                 /* counted windows, by which figures per step are divided; at least 1 */
    struct aorta_trace_gap *gaps; /* the longest */
    size_t gap_count;
    struct aorta_trace_window *windows; /* in order of time; those of chosen steps, or all */
    size_t window_count;
};

/* A process group, joined from all ranks. */
struct aorta_trace_world_group {
    const char *name, *description; /* of the first trace that has it; may be "" */
    const int32_t *ranks;           /* NULL: not known */
    size_t rank_count;
    int32_t size; /* -1: not known */
};

/* Arrivals of a rank at collectives that it shares with other ranks. */
struct aorta_trace_arrivals {
    uint32_t rank;                               /* place in ranks[] */
    size_t collectives, first, last;             /* shared collectives; how often it arrived first and last */
    int64_t after_first_ns, after_first_most_ns; /* delay after the first rank: sum, maximum */
    int64_t wait_ns;                             /* total wait for the last rank */
    int64_t late_ns;                             /* total wait of the first rank for this rank when it was last */
    int64_t ns;                                  /* of its kernels */
};

/* A rank's part of an all-to-all with unequal parts. */
struct aorta_trace_uneven {
    uint32_t rank, work;    /* place in ranks[], row of its work[] */
    int64_t sent, received; /* bytes; -1: not known */
    size_t parts;
    double imbalance; /* largest / mean part sent (received if only these are known) */
};

/* Bytes that these all-to-alls move from one rank to another. */
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
    struct aorta_trace_arrivals *arrivals; /* one per rank, the one most waited for first; empty if no collective is
                                            * shared */
    size_t arrival_count;
    struct aorta_trace_uneven *uneven; /* by rank, then time */
    size_t uneven_count;
    struct aorta_trace_pair *pairs; /* by from, then to */
    size_t pair_count;
    int32_t gpus_per_node;                      /* ranks 0 … n - 1 are on the first node, and so on; 0: not known */
    struct aorta_trace_difference *differences; /* largest excess first */
    size_t difference_count;
    bool stepped;        /* steps are known; else a rank's whole recording is one step */
    bool measured;       /* steps were measured by our recorder (aorta_trace_measured) */
    bool common_clock;   /* ranks have one clock after alignment; else each step has its own, and figures that need a
                          * common clock are unknown */
    bool sends;          /* all_to_all kernels are sends and receives */
    size_t warmup;       /* steps excluded at each rank's start */
    bool whole, chosen;  /* option `whole`: steps do not count; only some of them are analyzed */
    bool unled;          /* the first step is left out, as the end of the work before it is not recorded */
    bool drained;        /* the last step is left out, as work that was queued before it ends in it */
    double trend_ns[2];  /* time of a step at the start and the end if steps get ever shorter; else 0 */
    int64_t steady_from; /* number of the first counted step; INT64_MIN: all, or measured steps */
    int64_t steady_end;  /* number of the first step that does not count any more */
    const struct aorta_trace *thin; /* the first trace without a verdict: too much is missing (trace.h), it has several
                                     * processes, or almost no work; NULL: none */
    size_t mixed;                   /* processes in `thin`; 0: one */
    size_t devices_idle;            /* excluded: ran no kernel, unlike other devices of their trace */
    size_t ranks_outside;           /* excluded: ran only outside their marked steps, unlike other ranks */
    struct aorta_arena memory;
};

struct aorta_trace_analysis_options {
    const int64_t *steps; /* only these (ProfilerStep#N); NULL: see all_steps */
    size_t step_count;
    bool all_steps;        /* only work within steps; false: all work */
    bool whole;            /* everything is one window; steps do not count */
    size_t gaps;           /* gaps to store; 0: 10 */
    bool warmup_given;     /* `warmup` is set; else aorta_analysis_warmup of the first rank is used */
    size_t warmup;         /* measured steps that are excluded at each rank's start */
    int32_t gpus_per_node; /* 0: as in the files */
};

/* "all_reduce", …; for sends and receives their own name. */
const char *aorta_trace_kind_name(const struct aorta_trace_analysis *analysis, enum aorta_collective kind);

/* The number of nodes of the group's ranks; -1 if unknown. */
int32_t aorta_trace_nodes_of(const struct aorta_trace_analysis *analysis, uint32_t group);

/* The default number of warm-up steps among `steps` measured ones. */
size_t aorta_analysis_warmup(size_t steps);

/* `list` is borrowed until the analysis is freed. Options may be NULL. AORTA_USAGE: two traces of one rank, or a step
 * that no trace has. AORTA_FORMAT: no device has work. */
AORTA_MUST_USE aorta_status aorta_trace_analyze(const struct aorta_trace_list *list,
                                                const struct aorta_trace_analysis_options *options,
                                                struct aorta_trace_analysis *analysis);
void aorta_trace_analysis_free(struct aorta_trace_analysis *analysis);
/* Frees ranges and segments of windows that are not borrowed. They are most of an analysis's memory and only needed to
 * compare steps. range_count stays, as it is also the length of window->work. */
void aorta_trace_ranges_free(struct aorta_trace_analysis *analysis);

/* A window of a rank, both by index, as an iteration (steps.h). */
struct aorta_iteration aorta_iteration_of(const struct aorta_trace_analysis *analysis, size_t rank, size_t window);

/* Share of neighbouring counted steps with different work of a kind: different kernels, matrix products with different
 * grids (as for different sequence lengths), or copies of different sizes. NaN with fewer than two steps, or if memory
 * is exhausted.
 */
double aorta_trace_steps_unlike(const struct aorta_trace_analysis *analysis, enum aorta_trace_kind kind);

/* Whether work of this step (INT64_MIN: in no step) counts for means and the verdict. All steps except warm-up count.
 * Without steps, the whole recording counts. */
bool aorta_trace_step_counts(const struct aorta_trace_analysis *analysis, int64_t number);
/* Whether work outside counted steps was analyzed, so that totals of the recording differ from those of the steps. */
bool aorta_trace_beyond_steps(const struct aorta_trace_analysis *analysis);
/* Whether the window's step counts, and something ran in the window. */
bool aorta_trace_window_counts(const struct aorta_trace_analysis *analysis, const struct aorta_trace_window *window);
/* The rank's next counted window after `before`, the first if that is NULL. NULL if there are no more. */
const struct aorta_trace_window *aorta_step_after(const struct aorta_trace_analysis *analysis,
                                                  const struct aorta_trace_rank *rank,
                                                  const struct aorta_trace_window *before);

/* ---- bandwidth of the links between the GPUs of a host ---- */

enum { AORTA_LINK_RANKS = 8 }; /* maximum ranks of a group within one host */

/* GB/s (10^9 bytes) per direction, by the device's name; 0 if unknown. */
double aorta_link_gbps(const struct aorta_trace *trace, int32_t device);

/* The peak for a row of collectives; 0 if unknown or the group is larger than a host. */
double aorta_trace_link_of(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                           const struct aorta_trace_collective_row *row);

/* The best time of each collective of alignment.shared[]; `times` has as many rows. */
void aorta_collective_times_make(const struct aorta_trace_analysis *analysis, struct aorta_collective_times *times,
                                 struct aorta_arena *memory);

#endif
