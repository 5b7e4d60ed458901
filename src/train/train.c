/* The loop. Two steps are in flight: while the device runs one, the host queues the next and reads the one before. */
#include "train/train.h"

#include "base/clock.h"
#include "base/directory_lock.h"
#include "base/files.h"
#include "base/progress.h"
#include "base/thread.h"
#include "formats/metrics.h"
#include "formats/metrics_lines.h"
#include "job/beacon.h"
#include "train/data.h"
#include "train/input.h"
#include "train/peaks.h"
#include "train/readings.h"
#include "train/step.h"
#include "train/tracing.h"
#include "train/weights.h"
#include "train/workload.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { SLOTS = AORTA_INPUT_SLOTS }; /* steps in flight */

/* One step in flight. */
struct flight {
    const void *input; /* on the device; borrowed */
    struct aorta_event *done;
    struct aorta_step_result *result; /* pinned */
    float *stop;                      /* pinned: this rank was asked to stop */
    bool recorded;                    /* the step's ranges are */
    struct aorta_graph *graphs[2];    /* compile.enabled: the captured step, [recorded] */
    int64_t begun_ns;                 /* host time */
    double data_wait_ms;
};

struct trainer {
    const struct aorta_train_run *run;
    struct aorta_train_context context;
    struct aorta_strategy *strategy;
    struct aorta_step *step;
    struct aorta_dataset *dataset;
    struct aorta_input *input;
    struct aorta_beacon *beacon;
    struct aorta_metrics_writer *metrics;
    struct aorta_readings readings;
    struct aorta_tracer *tracer;       /* where kernels are recorded in some step; else NULL */
    struct aorta_metrics_lines *lines; /* they write the metrics, and show steps to the traces */
    struct aorta_step_traces *traces;  /* profiling.enabled; else NULL */
    struct aorta_progress progress;
    struct flight flights[SLOTS];
    struct aorta_event *done[SLOTS]; /* theirs */
    struct aorta_stream *report;     /* after each step, beside the next: its timestamp; NULL: compute's */
    struct aorta_event *reached;     /* the end of the step, for `report` */
    int64_t total_steps, per_epoch;
    int64_t queued;       /* steps that have been queued whole */
    int64_t collected;    /* steps whose line has been written */
    int64_t last_done_ns; /* device time at which the step collected last was done */
    bool by_records;      /* the tracer runs in every step */
    bool watching;        /* it runs now */
    bool stopping;        /* the ranks agreed to end */
    bool ending;          /* no further step is queued */
    bool capture_failed;
    int signal;
    struct aorta_measured_peaks peaks; /* of the CPU device */
    struct aorta_train_outcome *outcome;
};

static const struct aorta_train_options *options_of(const struct trainer *t) {
    return t->run->options;
}

static struct flight *flight_of(struct trainer *t, int64_t step) {
    return &t->flights[step % SLOTS];
}

static struct aorta_graph **graph_of(struct flight *flight) {
    return &flight->graphs[flight->recorded];
}

static void drop_graph(struct aorta_graph **graph) {
    aorta_graph_destroy(*graph);
    *graph = NULL;
}

/* ---- set-up ---- */

static aorta_status make_flight(struct trainer *t, struct flight *flight) {
    struct aorta_device *device = t->context.device;
    void *memory;
    AORTA_TRY(aorta_event_create(device, &flight->done));
    AORTA_TRY(aorta_pinned_alloc(device, sizeof *flight->result, "step result", &memory));
    flight->result = memory;
    AORTA_TRY(aorta_pinned_alloc(device, sizeof *flight->stop, "stop flag", &memory));
    flight->stop = memory;
    *flight->stop = 0;
    return NULL;
}

static void end_flight(struct trainer *t, struct flight *flight) {
    struct aorta_device *device = t->context.device;
    for (int i = 0; i < 2; i++) drop_graph(&flight->graphs[i]);
    if (flight->done) aorta_event_destroy(flight->done);
    aorta_pinned_free(device, flight->stop);
    aorta_pinned_free(device, flight->result);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static aorta_status write_config(const struct trainer *t, const char *directory) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 2);
    aorta_config_write_json(&options_of(t)->config, &json);
    aorta_text_puts(&text, "\n");
    char *path = aorta_path_join(directory, "config.json");
    aorta_status status = aorta_text_check(&text);
    if (!status && !path) status = AORTA_ERROR(AORTA_MEMORY, "a file name did not fit in memory");
    if (!status) status = aorta_file_replace(path, text.data, text.length);
    free(path);
    aorta_text_free(&text);
    return status;
}

