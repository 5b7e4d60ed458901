/* Capture: commands are stored per stream, in branches, and become a graph.
 *
 * A stream comes into a capture when it waits for an event recorded inside. Whether all branches were joined in the
 * end is read off vector clocks (backend.h): each branch knows how many nodes of every branch come before its next one,
 * records hand that knowledge to the event, and waits take the maximum. */
#include "base/array.h"
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- replay ---- */

struct cpu_graph {
    struct aorta_graph base;
    struct recording recording;
    pthread_mutex_t lock; /* of `last` */
    struct mark *last;    /* end of the run launched last */
};

static void run_program(struct branch *branch, struct runner *runner) {
    for (size_t at = 0; at < branch->length;) {
        const struct command *command = (const struct command *)(branch->program + at);
        aorta_cpu_run_command(runner, command);
        at += command->bytes;
    }
}

/* A failure has reached the first branch through the marks by the time it ends, as every branch is joined to it. */
static void *work(void *user) {
    struct branch *branch = user;
    aorta_cpu_thread_configure(branch->base.name, branch->priority);
    for (;;) {
        aorta_cpu_gate_wait(&branch->start);
        if (branch->stop) return NULL;
        aorta_cpu_gate_shut(&branch->start);
        run_program(branch, &branch->runner);
        aorta_status_free(branch->runner.failure);
        branch->runner.failure = NULL;
        aorta_cpu_gate_open(&branch->finished);
    }
}

static void stop_branches(struct recording *recording) {
    for (size_t i = 1; i < recording->branch_count; i++) {
        struct branch *branch = recording->branches[i];
        if (!branch->started) continue;
        branch->stop = true;
        aorta_cpu_gate_open(&branch->start);
        pthread_join(branch->thread, NULL);
    }
}

static aorta_status start_branches(struct recording *recording) {
    for (size_t i = 1; i < recording->branch_count; i++) {
        struct branch *branch = recording->branches[i];
        branch->runner.name = branch->base.name;
        AORTA_TRY(aorta_annotate(aorta_cpu_thread_start(&branch->thread, work, branch, branch->base.name), "graph"));
        branch->started = true;
        if (branch->share > 0) AORTA_TRY(aorta_cpu_thread_bind(branch->thread, branch->share, branch->part));
    }
    return NULL;
}

/* Takes the recording over, in success and in failure. */
static aorta_status create_graph(struct aorta_device *device, struct recording *recording, struct aorta_graph **graph) {
    struct cpu_graph *made = calloc(1, sizeof *made);
    aorta_status status = made ? start_branches(recording) : AORTA_ERROR(AORTA_MEMORY, "no host memory for a graph");
    if (status) {
        stop_branches(recording);
        aorta_cpu_recording_free(device, recording);
        free(made);
        return status;
    }
    made->base = (struct aorta_graph){device, recording->node_count};
    made->recording = *recording;
    *recording = (struct recording){0};
    pthread_mutex_init(&made->lock, NULL);
    *graph = &made->base;
    return NULL;
}

/* All branches rest when a run begins, so marks and gates can be set back without further care. */
void aorta_cpu_graph_run(struct cpu_graph *graph, struct runner *runner) {
    struct recording *recording = &graph->recording;
    for (size_t i = 0; i < recording->mark_count; i++) {
        struct mark *mark = recording->marks[i];
        aorta_cpu_gate_shut(&mark->reached);
        aorta_status_free(mark->failure);
        mark->failure = NULL;
    }
    for (size_t i = 1; i < recording->branch_count; i++) {
        aorta_cpu_gate_shut(&recording->branches[i]->finished);
        aorta_cpu_gate_open(&recording->branches[i]->start);
    }
    run_program(recording->branches[0], runner);
    for (size_t i = 1; i < recording->branch_count; i++) aorta_cpu_gate_wait(&recording->branches[i]->finished);
}

/* A graph cannot hold another: replaying one runs on the thread of its stream, which a branch does not have. */
static aorta_status refuse_nesting(struct cpu_graph *graph, struct branch *branch) {
    return aorta_capture_break(
        &branch->capture->state,
        AORTA_ERROR(AORTA_DEVICE,
                    "the graph captured on stream %s (%zu nodes) cannot be launched on stream %s while "
                    "that is being captured",
                    graph->recording.branches[0]->base.name, graph->base.node_count, branch->base.name));
}

aorta_status aorta_cpu_graph_launch(struct aorta_graph *base, struct aorta_stream *stream_base) {
    struct cpu_graph *graph = (struct cpu_graph *)base;
    struct cpu_stream *stream = cpu_stream(stream_base);
    if (stream->branch) return refuse_nesting(graph, stream->branch);
    struct mark_pool *pool = marks_of(base->device);
    struct mark *end = aorta_cpu_mark_take(pool);
    if (!end) return AORTA_ERROR(AORTA_MEMORY, "no host memory to launch a graph on stream %s", stream_base->name);
    pthread_mutex_lock(&graph->lock);
    struct mark *before = graph->last ? aorta_cpu_mark_retain(graph->last) : NULL;
    struct command command = {.kind = COMMAND_REPLAY, .as.replay = {graph, before, aorta_cpu_mark_retain(end)}};
    aorta_status status = aorta_cpu_queue_push(&stream->queue, &command, NULL, 0);
    if (status) {
        aorta_cpu_mark_release(pool, before);
        aorta_cpu_mark_release(pool, end);
        aorta_cpu_mark_release(pool, end);
    } else {
        aorta_cpu_mark_release(pool, graph->last);
        graph->last = end;
    }
    pthread_mutex_unlock(&graph->lock);
    return status;
}

void aorta_cpu_graph_destroy(struct aorta_graph *base) {
    struct cpu_graph *graph = (struct cpu_graph *)base;
    if (graph->last) aorta_cpu_gate_wait(&graph->last->reached);
    stop_branches(&graph->recording);
    aorta_cpu_recording_free(base->device, &graph->recording);
    aorta_cpu_mark_release(marks_of(base->device), graph->last);
    pthread_mutex_destroy(&graph->lock);
    free(graph);
}

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
    if (stream->branch)
        return aorta_capture_break(&stream->branch->capture->state, aorta_capture_begun_already(base->name));
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
    if (status)
        status = aorta_annotate(status, "the capture on stream %s was broken", base->name);
    else
        status = check_joined(&capture->recording);
    if (status) {
        abandon(capture);
        return status;
    }
    close_capture(capture);
    status = create_graph(capture->state.device, &capture->recording, graph);
    aorta_cpu_capture_release(capture);
    return status;
}
