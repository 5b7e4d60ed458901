/* The stamps of a run as a file (aorta hwq run --stamps): the stamped iterations, then those of the harness's own
 * probe.
 *
 * {"schema_version": 1, "kind": "hwq_stamps", "tick_ns": of the timer, "names": […], "iterations": [{"pass": "workload"
 * or "probe", "gate": N, "stamps": [[stream, kind, marked, name, start, end], …]}, …]}. `kind` is the number in enum
 * aorta_hwq_work, `marked` 0 or 1, `name` an index into `names`, times are ns from the first start of the iteration.
 * Stamps are in the order in which the host queued their work. */
#ifndef AORTA_HWQ_STAMPS_FILE_H
#define AORTA_HWQ_STAMPS_FILE_H

#include "base/arena.h"
#include "hwq/stamps.h"

enum aorta_hwq_stamps_source { AORTA_HWQ_STAMPS_WORKLOAD, AORTA_HWQ_STAMPS_PROBE, AORTA_HWQ_STAMPS_SOURCE_COUNT };

struct aorta_hwq_stamped_iteration {
    enum aorta_hwq_stamps_source source;
    struct aorta_hwq_spans spans; /* only items, count and gate; items are in the arena */
};

struct aorta_hwq_stamps_file { /* zero-initialise */
    struct aorta_arena arena;
    struct aorta_hwq_stamped_iteration *iterations;
    size_t count, capacity;
    int64_t tick_ns; /* of the device's timer; 0: not known */
};

/* Copies the spans. AORTA_DEVICE when some have no stamp: their order is not known then. */
AORTA_MUST_USE aorta_status aorta_hwq_stamps_file_add(struct aorta_hwq_stamps_file *file,
                                                      enum aorta_hwq_stamps_source source,
                                                      const struct aorta_hwq_spans *spans);
AORTA_MUST_USE aorta_status aorta_hwq_stamps_file_write(const struct aorta_hwq_stamps_file *file, const char *path);
void aorta_hwq_stamps_file_free(struct aorta_hwq_stamps_file *file);

#endif
