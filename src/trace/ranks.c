#include "trace/ranks.h"

#include <string.h>

enum { UNKNOWN = -1 };

/* From the first start to the last end, on the clock of the day; false: it is not known. */
static bool find_extent(const struct aorta_trace *trace, int64_t *from_ns, int64_t *to_ns) {
    if (trace->base_ns == INT64_MIN || !trace->work_count) return false;
    int64_t last_ns = INT64_MIN;
    for (size_t i = 0; i < trace->work_count; i++)
        if (trace->work[i].end_ns > last_ns) last_ns = trace->work[i].end_ns;
    return !__builtin_add_overflow(trace->work[0].start_ns, trace->base_ns, from_ns) &&
           !__builtin_add_overflow(last_ns, trace->base_ns, to_ns);
}

/* Whether both say the time of day, and were recorded at the same time. */
static bool overlap_in_time(const struct aorta_trace *a, const struct aorta_trace *b) {
    int64_t from[2], to[2];
    return find_extent(a, &from[0], &to[0]) && find_extent(b, &from[1], &to[1]) && from[0] < to[1] && from[1] < to[0];
}

static bool shares_file(const struct aorta_trace_list *list, size_t trace) {
    const char *path = list->items[trace]->path;
    return (trace && !strcmp(list->items[trace - 1]->path, path)) ||
           (trace + 1 < list->count && !strcmp(list->items[trace + 1]->path, path));
}

static bool is_named(const struct aorta_trace_list *list, size_t trace) {
    return list->items[trace]->rank < 0;
}

/* Whether the names of files say a rank twice, of recordings at one time. */
static bool are_of_hosts(const struct aorta_trace_list *list, const int *ranks) {
    for (size_t i = 0; i < list->count; i++)
        for (size_t j = 0; j < i; j++)
            if (ranks[i] != UNKNOWN && ranks[i] == ranks[j] && is_named(list, i) && is_named(list, j) &&
                overlap_in_time(list->items[i], list->items[j]))
                return true;
    return false;
}

int *aorta_trace_ranks_known(const struct aorta_trace_list *list, struct aorta_arena *memory) {
    int *ranks = aorta_arena_alloc(memory, list->count * sizeof *ranks);
    for (size_t i = 0; ranks && i < list->count; i++) {
        const struct aorta_trace *trace = list->items[i];
        ranks[i] = !is_named(list, i)     ? trace->rank
                   : shares_file(list, i) ? UNKNOWN
                                          : aorta_trace_rank_in_path(trace->path);
    }
    const bool hosts = ranks && are_of_hosts(list, ranks);
    for (size_t i = 0; hosts && i < list->count; i++)
        if (is_named(list, i)) ranks[i] = UNKNOWN;
    return ranks;
}

/* Cycles of a profile schedule: a file for each, of the same rank, whose steps go on where the one before stopped. */

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
    if (overlap_in_time(a, b)) return false; /* of two hosts, where processes have the same numbers */
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
