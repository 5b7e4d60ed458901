#include "trace/ranks.h"

#include <stdlib.h>
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

bool aorta_trace_overlap_in_time(const struct aorta_trace *a, const struct aorta_trace *b) {
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
                aorta_trace_overlap_in_time(list->items[i], list->items[j]))
                return true;
    return false;
}

aorta_status aorta_trace_ranks_known(const struct aorta_trace_list *list, int **ranks) {
    *ranks = malloc((list->count + 1) * sizeof **ranks);
    if (!*ranks) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu ranks", list->count);
    for (size_t i = 0; i < list->count; i++) {
        const struct aorta_trace *trace = list->items[i];
        (*ranks)[i] = !is_named(list, i)     ? trace->rank
                      : shares_file(list, i) ? UNKNOWN
                                             : aorta_trace_rank_in_path(trace->path);
    }
    if (!are_of_hosts(list, *ranks)) return NULL;
    for (size_t i = 0; i < list->count; i++)
        if (is_named(list, i)) (*ranks)[i] = UNKNOWN;
    return NULL;
}
