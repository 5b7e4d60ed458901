/* Kernels that are over before the next can be launched. */
#include "ops/kernels/portable.h"

#include "hwq/kernels/stamp.h"
#include "hwq/kernels/tiny.h"

/* Each of them twice: a kernel that may stamp itself is twice as long, and as short as these are, fetching its
 * instructions shows. */
DEVICE void multiply_add(const aorta_hwq_multiply_add &a) {
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i < a.count) a.y[i] = a.x[i] * a.factor + a.addend;
}

KERNEL(256, hwq_multiply_add, aorta_hwq_multiply_add) {
    multiply_add(a);
}

KERNEL(256, hwq_multiply_add_stamped, aorta_hwq_multiply_add) {
    stamp_begin(a.stamp);
    multiply_add(a);
    stamp_end(a.stamp);
}

DEVICE void chain(const aorta_hwq_chain &a) {
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= a.count) return;
    const float x = a.x[i];
    float y = x * a.a;
    if (a.link == AORTA_HWQ_ADD) y = x + a.a;
    if (a.link == AORTA_HWQ_ABS) y = x < 0.0f ? -x : x;
    if (a.link == AORTA_HWQ_CLAMP) y = x < a.a ? a.a : x > a.b ? a.b : x;
    a.x[i] = y;
}

KERNEL(256, hwq_chain, aorta_hwq_chain) {
    chain(a);
}

KERNEL(256, hwq_chain_stamped, aorta_hwq_chain) {
    stamp_begin(a.stamp);
    chain(a);
    stamp_end(a.stamp);
}
