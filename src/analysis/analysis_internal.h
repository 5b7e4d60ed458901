/* The parts of aorta_trace_analyze; only for this folder. If memory is exhausted, the `failed` of the rank's or
 * analysis's arena is set. */
#ifndef AORTA_ANALYSIS_ANALYSIS_INTERNAL_H
#define AORTA_ANALYSIS_ANALYSIS_INTERNAL_H

#include "analysis/analysis.h"
#include "base/interval.h"

/* The busy time of a rank's device, as sets of intervals. */
struct aorta_trace_busy {
    struct aorta_intervals compute, comm, copy, all;
};
/* If memory is exhausted, compute.failed is set. */
void aorta_trace_busy_make(const struct aorta_trace_rank *rank, struct aorta_trace_busy *busy);
void aorta_trace_busy_free(struct aorta_trace_busy *busy);

/* ---- steps (analysis_windows.c) ---- */

/* Cuts each rank's time at its steps (bounds only), and drops windows and work that were not asked for. */
void aorta_trace_windows_cut(struct aorta_trace_rank *rank, const struct aorta_trace_analysis_options *options);
/* Cuts the time of a rank whose steps were measured, and drops the warm-up. */
void aorta_trace_windows_measured(struct aorta_trace_rank *rank, const struct aorta_trace_analysis_options *options,
                                  size_t warmup);
/* Called before the windows are made: chooses the warm-up of measured steps. */
void aorta_trace_warmup_choose(struct aorta_trace_analysis *analysis,
                               const struct aorta_trace_analysis_options *options);
/* The minimum number of steps to exclude one whose start is not recorded. */
enum { AORTA_STEPS_TO_LEAVE_ONE = 3 };
/* Called after the profiles are made: finds the warm-up of steps that were not measured, and whether the first step's
 * start is unknown. */
void aorta_trace_warmup_find(struct aorta_trace_analysis *analysis);
/* AORTA_USAGE if no measured step is left of the `steps` recorded. */
AORTA_MUST_USE aorta_status aorta_trace_measured_check(const struct aorta_trace_analysis *analysis,
                                                       const struct aorta_trace_analysis_options *options,
                                                       size_t steps);
/* Called after the windows are made: finds whether measured ranks share a clock. */
void aorta_trace_clocks_check(struct aorta_trace_analysis *analysis);
struct aorta_trace_step_map {
    const struct aorta_trace_rank *rank;
    size_t *window;    /* by step of the trace: index in windows[]; SIZE_MAX: none */
    uint32_t *of_work; /* for measured steps, by row of the rank's work[]: index in windows[]; else NULL */
};
struct aorta_trace_step_map aorta_trace_step_map_make(const struct aorta_trace_rank *rank, struct aorta_arena *memory);
/* The window of the step whose host range contains the time; SIZE_MAX: none. */
size_t aorta_trace_window_at(const struct aorta_trace_step_map *map, int64_t host_ns);
/* The window of the step whose host range contains the launch, else the window in which the work started. */
size_t aorta_trace_window_of(const struct aorta_trace_step_map *map, const struct aorta_trace_work *work);

/* ---- figures and tables of one rank (analysis_profiles.c, analysis_tables.c) ---- */
void aorta_trace_figures_make(struct aorta_trace_rank *rank, struct aorta_trace_busy *busy);
void aorta_trace_lanes_make(struct aorta_trace_rank *rank);
void aorta_trace_kernels_make(struct aorta_trace_rank *rank);
void aorta_trace_gemms_make(struct aorta_trace_rank *rank, const struct aorta_intervals *comm);
/* Covers the steps that count. */
void aorta_trace_syncs_make(const struct aorta_trace_analysis *analysis, struct aorta_trace_rank *rank);
/* Called after the warm-up is known. Sets the rows' times within counted steps and sorts the rows by them. */
void aorta_trace_kernels_in_steps(const struct aorta_trace_analysis *analysis, struct aorta_trace_rank *rank);
/* Sorts *durations. */
struct aorta_trace_times aorta_trace_times_of(int64_t *durations, size_t count);

/* ---- collectives across ranks (analysis_collectives.c) ---- */

/* One rank's part of a collective: a kernel. */
struct aorta_trace_part {
    uint32_t work;       /* row of the rank's work[] */
    uint32_t group;      /* of analysis->groups; NONE */
    uint32_t rank;       /* place in ranks[] */
    uint32_t collective; /* row of alignment.shared[]; NONE: seen by this rank only */
    enum aorta_collective kind;
    int32_t group_size; /* -1: not known */
    int64_t step;       /* number; INT64_MIN: in none */
    int64_t bytes;      /* -1: not known */
    int64_t channels;   /* -1: not known */
    uint32_t dtype;     /* text; NONE: not known */
    int64_t blamed_ns;  /* its part of the rank's exposed communication */
    int64_t wait_ns;    /* until the last rank had arrived; -1: not known */
};

/* All parts, by rank, then in order of the work. */
struct aorta_trace_parts {
    struct aorta_trace_part *items;
    size_t count;
    size_t *first; /* first part of each rank, then the total */
};
/* Identifies groups across ranks, aligns the ranks, and finds each part's collective among those of the other ranks. */
void aorta_trace_parts_make(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts,
                            struct aorta_arena *memory);
/* Finds the part of a row of work[] among one rank's parts. NULL if the row is no collective. */
struct aorta_trace_part *aorta_trace_part_of(struct aorta_trace_part *parts, size_t count, uint32_t work);
/* Called after the windows are made: sets the wait of each part for the last rank and the exposed time of each
 * collective. */
void aorta_trace_shared_finish(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts);
/* Makes both tables of a rank from its parts. */
void aorta_trace_collectives_make(const struct aorta_trace_analysis *analysis, struct aorta_trace_rank *rank,
                                  const struct aorta_trace_part *parts, size_t part_count,
                                  const struct aorta_trace_busy *busy);

/* NCCL uses the same kernels for sends, receives and all-to-alls. True if they are sends and receives: no operation
 * names an all-to-all. */
bool aorta_trace_are_sends(const struct aorta_trace_analysis *analysis);

/* Called after the windows are made; `busy` has an entry per rank (slowdown.c). */
void aorta_trace_differences_make(struct aorta_trace_analysis *analysis, const struct aorta_trace_busy *busy);

/* Called after the collectives are known. */
void aorta_trace_arrivals_make(struct aorta_trace_analysis *analysis, int32_t gpus_per_node);

/* ---- profiles (analysis_profiles.c) ---- */

/* Finds the waits of the host's launching threads. Free with aorta_host_waits_free. */
void aorta_trace_waits_make(struct aorta_trace_rank *rank, struct aorta_host_waits *waits);

/* Fills profile, overlap and work of each window, and blamed_ns of each part. `place`: index of the rank. */
void aorta_trace_profiles_make(struct aorta_trace_rank *rank, int64_t shift_ns, const struct aorta_trace_parts *parts,
                               size_t place, const struct aorta_host_waits *waits);
void aorta_trace_gaps_make(struct aorta_trace_rank *rank, const struct aorta_host_waits *waits, size_t keep);
#endif
