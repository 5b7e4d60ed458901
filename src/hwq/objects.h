/* Memory, events and prepared launches of graphs. They live until the workload ends; the harness then destroys them in
 * reverse order. Steps of a graph queue their work through these calls, so that it is stamped:
 *
 *   aorta_hwq_launch_prepared  our own kernels: the fastest way to the device's queue
 *   aorta_hwq_begin, _end      around one operation of src/ops, a collective, a copy or a call of the host
 *
 * Our kernels stamp themselves: the first member of their arguments is `struct aorta_hwq_stamp *stamp`, NULL
 * while iterations are timed (kernels/kernels.cu). For all other work, begin and end queue kernels that write the time;
 * while iterations are timed they queue nothing. */
#ifndef AORTA_HWQ_OBJECTS_H
#define AORTA_HWQ_OBJECTS_H

#include "hwq/workload.h"

enum { AORTA_HWQ_ARGUMENT_BYTES = 256 };
struct aorta_hwq_prepared {
    int stream;
    const struct aorta_kernel *kernel;
    struct aorta_prepared *prepared;
    size_t bytes;
    const struct hwq_operation *operation;                     /* of a graph; NULL: none */
    _Alignas(16) unsigned char args[AORTA_HWQ_ARGUMENT_BYTES]; /* for stamped iterations, which add the stamp */
};

AORTA_MUST_USE aorta_status aorta_hwq_objects_create(struct aorta_hwq *hwq);
/* Quantiles for random inputs: made at first use, NULL when memory is exhausted. */
struct aorta_normal_table;
const struct aorta_normal_table *aorta_hwq_objects_table(const struct aorta_hwq *hwq);
void aorta_hwq_objects_destroy(struct aorta_hwq *hwq); /* streams idle; NULL in hwq->objects is fine */

/* Device memory, undefined contents. `what` names it when memory runs out. */
AORTA_MUST_USE aorta_status aorta_hwq_alloc(struct aorta_hwq *hwq, size_t bytes, const char *what, void **memory);
AORTA_MUST_USE aorta_status aorta_hwq_pinned(struct aorta_hwq *hwq, size_t bytes, const char *what, void **memory);
/* An event that orders streams and has no time. */
AORTA_MUST_USE aorta_status aorta_hwq_event(struct aorta_hwq *hwq, struct aorta_event **event);
/* A launch with everything computed beforehand. `bytes` of *args are copied, AORTA_HWQ_ARGUMENT_BYTES at most. */
AORTA_MUST_USE aorta_status aorta_hwq_prepare(struct aorta_hwq *hwq, int stream, const struct aorta_kernel *kernel,
                                              const void *args, size_t bytes, struct aorta_hwq_prepared **prepared);

/* In this order. One call for many launches costs the host less. */
AORTA_MUST_USE aorta_status aorta_hwq_launch_prepared(struct aorta_hwq *hwq, struct aorta_hwq_prepared *const *launches,
                                                      size_t count);
/* Around one operation on `stream`; not nested. `name` is static ("linear", "all_gather"). */
AORTA_MUST_USE aorta_status aorta_hwq_begin(struct aorta_hwq *hwq, int stream, enum aorta_span_kind kind,
                                            const char *name);
AORTA_MUST_USE aorta_status aorta_hwq_end(struct aorta_hwq *hwq, int stream);

#endif
