/* Capture and replay, by the vendor's stream capture, whose mode is "relaxed": allocating or loading a kernel meanwhile
 * does no harm, as all streams are of the non-blocking kind. */
#include "device/gpu/stream.h"

#include <stdlib.h>
#include <string.h>

struct gpu_graph {
    struct aorta_graph base;
    void *executable;
};

/* ---- begin and end ---- */

aorta_status aorta_gpu_capture_begin(struct aorta_stream *base) {
    struct gpu_stream *stream = gpu_stream(base);
    AORTA_TRY(aorta_gpu_make_current(base->device));
    AORTA_TRY(aorta_gpu_stream_write_stamps(stream));
    int result = api_of(stream)->capture_begin(stream->handle, GPU_CAPTURE_RELAXED);
    return result ? aorta_gpu_error(device_of(stream), result, "stream %s cannot be captured", base->name) : NULL;
}

/* The vendor's stream has to stay until the capture ends. */
void aorta_gpu_branch_leave(struct capture_branch *branch) {
    struct gpu_stream *stream = gpu_stream(branch->stream);
    stream->stamp_count = 0;
    ((struct gpu_branch *)branch)->doomed = stream->handle;
    stream->handle = NULL;
}

void aorta_gpu_capture_free(struct capture_state *capture) {
    free(gpu_capture(capture)->notes.items);
}

static unsigned long long graph_flags(const struct gpu_driver *driver) {
    return driver->version >= driver->vendor->priority_driver ? driver->vendor->priority_flag : 0;
}

/* Takes `graph` over. */
static aorta_status make_graph(struct capture_state *capture, void *graph, struct aorta_graph **result) {
    struct gpu_device *device = gpu_device(capture->device);
    const struct gpu_api *api = &device->driver.api;
    struct gpu_graph *made = calloc(1, sizeof *made);
    int error = made ? api->graph_nodes(graph, NULL, &made->base.node_count) : 0;
    if (made && !error) error = api->graph_instantiate(&made->executable, graph, graph_flags(&device->driver));
    api->graph_destroy(graph);
    if (!made) return aorta_capture_no_memory();
    made->base.device = capture->device;
    if (error) {
        aorta_gpu_graph_destroy(&made->base);
        return aorta_gpu_error(device, error, "the captured graph cannot be made");
    }
    *result = &made->base;
    return NULL;
}

/* *handle: the vendor's graph. */
static aorta_status end_capture(struct gpu_stream *stream, aorta_status status, void **handle) {
    *handle = NULL;
    status = aorta_status_join(status, aorta_gpu_make_current(stream->base.device));
    if (!status) status = aorta_gpu_stream_write_stamps(stream);
    int result = api_of(stream)->capture_end(stream->handle, handle);
    if (!status && result)
        status = aorta_gpu_error(device_of(stream), result, "the capture on stream %s was broken", stream->base.name);
    if (status && !result && *handle) api_of(stream)->graph_destroy(*handle);
    return status;
}

aorta_status aorta_gpu_capture_end(struct aorta_stream *stream, aorta_status failure, struct aorta_graph **graph) {
    struct capture_state *capture = stream->branch->capture;
    void *handle;
    aorta_status status = end_capture(gpu_stream(stream), failure, &handle);
    for (size_t i = 0; i < capture->branch_count; i++) {
        struct gpu_branch *branch = (struct gpu_branch *)capture->branches[i];
        if (branch->base.stream) gpu_stream(branch->base.stream)->stamp_count = 0;
        if (branch->doomed) api_of(gpu_stream(stream))->stream_destroy(branch->doomed);
    }
    return status ? status : make_graph(capture, handle, graph);
}

/* ---- replay ---- */

static aorta_status launch(struct gpu_graph *graph, struct gpu_stream *stream) {
    bool skip;
    AORTA_TRY(aorta_gpu_stream_enter(stream, &skip));
    if (skip) return NULL;
    AORTA_TRY(aorta_gpu_notes_carry(&stream->notes, &gpu_capture(graph->base.capture)->notes, stream));
    int result = api_of(stream)->graph_launch(graph->executable, stream->handle);
    return result ? aorta_gpu_error(device_of(stream), result, "graph") : NULL;
}

aorta_status aorta_gpu_graph_launch(struct aorta_graph *graph, struct aorta_stream *stream) {
    gpu_stream(stream)->last = "of a graph";
    return aorta_gpu_stream_keep(
        gpu_stream(stream),
        aorta_annotate(launch((struct gpu_graph *)graph, gpu_stream(stream)), "stream %s", stream->name));
}

void aorta_gpu_graph_destroy(struct aorta_graph *base) {
    struct gpu_graph *graph = (struct gpu_graph *)base;
    const struct gpu_api *api = &gpu_device(base->device)->driver.api;
    aorta_status_free(aorta_gpu_make_current(base->device)); /* a lost device: its memory is gone anyway */
    if (graph->executable) api->graph_executable_destroy(graph->executable);
    free(graph);
}
