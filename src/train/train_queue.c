/* One step onto the device: its input, and its operations one by one, dumped, captured or replayed. */
#include "base/clock.h"
#include "train/train_internal.h"

/* ---- input ---- */

/* In the middle of a step: the next input, if the loader has it. */
static aorta_status prefetch_input(void *user) {
    struct trainer *t = user;
    return t->stopping ? NULL : aorta_input_prefetch(t->input);
}

/* At the start of step `step`: its input, waited for and counted if it was not prefetched. */
static aorta_status ensure_input(struct trainer *t, int64_t step) {
    struct trainer_flight *flight = trainer_flight(t, step);
    flight->data_wait_ms = 0;
    if (aorta_input_queued(t->input) <= step) {
        int64_t start = aorta_clock_ns();
        AORTA_TRY(aorta_input_await(t->input));
        int64_t end = aorta_clock_ns();
        AORTA_TRY(aorta_recorder_host(t->context.recorder, AORTA_HOST_DATA_WAIT, start, end));
        flight->data_wait_ms = (double)(end - start) / 1e6;
        AORTA_TRY(aorta_input_queue(t->input)); /* and written out, where the step is dumped */
    }
    return aorta_input_wait(t->input, step, aorta_train_compute(&t->context));
}

/* ---- one step ---- */

static aorta_status queue_eagerly(struct trainer *t, struct trainer_flight *flight,
                                  const struct aorta_step_hook *hook) {
    AORTA_TRY(aorta_step_gradients(t->step, aorta_input_layout(t->input), flight->input, flight->stop, hook));
    return aorta_step_optimize(t->step, flight->result);
}

/* A step whose parameters and gradients are written out: the device is waited for in between. */
static aorta_status queue_with_dump(struct trainer *t, struct trainer_flight *flight, int64_t step) {
    AORTA_TRY(aorta_stream_synchronize(aorta_train_compute(&t->context)));
    AORTA_TRY(aorta_dump_parameters(&t->context, t->strategy, step));
    AORTA_TRY(aorta_step_gradients(t->step, aorta_input_layout(t->input), flight->input, flight->stop, NULL));
    AORTA_TRY(aorta_stream_synchronize(aorta_train_stream(&t->context, AORTA_FLOW_OPTIMIZER)));
    AORTA_TRY(aorta_dump_gradients(&t->context, t->strategy, step));
    AORTA_TRY(aorta_step_optimize(t->step, flight->result));
    if (step + 1 < t->total_steps) return NULL;
    AORTA_TRY(aorta_stream_synchronize(aorta_train_compute(&t->context)));
    return aorta_dump_parameters(&t->context, t->strategy, step + 1);
}

static aorta_status capture(struct trainer *t, struct trainer_flight *flight) {
    struct aorta_stream *compute = aorta_train_compute(&t->context);
    AORTA_TRY(aorta_capture_begin(compute));
    aorta_status queued = queue_eagerly(t, flight, NULL);
    /* Ended in any case, so that the streams run again. */
    aorta_status ended = aorta_capture_end(compute, trainer_graph(flight));
    if (queued && !ended) trainer_drop_graph(trainer_graph(flight));
    return aorta_status_join(queued, ended);
}

/* Work that cannot be captured runs eagerly, with the reason logged once; fullgraph makes it an error. */
static aorta_status try_capture(struct trainer *t, struct trainer_flight *flight) {
    aorta_status status = capture(t, flight);
    if (!status) {
        if (t->context.ranks.rank == 0)
            aorta_log(t->run->log, AORTA_LOG_INFO, "compile: captured the step, %zu nodes",
                      aorta_graph_node_count(*trainer_graph(flight)));
        return NULL;
    }
    if (trainer_options(t)->compile.fullgraph)
        return aorta_annotate(status, "compile.fullgraph: the step cannot be captured");
    aorta_log(t->run->log, AORTA_LOG_WARNING, "compile: the step is not captured and runs eagerly: %s",
              aorta_status_message(status));
    aorta_status_free(status);
    t->capture_failed = true;
    return NULL;
}

