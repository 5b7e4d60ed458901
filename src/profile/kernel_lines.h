/* Writes the metrics lines of a traced run. A step's line is held back until its kernel records have arrived, at most
 * `AORTA_KERNEL_LINES` steps long; then the kernel view, its overlap and the line are made. */
#ifndef AORTA_PROFILE_KERNEL_LINES_H
#define AORTA_PROFILE_KERNEL_LINES_H

#include "profile/metrics.h"
#include "profile/tracer.h"

enum { AORTA_KERNEL_LINES = 64 };

struct aorta_kernel_lines;

/* Borrows both. */
AORTA_MUST_USE aorta_status aorta_kernel_lines_open(struct aorta_tracer *tracer, struct aorta_metrics_writer *writer,
                                                    struct aorta_kernel_lines **lines);
/* Takes over *profile and *overlap (they are empty afterwards, also on failure), copies the rest, writes the lines that
 * have become whole. metrics->profile, overlap and kernel_* are not read. */
AORTA_MUST_USE aorta_status aorta_kernel_lines_add(struct aorta_kernel_lines *lines,
                                                   const struct aorta_step_metrics *metrics,
                                                   struct aorta_profile *profile, struct aorta_overlap *overlap);
/* When the device is idle: writes all that is left. */
AORTA_MUST_USE aorta_status aorta_kernel_lines_finish(struct aorta_kernel_lines *lines);
/* Lines not written are lost: call finish first. NULL is fine. */
void aorta_kernel_lines_close(struct aorta_kernel_lines *lines);

#endif
