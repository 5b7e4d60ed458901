/* One run directory in memory: rank_RR_metrics.jsonl of this program or of the original Python toolkit. */
#ifndef AORTA_REPORT_RUN_H
#define AORTA_REPORT_RUN_H

#include "base/arena.h"
#include "base/log.h"
#include "device/metrics.h"
#include "profile/intern.h"
#include "profile/verdict.h"

/* One iteration of one rank. Numbers that the file does not hold are NaN. */
struct aorta_run_step {
    int rank, world_size;
    int64_t epoch, step, global_step;
    double loss, grad_norm, lr, samples_per_s, data_wait_ms, step_ms;
    bool skipped, simulated;
    bool clocked;                       /* the line held a reading of the device's clock, or why there is none */
    struct aorta_device_metrics clocks; /* of that, what clocks.h takes */
    int64_t clocks_at_ns;
    bool profiled;                /* the line held ranges; else the two below are empty */
    struct aorta_profile profile; /* its strings lie in the run's arena */
    struct aorta_overlap overlap; /* computed from the ranges */
    bool traced;                  /* the line held the kernel view, too */
    struct aorta_profile kernel_profile;
    struct aorta_overlap kernel_overlap;
};

struct aorta_run {
    const char *label, *directory; /* in the arena */
    const char *device;            /* NULL: the files do not say */
    int world_size;
    int *ranks; /* those whose files were found, ascending */
    size_t rank_count;
    struct aorta_run_step *steps; /* by rank, then in the order of the file */
    size_t step_count, step_capacity;
    bool simulated;
    bool original;     /* files of the Python toolkit: no launch times, coarse compute ranges */
    size_t torn_lines; /* incomplete last lines left out (the run was killed) */
    struct aorta_arena arena;
    struct aorta_intern strings; /* of the profiles */
};

/* AORTA_USAGE: no such directory or no such file in it; AORTA_FORMAT: a malformed line, with file, line and byte.
 * Missing ranks and torn last lines are warnings in the log and stay visible in the run. */
AORTA_MUST_USE aorta_status aorta_run_read(const char *directory, const char *label, const struct aorta_log *log,
                                           struct aorta_run *run);
void aorta_run_free(struct aorta_run *run);

/* One line of a file (run_parse.c). `previous`: the rank's step before, or NULL. On failure *step is empty. */
AORTA_MUST_USE aorta_status aorta_run_parse_line(const char *line, size_t length, struct aorta_run *run,
                                                 const struct aorta_run_step *previous, struct aorta_run_step *step);
void aorta_run_step_free(struct aorta_run_step *step);

#endif
