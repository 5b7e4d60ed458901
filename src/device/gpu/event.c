/* Events: each has an event of the vendor's, for order, and a slot for the time of its last record.
 *
 * The vendor's events are made without timing, which is cheaper. The time of a record is written by the same kernel as
 * timestamps are (stream.c), so that both are one clock to the ns; events that only order (aorta_event_create_untimed),
 * and records in captures, go without. */
#include "base/array.h"
#include "device/gpu/stream.h"

#include <stdlib.h>
#include <string.h>

/* ---- slots ---- */

enum { CHUNK = 256 };

void aorta_gpu_slots_close(struct gpu_device *device) {
    struct gpu_slots *slots = &device->slots;
    for (size_t i = 0; i < slots->count; i++) device->driver.api.host_free(slots->chunks[i]);
    free(slots->chunks);
    pthread_mutex_destroy(&slots->lock);
}

static aorta_status add_chunk(struct gpu_device *device) {
    struct gpu_slots *slots = &device->slots;
    void *chunk;
    if (!aorta_array_fit(&slots->chunks, &slots->capacity, slots->count + 1, sizeof *slots->chunks))
        return AORTA_ERROR(AORTA_MEMORY, "no host memory for events");
    int result = device->driver.api.host_alloc(&chunk, CHUNK * sizeof(int64_t), GPU_HOST_PORTABLE | GPU_HOST_MAPPED);
    if (result) return aorta_gpu_error(device, result, "page-locked memory for events");
    slots->chunks[slots->count++] = chunk;
    slots->left = CHUNK;
    return NULL;
}

static aorta_status take_slot(struct gpu_device *device, int64_t **slot) {
    struct gpu_slots *slots = &device->slots;
    pthread_mutex_lock(&slots->lock);
    aorta_status status = slots->left ? NULL : add_chunk(device);
    if (!status) *slot = &slots->chunks[slots->count - 1][--slots->left];
    pthread_mutex_unlock(&slots->lock);
    return status;
}

/* ---- events ---- */

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

/* A slot that no earlier record will be written to any more, or only before this one: on the same stream. */
static aorta_status ready_slot(struct gpu_event *event, const struct gpu_stream *stream) {
    if (event->base.untimed) return NULL;
    if (event->slot && event->stream == stream) return NULL;
    if (event->slot && api_of(stream)->event_query(event->handle) != GPU_NOT_READY) return NULL;
    return take_slot(device_of(stream), &event->slot);
}

static aorta_status record(struct gpu_event *event, struct gpu_stream *stream) {
    event->stream = stream;
    int result = api_of(stream)->event_record(event->handle, stream->handle);
    return result ? aorta_gpu_error(device_of(stream), result, "stream %s: event", stream->base.name) : NULL;
}

static aorta_status record_queued(struct gpu_event *event, struct gpu_stream *stream) {
    AORTA_TRY(aorta_gpu_make_current(stream->base.device));
    AORTA_TRY(ready_handle(event));
    AORTA_TRY(ready_slot(event, stream));
    forget_failure(event);
    event->failure = aorta_gpu_stream_failure(stream);
    AORTA_TRY(aorta_gpu_notes_carry(&event->notes, &stream->notes, stream));
    if (!event->failure) { /* a failed stream still keeps order; it has no time */
        if (stream->stamp_count == GPU_STAMPS) AORTA_TRY(aorta_gpu_stream_write_stamps(stream));
        if (!event->base.untimed) stream->stamps[stream->stamp_count++] = event->slot;
        AORTA_TRY(aorta_gpu_stream_write_stamps(stream));
    }
    return record(event, stream);
}

/* From here on the event has no time, and an earlier record may still write its slot. */
static aorta_status record_captured(struct gpu_event *event, struct gpu_stream *stream) {
    bool skip;
    AORTA_TRY(aorta_gpu_stream_enter(stream, &skip));
    AORTA_TRY(ready_handle(event));
    forget_failure(event);
    event->slot = NULL;
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

aorta_status aorta_gpu_event_time(struct aorta_event *base, int64_t *time_ns) {
    const struct gpu_event *event = gpu_event(base);
    struct gpu_device *device = gpu_device(base->device);
    AORTA_TRY(aorta_gpu_make_current(base->device));
    int result = device->driver.api.event_query(event->handle);
    if (result == GPU_NOT_READY)
        return AORTA_ERROR(AORTA_DEVICE, "the event has no time yet: stream %s has not reached it", base->recorded_on);
    if (result) return aorta_gpu_error(device, result, "stream %s failed", base->recorded_on);
    if (event->failure) return aorta_status_copy(event->failure);
    AORTA_TRY(aorta_gpu_notes_failure(device, &event->notes));
    *time_ns = *(volatile const int64_t *)event->slot;
    return NULL;
}
