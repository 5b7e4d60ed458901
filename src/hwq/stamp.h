/* When one kernel ran, as it wrote itself: ticks of the device's timer, in device memory. Also part of the text of
 * every kernel in kernels/. */
#ifndef AORTA_HWQ_STAMP_H
#define AORTA_HWQ_STAMP_H

#include <stdint.h>

struct aorta_hwq_stamp {
    int64_t start; /* when the first block began; INT64_MAX before */
    int64_t end;   /* when the last block ended; 0 before */
};

/* What was queued between begin and end. */
enum aorta_hwq_work { AORTA_HWQ_KERNEL, AORTA_HWQ_GEMM, AORTA_HWQ_COLLECTIVE, AORTA_HWQ_COPY, AORTA_HWQ_HOST };

#endif
