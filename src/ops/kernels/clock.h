/* Device time inside a kernel: the device's timer, put on the host's clock by the line that the driver keeps in device
 * memory (src/device/gpu/clock.c says how it is measured; the layout is struct gpu_clock_line's of
 * device/gpu/driver.h). Not for the emulator, which has no such timer. */
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

/* The line in use; meanwhile the driver writes the second line. */
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
