/* Runs as traces: of the ranks of a directory that is read already, or one file of metrics lines like any trace. */
#include "formats/measured.h"
#include "formats/reader.h"
#include "formats/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Device times come from the kernels where all iterations have them: a mixture would compare unlike things. */
static bool all_traced(const struct aorta_run *run) {
    bool any = false;
    for (size_t i = 0; i < run->step_count; i++) {
        if (run->steps[i].profiled && !run->steps[i].kernels) return false;
        any |= run->steps[i].kernels != NULL;
    }
    return any;
}

bool aorta_run_take_kernels(struct aorta_run *run) {
    if (!all_traced(run)) return false;
    for (size_t i = 0; i < run->step_count; i++) {
        struct aorta_run_step *step = &run->steps[i];
        const struct aorta_run_view ranges = {step->profile, step->overlap};
        if (!step->kernels) continue;
        step->profile = step->kernels->profile;
        step->overlap = step->kernels->overlap;
        *step->kernels = ranges;
    }
    return true;
}

static int64_t step_ns_of(const struct aorta_run_step *step) {
    return step->step_ms > 0 && step->step_ms < 1e9 ? (int64_t)(step->step_ms * 1e6 + 0.5) : 0;
}

/* The steps of ranks[rank] whose ranges were read, as a trace; NULL: there are none. */
static aorta_status make_trace(const struct aorta_run *run, size_t rank, size_t first, size_t end, const char *path,
                               struct aorta_trace **trace) {
    struct aorta_measured_step *steps = calloc(end - first + 1, sizeof *steps);
    if (!steps) return AORTA_ERROR(AORTA_MEMORY, "no memory to analyse %zu iterations", end - first);
    struct aorta_measured_rank measured = {.rank = run->ranks[rank],
                                           .world_size = run->world_size,
                                           .path = path,
                                           .on_gpu = run->device && strcmp(run->device, "cpu") != 0,
                                           .device_name = run->info.name,
                                           .isa = run->info.isa,
                                           .memory_bytes = run->info.memory_bytes,
                                           .multiprocessors = run->info.multiprocessors,
                                           .peaks = run->info.measured ? &run->info.peaks : NULL,
                                           .steps = steps};
    for (size_t i = first; i < end; i++)
        if (run->steps[i].profiled)
            steps[measured.step_count++] = (struct aorta_measured_step){
                run->steps[i].global_step, step_ns_of(&run->steps[i]), &run->steps[i].profile, &run->steps[i].overlap};
    aorta_status status = measured.step_count ? aorta_trace_of_measured(&measured, trace) : NULL;
    free(steps);
    return status;
}

static bool has_ranges(const struct aorta_run *run) {
    for (size_t i = 0; i < run->step_count; i++)
        if (run->steps[i].profile.range_count) return true;
    return false;
}

aorta_status aorta_run_traces(const struct aorta_run *run, struct aorta_trace_list *list) {
    if (!has_ranges(run)) return NULL; /* each says that nothing was recorded */
    for (size_t i = 0, start = 0, end; i < run->rank_count; i++, start = end) {
        struct aorta_trace *trace = NULL;
        char path[4096];
        for (end = start; end < run->step_count && run->steps[end].rank == run->ranks[i];) end++;
        snprintf(path, sizeof path, "%s/rank_%02d_metrics.jsonl", run->directory, run->ranks[i]);
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

static aorta_status read_lines(const char *path, const struct aorta_trace_options *options,
                               struct aorta_trace_list *list) {
    const struct aorta_log log = {.level = AORTA_LOG_ERROR, .rank = -1};
    struct aorta_run *run = calloc(1, sizeof *run);
    (void)options; /* lines are whole, and collectives known */
    if (!run) return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", path);
    aorta_status status = aorta_run_read_file(path, &log, run);
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

const struct aorta_trace_reader aorta_trace_reader_metrics = {recognises, read_lines, NULL, false, true};
