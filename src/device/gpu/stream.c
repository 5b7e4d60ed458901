/* A stream and the work that can be queued on it. */
#include "device/gpu/stream.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- failures ---- */

aorta_status aorta_gpu_stream_keep(struct gpu_stream *stream, aorta_status failure) {
    if (!failure) return NULL;
    if (stream->base.branch) return aorta_capture_break(stream->base.branch->capture, failure);
    stream->failure = aorta_status_join(stream->failure, failure);
    return NULL;
}

aorta_status aorta_gpu_stream_fail(struct gpu_stream *stream, aorta_status failure) {
    if (failure && !stream->base.branch)
        stream->failure = aorta_status_join(stream->failure, aorta_status_copy(failure));
    return failure;
}

aorta_status aorta_gpu_stream_failure(struct gpu_stream *stream) {
    if (!stream->failure) stream->failure = aorta_gpu_notes_failure(device_of(stream), &stream->notes);
    return aorta_status_copy(stream->failure);
}

/* ---- before anything is queued ---- */

aorta_status aorta_gpu_stream_write_stamps(struct gpu_stream *stream) {
    if (!stream->stamp_count) return NULL;
    struct gpu_stamp_args args = {.clock = device_of(stream)->clock.page};
    for (uint32_t i = 0; i < stream->stamp_count; i++) args.slots[i] = stream->stamps[i];
    stream->stamp_count = 0;
    return aorta_gpu_launch_own(device_of(stream), stream->handle, &aorta_gpu_stamp, &args);
}

aorta_status aorta_gpu_stream_enter(struct gpu_stream *stream, bool *skip) {
    *skip = !stream->base.branch && stream->failure;
    if (*skip) return NULL;
    int result = api_of(stream)->context_set(device_of(stream)->context);
    if (result) return aorta_gpu_error(device_of(stream), result, "stream %s", stream->base.name);
    if (stream->base.branch) stream->base.branch->reach.counts[stream->base.branch->index]++;
    return aorta_annotate(aorta_gpu_stream_write_stamps(stream), "stream %s: timestamp", stream->base.name);
}

/* Begins a call that queues one command: returns true if it should be queued, else *status is the call's result. */
static bool begin(struct gpu_stream *stream, aorta_status *status) {
    bool skip;
    *status = aorta_gpu_stream_keep(stream, aorta_gpu_stream_enter(stream, &skip));
    return !*status && !skip && (stream->base.branch || !stream->failure);
}

static aorta_status finish(struct gpu_stream *stream, int result, const char *what) {
    if (!result) return NULL;
    return aorta_gpu_stream_keep(stream,
                                 aorta_gpu_error(device_of(stream), result, "stream %s: %s", stream->base.name, what));
}

/* ---- the stream ---- */

/* The number that the vendor has for a priority. */
static int priority_of(const struct gpu_device *device, enum aorta_priority priority) {
    if (priority == AORTA_PRIORITY_LOW) return device->priority_low;
    if (priority == AORTA_PRIORITY_HIGH) return device->priority_high;
    return (device->priority_low + device->priority_high) / 2;
}

aorta_status aorta_gpu_stream_create(struct aorta_device *base, const char *name, enum aorta_priority priority,
                                     struct aorta_stream **stream) {
    struct gpu_device *device = gpu_device(base);
    AORTA_TRY(aorta_gpu_make_current(base));
    struct gpu_stream *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory for stream %s", name);
    int result =
        device->driver.api.stream_create(&made->handle, GPU_STREAM_NON_BLOCKING, priority_of(device, priority));
    if (result) {
        free(made);
        return aorta_gpu_error(device, result, "stream %s cannot be made", name);
    }
    made->base = (struct aorta_stream){.device = base, .priority = priority};
    snprintf(made->base.name, sizeof made->base.name, "%s", name);
    *stream = &made->base;
    return NULL;
}

void aorta_gpu_stream_destroy(struct aorta_stream *base) {
    struct gpu_stream *stream = gpu_stream(base);
    const struct gpu_api *api = api_of(stream);
    aorta_status_free(aorta_gpu_make_current(base->device)); /* a lost device: nothing is left to wait for */
    if (stream->handle) {
        if (!stream->failure) aorta_status_free(aorta_gpu_stream_write_stamps(stream));
        if (!aorta_gpu_given_up(device_of(stream))) api->stream_synchronize(stream->handle);
        api->stream_destroy(stream->handle);
    }
    free(stream->notes.items);
    aorta_status_free(stream->failure);
    free(stream);
}

