/* Opens devices and hands each call to the driver of its device. */
#include "base/text.h"
#include "device/backend.h"
#include "device/gpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- for a watchdog ---- */

void aorta_device_fail(struct aorta_device *device, aorta_status status) {
    aorta_status none = NULL;
    if (!atomic_compare_exchange_strong(&device->failure, &none, status)) aorta_status_free(status);
}

struct aorta_device_calls aorta_device_count_calls(struct aorta_device *device) {
    /* Read in this order, a call that begins in between counts as running. */
    uint64_t ended = atomic_load(&device->calls_ended);
    return (struct aorta_device_calls){.begun = atomic_load(&device->calls_begun), .ended = ended};
}

/* Around every call of a driver that queues or waits. `status` is the driver's; a failure of the device joins it. */
static void begin_watch(struct aorta_device *device) {
    atomic_fetch_add_explicit(&device->calls_begun, 1, memory_order_relaxed);
}

static aorta_status end_watch(struct aorta_device *device, aorta_status status) {
    atomic_fetch_add_explicit(&device->calls_ended, 1, memory_order_relaxed);
    aorta_status failure = atomic_load_explicit(&device->failure, memory_order_acquire);
    if (!failure) return status;
    /* Later statuses of the driver are consequences. */
    aorta_status_free(status);
    return aorta_status_copy(failure);
}

/* ---- attachments ---- */

struct aorta_attachment {
    struct aorta_attachment *before;
    const void *key;
    void *state;
    void (*end)(void *state);
};

static aorta_status attach(struct aorta_device *device, const void *key,
                           aorta_status (*make)(struct aorta_device *device, void **state), void (*end)(void *state),
                           void **state) {
    struct aorta_attachment *attachment = malloc(sizeof *attachment);
    if (!attachment) return AORTA_ERROR(AORTA_MEMORY, "no host memory to describe the device");
    aorta_status status = make(device, state);
    if (status) {
        free(attachment);
        return status;
    }
    *attachment = (struct aorta_attachment){device->attachments, key, *state, end};
    device->attachments = attachment;
    return NULL;
}

aorta_status aorta_device_attachment(struct aorta_device *device, const void *key,
                                     aorta_status (*make)(struct aorta_device *device, void **state),
                                     void (*end)(void *state), void **state) {
    pthread_mutex_lock(&device->attachments_lock);
    struct aorta_attachment *found = device->attachments;
    while (found && found->key != key) found = found->before;
    if (found) *state = found->state;
    aorta_status status = found ? NULL : attach(device, key, make, end, state);
    pthread_mutex_unlock(&device->attachments_lock);
    return status;
}

/* ---- prepared launches ---- */

/* The copy of the arguments is at a multiple of 16, as kernels may expect. */
static aorta_status allocate(const struct aorta_backend *backend, const struct aorta_kernel *kernel, size_t bytes,
                             struct aorta_prepared **prepared, void **args) {
    const size_t size = backend->prepared_bytes ? backend->prepared_bytes : sizeof **prepared;
    *prepared = calloc(1, size);
    *args = *prepared ? aligned_alloc(16, (bytes + 16) / 16 * 16) : NULL;
    if (*args) return NULL;
    free(*prepared);
    return AORTA_ERROR(AORTA_MEMORY, "no host memory to prepare kernel %s", kernel->name);
}

aorta_status aorta_launch_prepare(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                                  size_t bytes, struct aorta_prepared **prepared) {
    const struct aorta_backend *backend = stream->device->backend;
    struct aorta_prepared *made;
    void *copy;
    AORTA_TRY(allocate(backend, kernel, bytes, &made, &copy));
    memcpy(copy, args, bytes);
    *made = (struct aorta_prepared){.stream = stream, .kernel = kernel, .args = copy, .bytes = bytes};
    aorta_status status = backend->prepare ? backend->prepare(made) : NULL;
    if (status) {
        aorta_prepared_destroy(made);
        return aorta_annotate(status, "stream %s: kernel %s", stream->name, kernel->name);
    }
    *prepared = made;
    return NULL;
}

void aorta_prepared_destroy(struct aorta_prepared *prepared) {
    if (!prepared) return;
    free((void *)(uintptr_t)prepared->args);
    free(prepared);
}

static aorta_status launch_plainly(struct aorta_prepared *const *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct aorta_prepared *item = items[i];
        AORTA_TRY(item->stream->device->backend->launch(item->stream, item->kernel, item->args, item->bytes));
    }
    return NULL;
}

aorta_status aorta_launch_prepared(struct aorta_prepared *const *items, size_t count) {
    if (!count) return NULL;
    struct aorta_device *device = items[0]->stream->device;
    begin_watch(device);
    return end_watch(device, device->backend->launch_prepared ? device->backend->launch_prepared(items, count)
                                                              : launch_plainly(items, count));
}

static const char *const kind_names[] = {
    [AORTA_DEVICE_CPU] = "cpu",
    [AORTA_DEVICE_CUDA] = "cuda",
    [AORTA_DEVICE_HIP] = "hip",
};

