/* Stamps of an iteration, written by kernels, and the spans made of them. */
#ifndef AORTA_HWQ_STAMPS_H
#define AORTA_HWQ_STAMPS_H

#include "base/arena.h"
#include "hwq/kernels/arguments.h"
#include "hwq/workload.h"

/* The work of one iteration. Times of spans are ns from its first start; launch_ns of a replay is not known. */
struct aorta_hwq_spans { /* zero-initialise; freed with aorta_hwq_spans_free */
    struct aorta_span *items;
    size_t count, capacity;
    size_t unstamped;                   /* kernels without a stamp, as they did not run */
    int64_t origin;                     /* first start, ns of the host's clock */
    int64_t host_start_ns, host_end_ns; /* when the host began to queue the iteration, and when its wait ended */
    int64_t gate;                       /* number of the iteration's gate, from 1; 0: none */
};
AORTA_MUST_USE aorta_status aorta_hwq_spans_add(struct aorta_hwq_spans *spans, const struct aorta_span *span);
void aorta_hwq_spans_free(struct aorta_hwq_spans *spans);

AORTA_MUST_USE aorta_status aorta_hwq_stamps_create(struct aorta_hwq *hwq, struct aorta_hwq_stamps **stamps);
void aorta_hwq_stamps_destroy(struct aorta_hwq_stamps *stamps); /* streams idle; NULL is fine */

/* Before an iteration, streams idle: clears all stamps. `again`: the operations of the last iteration follow again (a
 * graph's replay). */
AORTA_MUST_USE aorta_status aorta_hwq_stamps_clear(struct aorta_hwq_stamps *stamps, bool again);
/* Returns the next stamp, in device memory, for `span` (whose times are not used). Memory is allocated as needed, which
 * a capture does not allow: run an iteration before one is captured. */
AORTA_MUST_USE aorta_status aorta_hwq_stamps_next(struct aorta_hwq_stamps *stamps, struct aorta_span span,
                                                  struct aorta_hwq_stamp **stamp);
/* After an iteration, streams idle: its spans. Replaces the contents of `spans`. */
AORTA_MUST_USE aorta_status aorta_hwq_stamps_collect(struct aorta_hwq_stamps *stamps, struct aorta_hwq_spans *spans);

/* ---- stamps as a file (aorta hwq run --stamps) ----
 * The file has the stamped iterations, then those of the harness's probe.
 *
 * {"schema_version": 1, "kind": "hwq_stamps", "tick_ns": of the timer, "names": […], "iterations": [{"pass": "workload"
 * or "probe", "gate": N, "stamps": [[stream, kind, marked, name, start, end], …]}, …]}. `kind` is the number in enum
 * aorta_hwq_work, `marked` 0 or 1, `name` an index into `names`, times are ns from the first start of the iteration.
 * Stamps are in the order in which the host queued their work. */

enum { AORTA_HWQ_MOST_NAMES = 1024 };

struct aorta_hwq_stamps_file { /* zero-initialise */
    struct aorta_text iterations;
    const char *names[AORTA_HWQ_MOST_NAMES];
    size_t name_count;
    int64_t tick_ns; /* of the device's timer; 0: not known */
};

/* Adds an iteration of the pass "workload" or "probe". AORTA_DEVICE when some spans have no stamp: their order is not
 * known then. */
AORTA_MUST_USE aorta_status aorta_hwq_stamps_file_add(struct aorta_hwq_stamps_file *file, const char *pass,
                                                      const struct aorta_hwq_spans *spans);
AORTA_MUST_USE aorta_status aorta_hwq_stamps_file_write(const struct aorta_hwq_stamps_file *file, const char *path);
void aorta_hwq_stamps_file_free(struct aorta_hwq_stamps_file *file);

#endif
