/* Everything that a workload's setup creates: memory, events, prepared launches. The harness destroys all of it in the
 * reverse order. */
#ifndef AORTA_HWQ_OBJECTS_H
#define AORTA_HWQ_OBJECTS_H

#include "hwq/workload.h"

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

#endif
