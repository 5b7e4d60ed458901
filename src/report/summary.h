/* summary.json: figures, verdict and comparison of labelled runs (layout: docs/metrics-format.md). */
#ifndef AORTA_REPORT_SUMMARY_H
#define AORTA_REPORT_SUMMARY_H

#include "analysis/analysis.h"
#include "base/compare.h"
#include "base/json.h"
#include "base/result_table.h"
#include "base/settings.h"
#include "measure/clocks.h"
#include "measure/machine.h"
#include "measure/run_files.h"
#include "verdict/verdict.h"

#include <jansson.h>

/* A regular file of at most so many bytes; the caller ends *root. AORTA_FORMAT names file and line. */
AORTA_MUST_USE aorta_status aorta_json_file_read(const char *path, size_t most, json_t **root);

/* A run's configuration and environment, from config.json and environment.json in its directory. */

/* Every key as "section.key" with its value as text; strings and the table live in the arena. `device.kind` is the
 * device that the run was on (NULL: what the file says, perhaps "auto"), which is borrowed. A directory without the
 * file (one of the original toolkit) gives no settings. AORTA_FORMAT when the file is not a JSON object. */
AORTA_MUST_USE aorta_status aorta_settings_read(const char *directory, const char *device, struct aorta_arena *arena,
                                                struct aorta_settings *settings);

/* environment.json of aorta train, hwq, trace run or sweep: "host.name", "software.driver", "environment.NCCL_PROTO".
 * None without the file. AORTA_FORMAT. */
AORTA_MUST_USE aorta_status aorta_settings_environment(const char *directory, struct aorta_arena *arena,
                                                       struct aorta_settings *settings);

/* Whether the work of a step depends on the setting, so that times cannot be compared. `key`: of a configuration, of
 * hwq's options or of a command. */
bool aorta_setting_changes_work(const char *key);

/* ---- the state of the machine during a recording, from the files next to it (measure/machine.h) ---- */

struct aorta_recorded_machine {
    bool known; /* there is a file */
    struct aorta_machine machine;
    struct aorta_machine_summary summary; /* of that */
};

/* Reads the files with readings of the machine. If there are several hosts, it takes the first one that was disturbed,
 * else the first one. `path`: a recording, or the folder that contains the recording and these files. If the analysis
 * knows the times of day of its steps, only those steps count (NULL: no analysis). The caller ends *machine, also after
 * a failure: AORTA_FORMAT names a file that is damaged. */
AORTA_MUST_USE aorta_status aorta_recorded_machine_read(const char *path, const struct aorta_trace_analysis *analysis,
                                                        struct aorta_recorded_machine *machine);
void aorta_recorded_machine_free(struct aorta_recorded_machine *machine);

/* Passes the machine's state to the verdict, if known. */
AORTA_MUST_USE aorta_status aorta_recorded_machine_report(const struct aorta_recorded_machine *machine,
                                                          struct aorta_verdict *verdict);
/* Key and value of "machine": an object, or null and its reason. */
void aorta_recorded_machine_json(const struct aorta_recorded_machine *machine, struct aorta_json *json);

/* ---- a recording: traces, or a run of `aorta train` with the steps that count ---- */

/* The steps of a rank that count: those of the run, or some of them. */
struct aorta_measured {
    const struct aorta_step_metrics *steps;
    size_t count;
};

/* Counts of kernel records in the measured iterations. */
struct aorta_records {
    int64_t iterations;                   /* that have records */
    int64_t kernels, attributed, dropped; /* all; with a known range; lost */
    int64_t launches;                     /* calls of the host that launched them */
};

/* A recording with its verdict. With traces, the readings of the machine are in the folder of the first one, and the
 * environment in a folder that was named alone. */
struct aorta_recorded {
    bool is_run;
    bool has_verdict;               /* else none was made (aorta_recorded_evaluate), or the run has no ranges … */
    struct aorta_trace_list traces; /* of a run: of the ranks with ranges; their steps' profiles are the run's */
    struct aorta_trace_analysis analysis; /* … and then no analysis, either */
    struct aorta_verdict verdict;
    struct aorta_recorded_machine machine;
    struct aorta_settings settings, environment; /* empty if the directory has no such file */
    struct aorta_arena memory;                   /* of all but the run */
    /* A run has these, too. */
    struct aorta_run run;
    size_t warmup; /* recorded iterations of each rank left out of the figures, and those between them */
    /* Every iteration was traced: the steps' `profile` and `overlap` are the kernel view, `kernels` the range
     * view; figures and verdict are made from kernels. */
    bool by_kernels;
    struct aorta_measured *measured;         /* one for each of run.ranks */
    const struct aorta_step_metrics **steps; /* theirs, one rank after the other */
    size_t step_count;
    struct aorta_clocks *clocks; /* one for each of run.ranks */
    size_t lowest_clock;         /* place of the rank with the lowest clock, as a share of its maximum */
    struct aorta_records records;
};

