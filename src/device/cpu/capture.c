/* Capture: commands are stored per stream, in branches, and become a graph.
 *
 * A stream comes into a capture when it waits for an event recorded inside. Whether all branches were joined in the
 * end is read off vector clocks (reach.h): each branch knows how many nodes of every branch come before its next one,
 * records hand that knowledge to the event, and waits take the maximum. */
#include "base/array.h"
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- branches ---- */

static struct branch *make_branch(struct capture *capture, struct cpu_stream *stream) {
    struct recording *recording = &capture->recording;
    size_t index = recording->branch_count;
    if (!aorta_array_fit(&recording->branches, &recording->branch_capacity, index + 1, sizeof *recording->branches))
        return NULL;
    struct branch *branch = calloc(1, sizeof *branch);
    if (!branch) return NULL;
    if (!aorta_capture_branch_open(&branch->base, index, stream->base.name)) {
        free(branch);
        return NULL;
    }
    branch->capture = capture;
    branch->stream = stream;
    branch->priority = stream->base.priority;
    branch->share = stream->base.share;
    branch->part = stream->base.part;
    recording->branches[index] = branch;
    recording->branch_count++;
    stream->branch = branch;
    return branch;
}

void aorta_cpu_recording_free(struct aorta_device *device, struct recording *recording) {
    for (size_t i = 0; i < recording->branch_count; i++) {
        struct branch *branch = recording->branches[i];
        free(branch->base.reach.counts);
        free(branch->program);
        free(branch);
    }
    for (size_t i = 0; i < recording->mark_count; i++) aorta_cpu_mark_release(marks_of(device), recording->marks[i]);
    free(recording->branches);
    free(recording->marks);
    *recording = (struct recording){0};
}

static void *program_extend(struct branch *branch, size_t bytes) {
    if (!aorta_array_fit(&branch->program, &branch->capacity, branch->length + bytes, 1)) return NULL;
    branch->length += bytes;
    return branch->program + branch->length - bytes;
}

static bool is_node(enum command_kind kind) {
    return kind != COMMAND_RECORD && kind != COMMAND_WAIT;
}

aorta_status aorta_cpu_capture_append(struct branch *branch, const struct command *command, const void *args,
                                      size_t bytes) {
    size_t needed = aorta_cpu_command_bytes(bytes);
    if (!needed) {
        return aorta_capture_break(&branch->capture->state,
                                   AORTA_ERROR(AORTA_INTERNAL, "%zu bytes of kernel arguments are too many", bytes));
    }
    void *place = program_extend(branch, needed);
    if (!place) return aorta_capture_break(&branch->capture->state, aorta_capture_no_memory());
    aorta_cpu_command_write(place, command, args, bytes);
    if (is_node(command->kind)) {
        branch->base.reach.counts[branch->base.index]++;
        branch->capture->recording.node_count++;
    }
    return NULL;
}

/* ---- capture ---- */

void aorta_cpu_capture_release(struct capture *capture) {
    if (!capture || atomic_fetch_sub(&capture->state.references, 1) > 1) return;
    aorta_status_free(capture->state.broken);
    free(capture);
}

/* Lets all streams go and ends the capture; events may still refer to it. */
static void close_capture(struct capture *capture) {
    for (size_t i = 0; i < capture->recording.branch_count; i++) {
        struct branch *branch = capture->recording.branches[i];
        if (branch->stream) branch->stream->branch = NULL;
        branch->stream = NULL;
        branch->capture = NULL;
    }
    capture->state.active = false;
}

static void abandon(struct capture *capture) {
    close_capture(capture);
    aorta_cpu_recording_free(capture->state.device, &capture->recording);
    aorta_cpu_capture_release(capture);
}

void aorta_cpu_capture_leave(struct cpu_stream *stream) {
    struct branch *branch = stream->branch;
    struct capture *capture = branch->capture;
    stream->branch = NULL;
    branch->stream = NULL;
    if (branch->base.index == 0) {
        abandon(capture);
        return;
    }
    aorta_status_free(aorta_capture_break(&capture->state, aorta_capture_stream_destroyed(stream->base.name)));
}

