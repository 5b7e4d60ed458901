/* A kernel that holds its stream until the host lets it go, or until its patience ends: then nothing hangs. */
#include "ops/kernels/portable.h"

#include "hwq/kernels/hold.h"
#include "hwq/kernels/stamp.h"

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