/* Reads a run as aorta_run_read does, and makes its verdict. Empty after a failure. */
AORTA_MUST_USE aorta_status aorta_recorded_run(const char *directory, const char *label, int64_t read_every,
                                               const struct aorta_trace_analysis_options *options,
                                               const struct aorta_log *log, struct aorta_recorded *recorded);
/* Reads and analyzes what a command line names: traces, or the directory of a run, whose metrics lines become one trace
 * per rank. If the run has no ranges (recording was off), the traces in its directory are used. `reading` is for
 * traces: with a run AORTA_USAGE names what of it was set. Else as aorta_recorded_run, aorta_trace_open_inputs and
 * aorta_trace_analyze. The caller ends *recorded, also after a failure. */
AORTA_MUST_USE aorta_status aorta_recorded_open(const char *const *paths, size_t count,
                                                const struct aorta_trace_options *reading,
                                                const struct aorta_trace_analysis_options *options,
                                                const struct aorta_log *log, struct aorta_recorded *recorded);
/* Makes the verdict of traces; a run has the one of `aorta report`. */
AORTA_MUST_USE aorta_status aorta_recorded_evaluate(struct aorta_recorded *recorded);
void aorta_recorded_free(struct aorta_recorded *recorded);

size_t aorta_measured_most(const struct aorta_recorded *labelled); /* of a rank */

enum { AORTA_SUMMARY_SCHEMA = 1 };

/* A figure of each iteration; NaN if it was not measured. */
struct aorta_metric {
    const char *key, *unit;
    bool higher_is_better;
    double (*get)(const struct aorta_step_metrics *step, size_t offset);
    size_t offset;    /* what `get` receives: a place in the step or its profile, or the number of a collective */
    const char *name; /* in sentences */
};
double aorta_metric_of(const struct aorta_metric *metric, const struct aorta_step_metrics *step);
double aorta_metric_number(const struct aorta_step_metrics *step, size_t offset); /* a `get` for numbers of the step */
extern const struct aorta_metric aorta_metrics[];                                 /* ends with a NULL key */
/* The harmonic mean: the rate over the total time of equal steps, waiting included. NaN if no rate is known. */
double aorta_rate_mean(const double *samples, size_t count);

/* A label: one run, or several equal ones. */
struct aorta_label {
    const struct aorta_recorded *runs; /* borrowed */
    size_t count;
};

/* `reference` and `candidate`: the labels that are compared, or NULL. */
AORTA_MUST_USE aorta_status aorta_summary_write(const struct aorta_recorded *runs, size_t count,
                                                const struct aorta_label *reference,
                                                const struct aorta_label *candidate, struct aorta_text *out);

/* One object: one run in the summary. */
void aorta_summary_of(const struct aorta_recorded *labelled, struct aorta_json *json);

/* Its rows, for the docs: the run, a figure, collectives of a kind, what records of kernels there are; and of struct
 * aorta_run what each file holds. */
extern const struct aorta_row aorta_summary_rows[], aorta_summary_statistics_rows[], aorta_summary_collective_rows[],
    aorta_summary_records_rows[];
extern const struct aorta_result_table aorta_summary_coverage;

void aorta_summary_ratios(const struct aorta_recorded *reference, const struct aorta_recorded *candidate,
                          struct aorta_json *json);

/* The tables of the summaries as CSV: figures.csv and collectives.csv in the folder. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_summary_csv(const struct aorta_recorded *runs, size_t count, const char *folder);

/* The cost of recording ranges: steps with and without ranges in one run (profiling.record_every). */

extern const struct aorta_row aorta_recording_rows[]; /* rows of the member below, for the docs */

/* The member "recording_cost" of summary.json, and a sentence; where all steps are of one kind, the sentence says what
 * records of kernels cost their launches at most, or there is none. */
void aorta_recording_json(const struct aorta_recorded *labelled, struct aorta_json *json);
void aorta_recording_text(const struct aorta_recorded *labelled, struct aorta_text *out);

/* ---- the comparison of labels that terminal, summary.json and page share (comparison.c) ---- */

/* Two figures of the same run. */
struct aorta_comparison aorta_run_compare(const struct aorta_recorded *run, const struct aorta_metric *reference,
                                          const struct aorta_metric *candidate, struct aorta_arena *memory);

/* Differences of configuration, environment and clocks, as far as they are known. */
void aorta_recorded_differences(const struct aorta_recorded *reference, const struct aorta_recorded *candidate,
                                struct aorta_differences *differences);

/* Prints a headline and its facts; `answer`: the headline alone. */
void aorta_label_comparison_text(const struct aorta_label *reference, const struct aorta_label *candidate, bool answer,
                                 struct aorta_text *out);
/* One object: all figures of two labels, and the sentence. */
void aorta_label_comparison_json(const struct aorta_label *reference, const struct aorta_label *candidate,
                                 struct aorta_json *json);

#endif
