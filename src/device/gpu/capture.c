/* Capture and replay, by the vendor's stream capture.
 *
 * In addition to the vendor's own record each captured stream has a branch here, with a vector clock (backend.h), so
 * that mistakes are found before the vendor's library sees them and are reported by name. The mode is "relaxed":
 * allocating or loading a kernel meanwhile does no harm, as all streams are of the non-blocking kind. */
#include "base/array.h"
#include "device/gpu/stream.h"

#include <stdlib.h>
#include <string.h>

struct gpu_graph {
    struct aorta_graph base;
    void *executable;
    struct gpu_run *run; /* NULL: no host call inside */
    void *last;          /* with host calls: recorded after each run */
    char name[64];       /* of the stream that it was captured on */
    struct gpu_notes notes;
};

/* ---- branches ---- */

static struct gpu_branch *make_branch(struct gpu_capture *capture, struct gpu_stream *stream) {
    size_t index = capture->branch_count;
    if (!aorta_array_fit(&capture->branches, &capture->branch_capacity, index + 1, sizeof *capture->branches))
        return NULL;
    struct gpu_branch *branch = calloc(1, sizeof *branch);
    if (!branch) return NULL;
    if (!aorta_capture_branch_open(&branch->base, index, stream->base.name)) {
        free(branch);
        return NULL;
    }
    branch->capture = capture;
    branch->stream = stream;
    capture->branches[index] = branch;
    capture->branch_count++;
    stream->branch = branch;
    return branch;
}

/* Lets all streams go and ends the capture; events may still refer to it. The vendor's capture has ended. */
static void close_capture(struct gpu_capture *capture) {
    const struct gpu_api *api = &gpu_device(capture->state.device)->driver.api;
    for (size_t i = 0; i < capture->branch_count; i++) {
        struct gpu_branch *branch = capture->branches[i];
        if (branch->stream) {
            branch->stream->branch = NULL;
            branch->stream->stamp_count = 0;
        }
        if (branch->doomed) api->stream_destroy(branch->doomed);
        free(branch->base.reach.counts);
        free(branch);
    }
    free(capture->branches);
    capture->branches = NULL;
    capture->branch_count = 0;
    capture->state.active = false;
}

void aorta_gpu_capture_release(struct gpu_capture *capture) {
    if (!capture || atomic_fetch_sub(&capture->state.references, 1) > 1) return;
    aorta_status_free(capture->state.broken);
    aorta_gpu_run_free(capture->run);
    aorta_gpu_notes_free(&capture->notes);
    free(capture);
}

/* Ends the vendor's capture and drops its graph. */
static void abandon(struct gpu_capture *capture, void *handle) {
    const struct gpu_api *api = &gpu_device(capture->state.device)->driver.api;
    void *graph = NULL;
    if (handle && !api->capture_end(handle, &graph) && graph) api->graph_destroy(graph);
    close_capture(capture);
    aorta_gpu_capture_release(capture);
}

/* The vendor's stream has to stay until the capture ends. */
void aorta_gpu_capture_leave(struct gpu_stream *stream) {
    struct gpu_branch *branch = stream->branch;
    struct gpu_capture *capture = branch->capture;
    if (branch->base.index == 0) {
        abandon(capture, stream->handle);
        return;
    }
    stream->branch = NULL;
    stream->stamp_count = 0;
    branch->stream = NULL;
    branch->doomed = stream->handle;
    stream->handle = NULL;
    aorta_status_free(aorta_capture_break(&capture->state, aorta_capture_stream_destroyed(stream->base.name)));
}

/* ---- events inside ---- */

/* The vendor's event has been recorded. */
aorta_status aorta_gpu_capture_record(struct gpu_branch *branch, struct gpu_event *event) {
    struct gpu_capture *capture = branch->capture, *before = event->capture;
    struct reach reach = {0};
    if (!aorta_reach_merge(&reach, &branch->base.reach)) {
        free(reach.counts);
        return aorta_capture_no_memory();
    }
    atomic_fetch_add(&capture->state.references, 1);
    event->capture = capture;
    aorta_gpu_capture_release(before);
    free(event->reach.counts);
    event->reach = reach;
    return NULL;
}

