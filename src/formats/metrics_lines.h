/* Writes the metrics lines of a run, on a thread of its own where kernels are traced. The line of a traced step waits
 * until its kernel records have arrived, which is checked every 50 ms or 16 steps; then the kernel view, its overlap
 * and the line are made. When AORTA_METRICS_LINES steps wait, the oldest is written with the records that it has. */
#ifndef AORTA_FORMATS_METRICS_LINES_H
#define AORTA_FORMATS_METRICS_LINES_H

#include "formats/metrics.h"
#include "measure/tracer.h"

enum { AORTA_METRICS_LINES = 64 };

/* Who else reads a recorded step once its kernels are known (a trace file). Called by the thread, in order of
 * the steps, after the line was written; all pointers are valid during the call. */
struct aorta_metrics_lines_reader {
    aorta_status (*step)(void *user, const struct aorta_step_metrics *metrics,
                         const struct aorta_activity_record *records, size_t count);
    void *user;
};

struct aorta_metrics_lines;

/* Borrows both; the writer belongs to the thread until finish or close has returned. Without a tracer (NULL) no step is
 * traced, there is no thread, and the caller of `add` writes. */
AORTA_MUST_USE aorta_status aorta_metrics_lines_open(struct aorta_tracer *tracer, struct aorta_metrics_writer *writer,
                                                     struct aorta_metrics_lines **lines);
/* Before the first step is added. */
void aorta_metrics_lines_show(struct aorta_metrics_lines *lines, struct aorta_metrics_lines_reader reader);
/* Takes *profile and launches->ranges over (they are empty afterwards, also on failure) and copies the rest; waits only
 * when the thread lags so far behind that there is no place. profile NULL: the step was not recorded. Without launches
 * it was not traced: its ranges have times, and its line is written without a kernel view. metrics->profile, overlap
 * and kernel_* are not read. done_ns: the device time written behind all of the step's work. A failure is that of an
 * earlier line. */
AORTA_MUST_USE aorta_status aorta_metrics_lines_add(struct aorta_metrics_lines *lines,
                                                    const struct aorta_step_metrics *metrics,
                                                    struct aorta_profile *profile, struct aorta_launches *launches,
                                                    int64_t done_ns);
/* When the device is idle: writes all that is left, before it returns. */
AORTA_MUST_USE aorta_status aorta_metrics_lines_finish(struct aorta_metrics_lines *lines);
/* Lines not written are lost: call finish first. NULL is fine. */
void aorta_metrics_lines_close(struct aorta_metrics_lines *lines);

#endif