/* Lines that were removed and made again: said once, when it is seen. The new directory is this job's as well. */
static aorta_status notice_removal(struct trainer *t) {
    const char *moved = t->outcome->moved ? NULL : aorta_metrics_moved(t->metrics);
    if (!moved) return NULL;
    aorta_log(
        t->run->log, AORTA_LOG_WARNING,
        "training.output_dir: the metrics of this rank were removed from %s; they are written again, whole, in %s",
        options_of(t)->training.output_dir, moved);
    t->outcome->moved = strdup(moved);
    if (!t->outcome->moved) return AORTA_ERROR(AORTA_MEMORY, "a directory's name did not fit in memory");
    if (t->context.ranks.rank != 0) return NULL;
    aorta_directory_unlock(*t->run->lock);
    *t->run->lock = NULL;
    AORTA_TRY(aorta_directory_lock(moved, "training.output_dir", t->run->lock));
    return write_config(t, moved);
}

/* Files of ranks that this run does not have, left by an earlier one, would be taken for its own: they are renamed. */
static void rename_other_ranks(const struct trainer *t) {
    for (int rank = t->context.ranks.world_size; rank < 1024; rank++) {
        char name[64], renamed[64];
        snprintf(name, sizeof name, "rank_%02d_metrics.jsonl", rank);
        snprintf(renamed, sizeof renamed, "rank_%02d_metrics.jsonl.old", rank);
        char *from = aorta_path_join(options_of(t)->training.output_dir, name);
        char *to = aorta_path_join(options_of(t)->training.output_dir, renamed);
        bool moved = from && to && rename(from, to) == 0;
        if (moved) aorta_log(t->run->log, AORTA_LOG_INFO, "%s is of an earlier run with more ranks: now %s", from, to);
        free(from);
        free(to);
        if (!moved) return;
    }
}

/* Before this rank opens its own. */
static void say_earlier_results(const struct trainer *t) {
    const char *directory = options_of(t)->training.output_dir;
    char *path = aorta_path_join(directory, "rank_00_metrics.jsonl");
    struct stat info;
    if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size)
        aorta_log(
            t->run->log, AORTA_LOG_INFO,
            "%s holds results of an earlier run: its metrics are replaced now, its report when this run makes one",
            directory);
    free(path);
}

static aorta_status open_output(struct trainer *t) {
    const char *directory = options_of(t)->training.output_dir;
    AORTA_TRY(aorta_annotate(aorta_directory_make(directory), "training.output_dir"));
    if (t->context.ranks.rank == 0) {
        say_earlier_results(t);
        rename_other_ranks(t);
        AORTA_TRY(write_config(t, directory));
    }
    AORTA_TRY(aorta_metrics_open(directory, t->context.ranks.rank, &t->metrics));
    AORTA_TRY(aorta_tracing_open(&t->context, t->tracer, t->total_steps, &t->traces));
    AORTA_TRY(aorta_metrics_lines_open(t->tracer, t->metrics, &t->lines));
    if (t->traces) aorta_tracing_follow(t->traces, t->lines);
    return NULL;
}

static bool captures_steps(const struct trainer *t) {
    const struct aorta_compile_options *compile = &options_of(t)->compile;
    return compile->enabled && compile->backend == AORTA_COMPILE_GRAPH;
}

/* A step that the schedule leaves out is not to pay for the tracer, but the library must have seen the graphs being
 * captured whose kernels it is to record. */
static bool is_watched(const struct trainer *t, int64_t step) {
    if (t->by_records) return true;
    const struct aorta_profiler_schedule schedule = aorta_tracing_schedule(options_of(t));
    return captures_steps(t) ? !aorta_profiler_schedule_over(&schedule, step)
                             : aorta_profiler_schedule_tracing(&schedule, step);
}

/* Whether every step's times are to come from records: they cost no more than timestamps do, captured or one by one
 * (docs/results.md), but what record_every leaves out would pay as well. */
static bool wants_records(const struct trainer *t) {
    const enum aorta_kernel_timing wish = t->run->kernel_timing;
    const char *other = getenv("CUDA_INJECTION64_PATH"); /* records already, and a process has one recorder */
    if (wish != AORTA_KERNEL_TIMING_AUTO) return wish == AORTA_KERNEL_TIMING_ON;
    if (!t->run->record || options_of(t)->profiling.record_every > 1 || (other && *other)) return false;
    return aorta_tracer_exists(aorta_device_get_info(t->context.device)->kind);
}

