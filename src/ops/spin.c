/* Spinning: work of a known duration that says when it ran. */
#include "base/clock.h"
#include "ops/check.h"
#include "ops/gpu/gpu.h"

#include <errno.h>
#include <time.h>

static void sleep_until(int64_t time_ns) {
    const struct timespec until = {.tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
}

static aorta_status spin(const void *args) {
    const struct aorta_spin_args *a = args;
    const int64_t start_ns = aorta_clock_ns();
    if (a->duration_ns > 0) sleep_until(start_ns + a->duration_ns);
    if (!a->stamps) return NULL;
    a->stamps[0] = start_ns;
    a->stamps[1] = aorta_clock_ns();
    return NULL;
}

static const struct aorta_kernel spin_kernel = {"spin", spin, aorta_ops_gpu_spin};

aorta_status aorta_spin(struct aorta_stream *stream, int64_t duration_ns, int64_t *stamps) {
    AORTA_TRY(aorta_check_size(spin_kernel.name, "duration_ns", duration_ns, 0));
    const struct aorta_spin_args args = {.duration_ns = duration_ns, .stamps = stamps};
    return aorta_launch(stream, &spin_kernel, &args, sizeof args);
}
