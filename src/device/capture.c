/* Captures: the streams in them, the order of their work, and mistakes, which are reported with the streams' names
 * before the device sees them. Each device records and replays work in its own way (backend.h).
 *
 * A stream joins a capture when it waits for an event recorded inside. Vector clocks show whether all branches were
 * joined in the end. Each branch stores how many nodes of every branch come before its next node. A record copies these
 * counts to the event, and a wait takes the maximum. */
#include "base/array.h"
#include "device/backend.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

aorta_status aorta_capture_break(struct capture_state *capture, aorta_status error) {
    if (!capture->broken) capture->broken = aorta_status_copy(error);
    return error;
}

aorta_status aorta_capture_no_memory(void) {
    return AORTA_ERROR(AORTA_MEMORY, "no host memory for the graph being captured");
}

void aorta_capture_release(struct capture_state *capture) {
    if (!capture || atomic_fetch_sub(&capture->references, 1) > 1) return;
    capture->device->backend->capture_free(capture);
    for (size_t i = 0; i < capture->branch_count; i++) {
        free(capture->branches[i]->reach.counts);
        free(capture->branches[i]);
    }
    free(capture->branches);
    aorta_status_free(capture->broken);
    free(capture);
}

/* ---- the order of work ---- */

/* False: no memory. */
static bool extend_reach(struct reach *reach, size_t count) {
    return aorta_array_extend(&reach->counts, &reach->count, count, sizeof *reach->counts);
}

static bool merge_reach(struct reach *into, const struct reach *from) {
    if (!extend_reach(into, from->count)) return false;
    for (size_t i = 0; i < from->count; i++)
        if (from->counts[i] > into->counts[i]) into->counts[i] = from->counts[i];
    return true;
}

static uint32_t reach_of(const struct reach *reach, size_t branch) {
    return branch < reach->count ? reach->counts[branch] : 0;
}

/* The error names the branch whose last node does not come before the end of the first branch. */
static aorta_status check_joined(const struct capture_state *capture) {
    const struct capture_branch *origin = capture->branches[0];
    for (size_t i = 1; i < capture->branch_count; i++) {
        const struct capture_branch *branch = capture->branches[i];
        if (reach_of(&origin->reach, i) >= reach_of(&branch->reach, i)) continue;
        return AORTA_ERROR(AORTA_DEVICE,
                           "the capture on stream %s ended while stream %s was not joined: record an event on %s and "
                           "let %s wait for it first",
                           origin->name, branch->name, branch->name, origin->name);
    }
    return NULL;
}

/* ---- begin and end ---- */

/* Adds the stream to the capture. Returns false if memory is exhausted. */
static bool enter(struct capture_state *capture, struct aorta_stream *stream) {
    const size_t index = capture->branch_count;
    if (!aorta_array_fit(&capture->branches, &capture->branch_capacity, index + 1, sizeof *capture->branches))
        return false;
    struct capture_branch *branch = calloc(1, capture->device->backend->branch_bytes);
    if (!branch) return false;
    *branch = (struct capture_branch){.index = index, .capture = capture};
    snprintf(branch->name, sizeof branch->name, "%s", stream->name);
    capture->branches[capture->branch_count++] = branch;
    if (!extend_reach(&branch->reach, index + 1)) return false;
    branch->reach.counts[index] = 1; /* the fork itself, so that a branch without nodes must be joined too */
    branch->stream = stream;
    stream->branch = branch;
    return true;
}

/* Ends the capture of all streams. Events and the graph may still refer to it. */
static aorta_status finish(struct aorta_stream *stream, aorta_status status, struct aorta_graph **graph) {
    struct capture_state *capture = stream->branch->capture;
    status = capture->device->backend->capture_end(stream, status, graph);
    for (size_t i = 0; i < capture->branch_count; i++) {
        if (capture->branches[i]->stream) capture->branches[i]->stream->branch = NULL;
        capture->branches[i]->stream = NULL;
    }
    capture->active = false;
    if (status)
        aorta_capture_release(capture);
    else
        (*graph)->capture = capture;
    return status;
}

