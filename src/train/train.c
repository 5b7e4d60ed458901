/* The loop. Two steps are in flight: while the device runs one, the host queues the next and reads the one before. */
#include "base/clock.h"
#include "base/directories.h"
#include "base/thread.h"
#include "device/gpu.h"
#include "train/train_internal.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How a step gets onto the device. */
enum trainer_plan { PLAN_EAGER, PLAN_DUMP, PLAN_CAPTURE, PLAN_REPLAY };

static struct aorta_graph **graph_of(struct trainer_flight *flight) {
    return &flight->graphs[flight->recorded];
}

static void drop_graph(struct aorta_graph **graph) {
    aorta_graph_destroy(*graph);
    *graph = NULL;
}

static bool captures_steps(const struct trainer *t) {
    return aorta_compile_captures(&trainer_options(t)->compile);
}

/* ---- reading finished steps ---- */

/* Time between the ends of this step and the one before, on the device clock; the first counts from its launch. */
static double step_time(struct trainer *t, const struct trainer_flight *flight) {
    const int64_t before_ns = t->collected ? t->last_done_ns : flight->begun_ns;
    t->last_done_ns = *flight->done_ns;
    return (double)(t->last_done_ns - before_ns) / 1e6;
}

/* Waits for the oldest step in flight. */
static aorta_status await_oldest(struct trainer *t) {
    return aorta_annotate(aorta_event_synchronize(trainer_flight(t, t->collected)->done), "step %lld",
                          (long long)t->collected);
}

/* Waits for the oldest step in flight and writes its line. */
static aorta_status collect(struct trainer *t) {
    int64_t step = t->collected;
    struct trainer_flight *flight = trainer_flight(t, step);
    AORTA_TRY(await_oldest(t));
    const double step_ms = step_time(t, flight);
    if (t->input) aorta_input_release(t->input);
    struct aorta_train_workload *workload = t->run->workload;
    if (workload) AORTA_TRY(workload->table->finished(workload, step, flight->result));
    AORTA_TRY(trainer_write_line(t, step, step_ms));
    AORTA_TRY(trainer_notice_removal(t));
    trainer_print_step(t, step, step_ms);
    if (flight->result->stop > 0) t->stopping = true;
    t->outcome->steps = ++t->collected;
    return NULL;
}

/* ---- the tracer's schedule ---- */

/* Steps outside the schedule run without the tracer. But to record a graph's kernels, the tracer must already run when
 * the graph is captured. */
static bool is_watched(const struct trainer *t, int64_t step) {
    if (t->by_records) return true;
    const struct aorta_profiler_schedule *schedule = &trainer_options(t)->profiling.schedule;
    return captures_steps(t) ? !aorta_profiler_schedule_over(schedule, step)
                             : aorta_profiler_schedule_tracing(schedule, step);
}

/* Whether every step's times come from kernel records. Records cost no more than timestamps, captured or not
 * (docs/results.md), but they would also slow down the steps that record_every skips. */
static bool wants_records(const struct trainer *t) {
    const enum aorta_kernel_timing wish = t->run->kernel_timing;
    const char *other = getenv("CUDA_INJECTION64_PATH"); /* records already, and a process has one recorder */
    if (wish != AORTA_KERNEL_TIMING_AUTO) return wish == AORTA_KERNEL_TIMING_ON;
    if (!t->run->record || trainer_options(t)->profiling.record_every > 1 || (other && *other)) return false;
    return aorta_tracer_exists(aorta_device_get_info(t->context.device)->kind);
}

/* Before the device is known. */
static bool may_record(const struct trainer *t) {
    return t->run->kernel_timing != AORTA_KERNEL_TIMING_OFF || trainer_options(t)->profiling.enabled;
}

static void warn_of_no_tracer(const struct trainer *t, aorta_status reason) {
    const bool files = trainer_options(t)->profiling.enabled;
    if (t->context.ranks.rank == 0)
        aorta_log(t->run->log, files ? AORTA_LOG_WARNING : AORTA_LOG_INFO, "%s: %s",
                  files ? "profiling: the traces will show ranges and not kernels"
                        : "ranges are measured by timestamps, which are upper bounds",
                  aorta_status_message(reason));
    aorta_status_free(reason);
}

/* In a captured step, kernels belong to ranges by their graph nodes. */
static aorta_status check_captured(const struct trainer *t) {
    const enum aorta_device_kind kind = aorta_device_get_info(t->context.device)->kind;
    if (!captures_steps(t) || !aorta_tracer_exists(kind) || aorta_tracer_labels(kind)) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "kernel tracing on %s: records do not say which node of a captured step they are "
                       "of; compile.enabled=false records kernels",
                       aorta_device_kind_name(kind));
}

