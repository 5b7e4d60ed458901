/* What the CPU versions of kernels call to stamp themselves. One thread runs a kernel there. */
#ifndef AORTA_HWQ_KERNELS_HOST_H
#define AORTA_HWQ_KERNELS_HOST_H

#include "base/clock.h"
#include "hwq/stamp.h"

#include <stddef.h>

static inline void aorta_hwq_stamp_begin(struct aorta_hwq_stamp *stamp) {
    if (stamp) stamp->start = aorta_clock_ns();
}

static inline void aorta_hwq_stamp_end(struct aorta_hwq_stamp *stamp) {
    if (stamp) stamp->end = aorta_clock_ns();
}

#endif
