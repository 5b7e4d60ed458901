/* Timestamps beside a captured stream: what the stream queues next does not wait for them. They are a branch of the
 * graph for each captured stream, in its order, and the kernel that ends the graph comes behind all of them: a node
 * that nothing comes behind costs a graph half a microsecond. They are noted with the place that they belong to, and
 * become part of the graph when all else is in it: its launch goes through the nodes in the order in which they were
 * made, and a timestamp's must not be the first behind a kernel that others wait for. Where a place cannot be come back
 * to, they are made at once. */
#include "device/gpu/driver.h"

#include <stdlib.h>

enum { PORT_LAUNCH_ORDER = 2, EDGE_PROGRAMMATIC = 1, DEPENDENCIES_ADD = 0, DEPENDENCIES_SET = 1, FIRST_NOTES = 64 };

struct edge { /* CUgraphEdgeData */
    uint8_t from_port, to_port, type, reserved[5];
};
_Static_assert(sizeof(struct edge) == 8, "as cuda.h has it");

struct gpu_aside_note {
    const struct aorta_gpu_entry *entry;
    const struct gpu_aside *aside;
    struct aorta_frontier place;
    struct gpu_times readings;
};

/* ---- branches ---- */

static aorta_status make_branch(struct gpu_device *device, struct gpu_aside *aside) {
    const struct gpu_api *api = &device->driver.api;
    int result = api->event_create(&aside->event, GPU_EVENT_NO_TIMING);
    if (!result) result = api->stream_create(&aside->stream, GPU_STREAM_NON_BLOCKING, device->priority_high);
    return result ? aorta_gpu_error(device, result, "a stream for timestamps cannot be made") : NULL;
}

/* What `behind` queues next comes behind what `stream` has queued. */
static aorta_status put_behind(struct gpu_device *device, void *behind, void *event, void *stream) {
    const struct gpu_api *api = &device->driver.api;
    int result = api->event_record(event, stream);
    if (!result) result = api->stream_wait(behind, event, 0);
    return result ? aorta_gpu_error(device, result, "a branch for timestamps") : NULL;
}

/* The branch's own stream for timestamps, captured behind what the branch's stream has queued. */
static aorta_status branch_off(struct gpu_stream *stream, struct gpu_aside **forked) {
    struct gpu_aside *aside = *forked = &stream->branch->aside;
    if (!aside->stream) AORTA_TRY(make_branch(device_of(stream), aside));
    return put_behind(device_of(stream), aside->stream, aside->event, stream->handle);
}

void aorta_gpu_aside_close(const struct gpu_api *api, struct gpu_aside *aside) {
    if (aside->stream) api->stream_destroy(aside->stream);
    if (aside->event) api->event_destroy(aside->event);
    *aside = (struct gpu_aside){0};
}

/* ---- places ---- */

aorta_status aorta_gpu_aside_note(struct gpu_stream *stream, const struct aorta_gpu_entry *entry,
                                  const struct aorta_frontier *place, struct gpu_times readings) {
    struct gpu_capture *capture = stream->branch->capture;
    if (capture->note_count == capture->note_room) {
        const size_t room = capture->note_room ? 2 * capture->note_room : FIRST_NOTES;
        struct gpu_aside_note *grown = realloc(capture->asides, room * sizeof *grown);
        if (!grown) return aorta_capture_no_memory();
        capture->asides = grown;
        capture->note_room = room;
    }
    struct gpu_aside *aside = &stream->branch->aside;
    if (!aside->stream) AORTA_TRY(branch_off(stream, &aside));
    capture->asides[capture->note_count++] = (struct gpu_aside_note){entry, aside, *place, readings};
    return NULL;
}

/* False: it is not known, or there is nothing yet. */
static bool find_place(const struct gpu_stream *stream, struct aorta_frontier *place) {
    const struct gpu_api *api = api_of(stream);
    return api->cuda_capture_info && api->cuda_capture_update && !aorta_gpu_find_frontier(api, stream->handle, place) &&
           place->count && place->count <= AORTA_FRONTIER_MOST;
}

/* One reading for all slots. */
static aorta_status note_stamp(struct gpu_stream *stream, const struct gpu_stamp_args *args,
                               const struct aorta_frontier *place, unsigned long long *cell) {
    for (int i = 1; i < GPU_STAMPS && args->slots[i]; i++)
        if (!aorta_gpu_told_also(stream, cell, args->slots[i])) return aorta_capture_no_memory();
    return aorta_gpu_aside_note(stream, &aorta_gpu_stamp_reading, place, (struct gpu_times){.begun = cell});
}

aorta_status aorta_gpu_aside_stamp(struct gpu_stream *stream, struct gpu_stamp_args *args) {
    struct aorta_frontier place;
    unsigned long long *cell = NULL;
    if (find_place(stream, &place)) cell = aorta_gpu_told_cell(stream, args->slots[0]);
    if (cell) return note_stamp(stream, args, &place, cell);
    struct gpu_aside *aside;
    AORTA_TRY(branch_off(stream, &aside));
    return aorta_gpu_launch_own(device_of(stream), aside->stream, &aorta_gpu_stamp, args);
}

/* `stream` comes behind the commands, and with DEPENDENCIES_SET behind nothing else. */
static aorta_status depend(struct gpu_device *device, void *stream, struct aorta_frontier *on, bool begun,
                           unsigned how) {
    struct edge edges[AORTA_FRONTIER_MOST] = {{0}};
    for (size_t i = 0; i < on->count && begun; i++)
        edges[i] = (struct edge){.from_port = PORT_LAUNCH_ORDER, .type = EDGE_PROGRAMMATIC};
    int result = device->driver.api.cuda_capture_update(stream, on->commands, edges, on->count, how);
    return result ? aorta_gpu_error(device, result, "timestamps, behind a place of a capture") : NULL;
}

/* What its stream would come behind next, `origin` does. */
static aorta_status let_go(struct gpu_device *device, const struct gpu_aside *aside, struct gpu_stream *origin) {
    struct aorta_frontier last;
    int result = aorta_gpu_find_frontier(&device->driver.api, aside->stream, &last);
    if (result) return aorta_gpu_error(device, result, "timestamps of a capture");
    if (!last.count || last.count > AORTA_FRONTIER_MOST) return NULL; /* the graph's end waits for all anyway */
    return depend(device, origin->handle, &last, false, DEPENDENCIES_ADD);
}

/* A stamp comes behind the end of the kernels. A witness comes behind their beginning, and behind nothing else: with
 * other dependencies it no longer waits for their end (seen on an H200: it told one time for both). */
static aorta_status launch_note(struct gpu_device *device, struct gpu_aside_note *note, struct gpu_stream *origin) {
    const bool witness = note->entry == &aorta_gpu_witness;
    if (witness) AORTA_TRY(let_go(device, note->aside, origin));
    AORTA_TRY(
        depend(device, note->aside->stream, &note->place, witness, witness ? DEPENDENCIES_SET : DEPENDENCIES_ADD));
    return aorta_gpu_launch_own(device, note->aside->stream, note->entry, &note->readings);
}

aorta_status aorta_gpu_asides_add(struct gpu_capture *capture, struct gpu_stream *origin) {
    struct gpu_device *device = device_of(origin);
    for (size_t i = 0; i < capture->note_count; i++) AORTA_TRY(launch_note(device, &capture->asides[i], origin));
    for (size_t i = 0; i < capture->branch_count; i++) {
        const struct gpu_aside *aside = &capture->branches[i]->aside;
        if (aside->stream) AORTA_TRY(put_behind(device, origin->handle, aside->event, aside->stream));
    }
    return NULL;
}
