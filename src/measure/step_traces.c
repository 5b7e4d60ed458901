#include "measure/step_traces.h"

#include "base/files.h"
#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAITING = 16 }; /* steps that may wait for the thread */

/* ---- the schedule ---- */

bool aorta_profiler_schedule_active(const struct aorta_profiler_schedule *schedule, int64_t step, int64_t *cycle) {
    int64_t length = schedule->wait + schedule->warmup + schedule->active;
    *cycle = step / length;
    if (schedule->repeat && *cycle >= schedule->repeat) return false;
    return step % length >= schedule->wait + schedule->warmup;
}

bool aorta_profiler_schedule_tracing(const struct aorta_profiler_schedule *schedule, int64_t step) {
    int64_t length = schedule->wait + schedule->warmup + schedule->active;
    return !aorta_profiler_schedule_over(schedule, step) && step % length >= schedule->wait;
}

bool aorta_profiler_schedule_over(const struct aorta_profiler_schedule *schedule, int64_t step) {
    int64_t length = schedule->wait + schedule->warmup + schedule->active;
    return schedule->repeat && step / length >= schedule->repeat;
}

int64_t aorta_profiler_schedule_first_step(const struct aorta_profiler_schedule *schedule, int64_t cycle) {
    int64_t length = schedule->wait + schedule->warmup + schedule->active;
    return cycle * length + schedule->wait + schedule->warmup;
}

/* ---- the steps that wait ---- */

/* A copy of what a file needs of a step. */
struct item {
    int64_t step, cycle;
    bool traced, measured; /* has kernels; has memory */
    struct aorta_profile ranges, kernels;
    struct aorta_activity_record *records;
    size_t count;
    struct aorta_memory_info memory;
    struct aorta_device_reading device;
};

struct aorta_step_traces {
    struct aorta_step_traces_settings settings; /* with strings of its own */
    char *directory, *chrome;
    pthread_t thread;
    struct aorta_kineto *file; /* the thread's; NULL: none is open */
    int64_t cycle;             /* that the file is of */
    char *path;                /* of the file; the first of two */
    char *chrome_path;         /* the second name, where both are asked for */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct item items[WAITING]; /* a ring; the first is the thread's while it works on it */
    int first, count;
    bool finish, ending; /* the file is to be ended; the thread is to end */
    bool failed;         /* nothing is written any more */
    aorta_status status; /* the failure, until it is returned */
    int64_t written;
    char *last; /* path of the file written last */
};

static void free_item(struct item *item) {
    aorta_profile_free(&item->ranges);
    aorta_profile_free(&item->kernels);
    free(item->records);
    memset(item, 0, sizeof *item);
}

static aorta_status fill_item(struct item *item, const struct aorta_step_metrics *metrics,
                              const struct aorta_activity_record *records, size_t count) {
    if (metrics->memory) item->memory = *metrics->memory;
    item->measured = metrics->memory != NULL;
    item->device = metrics->device_metrics.wanted ? metrics->device_metrics : metrics->rocm_smi_output;
    item->traced = metrics->kernel_profile != NULL;
    AORTA_TRY(aorta_profile_copy(metrics->profile, &item->ranges));
    if (!item->traced) return NULL;
    AORTA_TRY(aorta_profile_copy(metrics->kernel_profile, &item->kernels));
    item->records = malloc((count + 1) * sizeof *records);
    if (!item->records) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu kernel records of a trace", count);
    if (count) memcpy(item->records, records, count * sizeof *records);
    item->count = count;
    return NULL;
}

/* ---- files; on the thread ---- */

/* "trace.json", or "trace_step5.json" for one cycle of several. */
static char *chrome_name(const struct aorta_step_traces *traces) {
    char *name;
    if (traces->settings.schedule.repeat == 1) return strdup(traces->chrome);
    const char *slash = strrchr(traces->chrome, '/'), *dot = strrchr(traces->chrome, '.');
    size_t stem = dot && (!slash || dot > slash + 1) ? (size_t)(dot - traces->chrome) : strlen(traces->chrome);
    long long step = (long long)aorta_profiler_schedule_first_step(&traces->settings.schedule, traces->cycle);
    int made = asprintf(&name, "%.*s_step%lld%s", (int)stem, traces->chrome, step, traces->chrome + stem);
    return made < 0 ? NULL : name;
}