static const struct aorta_backend *const backends[] = {
    [AORTA_DEVICE_CPU] = &aorta_cpu_backend,
    [AORTA_DEVICE_CUDA] = &aorta_cuda_backend,
    [AORTA_DEVICE_HIP] = &aorta_hip_backend,
};

const char *aorta_device_kind_name(enum aorta_device_kind kind) {
    return kind_names[kind];
}

static void close_parts(struct aorta_device *device) {
    if (aorta_device_is_gpu(device)) aorta_status_free(aorta_gpu_make_current(device)); /* for the attachments' ends */
    for (struct aorta_attachment *last; (last = device->attachments); free(last)) {
        device->attachments = last->before;
        last->end(last->state);
    }
    pthread_mutex_destroy(&device->attachments_lock);
    if (device->memory) aorta_memory_destroy(device->memory);
    aorta_status_free(atomic_load(&device->failure));
    device->backend->close(device);
}

aorta_status aorta_device_open(enum aorta_device_kind kind, int index, struct aorta_device **device) {
    struct aorta_device *opened;
    AORTA_TRY(backends[kind]->open(backends[kind], index, &opened));
    opened->attachments_lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    aorta_status status = aorta_memory_create(opened, &opened->memory);
    if (status) {
        close_parts(opened);
        return status;
    }
    *device = opened;
    return NULL;
}

static aorta_status open_one_of(enum aorta_device_kind kind, int count, int local_rank, struct aorta_device **device,
                                struct aorta_device_warning *warning) {
    warning->text[0] = '\0';
    if (local_rank >= count) {
        snprintf(warning->text, sizeof warning->text,
                 "local rank %d shares device %s:%d with another rank: there %s %s", local_rank, kind_names[kind],
                 local_rank % count, count == 1 ? "is" : "are", aorta_counted(count, "device").text);
    }
    return aorta_device_open(kind, local_rank % count, device);
}

aorta_status aorta_device_open_local(enum aorta_device_kind kind, int local_rank, struct aorta_device **device,
                                     struct aorta_device_warning *warning) {
    int count = 1;
    if (kind == AORTA_DEVICE_CPU) return open_one_of(kind, 1, 0, device, warning);
    aorta_status status = aorta_gpu_count(kind, &count);
    if (status)
        return aorta_annotate(status, "no device %s:%d (`aorta info` lists those found)", kind_names[kind], local_rank);
    return open_one_of(kind, count, local_rank, device, warning);
}

static const char broken[] = "there is a GPU and it cannot be used (device.kind cpu does without)";

aorta_status aorta_device_best_kind(enum aorta_device_kind *kind, int *count) {
    static const enum aorta_device_kind kinds[] = {AORTA_DEVICE_CUDA, AORTA_DEVICE_HIP};
    aorta_status unusable = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        *kind = kinds[i];
        aorta_status none = aorta_gpu_count(kinds[i], count);
        if (!none) {
            aorta_status_free(unusable);
            return NULL;
        }
        if (!unusable && aorta_status_code(none) != AORTA_UNSUPPORTED)
            unusable = none;
        else
            aorta_status_free(none); /* `aorta info` says why there is none */
    }
    *kind = AORTA_DEVICE_CPU;
    *count = 1;
    return aorta_annotate(unusable, "%s", broken);
}

aorta_status aorta_device_open_best(int local_rank, struct aorta_device **device,
                                    struct aorta_device_warning *warning) {
    enum aorta_device_kind kind;
    int count;
    AORTA_TRY(aorta_device_best_kind(&kind, &count));
    aorta_status status = open_one_of(kind, count, kind == AORTA_DEVICE_CPU ? 0 : local_rank, device, warning);
    return kind == AORTA_DEVICE_CPU ? status : aorta_annotate(status, "%s", broken);
}

void aorta_device_close(struct aorta_device *device) {
    if (device) close_parts(device);
}

const struct aorta_device_info *aorta_device_get_info(const struct aorta_device *device) {
    return &device->info;
}

int64_t aorta_device_clock_error_ns(struct aorta_device *device) {
    return device->backend->clock_error_ns ? device->backend->clock_error_ns(device) : 0;
}

/* ---- streams ---- */

aorta_status aorta_stream_create(struct aorta_device *device, const char *name, enum aorta_priority priority,
                                 struct aorta_stream **stream) {
    return device->backend->stream_create(device, name, priority, stream);
}

aorta_status aorta_stream_limit(struct aorta_stream *stream, double share, int part) {
    if (!(share > 0.0 && share <= 1.0) || part < 0)
        return AORTA_ERROR(AORTA_INTERNAL, "stream %s: a share of %g (part %d) of the multiprocessors makes no sense",
                           stream->name, share, part);
    if (share == 1.0) return NULL;
    AORTA_TRY(aorta_annotate(stream->device->backend->stream_limit(stream, share, part), "stream %s", stream->name));
    stream->share = share;
    stream->part = part;
    return NULL;
}

void aorta_stream_destroy(struct aorta_stream *stream) {
    if (!stream) return;
    if (stream->branch) aorta_capture_leave(stream);
    stream->device->backend->stream_destroy(stream);
}

struct aorta_device *aorta_stream_device(const struct aorta_stream *stream) {
    return stream->device;
}