/* Before the device is known. */
static bool may_record(const struct trainer *t) {
    return t->run->kernel_timing != AORTA_KERNEL_TIMING_OFF || options_of(t)->profiling.enabled;
}

static void warn_of_no_tracer(const struct trainer *t, aorta_status reason) {
    const bool files = options_of(t)->profiling.enabled;
    if (t->context.ranks.rank == 0)
        aorta_log(t->run->log, files ? AORTA_LOG_WARNING : AORTA_LOG_INFO, "%s: %s",
                  files ? "profiling: the traces will show ranges and not kernels"
                        : "ranges are measured by timestamps, which are upper bounds",
                  aorta_status_message(reason));
    aorta_status_free(reason);
}

/* A range's work within a captured step is known by its nodes. */
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
    if (!t->by_records && !(options_of(t)->profiling.enabled && gpu)) return NULL;
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

/* Where a kernel writes the step's timestamp, the next step need not wait for it. */
static aorta_status open_report(struct trainer *t) {
    struct aorta_device *device = t->context.device;
    if (aorta_device_get_info(device)->kind == AORTA_DEVICE_CPU) return NULL;
    AORTA_TRY(aorta_event_create_untimed(device, &t->reached));
    return aorta_stream_create(device, "end of the step", AORTA_PRIORITY_HIGH, &t->report);
}

static void log_without_effect(const struct trainer *t) {
    struct aorta_text keys = {0};
    struct aorta_train_workload *workload = t->run->workload;
    if (workload)
        workload->table->without_effect(workload, &keys);
    else
        aorta_train_options_without_effect(options_of(t), &keys);
    if (keys.length && t->run->ranks.rank == 0)
        aorta_log(t->run->log, AORTA_LOG_INFO, "accepted for compatibility, without effect: %s", keys.data);
    aorta_text_free(&keys);
}

/* The one that the options ask for; the model gets its memory. */
static aorta_status make_strategy(const struct aorta_train_context *context, struct aorta_strategy **strategy) {
    const struct aorta_train_options *options = context->options;
    bool replicated = options->distributed.mode == AORTA_MODE_DDP || options->fsdp.sharding_strategy == AORTA_NO_SHARD;
    return replicated ? aorta_replicated_create(context, strategy) : aorta_sharded_create(context, strategy);
}

static aorta_status create_strategy(const struct aorta_train_context *context, struct aorta_strategy **out) {
    *out = NULL;
    struct aorta_strategy *strategy;
    AORTA_TRY(make_strategy(context, &strategy));
    const struct aorta_place *reuse = strategy->table->reuse ? strategy->table->reuse(strategy) : NULL;
    aorta_status status = aorta_model_take_memory(context->model, reuse);
    if (status)
        strategy->table->destroy(strategy);
    else
        *out = strategy;
    return status;
}

static aorta_status make_flights(struct trainer *t) {
    for (int i = 0; i < SLOTS; i++) {
        AORTA_TRY(make_flight(t, &t->flights[i]));
        t->done[i] = t->flights[i].done;
    }
    return NULL;
}

static aorta_status open_transformer(struct trainer *t) {
    const struct aorta_train_options *o = options_of(t);
    AORTA_TRY(create_strategy(&t->context, &t->strategy));
    AORTA_TRY(aorta_weights_initialise(&t->context, t->strategy));
    AORTA_TRY(aorta_step_create(&t->context, t->strategy, &t->step));
    AORTA_TRY(aorta_dataset_create(o, t->run->ranks.rank, t->run->ranks.world_size, &t->dataset));
    t->per_epoch = aorta_dataset_steps_per_epoch(t->dataset);
    t->total_steps = t->per_epoch * o->training.epochs;
    if (o->training.max_steps > 0) t->total_steps = smaller(t->total_steps, o->training.max_steps);
    AORTA_TRY(make_flights(t));
    AORTA_TRY(aorta_input_create(&t->context, t->dataset, t->total_steps, t->done, &t->input));
    for (int i = 0; i < SLOTS; i++) t->flights[i].input = aorta_input_memory(t->input, i);
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
    const struct aorta_train_options *o = options_of(t);
    AORTA_TRY(aorta_beacon_open(t->run->ranks.rank, &t->beacon)); /* first: it reports what fails from here on */
    if (may_record(t)) aorta_tracer_prepare();
    AORTA_TRY(aorta_train_context_open(&t->context, o, &t->run->ranks, t->run->log, t->run->workload));
    log_without_effect(t);
    AORTA_TRY(open_tracer(t));
    AORTA_TRY(aorta_readings_open(t->run, &t->context, &t->readings));
    AORTA_TRY(open_report(t));
    AORTA_TRY(t->run->workload ? open_workload(t) : open_transformer(t));
    aorta_readings_expect(&t->readings, t->total_steps);
    AORTA_TRY(open_output(t));
    t->peaks.gbytes_per_s = NAN;
    return t->run->record ? aorta_train_measure_peaks(&t->context, &t->peaks) : NULL;
}

