/* Streams that run on a share of the multiprocessors.
 *
 * CUDA: a green context holds a partition of them, and streams made in it run nowhere else; memory, modules and events
 * are those of the primary context ("Green Contexts", CUDA driver API). HIP: a stream has a mask of compute units. */
#include "device/gpu/stream.h"

#include <stdlib.h>

struct gpu_partition { /* lives until the device closes: streams in it may be destroyed late, by a capture's end */
    struct gpu_partition *next;
    void *context;
};

aorta_status aorta_gpu_stream_limit(struct aorta_stream *base, double share, int part) {
    (void)part; /* another process has its own device, or its own times on it */
    struct gpu_stream *stream = gpu_stream(base);
    struct gpu_device *device = device_of(stream);
    AORTA_TRY(aorta_gpu_make_current(base->device));
    void *limited;
    AORTA_TRY(device->driver.vendor->limited_stream(device, share, base->priority, &limited));
    int result = api_of(stream)->stream_destroy(stream->handle);
    stream->handle = limited;
    return result ? aorta_gpu_error(device, result, "its former handle cannot be given back") : NULL;
}

void aorta_gpu_partitions_close(struct gpu_device *device) {
    struct gpu_partition *partition = atomic_load(&device->partitions);
    while (partition) {
        struct gpu_partition *next = partition->next;
        device->driver.api.cuda_green_destroy(partition->context);
        free(partition);
        partition = next;
    }
}

static aorta_status too_small(double share, int of, int smallest) {
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "a share of %g of the device's %d multiprocessors is less than it can set apart: %d, a share of "
                       "%.3g",
                       share, of, smallest, (double)smallest / of);
}

/* ---- CUDA ---- */

/* CUdevResource, whose size has grown: here it is large enough. */
struct cuda_resource {
    int type;
    unsigned char internal[92];
    unsigned count, smallest, step; /* multiprocessors; smallest and step are 0 before CUDA 12.8 */
    unsigned char reserve[404];
};
enum { CUDA_RESOURCE_MULTIPROCESSORS = 1, CUDA_GREEN_DEFAULT_STREAM = 1 };

/* By the manual, for drivers that do not say. */
static void complete(struct cuda_resource *all, int major) {
    if (!all->step) all->step = major >= 9 ? 8 : 2;
    if (!all->smallest) all->smallest = major >= 9 ? 8 : major == 8 ? 4 : 2;
}

static aorta_status cuda_failure(const struct gpu_device *device, int result, const char *what) {
    return result ? aorta_gpu_error(device, result, "%s", what) : NULL;
}

/* A green context on at most `share`. */
static aorta_status make_partition(struct gpu_device *device, double share, void **context) {
    const struct gpu_api *api = &device->driver.api;
    struct cuda_resource all = {0}, own = {0};
    AORTA_TRY(cuda_failure(device, api->cuda_resource_get(device->handle, &all, CUDA_RESOURCE_MULTIPROCESSORS),
                           "the device's possible partitions"));
    complete(&all, device->properties.major);
    const unsigned most = (unsigned)(share * all.count + 1e-9), wanted = most / all.step * all.step;
    if (wanted < all.smallest) return too_small(share, (int)all.count, (int)all.smallest);
    unsigned groups = 1;
    AORTA_TRY(cuda_failure(device, api->cuda_resource_split(&own, &groups, &all, NULL, 0, wanted),
                           "dividing the multiprocessors"));
    if (groups != 1 || own.count > most) return too_small(share, (int)all.count, (int)own.count);
    void *description;
    AORTA_TRY(cuda_failure(device, api->cuda_resource_describe(&description, &own, 1),
                           "describing a share of the multiprocessors"));
    return cuda_failure(device, api->cuda_green_create(context, description, device->handle, CUDA_GREEN_DEFAULT_STREAM),
                        "setting a share of the multiprocessors apart");
}

static aorta_status keep_partition(struct gpu_device *device, void *context) {
    struct gpu_partition *partition = malloc(sizeof *partition);
    if (!partition) {
        device->driver.api.cuda_green_destroy(context);
        return AORTA_ERROR(AORTA_MEMORY, "no host memory for a share of the multiprocessors");
    }
    *partition = (struct gpu_partition){atomic_load(&device->partitions), context};
    while (!atomic_compare_exchange_weak(&device->partitions, &partition->next, partition)) {
    }
    return NULL;
}

aorta_status aorta_gpu_cuda_limited_stream(struct gpu_device *device, double share, enum aorta_priority priority,
                                           void **stream) {
    const struct gpu_api *api = &device->driver.api;
    bool able = api->cuda_resource_get && api->cuda_resource_split && api->cuda_resource_describe &&
                api->cuda_green_create && api->cuda_green_destroy && api->cuda_green_stream;
    if (!able)
        return AORTA_ERROR(AORTA_UNSUPPORTED,
                           "%s (version %d) cannot limit a stream to a share of the multiprocessors: that takes a "
                           "driver of CUDA 12.4 or newer",
                           device->driver.library.path, device->driver.version);
    void *context;
    AORTA_TRY(make_partition(device, share, &context));
    AORTA_TRY(keep_partition(device, context));
    int result = api->cuda_green_stream(stream, context, GPU_STREAM_NON_BLOCKING, aorta_gpu_priority(device, priority));
    return cuda_failure(device, result, "a stream on a share of the multiprocessors");
}

/* ---- HIP ---- */

aorta_status aorta_gpu_hip_limited_stream(struct gpu_device *device, double share, enum aorta_priority priority,
                                          void **stream) {
    enum { WORDS = 32 };
    (void)priority; /* there is no function that takes both */
    const int all = device->properties.multiprocessors, count = (int)(share * all + 1e-9);
    if (!device->driver.api.hip_masked_stream)
        return AORTA_ERROR(AORTA_UNSUPPORTED,
                           "%s cannot limit a stream to a share of the compute units: it has no "
                           "hipExtStreamCreateWithCUMask",
                           device->driver.library.path);
    if (count < 1 || all > WORDS * 32) return too_small(share, all, 1);
    uint32_t mask[WORDS] = {0};
    for (int unit = 0; unit < count; unit++) mask[unit / 32] |= (uint32_t)1 << unit % 32;
    int result = device->driver.api.hip_masked_stream(stream, (uint32_t)(all + 31) / 32, mask);
    return result ? aorta_gpu_error(device, result, "a stream on %d of %d compute units", count, all) : NULL;
}
