/* The parts of `aorta hwq profile`. */
#ifndef AORTA_CLI_HWQ_PROFILE_H
#define AORTA_CLI_HWQ_PROFILE_H

#include "cli/trace_run.h"
#include "hwq/agreement.h"
#include "hwq/queues.h"
#include "trace/trace.h"

struct aorta_hwq_profile {
    const char *device, *output;
    struct aorta_string_list traces;
    bool agreement, json, dry_run;
    char **words; /* workload and its options; NULL-terminated */
};

/* What aorta hwq run --gate wrote in the same run. */
struct hwq_profile_files {
    const char *result, *stamps;
};

/* Prints the queues of each recorded process and device. With `files` (NULL: none) gaps are held against those of the
 * recording, and AORTA_REGRESSION says when they are more than 10% apart. (hwq_profile_show.c) */
AORTA_MUST_USE aorta_status aorta_hwq_profile_show(const struct aorta_hwq_profile *profile,
                                                   const struct aorta_trace_list *traces,
                                                   const struct hwq_profile_files *files);

/* ---- the agreement (hwq_profile_agreement.c) ---- */

/* Medians of all gaps that each side has: of the stamped iterations, and of all iterations that were recorded. */
struct hwq_gap_pair {
    double stamped_us, traced_us; /* NaN: not there */
    size_t stamped_count, traced_count;
    const char *reason; /* why they are not compared; NULL: they are */
};

struct hwq_agreement {
    struct hwq_gap_pair intra, inter;
    size_t parts; /* iterations that were recorded */
    bool matched; /* `same` holds */
    struct aorta_hwq_agreement same;
    char *reason; /* owned: why it does not */
};

/* `work` is all of the device, with gates; it is reordered. */
AORTA_MUST_USE aorta_status hwq_agreement_find(const struct aorta_trace *trace, int32_t device,
                                               struct aorta_queue_work *work, size_t count,
                                               const struct hwq_profile_files *files, struct hwq_agreement *agreement);
void hwq_agreement_free(struct hwq_agreement *agreement);
void hwq_agreement_text(const struct hwq_agreement *agreement, struct aorta_text *text);
void hwq_agreement_json(const struct hwq_agreement *agreement, struct aorta_json *json); /* an object */
/* By the same pairs where they are known, else by all. */
AORTA_MUST_USE aorta_status hwq_agreement_judge(const struct hwq_agreement *agreement);

#endif