/* When all ranks have closed their files, rank 0 may read them. */
static aorta_status close_output(struct trainer *t) {
    aorta_status status = t->lines ? aorta_metrics_lines_finish(t->lines) : NULL;
    if (!status && t->lines) status = notice_removal(t);
    aorta_metrics_lines_close(t->lines);
    status = aorta_status_join(status, aorta_tracing_close(&t->context, t->traces));
    status = aorta_status_join(status, aorta_metrics_close(t->metrics));
    aorta_tracer_close(t->tracer);
    if (status || t->run->ranks.world_size == 1 || !t->context.world) return status;
    AORTA_TRY(aorta_barrier(t->context.world, aorta_train_compute(&t->context)));
    return aorta_stream_synchronize(aorta_train_compute(&t->context));
}

static aorta_status tear_down(struct trainer *t) {
    aorta_status status = close_output(t);
    for (int i = 0; t->context.device && i < AORTA_ROLE_COUNT; i++)
        if (t->context.own_streams[i])
            aorta_status_free(aorta_stream_synchronize(t->context.own_streams[i])); /* reported when it happened */
    aorta_stream_destroy(t->report);
    if (t->reached) aorta_event_destroy(t->reached);
    aorta_input_destroy(t->input);
    aorta_dataset_destroy(t->dataset);
    if (t->context.device)
        for (int i = 0; i < SLOTS; i++) end_flight(t, &t->flights[i]);
    aorta_step_destroy(t->step);
    if (t->strategy) t->strategy->table->destroy(t->strategy);
    if (t->run->workload) t->run->workload->table->close(t->run->workload);
    aorta_readings_close(&t->readings);
    aorta_train_context_close(&t->context);
    aorta_beacon_close(t->beacon);
    return status;
}

/* ---- input ---- */

/* In the middle of a step: the next input, if the loader has it. */
static aorta_status prefetch_input(void *user) {
    struct trainer *t = user;
    return t->stopping ? NULL : aorta_input_prefetch(t->input);
}

