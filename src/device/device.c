/* Opens devices and hands each call to the driver of its device. */
#include "base/text.h"
#include "device/backend.h"
#include "device/gpu.h"

#include <stdio.h>

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
    aorta_attachments_destroy(device->attachments);
    if (device->memory) aorta_memory_destroy(device->memory);
    aorta_watch_close(device);
    device->backend->close(device);
}

aorta_status aorta_device_open(enum aorta_device_kind kind, int index, struct aorta_device **device) {
    struct aorta_device *opened;
    AORTA_TRY(backends[kind]->open(index, &opened));
    aorta_watch_open(opened);
    aorta_status status = aorta_memory_create(opened, &opened->memory);
    if (!status) status = aorta_attachments_create(&opened->attachments);
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

int64_t aorta_device_now_ns(struct aorta_device *device) {
    return device->backend->now_ns(device);
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
    if (stream) stream->device->backend->stream_destroy(stream);
}

struct aorta_device *aorta_stream_device(const struct aorta_stream *stream) {
    return stream->device;
}

const char *aorta_stream_name(const struct aorta_stream *stream) {
    return stream->name;
}

enum aorta_priority aorta_stream_priority(const struct aorta_stream *stream) {
    return stream->priority;
}

aorta_status aorta_stream_synchronize(struct aorta_stream *stream) {
    aorta_watch_begin(stream->device);
    return aorta_watch_end(stream->device, stream->device->backend->stream_synchronize(stream));
}

bool aorta_stream_idle(struct aorta_stream *stream) {
    return stream->device->backend->stream_idle(stream);
}

aorta_status aorta_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                          size_t bytes) {
    aorta_watch_begin(stream->device);
    return aorta_watch_end(stream->device, stream->device->backend->launch(stream, kernel, args, bytes));
}

aorta_status aorta_host_call(struct aorta_stream *stream, aorta_status (*function)(void *user), void *user) {
    aorta_watch_begin(stream->device);
    return aorta_watch_end(stream->device, stream->device->backend->host_call(stream, function, user));
}

aorta_status aorta_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes) {
    aorta_watch_begin(stream->device);
    return aorta_watch_end(stream->device, stream->device->backend->copy(stream, to, from, bytes));
}

aorta_status aorta_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes) {
    aorta_watch_begin(stream->device);
    return aorta_watch_end(stream->device, stream->device->backend->fill_bytes(stream, to, value, bytes));
}

aorta_status aorta_timestamp(struct aorta_stream *stream, int64_t *slot) {
    aorta_watch_begin(stream->device);
    return aorta_watch_end(stream->device, stream->device->backend->timestamp(stream, slot));
}

/* ---- events ---- */

/* Events order streams of one device; across devices nothing would be ordered. */
static aorta_status check_same_device(const struct aorta_event *event, const struct aorta_stream *stream) {
    if (event->device == stream->device) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "stream %s and the event belong to different device objects", stream->name);
}

aorta_status aorta_event_create(struct aorta_device *device, struct aorta_event **event) {
    return device->backend->event_create(device, event);
}

aorta_status aorta_event_create_untimed(struct aorta_device *device, struct aorta_event **event) {
    AORTA_TRY(device->backend->event_create(device, event));
    (*event)->untimed = true;
    return NULL;
}

void aorta_event_destroy(struct aorta_event *event) {
    if (event) event->device->backend->event_destroy(event);
}

aorta_status aorta_event_record(struct aorta_event *event, struct aorta_stream *stream) {
    AORTA_TRY(check_same_device(event, stream));
    aorta_watch_begin(event->device);
    return aorta_watch_end(event->device, event->device->backend->event_record(event, stream));
}

aorta_status aorta_stream_wait(struct aorta_stream *stream, struct aorta_event *event) {
    AORTA_TRY(check_same_device(event, stream));
    aorta_watch_begin(stream->device);
    return aorta_watch_end(stream->device, stream->device->backend->stream_wait(stream, event));
}

aorta_status aorta_event_synchronize(struct aorta_event *event) {
    aorta_watch_begin(event->device);
    return aorta_watch_end(event->device, event->device->backend->event_synchronize(event));
}

bool aorta_event_done(struct aorta_event *event) {
    return event->device->backend->event_done(event);
}

aorta_status aorta_event_time(struct aorta_event *event, int64_t *time_ns) {
    if (event->untimed) return AORTA_ERROR(AORTA_DEVICE, "the event has no time: it was made to order streams only");
    return event->device->backend->event_time(event, time_ns);
}

/* ---- graphs ---- */

aorta_status aorta_capture_begin(struct aorta_stream *stream) {
    return stream->device->backend->capture_begin(stream);
}

aorta_status aorta_capture_end(struct aorta_stream *stream, struct aorta_graph **graph) {
    return stream->device->backend->capture_end(stream, graph);
}

bool aorta_stream_capturing(const struct aorta_stream *stream) {
    return stream->device->backend->stream_capturing(stream);
}

aorta_status aorta_graph_launch(struct aorta_graph *graph, struct aorta_stream *stream) {
    if (graph->device != stream->device) {
        return AORTA_ERROR(AORTA_DEVICE, "stream %s and the graph belong to different device objects", stream->name);
    }
    aorta_watch_begin(stream->device);
    return aorta_watch_end(stream->device, stream->device->backend->graph_launch(graph, stream));
}

size_t aorta_graph_node_count(const struct aorta_graph *graph) {
    return graph->node_count;
}

void aorta_graph_destroy(struct aorta_graph *graph) {
    if (graph) graph->device->backend->graph_destroy(graph);
}
