/* Events: each holds the mark of its last record.
 *
 * Order comes from the vendor's events, made without timing, which are cheaper. The time of a record is written by the
 * same kernel as timestamps are (stream.c), so that both are one clock to the ns; events that only order
 * (aorta_event_create_untimed), and records in captures, go without. */
#include "device/gpu/stream.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256 };

/* Marks are made a chunk at a time. One whose record may still be on its way is pending until it is reached. */
struct mark_chunk {
    struct mark_chunk *next;
    int64_t *slots; /* pinned */
    struct gpu_mark marks[CHUNK];
};

struct gpu_mark_pool {
    pthread_mutex_t lock;
    struct mark_chunk *chunks;
    struct gpu_mark *free, *pending;
};

/* ---- marks ---- */

aorta_status aorta_gpu_marks_open(struct gpu_device *device) {
    device->marks = calloc(1, sizeof *device->marks);
    if (!device->marks) return AORTA_ERROR(AORTA_MEMORY, "no host memory for events");
    pthread_mutex_init(&device->marks->lock, NULL);
    return NULL;
}

static void clear_mark(struct gpu_mark *mark) {
    aorta_status_free(mark->failure);
    aorta_gpu_outcome_release(mark->outcome);
    mark->failure = NULL;
    mark->outcome = NULL;
    mark->position = 0;
    mark->stream = NULL;
    mark->captured = false;
}

