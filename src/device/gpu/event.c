/* Events, which are the vendor's, made without timing: that is cheaper. */
#include "device/gpu/stream.h"

#include <stdlib.h>
#include <string.h>

static void forget_failure(struct gpu_event *event) {
    aorta_status_free(event->failure);
    event->failure = NULL;
    event->notes.count = 0;
}

void aorta_gpu_event_end(struct aorta_event *base) {
    struct gpu_event *event = gpu_event(base);
    forget_failure(event);
    free(event->notes.items);
    if (!event->handle || aorta_gpu_given_up(gpu_device(base->device))) return;
    aorta_status_free(aorta_gpu_make_current(base->device)); /* a lost device: the event is gone anyway */
    gpu_device(base->device)->driver.api.event_destroy(event->handle);
}

static aorta_status ready_handle(struct gpu_event *event) {
    struct gpu_device *device = gpu_device(event->base.device);
    if (event->handle) return NULL;
    int result = device->driver.api.event_create(&event->handle, GPU_EVENT_NO_TIMING);
    return result ? aorta_gpu_error(device, result, "event") : NULL;
}

static aorta_status record(struct gpu_event *event, struct gpu_stream *stream) {
    event->stream = stream;
    int result = api_of(stream)->event_record(event->handle, stream->handle);
    return result ? aorta_gpu_error(device_of(stream), result, "stream %s: event", stream->base.name) : NULL;
}

static aorta_status record_queued(struct gpu_event *event, struct gpu_stream *stream) {
    AORTA_TRY(aorta_gpu_make_current(stream->base.device));
    AORTA_TRY(ready_handle(event));
    forget_failure(event);
    event->failure = aorta_gpu_stream_failure(stream);
    AORTA_TRY(aorta_gpu_notes_carry(&event->notes, &stream->notes, stream));
    return record(event, stream); /* a failed stream still keeps order */
}

static aorta_status record_captured(struct gpu_event *event, struct gpu_stream *stream) {
    bool skip;
    AORTA_TRY(aorta_gpu_stream_enter(stream, &skip));
    AORTA_TRY(ready_handle(event));
    forget_failure(event);
    return record(event, stream);
}

aorta_status aorta_gpu_event_record(struct aorta_event *event, struct aorta_stream *stream) {
    if (stream->branch) return record_captured(gpu_event(event), gpu_stream(stream));
    return aorta_gpu_stream_fail(gpu_stream(stream), record_queued(gpu_event(event), gpu_stream(stream)));
}

/* Timestamps asked for before the wait are written before it. */
static aorta_status wait_captured(struct gpu_stream *stream, const struct gpu_event *event) {
    AORTA_TRY(aorta_gpu_make_current(stream->base.device));
    AORTA_TRY(aorta_gpu_stream_write_stamps(stream));
    int result = api_of(stream)->stream_wait(stream->handle, event->handle, 0);
    return result ? aorta_gpu_error(device_of(stream), result, "stream %s: wait", stream->base.name) : NULL;
}

static aorta_status wait_queued(struct gpu_stream *stream, const struct gpu_event *event) {
    bool skip;
    AORTA_TRY(aorta_gpu_stream_enter(stream, &skip));
    if (skip) AORTA_TRY(aorta_gpu_make_current(stream->base.device));
    if (event->stream != stream) {
        int result = api_of(stream)->stream_wait(stream->handle, event->handle, 0);
        if (result) return aorta_gpu_error(device_of(stream), result, "stream %s: wait", stream->base.name);
    }
    if (event->failure && !stream->failure) stream->failure = aorta_status_copy(event->failure);
    return aorta_gpu_notes_carry(&stream->notes, &event->notes, stream);
}

aorta_status aorta_gpu_stream_wait(struct aorta_stream *base, struct aorta_event *event) {
    struct gpu_stream *stream = gpu_stream(base);
    if (base->branch) return wait_captured(stream, gpu_event(event));
    return aorta_gpu_stream_keep(stream, wait_queued(stream, gpu_event(event)));
}

/* Waits without the lock, so that other threads may record the event meanwhile. */
aorta_status aorta_gpu_event_synchronize(struct aorta_event *base) {
    struct gpu_event *event = gpu_event(base);
    struct gpu_device *device = gpu_device(base->device);
    AORTA_TRY(aorta_gpu_make_current(base->device));
    int result = device->driver.api.event_synchronize(event->handle);
    if (result) return aorta_gpu_error(device, result, "stream %s failed", base->recorded_on);
    pthread_mutex_lock(&base->lock);
    aorta_status status = aorta_status_copy(event->failure);
    if (!status) status = aorta_gpu_notes_failure(device, &event->notes);
    pthread_mutex_unlock(&base->lock);
    if (!status) aorta_gpu_clock_refresh(device);
    return status;
}

bool aorta_gpu_event_done(struct aorta_event *event) {
    aorta_status_free(aorta_gpu_make_current(event->device)); /* a lost device: the query says so */
    return gpu_device(event->device)->driver.api.event_query(gpu_event(event)->handle) != GPU_NOT_READY;
}
