/* Cycles of a profile schedule: a file for each, of the same rank, whose steps go on where the one before stopped. */
#include "trace/cycles.h"

#include "trace/ranks.h"

#include <string.h>

/* One program wrote them: beside each other, on the same device. */
static bool are_of_one_run(const struct aorta_trace *a, const struct aorta_trace *b) {
    const char *slash = strrchr(a->path, '/'), *other = strrchr(b->path, '/');
    const size_t folder = slash ? (size_t)(slash - a->path) : 0;
    if (folder != (other ? (size_t)(other - b->path) : 0) || strncmp(a->path, b->path, folder) != 0) return false;
    if (a->world != b->world || a->process != b->process || a->device_count != b->device_count) return false;
    for (size_t i = 0; i < a->device_count; i++)
        if (strcmp(aorta_trace_text(a, a->devices[i].name), aorta_trace_text(b, b->devices[i].name)) != 0) return false;
    return true;
}

/* Marked by a profiler, so that two files with the same numbers are of two runs, or of two ranks that are not named. */
static bool is_before(const struct aorta_trace *a, const struct aorta_trace *b) {
    const int rank = a->rank >= 0 ? a->rank : aorta_trace_rank_in_path(a->path);
    const int other = b->rank >= 0 ? b->rank : aorta_trace_rank_in_path(b->path);
    if (rank != other || a->format != b->format || !are_of_one_run(a, b)) return false;
    if (!a->step_count || !b->step_count) return false;
    if (a->steps_by != AORTA_STEPS_MARKED || b->steps_by != AORTA_STEPS_MARKED) return false;
    if (aorta_trace_overlap_in_time(a, b)) return false; /* of two hosts, where processes have the same numbers */
    return a->steps[a->step_count - 1].number < b->steps[0].number;
}

size_t aorta_trace_later_cycles(const struct aorta_trace_list *list, size_t trace) {
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) count += is_before(list->items[trace], list->items[i]);
    return count;
}

size_t aorta_trace_take_last_cycle(struct aorta_trace_list *list) {
    size_t cycles = 1, used = 0;
    /* From the front: what is dropped has later ones, which stay. */
    for (size_t i = 0; i < list->count; i++) {
        const size_t behind = aorta_trace_later_cycles(list, i);
        if (behind + 1 > cycles) cycles = behind + 1;
        list->items[i]->earlier = behind > 0;
    }
    for (size_t i = 0; i < list->count; i++) {
        struct aorta_trace *trace = list->items[i];
        if (trace->earlier)
            aorta_trace_free(trace);
        else
            list->items[used++] = trace;
    }
    list->count = used;
    return cycles;
}
