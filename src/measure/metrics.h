/* Writes and reads rank_RR_metrics.jsonl: one line per iteration, in the layout of docs/metrics-format.md. */
#ifndef AORTA_MEASURE_METRICS_H
#define AORTA_MEASURE_METRICS_H

#include "analysis/overlap.h"
#include "base/json.h"
#include "base/text.h"
#include "measure/clocks.h"
#include "measure/tracer.h"
#include "trace/operations.h"

#define AORTA_METRICS_SCHEMA 1

/* Readings of the device while a step ran. */
struct aorta_step_readings {
    struct aorta_device_reading device_metrics, rocm_smi_output;
    struct aorta_device_reading clocks; /* of some steps, for measure/clocks.h */
};

/* NaN marks a number that was not measured; it becomes null, with its reason under "null_reasons". For writing,
 * pointers are borrowed. A line that was read has the members up to `device`, `clocks` of its readings, and its
 * profiles, which it owns (run_files.h). NaN and NULL: missing or null. */
struct aorta_step_metrics {
    int64_t schema_version; /* 0: the original Python toolkit's line; set by writing */
    int rank, world_size;
    int64_t epoch, step; /* step within the epoch */
    int64_t global_step;
    double loss, grad_norm, lr;
    double samples_per_s; /* of this rank */
    double data_wait_ms;
    double step_ms;    /* between the ends of the previous step and this step, device clock; NaN: not measured */
    double loss_scale; /* fp16; NaN without loss scaling */
    bool skipped;      /* fp16: gradients overflowed, the optimizer did not run */
    bool simulated;
    const char *device;                         /* "cpu"; NULL: not written */
    const char *grad_norm_reason;               /* why grad_norm is NaN; set by writing */
    const struct aorta_device_info *info;       /* in a rank's first line; else NULL */
    const struct aorta_measured_peaks *peaks;   /* with `info`: the device's measured peaks; NULL: not measured */
    const struct aorta_memory_info *memory;     /* NULL: not measured */
    const struct aorta_step_readings *readings; /* NULL: none */
    struct aorta_profile *profile;              /* with its overlap; NULL: recording was off, … */
    const char *unrecorded;                     /* … for this reason; NULL: for the whole run */
    struct aorta_profile *kernel_profile;       /* with its overlap; NULL: the run was not traced */
    bool recorded;                              /* reading: the line has ranges, which may not have been read */
};

/* One line without the line break, appended to `out`. */
AORTA_MUST_USE aorta_status aorta_metrics_format(const struct aorta_step_metrics *metrics, struct aorta_text *out);

/* ---- reading ---- */

/* The device, as a rank's first line has it. */
struct aorta_metrics_device {
    const char *name, *isa;                /* name NULL: the line does not say */
    int64_t memory_bytes, multiprocessors; /* -1: not known */
    bool measured;                         /* … its peaks */
    struct aorta_measured_peaks peaks;
};

/* The keys of a line, as tables of docs/metrics-format.md. */
void aorta_metrics_markdown(struct aorta_text *out);
/* The members of its JSON Schema's "properties". */
void aorta_metrics_schema(struct aorta_json *json);

/* ---- files ---- */

struct aorta_metrics_writer;
/* Makes <directory>/rank_RR_metrics.jsonl anew. */
AORTA_MUST_USE aorta_status aorta_metrics_open(const char *directory, int rank, struct aorta_metrics_writer **writer);
/* Writes one line to the file before it returns, so that a kill leaves whole lines. A file that was removed is made
 * again with all its lines, in its directory or else in a new temporary directory. */
AORTA_MUST_USE aorta_status aorta_metrics_write(struct aorta_metrics_writer *writer,
                                                const struct aorta_step_metrics *metrics);
/* The new directory of the lines after their file was removed; NULL if it was not removed. Any thread. Valid until the
 * writer is closed. */
const char *aorta_metrics_moved(struct aorta_metrics_writer *writer);
/* AORTA_IO when the file could not be closed properly. NULL is fine. */
AORTA_MUST_USE aorta_status aorta_metrics_close(struct aorta_metrics_writer *writer);

/* ---- lines in order ----
 * Writes the metrics lines of a run, on a thread of its own where kernels are traced. The line of a traced step waits
 * until its kernel records have arrived, which is checked every 50 ms or 16 steps; then the kernel view, its overlap
 * and the line are made. When AORTA_METRICS_LINES steps wait, the oldest is written with the records that it has. */

enum { AORTA_METRICS_LINES = 64 };

struct aorta_step_traces; /* measure/step_traces.h */
struct aorta_metrics_lines;

/* Borrows all; writer and traces belong to the thread until finish or close has returned. Without a tracer (NULL) no
 * step is traced, there is no thread, and `add` writes. `traces` gets each recorded step after its line; may be NULL.
 */
AORTA_MUST_USE aorta_status aorta_metrics_lines_open(struct aorta_tracer *tracer, struct aorta_metrics_writer *writer,
                                                     struct aorta_step_traces *traces,
                                                     struct aorta_metrics_lines **lines);
/* Takes ownership of *profile and launches->ranges (empty afterwards, also on failure) and copies the other values.
 * Waits only if the ring of lines is full. profile NULL: the step was not recorded. Without launches the step was not
 * traced: its ranges have times, and its line has no kernel view. metrics->profile and
 * kernel_profile are not read. done_ns: the device time written after all of the step's work. Returns the failure of
 * an earlier line. */
AORTA_MUST_USE aorta_status aorta_metrics_lines_add(struct aorta_metrics_lines *lines,
                                                    const struct aorta_step_metrics *metrics,
                                                    struct aorta_profile *profile, struct aorta_launches *launches,
                                                    int64_t done_ns);
/* Writes all remaining lines before it returns. The device must be idle. */
AORTA_MUST_USE aorta_status aorta_metrics_lines_finish(struct aorta_metrics_lines *lines);
/* Lines not written are lost: call finish first. NULL is fine. */
void aorta_metrics_lines_close(struct aorta_metrics_lines *lines);

#endif
