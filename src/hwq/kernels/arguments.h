/* Arguments of the harness's own kernels, plain C; also part of the kernels' source text (kernels.cu). Kernels that
 * stamp themselves have `stamp` as their first member; NULL: no stamp. */
#ifndef AORTA_HWQ_KERNELS_ARGUMENTS_H
#define AORTA_HWQ_KERNELS_ARGUMENTS_H

#include <stdint.h>

/* Start and end of a kernel, written by the kernel: ticks of the device's timer, in device memory. */
struct aorta_hwq_stamp {
    int64_t start; /* when the first block began; INT64_MAX before */
    int64_t end;   /* when the last block ended; 0 before */
};

/* y = x · factor + addend, element by element; y may be x. */
struct aorta_hwq_multiply_add {
    struct aorta_hwq_stamp *stamp;
    const float *x;
    float *y;
    int64_t count;
    float factor, addend;
};

enum aorta_hwq_link { AORTA_HWQ_MULTIPLY, AORTA_HWQ_ADD, AORTA_HWQ_ABS, AORTA_HWQ_CLAMP };

/* One link of a chain, in place: x · a, x + a, |x|, x clamped to [a, b]. */
struct aorta_hwq_chain {
    struct aorta_hwq_stamp *stamp;
    float *x;
    int64_t count;
    int32_t link; /* enum aorta_hwq_link */
    float a, b;
};

/* In pinned memory, one for each gate. */
struct aorta_hwq_gate_flags {
    int32_t open;    /* the host sets 1 */
    int32_t gave_up; /* the device sets 1 when the limit passed before it read open = 1 */
};

/* Blocks its stream until the flag is open or the limit has passed. */
struct aorta_hwq_hold {
    struct aorta_hwq_stamp *stamp;
    volatile struct aorta_hwq_gate_flags *gate;
    int64_t limit_ticks; /* of the device's timer */
};

/* Writes the time into *slot. */
struct aorta_hwq_mark {
    int64_t *slot;
};

#endif
