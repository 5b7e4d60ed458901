/* Holding a stream: as hold.cu. */
#include "hwq/kernels/hold.h"
#include "hwq/kernels/entries.h"
#include "hwq/kernels/host.h"
#include "hwq/kernels/kernels.h"

#include <time.h>

static aorta_status cpu_hold(const void *args) {
    const struct aorta_hwq_hold *a = args;
    const struct timespec pause = {.tv_nsec = 20000};
    aorta_hwq_stamp_begin(a->stamp);
    const int64_t until = aorta_clock_ns() + a->limit_ticks;
    while (!__atomic_load_n(&a->gate->open, __ATOMIC_ACQUIRE)) {
        if (aorta_clock_ns() < until) {
            nanosleep(&pause, NULL); /* the processor is wanted by what is being queued meanwhile */
            continue;
        }
        __atomic_store_n(&a->gate->gave_up, 1, __ATOMIC_RELEASE);
        break;
    }
    aorta_hwq_stamp_end(a->stamp);
    return NULL;
}

static aorta_status cpu_mark(const void *args) {
    const struct aorta_hwq_mark *a = args;
    *a->slot = aorta_clock_ns();
    return NULL;
}

static const struct aorta_gpu_grid one_thread = {.blocks = {1}};

static aorta_status gpu_hold(struct aorta_stream *stream, const void *args) {
    return aorta_gpu_launch(stream, &aorta_hwq_entries[AORTA_HWQ_ENTRY_hold], one_thread, args,
                            sizeof(struct aorta_hwq_hold));
}

static aorta_status gpu_mark(struct aorta_stream *stream, const void *args) {
    return aorta_gpu_launch(stream, &aorta_hwq_entries[AORTA_HWQ_ENTRY_mark], one_thread, args,
                            sizeof(struct aorta_hwq_mark));
}

const struct aorta_kernel aorta_hwq_kernel_hold = {"hwq_hold", cpu_hold, gpu_hold};
const struct aorta_kernel aorta_hwq_kernel_mark = {"hwq_mark", cpu_mark, gpu_mark};
