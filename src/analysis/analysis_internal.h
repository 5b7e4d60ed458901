/* The parts of aorta_trace_analyze; for this folder only. Where memory is exhausted, that of the rank or of the
 * analysis has failed. */
#ifndef AORTA_ANALYSIS_ANALYSIS_INTERNAL_H
#define AORTA_ANALYSIS_ANALYSIS_INTERNAL_H

#include "analysis/analysis.h"
#include "base/interval.h"

/* What a rank's device was busy with, as sets of intervals. */
struct aorta_trace_busy {
    struct aorta_intervals compute, comm, copy, all;
};
/* Where memory is exhausted `compute` has failed. */
void aorta_trace_busy_make(const struct aorta_trace_rank *rank, struct aorta_trace_busy *busy);
void aorta_trace_busy_free(struct aorta_trace_busy *busy);

/* ---- steps (analysis_windows.c) ---- */

/* Cuts each rank's time at its steps (bounds only), and drops windows and work that were not asked for. */
void aorta_trace_windows_cut(struct aorta_trace_rank *rank, const struct aorta_trace_analysis_options *options);
/* Cuts the time of a rank whose steps were measured, and drops the warm-up. */
void aorta_trace_windows_measured(struct aorta_trace_rank *rank, const struct aorta_trace_analysis_options *options,
                                  size_t warmup);
/* Before the windows are made: how many steps are warm-up. */
void aorta_trace_warmup_choose(struct aorta_trace_analysis *analysis,
                               const struct aorta_trace_analysis_options *options);
/* So many steps are enough to leave out one whose start is not recorded. */
enum { AORTA_STEPS_TO_LEAVE_ONE = 3 };
/* After the profiles are made: how many of the other steps are, and whether the first one has no start. */
void aorta_trace_warmup_find(struct aorta_trace_analysis *analysis);
/* AORTA_USAGE when no measured step, of so many that were recorded, is left. */
AORTA_MUST_USE aorta_status aorta_trace_measured_check(const struct aorta_trace_analysis *analysis,
                                                       const struct aorta_trace_analysis_options *options,
                                                       size_t steps);
/* After the windows are made: whether measured ranks share a clock. */
void aorta_trace_clocks_check(struct aorta_trace_analysis *analysis);
struct aorta_trace_step_map {
    const struct aorta_trace_rank *rank;
    size_t *window;    /* of each step of the trace: place in windows[], SIZE_MAX: none */
    uint32_t *of_work; /* of measured steps: place in windows[] of each row of the rank's work[]; else NULL */
};
struct aorta_trace_step_map aorta_trace_step_map_make(const struct aorta_trace_rank *rank, struct aorta_arena *memory);
/* The window of the step in whose host range the time lies; SIZE_MAX: none. */
size_t aorta_trace_window_at(const struct aorta_trace_step_map *map, int64_t host_ns);
/* The window of the step in whose host range the work was launched, else the one in which it started. */
size_t aorta_trace_window_of(const struct aorta_trace_step_map *map, const struct aorta_trace_work *work);

/* ---- what one rank did (analysis_profiles.c, analysis_tables.c) ---- */
void aorta_trace_figures_make(struct aorta_trace_rank *rank, struct aorta_trace_busy *busy);
void aorta_trace_lanes_make(struct aorta_trace_rank *rank);
void aorta_trace_kernels_make(struct aorta_trace_rank *rank);
void aorta_trace_gemms_make(struct aorta_trace_rank *rank, const struct aorta_intervals *comm);
/* Covers the steps that count. */
void aorta_trace_syncs_make(const struct aorta_trace_analysis *analysis, struct aorta_trace_rank *rank);
/* Call after the warm-up is known. Gives each kernel's row its time within counted steps, and sorts the rows by it. */
void aorta_trace_kernels_in_steps(const struct aorta_trace_analysis *analysis, struct aorta_trace_rank *rank);
/* Sorts *durations, which are scratch. */
struct aorta_trace_times aorta_trace_times_of(int64_t *durations, size_t count);

/* ---- collectives across ranks (analysis_collectives.c) ---- */

/* One rank's part in a collective: one kernel. */
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

/* All of them, by rank, then in order of the work. */
struct aorta_trace_parts {
    struct aorta_trace_part *items;
    size_t count;
    size_t *first; /* of each rank; one more than there are ranks */
};
/* Identifies groups across ranks, aligns the ranks, and finds each part's collective among those of the other ranks. */
void aorta_trace_parts_make(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts,
                            struct aorta_arena *memory);
/* Finds the part of a row of work[] among one rank's parts. NULL: the row is no collective. */
struct aorta_trace_part *aorta_trace_part_of(struct aorta_trace_part *parts, size_t count, uint32_t work);
/* After the windows are made: how long each part waited for the last rank, and what each collective cost. */
void aorta_trace_shared_finish(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts);
/* Both tables of one rank, from its parts. */
void aorta_trace_collectives_make(const struct aorta_trace_analysis *analysis, struct aorta_trace_rank *rank,
                                  const struct aorta_trace_part *parts, size_t part_count,
                                  const struct aorta_trace_busy *busy);

/* NCCL uses the same kernels for sends, receives and all-to-alls. True: they are sends and receives, because no
 * operation says that one is an all-to-all. */
bool aorta_trace_are_sends(const struct aorta_trace_analysis *analysis);

/* After the windows are made; `busy` is of each rank (slowdown.c). */
void aorta_trace_differences_make(struct aorta_trace_analysis *analysis, const struct aorta_trace_busy *busy);

/* After the collectives are known. */
void aorta_trace_arrivals_make(struct aorta_trace_analysis *analysis, int32_t gpus_per_node);

/* ---- the engine (analysis_profiles.c) ---- */

/* When the host waited, by its launching threads. Ends with aorta_host_waits_free. */
void aorta_trace_waits_make(struct aorta_trace_rank *rank, struct aorta_host_waits *waits);

/* Fills profile, overlap and work of each window, and what each part is blamed for. `place`: of the rank. */
void aorta_trace_profiles_make(struct aorta_trace_rank *rank, int64_t shift_ns, const struct aorta_trace_parts *parts,
                               size_t place, const struct aorta_host_waits *waits);
void aorta_trace_gaps_make(struct aorta_trace_rank *rank, const struct aorta_host_waits *waits, size_t keep);
#endif
