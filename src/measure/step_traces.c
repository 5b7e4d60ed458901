#include "measure/step_traces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the schedule ---- */

static int64_t length_of(const struct aorta_profiler_schedule *schedule) {
    return schedule->wait + schedule->warmup + schedule->active;
}

bool aorta_profiler_schedule_active(const struct aorta_profiler_schedule *schedule, int64_t step, int64_t *cycle) {
    const int64_t length = length_of(schedule);
    *cycle = step / length;
    if (schedule->repeat && *cycle >= schedule->repeat) return false;
    return step % length >= schedule->wait + schedule->warmup;
}

bool aorta_profiler_schedule_tracing(const struct aorta_profiler_schedule *schedule, int64_t step) {
    return !aorta_profiler_schedule_over(schedule, step) && step % length_of(schedule) >= schedule->wait;
}

bool aorta_profiler_schedule_over(const struct aorta_profiler_schedule *schedule, int64_t step) {
    return schedule->repeat && step / length_of(schedule) >= schedule->repeat;
}

int64_t aorta_profiler_schedule_first_step(const struct aorta_profiler_schedule *schedule, int64_t cycle) {
    return cycle * length_of(schedule) + schedule->wait + schedule->warmup;
}

/* ---- files ---- */

struct aorta_step_traces {
    struct aorta_step_traces_settings settings; /* but for its strings */
    struct aorta_file_path directory, chrome;   /* copies of the settings'; empty: none */
    struct aorta_kineto *file;                  /* NULL: none is open */
    int64_t cycle;                              /* that the file is of */
    struct aorta_file_path path;                /* of the file; the first of two */
    bool failed;                                /* nothing is written any more */
    int64_t written;
    struct aorta_file_path last; /* the file written last */
};

/* "trace.json", or "trace_step5.json" for one cycle of several. */
static struct aorta_file_path chrome_name(const struct aorta_step_traces *traces) {
    const char *chrome = traces->chrome.text, *slash = strrchr(chrome, '/'), *dot = strrchr(chrome, '.');
    if (traces->settings.schedule.repeat == 1) return traces->chrome;
    size_t stem = dot && (!slash || dot > slash + 1) ? (size_t)(dot - chrome) : strlen(chrome);
    long long step = (long long)aorta_profiler_schedule_first_step(&traces->settings.schedule, traces->cycle);
    return aorta_path_in("", "%.*s_step%lld%s", (int)stem, chrome, step, chrome + stem);
}

static aorta_status begin_file(struct aorta_step_traces *traces, int64_t cycle) {
    traces->cycle = cycle;
    if (*traces->directory.text)
        AORTA_TRY(aorta_kineto_path(traces->directory.text, traces->settings.about.rank, &traces->path));
    else
        traces->path = chrome_name(traces);
    return aorta_kineto_open(traces->path.text, &traces->settings.about, &traces->file);
}

/* File systems without links get a copy. */
static aorta_status give_second_name(const char *path, const char *second) {
    unlink(second);
    if (link(path, second) == 0) return NULL;
    char *bytes;
    size_t length;
    AORTA_TRY(aorta_file_read(path, &bytes, &length));
    aorta_status status = aorta_file_replace(second, bytes, length);
    free(bytes);
    return status;
}

static aorta_status end_file(struct aorta_step_traces *traces) {
    if (!traces->file) return NULL;
    struct aorta_kineto *file = traces->file;
    traces->file = NULL;
    aorta_status status = aorta_kineto_close(file);
    if (!status && *traces->directory.text && *traces->chrome.text)
        status = give_second_name(traces->path.text, chrome_name(traces).text);
    if (status) return status;
    traces->last = traces->path;
    traces->written++;
    return NULL;
}

static aorta_status write_step(struct aorta_step_traces *traces, const struct aorta_step_metrics *metrics,
                               int64_t cycle, const struct aorta_activity_record *records, size_t count) {
    if (traces->file && cycle != traces->cycle) AORTA_TRY(end_file(traces));
    if (!traces->file) AORTA_TRY(begin_file(traces, cycle));
    const struct aorta_step_readings *readings = metrics->readings;
    const struct aorta_kineto_step step = {
        .number = metrics->global_step,
        .ranges = metrics->profile,
        .kernels = metrics->kernel_profile,
        .records = records,
        .record_count = count,
        .memory = metrics->memory,
        .device = !readings                         ? NULL
                  : readings->device_metrics.wanted ? &readings->device_metrics
                                                    : &readings->rocm_smi_output,
    };
    AORTA_TRY(aorta_kineto_add(traces->file, &step));
    const struct aorta_profiler_schedule *schedule = &traces->settings.schedule;
    const bool last = step.number + 1 == aorta_profiler_schedule_first_step(schedule, cycle) + schedule->active;
    return last ? end_file(traces) : NULL;
}

/* ---- the caller's side ---- */

static aorta_status make_folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return NULL;
    return aorta_directory_make(aorta_path_in("", "%.*s", (int)(slash - path), path).text);
}

static aorta_status prepare(struct aorta_step_traces *traces, const struct aorta_step_traces_settings *settings) {
    traces->settings = *settings;
    if (!traces->settings.about.thread) traces->settings.about.thread = gettid();
    if (!traces->settings.about.clock_offset_ns) traces->settings.about.clock_offset_ns = aorta_kineto_clock_offset();
    if (settings->directory) traces->directory = aorta_path_in("", "%s", settings->directory);
    if (settings->chrome) traces->chrome = aorta_path_in("", "%s", settings->chrome);
    if (settings->directory) AORTA_TRY(aorta_directory_make(settings->directory));
    return settings->chrome ? make_folder_of(settings->chrome) : NULL;
}

aorta_status aorta_step_traces_open(const struct aorta_step_traces_settings *settings,
                                    struct aorta_step_traces **traces) {
    *traces = NULL;
    struct aorta_step_traces *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no memory for trace files");
    aorta_status status = prepare(made, settings);
    if (status) {
        aorta_step_traces_close(made);
        return status;
    }
    *traces = made;
    return NULL;
}

static aorta_status keep_failure(struct aorta_step_traces *traces, aorta_status status) {
    traces->failed |= status != NULL;
    return aorta_annotate(status, "profiling");
}

aorta_status aorta_step_traces_add(struct aorta_step_traces *traces, const struct aorta_step_metrics *metrics,
                                   const struct aorta_activity_record *records, size_t count) {
    int64_t cycle;
    if (traces->failed || !metrics->profile ||
        !aorta_profiler_schedule_active(&traces->settings.schedule, metrics->global_step, &cycle))
        return NULL;
    return keep_failure(traces, write_step(traces, metrics, cycle, records, count));
}

aorta_status aorta_step_traces_finish(struct aorta_step_traces *traces) {
    return traces->failed ? NULL : keep_failure(traces, end_file(traces));
}

int64_t aorta_step_traces_written(const struct aorta_step_traces *traces, const char **last) {
    *last = traces->last.text;
    return traces->written;
}

void aorta_step_traces_close(struct aorta_step_traces *traces) {
    if (!traces) return;
    aorta_kineto_abandon(traces->file);
    free(traces);
}
