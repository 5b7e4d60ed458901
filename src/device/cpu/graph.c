/* Capture and replay: commands are stored per stream, in branches, and become a graph. */
#include "base/array.h"
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

static struct capture *cpu_capture(struct capture_state *capture) {
    return (struct capture *)capture;
}

static struct branch *branch_at(const struct capture_state *capture, size_t index) {
    return (struct branch *)capture->branches[index];
}

/* ---- replay ---- */

struct cpu_graph {
    struct aorta_graph base;
    pthread_mutex_t lock; /* of `last` */
    struct mark *last;    /* end of the run launched last */
};

static void run_program(struct branch *branch, struct runner *runner) {
    for (size_t at = 0; at < branch->program.length;) {
        const struct command *command = (const struct command *)(branch->program.commands + at);
        aorta_cpu_run_command(runner, command);
        at += command->bytes;
    }
}

/* Every branch is joined to the first one, so its failure has reached the first branch through the marks by the end. */
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

static void stop_branches(const struct capture_state *capture) {
    for (size_t i = 1; i < capture->branch_count; i++) {
        struct branch *branch = branch_at(capture, i);
        if (!branch->started) continue;
        branch->stop = true;
        aorta_cpu_gate_open(&branch->start);
        pthread_join(branch->thread, NULL);
    }
}

static aorta_status start_branches(const struct capture_state *capture) {
    for (size_t i = 1; i < capture->branch_count; i++) {
        struct branch *branch = branch_at(capture, i);
        const struct aorta_stream *stream = branch->base.stream;
        branch->runner.name = branch->base.name;
        branch->priority = stream->priority;
        AORTA_TRY(aorta_annotate(aorta_cpu_thread_start(&branch->thread, work, branch, branch->base.name), "graph"));
        branch->started = true;
        if (stream->share > 0) AORTA_TRY(aorta_cpu_thread_bind(branch->thread, stream->share, stream->part));
    }
    return NULL;
}

aorta_status aorta_cpu_capture_end(struct aorta_stream *stream, aorta_status failure, struct aorta_graph **graph) {
    struct capture_state *capture = stream->branch->capture;
    if (failure) return failure;
    struct cpu_graph *made = calloc(1, sizeof *made);
    aorta_status status = made ? start_branches(capture) : AORTA_ERROR(AORTA_MEMORY, "no host memory for a graph");
    if (status) {
        stop_branches(capture);
        free(made);
        return status;
    }
    made->base = (struct aorta_graph){.device = stream->device, .node_count = cpu_capture(capture)->node_count};
    pthread_mutex_init(&made->lock, NULL);
    *graph = &made->base;
    return NULL;
}

/* No branch runs when a run begins, so marks and gates can be reset without a lock. */
void aorta_cpu_graph_run(struct cpu_graph *graph, struct runner *runner) {
    struct capture *capture = cpu_capture(graph->base.capture);
    for (size_t i = 0; i < capture->mark_count; i++) {
        struct mark *mark = capture->marks[i];
        aorta_cpu_gate_shut(&mark->reached);
        aorta_status_free(mark->failure);
        mark->failure = NULL;
    }
    for (size_t i = 1; i < capture->state.branch_count; i++) {
        aorta_cpu_gate_shut(&branch_at(&capture->state, i)->finished);
        aorta_cpu_gate_open(&branch_at(&capture->state, i)->start);
    }
    run_program(branch_at(&capture->state, 0), runner);
    for (size_t i = 1; i < capture->state.branch_count; i++)
        aorta_cpu_gate_wait(&branch_at(&capture->state, i)->finished);
}

aorta_status aorta_cpu_graph_launch(struct aorta_graph *base, struct aorta_stream *stream_base) {
    struct cpu_graph *graph = (struct cpu_graph *)base;
    struct cpu_stream *stream = cpu_stream(stream_base);
    struct mark *end = aorta_cpu_mark_make();
    if (!end) return AORTA_ERROR(AORTA_MEMORY, "no host memory to launch a graph on stream %s", stream_base->name);
    pthread_mutex_lock(&graph->lock);
    struct mark *before = graph->last ? aorta_cpu_mark_retain(graph->last) : NULL;
    struct command command = {.kind = COMMAND_REPLAY, .as.replay = {graph, before, aorta_cpu_mark_retain(end)}};
    aorta_status status = aorta_cpu_queue_push(&stream->queue, &command, NULL, 0);
    if (status) {
        aorta_cpu_mark_release(before);
        free(end); /* no other thread knows it */
    } else {
        aorta_cpu_mark_release(graph->last);
        graph->last = end;
    }
    pthread_mutex_unlock(&graph->lock);
    return status;
}

void aorta_cpu_graph_destroy(struct aorta_graph *base) {
    struct cpu_graph *graph = (struct cpu_graph *)base;
    if (graph->last) aorta_cpu_gate_wait(&graph->last->reached);
    stop_branches(base->capture);
    aorta_cpu_mark_release(graph->last);
    pthread_mutex_destroy(&graph->lock);
    free(graph);
}

/* ---- capture ---- */

void aorta_cpu_capture_free(struct capture_state *base) {
    struct capture *capture = cpu_capture(base);
    for (size_t i = 0; i < base->branch_count; i++) free(branch_at(base, i)->program.commands);
    for (size_t i = 0; i < capture->mark_count; i++) aorta_cpu_mark_release(capture->marks[i]);
    free(capture->marks);
}

static bool is_node(enum command_kind kind) {
    return kind != COMMAND_RECORD && kind != COMMAND_WAIT;
}

aorta_status aorta_cpu_capture_append(struct aorta_stream *stream, const struct command *command, const void *args,
                                      size_t bytes) {
    struct capture_branch *branch = stream->branch;
    if (!aorta_cpu_program_append(&((struct branch *)branch)->program, command, args, bytes))
        return aorta_capture_break(branch->capture, aorta_capture_no_memory());
    if (is_node(command->kind)) {
        branch->reach.counts[branch->index]++;
        cpu_capture(branch->capture)->node_count++;
    }
    return NULL;
}

aorta_status aorta_cpu_capture_record(struct aorta_stream *stream, struct cpu_event *event) {
    struct capture *capture = cpu_capture(stream->branch->capture);
    if (!aorta_array_fit(&capture->marks, &capture->mark_capacity, capture->mark_count + 1, sizeof *capture->marks))
        return aorta_capture_no_memory();
    struct mark *mark = aorta_cpu_mark_make();
    if (!mark) return aorta_capture_no_memory();
    capture->marks[capture->mark_count++] = mark;
    const struct command command = {.kind = COMMAND_RECORD, .as.mark = mark};
    AORTA_TRY(aorta_cpu_capture_append(stream, &command, NULL, 0));
    aorta_cpu_mark_release(event->latest);
    event->latest = aorta_cpu_mark_retain(mark);
    return NULL;
}
