/* Arguments of the kernel that holds a stream, and of the one that only says when it ran. */
#ifndef AORTA_HWQ_KERNELS_HOLD_H
#define AORTA_HWQ_KERNELS_HOLD_H

#include "hwq/stamp.h"

#include <stdint.h>

/* In pinned memory, one for each gate. */
struct aorta_hwq_gate {
    int32_t open;    /* the host sets 1 */
    int32_t gave_up; /* the device sets 1 when the limit had passed before it saw that */
};

struct aorta_hwq_hold {
    struct aorta_hwq_stamp *stamp;
    volatile struct aorta_hwq_gate *gate;
    int64_t limit_ticks; /* of the device's timer */
};

/* Writes one time into *slot. */
struct aorta_hwq_mark {
    int64_t *slot;
};

#endif
