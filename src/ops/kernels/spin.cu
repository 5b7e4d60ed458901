/* A kernel of a given duration: as src/ops/ops.c. */
#include "ops/kernels/clock.h"

#include "ops/kernels/arguments.h"

KERNEL(1, spin, aorta_spin_args) {
    const int64_t start = device_timer();
    const volatile clock_line *line = clock_now(a.clock);
    const int64_t ticks = (int64_t)((double)a.duration_ns / line->ns_per_tick);
    int64_t now = start;
    while (now - start < ticks) now = device_timer();
    if (!a.stamps) return;
    a.stamps[0] = clock_time(line, start);
    a.stamps[1] = clock_time(line, device_timer());
}
