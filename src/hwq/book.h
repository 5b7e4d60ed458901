/* The stamps of a run as a file (aorta hwq run --stamps): the iterations of the stamped pass, then those of the
 * harness's own probe.
 *
 * {"schema_version": 1, "kind": "hwq_stamps", "tick_ns": of the timer, "names": […], "iterations": [{"pass": "workload"
 * or "probe", "gate": N, "stamps": [[stream, kind, marked, name, start, end], …]}, …]}. `kind` is the number in enum
 * aorta_hwq_work, `marked` 0 or 1, `name` an index into `names`, times are ns from the first start of the iteration.
 * Stamps are in the order in which the host queued their work. */
#ifndef AORTA_HWQ_BOOK_H
#define AORTA_HWQ_BOOK_H

#include "base/arena.h"
#include "hwq/stamps.h"

enum aorta_hwq_pass { AORTA_HWQ_PASS_WORKLOAD, AORTA_HWQ_PASS_PROBE, AORTA_HWQ_PASS_COUNT };

struct aorta_hwq_iteration {
    enum aorta_hwq_pass pass;
    struct aorta_hwq_spans spans; /* of `spans` itself only items, count and gate count; items are in the arena */
};

struct aorta_hwq_book { /* zero-initialise */
    struct aorta_arena arena;
    struct aorta_hwq_iteration *iterations;
    size_t count, capacity;
    int64_t tick_ns; /* of the device's timer; 0: not known */
};

/* Copies the spans. AORTA_DEVICE when some left no stamp: then what is there cannot be told by its order. */
AORTA_MUST_USE aorta_status aorta_hwq_book_add(struct aorta_hwq_book *book, enum aorta_hwq_pass pass,
                                               const struct aorta_hwq_spans *spans);
AORTA_MUST_USE aorta_status aorta_hwq_book_write(const struct aorta_hwq_book *book, const char *path);
void aorta_hwq_book_free(struct aorta_hwq_book *book);

#endif
