/* Device time inside a kernel: the device's timer, put on the host's clock by the line that the driver keeps in device
 * memory (src/device/gpu/clock.c says how it is measured; the layout is struct gpu_clock_line's of driver.h). Not for
 * the emulator, which has no such timer. */
#ifndef AORTA_KERNELS_CLOCK_H
#define AORTA_KERNELS_CLOCK_H

#include "ops/kernels/portable.h"

struct clock_line {
    int64_t timer, host_ns;
    double ns_per_tick, slew_ns, slew_ticks;
};

struct clock_page { /* what aorta_gpu_clock_page points at */
    int32_t current, unused;
    clock_line lines[2];
};

#ifdef AORTA_CUDA
DEVICE int64_t device_timer() {
    int64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
#else
DEVICE int64_t device_timer() {
#if __has_builtin(__builtin_readsteadycounter)
    return (int64_t)__builtin_readsteadycounter();
#else /* before clang 18 */
    return (int64_t)__builtin_amdgcn_s_memrealtime();
#endif
}
#endif

/* The line that holds now; the driver writes the other one meanwhile. */
DEVICE const volatile clock_line *clock_now(const void *page) {
    const volatile clock_page *p = (const volatile clock_page *)page;
    return &p->lines[p->current & 1];
}

DEVICE int64_t clock_time(const volatile clock_line *line, int64_t timer) {
    const double ticks = (double)(timer - line->timer);
    const double slewed = ticks < line->slew_ticks ? ticks / line->slew_ticks : 1.0;
    return line->host_ns + (int64_t)(ticks * line->ns_per_tick + slewed * line->slew_ns);
}

#endif