const char *aorta_stream_name(const struct aorta_stream *stream) {
    return stream->name;
}

aorta_status aorta_stream_synchronize(struct aorta_stream *stream) {
    if (stream->branch)
        return aorta_capture_break(
            stream->branch->capture,
            AORTA_ERROR(AORTA_DEVICE, "stream %s cannot be synchronized while it is captured", stream->name));
    begin_watch(stream->device);
    return end_watch(stream->device, stream->device->backend->stream_synchronize(stream));
}

aorta_status aorta_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                          size_t bytes) {
    begin_watch(stream->device);
    return end_watch(stream->device, stream->device->backend->launch(stream, kernel, args, bytes));
}

aorta_status aorta_host_call(struct aorta_stream *stream, void (*function)(void *user), void *user) {
    begin_watch(stream->device);
    return end_watch(stream->device, stream->device->backend->host_call(stream, function, user));
}

aorta_status aorta_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes) {
    begin_watch(stream->device);
    return end_watch(stream->device, stream->device->backend->copy(stream, to, from, bytes));
}

aorta_status aorta_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes) {
    begin_watch(stream->device);
    return end_watch(stream->device, stream->device->backend->fill_bytes(stream, to, value, bytes));
}

aorta_status aorta_timestamp(struct aorta_stream *stream, int64_t *slot) {
    begin_watch(stream->device);
    return end_watch(stream->device, stream->device->backend->timestamp(stream, slot));
}

/* ---- events ---- */

/* Events order streams of one device; across devices nothing would be ordered. */
static aorta_status check_same_device(const struct aorta_event *event, const struct aorta_stream *stream) {
    if (event->device == stream->device) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "stream %s and the event belong to different device objects", stream->name);
}

aorta_status aorta_event_create(struct aorta_device *device, struct aorta_event **event) {
    struct aorta_event *made = calloc(1, device->backend->event_bytes);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory for an event");
    made->device = device;
    pthread_mutex_init(&made->lock, NULL);
    *event = made;
    return NULL;
}

void aorta_event_destroy(struct aorta_event *event) {
    if (!event) return;
    aorta_capture_forget(event);
    event->device->backend->event_end(event);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

aorta_status aorta_event_record(struct aorta_event *event, struct aorta_stream *stream) {
    AORTA_TRY(check_same_device(event, stream));
    begin_watch(event->device);
    pthread_mutex_lock(&event->lock);
    aorta_status status =
        stream->branch ? aorta_capture_record(stream, event) : event->device->backend->event_record(event, stream);
    if (!status) memcpy(event->recorded_on, stream->name, sizeof event->recorded_on);
    if (!status && !stream->branch) aorta_capture_forget(event);
    pthread_mutex_unlock(&event->lock);
    return end_watch(event->device, status);
}

aorta_status aorta_stream_wait(struct aorta_stream *stream, struct aorta_event *event) {
    aorta_status status = NULL;
    AORTA_TRY(check_same_device(event, stream));
    begin_watch(stream->device);
    pthread_mutex_lock(&event->lock);
    if (*event->recorded_on)
        status = event->capture || stream->branch ? aorta_capture_wait(stream, event)
                                                  : stream->device->backend->stream_wait(stream, event);
    pthread_mutex_unlock(&event->lock);
    return end_watch(stream->device, status);
}

aorta_status aorta_event_synchronize(struct aorta_event *event) {
    aorta_status status = NULL;
    begin_watch(event->device);
    pthread_mutex_lock(&event->lock);
    const bool outside = *event->recorded_on && !event->capture;
    if (event->capture) status = aorta_capture_only_orders(event);
    if (event->capture && event->capture->active) status = aorta_capture_break(event->capture, status);
    pthread_mutex_unlock(&event->lock);
    return end_watch(event->device, outside ? event->device->backend->event_synchronize(event) : status);
}

bool aorta_event_done(struct aorta_event *event) {
    pthread_mutex_lock(&event->lock);
    bool done = !event->capture && (!*event->recorded_on || event->device->backend->event_done(event));
    pthread_mutex_unlock(&event->lock);
    return done;
}

/* ---- graphs ---- */

aorta_status aorta_graph_launch(struct aorta_graph *graph, struct aorta_stream *stream) {
    if (graph->device != stream->device)
        return AORTA_ERROR(AORTA_DEVICE, "stream %s and the graph belong to different device objects", stream->name);
    if (stream->branch)
        return aorta_capture_break(
            stream->branch->capture,
            AORTA_ERROR(AORTA_DEVICE,
                        "stream %s is being captured: a graph, captured on stream %s, cannot be part of it",
                        stream->name, graph->capture->branches[0]->name));
    begin_watch(stream->device);
    return end_watch(stream->device, stream->device->backend->graph_launch(graph, stream));
}

size_t aorta_graph_node_count(const struct aorta_graph *graph) {
    return graph->node_count;
}

void aorta_graph_destroy(struct aorta_graph *graph) {
    if (!graph) return;
    struct capture_state *capture = graph->capture;
    graph->device->backend->graph_destroy(graph);
    aorta_capture_release(capture);
}
