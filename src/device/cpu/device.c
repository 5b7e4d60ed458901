/* Opening the CPU device, its memory, and its table. */
#include "base/clock.h"
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    ALIGNMENT = 256,
    PAGE = 4096,
    HUGE_PAGE = 2 * 1024 * 1024,
    LARGE = 16 * 1024 * 1024, /* from this size on, free memory is read first */
};

static aorta_status cpu_open(int index, struct aorta_device **device) {
    if (index != 0) return AORTA_ERROR(AORTA_UNSUPPORTED, "no device cpu:%d: there is one cpu device, cpu:0", index);
    struct cpu_device *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory for a device");
    made->base.backend = &aorta_cpu_backend;
    made->base.info.kind = AORTA_DEVICE_CPU;
    aorta_cpu_host_describe(&made->base.info);
    aorta_cpu_mark_pool_create(&made->marks);
    *device = &made->base;
    return NULL;
}

static void cpu_close(struct aorta_device *device) {
    aorta_cpu_mark_pool_destroy(marks_of(device));
    free(device);
}

static int64_t cpu_now_ns(struct aorta_device *device) {
    (void)device;
    return aorta_clock_ns();
}

static void *get_aligned(size_t bytes, size_t alignment) {
    if (bytes > SIZE_MAX - alignment) return NULL;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

/* The system promises more memory than it has, so large blocks are checked against free memory. */
static aorta_status cpu_memory_get(struct aorta_device *device, size_t bytes, void **memory) {
    (void)device;
    *memory = NULL;
    if (bytes >= LARGE && bytes > aorta_cpu_host_memory_free()) return NULL;
    *memory = get_aligned(bytes, bytes < LARGE ? ALIGNMENT : HUGE_PAGE);
    if (*memory && bytes >= LARGE) madvise(*memory, bytes, MADV_HUGEPAGE); /* only advice: a refusal changes nothing */
    return NULL;
}

static void cpu_memory_put(struct aorta_device *device, void *memory, size_t bytes) {
    (void)device, (void)bytes;
    free(memory);
}

static aorta_status cpu_pinned_get(struct aorta_device *device, size_t bytes, void **memory) {
    (void)device;
    *memory = NULL;
    if (bytes >= LARGE && bytes > aorta_cpu_host_memory_free()) return NULL;
    *memory = get_aligned(bytes, PAGE);
    if (*memory) (void)!mlock(*memory, bytes); /* often not permitted; the memory works all the same */
    return NULL;
}

static void cpu_pinned_put(struct aorta_device *device, void *memory, size_t bytes) {
    (void)device;
    (void)!munlock(memory, bytes);
    free(memory);
}

static uint64_t cpu_memory_free(struct aorta_device *device) {
    (void)device;
    return aorta_cpu_host_memory_free();
}

const struct aorta_backend aorta_cpu_backend = {
    .kind = AORTA_DEVICE_CPU,
    .open = cpu_open,
    .close = cpu_close,
    .now_ns = cpu_now_ns,
    .memory_get = cpu_memory_get,
    .memory_put = cpu_memory_put,
    .pinned_get = cpu_pinned_get,
    .pinned_put = cpu_pinned_put,
    .memory_free = cpu_memory_free,
    .stream_create = aorta_cpu_stream_create,
    .stream_limit = aorta_cpu_stream_limit,
    .stream_destroy = aorta_cpu_stream_destroy,
    .stream_synchronize = aorta_cpu_stream_synchronize,
    .stream_idle = aorta_cpu_stream_idle,
    .launch = aorta_cpu_launch,
    .host_call = aorta_cpu_host_call,
    .copy = aorta_cpu_copy,
    .fill_bytes = aorta_cpu_fill_bytes,
    .timestamp = aorta_cpu_timestamp,
    .event_create = aorta_cpu_event_create,
    .event_destroy = aorta_cpu_event_destroy,
    .event_record = aorta_cpu_event_record,
    .stream_wait = aorta_cpu_stream_wait,
    .event_synchronize = aorta_cpu_event_synchronize,
    .event_done = aorta_cpu_event_done,
    .event_time = aorta_cpu_event_time,
    .capture_begin = aorta_cpu_capture_begin,
    .capture_end = aorta_cpu_capture_end,
    .stream_capturing = aorta_cpu_stream_capturing,
    .graph_launch = aorta_cpu_graph_launch,
    .graph_destroy = aorta_cpu_graph_destroy,
};
