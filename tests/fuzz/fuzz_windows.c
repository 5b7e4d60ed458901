/* A folder of windows as `aorta trace watch` reads it: the name of one of its folders, and behind the first byte 0 what
 * follows the heads of two spools in it. Whatever they hold, the readers return, times of windows do not overflow, and
 * nothing but spools is removed. */
#include "base/files.h"
#include "fuzz.h"
#include "record/run.h"
#include "trace/kernel_names.h"
#include "trace/spool_format.h"

#include <sys/stat.h>

/* The C++ library's own reader of names is not what is tried here. */
char *aorta_demangle(const char *name) {
    (void)name;
    return NULL;
}

static void write_spool(const char *folder, const char *name, const uint8_t *data, size_t size) {
    struct aorta_spool_head head = {
        .version = AORTA_SPOOL_VERSION, .bytes = sizeof head, .byte_order = AORTA_SPOOL_BYTE_ORDER};
    char path[FUZZ_PATH + 400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    memcpy(head.magic, AORTA_SPOOL_MAGIC, sizeof head.magic);
    if (size) head.state = data[0] % (AORTA_SPOOL_STATE_COUNT + 1);
    uint8_t *file = malloc(sizeof head + size);
    fuzz_require(file != NULL);
    memcpy(file, &head, sizeof head);
    if (size) memcpy(file + sizeof head, data, size);
    fuzz_write(path, file, sizeof head + size);
    free(file);
}

static void read_window(const struct aorta_window *window, struct aorta_window_processes *processes) {
    struct aorta_trace_run_record record = {0};
    struct aorta_text lines = {0};
    fuzz_require(window->start_ms >= 0 && window->length_ms > 0 &&
                 window->start_ms + window->length_ms <= INT64_MAX / 1000000);
    (void)aorta_window_is_ready(window);
    fuzz_require(aorta_window_bytes(window) > 0);
    aorta_status status = aorta_trace_run_read(window->path, NULL, &record);
    if (!status) {
        fuzz_require(record.process_count <= 2);
        aorta_status_free(aorta_window_processes_take(processes, window->start_ms, &record, &lines));
        aorta_window_trim_steps(&record.traces);
        for (size_t i = 0; i < record.traces.count; i++) {
            const struct aorta_trace *trace = record.traces.items[i];
            for (size_t s = 1; s < trace->step_count; s++)
                fuzz_require(trace->steps[s].start_ns >= trace->steps[s - 1].start_ns);
        }
        aorta_trace_run_record_free(&record);
    }
    aorta_status_free(status);
    aorta_text_free(&lines);
    aorta_window_remove(window);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { LONGEST_NAME = 200 };
    char directory[FUZZ_PATH], folder[FUZZ_PATH + LONGEST_NAME + 2], other[sizeof folder + 8];
    const struct fuzz_halves halves = fuzz_split(data, size);
    if (!halves.first.size || halves.first.size > LONGEST_NAME || memchr(data, '/', halves.first.size) ||
        data[0] == '.')
        return 0;
    fuzz_path(directory, "windows");
    snprintf(folder, sizeof folder, "%s/%.*s", directory, (int)halves.first.size, (const char *)data);
    snprintf(other, sizeof other, "%s/other", folder);
    fuzz_require(!mkdir(directory, 0700) && !mkdir(folder, 0700));
    const size_t middle = halves.second.size / 2;
    write_spool(folder, "a.spool", halves.second.data, middle);
    if (halves.second.data) write_spool(folder, "b.spool", halves.second.data + middle, halves.second.size - middle);
    fuzz_write(other, data, 1);
    struct aorta_window_list list;
    struct aorta_window_processes processes = {0};
    aorta_status status = aorta_windows_list(directory, -1, &list);
    fuzz_require(!status && list.count <= 1);
    for (size_t i = 0; i < list.count; i++) read_window(&list.items[i], &processes);
    aorta_arena_free(&list.arena);
    aorta_arena_free(&processes.arena);
    fuzz_require(!access(other, F_OK));
    aorta_directory_remove(directory);
    return 0;
}