static aorta_status begin_file(struct aorta_step_traces *traces, int64_t cycle) {
    traces->cycle = cycle;
    char *chrome = traces->chrome ? chrome_name(traces) : NULL;
    if (traces->chrome && !chrome) return AORTA_ERROR(AORTA_MEMORY, "no memory for the name of a trace file");
    if (!traces->directory) {
        traces->path = chrome;
    } else {
        traces->chrome_path = chrome;
        AORTA_TRY(aorta_kineto_path(traces->directory, traces->settings.about.rank, &traces->path));
    }
    return aorta_kineto_open(traces->path, &traces->settings.about, &traces->file);
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
    if (!status && traces->chrome_path) status = give_second_name(traces->path, traces->chrome_path);
    free(traces->chrome_path);
    traces->chrome_path = NULL;
    pthread_mutex_lock(&traces->lock);
    if (!status) {
        free(traces->last);
        traces->last = traces->path;
        traces->path = NULL;
        traces->written++;
    }
    pthread_mutex_unlock(&traces->lock);
    free(traces->path);
    traces->path = NULL;
    return status;
}

static aorta_status write_item(struct aorta_step_traces *traces, const struct item *item) {
    if (traces->file && item->cycle != traces->cycle) AORTA_TRY(end_file(traces));
    if (!traces->file) AORTA_TRY(begin_file(traces, item->cycle));
    struct aorta_kineto_step step = {
        .number = item->step,
        .ranges = &item->ranges,
        .kernels = item->traced ? &item->kernels : NULL,
        .records = item->traced ? item->records : NULL,
        .record_count = item->count,
        .memory = item->measured ? &item->memory : NULL,
        .device = &item->device,
    };
    AORTA_TRY(aorta_kineto_add(traces->file, &step));
    const struct aorta_profiler_schedule *schedule = &traces->settings.schedule;
    bool last = item->step + 1 == aorta_profiler_schedule_first_step(schedule, item->cycle) + schedule->active;
    return last ? end_file(traces) : NULL;
}

/* ---- the thread ---- */

static void drop_first(struct aorta_step_traces *traces) {
    free_item(&traces->items[traces->first]);
    traces->first = (traces->first + 1) % WAITING;
    traces->count--;
}

static bool has_work(const struct aorta_step_traces *traces) {
    return !traces->failed && (traces->count || traces->finish);
}

static void *run(void *argument) {
    struct aorta_step_traces *traces = argument;
    pthread_mutex_lock(&traces->lock);
    while (!traces->ending) {
        if (!has_work(traces)) {
            pthread_cond_wait(&traces->changed, &traces->lock);
            continue;
        }
        bool item = traces->count > 0;
        pthread_mutex_unlock(&traces->lock);
        aorta_status status = item ? write_item(traces, &traces->items[traces->first]) : end_file(traces);
        pthread_mutex_lock(&traces->lock);
        traces->status = status;
        traces->failed = status != NULL;
        if (item)
            drop_first(traces);
        else
            traces->finish = false;
        pthread_cond_broadcast(&traces->changed);
    }
    pthread_mutex_unlock(&traces->lock);
    return NULL;
}

/* ---- the caller's side ---- */

static aorta_status make_folder_of(const char *path) {
    char *folder = strdup(path);
    if (!folder) return AORTA_ERROR(AORTA_MEMORY, "no memory to make the folder of %s", path);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    aorta_status status = slash && *folder ? aorta_directory_make(folder) : NULL;
    free(folder);
    return status;
}

