/* Kernels that are over before the next can be launched. */
#include "ops/kernels/portable.h"

#include "hwq/kernels/stamp.h"
#include "hwq/kernels/tiny.h"

KERNEL(256, hwq_multiply_add, aorta_hwq_multiply_add) {
    stamp_begin(a.stamp);
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i < a.count) a.y[i] = a.x[i] * a.factor + a.addend;
    stamp_end(a.stamp);
}

KERNEL(256, hwq_chain, aorta_hwq_chain) {
    stamp_begin(a.stamp);
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i < a.count) {
        const float x = a.x[i];
        float y = x * a.a;
        if (a.link == AORTA_HWQ_ADD) y = x + a.a;
        if (a.link == AORTA_HWQ_ABS) y = x < 0.0f ? -x : x;
        if (a.link == AORTA_HWQ_CLAMP) y = x < a.a ? a.a : x > a.b ? a.b : x;
        a.x[i] = y;
    }
    stamp_end(a.stamp);
}
