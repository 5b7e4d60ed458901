#include "hwq/match.h"

#include "profile/kernel_names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool aorta_hwq_is_gate(const char *kernel) {
    return strstr(kernel, "hwq_hold") != NULL;
}

static bool is_mark(const char *kernel) {
    return strstr(kernel, "hwq_mark") != NULL;
}

bool aorta_hwq_is_bookkeeping(const char *kernel) {
    return aorta_kernel_only_measures(aorta_kernel_classify(kernel, NULL).class);
}

static int by_launch(const void *left, const void *right) {
    const struct aorta_hwq_recorded *a = left, *b = right;
    if (a->correlation != b->correlation) return a->correlation < b->correlation ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

void aorta_hwq_recorded_sort(struct aorta_hwq_recorded *kernels, size_t count) {
    if (count) qsort(kernels, count, sizeof *kernels, by_launch);
}

/* The walk along the launches of one iteration. */
struct walk {
    const struct aorta_hwq_spans *spans;
    struct aorta_hwq_interval *found;
    size_t next, open_count;                /* span that is expected next; marked ones that have not ended */
    int64_t numbers[AORTA_HWQ_MAX_STREAMS]; /* the recording's of our streams */
    bool numbered[AORTA_HWQ_MAX_STREAMS];
    size_t open[AORTA_HWQ_MAX_STREAMS]; /* marked span of our stream, SIZE_MAX: none */
};

/* The stream of ours that the recording calls `number`; -1: none so far. */
static int stream_of(const struct walk *walk, int64_t number) {
    for (int s = 0; s < AORTA_HWQ_MAX_STREAMS; s++)
        if (walk->numbered[s] && walk->numbers[s] == number) return s;
    return -1;
}

static aorta_status out_of_step(const struct walk *walk, const char *kernel) {
    const struct aorta_hwq_span *span = walk->next < walk->spans->count ? &walk->spans->items[walk->next] : NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "behind gate %" PRId64 " the recording has %s where stamp %zu of %zu is of %s on stream %d: "
                       "recording and stamps are not of the same launches",
                       walk->spans->gate, kernel, walk->next, walk->spans->count, span ? span->name : "nothing",
                       span ? span->stream : -1);
}

/* The next span begins with this kernel: streams have to be the same as ever. */
static aorta_status begin_span(struct walk *walk, const struct aorta_hwq_recorded *kernel) {
    const struct aorta_hwq_span *span = &walk->spans->items[walk->next];
    const int known = stream_of(walk, kernel->stream);
    if (known >= 0 ? known != span->stream : walk->numbered[span->stream]) return out_of_step(walk, kernel->name);
    walk->numbers[span->stream] = kernel->stream;
    walk->numbered[span->stream] = true;
    walk->found[walk->next] = (struct aorta_hwq_interval){kernel->start_ns, kernel->end_ns};
    if (span->marked) {
        walk->open[span->stream] = walk->next;
        walk->open_count++;
    }
    walk->next++;
    return NULL;
}

static aorta_status take_mark(struct walk *walk, const struct aorta_hwq_recorded *kernel) {
    const int stream = stream_of(walk, kernel->stream);
    if (stream >= 0 && walk->open[stream] != SIZE_MAX) {
        walk->found[walk->open[stream]].end_ns = kernel->end_ns;
        walk->open[stream] = SIZE_MAX;
        walk->open_count--;
        return NULL;
    }
    if (walk->next == walk->spans->count || !walk->spans->items[walk->next].marked)
        return out_of_step(walk, kernel->name);
    return begin_span(walk, kernel);
}

static aorta_status take_kernel(struct walk *walk, const struct aorta_hwq_recorded *kernel) {
    if (kernel->graph) return NULL; /* no launch of its own */
    if (is_mark(kernel->name)) return take_mark(walk, kernel);
    if (walk->next == walk->spans->count) return NULL;
    const struct aorta_hwq_span *span = &walk->spans->items[walk->next];
    return !span->marked && strstr(kernel->name, span->name) ? begin_span(walk, kernel) : NULL;
}

static size_t find_gate(const struct aorta_hwq_recorded *kernels, size_t count, int64_t number) {
    for (size_t i = 0; i < count; i++)
        if (aorta_hwq_is_gate(kernels[i].name) && --number == 0) return i;
    return count;
}

aorta_status aorta_hwq_match(const struct aorta_hwq_iteration *iteration, const struct aorta_hwq_recorded *kernels,
                             size_t count, struct aorta_hwq_interval *found) {
    struct walk walk = {.spans = &iteration->spans, .found = found};
    size_t at = find_gate(kernels, count, iteration->spans.gate);
    bool graph = false;
    if (at == count)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "gate %" PRId64 " of the run is not in the recording",
                           iteration->spans.gate);
    if (!kernels[at].correlation)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "the recording does not say in which order kernels were launched");
    for (int s = 0; s < AORTA_HWQ_MAX_STREAMS; s++) walk.open[s] = SIZE_MAX;
    for (at++; at < count && (walk.next < walk.spans->count || walk.open_count); at++) {
        if (aorta_hwq_is_gate(kernels[at].name)) break;
        graph = graph || kernels[at].graph;
        AORTA_TRY(take_kernel(&walk, &kernels[at]));
    }
    if (walk.next == walk.spans->count && !walk.open_count) return NULL;
    if (graph && !walk.next)
        return AORTA_ERROR(AORTA_UNSUPPORTED,
                           "kernels of a graph (--graph) are launched by one call: the recording does "
                           "not say in which order");
    return AORTA_ERROR(AORTA_UNSUPPORTED, "behind gate %" PRId64 " the recording has %zu of %zu stamped operations",
                       walk.spans->gate, walk.next - walk.open_count, walk.spans->count);
}
