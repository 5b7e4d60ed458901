/* The stamps of one pass: where kernels write when they ran, and what they were. */
#ifndef AORTA_HWQ_STAMPS_H
#define AORTA_HWQ_STAMPS_H

#include "hwq/workload.h"

/* One kernel or operation that ran. Times are ns from the first start of the iteration. */
struct aorta_hwq_span {
    int stream;
    enum aorta_hwq_work kind;
    bool marked;      /* by a kernel before it and one behind it; else the kernel stamped itself */
    const char *name; /* static; of a kernel that stamps itself its own */
    int64_t start_ns, end_ns;
    int64_t queued_ns; /* when the host did, on its own clock; of a replay: when it was captured */
};

struct aorta_hwq_spans { /* zero-initialise; freed with aorta_hwq_spans_free */
    struct aorta_hwq_span *items;
    size_t count, capacity;
    size_t unstamped;                   /* kernels that left no stamp: they did not run */
    int64_t origin;                     /* that first start, ns of device time, which is the host's clock */
    bool replayed;                      /* a graph's launch queued all of it at once, not the host one by one */
    int64_t host_start_ns, host_end_ns; /* when the host began to queue the iteration, and had waited for it */
    int64_t gate; /* the iteration ran behind the gate with this number, counted from 1; 0: behind none */
};
AORTA_MUST_USE aorta_status aorta_hwq_spans_add(struct aorta_hwq_spans *spans, const struct aorta_hwq_span *span);
void aorta_hwq_spans_free(struct aorta_hwq_spans *spans);

AORTA_MUST_USE aorta_status aorta_hwq_stamps_create(struct aorta_hwq *hwq, struct aorta_hwq_stamps **stamps);
void aorta_hwq_stamps_destroy(struct aorta_hwq_stamps *stamps); /* streams idle; NULL is fine */

/* Before an iteration, streams idle: all stamps are blank. `again`: the same operations as last time will run (a
 * graph's replay), else they are noted anew. */
AORTA_MUST_USE aorta_status aorta_hwq_stamps_clear(struct aorta_hwq_stamps *stamps, bool again);
/* A place for one more, in device memory. New memory is got as needed, which captures do not allow: run an iteration
 * before one is captured. */
struct aorta_hwq_note { /* what it is of; as in struct aorta_hwq_span */
    int stream;
    enum aorta_hwq_work kind;
    bool marked;
    const char *name;
};
AORTA_MUST_USE aorta_status aorta_hwq_stamps_next(struct aorta_hwq_stamps *stamps, struct aorta_hwq_note note,
                                                  struct aorta_hwq_stamp **stamp);
/* The operation that is open on a stream, between aorta_hwq_begin and _end. */
struct aorta_hwq_stamp **aorta_hwq_stamps_open(struct aorta_hwq_stamps *stamps, int stream);
/* After an iteration, streams idle: what ran. `spans` is emptied first. */
AORTA_MUST_USE aorta_status aorta_hwq_stamps_collect(struct aorta_hwq_stamps *stamps, struct aorta_hwq_spans *spans);

#endif
