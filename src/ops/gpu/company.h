/* What the next products of a stream run beside (aorta_ops_beside). */
#ifndef AORTA_OPS_GPU_COMPANY_H
#define AORTA_OPS_GPU_COMPANY_H

#include "device/gpu.h"
#include "ops/ops.h"

/* Of the stream's next product; count 0: it runs alone. */
AORTA_MUST_USE aorta_status aorta_company_of(struct aorta_stream *stream, struct aorta_beside *beside);
/* That product has been queued. */
AORTA_MUST_USE aorta_status aorta_company_leave(struct aorta_stream *stream);

/* Multiprocessors that they hold: blocks of such kernels share none. */
int aorta_company_held(const struct aorta_beside *beside);

#endif
