/* Writes rank_RR_metrics.jsonl: one line per iteration, in the layout of docs/metrics-format.md. */
#ifndef AORTA_FORMATS_METRICS_H
#define AORTA_FORMATS_METRICS_H

#include "base/text.h"
#include "measure/sampler.h"
#include "timeline/operations.h"
#include "timeline/overlap.h"

#define AORTA_METRICS_SCHEMA 1

/* NaN marks a number that was not measured; it becomes null, with its reason under "null_reasons". */
struct aorta_step_metrics {
    int rank, world_size;
    int64_t epoch, step; /* step within the epoch */
    int64_t global_step;
    double loss, grad_norm, lr;
    double samples_per_s; /* of this rank */
    double data_wait_ms;
    double step_ms;    /* from the end of the step before to this one's, device clock; NaN: not measured */
    double loss_scale; /* fp16; NaN without loss scaling */
    bool skipped;      /* fp16: gradients overflowed, the optimizer did not run */
    bool simulated;
    const char *device;                   /* "cpu"; NULL: not written */
    const struct aorta_device_info *info; /* in a rank's first line; else NULL */
    const struct aorta_measured_peaks
        *peaks; /* with `info`: of a device whose peaks were measured; NULL: they were not */
    const struct aorta_memory_info *memory; /* NULL: not measured */
    struct aorta_device_reading device_metrics, rocm_smi_output;
    struct aorta_device_reading clocks;         /* in the lines of some steps: what profile/clocks.h makes figures of */
    const struct aorta_profile *profile;        /* NULL: recording was off, … */
    const char *unrecorded;                     /* … for this reason; NULL: for the whole run */
    const struct aorta_overlap *overlap;        /* of that profile; NULL only with it */
    const struct aorta_profile *kernel_profile; /* NULL: the run was not traced */
    const struct aorta_overlap *kernel_overlap; /* of that profile; NULL only with it */
};

/* One line without the line break, appended to `out`. */
AORTA_MUST_USE aorta_status aorta_metrics_format(const struct aorta_step_metrics *metrics, struct aorta_text *out);

struct aorta_metrics_writer;
/* Makes <directory>/rank_RR_metrics.jsonl anew. */
AORTA_MUST_USE aorta_status aorta_metrics_open(const char *directory, int rank, struct aorta_metrics_writer **writer);
/* One line, handed to the system before this returns, so that a kill leaves whole lines. A file that was removed in the
 * meantime is made again with all its lines: in its directory, or where that cannot be, in a directory of the temporary
 * one. */
AORTA_MUST_USE aorta_status aorta_metrics_write(struct aorta_metrics_writer *writer,
                                                const struct aorta_step_metrics *metrics);
/* The directory that the lines are in since their file was removed; NULL: it was not. Any thread may ask. Valid until
 * the writer is closed. */
const char *aorta_metrics_moved(struct aorta_metrics_writer *writer);
/* AORTA_IO when the file could not be closed properly. NULL is fine. */
AORTA_MUST_USE aorta_status aorta_metrics_close(struct aorta_metrics_writer *writer);

#endif