static aorta_status prepare(struct aorta_step_traces *traces, const struct aorta_step_traces_settings *settings) {
    traces->settings = *settings;
    if (!traces->settings.about.thread) traces->settings.about.thread = gettid();
    if (!traces->settings.about.clock_offset_ns) traces->settings.about.clock_offset_ns = aorta_kineto_clock_offset();
    traces->directory = settings->directory ? strdup(settings->directory) : NULL;
    traces->chrome = settings->chrome ? strdup(settings->chrome) : NULL;
    if ((settings->directory && !traces->directory) || (settings->chrome && !traces->chrome))
        return AORTA_ERROR(AORTA_MEMORY, "no memory for the names of trace files");
    if (traces->directory) AORTA_TRY(aorta_directory_make(traces->directory));
    if (traces->chrome) AORTA_TRY(make_folder_of(traces->chrome));
    return NULL;
}

static void free_all(struct aorta_step_traces *traces) {
    while (traces->count) drop_first(traces);
    aorta_kineto_abandon(traces->file);
    aorta_status_free(traces->status);
    pthread_cond_destroy(&traces->changed);
    pthread_mutex_destroy(&traces->lock);
    free(traces->directory);
    free(traces->chrome);
    free(traces->path);
    free(traces->chrome_path);
    free(traces->last);
    free(traces);
}

aorta_status aorta_step_traces_open(const struct aorta_step_traces_settings *settings,
                                    struct aorta_step_traces **traces) {
    *traces = NULL;
    struct aorta_step_traces *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no memory for trace files");
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    aorta_status status = prepare(made, settings);
    int error = status ? 0 : aorta_thread_start(&made->thread, run, made);
    if (error) status = AORTA_ERROR(AORTA_MEMORY, "no thread for trace files: %s", strerror(error));
    if (status) {
        free_all(made);
        return status;
    }
    *traces = made;
    return NULL;
}

/* The thread's failure, returned once; called with the lock. What waits after it is dropped. */
static aorta_status failure_of(struct aorta_step_traces *traces) {
    aorta_status status = traces->status;
    while (traces->failed && traces->count) drop_first(traces);
    traces->status = NULL;
    return aorta_annotate(status, "profiling");
}

aorta_status aorta_step_traces_add(struct aorta_step_traces *traces, const struct aorta_step_metrics *metrics,
                                   const struct aorta_activity_record *records, size_t count) {
    int64_t cycle;
    if (!metrics->profile || !aorta_profiler_schedule_active(&traces->settings.schedule, metrics->global_step, &cycle))
        return NULL;
    struct item item = {.step = metrics->global_step, .cycle = cycle};
    aorta_status status = fill_item(&item, metrics, records, count);
    if (status) {
        free_item(&item);
        return status;
    }
    pthread_mutex_lock(&traces->lock);
    while (traces->count == WAITING && !traces->failed) pthread_cond_wait(&traces->changed, &traces->lock);
    status = failure_of(traces);
    if (traces->failed) {
        free_item(&item);
    } else {
        traces->items[(traces->first + traces->count) % WAITING] = item;
        traces->count++;
        pthread_cond_broadcast(&traces->changed);
    }
    pthread_mutex_unlock(&traces->lock);
    return status;
}

aorta_status aorta_step_traces_finish(struct aorta_step_traces *traces) {
    pthread_mutex_lock(&traces->lock);
    traces->finish = true;
    pthread_cond_broadcast(&traces->changed);
    while (traces->finish && !traces->failed) pthread_cond_wait(&traces->changed, &traces->lock);
    traces->finish = false;
    aorta_status status = failure_of(traces);
    pthread_mutex_unlock(&traces->lock);
    return status;
}

int64_t aorta_step_traces_written(struct aorta_step_traces *traces, const char **last) {
    pthread_mutex_lock(&traces->lock);
    int64_t written = traces->written;
    *last = traces->last ? traces->last : "";
    pthread_mutex_unlock(&traces->lock);
    return written;
}

void aorta_step_traces_close(struct aorta_step_traces *traces) {
    if (!traces) return;
    pthread_mutex_lock(&traces->lock);
    traces->ending = true;
    pthread_cond_broadcast(&traces->changed);
    pthread_mutex_unlock(&traces->lock);
    pthread_join(traces->thread, NULL);
    free_all(traces);
}
