/* The table of calls that wait for the device, by what made them. */
#include "analysis/analysis_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* One such call. */
struct sync {
    uint32_t name, operation, function, range;
    int64_t ns;
};

static int compare(uint32_t a, uint32_t b) {
    return (a > b) - (a < b);
}

static int place_order(const struct sync *a, const struct sync *b) {
    int order = compare(a->name, b->name);
    if (!order) order = compare(a->operation, b->operation);
    if (!order) order = compare(a->function, b->function);
    return order ? order : compare(a->range, b->range);
}

static int sync_order(const void *left, const void *right) {
    const struct sync *a = left, *b = right;
    int order = place_order(a, b);
    return order ? order : (a->ns > b->ns) - (a->ns < b->ns);
}

static int longest_first(const void *left, const void *right) {
    const struct aorta_trace_sync_row *a = left, *b = right;
    if (a->times.total_ns != b->times.total_ns) return a->times.total_ns > b->times.total_ns ? -1 : 1;
    int order = compare(a->name, b->name);
    if (!order) order = compare(a->operation, b->operation);
    if (!order) order = compare(a->function, b->function);
    return order ? order : compare(a->range, b->range);
}

/* Of a trace's callers the one of this call, from *next on, which moves up with the calls. */
static struct aorta_trace_caller caller_of(const struct aorta_trace *trace, uint32_t call, size_t *next) {
    while (*next < trace->caller_count && trace->callers[*next].call < call) (*next)++;
    if (*next < trace->caller_count && trace->callers[*next].call == call) return trace->callers[*next];
    return (struct aorta_trace_caller){call, AORTA_TRACE_NONE, AORTA_TRACE_NONE, AORTA_TRACE_NONE};
}

/* Whether the host made the call in a step that counts. */
static bool call_counts(const struct aorta_trace_analysis *analysis, const struct aorta_trace_step_map *map,
                        const struct aorta_trace_call *call) {
    if (!analysis->stepped) return true;
    const size_t window = aorta_trace_window_at(map, call->start_ns);
    return window != SIZE_MAX && aorta_trace_step_counts(analysis, map->rank->windows[window].number);
}

static aorta_status collect(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                            struct sync **syncs, size_t *count) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_trace_step_map map;
    bool *launching = aorta_trace_launching_threads(trace);
    size_t limit = 0, next = 0;
    for (size_t i = 0; i < trace->call_count; i++) limit += aorta_trace_call_waits(trace, &trace->calls[i]);
    *syncs = malloc((limit + 1) * sizeof **syncs);
    *count = 0;
    if (!launching || !*syncs) {
        free(launching);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu calls", limit);
    }
    aorta_status status = aorta_trace_step_map_make(rank, &map);
    for (size_t i = 0; !status && i < trace->call_count; i++) {
        const struct aorta_trace_call *call = &trace->calls[i];
        if (!launching[call->thread] || !aorta_trace_call_waits(trace, call)) continue;
        if (!call_counts(analysis, &map, call)) continue;
        const struct aorta_trace_caller caller = caller_of(trace, (uint32_t)i, &next);
        (*syncs)[(*count)++] =
            (struct sync){call->name, caller.operation, caller.function, caller.range, call->end_ns - call->start_ns};
    }
    if (!status) aorta_trace_step_map_free(&map);
    free(launching);
    return status;
}

static aorta_status fill_rows(struct aorta_trace_rank *rank, const struct sync *syncs, size_t count) {
    int64_t *scratch = malloc((count + 1) * sizeof *scratch);
    rank->syncs = calloc(count + 1, sizeof *rank->syncs);
    if (!scratch || !rank->syncs) {
        free(scratch);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu calls", count);
    }
    for (size_t i = 0, same; i < count; i += same) {
        for (same = 0; i + same < count && place_order(&syncs[i], &syncs[i + same]) == 0; same++)
            scratch[same] = syncs[i + same].ns;
        rank->syncs[rank->sync_count++] = (struct aorta_trace_sync_row){
            syncs[i].name, syncs[i].operation, syncs[i].function, syncs[i].range, aorta_trace_times_of(scratch, same)};
    }
    qsort(rank->syncs, rank->sync_count, sizeof *rank->syncs, longest_first);
    free(scratch);
    return NULL;
}

aorta_status aorta_trace_syncs_make(const struct aorta_trace_analysis *analysis, struct aorta_trace_rank *rank) {
    struct sync *syncs = NULL;
    size_t count = 0;
    aorta_status status = collect(analysis, rank, &syncs, &count);
    if (!status && count) qsort(syncs, count, sizeof *syncs, sync_order);
    if (!status) status = fill_rows(rank, syncs, count);
    free(syncs);
    return status;
}

const char *aorta_trace_sync_name(const struct aorta_trace *trace, const struct aorta_trace_sync_row *row, char *name,
                                  size_t size) {
    bool placed = row->operation != AORTA_TRACE_NONE || row->function != AORTA_TRACE_NONE;
    uint32_t operation = placed ? row->operation : row->range;
    snprintf(name, size, "%s%s%s%s%s", aorta_trace_text(trace, row->name), operation != AORTA_TRACE_NONE ? " in " : "",
             aorta_trace_text(trace, operation), row->function != AORTA_TRACE_NONE ? " at " : "",
             aorta_trace_text(trace, row->function));
    return name;
}