static aorta_status join_capture(struct gpu_stream *stream, struct gpu_event *event) {
    AORTA_TRY(aorta_gpu_make_current(stream->base.device));
    AORTA_TRY(aorta_gpu_stream_fail(stream, aorta_gpu_stream_write_stamps(stream))); /* asked for before the wait */
    struct gpu_branch *branch = stream->branch ? stream->branch : make_branch(event->capture, stream);
    if (!branch || !aorta_reach_merge(&branch->base.reach, &event->reach)) return aorta_capture_no_memory();
    int result = api_of(stream)->stream_wait(stream->handle, event->mark->handle, 0);
    return result ? aorta_gpu_error(device_of(stream), result, "stream %s: wait", stream->base.name) : NULL;
}

aorta_status aorta_gpu_capture_wait(struct gpu_stream *stream, struct gpu_event *event) {
    aorta_status status =
        aorta_capture_check_wait(stream->base.name, stream->branch ? &stream->branch->capture->state : NULL,
                                 event->capture ? &event->capture->state : NULL, event->recorded_on);
    if (status || !event->capture) /* none: there is a status */
        return stream->branch ? aorta_capture_break(&stream->branch->capture->state, status) : status;
    status = join_capture(stream, event);
    return status ? aorta_capture_break(&event->capture->state, status) : NULL;
}

/* ---- begin and end ---- */

aorta_status aorta_gpu_capture_begin(struct aorta_stream *base) {
    struct gpu_stream *stream = gpu_stream(base);
    if (stream->branch)
        return aorta_capture_break(&stream->branch->capture->state, aorta_capture_begun_already(base->name));
    AORTA_TRY(aorta_gpu_make_current(base->device));
    AORTA_TRY(aorta_gpu_stream_fail(stream, aorta_gpu_stream_write_stamps(stream)));
    struct gpu_capture *capture = calloc(1, sizeof *capture);
    if (!capture) return aorta_capture_no_memory();
    capture->state.references = 1;
    capture->state.device = base->device;
    capture->state.active = true;
    int result = api_of(stream)->capture_begin(stream->handle, GPU_CAPTURE_RELAXED);
    if (result) {
        aorta_gpu_capture_release(capture);
        return aorta_gpu_error(device_of(stream), result, "stream %s cannot be captured", base->name);
    }
    if (make_branch(capture, stream)) return NULL;
    abandon(capture, stream->handle);
    return aorta_capture_no_memory();
}

bool aorta_gpu_stream_capturing(const struct aorta_stream *stream) {
    return ((const struct gpu_stream *)stream)->branch != NULL;
}

/* All of them are joined, or the first that is not is named. */
static aorta_status check_joined(const struct gpu_capture *capture) {
    for (size_t i = 1; i < capture->branch_count; i++)
        AORTA_TRY(aorta_capture_check_joined(&capture->branches[0]->base, &capture->branches[i]->base));
    return NULL;
}

static unsigned long long graph_flags(const struct gpu_driver *driver) {
    return driver->version >= driver->vendor->priority_driver ? driver->vendor->priority_flag : 0;
}

/* Takes `graph` over. */
static aorta_status make_graph(struct gpu_capture *capture, void *graph, struct aorta_graph **result) {
    struct gpu_device *device = gpu_device(capture->state.device);
    const struct gpu_api *api = &device->driver.api;
    struct gpu_graph *made = calloc(1, sizeof *made);
    int error = made ? api->graph_nodes(graph, NULL, &made->base.node_count) : 0;
    if (made && !error) error = api->graph_instantiate(&made->executable, graph, graph_flags(&device->driver));
    if (made && !error && capture->run) error = api->event_create(&made->last, GPU_EVENT_NO_TIMING);
    api->graph_destroy(graph);
    if (!made) return aorta_capture_no_memory();
    made->base.device = capture->state.device;
    memcpy(made->name, capture->branches[0]->base.name, sizeof made->name);
    if (error) {
        aorta_gpu_graph_destroy(&made->base);
        return aorta_gpu_error(device, error, "the captured graph cannot be made");
    }
    made->run = capture->run;
    capture->run = NULL;
    made->notes = capture->notes;
    capture->notes = (struct gpu_notes){0};
    *result = &made->base;
    return NULL;
}