static aorta_status wait_for(struct gpu_stream *stream) {
    bool skip;
    aorta_status status = aorta_gpu_stream_enter(stream, &skip);
    if (skip) status = aorta_gpu_make_current(stream->base.device);
    /* In any case: the caller may free memory that was in use until then. */
    int result = api_of(stream)->stream_synchronize(stream->handle);
    if (!result) return status;
    return aorta_status_join(status,
                             aorta_gpu_error(device_of(stream), result, "stream %s failed, last kernel launched %s",
                                             stream->base.name, stream->last ? stream->last : "none"));
}

aorta_status aorta_gpu_stream_synchronize(struct aorta_stream *base) {
    struct gpu_stream *stream = gpu_stream(base);
    aorta_status failure = wait_for(stream);
    if (failure) stream->failure = aorta_status_join(stream->failure, failure);
    if (!stream->failure) aorta_gpu_clock_refresh(device_of(stream));
    return aorta_gpu_stream_failure(stream);
}

void *aorta_gpu_stream_handle(struct aorta_stream *base) {
    struct gpu_stream *stream = gpu_stream(base);
    bool skip;
    aorta_status_free(aorta_gpu_stream_keep(stream, aorta_gpu_stream_enter(stream, &skip)));
    return stream->handle;
}

/* ---- queued work ---- */

aorta_status aorta_gpu_stream_launch(struct aorta_stream *base, const struct aorta_kernel *kernel, const void *args,
                                     size_t bytes) {
    struct gpu_stream *stream = gpu_stream(base);
    (void)bytes; /* the launch function knows its struct */
    if (!kernel->gpu)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "stream %s: kernel %s has no version for GPUs", base->name, kernel->name);
    if (!stream->base.branch && stream->failure) return NULL;
    aorta_status status = kernel->gpu(base, args);
    if (!status) return NULL;
    return aorta_gpu_stream_keep(stream, aorta_annotate(status, "stream %s: kernel %s", base->name, kernel->name));
}

aorta_status aorta_gpu_copy(struct aorta_stream *base, void *to, const void *from, size_t bytes) {
    struct gpu_stream *stream = gpu_stream(base);
    aorta_status status;
    if (!bytes || !begin(stream, &status)) return bytes ? status : NULL;
    const struct gpu_vendor *vendor = device_of(stream)->driver.vendor;
    return finish(stream, vendor->copy(api_of(stream), to, from, bytes, stream->handle), "copy");
}

aorta_status aorta_gpu_fill_bytes(struct aorta_stream *base, void *to, int value, size_t bytes) {
    struct gpu_stream *stream = gpu_stream(base);
    aorta_status status;
    if (!bytes || !begin(stream, &status)) return bytes ? status : NULL;
    return finish(stream, api_of(stream)->fill(to, (unsigned char)value, bytes, stream->handle), "fill");
}

aorta_status aorta_gpu_host_call(struct aorta_stream *base, void (*function)(void *user), void *user) {
    struct gpu_stream *stream = gpu_stream(base);
    aorta_status status;
    if (!begin(stream, &status)) return status;
    return finish(stream, api_of(stream)->host_call(stream->handle, function, user), "host call");
}

/* A timestamp is a kernel of one thread, about 2 us of the stream's time with the launch after it. Events with timing
 * cost as much, and only the host can read their times, as floats and not in graphs.
 *
 * In a capture, timestamps with nothing in between (the end of one range and the beginning of the next) share a kernel,
 * which is launched before the next command. Outside, the host may come late with that command, and this gap must not
 * count as part of the range that has ended. */
aorta_status aorta_gpu_timestamp(struct aorta_stream *base, int64_t *slot) {
    struct gpu_stream *stream = gpu_stream(base);
    aorta_status status;
    if (!stream->base.branch && stream->failure) return NULL;
    if (stream->stamp_count == GPU_STAMPS && !begin(stream, &status)) return status;
    stream->stamps[stream->stamp_count++] = slot;
    if (stream->base.branch) {
        stream->base.branch->reach.counts[stream->base.branch->index]++;
        return NULL;
    }
    begin(stream, &status);
    return status;
}

/* ---- limits ----
 * Streams that run on a share of the multiprocessors.
 *
 * CUDA: a green context holds a partition of them, and streams made in it run nowhere else; memory, modules and events
 * are those of the primary context ("Green Contexts", CUDA driver API). HIP: a stream has a mask of compute units. */

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
    int result = api->cuda_green_stream(stream, context, GPU_STREAM_NON_BLOCKING, priority_of(device, priority));
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
