/* How a kernel stamps itself. The first thing a kernel does is stamp_begin, the last one stamp_end, which all threads
 * of every block come to: no early return between the two. */
#ifndef AORTA_HWQ_KERNELS_STAMP_H
#define AORTA_HWQ_KERNELS_STAMP_H

#include "hwq/stamp.h"
#include "ops/kernels/clock.h"

DEVICE void stamp_begin(struct aorta_hwq_stamp *stamp) {
    if (!stamp || thread_index() != 0) return;
    atomicMin((unsigned long long *)&stamp->start, (unsigned long long)device_timer());
}

DEVICE void stamp_end(struct aorta_hwq_stamp *stamp) {
    if (!stamp) return;
    __syncthreads();
    if (thread_index() == 0) atomicMax((unsigned long long *)&stamp->end, (unsigned long long)device_timer());
}

#endif
