/* Arguments of the tiny kernels. */
#ifndef AORTA_HWQ_KERNELS_TINY_H
#define AORTA_HWQ_KERNELS_TINY_H

#include "hwq/stamp.h"

#include <stdint.h>

enum aorta_hwq_link { AORTA_HWQ_MULTIPLY, AORTA_HWQ_ADD, AORTA_HWQ_ABS, AORTA_HWQ_CLAMP };

/* y = x · factor + addend, element by element; y may be x. */
struct aorta_hwq_multiply_add {
    struct aorta_hwq_stamp *stamp;
    const float *x;
    float *y;
    int64_t count;
    float factor, addend;
};

/* One link of the chain, in place: x · a, x + a, |x|, x held between a and b. */
struct aorta_hwq_chain {
    struct aorta_hwq_stamp *stamp;
    float *x;
    int64_t count;
    int32_t link; /* enum aorta_hwq_link */
    float a, b;
};

#endif
