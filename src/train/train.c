/* The loop. Two steps are in flight: while the device runs one, the host queues the next and reads the one before. */
#include "base/clock.h"
#include "base/directory_lock.h"
#include "base/thread.h"
#include "train/train_internal.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- set-up ---- */

static aorta_status make_flight(struct trainer *t, struct trainer_flight *flight) {
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

static void end_flight(struct trainer *t, struct trainer_flight *flight) {
    struct aorta_device *device = t->context.device;
    for (int i = 0; i < 2; i++) trainer_drop_graph(&flight->graphs[i]);
    if (flight->done) aorta_event_destroy(flight->done);
    aorta_pinned_free(device, flight->stop);
    aorta_pinned_free(device, flight->result);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
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
        aorta_train_options_without_effect(trainer_options(t), &keys);
    if (keys.length && t->run->ranks.rank == 0)
        aorta_log(t->run->log, AORTA_LOG_INFO, "accepted for compatibility, without effect: %s", keys.data);
    aorta_text_free(&keys);
}

static void log_drawing(const struct trainer *t) {
    struct aorta_text keys = {0};
    if (t->run->ranks.rank != 0) return;
    if (!aorta_dataset_on_device(t->dataset, aorta_device_get_info(t->context.device)->kind)) return;
    aorta_train_options_of_loader(trainer_options(t), &keys);
    if (keys.length)
        aorta_log(t->run->log, AORTA_LOG_INFO,
                  "the device makes its batches, so that %s are without effect (dataloader.device=host uses them)",
                  keys.data);
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
    for (int i = 0; i < TRAINER_SLOTS; i++) {
        AORTA_TRY(make_flight(t, &t->flights[i]));
        t->done[i] = t->flights[i].done;
    }
    return NULL;
}

static aorta_status open_transformer(struct trainer *t) {
    const struct aorta_train_options *o = trainer_options(t);
    AORTA_TRY(create_strategy(&t->context, &t->strategy));
    AORTA_TRY(aorta_weights_initialise(&t->context, t->strategy));
    AORTA_TRY(aorta_step_create(&t->context, t->strategy, &t->step));
    AORTA_TRY(aorta_dataset_create(o, t->run->ranks.rank, t->run->ranks.world_size, &t->dataset));
    log_drawing(t);
    t->per_epoch = aorta_dataset_steps_per_epoch(t->dataset);
    t->total_steps = t->per_epoch * o->training.epochs;
    if (o->training.max_steps > 0) t->total_steps = smaller(t->total_steps, o->training.max_steps);
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
    if (trainer_may_record(t)) aorta_tracer_prepare();
    AORTA_TRY(aorta_train_context_open(&t->context, o, &t->run->ranks, t->run->log, t->run->workload));
    t->context.signals = t->signals;
    atomic_store(&t->phase, TRAINER_RUNS);
    log_without_effect(t);
    AORTA_TRY(trainer_open_tracer(t));
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
    for (int i = 0; t->context.device && i < AORTA_ROLE_COUNT; i++)
        if (t->context.own_streams[i])
            aorta_status_free(aorta_stream_synchronize(t->context.own_streams[i])); /* reported when it happened */
    aorta_stream_destroy(t->report);
    if (t->reached) aorta_event_destroy(t->reached);
    aorta_input_destroy(t->input);
    aorta_dataset_destroy(t->dataset);
    if (t->context.device)
        for (int i = 0; i < TRAINER_SLOTS; i++) end_flight(t, &t->flights[i]);
    aorta_step_destroy(t->step);
    if (t->strategy) t->strategy->table->destroy(t->strategy);
    if (t->run->workload) t->run->workload->table->close(t->run->workload);
    aorta_readings_close(&t->readings);
    aorta_train_context_close(&t->context);
    aorta_beacon_close(t->beacon);
    return status;
}

/* ---- reading finished steps ---- */

/* Time between the ends of this step and the one before, on the device clock; the first counts from its launch. */
static aorta_status step_time(struct trainer *t, const struct trainer_flight *flight, double *step_ms) {
    int64_t done_ns;
    AORTA_TRY(aorta_event_time(flight->done, &done_ns));
    *step_ms = (double)(done_ns - (t->collected ? t->last_done_ns : flight->begun_ns)) / 1e6;
    t->last_done_ns = done_ns;
    return NULL;
}

/* Waits for the oldest step in flight. */
static aorta_status await_oldest(struct trainer *t) {
    return aorta_annotate(aorta_event_synchronize(trainer_flight(t, t->collected)->done), "step %lld",
                          (long long)t->collected);
}

/* Waits for the oldest step in flight and writes its line. */
aorta_status trainer_collect(struct trainer *t) {
    int64_t step = t->collected;
    struct trainer_flight *flight = trainer_flight(t, step);
    double step_ms;
    AORTA_TRY(await_oldest(t));
    AORTA_TRY(step_time(t, flight, &step_ms));
    if (t->input) aorta_input_release(t->input);
    struct aorta_train_workload *workload = t->run->workload;
    if (workload) AORTA_TRY(workload->table->finished(workload, step, flight->result));
    AORTA_TRY(trainer_write_line(t, step, step_ms));
    AORTA_TRY(trainer_notice_removal(t));
    trainer_print_step(t, step, step_ms);
    if (flight->result->stop > 0) t->stopping = true;
    t->outcome->last_loss = (double)flight->result->state.loss;
    t->outcome->steps = ++t->collected;
    return NULL;
}

/* ---- the loop ---- */

/* Runs on the thread that waits for signals. When another rank has failed, the launcher ends this one; before the first
 * step it ends without a message. */
static bool say_signal(void *user, int signal) {
    struct trainer *t = user;
    const int phase = atomic_load(&t->phase);
    if (phase == TRAINER_OPENS && t->run->ranks.rank != 0) return true;
    if (phase == TRAINER_OPENS) {
        aorta_log(t->run->log, AORTA_LOG_ERROR, "interrupted by %s before the first step", strsignal(signal));
        aorta_directory_unlock(*t->run->lock);
        _exit(aorta_code_exit(AORTA_INTERRUPTED));
    }
    aorta_log(t->run->log, AORTA_LOG_WARNING, "%s: %s; once more ends at once", strsignal(signal),
              phase == TRAINER_ENDS ? "all steps are queued, the run ends as without it"
                                    : "ending after the steps in flight");
    return false;
}

static void ask_for_signal(struct trainer *t) {
    t->signal = t->outcome->signal = aorta_signals_get(t->signals);
}

static aorta_status loop(struct trainer *t) {
    for (int64_t step = 0; step < t->total_steps; step++) {
        int64_t waited_from = aorta_clock_ns(), waited_to = waited_from;
        if (t->queued - t->collected == TRAINER_SLOTS) {
            AORTA_TRY(await_oldest(t));
            waited_to = aorta_clock_ns(); /* the line that is written now keeps the host, not the device */
            AORTA_TRY(trainer_collect(t));
        }
        bool watched = t->watching;
        if (!t->stopping) AORTA_TRY(trainer_follow_schedule(t, step));
        if (t->watching != watched) waited_to = aorta_clock_ns();
        ask_for_signal(t);
        bool alone = t->context.ranks.world_size == 1;
        if (t->stopping || (t->signal && alone)) break;
        if (!t->signal && step + 1 == t->total_steps) atomic_store(&t->phase, TRAINER_ENDS);
        trainer_flight(t, step)->begun_ns = aorta_clock_ns();
        trainer_flight(t, step)->recorded = t->run->record && step % trainer_options(t)->profiling.record_every == 0;
        enum trainer_plan plan = trainer_plan(t, step);
        AORTA_TRY(trainer_begin_recording(t, step, plan, waited_from, waited_to));
        AORTA_TRY(aorta_annotate(trainer_queue_step(t, step, plan), "step %lld", (long long)step));
        t->queued++;
    }
    t->ending = true;
    while (t->collected < t->queued) AORTA_TRY(trainer_collect(t));
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

/* Where the launcher ends a rank whose mistake rank 0 has reported, it does so without a word. */
static void end_signals(struct trainer *t) {
    aorta_signals_end(t->signals);
    t->signals = NULL;
}

aorta_status aorta_train(const struct aorta_train_run *run, struct aorta_train_outcome *outcome) {
    *outcome = (struct aorta_train_outcome){.last_loss = NAN};
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
