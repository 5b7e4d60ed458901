#include "record/run.h"

#include "base/files.h"
#include "base/sort.h"
#include "trace/spool_format.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- folders ---- */

static bool is_spool(const char *name) {
    const size_t length = strlen(name), suffix = strlen(AORTA_SPOOL_SUFFIX);
    return length > suffix && strcmp(name + length - suffix, AORTA_SPOOL_SUFFIX) == 0;
}

/* In a shared folder a link could lead anywhere, and a pipe would wait. */
static DIR *open_folder(const char *path) {
    const int file = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = file < 0 ? NULL : fdopendir(file);
    if (file >= 0 && !folder) close(file);
    return folder;
}

/* A file without a whole head is one that has just been made. */
static bool is_recording(int folder, const char *name) {
    struct aorta_spool_head head = {.state = AORTA_SPOOL_RECORDING};
    int file = openat(folder, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return false;
    if (pread(file, &head, sizeof head, 0) < (ssize_t)sizeof head) head.state = AORTA_SPOOL_RECORDING;
    close(file);
    return head.state == AORTA_SPOOL_RECORDING;
}

bool aorta_window_is_ready(const struct aorta_window *window) {
    DIR *folder = open_folder(window->path);
    bool closed = folder != NULL;
    for (struct dirent *entry; closed && (entry = readdir(folder));)
        if (is_spool(entry->d_name)) closed = !is_recording(dirfd(folder), entry->d_name);
    if (folder) closedir(folder);
    return closed;
}

static bool read_name(const char *name, struct aorta_window *window) {
    long long start_ms, length_ms;
    char again[64];
    if (sscanf(name, AORTA_SPOOL_WINDOW_NAME, &start_ms, &length_ms) != 2 || start_ms < 0 || length_ms <= 0)
        return false;
    if (start_ms > INT64_MAX / 1000000 || length_ms > INT64_MAX / 1000000 - start_ms) return false;
    snprintf(again, sizeof again, AORTA_SPOOL_WINDOW_NAME, start_ms, length_ms);
    *window = (struct aorta_window){.start_ms = start_ms, .length_ms = length_ms};
    return strcmp(again, name) == 0;
}

aorta_status aorta_windows_list(const char *directory, int64_t after_ms, struct aorta_window_list *list) {
    size_t capacity = 0;
    *list = (struct aorta_window_list){0};
    DIR *folder = opendir(directory);
    if (!folder) return AORTA_ERROR(AORTA_IO, "%s: %s", directory, strerror(errno));
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct aorta_window window;
        struct stat info;
        if (fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(info.st_mode)) continue;
        if (!read_name(entry->d_name, &window) || window.start_ms <= after_ms) continue;
        window.path = aorta_arena_strdup(&list->arena, aorta_path_in(directory, "%s", entry->d_name).text);
        aorta_arena_append(&list->arena, &list->items, &capacity, &list->count, &window, sizeof window);
    }
    closedir(folder);
    if (list->count) qsort(list->items, list->count, sizeof *list->items, aorta_by_int64);
    aorta_status status = aorta_arena_check(&list->arena, "the windows of a recording");
    if (status) aorta_arena_free(&list->arena);
    return status;
}

int64_t aorta_window_bytes(const struct aorta_window *window) {
    int64_t bytes = 0;
    DIR *folder = open_folder(window->path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat info;
        if (is_spool(entry->d_name) && fstatat(dirfd(folder), entry->d_name, &info, 0) == 0) bytes += info.st_size;
    }
    if (folder) closedir(folder);
    return bytes;
}

void aorta_window_remove(const struct aorta_window *window) {
    DIR *folder = open_folder(window->path);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (is_spool(entry->d_name)) unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(window->path);
}

/* ---- steps ---- */

/* From when to when both calls and kernels of a trace are recorded. */
static void find_known(const struct aorta_trace *trace, int64_t *from_ns, int64_t *to_ns) {
    int64_t last_ns = INT64_MIN;
    *from_ns = trace->work_count ? trace->work[0].start_ns : INT64_MAX;
    *to_ns = INT64_MIN;
    for (size_t i = 0; i < trace->work_count; i++)
        if (trace->work[i].end_ns > *to_ns) *to_ns = trace->work[i].end_ns;
    if (!trace->call_count) return;
    for (size_t i = 0; i < trace->call_count; i++)
        if (trace->calls[i].end_ns > last_ns) last_ns = trace->calls[i].end_ns;
    if (trace->calls[0].start_ns > *from_ns) *from_ns = trace->calls[0].start_ns;
    if (last_ns < *to_ns) *to_ns = last_ns;
}

