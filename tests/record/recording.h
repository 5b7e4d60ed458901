/* Runs of the test program with the recording library in it. */
#ifndef AORTA_TESTS_INJECT_RECORDING_H
#define AORTA_TESTS_INJECT_RECORDING_H

#include "record/run.h"

struct recording {
    char directory[64];
    struct aorta_trace_run_result result;
    struct aorta_trace_run_record record;
};

/* A fresh directory. */
void recording_open(struct recording *recording);
/* Runs a scenario of programs/program.c; `more` variables follow those that the library needs (at most four, may be
 * NULL-terminated by a row without a name). Reads what was recorded. */
void recording_run(struct recording *recording, const char *scenario, int number,
                   const struct aorta_trace_run_variable *more);
void recording_close(struct recording *recording);

/* Sums over a trace, in us. */
struct recorded {
    int kernels, collectives, copies, fills, calls, steps;
    int64_t compute_us, comm_us;
};
struct recorded recorded_of(const struct aorta_trace *trace);

#endif
