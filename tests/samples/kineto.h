/* Small traces in Kineto's layout, written by hand. Times are microseconds. */
#ifndef AORTA_TESTS_SAMPLES_KINETO_H
#define AORTA_TESTS_SAMPLES_KINETO_H

#include "base/text.h"
#include "trace/builder.h"

/* Zero-initialise; ends with sample_kineto_open. */
struct sample_kineto {
    struct aorta_text text;
    unsigned correlation; /* of the launch added last */
    int process;          /* of events that follow */
};

void sample_kineto_begin(struct sample_kineto *sample, int rank, int world); /* on an H200 */
/* `args`: further members as JSON, `"External id": 3`; "": none. */
void sample_kineto_event(struct sample_kineto *sample, const char *category, const char *name, int thread,
                         double start_us, double length_us, const char *args);
/* A kernel with its launch of 2 us on thread 1. */
void sample_kineto_kernel(struct sample_kineto *sample, const char *name, int stream, double launch_us, double start_us,
                          double length_us, const char *args);
/* Reads it, appended to the list. */
void sample_kineto_open(struct sample_kineto *sample, struct aorta_trace_list *list);

#endif
