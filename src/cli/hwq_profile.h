/* The parts of `aorta hwq profile`. */
#ifndef AORTA_CLI_HWQ_PROFILE_H
#define AORTA_CLI_HWQ_PROFILE_H

#include "cli/trace_run.h"
#include "trace/trace.h"

struct aorta_hwq_profile {
    const char *device, *output;
    struct aorta_string_list traces;
    bool agreement, json, dry_run;
    char **words; /* workload and its options; NULL-terminated */
};

/* Prints the queues of each recorded process and device. `result` (NULL: none) is the file that aorta hwq run --gate
 * wrote in the same run: its gaps are held against those of the recording, and AORTA_REGRESSION says when they are more
 * than 10% apart. (hwq_profile_show.c) */
AORTA_MUST_USE aorta_status aorta_hwq_profile_show(const struct aorta_hwq_profile *profile,
                                                   const struct aorta_trace_list *traces, const char *result);

#endif
