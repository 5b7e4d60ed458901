/* Flags: as src/ops/ops.c. Exchanges happen in the cache that all multiprocessors share, so that the waiting one sees
 * the flag. Work queued before a kernel on its stream is written when the kernel begins. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"

KERNEL(1, flag_raise, aorta_flag_args) {
    atomicExch(a.flag, 1);
}

/* A kernel has no clock that all devices share, so it counts its reads of a quarter of a microsecond or more. Later
 * work must not run early, so at the limit the kernel fails, and the device with it. */
KERNEL(1, flag_await, aorta_flag_args) {
    int64_t left = (int64_t)(a.limit_s * 4e6) + 1;
    while (atomicExch(a.flag, 0) == 0)
        if (--left == 0) fail_kernel();
}
