/* Profiles made by hand and at random, for tests of the timeline. */
#ifndef AORTA_TESTS_PROFILE_SAMPLE_H
#define AORTA_TESTS_PROFILE_SAMPLE_H

#include "measure/tracer.h"
#include "verdict/verdict.h"

enum { SAMPLE_RANGES = 4096 };

/* A profile under construction; sample_done sets start and end. */
struct sample {
    struct aorta_profile profile; /* with its overlap */
};

void sample_begin(struct sample *sample, int64_t index);
struct aorta_range *sample_compute(struct sample *sample, int64_t start_ns, int64_t end_ns, int64_t enqueue_ns);
struct aorta_range *sample_copy(struct sample *sample, int64_t start_ns, int64_t end_ns, int64_t enqueue_ns);
struct aorta_range *sample_collective(struct sample *sample, enum aorta_collective kind, int64_t start_ns,
                                      int64_t end_ns, int64_t enqueue_ns);
void sample_host(struct sample *sample, enum aorta_host_kind kind, int64_t start_ns, int64_t end_ns);
void sample_done(struct sample *sample, int64_t previous_end_ns); /* also computes the overlap */
void sample_free(struct sample *sample);

/* The kernel view of these records, joined with the ranges, which stay as they are: records[i] is of owners[i] (-1: of
 * none), whose node it has the label of. */
void sample_join(struct aorta_activity_record *records, size_t count, const int *owners,
                 const struct aorta_profile *ranges, struct aorta_profile *kernels);

/* Random numbers that are the same on every machine (xorshift64, Marsaglia 2003). */
uint64_t sample_random(uint64_t *state, uint64_t below);
/* Up to `ranges` ranges of all kinds in [origin, origin + length), launch times known or not, host ranges. */
void sample_fill_random(struct sample *sample, uint64_t *state, int ranges, int64_t origin_ns, int64_t length_ns);

#endif
