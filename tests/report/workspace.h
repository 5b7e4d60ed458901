/* A fresh directory for the files of one test. */
#ifndef AORTA_TESTS_REPORT_WORKSPACE_H
#define AORTA_TESTS_REPORT_WORKSPACE_H

#include "measure/metrics.h"

struct workspace {
    char path[64];
};

struct workspace workspace_make(void);
void workspace_remove(struct workspace *workspace); /* with everything in it */
void workspace_write(const struct workspace *workspace, const char *name, const char *text);
char *workspace_read(const struct workspace *workspace, const char *name); /* the caller frees it */
bool workspace_has(const struct workspace *workspace, const char *name);

/* Writes `steps` iterations of rank `rank` as the trainer does: a compute range, an all-gather, a late second compute
 * of `compute_ns`, which varies a little from step to step; 40 ms and it are
 * the time from step to step. */
void workspace_run(const struct workspace *workspace, int rank, int world_size, int steps, int64_t compute_ns);

#endif
