/* Kernels that wait: for a flag in memory that another stream raises, and for a time. */
#include "base/clock.h"
#include "ops/check.h"
#include "ops/gpu/gpu.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/* ---- flags ---- */

static const double most_s = 1e9; /* so that a kernel's count does not overflow */

static aorta_status raise(const void *args) {
    const struct aorta_flag_args *a = args;
    atomic_store_explicit((_Atomic int32_t *)a->flag, 1, memory_order_release);
    return NULL;
}

static aorta_status await(const void *args) {
    const struct aorta_flag_args *a = args;
    const int64_t start_ns = aorta_clock_ns();
    while (atomic_exchange_explicit((_Atomic int32_t *)a->flag, 0, memory_order_acquire) == 0) {
        if ((double)(aorta_clock_ns() - start_ns) * 1e-9 > a->limit_s)
            return AORTA_ERROR(AORTA_TIMEOUT, "the flag was not raised within %g s", a->limit_s);
        sched_yield();
    }
    return NULL;
}

static const struct aorta_gpu_grid one_thread = {.blocks = {1}};

static aorta_status flag_raise_gpu(struct aorta_stream *stream, const void *args) {
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_flag_raise, one_thread, args, sizeof(struct aorta_flag_args));
}

static aorta_status flag_await_gpu(struct aorta_stream *stream, const void *args) {
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_flag_await, one_thread, args, sizeof(struct aorta_flag_args));
}

static const struct aorta_kernel raise_kernel = {"flag_raise", raise, flag_raise_gpu};
static const struct aorta_kernel await_kernel = {"flag_await", await, flag_await_gpu};

aorta_status aorta_flag_raise(struct aorta_stream *stream, int32_t *flag) {
    AORTA_TRY(aorta_check_pointer(raise_kernel.name, "flag", flag));
    const struct aorta_flag_args args = {.flag = flag};
    return aorta_launch(stream, &raise_kernel, &args, sizeof args);
}

aorta_status aorta_flag_await(struct aorta_stream *stream, int32_t *flag, double limit_s) {
    AORTA_TRY(aorta_check_pointer(await_kernel.name, "flag", flag));
    const struct aorta_flag_args args = {.flag = flag, .limit_s = fmin(limit_s, most_s)};
    return aorta_launch(stream, &await_kernel, &args, sizeof args);
}

/* ---- time ---- */

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

static aorta_status spin_gpu(struct aorta_stream *stream, const void *args) {
    struct aorta_spin_args spin = *(const struct aorta_spin_args *)args;
    spin.clock = aorta_gpu_clock_page(aorta_stream_device(stream));
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_spin, one_thread, &spin, sizeof spin);
}

static const struct aorta_kernel spin_kernel = {"spin", spin, spin_gpu};

aorta_status aorta_spin(struct aorta_stream *stream, int64_t duration_ns, int64_t *stamps) {
    AORTA_TRY(aorta_check_size(spin_kernel.name, "duration_ns", duration_ns, 0));
    const struct aorta_spin_args args = {.duration_ns = duration_ns, .stamps = stamps};
    return aorta_launch(stream, &spin_kernel, &args, sizeof args);
}
