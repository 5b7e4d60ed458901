#include "measure/run_files.h"
#include "base/sort.h"
#include "trace/reader.h"
#include "trace/source.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- which files ---- */

/* The rank in "rank_07_metrics.jsonl", or -1. */
static int rank_of_name(const char *name) {
    int rank = -1, length = 0;
    char expected[64];
    if (sscanf(name, "rank_%d_metrics.jsonl%n", &rank, &length) != 1 || length == 0 || name[length]) return -1;
    snprintf(expected, sizeof expected, "rank_%02d_metrics.jsonl", rank);
    return strcmp(name, expected) == 0 ? rank : -1;
}

static aorta_status add_rank(struct aorta_run *run, size_t *capacity, int rank) {
    if (rank < 0) return NULL;
    AORTA_TRY(aorta_array_reserve(&run->ranks, capacity, run->rank_count + 1, sizeof *run->ranks, "ranks"));
    run->ranks[run->rank_count++] = rank;
    return NULL;
}

static aorta_status find_files(struct aorta_run *run) {
    DIR *directory = opendir(run->directory);
    if (!directory)
        return AORTA_ERROR(AORTA_USAGE, "cannot read the run directory %s: %s", run->directory, strerror(errno));
    aorta_status status = NULL;
    size_t capacity = 0;
    for (struct dirent *entry; !status && (entry = readdir(directory));)
        status = add_rank(run, &capacity, rank_of_name(entry->d_name));
    closedir(directory);
    if (!status && run->rank_count == 0)
        status = AORTA_ERROR(AORTA_USAGE,
                             "%s holds no rank_RR_metrics.jsonl; name the directory that a run wrote "
                             "(training.output_dir)",
                             run->directory);
    if (!status) qsort(run->ranks, run->rank_count, sizeof *run->ranks, aorta_by_int32);
    return status;
}

bool aorta_run_is_directory(const char *path) {
    bool found = false;
    DIR *directory = opendir(path);
    if (!directory) return false;
    for (struct dirent *entry; !found && (entry = readdir(directory));) found = rank_of_name(entry->d_name) >= 0;
    closedir(directory);
    return found;
}

/* ---- one file ---- */

struct file {
    char path[4096];
    int rank;             /* from the file's name; -1: none */
    int64_t line, offset; /* of the line being read: number from 1, first byte from 0 */
    size_t first_step;    /* index of the file's first step */
    int64_t recorded;     /* lines with ranges so far */
};

static aorta_status check_belongs(const struct aorta_run *run, const struct file *file,
                                  const struct aorta_step_metrics *step) {
    if (file->rank >= 0 && step->rank != file->rank)
        return AORTA_ERROR(AORTA_FORMAT, "the line is of rank %d, the file's name says %d", step->rank, file->rank);
    if (run->step_count && step->world_size != run->world_size)
        return AORTA_ERROR(AORTA_FORMAT, "world_size is %d, elsewhere in this directory %d: files of different runs",
                           step->world_size, run->world_size);
    if (run->step_count > file->first_step && step->global_step <= run->steps[run->step_count - 1].global_step)
        return AORTA_ERROR(AORTA_FORMAT, "global_step %lld follows %lld: the file holds more than one run",
                           (long long)step->global_step, (long long)run->steps[run->step_count - 1].global_step);
    return NULL;
}

static aorta_status add_line(struct aorta_run *run, struct file *file, const char *line, size_t length) {
    AORTA_TRY(
        aorta_array_reserve(&run->steps, &run->step_capacity, run->step_count + 1, sizeof *run->steps, "iterations"));
    struct aorta_step_metrics *step = &run->steps[run->step_count];
    const bool with_ranges = file->recorded % run->read_every == 0; /* on all ranks, as they record the same steps */
    AORTA_TRY(aorta_run_parse_line(line, length, with_ranges, run, step));
    aorta_status status = check_belongs(run, file, step);
    if (status) {
        aorta_run_step_free(step);
        return status;
    }
    run->world_size = step->world_size;
    run->step_count++;
    file->recorded += step->recorded;
    return NULL;
}

static aorta_status read_line(struct aorta_run *run, struct file *file, const char *line, size_t length,
                              const struct aorta_log *log) {
    bool whole = line[length - 1] == '\n';
    if (whole && length == 1) return NULL; /* an empty line */
    aorta_status status = add_line(run, file, line, whole ? length - 1 : length);
    if (!status) return NULL;
    if (whole || aorta_status_code(status) != AORTA_FORMAT)
        return aorta_annotate(status, "%s:%lld (line starts at byte %lld)", file->path, (long long)file->line,
                              (long long)file->offset);
    aorta_log(log, AORTA_LOG_WARNING, "%s:%lld: the last line is incomplete (%s) and left out; the run was cut off",
              file->path, (long long)file->line, aorta_status_message(status));
    aorta_status_free(status);
    run->torn_lines++;
    return NULL;
}

