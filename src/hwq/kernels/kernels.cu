/* The harness's own kernels: tiny ones, one that blocks its stream, one that writes the time. */
#include "ops/kernels/portable.h"

#include "hwq/kernels/arguments.h"
#include "ops/kernels/clock.h"

/* A kernel that stamps itself begins with stamp_begin and ends with stamp_end. All threads of every block reach
 * stamp_end: no early return between the two. */
DEVICE void stamp_begin(struct aorta_hwq_stamp *stamp) {
    if (!stamp || thread_index() != 0) return;
    atomicMin((unsigned long long *)&stamp->start, (unsigned long long)device_timer());
}

DEVICE void stamp_end(struct aorta_hwq_stamp *stamp) {
    if (!stamp) return;
    __syncthreads();
    if (thread_index() == 0) atomicMax((unsigned long long *)&stamp->end, (unsigned long long)device_timer());
}

/* The tiny kernels exist with and without stamps: the code of stamps doubles their length, and for kernels as short as
 * these the time to fetch the instructions shows. */
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

/* Ends when the host opens the gate, or at its limit, so that nothing hangs. */
KERNEL(1, hwq_hold, aorta_hwq_hold) {
    stamp_begin(a.stamp);
    const int64_t until = device_timer() + a.limit_ticks;
    while (!a.gate->open) {
        if (device_timer() < until) continue;
        a.gate->gave_up = 1;
        break;
    }
    stamp_end(a.stamp);
}

KERNEL(1, hwq_mark, aorta_hwq_mark) {
    *a.slot = device_timer();
}
