/* One run directory in memory: rank_RR_metrics.jsonl of this program or of the original Python toolkit. */
#ifndef AORTA_MEASURE_RUN_FILES_H
#define AORTA_MEASURE_RUN_FILES_H

#include "analysis/overlap.h"
#include "base/arena.h"
#include "base/intern.h"
#include "base/log.h"
#include "measure/metrics.h"
#include "trace/open.h"
#include "trace/trace.h"

struct aorta_run {
    const char *label, *directory;    /* in the arena */
    const char *device;               /* NULL: the files do not say */
    struct aorta_metrics_device info; /* of the lowest rank */
    int world_size;
    int *ranks; /* those whose files were found, ascending */
    size_t rank_count;
    struct aorta_step_metrics *steps; /* by rank, then in the order of the file; texts are in `strings` */
    size_t step_count, step_capacity;
    int64_t read_every; /* ranges were read of every Nth recorded iteration of each rank; 1: of all */
    bool simulated;
    bool original;     /* files of the Python toolkit: no launch times, coarse compute ranges */
    size_t torn_lines; /* incomplete last lines left out (the run was killed) */
    struct aorta_arena arena;
    struct aorta_texts strings;
};

/* The iterations of one rank. They have no gaps if `absent` is 0. */
struct aorta_run_coverage {
    int64_t first, last; /* global_step */
    int64_t count, absent;
    int64_t before_gap; /* the step before the first that is absent */
};
/* The coverage of ranks[index]; all 0 for a file without iterations. */
struct aorta_run_coverage aorta_run_coverage(const struct aorta_run *run, size_t index);

/* AORTA_USAGE: no such directory or no such file in it; AORTA_FORMAT: a malformed line, with file, line and byte.
 * Missing ranks and steps, and torn last lines are warnings in the log and stay visible in the run. `read_every`: see
 * the run; 0: aorta_run_read_every of the files, which the log reports when it is not 1. What a line has besides ranges
 * is always read. */
AORTA_MUST_USE aorta_status aorta_run_read(const char *directory, const char *label, int64_t read_every,
                                           const struct aorta_log *log, struct aorta_run *run);
void aorta_run_free(struct aorta_run *run);

/* If all iterations were traced, swaps the profiles, so that `profile` has the kernels, and returns true. */
bool aorta_run_take_kernels(struct aorta_run *run);
/* A trace of each rank with ranges, which borrow the run. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_run_traces(const struct aorta_run *run, struct aorta_trace_list *list);
/* Whether a path is a directory with such a file. */
bool aorta_run_is_directory(const char *path);
/* The value for `bytes` of lines with which ranges and their analysis take about 1 GiB at most. */
int64_t aorta_run_read_every(int64_t bytes);

/* One line of a file, with its ranges or without: the inverse of aorta_metrics_format, and for the original Python
 * toolkit's lines. The line has the time from the end of the previous iteration. AORTA_FORMAT names the key or
 * the byte; on failure *step is empty. */
AORTA_MUST_USE aorta_status aorta_run_parse_line(const char *line, size_t length, bool with_ranges,
                                                 struct aorta_run *run, struct aorta_step_metrics *step);
void aorta_run_step_free(struct aorta_step_metrics *step);

/* Converts steps that our recorder measured to a trace, so that metrics lines are analyzed like other traces. */

struct aorta_measured_step {
    int64_t number;
    int64_t step_ns;                     /* the step's time, as the run measured it; 0: unknown */
    const struct aorta_profile *profile; /* with its overlap; borrowed until the trace is freed */
};

/* What one rank measured. Texts are copied, steps are not. */
struct aorta_measured_rank {
    int rank, world_size;
    const char *path;                          /* what the trace is called */
    bool on_gpu;                               /* a range may hold many kernels */
    const struct aorta_metrics_device *device; /* NULL: not known */
    const struct aorta_measured_step *steps;   /* in their order */
    size_t step_count;
};

/* AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_of_measured(const struct aorta_measured_rank *rank, struct aorta_trace **trace);

#endif
