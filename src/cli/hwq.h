/* The subcommands of aorta hwq, one file each. */
#ifndef AORTA_CLI_HWQ_H
#define AORTA_CLI_HWQ_H

#include "cli/cli.h"
#include "hwq/run.h"

extern const struct aorta_cli_entry aorta_cli_hwq_compare, aorta_cli_hwq_list, aorta_cli_hwq_info, aorta_cli_hwq_map;
aorta_status aorta_cli_hwq_run(int argc, char **argv);
aorta_status aorta_cli_hwq_sweep(int argc, char **argv);
aorta_status aorta_cli_hwq_run_priority(int argc, char **argv);
aorta_status aorta_cli_hwq_profile(int argc, char **argv);

/* The schema of what profile writes (docs/schema). */
void hwq_profile_schema(struct aorta_json *json);

/* Common to the commands that run workloads: options, device and ranks. */

enum { HWQ_MOST_OWN = 32 };

struct hwq_values {
    /* Not of the options: the command ("run", "sweep", "run-priority"), the word after it, and what that names. */
    const char *command, *named;
    const struct aorta_hwq_workload *workload;
    int group;
    struct aorta_int_list streams; /* items NULL: as many as are recommended */
    struct aorta_string_list set;  /* run-priority: "WORKLOAD.OPTION=VALUE" */
    int64_t iterations, warmup, seed;
    int sync;
    bool graph, gate, verify, quiet, profile, full_size;
    const char *output, *html, *csv, *stamps, *device, *backend, *profile_dir;
    double timeout_s;
    _Alignas(16) unsigned char own[AORTA_HWQ_OPTION_BYTES]; /* the workload's */
    bool own_given[HWQ_MOST_OWN];                           /* of its options: on the command line */
};

struct hwq_session {
    struct hwq_values *values;
    struct aorta_device *device;
    struct aorta_ranks ranks;
    struct aorta_comm *world; /* opened when the first workload wants it */
    struct aorta_log log;
    struct aorta_arena arena;  /* of the values of options */
    bool brief;                /* no report of each run: a table of all follows */
    struct aorta_text reports; /* of runs, to be printed when their results are written; hwq_print */
};

/* Numbers of streams, ascending. */
struct hwq_counts {
    int64_t items[AORTA_HWQ_MAX_STREAMS];
    size_t count;
};

/* The names of workloads, for the completion of shells. */
void hwq_workload_names(struct aorta_text *text);

/* What run, sweep and run-priority are: reads the words after the one that names the workload or the group, and runs.
 * Zero-initialise the values except members that are no options. `workload` NULL: no workload options. `many`: several
 * workloads run, with options from --set. */
AORTA_MUST_USE aorta_status hwq_command(const char *usage, const char *about, bool many, int argc, char **argv,
                                        struct hwq_values *values, aorta_status (*run)(struct hwq_values *values));
/* AORTA_USAGE: --streams has too many numbers, or none. */
AORTA_MUST_USE aorta_status hwq_check_streams(const struct hwq_values *values);
/* Checks the options before anything runs, and creates the directories of files. AORTA_USAGE for options that conflict
 * with each other or the command, AORTA_CONFIG for files that cannot be written. `collectives`: the workloads have
 * collectives. */
AORTA_MUST_USE aorta_status hwq_check(const struct hwq_values *values, bool collectives);
/* On the CPU device without --full-size, reduces sizes that the user did not set, so that the workload runs for
 * seconds, and logs this. */
AORTA_MUST_USE aorta_status hwq_values_fit(struct hwq_session *session, const struct aorta_hwq_workload *workload);
/* The workload's options: their defaults, fitted to the device, then --set. */
AORTA_MUST_USE aorta_status hwq_values_default(struct hwq_session *session, const struct aorta_hwq_workload *workload);
AORTA_MUST_USE aorta_status hwq_session_open(struct hwq_values *values, struct hwq_session *session);
/* Closes the session. With a failure of one of several ranks, it prints the message, ends all ranks with its exit code
 * and does not return, as other ranks may wait in a collective. */
void hwq_session_close(struct hwq_session *session, aorta_status failure);
/* Runs one workload on `streams` streams (0: recommended), and adds its report to session->reports (quiet: its answer)
 * unless brief. Free *result in any case. AORTA_DEVICE when a verification failed. */
AORTA_MUST_USE aorta_status hwq_run_one(struct hwq_session *session, const struct aorta_hwq_workload *workload,
                                        int64_t streams, struct aorta_hwq_result *result);
/* Prints and empties the text, to the standard error if a file goes to the standard output. Write files first, as
 * printing may fail (closed pipe, full disk). */
AORTA_MUST_USE aorta_status hwq_print(const struct hwq_values *values, struct aorta_text *text);
/* Writes the trace file of --profile to the folder `name` of --profile-dir (NULL: to --profile-dir), and prints its
 * path. Call it after all measurements, on every rank. AORTA_DEVICE if nothing could be recorded. */
AORTA_MUST_USE aorta_status hwq_record_one(struct hwq_session *session, const struct aorta_hwq_workload *workload,
                                           int64_t streams, const char *name);

#endif
