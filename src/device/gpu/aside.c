/* Timestamps beside a captured stream: a branch of the graph that comes behind what the stream has queued, and that
 * what it queues next does not wait for. Each captured stream has its own, so that its stamps stay in order. */
#include "device/gpu/driver.h"

static aorta_status make_aside(struct gpu_device *device, struct gpu_aside *aside) {
    const struct gpu_api *api = &device->driver.api;
    int result = api->event_create(&aside->event, GPU_EVENT_NO_TIMING);
    if (!result) result = api->stream_create(&aside->stream, GPU_STREAM_NON_BLOCKING, device->priority_high);
    return result ? aorta_gpu_error(device, result, "a stream for timestamps cannot be made") : NULL;
}

aorta_status aorta_gpu_aside_fork(struct gpu_stream *stream, struct gpu_aside **forked) {
    struct gpu_device *device = device_of(stream);
    struct gpu_aside *aside = *forked = &stream->branch->aside;
    if (!aside->stream) AORTA_TRY(make_aside(device, aside));
    int result = api_of(stream)->event_record(aside->event, stream->handle);
    if (!result) result = api_of(stream)->stream_wait(aside->stream, aside->event, 0);
    return result ? aorta_gpu_error(device, result, "a branch for timestamps") : NULL;
}

aorta_status aorta_gpu_aside_stamp(struct gpu_stream *stream, struct gpu_stamp_args *args) {
    struct gpu_aside *aside;
    AORTA_TRY(aorta_gpu_aside_fork(stream, &aside));
    return aorta_gpu_launch_own(device_of(stream), aside->stream, &aorta_gpu_stamp, args);
}

aorta_status aorta_gpu_aside_join(struct gpu_branch *branch, struct gpu_stream *origin) {
    struct gpu_aside *aside = &branch->aside;
    if (!aside->stream) return NULL;
    int result = api_of(origin)->event_record(aside->event, aside->stream);
    if (!result) result = api_of(origin)->stream_wait(origin->handle, aside->event, 0);
    return result ? aorta_gpu_error(device_of(origin), result, "a branch for timestamps") : NULL;
}

void aorta_gpu_aside_close(const struct gpu_api *api, struct gpu_aside *aside) {
    if (aside->stream) api->stream_destroy(aside->stream);
    if (aside->event) api->event_destroy(aside->event);
    *aside = (struct gpu_aside){0};
}
