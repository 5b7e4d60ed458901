/* Flags: one stream holds until another has come to a place, by looking at memory instead of by an event. */
#include "base/clock.h"
#include "ops/check.h"
#include "ops/gpu/gpu.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>

static const double most_s = 1e9; /* so that what a kernel counts has room */

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

static const struct aorta_kernel raise_kernel = {"flag_raise", raise, aorta_ops_gpu_flag_raise};
static const struct aorta_kernel await_kernel = {"flag_await", await, aorta_ops_gpu_flag_await};

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
