/* What the harness keeps for a workload: everything that its setup made, destroyed in the reverse order. */
#ifndef AORTA_HWQ_KEPT_H
#define AORTA_HWQ_KEPT_H

#include "hwq/workload.h"

struct aorta_hwq_shot {
    int stream;
    const struct aorta_kernel *kernel;
    struct aorta_prepared *prepared;
    size_t bytes;
    _Alignas(16) unsigned char args[AORTA_HWQ_ARGUMENT_BYTES]; /* for the stamped pass, which adds the stamp */
};

AORTA_MUST_USE aorta_status aorta_hwq_kept_create(struct aorta_hwq *hwq);
/* Quantiles for random inputs: made at first use, NULL when memory is exhausted. */
struct aorta_normal_table;
const struct aorta_normal_table *aorta_hwq_kept_table(const struct aorta_hwq *hwq);
void aorta_hwq_kept_destroy(struct aorta_hwq *hwq); /* streams idle; NULL in hwq->kept is fine */

#endif
