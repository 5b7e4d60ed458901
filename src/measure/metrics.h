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
    struct aorta_device_reading clocks; /* of some steps: what measure/clocks.h makes figures of */
};

/* NaN marks a number that was not measured; it becomes null, with its reason under "null_reasons". A writer lends what
 * it points to. A line that was read has the members up to `device`, `clocks` of its readings, and its profiles, which
 * it owns (run_files.h); NaN, NULL: not in the line, or null. */
struct aorta_step_metrics {
    int64_t schema_version; /* 0: the original Python toolkit's; writing sets it */
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
    const char *grad_norm_reason;         /* writing sets it: why grad_norm is NaN */
    const struct aorta_device_info *info; /* in a rank's first line; else NULL */
    const struct aorta_measured_peaks
        *peaks; /* with `info`: of a device whose peaks were measured; NULL: they were not */
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

/* ---- lines in order ----
 * Writes the metrics lines of a run, on a thread of its own where kernels are traced. The line of a traced step waits
 * until its kernel records have arrived, which is checked every 50 ms or 16 steps; then the kernel view, its overlap
 * and the line are made. When AORTA_METRICS_LINES steps wait, the oldest is written with the records that it has. */

enum { AORTA_METRICS_LINES = 64 };

struct aorta_step_traces; /* measure/step_traces.h */
struct aorta_metrics_lines;

/* Borrows all; writer and traces belong to the thread until finish or close has returned. Without a tracer (NULL) no
 * step is traced, there is no thread, and the caller of `add` writes. `traces` get each recorded step after its line;
 * NULL: there are none. */
AORTA_MUST_USE aorta_status aorta_metrics_lines_open(struct aorta_tracer *tracer, struct aorta_metrics_writer *writer,
                                                     struct aorta_step_traces *traces,
                                                     struct aorta_metrics_lines **lines);
/* Takes *profile and launches->ranges over (they are empty afterwards, also on failure) and copies the rest; waits only
 * when the thread lags so far behind that there is no place. profile NULL: the step was not recorded. Without launches
 * it was not traced: its ranges have times, and its line is written without a kernel view. metrics->profile and
 * kernel_profile are not read. done_ns: the device time written behind all of the step's work. A failure is that of an
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