/* Bytes of the file that were read and not passed yet: [at .. end). */
struct window {
    struct aorta_source *source;
    char *bytes;
    size_t at, end, capacity;
};

/* Moves the remaining bytes to the front, doubles the capacity if full, and reads more. *got is 0 at the end of the
 * file. */
static aorta_status read_on(struct window *window, const struct file *file, size_t *got) {
    static const size_t first = 1 << 20, most = 256 << 20; /* an iteration has a few hundred bytes a kernel */
    if (window->at) memmove(window->bytes, window->bytes + window->at, window->end - window->at);
    window->end -= window->at;
    window->at = 0;
    if (window->end == window->capacity) {
        const size_t capacity = window->capacity ? 2 * window->capacity : first;
        if (capacity > most)
            return AORTA_ERROR(AORTA_FORMAT, "%s:%lld (line starts at byte %lld): the line is longer than %zu MiB",
                               file->path, (long long)file->line + 1, (long long)file->offset, most >> 20);
        if (!aorta_array_fit(&window->bytes, &window->capacity, capacity, 1))
            return AORTA_ERROR(AORTA_MEMORY, "no memory for a line of %zu bytes of %s", capacity, file->path);
    }
    AORTA_TRY(aorta_source_read(window->source, window->bytes + window->end, window->capacity - window->end, got));
    window->end += *got;
    return NULL;
}

/* The next line with its newline, or an unfinished last line. *length is 0 at the end. */
static aorta_status next_line(struct window *window, const struct file *file, const char **line, size_t *length) {
    const char *stop = NULL;
    for (size_t scanned = 0, got = 1; !stop && got;) { /* scanned: bytes without the end of a line */
        const size_t left = window->end - window->at;
        stop = left > scanned ? memchr(window->bytes + window->at + scanned, '\n', left - scanned) : NULL;
        scanned = left;
        if (!stop) AORTA_TRY(read_on(window, file, &got));
    }
    *line = window->bytes + window->at;
    *length = stop ? (size_t)(stop + 1 - *line) : window->end - window->at;
    window->at += *length;
    return NULL;
}

static aorta_status read_lines(struct aorta_run *run, struct file *file, struct window *window,
                               const struct aorta_log *log) {
    for (;;) {
        const char *line;
        size_t length;
        AORTA_TRY(next_line(window, file, &line, &length));
        if (!length) return NULL;
        file->line++;
        AORTA_TRY(read_line(run, file, line, length, log));
        file->offset += (int64_t)length;
    }
}

static void name_file(const struct aorta_run *run, int rank, char path[4096]) {
    snprintf(path, 4096, "%s/rank_%02d_metrics.jsonl", run->directory, rank);
}

static aorta_status read_file(struct aorta_run *run, struct file *file, const struct aorta_log *log) {
    struct window window = {0};
    file->first_step = run->step_count;
    AORTA_TRY(aorta_source_open(file->path, &window.source));
    aorta_status status = read_lines(run, file, &window, log);
    aorta_source_close(window.source);
    free(window.bytes);
    if (!status && run->step_count == file->first_step)
        aorta_log(log, AORTA_LOG_WARNING, "%s holds no iteration", file->path);
    return status;
}

/* Reads one file of any name, with all ranges, as a run of the rank in its lines. */
static aorta_status read_alone(const char *path, const struct aorta_log *log, struct aorta_run *run) {
    struct file file = {.rank = -1};
    size_t capacity = 0;
    run->read_every = 1;
    run->directory = run->label = aorta_arena_strdup(&run->arena, path);
    if (!run->label || strlen(path) >= sizeof file.path) return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", path);
    snprintf(file.path, sizeof file.path, "%s", path);
    AORTA_TRY(read_file(run, &file, log));
    if (!run->step_count) return AORTA_ERROR(AORTA_FORMAT, "%s holds no complete iteration", path);
    for (size_t i = 1; i < run->step_count; i++)
        if (run->steps[i].rank != run->steps[0].rank)
            return AORTA_ERROR(AORTA_FORMAT,
                               "%s: iteration %zu is of rank %d, the first of rank %d: a file has one rank", path,
                               i + 1, run->steps[i].rank, run->steps[0].rank);
    return add_rank(run, &capacity, run->steps[0].rank);
}

/* ---- the directory ---- */

static void warn_of_missing_ranks(const struct aorta_run *run, const struct aorta_log *log) {
    if ((size_t)run->world_size <= run->rank_count) return;
    int missing = 0;
    for (size_t i = 0; i < run->rank_count && run->ranks[i] == missing; i++) missing++;
    aorta_log(log, AORTA_LOG_WARNING,
              "%s holds %zu of %d ranks (rank %d is missing): waits between ranks are incomplete", run->directory,
              run->rank_count, run->world_size, missing);
}

