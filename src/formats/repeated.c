#include "formats/repeated.h"

#include "base/hash.h"
#include "timeline/texts.h"

#include <stdlib.h>
#include <string.h>

/* Names and lengths of a trace's work: merging changes neither, whatever it does to clocks. */
struct signature {
    uint64_t sum;
    size_t count;
};

struct repeating {
    struct aorta_trace **items;
    size_t count;
    struct signature *signatures;
    size_t *file; /* place of the first trace of the same file */
    bool *gone;
};

static struct signature signature_of(const struct aorta_trace *trace) {
    struct signature signature = {0, trace->work_count};
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        const uint64_t name = work->name == AORTA_TRACE_NONE ? 0 : trace->texts->entries[work->name].hash;
        signature.sum += aorta_hash_add(aorta_hash_add(0, name), (uint64_t)(work->end_ns - work->start_ns));
    }
    return signature;
}

static bool are_equal(struct signature a, struct signature b) {
    return a.count && a.count == b.count && a.sum == b.sum;
}

/* A trace of another file with the same work; count: there is none. */
static size_t find_twin(const struct repeating *r, size_t trace) {
    size_t at = 0;
    while (at < r->count &&
           (r->gone[at] || r->file[at] == r->file[trace] || !are_equal(r->signatures[at], r->signatures[trace])))
        at++;
    return at;
}

/* `trace` says so, of each file once. */
static void drop(struct repeating *r, size_t trace, size_t repeated) {
    r->gone[repeated] = true;
    if (r->file[repeated] == repeated)
        aorta_trace_warn_of_file(r->items[trace], AORTA_REASON_REPEATED, r->items[repeated]->path);
}

/* The traces [first, end) are of one file. */
static void compare_merged(struct repeating *r, size_t first, size_t end) {
    size_t twins = 0, twin;
    for (size_t i = first; i < end; i++) twins += find_twin(r, i) < r->count;
    for (size_t i = first; i < end; i++) {
        if ((twin = find_twin(r, i)) == r->count) continue;
        if (twins == end - first)
            drop(r, twin, i);
        else
            drop(r, i, twin);
    }
}

/* Drops a merged file whose ranks are not separate: its work is the sum of the work of all remaining files. */
static void compare_whole(struct repeating *r, size_t trace) {
    struct signature others = {0};
    size_t files = 0, first = r->count;
    for (size_t i = 0; i < r->count; i++) {
        if (i == trace || r->gone[i]) continue;
        others.sum += r->signatures[i].sum;
        others.count += r->signatures[i].count;
        files += r->file[i] == i;
        if (first == r->count) first = i;
    }
    if (files > 1 && are_equal(others, r->signatures[trace])) drop(r, first, trace);
}

static void find_repeated(struct repeating *r) {
    for (size_t i = 0; i < r->count; i++) {
        r->signatures[i] = signature_of(r->items[i]);
        r->file[i] = i && !strcmp(r->items[i - 1]->path, r->items[i]->path) ? r->file[i - 1] : i;
    }
    for (size_t i = 0, end; i < r->count; i = end) {
        for (end = i + 1; end < r->count && r->file[end] == i;) end++;
        if (end - i > 1 && end - i < r->count) compare_merged(r, i, end);
        if (end - i == 1 && r->count > 2 && !r->gone[i]) compare_whole(r, i);
    }
}

static void take_out(struct repeating *r, struct aorta_trace_list *list, size_t from) {
    list->count = from;
    for (size_t i = 0; i < r->count; i++)
        if (r->gone[i])
            aorta_trace_free(r->items[i]);
        else
            list->items[list->count++] = r->items[i];
}

aorta_status aorta_trace_drop_repeated(struct aorta_trace_list *list, size_t from) {
    struct repeating r = {.items = list->items + from, .count = list->count - from};
    if (r.count < 3) return NULL;
    r.signatures = malloc(r.count * sizeof *r.signatures);
    r.file = malloc(r.count * sizeof *r.file);
    r.gone = calloc(r.count, sizeof *r.gone);
    const bool made = r.signatures && r.file && r.gone;
    if (made) {
        find_repeated(&r);
        take_out(&r, list, from);
    }
    free(r.signatures);
    free(r.file);
    free(r.gone);
    return made ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory to compare %zu traces", r.count);
}
