/* Graphs: the first branch runs on the launching stream's thread, each other one on a thread of the graph's own. */
#include "device/cpu/cpu.h"

#include <stdlib.h>

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

aorta_status aorta_cpu_graph_create(struct aorta_device *device, struct recording *recording,
                                    struct aorta_graph **graph) {
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
