/* What the commands that run workloads share: their options, and the device and ranks they run on. */
#ifndef AORTA_CLI_HWQ_WORKLOAD_H
#define AORTA_CLI_HWQ_WORKLOAD_H

#include "cli/cli.h"
#include "cli/device_option.h"
#include "hwq/run.h"

struct hwq_values {
    struct aorta_int_list streams; /* items NULL: as many as are recommended */
    struct aorta_string_list set;  /* run-priority: "WORKLOAD.OPTION=VALUE" */
    int64_t iterations, warmup, seed;
    int sync;
    bool graph, gate, verify, quiet, profile;
    const char *output, *stamps, *device, *backend, *profile_dir;
    double timeout_s;
    _Alignas(16) unsigned char own[AORTA_HWQ_OPTION_BYTES]; /* the workload's */
};

struct hwq_session {
    struct aorta_device *device;
    struct aorta_ranks ranks;
    struct aorta_comm *world; /* opened when the first workload wants it */
    struct aorta_log log;
    struct aorta_text *table; /* of run-priority, a line for each workload; else NULL */
    bool brief;               /* runs do not explain themselves: a table of all follows */
};

/* Reads the words behind the workload's name; `workload` NULL: without options of its own. Free *line. */
AORTA_MUST_USE aorta_status hwq_values_parse(const char *command, const char *about,
                                             const struct aorta_hwq_workload *workload, int argc, char **argv,
                                             struct hwq_values *values, struct aorta_cli_line *line);
/* The same for a command that runs many workloads, whose options come with --set. */
AORTA_MUST_USE aorta_status hwq_values_parse_many(const char *command, const char *about, int argc, char **argv,
                                                  struct hwq_values *values, struct aorta_cli_line *line);
/* The workload's options as --set has them, the others as nobody has set them. */
AORTA_MUST_USE aorta_status hwq_values_default(const struct aorta_hwq_workload *workload, struct hwq_values *values,
                                               struct aorta_arena *arena);
AORTA_MUST_USE aorta_status hwq_session_open(const struct hwq_values *values, struct hwq_session *session);
/* Of several ranks the others may wait for this one in a collective: after a failure every rank is ended here, with the
 * failure's exit code, behind its message; then this does not return. */
void hwq_session_close(struct hwq_session *session, aorta_status failure);
/* Runs one workload on `streams` streams (0: recommended), and says on stdout what came out, unless quiet or brief.
 * Free *result in any case. AORTA_DEVICE when a verification failed. */
AORTA_MUST_USE aorta_status hwq_run_one(struct hwq_session *session, const struct hwq_values *values,
                                        const struct aorta_hwq_workload *workload, int64_t streams,
                                        struct aorta_hwq_result *result);
/* Writes the trace file that --profile asks for below --profile-dir, in its folder `name` (NULL: there itself), and
 * says where it is. Behind all that is measured. Every rank calls it. AORTA_DEVICE when nothing could be recorded. */
AORTA_MUST_USE aorta_status hwq_record_one(struct hwq_session *session, const struct hwq_values *values,
                                           const struct aorta_hwq_workload *workload, int64_t streams,
                                           const char *name);
/* Before anything runs. The directories of files are made. */
AORTA_MUST_USE aorta_status hwq_check_set(const struct hwq_values *values);
AORTA_MUST_USE aorta_status hwq_check_profile(const struct hwq_values *values);
AORTA_MUST_USE aorta_status hwq_check_output(const struct hwq_values *values);
AORTA_MUST_USE aorta_status hwq_check_backend(const struct hwq_values *values,
                                              const struct aorta_hwq_workload *workload);
AORTA_MUST_USE aorta_status hwq_check_no_stamps(const struct hwq_values *values, const char *command);

#endif
