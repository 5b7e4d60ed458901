/* The harness's own kernels: the CPU's functions, as in kernels.cu, and the GPU's grids. */
#include "hwq/kernels/kernels.h"
#include "base/clock.h"

#include <math.h>
#include <time.h>

/* ---- CPU: one thread runs a kernel ---- */

static void stamp_begin(struct aorta_hwq_stamp *stamp) {
    if (stamp) stamp->start = aorta_clock_ns();
}

static void stamp_end(struct aorta_hwq_stamp *stamp) {
    if (stamp) stamp->end = aorta_clock_ns();
}

static aorta_status cpu_multiply_add(const void *args) {
    const struct aorta_hwq_multiply_add *a = args;
    stamp_begin(a->stamp);
    for (int64_t i = 0; i < a->count; i++) a->y[i] = a->x[i] * a->factor + a->addend;
    stamp_end(a->stamp);
    return NULL;
}

static float apply_link(const struct aorta_hwq_chain *a, float x) {
    if (a->link == AORTA_HWQ_MULTIPLY) return x * a->a;
    if (a->link == AORTA_HWQ_ADD) return x + a->a;
    if (a->link == AORTA_HWQ_ABS) return fabsf(x);
    return x < a->a ? a->a : x > a->b ? a->b : x;
}

static aorta_status cpu_chain(const void *args) {
    const struct aorta_hwq_chain *a = args;
    stamp_begin(a->stamp);
    for (int64_t i = 0; i < a->count; i++) a->x[i] = apply_link(a, a->x[i]);
    stamp_end(a->stamp);
    return NULL;
}

static aorta_status cpu_hold(const void *args) {
    const struct aorta_hwq_hold *a = args;
    const struct timespec pause = {.tv_nsec = 20000};
    stamp_begin(a->stamp);
    const int64_t until = aorta_clock_ns() + a->limit_ticks;
    while (!__atomic_load_n(&a->gate->open, __ATOMIC_ACQUIRE)) {
        if (aorta_clock_ns() < until) {
            nanosleep(&pause, NULL); /* leaves the processor to the thread that queues work meanwhile */
            continue;
        }
        __atomic_store_n(&a->gate->gave_up, 1, __ATOMIC_RELEASE);
        break;
    }
    stamp_end(a->stamp);
    return NULL;
}

static aorta_status cpu_mark(const void *args) {
    const struct aorta_hwq_mark *a = args;
    *a->slot = aorta_clock_ns();
    return NULL;
}

/* ---- GPU ---- */

#define ENTRY(name) static const struct aorta_gpu_entry name##_entry = {&aorta_source_hwq_kernels, "hwq_" #name}
ENTRY(multiply_add);
ENTRY(multiply_add_stamped);
ENTRY(chain);
ENTRY(chain_stamped);
ENTRY(hold);
ENTRY(mark);
#undef ENTRY

static const struct aorta_gpu_grid one_thread = {.blocks = {1}};

/* One thread for each of `count` elements. */
static struct aorta_gpu_grid grid_of(int64_t count) {
    return (struct aorta_gpu_grid){.blocks = {(uint32_t)((count + 255) / 256)}, .threads = {256}};
}

static aorta_status gpu_multiply_add(struct aorta_stream *stream, const void *args) {
    const struct aorta_hwq_multiply_add *a = args;
    return aorta_gpu_launch(stream, a->stamp ? &multiply_add_stamped_entry : &multiply_add_entry, grid_of(a->count), a,
                            sizeof *a);
}

static aorta_status gpu_chain(struct aorta_stream *stream, const void *args) {
    const struct aorta_hwq_chain *a = args;
    return aorta_gpu_launch(stream, a->stamp ? &chain_stamped_entry : &chain_entry, grid_of(a->count), a, sizeof *a);
}

static aorta_status gpu_hold(struct aorta_stream *stream, const void *args) {
    return aorta_gpu_launch(stream, &hold_entry, one_thread, args, sizeof(struct aorta_hwq_hold));
}

static aorta_status gpu_mark(struct aorta_stream *stream, const void *args) {
    return aorta_gpu_launch(stream, &mark_entry, one_thread, args, sizeof(struct aorta_hwq_mark));
}

const struct aorta_kernel aorta_hwq_kernel_multiply_add = {"hwq_multiply_add", cpu_multiply_add, gpu_multiply_add};
const struct aorta_kernel aorta_hwq_kernel_chain = {"hwq_chain", cpu_chain, gpu_chain};
const struct aorta_kernel aorta_hwq_kernel_hold = {"hwq_hold", cpu_hold, gpu_hold};
const struct aorta_kernel aorta_hwq_kernel_mark = {"hwq_mark", cpu_mark, gpu_mark};