/* Kernels are recorded for the figures or for trace files; on a CPU the ranges are the operations. */
static aorta_status open_tracer(struct trainer *t) {
    bool gpu = aorta_device_get_info(t->context.device)->kind != AORTA_DEVICE_CPU;
    t->by_records = wants_records(t);
    if (!t->by_records && !(trainer_options(t)->profiling.enabled && gpu)) return NULL;
    aorta_status status = check_captured(t);
    if (!status) status = aorta_tracer_open(t->context.device, &t->tracer);
    if (status) {
        enum aorta_code code = aorta_status_code(status);
        if (t->run->kernel_timing == AORTA_KERNEL_TIMING_ON) return status;
        if (code != AORTA_UNSUPPORTED && code != AORTA_DEVICE) return status;
        t->by_records = false;
        warn_of_no_tracer(t, status);
        return NULL;
    }
    t->watching = is_watched(t, 0);
    return t->watching ? NULL : aorta_tracer_stop(t->tracer); /* until the schedule asks for it */
}

/* Waits until the device is idle and fetches all records first. */
static aorta_status stop_watching(struct trainer *t) {
    while (t->collected < t->queued) AORTA_TRY(collect(t));
    if (t->input) AORTA_TRY(aorta_input_synchronize(t->input));
    AORTA_TRY(aorta_tracer_flush(t->tracer, true));
    for (int i = 0; i < TRAINER_SLOTS; i++) drop_graph(&t->flights[i].graphs[true]); /* captured without timestamps */
    t->watching = false;
    return aorta_tracer_stop(t->tracer);
}

/* Starts or stops the tracer by the schedule. */
static aorta_status follow_schedule(struct trainer *t, int64_t step) {
    bool wanted = is_watched(t, step);
    if (!t->tracer || wanted == t->watching) return NULL;
    if (!wanted) return aorta_annotate(stop_watching(t), "profiling");
    t->watching = true;
    return aorta_annotate(aorta_tracer_start(t->tracer), "profiling");
}

/* Begins an iteration of the slot. A step that is neither captured nor replayed changes the slot's ranges, so the
 * slot's graph is dropped and captured again later. A step that is not recorded leaves the slot's ranges unchanged. */
static aorta_status begin_recording(struct trainer *t, int64_t step, enum trainer_plan plan, int64_t waited_from,
                                    int64_t waited_to) {
    struct aorta_recorder *recorder = t->context.recorder;
    struct trainer_flight *flight = trainer_flight(t, step);
    int slot = (int)(step % TRAINER_SLOTS);
    aorta_recorder_enable(recorder, flight->recorded);
    aorta_recorder_trace(recorder, t->watching ? t->tracer : NULL);
    if (!flight->recorded) return NULL;
    if (plan != PLAN_REPLAY) drop_graph(graph_of(flight));
    if (plan == PLAN_REPLAY)
        aorta_recorder_replay(recorder, slot, step);
    else
        aorta_recorder_step(recorder, slot, step);
    return waited_to > waited_from ? aorta_recorder_host(recorder, AORTA_HOST_SYNC, waited_from, waited_to) : NULL;
}

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
    aorta_status ended = aorta_capture_end(compute, graph_of(flight));
    if (queued && !ended) drop_graph(graph_of(flight));
    return aorta_status_join(queued, ended);
}