static void keep(struct aorta_trace *trace, size_t first, size_t end) {
    if (first) memmove(trace->steps, trace->steps + first, (end - first) * sizeof *trace->steps);
    trace->step_count = end - first;
}

void aorta_window_trim_steps(struct aorta_trace_list *list) {
    int64_t lowest = INT64_MIN, highest = INT64_MAX;
    for (size_t i = 0; i < list->count; i++) {
        struct aorta_trace *trace = list->items[i];
        int64_t from_ns, to_ns;
        size_t first = 0, end = trace->step_count;
        find_known(trace, &from_ns, &to_ns);
        while (first < end && trace->steps[first].start_ns < from_ns) first++;
        while (end > first && trace->steps[end - 1].end_ns > to_ns) end--;
        if (first == end) continue; /* short windows have no better steps */
        keep(trace, first, end);
        if (trace->steps[0].number > lowest) lowest = trace->steps[0].number;
        if (trace->steps[trace->step_count - 1].number < highest) highest = trace->steps[trace->step_count - 1].number;
    }
    for (size_t i = 0; lowest <= highest && i < list->count; i++) {
        struct aorta_trace *trace = list->items[i];
        size_t first = 0, end = trace->step_count;
        while (first < end && trace->steps[first].number < lowest) first++;
        while (end > first && trace->steps[end - 1].number > highest) end--;
        keep(trace, first, end);
    }
}

/* ---- processes ---- */

static struct aorta_window_process *find(const struct aorta_window_processes *processes,
                                         const struct aorta_spool_facts *facts) {
    for (size_t i = 0; i < processes->count; i++)
        if (processes->items[i].pid == facts->process.pid && strcmp(processes->items[i].host, facts->host) == 0)
            return &processes->items[i];
    return NULL;
}

static void take(struct aorta_window_processes *processes, int64_t start_ms,
                 const struct aorta_trace_run_process *process) {
    struct aorta_window_process *known = find(processes, &process->facts);
    if (!known) {
        const struct aorta_window_process made = {.host = aorta_arena_strdup(&processes->arena, process->facts.host),
                                                  .pid = process->facts.process.pid,
                                                  .rank = -1};
        if (made.host)
            known = aorta_arena_append(&processes->arena, &processes->items, &processes->capacity, &processes->count,
                                       &made, sizeof made);
        if (!known) return;
    }
    if (process->rank >= 0) known->rank = process->rank;
    known->state = process->facts.head.state;
    known->last_ns = process->facts.head.last_ns;
    known->start_ms = start_ms;
}

static void say_gone(const struct aorta_window_process *process, struct aorta_text *lines) {
    char when[16] = "its start";
    const time_t last = (time_t)(process->last_ns / 1000000000);
    struct tm local;
    if (process->last_ns && localtime_r(&last, &local)) strftime(when, sizeof when, "%H:%M:%S", &local);
    if (process->rank >= 0) aorta_text_printf(lines, "rank %d, ", process->rank);
    aorta_text_printf(lines, "process %d on %s ", process->pid, *process->host ? process->host : "an unknown node");
    if (process->state == AORTA_SPOOL_TAKEN)
        aorta_text_puts(lines, "is recorded no more: another profiler has CUPTI there");
    else
        aorta_text_printf(lines, "wrote nothing after %s: it was killed, or its node died", when);
    aorta_text_append(lines, "", 1);
}

static bool may_go_on(const struct aorta_window_process *process) {
    return process->state == AORTA_SPOOL_WINDOW || process->state == AORTA_SPOOL_RECORDING ||
           process->state == AORTA_SPOOL_FULL || process->state == AORTA_SPOOL_FAILED;
}

aorta_status aorta_window_processes_take(struct aorta_window_processes *processes, int64_t start_ms,
                                         const struct aorta_trace_run_record *record, struct aorta_text *lines) {
    for (size_t i = 0; record && i < record->process_count; i++) take(processes, start_ms, &record->processes[i]);
    size_t remaining = 0;
    for (size_t i = 0; i < processes->count; i++) {
        struct aorta_window_process *process = &processes->items[i];
        const bool there = record && process->start_ms == start_ms;
        if (!there && (may_go_on(process) || process->state == AORTA_SPOOL_TAKEN)) say_gone(process, lines);
        if (there) processes->items[remaining++] = *process;
    }
    processes->count = remaining;
    return aorta_arena_check(&processes->arena, "the processes of a recording");
}

bool aorta_window_processes_run(const struct aorta_window_processes *processes) {
    for (size_t i = 0; i < processes->count; i++)
        if (may_go_on(&processes->items[i])) return true;
    return false;
}
