/* Shared by the writer and the reader of a machine's file. */
#ifndef AORTA_MEASURE_MACHINE_INTERNAL_H
#define AORTA_MEASURE_MACHINE_INTERNAL_H

#include "measure/machine.h"

struct aorta_machine_head {
    char host[256];
    int processors;
    char gpu_reason[256]; /* why there are no GPUs; else empty */
};

/* One line. */
void aorta_machine_write(const struct aorta_machine_head *head, const struct aorta_machine_reading *reading,
                         struct aorta_text *out);

/* Seconds of processors that a process and its descendants took so far; NaN: /proc does not say. `pids`: of all of
 * these, at most `most`; *count: how many. */
double aorta_machine_tree(pid_t root, int64_t *pids, size_t most, size_t *count);
/* Times of all processors, and the load. Unknown values stay NaN. `root` is /proc, or a folder in its place. */
void aorta_machine_read_proc(const char *root, struct aorta_machine_reading *reading);

#endif
