#include "base/clock.h"
#include "base/files.h"
#include "base/thread.h"
#include "measure/step_traces.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct aorta_metrics_writer {
    int file;
    off_t length; /* of the whole lines written so far */
    struct aorta_file_path directory, path;
    char name[64];
    _Atomic(char *) moved;  /* directory of the new file after the file was removed; NULL: not removed */
    struct aorta_text line; /* reused for each line, so that memory is taken once */
};

/* An empty file, or a pipe that somebody reads. The target of a link is outside the directory and stays as it is. A
 * file is opened for reading too, so that its lines are not lost with its name. */
static int open_lines(const char *path) {
    struct stat info;
    int access_mode = stat(path, &info) == 0 && S_ISFIFO(info.st_mode) ? O_WRONLY : O_RDWR;
    int file = open(path, access_mode | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (file < 0) return -1;
    bool ready = fstat(file, &info) == 0 && fcntl(file, F_SETFL, 0) == 0 &&
                 (S_ISREG(info.st_mode) ? ftruncate(file, 0) == 0 : S_ISFIFO(info.st_mode));
    if (ready) return file;
    close(file);
    errno = EMEDIUMTYPE;
    return -1;
}

static const char *why_not(int error) {
    if (error == ELOOP) return "it is a link, which is not followed";
    if (error == ENXIO) return "it is a pipe that nobody reads";
    return error == EMEDIUMTYPE ? "it is no regular file" : strerror(error);
}

static void release(struct aorta_metrics_writer *writer) {
    free(atomic_load(&writer->moved));
    aorta_text_free(&writer->line);
    free(writer);
}

aorta_status aorta_metrics_open(const char *directory, int rank, struct aorta_metrics_writer **writer) {
    *writer = NULL;
    struct aorta_metrics_writer *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no memory for the lines of rank %d", rank);
    snprintf(made->name, sizeof made->name, "rank_%02d_metrics.jsonl", rank);
    made->directory = aorta_path_in("", "%s", directory);
    made->path = aorta_path_in(directory, "%s", made->name);
    made->file = open_lines(made->path.text);
    if (made->file < 0) {
        aorta_status status = AORTA_ERROR(AORTA_IO, "cannot write %s: %s; remove it, or choose another directory",
                                          made->path.text, why_not(errno));
        release(made);
        return status;
    }
    *writer = made;
    return NULL;
}

/* ---- a file that was removed ---- */

static bool is_removed(const struct aorta_metrics_writer *writer) {
    struct stat info;
    return fstat(writer->file, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0;
}

/* 0, or errno. */
static int copy_lines(int from, off_t length, int to) {
    char bytes[1 << 16];
    for (off_t at = 0; at < length;) {
        ssize_t got = pread(from, bytes, sizeof bytes, at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got ? errno : EIO;
        int error = aorta_write_all(to, bytes, (size_t)got);
        if (error) return error;
        at += got;
    }
    return 0;
}

/* Makes a new file with the lines so far in this directory. Returns 0 or errno. */
static int make_again(struct aorta_metrics_writer *writer, const char *directory) {
    const struct aorta_file_path path = aorta_path_in(directory, "%s", writer->name);
    char *moved = strdup(directory);
    int file = moved ? open(path.text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644) : -1;
    int error = file < 0 ? errno : copy_lines(writer->file, writer->length, file);
    if (error) {
        if (file >= 0) {
            unlink(path.text);
            close(file);
        }
        free(moved);
        return error;
    }
    close(writer->file);
    writer->file = file;
    writer->path = path;
    if (atomic_load(&writer->moved))
        free(moved); /* removed again: callers may have the first path */
    else
        atomic_store(&writer->moved, moved);
    return 0;
}

/* Tries several times, as the removal may still run and remove the new directory. */
static bool make_again_in_place(struct aorta_metrics_writer *writer) {
    int error = ENOENT;
    for (int attempt = 0; attempt < 100 && error == ENOENT; attempt++) {
        aorta_status status = aorta_directory_make(writer->directory.text);
        error = status ? ENOENT : make_again(writer, writer->directory.text);
        aorta_status_free(status);
        if (error == ENOENT) usleep(1000);
    }
    return error == 0;
}

/* Makes a removed file again, elsewhere if necessary. If that fails, lines go to the removed file and will be lost,
 * which is an error. */
static aorta_status rescue(struct aorta_metrics_writer *writer) {
    if (make_again_in_place(writer)) return NULL;
    const char *parent = getenv("TMPDIR");
    struct aorta_file_path elsewhere = aorta_path_in(parent && *parent ? parent : "/tmp", "aorta-rescued-XXXXXX");
    if (mkdtemp(elsewhere.text) && make_again(writer, elsewhere.text) == 0) return NULL;
    return AORTA_ERROR(AORTA_IO,
                       "%s was removed, and could not be made again, neither there nor in the temporary directory",
                       writer->path.text);
}

const char *aorta_metrics_moved(struct aorta_metrics_writer *writer) {
    return atomic_load(&writer->moved);
}

aorta_status aorta_metrics_write(struct aorta_metrics_writer *writer, const struct aorta_step_metrics *metrics) {
    aorta_text_clear(&writer->line);
    AORTA_TRY(aorta_metrics_format(metrics, &writer->line));
    aorta_text_puts(&writer->line, "\n");
    AORTA_TRY(aorta_text_check(&writer->line));
    int error = aorta_write_all(writer->file, writer->line.data, writer->line.length);
    if (!error) {
        writer->length += (off_t)writer->line.length;
        return is_removed(writer) ? rescue(writer) : NULL;
    }
    /* Cuts an incomplete line, so that the lines before it stay valid. */
    int cut = ftruncate(writer->file, writer->length);
    return AORTA_ERROR(AORTA_IO, "cannot write iteration %lld to %s: %s%s", (long long)metrics->global_step,
                       writer->path.text, strerror(error), cut ? " (its last line is incomplete)" : "");
}

aorta_status aorta_metrics_close(struct aorta_metrics_writer *writer) {
    if (!writer) return NULL;
    aorta_status status = NULL;
    if (close(writer->file) != 0)
        status = AORTA_ERROR(AORTA_IO, "cannot finish %s: %s", writer->path.text, strerror(errno));
    release(writer);
    return status;
}

/* ---- lines in order, on their own thread: a step of a thousand kernels takes milliseconds, which must not delay the
 * thread that launches the next step ---- */

/* Launches may wait while the library flushes records. So after a look without result, the next look is after
 * LOOK_STEPS new steps or LOOK_NS. */
enum { LOOK_STEPS = 16, LOOK_NS = 50000000 };

/* A finished step whose kernel records are awaited. */
struct line {
    struct aorta_step_metrics metrics; /* pointers are set for writing */
    struct aorta_memory_info memory;
    struct aorta_step_readings readings;
    struct aorta_profile profile;
    struct aorta_launches launches;
    int64_t done_ns;
    bool recorded, traced; /* not recorded: no profile; not traced: waits for no records */
};

struct aorta_metrics_lines {
    struct aorta_tracer *tracer; /* NULL: no step is traced, and there is no thread */
    struct aorta_metrics_writer *writer;
    struct aorta_step_traces *traces; /* NULL: none */
    pthread_t thread;
    /* End of the previous line's last range and last kernel; INT64_MIN: unknown. Used by the thread only. */
    int64_t last_range_ns, last_kernel_ns;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct line lines[AORTA_METRICS_LINES]; /* a ring; the thread uses the first line without the lock */
    int first, count;
    int64_t added;       /* lines in all */
    bool finish, ending; /* all are to be written; the thread is to end */
    aorta_status status; /* the first failure; nothing is written after it */
};

/* ---- the thread ---- */

/* The kernels of a step. */
struct view {
    struct aorta_profile kernels;
    struct aorta_activity_record *records;
    size_t count;
};

/* The ranges of the line have their times then. */
static aorta_status make_view(struct aorta_metrics_lines *lines, struct line *line, struct view *view) {
    struct aorta_profile *kernels = &view->kernels;
    AORTA_TRY(aorta_tracer_take(lines->tracer, &line->launches, kernels, &view->records, &view->count));
    AORTA_TRY(aorta_kernels_join(kernels, view->records, &line->profile, &line->launches, line->done_ns));
    AORTA_TRY(aorta_overlap_compute(kernels, lines->last_kernel_ns));
    lines->last_kernel_ns = kernels->range_count ? kernels->end_ns : INT64_MIN;
    return NULL;
}

static aorta_status make_views(struct aorta_metrics_lines *lines, struct line *line, struct view *view) {
    if (line->traced) AORTA_TRY(make_view(lines, line, view));
    AORTA_TRY(aorta_overlap_compute(&line->profile, lines->last_range_ns));
    if (line->profile.range_count) lines->last_range_ns = line->profile.end_ns;
    return NULL;
}

static aorta_status write_views(struct aorta_metrics_lines *lines, struct line *line, struct view *view) {
    struct aorta_step_metrics metrics = line->metrics;
    if (metrics.memory) metrics.memory = &line->memory;
    if (metrics.readings) metrics.readings = &line->readings;
    metrics.profile = line->recorded ? &line->profile : NULL;
    metrics.kernel_profile = line->traced ? &view->kernels : NULL;
    AORTA_TRY(aorta_metrics_write(lines->writer, &metrics));
    return lines->traces ? aorta_step_traces_add(lines->traces, &metrics, view->records, view->count) : NULL;
}

static aorta_status write_line(struct aorta_metrics_lines *lines, struct line *line) {
    struct view view = {0};
    if (!line->traced) lines->last_kernel_ns = INT64_MIN;
    if (!line->recorded) lines->last_range_ns = line->done_ns; /* its last range would have ended just before */
    aorta_status status = line->recorded ? make_views(lines, line, &view) : NULL;
    if (!status) status = write_views(lines, line, &view);
    aorta_profile_free(&view.kernels);
    free(view.records);
    return status;
}

static void free_line(struct line *line) {
    aorta_profile_free(&line->profile);
    free(line->launches.ranges);
}

static void drop_first(struct aorta_metrics_lines *lines) {
    free_line(&lines->lines[lines->first]);
    lines->first = (lines->first + 1) % AORTA_METRICS_LINES;
    lines->count--;
}

/* Called with the lock, which is released in between. *written is false if the first line's records have not arrived.
 */
static aorta_status try_first(struct aorta_metrics_lines *lines, bool at_once, bool *written) {
    struct line *line = &lines->lines[lines->first];
    aorta_status status = NULL;
    bool finish = lines->finish && line->traced;
    at_once = at_once || !line->traced;
    *written = at_once;
    pthread_mutex_unlock(&lines->lock);
    if (finish) status = aorta_tracer_flush(lines->tracer, true);
    if (!status && !at_once) status = aorta_tracer_reached(lines->tracer, line->done_ns, written);
    if (!status && *written) status = write_line(lines, line);
    pthread_mutex_lock(&lines->lock);
    return status;
}

/* The last look that found records of the first line missing. LONG_AGO: none since the last written line. */
struct look {
    int64_t added; /* lines by then */
    int64_t time_ns;
};
#define LONG_AGO (INT64_MIN / 2)

/* Time of the next look at the first line. INT64_MAX: only after a change. */
static int64_t due_ns(const struct aorta_metrics_lines *lines, const struct look *last) {
    if (!lines->count || lines->status) return INT64_MAX;
    bool full = lines->count == AORTA_METRICS_LINES;
    if (full || lines->finish || !lines->lines[lines->first].traced) return INT64_MIN;
    if (lines->added == last->added) return INT64_MAX;
    return lines->added - last->added >= LOOK_STEPS ? INT64_MIN : last->time_ns + LOOK_NS;
}

static void wait_until(struct aorta_metrics_lines *lines, int64_t time_ns) {
    if (time_ns == INT64_MAX)
        pthread_cond_wait(&lines->changed, &lines->lock);
    else
        aorta_cond_wait_until(&lines->changed, &lines->lock, time_ns);
}

static void *run(void *argument) {
    struct aorta_metrics_lines *lines = argument;
    struct look last = {.time_ns = LONG_AGO};
    pthread_mutex_lock(&lines->lock);
    while (!lines->ending) {
        int64_t due = due_ns(lines, &last);
        if (due > aorta_clock_ns()) {
            wait_until(lines, due);
            continue;
        }
        bool written = false;
        int64_t added = lines->added;
        lines->status = try_first(lines, lines->count == AORTA_METRICS_LINES || lines->finish, &written);
        if (written) {
            drop_first(lines);
            last.time_ns = LONG_AGO; /* the next one's records may have come with these */
        } else {
            last = (struct look){added, aorta_clock_ns()};
        }
        pthread_cond_broadcast(&lines->changed);
    }
    pthread_mutex_unlock(&lines->lock);
    return NULL;
}

/* ---- the caller's side ---- */

aorta_status aorta_metrics_lines_open(struct aorta_tracer *tracer, struct aorta_metrics_writer *writer,
                                      struct aorta_step_traces *traces, struct aorta_metrics_lines **lines) {
    *lines = NULL;
    struct aorta_metrics_lines *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no memory for the metrics lines");
    made->tracer = tracer;
    made->writer = writer;
    made->traces = traces;
    made->last_range_ns = made->last_kernel_ns = INT64_MIN;
    pthread_mutex_init(&made->lock, NULL);
    aorta_cond_init(&made->changed);
    int error = tracer ? aorta_thread_start(&made->thread, run, made) : 0;
    if (error) {
        pthread_cond_destroy(&made->changed);
        pthread_mutex_destroy(&made->lock);
        free(made);
        return AORTA_ERROR(AORTA_MEMORY, "no thread for the metrics lines: %s", strerror(error));
    }
    *lines = made;
    return NULL;
}

void aorta_metrics_lines_close(struct aorta_metrics_lines *lines) {
    if (!lines) return;
    pthread_mutex_lock(&lines->lock);
    lines->ending = true;
    pthread_cond_broadcast(&lines->changed);
    pthread_mutex_unlock(&lines->lock);
    if (lines->tracer) pthread_join(lines->thread, NULL);
    while (lines->count) drop_first(lines);
    aorta_status_free(lines->status);
    pthread_cond_destroy(&lines->changed);
    pthread_mutex_destroy(&lines->lock);
    free(lines);
}

/* Returns the thread's failure once and drops all waiting lines. Called with the lock. */
static aorta_status failure_of(struct aorta_metrics_lines *lines) {
    aorta_status status = lines->status;
    while (status && lines->count) drop_first(lines);
    lines->status = NULL;
    return status;
}

/* Has the profile and the launches from here on. */
static struct line line_of(const struct aorta_step_metrics *metrics, struct aorta_profile *profile,
                           struct aorta_launches *launches, int64_t done_ns) {
    struct line line = {.metrics = *metrics, .done_ns = done_ns, .recorded = profile != NULL};
    if (metrics->memory) line.memory = *metrics->memory;
    if (metrics->readings) line.readings = *metrics->readings;
    if (!profile) return line;
    line.profile = *profile;
    memset(profile, 0, sizeof *profile);
    line.traced = launches && launches->ranges;
    if (!line.traced) return line;
    line.launches = *launches;
    launches->ranges = NULL;
    return line;
}

aorta_status aorta_metrics_lines_add(struct aorta_metrics_lines *lines, const struct aorta_step_metrics *metrics,
                                     struct aorta_profile *profile, struct aorta_launches *launches, int64_t done_ns) {
    struct line line = line_of(metrics, profile, launches, done_ns);
    if (!lines->tracer) { /* writes at once, so that the line is complete even if the program is killed */
        aorta_status status = write_line(lines, &line);
        free_line(&line);
        return status;
    }
    pthread_mutex_lock(&lines->lock);
    while (lines->count == AORTA_METRICS_LINES && !lines->status) pthread_cond_wait(&lines->changed, &lines->lock);
    aorta_status status = failure_of(lines);
    if (status) {
        free_line(&line);
    } else {
        lines->lines[(lines->first + lines->count) % AORTA_METRICS_LINES] = line;
        lines->count++;
        lines->added++;
        pthread_cond_broadcast(&lines->changed);
    }
    pthread_mutex_unlock(&lines->lock);
    return status;
}

aorta_status aorta_metrics_lines_finish(struct aorta_metrics_lines *lines) {
    pthread_mutex_lock(&lines->lock);
    lines->finish = true;
    pthread_cond_broadcast(&lines->changed);
    while (lines->count && !lines->status) pthread_cond_wait(&lines->changed, &lines->lock);
    lines->finish = false;
    aorta_status status = failure_of(lines);
    pthread_mutex_unlock(&lines->lock);
    return status;
}