aorta_status aorta_capture_begin(struct aorta_stream *stream) {
    const struct aorta_backend *backend = stream->device->backend;
    if (stream->branch)
        return aorta_capture_break(stream->branch->capture,
                                   AORTA_ERROR(AORTA_DEVICE, "stream %s is being captured already", stream->name));
    struct capture_state *capture = calloc(1, backend->capture_bytes);
    if (!capture) return aorta_capture_no_memory();
    capture->references = 1;
    capture->device = stream->device;
    capture->active = true;
    aorta_status status = enter(capture, stream) ? NULL : aorta_capture_no_memory();
    if (!status && backend->capture_begin) status = backend->capture_begin(stream);
    if (!status) return NULL;
    stream->branch = NULL;
    aorta_capture_release(capture);
    return status;
}

aorta_status aorta_capture_end(struct aorta_stream *stream, struct aorta_graph **graph) {
    if (!stream->branch) return AORTA_ERROR(AORTA_DEVICE, "stream %s is not being captured", stream->name);
    struct capture_state *capture = stream->branch->capture;
    if (stream->branch->index != 0)
        return aorta_capture_break(capture,
                                   AORTA_ERROR(AORTA_DEVICE, "stream %s cannot end the capture: it began on stream %s",
                                               stream->name, capture->branches[0]->name));
    aorta_status broken = aorta_status_copy(capture->broken);
    if (broken)
        return finish(stream, aorta_annotate(broken, "the capture on stream %s was broken", stream->name), graph);
    return finish(stream, check_joined(capture), graph);
}

bool aorta_stream_capturing(const struct aorta_stream *stream) {
    return stream->branch != NULL;
}

void aorta_capture_leave(struct aorta_stream *stream) {
    struct capture_branch *branch = stream->branch;
    struct aorta_graph *none;
    aorta_status error = AORTA_ERROR(AORTA_DEVICE, "stream %s was destroyed while it was captured", stream->name);
    if (branch->index == 0) {
        aorta_status_free(finish(stream, error, &none));
        return;
    }
    if (stream->device->backend->branch_leave) stream->device->backend->branch_leave(branch);
    aorta_status_free(aorta_capture_break(branch->capture, error));
    branch->stream = NULL;
    stream->branch = NULL;
}

/* ---- events ---- */

void aorta_capture_forget(struct aorta_event *event) {
    aorta_capture_release(event->capture);
    event->capture = NULL;
    free(event->reach.counts);
    event->reach = (struct reach){0};
}

aorta_status aorta_capture_record(struct aorta_stream *stream, struct aorta_event *event) {
    struct capture_branch *branch = stream->branch;
    struct reach reach = {0};
    aorta_status status = event->device->backend->event_record(event, stream);
    if (!status && !merge_reach(&reach, &branch->reach)) status = aorta_capture_no_memory();
    if (status) {
        free(reach.counts);
        return aorta_capture_break(branch->capture, status);
    }
    atomic_fetch_add(&branch->capture->references, 1);
    aorta_capture_forget(event);
    event->capture = branch->capture;
    event->reach = reach;
    return NULL;
}

static aorta_status check_wait(const struct aorta_stream *stream, const struct aorta_event *event) {
    if (!event->capture) {
        return AORTA_ERROR(AORTA_DEVICE,
                           "stream %s is being captured and cannot wait for an event that was recorded on stream %s "
                           "outside the capture",
                           stream->name, event->recorded_on);
    }
    if (!event->capture->active) {
        return AORTA_ERROR(AORTA_DEVICE,
                           "stream %s cannot wait for an event that was recorded on stream %s in a capture that has "
                           "ended: it orders that graph only",
                           stream->name, event->recorded_on);
    }
    if (stream->branch && stream->branch->capture != event->capture) {
        return AORTA_ERROR(AORTA_DEVICE,
                           "stream %s cannot wait for an event recorded on stream %s: they belong to two captures",
                           stream->name, event->recorded_on);
    }
    return NULL;
}

aorta_status aorta_capture_wait(struct aorta_stream *stream, struct aorta_event *event) {
    aorta_status status = check_wait(stream, event);
    if (status) return stream->branch ? aorta_capture_break(stream->branch->capture, status) : status;
    const bool inside = stream->branch || enter(event->capture, stream);
    if (!inside || !merge_reach(&stream->branch->reach, &event->reach))
        return aorta_capture_break(event->capture, aorta_capture_no_memory());
    status = stream->device->backend->stream_wait(stream, event);
    return status ? aorta_capture_break(event->capture, status) : NULL;
}

aorta_status aorta_capture_only_orders(const struct aorta_event *event) {
    return AORTA_ERROR(AORTA_DEVICE,
                       "the event was last recorded in a capture, on stream %s: it orders the graph and has no end of "
                       "its own; record it outside",
                       event->recorded_on);
}
