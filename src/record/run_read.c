/* The spools of a run, and which rank each of them is. */
#include "formats/open.h"
#include "record/run.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static aorta_status read_one(const char *path, const struct aorta_trace_options *options,
                             struct aorta_trace_run_process *process, struct aorta_trace_list *traces) {
    struct aorta_trace_options lenient = {.recover = true};
    if (options) lenient.patterns = options->patterns, lenient.until_ns = options->until_ns;
    struct aorta_trace *trace = NULL;
    process->rank = -1;
    process->path = strdup(path);
    if (!process->path) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
    FILE *file = aorta_spool_stream(path);
    if (!file) return AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno));
    aorta_status status = aorta_spool_read(file, path, &lenient, &process->facts, &trace);
    fclose(file);
    if (status) return status;
    if (process->facts.work) return aorta_trace_list_add(traces, trace);
    aorta_trace_free(trace);
    return NULL;
}

static aorta_status read_all(const glob_t *found, const struct aorta_trace_options *options,
                             struct aorta_trace_run_record *record) {
    record->processes = calloc(found->gl_pathc + 1, sizeof *record->processes);
    if (!record->processes) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu processes", found->gl_pathc);
    for (size_t i = 0; i < found->gl_pathc; i++) {
        record->process_count++;
        AORTA_TRY(read_one(found->gl_pathv[i], options, &record->processes[i], &record->traces));
    }
    return NULL;
}

/* ---- ranks ---- */

static void find_ranks(struct aorta_trace_run_record *record) {
    for (size_t i = 0; i < record->process_count; i++) {
        struct aorta_trace_run_process *process = &record->processes[i];
        for (size_t j = 0; j < record->traces.count; j++)
            if (strcmp(record->traces.items[j]->path, process->path) == 0)
                process->rank = record->traces.items[j]->rank;
    }
}

static int compare_traces(const void *a, const void *b) {
    const struct aorta_trace *x = *(struct aorta_trace *const *)a, *y = *(struct aorta_trace *const *)b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int compare_processes(const void *a, const void *b) {
    const struct aorta_trace_run_process *x = a, *y = b;
    if ((x->rank < 0) != (y->rank < 0)) return x->rank < 0 ? 1 : -1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    int64_t i = x->facts.process.start_ns, j = y->facts.process.start_ns;
    return i < j ? -1 : i > j;
}

aorta_status aorta_trace_run_read(const char *directory, const struct aorta_trace_options *options,
                                  struct aorta_trace_run_record *record) {
    char pattern[2 * PATH_MAX + 16], *end = pattern;
    glob_t found;
    *record = (struct aorta_trace_run_record){0};
    if (strlen(directory) >= PATH_MAX) return AORTA_ERROR(AORTA_IO, "%s: the path is too long", directory);
    for (const char *c = directory; *c; *end++ = *c++)
        if (strchr("*?[]\\", *c)) *end++ = '\\';
    strcpy(end, "/*" AORTA_SPOOL_SUFFIX);
    int result = glob(pattern, 0, NULL, &found);
    if (result == GLOB_NOMATCH) return NULL;
    if (result != 0) return AORTA_ERROR(AORTA_IO, "%s: cannot be listed", directory);
    aorta_status status = read_all(&found, options, record);
    globfree(&found);
    if (status) return status;
    aorta_spool_number_ranks(&record->traces);
    find_ranks(record);
    if (record->traces.count)
        qsort(record->traces.items, record->traces.count, sizeof *record->traces.items, compare_traces);
    qsort(record->processes, record->process_count, sizeof *record->processes, compare_processes);
    return NULL;
}

void aorta_trace_run_record_free(struct aorta_trace_run_record *record) {
    for (size_t i = 0; i < record->process_count; i++) {
        aorta_spool_facts_free(&record->processes[i].facts);
        free(record->processes[i].path);
    }
    free(record->processes);
    aorta_trace_list_free(&record->traces);
    *record = (struct aorta_trace_run_record){0};
}
