/* Prepared launches of graphs. They live until the workload ends, as what hwq->owned has: memory and events. Steps of a
 * graph queue their work through these calls, so that it is stamped:
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
    struct aorta_hwq_prepared *before;
    int stream;
    const struct aorta_kernel *kernel;
    struct aorta_prepared *prepared;
    size_t bytes;
    const struct hwq_operation *operation;                     /* of a graph; NULL: none */
    _Alignas(16) unsigned char args[AORTA_HWQ_ARGUMENT_BYTES]; /* for stamped iterations, which add the stamp */
};

/* Ends the launches and what hwq->owned has; streams are idle. */
void aorta_hwq_objects_destroy(struct aorta_hwq *hwq);
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
