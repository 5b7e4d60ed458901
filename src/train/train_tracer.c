/* When the kernel tracer runs, and which steps are recorded. */
#include "train/train_internal.h"

#include <stdlib.h>

/* A step that the schedule leaves out is not to pay for the tracer, but the library must have seen the graphs being
 * captured whose kernels it is to record. */
static bool is_watched(const struct trainer *t, int64_t step) {
    if (t->by_records) return true;
    const struct aorta_profiler_schedule schedule = aorta_tracing_schedule(trainer_options(t));
    return trainer_captures_steps(t) ? !aorta_profiler_schedule_over(&schedule, step)
                                     : aorta_profiler_schedule_tracing(&schedule, step);
}

/* Whether every step's times are to come from records: they cost no more than timestamps do, captured or one by one
 * (docs/results.md), but what record_every leaves out would pay as well. */
static bool wants_records(const struct trainer *t) {
    const enum aorta_kernel_timing wish = t->run->kernel_timing;
    const char *other = getenv("CUDA_INJECTION64_PATH"); /* records already, and a process has one recorder */
    if (wish != AORTA_KERNEL_TIMING_AUTO) return wish == AORTA_KERNEL_TIMING_ON;
    if (!t->run->record || trainer_options(t)->profiling.record_every > 1 || (other && *other)) return false;
    return aorta_tracer_exists(aorta_device_get_info(t->context.device)->kind);
}

/* Before the device is known. */
bool trainer_may_record(const struct trainer *t) {
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

/* A range's work within a captured step is known by its nodes. */
static aorta_status check_captured(const struct trainer *t) {
    const enum aorta_device_kind kind = aorta_device_get_info(t->context.device)->kind;
    if (!trainer_captures_steps(t) || !aorta_tracer_exists(kind) || aorta_tracer_labels(kind)) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "kernel tracing on %s: records do not say which node of a captured step they are "
                       "of; compile.enabled=false records kernels",
                       aorta_device_kind_name(kind));
}

/* Kernels are recorded for the figures or for trace files; on a CPU the ranges are the operations. */
aorta_status trainer_open_tracer(struct trainer *t) {
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

/* The device is idle then, and all records have been fetched. */
static aorta_status stop_watching(struct trainer *t) {
    while (t->collected < t->queued) AORTA_TRY(trainer_collect(t));
    if (t->input) AORTA_TRY(aorta_input_synchronize(t->input));
    AORTA_TRY(aorta_tracer_flush(t->tracer, true));
    for (int i = 0; i < TRAINER_SLOTS; i++)
        trainer_drop_graph(&t->flights[i].graphs[true]); /* captured without timestamps */
    t->watching = false;
    return aorta_tracer_stop(t->tracer);
}

aorta_status trainer_follow_schedule(struct trainer *t, int64_t step) {
    bool wanted = is_watched(t, step);
    if (!t->tracer || wanted == t->watching) return NULL;
    if (!wanted) return aorta_annotate(stop_watching(t), "profiling");
    t->watching = true;
    return aorta_annotate(aorta_tracer_start(t->tracer), "profiling");
}

/* The slot's iteration begins. A step that runs otherwise leaves other ranges than a graph was captured with, so its
 * slot's graph ends and is captured again later. A step that is not recorded leaves the slot's ranges as they are. */
aorta_status trainer_begin_recording(struct trainer *t, int64_t step, enum trainer_plan plan, int64_t waited_from,
                                     int64_t waited_to) {
    struct aorta_recorder *recorder = t->context.recorder;
    struct trainer_flight *flight = trainer_flight(t, step);
    int slot = (int)(step % TRAINER_SLOTS);
    aorta_recorder_enable(recorder, flight->recorded);
    aorta_recorder_trace(recorder, t->watching ? t->tracer : NULL);
    if (!flight->recorded) return NULL;
    if (plan != PLAN_REPLAY) trainer_drop_graph(trainer_graph(flight));
    if (plan == PLAN_REPLAY)
        aorta_recorder_replay(recorder, slot, step);
    else
        aorta_recorder_step(recorder, slot, step);
    return waited_to > waited_from ? aorta_recorder_host(recorder, AORTA_HOST_SYNC, waited_from, waited_to) : NULL;
}