/* At the start of step `step`: its input, waited for and counted if it was not prefetched. */
static aorta_status ensure_input(struct trainer *t, int64_t step) {
    struct flight *flight = flight_of(t, step);
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

static aorta_status queue_eagerly(struct trainer *t, struct flight *flight, const struct aorta_step_hook *hook) {
    AORTA_TRY(aorta_step_gradients(t->step, aorta_input_layout(t->input), flight->input, flight->stop, hook));
    return aorta_step_optimize(t->step, flight->result);
}

/* A step whose parameters and gradients are written out: the device is waited for in between. */
static aorta_status queue_with_dump(struct trainer *t, struct flight *flight, int64_t step) {
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

static aorta_status capture(struct trainer *t, struct flight *flight) {
    struct aorta_stream *compute = aorta_train_compute(&t->context);
    AORTA_TRY(aorta_capture_begin(compute));
    aorta_status queued = queue_eagerly(t, flight, NULL);
    /* Ended in any case, so that the streams run again. */
    aorta_status ended = aorta_capture_end(compute, graph_of(flight));
    if (queued && !ended) drop_graph(graph_of(flight));
    return aorta_status_join(queued, ended);
}

/* What cannot be captured runs eagerly, with the reason logged once; fullgraph makes it an error. */
static aorta_status try_capture(struct trainer *t, struct flight *flight) {
    aorta_status status = capture(t, flight);
    if (!status) {
        if (t->context.ranks.rank == 0)
            aorta_log(t->run->log, AORTA_LOG_INFO, "compile: captured the step, %zu nodes",
                      aorta_graph_node_count(*graph_of(flight)));
        return NULL;
    }
    if (options_of(t)->compile.fullgraph)
        return aorta_annotate(status, "compile.fullgraph: the step cannot be captured");
    aorta_log(t->run->log, AORTA_LOG_WARNING, "compile: the step is not captured and runs eagerly: %s",
              aorta_status_message(status));
    aorta_status_free(status);
    t->capture_failed = true;
    return NULL;
}

/* How a step gets onto the device. */
enum plan { PLAN_EAGER, PLAN_DUMP, PLAN_CAPTURE, PLAN_REPLAY };

static enum plan plan_of(struct trainer *t, int64_t step) {
    if (aorta_dump_wanted(options_of(t), step)) return PLAN_DUMP;
    bool graph = captures_steps(t) && !t->capture_failed;
    /* The first step runs eagerly: what happens only once stays out of the graph. */
    if (!graph || step == 0) return PLAN_EAGER;
    return *graph_of(flight_of(t, step)) ? PLAN_REPLAY : PLAN_CAPTURE;
}

static aorta_status launch_graph(struct trainer *t, struct flight *flight) {
    if (flight->recorded) aorta_recorder_launched(t->context.recorder);
    AORTA_TRY(aorta_graph_launch(*graph_of(flight), aorta_train_compute(&t->context)));
    return prefetch_input(t);
}

static aorta_status queue_captured(struct trainer *t, struct flight *flight, int64_t step,
                                   const struct aorta_step_hook *hook) {
    struct aorta_recorder *recorder = t->context.recorder;
    /* Begun again: a range of the input, recorded a moment ago, is not part of the graph. */
    if (flight->recorded) aorta_recorder_step(recorder, (int)(step % SLOTS), step);
    AORTA_TRY(try_capture(t, flight));
    if (*graph_of(flight)) {
        if (flight->recorded) aorta_recorder_captured(recorder);
        return launch_graph(t, flight);
    }
    if (flight->recorded) aorta_recorder_step(recorder, (int)(step % SLOTS), step); /* what was captured is gone */
    return queue_eagerly(t, flight, hook);
}

/* The step is done when its timestamps are written, those of the copy of the next input, queued beside it, too. */
static aorta_status end_step(struct trainer *t, struct flight *flight, int64_t step) {
    const struct aorta_train_context *c = &t->context;
    if (t->input && aorta_input_queued(t->input) > step + 1)
        AORTA_TRY(aorta_input_wait(t->input, step + 1, aorta_train_compute(c)));
    if (t->report) AORTA_TRY(aorta_train_follow(t->report, aorta_train_compute(c), t->reached));
    AORTA_TRY(aorta_event_record(flight->done, t->report ? t->report : aorta_train_compute(c)));
    aorta_recorder_queued(c->recorder);
    return NULL;
}

static aorta_status queue_planned(struct trainer *t, struct flight *flight, int64_t step, enum plan plan) {
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

static aorta_status queue_step(struct trainer *t, int64_t step, enum plan plan) {
    struct flight *flight = flight_of(t, step);
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

/* ---- reading finished steps ---- */

static aorta_status write_line(struct trainer *t, int64_t step, double step_ms) {
    const struct flight *flight = flight_of(t, step);
    const struct aorta_step_state *state = &flight->result->state;
    const struct aorta_train_options *o = options_of(t);
    struct aorta_memory_info memory = aorta_device_memory(t->context.device);
    const struct aorta_train_workload *workload = t->run->workload;
    double samples = workload ? (double)workload->table->samples(workload, step)
                              : (double)(o->training.batch_size * o->training.gradient_accumulation);
    struct aorta_step_metrics metrics = {
        .rank = t->context.ranks.rank,
        .world_size = t->context.ranks.world_size,
        .epoch = step / t->per_epoch,
        .step = step % t->per_epoch,
        .global_step = step,
        .loss = state->loss,
        .grad_norm = state->grad_norm,
        .lr = state->lr,
        .samples_per_s = samples / (step_ms / 1e3),
        .data_wait_ms = flight->data_wait_ms,
        .step_ms = step_ms,
        .loss_scale = o->training.mixed_precision == AORTA_PRECISION_FP16 ? state->loss_scale : NAN,
        .skipped = !state->finite,
        .simulated = aorta_comm_simulated(t->context.world),
        .device = aorta_device_kind_name(aorta_device_get_info(t->context.device)->kind),
        .info = step == 0 ? aorta_device_get_info(t->context.device) : NULL,
        .peaks = isnan(t->peaks.gbytes_per_s) ? NULL : &t->peaks,
        .memory = &memory,
    };
    aorta_readings_report(&t->readings, t->ending && step + 1 == t->queued, &metrics);
    if (!flight->recorded) {
        if (t->run->record) metrics.unrecorded = "profiling.record_every leaves this step out";
        return aorta_metrics_lines_add(t->lines, &metrics, NULL, NULL, t->last_done_ns);
    }
    struct aorta_profile profile;
    struct aorta_launches launches;
    AORTA_TRY(aorta_recorder_launches(t->context.recorder, (int)(step % SLOTS), &launches));
    aorta_status status = aorta_recorder_collect(t->context.recorder, (int)(step % SLOTS), &profile);
    if (!status) return aorta_metrics_lines_add(t->lines, &metrics, &profile, &launches, t->last_done_ns);
    free(launches.ranges);
    return status;
}

static void print_step(struct trainer *t, int64_t step, double step_ms) {
    const struct aorta_step_state *state = &flight_of(t, step)->result->state;
    if (t->context.ranks.rank != 0) return;
    if (!state->finite)
        aorta_log(t->run->log, AORTA_LOG_WARNING, "step %lld: a gradient is not finite; the update is skipped%s",
                  (long long)step,
                  options_of(t)->training.mixed_precision == AORTA_PRECISION_FP16 ? " and the loss scale halved" : "");
    if (t->run->progress) {
        char note[64];
        snprintf(note, sizeof note, "loss %.4f", (double)state->loss);
        aorta_progress_update(&t->progress, step + 1, note);
        if (t->progress.terminal) return;
    }
    if ((step + 1) % options_of(t)->training.log_interval == 0)
        aorta_log(t->run->log, AORTA_LOG_INFO, "step %lld of %lld: loss %.5f, grad norm %.4f, lr %.3g, %.1f ms",
                  (long long)step + 1, (long long)t->total_steps, (double)state->loss, (double)state->grad_norm,
                  (double)state->lr, step_ms);
}

/* Time between the ends of this step and the one before, on the device clock; the first counts from its launch. */
static aorta_status step_time(struct trainer *t, const struct flight *flight, double *step_ms) {
    int64_t done_ns;
    AORTA_TRY(aorta_event_time(flight->done, &done_ns));
    *step_ms = (double)(done_ns - (t->collected ? t->last_done_ns : flight->begun_ns)) / 1e6;
    t->last_done_ns = done_ns;
    return NULL;
}

/* Waits for the oldest step in flight. */
static aorta_status await_oldest(struct trainer *t) {
    return aorta_annotate(aorta_event_synchronize(flight_of(t, t->collected)->done), "step %lld",
                          (long long)t->collected);
}

/* Waits for the oldest step in flight and writes its line. */
static aorta_status collect(struct trainer *t) {
    int64_t step = t->collected;
    struct flight *flight = flight_of(t, step);
    double step_ms;
    AORTA_TRY(await_oldest(t));
    AORTA_TRY(step_time(t, flight, &step_ms));
    if (t->input) aorta_input_release(t->input);
    struct aorta_train_workload *workload = t->run->workload;
    if (workload) AORTA_TRY(workload->table->finished(workload, step, flight->result));
    AORTA_TRY(write_line(t, step, step_ms));
    AORTA_TRY(notice_removal(t));
    print_step(t, step, step_ms);
    if (flight->result->stop > 0) t->stopping = true;
    t->outcome->last_loss = (double)flight->result->state.loss;
    t->outcome->steps = ++t->collected;
    return NULL;
}

/* ---- the loop ---- */

/* SIGINT and SIGTERM are blocked while training and asked for between steps: no handler, nothing global. A second one
 * takes the action from before and ends the process at once. */
static void ask_for_signal(struct trainer *t) {
    if (t->signal) return;
    sigset_t set = aorta_ending_signals();
    const struct timespec at_once = {0};
    int signal = sigtimedwait(&set, NULL, &at_once);
    if (signal <= 0) return;
    t->signal = t->outcome->signal = signal;
    bool over = t->ending && t->collected == t->total_steps;
    aorta_log(t->run->log, AORTA_LOG_WARNING, "%s: %s; once more ends at once", strsignal(signal),
              over ? "all steps are done, the run ends as without it" : "ending after the steps in flight");
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* The slot's iteration begins. A step that runs otherwise leaves other ranges than a graph was captured with, so its
 * slot's graph ends and is captured again later. A step that is not recorded leaves the slot's ranges as they are. */
static aorta_status begin_recording(struct trainer *t, int64_t step, enum plan plan, int64_t waited_from,
                                    int64_t waited_to) {
    struct aorta_recorder *recorder = t->context.recorder;
    struct flight *flight = flight_of(t, step);
    int slot = (int)(step % SLOTS);
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

/* The device is idle then, and what it did has been fetched. */
static aorta_status stop_watching(struct trainer *t) {
    while (t->collected < t->queued) AORTA_TRY(collect(t));
    if (t->input) AORTA_TRY(aorta_input_synchronize(t->input));
    AORTA_TRY(aorta_tracer_flush(t->tracer, true));
    for (int i = 0; i < SLOTS; i++) drop_graph(&t->flights[i].graphs[true]); /* captured without timestamps */
    t->watching = false;
    return aorta_tracer_stop(t->tracer);
}

static aorta_status watch_as_scheduled(struct trainer *t, int64_t step) {
    bool wanted = is_watched(t, step);
    if (!t->tracer || wanted == t->watching) return NULL;
    if (!wanted) return aorta_annotate(stop_watching(t), "profiling");
    t->watching = true;
    return aorta_annotate(aorta_tracer_start(t->tracer), "profiling");
}

static aorta_status loop(struct trainer *t) {
    for (int64_t step = 0; step < t->total_steps; step++) {
        int64_t waited_from = aorta_clock_ns(), waited_to = waited_from;
        if (t->queued - t->collected == SLOTS) {
            AORTA_TRY(await_oldest(t));
            waited_to = aorta_clock_ns(); /* the line that is written now keeps the host, not the device */
            AORTA_TRY(collect(t));
        }
        bool watched = t->watching;
        if (!t->stopping) AORTA_TRY(watch_as_scheduled(t, step));
        if (t->watching != watched) waited_to = aorta_clock_ns();
        ask_for_signal(t);
        bool alone = t->context.ranks.world_size == 1;
        if (t->stopping || (t->signal && alone)) break;
        flight_of(t, step)->begun_ns = aorta_clock_ns();
        flight_of(t, step)->recorded = t->run->record && step % options_of(t)->profiling.record_every == 0;
        enum plan plan = plan_of(t, step);
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
    int64_t start = aorta_clock_ns();
    aorta_status status = loop(t);
    t->outcome->wall_s = (double)(aorta_clock_ns() - start) / 1e9;
    if (progress) aorta_progress_end(&t->progress);
    if (!status && t->context.ranks.rank == 0)
        status = aorta_ops_report_products(t->context.device, log_line, (void *)t->run->log);
    return status;
}

static aorta_status interrupted(const struct trainer *t) {
    bool early = t->collected < t->total_steps && (t->stopping || t->signal);
    if (!early) return NULL;
    return AORTA_ERROR(AORTA_INTERRUPTED, "interrupted%s%s after %lld of %s; the files in %s are complete",
                       t->signal ? " by " : "", t->signal ? strsignal(t->signal) : "", (long long)t->collected,
                       aorta_counted(t->total_steps, "step").text,
                       t->outcome->moved ? t->outcome->moved : options_of(t)->training.output_dir);
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

/* Not the end of another rank, nor what all of them find wrong at once. */
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

aorta_status aorta_train(const struct aorta_train_run *run, struct aorta_train_outcome *outcome) {
    *outcome = (struct aorta_train_outcome){.last_loss = NAN};
    struct trainer *t = calloc(1, sizeof *t);
    if (!t) return AORTA_ERROR(AORTA_MEMORY, "the trainer did not fit in memory");
    t->run = run, t->outcome = outcome;
    /* Blocked before any thread is started, so that the threads inherit it. */
    sigset_t set = aorta_ending_signals(), before;
    pthread_sigmask(SIG_BLOCK, &set, &before);
    aorta_status status = set_up(t);
    if (!status) status = run_loop(t);
    abort_if_several(t, status);
    if (!status) status = interrupted(t);
    status = aorta_status_join(status, tear_down(t));
    /* One that came after the last step would end the process without a report or a word; so it does, and rightly,
     * where the launcher ends a rank whose mistake rank 0 has reported. */
    if (!is_left_to_rank_0(&run->ranks, status)) ask_for_signal(t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(t);
    return status;
}