/* Work that cannot be captured runs eagerly, with the reason logged once; fullgraph makes it an error. */
static aorta_status try_capture(struct trainer *t, struct trainer_flight *flight) {
    aorta_status status = capture(t, flight);
    if (!status) {
        if (t->context.ranks.rank == 0)
            aorta_log(t->run->log, AORTA_LOG_INFO, "compile: captured the step, %zu nodes",
                      aorta_graph_node_count(*graph_of(flight)));
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

static enum trainer_plan plan_of(struct trainer *t, int64_t step) {
    if (aorta_dump_wanted(trainer_options(t), step)) return PLAN_DUMP;
    bool graph = captures_steps(t) && !t->capture_failed;
    /* The first step runs eagerly, so that one-time work stays out of the graph. */
    if (!graph || step == 0) return PLAN_EAGER;
    return *graph_of(trainer_flight(t, step)) ? PLAN_REPLAY : PLAN_CAPTURE;
}

static aorta_status launch_graph(struct trainer *t, struct trainer_flight *flight) {
    if (flight->recorded) aorta_recorder_launched(t->context.recorder);
    AORTA_TRY(aorta_graph_launch(*graph_of(flight), aorta_train_compute(&t->context)));
    return prefetch_input(t);
}

static aorta_status queue_captured(struct trainer *t, struct trainer_flight *flight, int64_t step,
                                   const struct aorta_step_hook *hook) {
    struct aorta_recorder *recorder = t->context.recorder;
    /* Begins the recording again, without the input's range, which is not part of the graph. The wait lets its
     * timestamps be written before the graph's first range uses their place. */
    if (flight->recorded) {
        AORTA_TRY(aorta_input_synchronize(t->input));
        aorta_recorder_step(recorder, (int)(step % TRAINER_SLOTS), step);
    }
    AORTA_TRY(try_capture(t, flight));
    if (*graph_of(flight)) {
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
    struct aorta_stream *last = t->report ? t->report : aorta_train_compute(c);
    if (t->input && aorta_input_queued(t->input) > step + 1)
        AORTA_TRY(aorta_input_wait(t->input, step + 1, aorta_train_compute(c)));
    if (t->report) AORTA_TRY(aorta_train_follow(t->report, aorta_train_compute(c), t->reached));
    AORTA_TRY(aorta_timestamp(last, flight->done_ns));
    AORTA_TRY(aorta_event_record(flight->done, last));
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

static aorta_status queue_step(struct trainer *t, int64_t step, enum trainer_plan plan) {
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

/* ---- set-up ---- */

static aorta_status make_flight(struct trainer *t, struct trainer_flight *flight) {
    AORTA_TRY(aorta_own_event(&t->context.owned, &flight->done));
    AORTA_TRY(aorta_own_pinned(&t->context.owned, sizeof *flight->done_ns, "end of a step", &flight->done_ns));
    AORTA_TRY(aorta_own_pinned(&t->context.owned, sizeof *flight->result, "step result", &flight->result));
    AORTA_TRY(aorta_own_pinned(&t->context.owned, sizeof *flight->stop, "stop flag", &flight->stop));
    *flight->stop = 0;
    return NULL;
}

static void end_flight(struct trainer_flight *flight) {
    for (int i = 0; i < 2; i++) drop_graph(&flight->graphs[i]);
}

/* On a GPU a kernel writes the step's timestamp. On its own stream the next step need not wait for that kernel. */
static aorta_status open_report(struct trainer *t) {
    if (!aorta_device_is_gpu(t->context.device)) return NULL;
    AORTA_TRY(aorta_own_event(&t->context.owned, &t->reached));
    return aorta_train_open_stream(&t->context, "end of the step", AORTA_PRIORITY_HIGH, &t->report);
}

/* A line for each reason. */
static void log_without_effect(const struct trainer *t) {
    struct aorta_text lines = {0};
    struct aorta_train_workload *workload = t->run->workload;
    const bool gpu = aorta_device_is_gpu(t->context.device);
    if (t->run->ranks.rank != 0) return;
    if (workload)
        workload->table->without_effect(workload, gpu, &lines);
    else
        aorta_train_options_without_effect(trainer_options(t), t->run->ranks.world_size, gpu, &lines);
    for (const char *line = NULL; (line = aorta_text_next(&lines, line));)
        aorta_log(t->run->log, AORTA_LOG_INFO, "without effect: %s", line);
    aorta_text_free(&lines);
}

static aorta_status make_strategy(struct aorta_train_context *context, struct aorta_strategy **strategy) {
    const struct aorta_train_options *options = context->options;
    bool replicated = options->distributed.mode == AORTA_MODE_DDP || options->fsdp.sharding_strategy == AORTA_NO_SHARD;
    return replicated ? aorta_replicated_create(context, strategy) : aorta_sharded_create(context, strategy);
}

static aorta_status make_flights(struct trainer *t) {
    for (int i = 0; i < TRAINER_SLOTS; i++) {
        AORTA_TRY(make_flight(t, &t->flights[i]));
        t->done[i] = t->flights[i].done;
    }
    return NULL;
}

static aorta_status open_transformer(struct trainer *t) {
    const struct aorta_train_options *o = trainer_options(t);
    AORTA_TRY(make_strategy(&t->context, &t->strategy));
    AORTA_TRY(aorta_model_take_memory(t->context.model, t->strategy->reuse));
    AORTA_TRY(aorta_weights_initialise(&t->context, t->strategy));
    AORTA_TRY(aorta_step_create(&t->context, t->strategy, &t->step));
    AORTA_TRY(aorta_dataset_create(o, t->run->ranks.rank, t->run->ranks.world_size, &t->dataset));
    t->per_epoch = aorta_dataset_steps_per_epoch(t->dataset);
    t->total_steps = t->per_epoch * o->training.epochs;
    if (o->training.max_steps > 0 && o->training.max_steps < t->total_steps) t->total_steps = o->training.max_steps;
    AORTA_TRY(make_flights(t));
    AORTA_TRY(aorta_input_create(&t->context, t->dataset, t->total_steps, t->done, &t->input));
    for (int i = 0; i < TRAINER_SLOTS; i++) t->flights[i].input = aorta_input_memory(t->input, i);
    return NULL;
}

static aorta_status open_workload(struct trainer *t) {
    struct aorta_train_workload *workload = t->run->workload;
    AORTA_TRY(workload->table->open(workload, &t->context));
    t->total_steps = workload->table->steps(workload);
    t->per_epoch = workload->table->steps_per_epoch(workload);
    return make_flights(t);
}

static aorta_status set_up(struct trainer *t) {
    const struct aorta_train_options *o = trainer_options(t);
    AORTA_TRY(aorta_beacon_open(t->run->ranks.rank, &t->beacon)); /* first: it reports what fails from here on */
    if (may_record(t)) aorta_tracer_prepare();
    AORTA_TRY(aorta_train_context_open(&t->context, o, &t->run->ranks, t->run->log, t->run->workload));
    t->context.signals = t->signals;
    atomic_store(&t->phase, TRAINER_RUNS);
    log_without_effect(t);
    AORTA_TRY(open_tracer(t));
    AORTA_TRY(aorta_readings_open(t->run, &t->context, &t->readings));
    AORTA_TRY(open_report(t));
    AORTA_TRY(t->run->workload ? open_workload(t) : open_transformer(t));
    aorta_readings_expect(&t->readings, t->total_steps);
    AORTA_TRY(trainer_open_output(t));
    t->peaks.gbytes_per_s = NAN;
    return t->run->record ? aorta_train_measure_peaks(&t->context, &t->peaks) : NULL;
}

static aorta_status tear_down(struct trainer *t) {
    aorta_status status = trainer_close_output(t);
    aorta_train_settle(&t->context);
    aorta_input_end(t->input);
    aorta_dataset_destroy(t->dataset);
    if (t->context.device)
        for (int i = 0; i < TRAINER_SLOTS; i++) end_flight(&t->flights[i]);
    if (t->run->workload) t->run->workload->table->close(t->run->workload);
    aorta_readings_close(&t->readings);
    aorta_train_context_close(&t->context);
    aorta_beacon_close(t->beacon);
    return status;
}

/* ---- the loop ---- */

/* Runs on the thread that waits for signals. When another rank has failed, the launcher ends this one; before the first
 * step it ends without a message. */
static bool say_signal(void *user, int signal) {
    struct trainer *t = user;
    const int phase = atomic_load(&t->phase);
    if (phase == TRAINER_OPENS && t->run->ranks.rank != 0) return true;
    if (phase == TRAINER_OPENS) {
        aorta_log(t->run->log, AORTA_LOG_ERROR, "interrupted by %s before the first step", aorta_signal_name(signal));
        aorta_directory_unlock(*t->run->lock);
        _exit(aorta_code_exit(AORTA_INTERRUPTED));
    }
    aorta_log(t->run->log, AORTA_LOG_WARNING, "%s: %s; once more ends at once", aorta_signal_name(signal),
              phase == TRAINER_ENDS ? "all steps are queued, the run ends as without it"
                                    : "ending after the steps in flight");
    return false;
}

static void ask_for_signal(struct trainer *t) {
    t->signal = aorta_signals_get(t->signals);
}

static aorta_status loop(struct trainer *t) {
    for (int64_t step = 0; step < t->total_steps; step++) {
        int64_t waited_from = aorta_clock_ns(), waited_to = waited_from;
        if (t->queued - t->collected == TRAINER_SLOTS) {
            AORTA_TRY(await_oldest(t));
            waited_to = aorta_clock_ns(); /* writing the line next delays the host, not the device */
            AORTA_TRY(collect(t));
        }
        bool watched = t->watching;
        if (!t->stopping) AORTA_TRY(follow_schedule(t, step));
        if (t->watching != watched) waited_to = aorta_clock_ns();
        ask_for_signal(t);
        bool alone = t->context.ranks.world_size == 1;
        if (t->stopping || (t->signal && alone)) break;
        if (!t->signal && step + 1 == t->total_steps) atomic_store(&t->phase, TRAINER_ENDS);
        trainer_flight(t, step)->begun_ns = aorta_clock_ns();
        trainer_flight(t, step)->recorded = t->run->record && step % trainer_options(t)->profiling.record_every == 0;
        enum trainer_plan plan = plan_of(t, step);
        AORTA_TRY(begin_recording(t, step, plan, waited_from, waited_to));
        AORTA_TRY(aorta_annotate(queue_step(t, step, plan), "step %lld", (long long)step));
        t->queued++;
    }
    t->ending = true;
    while (t->collected < t->queued) AORTA_TRY(collect(t));
    return NULL;
}

static void log_line(void *user, const char *line) {
    aorta_log(user, AORTA_LOG_DEBUG, "%s", line);
}

static aorta_status run_loop(struct trainer *t) {
    bool progress = t->run->progress && t->context.ranks.rank == 0;
    if (progress) aorta_progress_begin(&t->progress, stderr, "train", "steps", t->total_steps);
    aorta_status status = loop(t);
    if (progress) aorta_progress_end(&t->progress);
    if (!status && t->context.ranks.rank == 0)
        status = aorta_ops_report_products(t->context.device, log_line, (void *)t->run->log);
    return status;
}

static aorta_status interrupted(const struct trainer *t) {
    bool early = t->collected < t->total_steps && (t->stopping || t->signal);
    if (!early) return NULL;
    return AORTA_ERROR(AORTA_INTERRUPTED, "interrupted%s%s after %lld of %s; the files in %s are complete",
                       t->signal ? " by " : "", t->signal ? aorta_signal_name(t->signal) : "", (long long)t->collected,
                       aorta_counted(t->total_steps, "step").text,
                       t->outcome->moved ? t->outcome->moved : trainer_options(t)->training.output_dir);
}

/* A mistake of the user, which rank 0 reports. */
static bool is_left_to_rank_0(const struct aorta_ranks *ranks, aorta_status status) {
    return status && ranks->rank != 0 && aorta_code_exit(aorta_status_code(status)) == 2;
}

void aorta_train_leave_to_rank_0(const struct aorta_ranks *ranks, aorta_status status) {
    static const struct timespec long_while = {.tv_sec = 5}, short_while = {.tv_nsec = 500000000};
    const bool mistake = is_left_to_rank_0(ranks, status);
    if (!status || ranks->rank == 0) return;
    if (!mistake && aorta_status_code(status) != AORTA_INTERRUPTED) return;
    sigset_t set = aorta_ending_signals(); /* blocked while training */
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    nanosleep(mistake ? &long_while : &short_while, NULL);
}

/* A failure of another rank, and an error that all ranks find at once, are not this rank's own. */
static bool is_own_failure(aorta_status status) {
    enum aorta_code code = aorta_status_code(status);
    return code != AORTA_COMM && code != AORTA_INTERRUPTED && aorta_code_exit(code) != 2;
}

/* The other ranks may wait in a collective for this one: no orderly end is possible. */
static void abort_if_several(struct trainer *t, aorta_status status) {
    if (!status || t->run->ranks.world_size == 1) return;
    if (is_own_failure(status)) aorta_beacon_failed(t->beacon);
    if (!t->context.world) return;
    aorta_train_leave_to_rank_0(&t->run->ranks, status);
    aorta_log(t->run->log, AORTA_LOG_ERROR, "%s", aorta_status_message(status));
    aorta_directory_unlock(*t->run->lock); /* the process ends here */
    aorta_comm_abort(t->context.world, aorta_code_exit(aorta_status_code(status)));
}

/* The launcher may then end this rank without a message, as rank 0 reports the mistake. */
static void end_signals(struct trainer *t) {
    aorta_signals_end(t->signals);
    t->signals = NULL;
}

aorta_status aorta_train(const struct aorta_train_run *run, struct aorta_train_outcome *outcome) {
    *outcome = (struct aorta_train_outcome){0};
    struct trainer *t = calloc(1, sizeof *t);
    if (!t) return AORTA_ERROR(AORTA_MEMORY, "the trainer did not fit in memory");
    t->run = run, t->outcome = outcome;
    /* Blocked before any thread is started, so that the threads inherit it. */
    sigset_t before;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    aorta_status status = aorta_signals_begin(say_signal, t, &t->signals);
    if (!status) status = set_up(t);
    if (!status) status = run_loop(t);
    if (is_left_to_rank_0(&run->ranks, status)) end_signals(t);
    abort_if_several(t, status);
    if (!status) status = interrupted(t);
    status = aorta_status_join(status, tear_down(t));
    ask_for_signal(t);
    end_signals(t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(t);
    return status;
}