enum trainer_plan trainer_plan(struct trainer *t, int64_t step) {
    if (aorta_dump_wanted(trainer_options(t), step)) return PLAN_DUMP;
    bool graph = trainer_captures_steps(t) && !t->capture_failed;
    /* The first step runs eagerly, so that one-time work stays out of the graph. */
    if (!graph || step == 0) return PLAN_EAGER;
    return *trainer_graph(trainer_flight(t, step)) ? PLAN_REPLAY : PLAN_CAPTURE;
}

static aorta_status launch_graph(struct trainer *t, struct trainer_flight *flight) {
    if (flight->recorded) aorta_recorder_launched(t->context.recorder);
    AORTA_TRY(aorta_graph_launch(*trainer_graph(flight), aorta_train_compute(&t->context)));
    return prefetch_input(t);
}

static aorta_status queue_captured(struct trainer *t, struct trainer_flight *flight, int64_t step,
                                   const struct aorta_step_hook *hook) {
    struct aorta_recorder *recorder = t->context.recorder;
    /* Begun again: a range of the input, recorded a moment ago, is not part of the graph. Its timestamps are written
     * first: the graph's first range has their place. */
    if (flight->recorded) {
        AORTA_TRY(aorta_input_synchronize(t->input));
        aorta_recorder_step(recorder, (int)(step % TRAINER_SLOTS), step);
    }
    AORTA_TRY(try_capture(t, flight));
    if (*trainer_graph(flight)) {
        if (flight->recorded) aorta_recorder_captured(recorder);
        return launch_graph(t, flight);
    }
    if (flight->recorded)
        aorta_recorder_step(recorder, (int)(step % TRAINER_SLOTS), step); /* drops ranges of the capture */
    return queue_eagerly(t, flight, hook);
}

/* The step is done when its timestamps are written, also those of the copy of the next input, which was queued with it.
 */
static aorta_status end_step(struct trainer *t, struct trainer_flight *flight, int64_t step) {
    const struct aorta_train_context *c = &t->context;
    if (t->input && aorta_input_queued(t->input) > step + 1)
        AORTA_TRY(aorta_input_wait(t->input, step + 1, aorta_train_compute(c)));
    if (t->report) AORTA_TRY(aorta_train_follow(t->report, aorta_train_compute(c), t->reached));
    AORTA_TRY(aorta_event_record(flight->done, t->report ? t->report : aorta_train_compute(c)));
    aorta_recorder_queued(c->recorder);
    return NULL;
}

static aorta_status queue_planned(struct trainer *t, struct trainer_flight *flight, int64_t step,
                                  enum trainer_plan plan) {
    struct aorta_step_hook hook = {prefetch_input, t};
    AORTA_TRY(ensure_input(t, step));
    switch (plan) {
    case PLAN_DUMP:
        return queue_with_dump(t, flight, step);
    case PLAN_CAPTURE:
        return queue_captured(t, flight, step, &hook);
    case PLAN_REPLAY:
        return launch_graph(t, flight);
    default:
        return queue_eagerly(t, flight, &hook);
    }
}

aorta_status trainer_queue_step(struct trainer *t, int64_t step, enum trainer_plan plan) {
    struct trainer_flight *flight = trainer_flight(t, step);
    struct aorta_train_workload *workload = t->run->workload;
    *flight->stop = t->signal ? 1.0f : 0.0f;
    aorta_beacon_step(t->beacon, step);
    aorta_readings_step(&t->readings, step);
    AORTA_TRY(aorta_inject_before_step(&t->context));
    AORTA_TRY(workload ? workload->table->queue(workload, step, flight->stop, flight->result)
                       : queue_planned(t, flight, step, plan));
    AORTA_TRY(end_step(t, flight, step));
    return aorta_inject_after_step(&t->context);
}