/* *handle: the vendor's graph. */
static aorta_status end_capture(struct gpu_capture *capture, struct gpu_stream *stream, void **handle) {
    *handle = NULL;
    aorta_status status = aorta_gpu_make_current(capture->state.device);
    if (!status) status = aorta_gpu_stream_write_stamps(stream);
    if (!status) {
        status = capture->state.broken;
        capture->state.broken = NULL;
        status = aorta_annotate(status, "the capture on stream %s was broken", stream->base.name);
    }
    if (!status) status = check_joined(capture);
    int result = api_of(stream)->capture_end(stream->handle, handle);
    if (!status && result)
        status = aorta_gpu_error(device_of(stream), result, "the capture on stream %s was broken", stream->base.name);
    if (status && !result && *handle) api_of(stream)->graph_destroy(*handle);
    return status;
}

aorta_status aorta_gpu_capture_end(struct aorta_stream *base, struct aorta_graph **graph) {
    struct gpu_stream *stream = gpu_stream(base);
    struct gpu_branch *branch = stream->branch;
    if (!branch) return aorta_capture_not_begun(base->name);
    struct gpu_capture *capture = branch->capture;
    if (branch->base.index != 0) {
        return aorta_capture_break(&capture->state,
                                   aorta_capture_begun_elsewhere(base->name, &capture->branches[0]->base));
    }
    void *handle;
    aorta_status status = end_capture(capture, stream, &handle);
    if (!status) status = make_graph(capture, handle, graph);
    close_capture(capture);
    aorta_gpu_capture_release(capture);
    return status;
}

/* ---- replay ---- */

/* The host calls of a run have to know whose it is, so a call ahead of the run says so; it must not overtake the run
 * before, on another stream. */
static aorta_status launch_with_calls(struct gpu_graph *graph, struct gpu_stream *stream) {
    const struct gpu_api *api = api_of(stream);
    int result = api->stream_wait(stream->handle, graph->last, 0);
    if (result) return aorta_gpu_error(device_of(stream), result, "order of the graph's runs");
    AORTA_TRY(aorta_gpu_run_begin(stream, graph->run));
    result = api->graph_launch(graph->executable, stream->handle);
    if (!result) result = api->event_record(graph->last, stream->handle);
    if (!result) return NULL;
    api->stream_synchronize(stream->handle); /* nothing marks the end of this run for the next one */
    return aorta_gpu_error(device_of(stream), result, "graph");
}

static aorta_status launch(struct gpu_graph *graph, struct gpu_stream *stream) {
    bool skip;
    AORTA_TRY(aorta_gpu_stream_enter(stream, &skip));
    if (skip) return NULL;
    AORTA_TRY(aorta_gpu_notes_carry(stream, &graph->notes, NULL));
    if (graph->run) return launch_with_calls(graph, stream);
    int result = api_of(stream)->graph_launch(graph->executable, stream->handle);
    return result ? aorta_gpu_error(device_of(stream), result, "graph") : NULL;
}

aorta_status aorta_gpu_graph_launch(struct aorta_graph *base, struct aorta_stream *stream_base) {
    struct gpu_stream *stream = gpu_stream(stream_base);
    if (stream->branch) {
        return aorta_capture_break(
            &stream->branch->capture->state,
            AORTA_ERROR(AORTA_DEVICE,
                        "stream %s is being captured: a graph, captured on stream %s, cannot be part of it",
                        stream_base->name, ((struct gpu_graph *)base)->name));
    }
    stream->last = "of a graph";
    return aorta_gpu_stream_keep(
        stream, aorta_annotate(launch((struct gpu_graph *)base, stream), "stream %s", stream_base->name));
}

void aorta_gpu_graph_destroy(struct aorta_graph *base) {
    struct gpu_graph *graph = (struct gpu_graph *)base;
    const struct gpu_api *api = &gpu_device(base->device)->driver.api;
    aorta_status_free(aorta_gpu_make_current(base->device)); /* a lost device: its memory is gone anyway */
    if (graph->executable) api->graph_executable_destroy(graph->executable);
    if (graph->last) api->event_destroy(graph->last);
    aorta_gpu_run_free(graph->run);
    aorta_gpu_notes_free(&graph->notes);
    free(graph);
}