void aorta_gpu_marks_close(struct gpu_device *device) {
    struct gpu_mark_pool *pool = device->marks;
    const struct gpu_api *api = &device->driver.api;
    if (!pool) return;
    while (pool->chunks) {
        struct mark_chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        for (size_t i = 0; i < CHUNK; i++) {
            clear_mark(&chunk->marks[i]);
            if (chunk->marks[i].handle) api->event_destroy(chunk->marks[i].handle);
        }
        api->host_free(chunk->slots);
        free(chunk);
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static aorta_status add_chunk(struct gpu_device *device) {
    struct mark_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk) return AORTA_ERROR(AORTA_MEMORY, "no host memory for events");
    void *slots;
    int result =
        device->driver.api.host_alloc(&slots, CHUNK * sizeof *chunk->slots, GPU_HOST_PORTABLE | GPU_HOST_MAPPED);
    if (result) {
        free(chunk);
        return aorta_gpu_error(device, result, "page-locked memory for events");
    }
    chunk->slots = slots;
    for (size_t i = 0; i < CHUNK; i++) {
        chunk->marks[i].slot = &chunk->slots[i];
        chunk->marks[i].next = device->marks->free;
        device->marks->free = &chunk->marks[i];
    }
    chunk->next = device->marks->chunks;
    device->marks->chunks = chunk;
    return NULL;
}

/* Pending marks whose records have been reached become free. */
static void collect(struct gpu_device *device) {
    struct gpu_mark_pool *pool = device->marks;
    for (struct gpu_mark **link = &pool->pending; *link;) {
        struct gpu_mark *mark = *link;
        if (device->driver.api.event_query(mark->handle) == GPU_NOT_READY) {
            link = &mark->next;
            continue;
        }
        *link = mark->next;
        clear_mark(mark);
        mark->next = pool->free;
        pool->free = mark;
    }
}

static aorta_status take_mark(struct gpu_device *device, struct gpu_mark **taken) {
    struct gpu_mark_pool *pool = device->marks;
    pthread_mutex_lock(&pool->lock);
    if (!pool->free) collect(device);
    aorta_status status = pool->free ? NULL : add_chunk(device);
    struct gpu_mark *mark = status ? NULL : pool->free;
    if (mark && !mark->handle) {
        int result = device->driver.api.event_create(&mark->handle, GPU_EVENT_NO_TIMING);
        if (result) status = aorta_gpu_error(device, result, "event");
    }
    if (mark && !status) {
        pool->free = mark->next;
        mark->next = NULL;
        *taken = mark;
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

static void put_mark(struct gpu_device *device, struct gpu_mark *mark) {
    if (!mark) return;
    struct gpu_mark_pool *pool = device->marks;
    pthread_mutex_lock(&pool->lock);
    struct gpu_mark **list = mark->stream && !mark->captured ? &pool->pending : &pool->free;
    if (list == &pool->free) clear_mark(mark);
    mark->next = *list;
    *list = mark;
    pthread_mutex_unlock(&pool->lock);
}

/* ---- events ---- */

void aorta_gpu_event_end(struct aorta_event *event) {
    put_mark(gpu_device(event->device), gpu_event(event)->mark);
}

/* A mark that nothing is on its way to but earlier records of the same stream, which are reached before this one. */
static aorta_status ready_mark(struct gpu_event *event, const struct gpu_stream *stream, bool captured) {
    struct gpu_mark *mark = event->mark;
    if (mark && mark->stream == stream && !mark->captured && !captured) {
        clear_mark(mark);
        return NULL;
    }
    AORTA_TRY(take_mark(device_of(stream), &mark));
    put_mark(device_of(stream), event->mark);
    event->mark = mark;
    return NULL;
}

/* Both of outside captures and, after the bookkeeping there, inside. */
static aorta_status record_on(struct gpu_event *event, struct gpu_stream *stream) {
    AORTA_TRY(ready_mark(event, stream, stream->base.branch != NULL));
    struct gpu_mark *mark = event->mark;
    int result = api_of(stream)->event_record(mark->handle, stream->handle);
    if (result) return aorta_gpu_error(device_of(stream), result, "stream %s: event", stream->base.name);
    mark->stream = stream;
    mark->captured = stream->base.branch != NULL;
    return NULL;
}

static aorta_status record_queued(struct gpu_event *event, struct gpu_stream *stream) {
    AORTA_TRY(aorta_gpu_make_current(stream->base.device));
    AORTA_TRY(ready_mark(event, stream, false));
    aorta_status failure = aorta_gpu_stream_failure(stream);
    if (!failure) { /* a failed stream still keeps order; it has no time */
        if (stream->stamp_count == GPU_STAMPS) AORTA_TRY(aorta_gpu_stream_write_stamps(stream));
        if (!event->base.untimed) stream->stamps[stream->stamp_count++] = event->mark->slot;
        AORTA_TRY(aorta_gpu_stream_write_stamps(stream));
    }
    struct gpu_mark *mark = event->mark;
    mark->failure = failure;
    if (stream->outcome) {
        mark->outcome = aorta_gpu_outcome_retain(stream->outcome);
        mark->position = stream->host_calls;
    }
    mark->stream = stream;
    int result = api_of(stream)->event_record(mark->handle, stream->handle);
    return result ? aorta_gpu_error(device_of(stream), result, "stream %s: event", stream->base.name) : NULL;
}

static aorta_status record_captured(struct gpu_event *event, struct gpu_stream *stream) {
    bool skip;
    AORTA_TRY(aorta_gpu_stream_enter(stream, &skip));
    return record_on(event, stream);
}

aorta_status aorta_gpu_event_record(struct aorta_event *event, struct aorta_stream *stream) {
    if (stream->branch) return record_captured(gpu_event(event), gpu_stream(stream));
    return aorta_gpu_stream_fail(gpu_stream(stream), record_queued(gpu_event(event), gpu_stream(stream)));
}

/* Timestamps asked for before the wait are written before it. */
static aorta_status wait_captured(struct gpu_stream *stream, const struct gpu_mark *mark) {
    AORTA_TRY(aorta_gpu_make_current(stream->base.device));
    AORTA_TRY(aorta_gpu_stream_write_stamps(stream));
    int result = api_of(stream)->stream_wait(stream->handle, mark->handle, 0);
    return result ? aorta_gpu_error(device_of(stream), result, "stream %s: wait", stream->base.name) : NULL;
}

static aorta_status wait_queued(struct gpu_stream *stream, const struct gpu_mark *mark) {
    bool skip;
    AORTA_TRY(aorta_gpu_stream_enter(stream, &skip));
    if (skip) AORTA_TRY(aorta_gpu_make_current(stream->base.device));
    if (mark->stream != stream) {
        int result = api_of(stream)->stream_wait(stream->handle, mark->handle, 0);
        if (result) return aorta_gpu_error(device_of(stream), result, "stream %s: wait", stream->base.name);
    }
    if (mark->failure && !stream->failure) stream->failure = aorta_status_copy(mark->failure);
    if (!mark->outcome || mark->outcome == stream->outcome || stream->failure) return NULL;
    AORTA_TRY(aorta_gpu_notes_carry(stream, &mark->outcome->notes, &mark->outcome->lock));
    if (!mark->position) return NULL;
    /* Calls ended, or mark reached: the outcome is final. Else a call after the wait will ask, which holds the stream
     * up for some 20 us and makes those that wait for it ask, too. */
    if (atomic_load(&mark->outcome->done) >= mark->position ||
        api_of(stream)->event_query(mark->handle) != GPU_NOT_READY) {
        stream->failure = aorta_gpu_outcome_at(mark->outcome, mark->position);
        return NULL;
    }
    return aorta_gpu_outcome_carry(stream, mark->outcome, mark->position);
}

aorta_status aorta_gpu_stream_wait(struct aorta_stream *base, struct aorta_event *event) {
    struct gpu_stream *stream = gpu_stream(base);
    if (base->branch) return wait_captured(stream, gpu_event(event)->mark);
    return aorta_gpu_stream_keep(stream, wait_queued(stream, gpu_event(event)->mark));
}

/* The handle of a mark outlives the event and is recorded anew only after it was reached, so it can be waited for
 * without the lock. */
aorta_status aorta_gpu_event_synchronize(struct aorta_event *event) {
    struct gpu_device *device = gpu_device(event->device);
    AORTA_TRY(aorta_gpu_make_current(event->device));
    pthread_mutex_lock(&event->lock);
    void *handle = gpu_event(event)->mark->handle;
    pthread_mutex_unlock(&event->lock);
    int result = device->driver.api.event_synchronize(handle);
    if (result) return aorta_gpu_error(device, result, "stream %s failed", event->recorded_on);
    pthread_mutex_lock(&event->lock);
    const struct gpu_mark *mark = gpu_event(event)->mark;
    aorta_status status = aorta_status_copy(mark->failure);
    if (!status) status = aorta_gpu_outcome_at(mark->outcome, mark->position);
    pthread_mutex_unlock(&event->lock);
    if (!status) aorta_gpu_clock_refresh(device);
    return status;
}

bool aorta_gpu_event_done(struct aorta_event *event) {
    aorta_status_free(aorta_gpu_make_current(event->device)); /* a lost device: the query says so */
    return gpu_device(event->device)->driver.api.event_query(gpu_event(event)->mark->handle) != GPU_NOT_READY;
}

aorta_status aorta_gpu_event_time(struct aorta_event *event, int64_t *time_ns) {
    const struct gpu_mark *mark = gpu_event(event)->mark;
    struct gpu_device *device = gpu_device(event->device);
    AORTA_TRY(aorta_gpu_make_current(event->device));
    int result = device->driver.api.event_query(mark->handle);
    if (result == GPU_NOT_READY)
        return AORTA_ERROR(AORTA_DEVICE, "the event has no time yet: stream %s has not reached it", event->recorded_on);
    if (result) return aorta_gpu_error(device, result, "stream %s failed", event->recorded_on);
    if (mark->failure) return aorta_status_copy(mark->failure);
    AORTA_TRY(aorta_gpu_outcome_at(mark->outcome, mark->position));
    *time_ns = *(volatile const int64_t *)mark->slot;
    return NULL;
}