struct aorta_run_coverage aorta_run_coverage(const struct aorta_run *run, size_t index) {
    struct aorta_run_coverage found = {0};
    for (size_t i = 0; i < run->step_count; i++) {
        if (run->steps[i].rank != run->ranks[index]) continue;
        int64_t step = run->steps[i].global_step;
        if (!found.count) found.first = step;
        if (found.count && step > found.last + 1) {
            if (!found.absent) found.before_gap = found.last;
            found.absent += step - found.last - 1;
        }
        found.last = step;
        found.count++;
    }
    return found;
}

static void warn_of_missing_steps(const struct aorta_run *run, const struct aorta_log *log) {
    const struct aorta_run_coverage lowest = aorta_run_coverage(run, 0);
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct aorta_run_coverage found = aorta_run_coverage(run, i);
        if (found.absent)
            aorta_log(log, AORTA_LOG_WARNING, "%s: rank %d lacks %s after step %lld", run->directory, run->ranks[i],
                      aorta_counted(found.absent, "step").text, (long long)found.before_gap);
        if (found.first != lowest.first || found.last != lowest.last || found.count != lowest.count)
            aorta_log(
                log, AORTA_LOG_WARNING,
                "%s: rank %d has %s (%lld to %lld), rank %d %lld (%lld to %lld): waits in steps that a rank lacks "
                "are unknown",
                run->directory, run->ranks[i], aorta_counted(found.count, "iteration").text, (long long)found.first,
                (long long)found.last, run->ranks[0], (long long)lowest.count, (long long)lowest.first,
                (long long)lowest.last);
    }
}

static int64_t size_of_files(const struct aorta_run *run) {
    int64_t bytes = 0;
    for (size_t i = 0; i < run->rank_count; i++) {
        char path[4096];
        struct stat info;
        name_file(run, run->ranks[i], path);
        if (stat(path, &info) == 0) bytes += info.st_size;
    }
    return bytes;
}

int64_t aorta_run_read_every(int64_t bytes) {
    const int64_t limit = (int64_t)1 << 28; /* with their analysis ranges take 3.4 times the memory of their lines */
    return bytes > limit ? (bytes + limit - 1) / limit : 1;
}

static void choose_what_is_read(struct aorta_run *run, int64_t read_every, const struct aorta_log *log) {
    const int64_t bytes = size_of_files(run);
    run->read_every = read_every > 0 ? read_every : aorta_run_read_every(bytes);
    if (read_every > 0 || run->read_every == 1) return;
    aorta_log(log, AORTA_LOG_INFO,
              "%s holds %.1f GiB of metrics: the ranges of one recorded iteration in %lld are read (aorta report "
              "--read-every 1 reads all; profiling.record_every records fewer)",
              run->directory, (double)bytes / (double)((int64_t)1 << 30), (long long)run->read_every);
}

static aorta_status read_directory(struct aorta_run *run, int64_t read_every, const struct aorta_log *log) {
    AORTA_TRY(find_files(run));
    choose_what_is_read(run, read_every, log);
    for (size_t i = 0; i < run->rank_count; i++) {
        struct file file = {.rank = run->ranks[i]};
        name_file(run, file.rank, file.path);
        AORTA_TRY(read_file(run, &file, log));
    }
    if (run->step_count == 0)
        return AORTA_ERROR(AORTA_USAGE, "the files in %s hold no complete iteration", run->directory);
    warn_of_missing_ranks(run, log);
    warn_of_missing_steps(run, log);
    return NULL;
}

aorta_status aorta_run_read(const char *directory, const char *label, int64_t read_every, const struct aorta_log *log,
                            struct aorta_run *run) {
    memset(run, 0, sizeof *run);
    run->directory = aorta_arena_strdup(&run->arena, directory);
    run->label = aorta_arena_strdup(&run->arena, label);
    aorta_status status = run->directory && run->label ? read_directory(run, read_every, log)
                                                       : AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", directory);
    if (status) aorta_run_free(run);
    return status;
}

void aorta_run_free(struct aorta_run *run) {
    for (size_t i = 0; i < run->step_count; i++) aorta_run_step_free(&run->steps[i]);
    free(run->steps);
    free(run->ranks);
    aorta_arena_free(&run->arena);
    aorta_texts_free(&run->strings);
    memset(run, 0, sizeof *run);
}

/* ---- traces ---- */

