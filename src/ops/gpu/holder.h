/* Kernels that hold multiprocessors while something else is timed, as collectives do beside compute. */
#ifndef AORTA_OPS_GPU_HOLDER_H
#define AORTA_OPS_GPU_HOLDER_H

#include "ops/ops.h"

struct aorta_holder;

/* One stream for each kernel of `beside`. *holder is NULL where there are none; the other functions then do nothing. */
AORTA_MUST_USE aorta_status aorta_holder_create(struct aorta_device *device, const struct aorta_beside *beside,
                                                struct aorta_holder **holder);
void aorta_holder_destroy(struct aorta_holder *holder);

/* Starts them; when it returns all their blocks hold their room, and will for limit_ns at most. AORTA_DEVICE: they did
 * not find it; none is left. */
AORTA_MUST_USE aorta_status aorta_holder_begin(struct aorta_holder *holder, int64_t limit_ns);
/* Ends them and waits for that. */
AORTA_MUST_USE aorta_status aorta_holder_end(struct aorta_holder *holder);

#endif
