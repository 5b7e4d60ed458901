/* Flags: as src/ops/wait.c. Exchanges take place in the cache that all multiprocessors share, so that the waiting one
 * sees the flag; what was queued before a kernel on its stream is written when it begins. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"

KERNEL(1, flag_raise, aorta_flag_args) {
    atomicExch(a.flag, 1);
}

/* A kernel has no clock that all devices share: it counts its reads, which take a quarter of a microsecond or more.
 * Later work must not run without what it waits for, so in the end it fails, and the device with it. */
KERNEL(1, flag_await, aorta_flag_args) {
    int64_t left = (int64_t)(a.limit_s * 4e6) + 1;
    while (atomicExch(a.flag, 0) == 0)
        if (--left == 0) fail_kernel();
}