/* Kernels replace ranges only if all iterations have them, as a mixture would not be comparable. */
bool aorta_run_take_kernels(struct aorta_run *run) {
    bool any = false;
    for (size_t i = 0; i < run->step_count; i++) {
        if (run->steps[i].profile && !run->steps[i].kernel_profile) return false;
        any |= run->steps[i].profile != NULL;
    }
    for (size_t i = 0; i < run->step_count; i++) {
        struct aorta_step_metrics *step = &run->steps[i];
        struct aorta_profile *ranges = step->profile;
        step->profile = step->kernel_profile;
        step->kernel_profile = ranges;
    }
    return any;
}

static int64_t step_ns_of(const struct aorta_step_metrics *step) {
    return step->step_ms > 0 && step->step_ms < 1e9 ? (int64_t)(step->step_ms * 1e6 + 0.5) : 0;
}

/* Makes a trace of the steps of ranks[rank] whose ranges were read. NULL if there are none. */
static aorta_status make_trace(const struct aorta_run *run, size_t rank, size_t first, size_t end, const char *path,
                               struct aorta_trace **trace) {
    struct aorta_measured_step *steps = calloc(end - first + 1, sizeof *steps);
    if (!steps) return AORTA_ERROR(AORTA_MEMORY, "no memory to analyze %zu iterations", end - first);
    struct aorta_measured_rank measured = {.rank = run->ranks[rank],
                                           .world_size = run->world_size,
                                           .path = path,
                                           .on_gpu = run->device && strcmp(run->device, "cpu") != 0,
                                           .device = &run->info,
                                           .steps = steps};
    for (size_t i = first; i < end; i++)
        if (run->steps[i].profile)
            steps[measured.step_count++] = (struct aorta_measured_step){
                run->steps[i].global_step, step_ns_of(&run->steps[i]), run->steps[i].profile};
    aorta_status status = measured.step_count ? aorta_trace_of_measured(&measured, trace) : NULL;
    free(steps);
    return status;
}

static bool has_ranges(const struct aorta_run *run) {
    for (size_t i = 0; i < run->step_count; i++)
        if (run->steps[i].profile && run->steps[i].profile->range_count) return true;
    return false;
}

aorta_status aorta_run_traces(const struct aorta_run *run, struct aorta_trace_list *list) {
    if (!has_ranges(run)) return NULL; /* no step has ranges */
    for (size_t i = 0, start = 0, end; i < run->rank_count; i++, start = end) {
        struct aorta_trace *trace = NULL;
        char path[4096];
        for (end = start; end < run->step_count && run->steps[end].rank == run->ranks[i];) end++;
        name_file(run, run->ranks[i], path);
        AORTA_TRY(make_trace(run, i, start, end, path, &trace));
        if (trace) AORTA_TRY(aorta_trace_list_add(list, trace));
    }
    return NULL;
}

/* ---- one file ---- */

static void release(void *owned) {
    aorta_run_free(owned);
    free(owned);
}

/* The trace owns the run on success. */
static aorta_status take_run(struct aorta_run *run, const char *path, struct aorta_trace_list *list) {
    struct aorta_trace *trace = NULL;
    aorta_run_take_kernels(run);
    if (has_ranges(run)) AORTA_TRY(make_trace(run, 0, 0, run->step_count, path, &trace));
    if (!trace)
        return AORTA_ERROR(AORTA_USAGE, "%s holds no ranges: recording was off; `aorta report` has what else it holds",
                           path);
    if (run->torn_lines)
        trace->warnings[AORTA_REASON_TRUNCATED] =
            (struct aorta_trace_warning){.count = (int64_t)run->torn_lines, .offset = -1};
    AORTA_TRY(aorta_trace_list_add(list, trace));
    trace->owned = run;
    trace->release = release;
    return NULL;
}

static aorta_status read_trace(const char *path, const struct aorta_trace_options *options,
                               struct aorta_trace_list *list) {
    const struct aorta_log log = {.level = AORTA_LOG_ERROR, .rank = -1};
    struct aorta_run *run = calloc(1, sizeof *run);
    (void)options; /* lines are whole, and collectives known */
    if (!run) return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", path);
    aorta_status status = read_alone(path, &log, run);
    if (!status) status = take_run(run, path, list);
    if (status) release(run);
    return status;
}

static bool contains(const char *head, size_t length, const char *text) {
    return memmem(head, length, text, strlen(text)) != NULL;
}

/* Both programs write the numbers of a line first. */
static bool recognises(const char *head, size_t length) {
    const char *end = memchr(head, '\n', length);
    const size_t line = end ? (size_t)(end - head) : length;
    return line && *head == '{' && contains(head, line, "\"global_step\"") && contains(head, line, "\"rank\"") &&
           !contains(head, line, "\"traceEvents\"");
}

const struct aorta_trace_reader aorta_trace_reader_metrics = {recognises, read_trace, NULL, false, true, true};