aorta_status aorta_cpu_capture_record(struct branch *branch, struct cpu_event *event) {
    struct capture *capture = branch->capture;
    struct recording *recording = &capture->recording;
    if (!aorta_array_fit(&recording->marks, &recording->mark_capacity, recording->mark_count + 1,
                         sizeof *recording->marks))
        return aorta_capture_break(&capture->state, aorta_capture_no_memory());
    struct reach reach = {0};
    struct mark *mark =
        aorta_reach_merge(&reach, &branch->base.reach) ? aorta_cpu_mark_take(marks_of(capture->state.device)) : NULL;
    if (!mark) {
        free(reach.counts);
        return aorta_capture_break(&capture->state, aorta_capture_no_memory());
    }
    recording->marks[recording->mark_count++] = mark;
    struct command command = {.kind = COMMAND_RECORD, .as.mark = mark};
    aorta_status status = aorta_cpu_capture_append(branch, &command, NULL, 0);
    if (status) {
        free(reach.counts);
        return status;
    }
    struct capture *before = event->capture;
    atomic_fetch_add(&capture->state.references, 1);
    event->capture = capture;
    aorta_cpu_capture_release(before);
    aorta_cpu_mark_release(marks_of(capture->state.device), event->latest);
    event->latest = aorta_cpu_mark_retain(mark);
    free(event->reach.counts);
    event->reach = reach;
    return NULL;
}

aorta_status aorta_cpu_capture_wait(struct cpu_stream *stream, struct cpu_event *event) {
    aorta_status status =
        aorta_capture_check_wait(stream->base.name, stream->branch ? &stream->branch->capture->state : NULL,
                                 event->capture ? &event->capture->state : NULL, event->recorded_on);
    if (status || !event->capture) /* none: there is a status */
        return stream->branch ? aorta_capture_break(&stream->branch->capture->state, status) : status;
    struct capture *capture = event->capture;
    struct branch *branch = stream->branch ? stream->branch : make_branch(capture, stream);
    if (!branch || !aorta_reach_merge(&branch->base.reach, &event->reach))
        return aorta_capture_break(&capture->state, aorta_capture_no_memory());
    struct command command = {.kind = COMMAND_WAIT, .as.mark = event->latest};
    return aorta_cpu_capture_append(branch, &command, NULL, 0);
}

aorta_status aorta_cpu_capture_begin(struct aorta_stream *base) {
    struct cpu_stream *stream = cpu_stream(base);
    if (stream->branch) {
        return aorta_capture_break(&stream->branch->capture->state, aorta_capture_begun_already(base->name));
    }
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture) return aorta_capture_no_memory();
    capture->state.references = 1;
    capture->state.device = base->device;
    capture->state.active = true;
    if (make_branch(capture, stream)) return NULL;
    abandon(capture);
    return aorta_capture_no_memory();
}

bool aorta_cpu_stream_capturing(const struct aorta_stream *stream) {
    return ((const struct cpu_stream *)stream)->branch != NULL;
}

/* All of them are joined, or the first that is not is named. */
static aorta_status check_joined(const struct recording *recording) {
    for (size_t i = 1; i < recording->branch_count; i++)
        AORTA_TRY(aorta_capture_check_joined(&recording->branches[0]->base, &recording->branches[i]->base));
    return NULL;
}

aorta_status aorta_cpu_capture_end(struct aorta_stream *base, struct aorta_graph **graph) {
    struct branch *branch = cpu_stream(base)->branch;
    if (!branch) return aorta_capture_not_begun(base->name);
    struct capture *capture = branch->capture;
    if (branch->base.index != 0) {
        return aorta_capture_break(&capture->state,
                                   aorta_capture_begun_elsewhere(base->name, &capture->recording.branches[0]->base));
    }
    aorta_status status = capture->state.broken;
    capture->state.broken = NULL;
    if (status) {
        status = aorta_annotate(status, "the capture on stream %s was broken", base->name);
    } else {
        status = check_joined(&capture->recording);
    }
    if (status) {
        abandon(capture);
        return status;
    }
    close_capture(capture);
    status = aorta_cpu_graph_create(capture->state.device, &capture->recording, graph);
    aorta_cpu_capture_release(capture);
    return status;
}
