#include "replay/recording_cost_internal.h"

#include "base/sort.h"
#include "trace/builder.h"

#include <string.h>

static uint8_t stamped_call(const char *name) {
    enum aorta_trace_call_kind kind;
    if (!aorta_trace_call_classify(name, &kind)) return AORTA_STAMPED_CALL;
    switch (kind) {
    case AORTA_CALL_LAUNCH:
    case AORTA_CALL_GRAPH_LAUNCH:
    case AORTA_CALL_FILL:
        return AORTA_STAMPED_LAUNCH;
    case AORTA_CALL_COPY:
        return strstr(name, "Async") ? AORTA_STAMPED_LAUNCH : AORTA_STAMPED_WAIT;
    case AORTA_CALL_SYNC:
        return AORTA_STAMPED_WAIT;
    default:
        return AORTA_STAMPED_CALL;
    }
}

static uint8_t stamped_operation(const char *name) {
    static const char *const ends[] = {"Backward", "AccumulateGrad"};
    if (!strncmp(name, "autograd::engine", 16)) return AORTA_STAMPED_ENGINE;
    size_t length = strlen(name);
    if (!strncmp(name, "aten::", 6)) return AORTA_STAMPED_OPERATION;
    while (length && name[length - 1] >= '0' && name[length - 1] <= '9') length--;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);
        if (length >= end && !memcmp(name + length - end, ends[i], end)) return AORTA_STAMPED_NODE;
    }
    return AORTA_STAMPED_OPERATION;
}

/* What a text means as the name of an operation or a call, found out once: 1 + enum aorta_stamped; 0: not yet. */
struct meanings {
    const struct aorta_trace *trace;
    uint8_t *operations, *calls;
};

static uint8_t meaning_of(const struct meanings *meanings, uint32_t text, bool call) {
    uint8_t *known = call ? meanings->calls : meanings->operations;
    if (text == AORTA_TRACE_NONE) return AORTA_STAMPED_FUNCTION;
    if (!known[text]) {
        const char *name = aorta_trace_text(meanings->trace, text);
        known[text] = (uint8_t)(1 + (call ? stamped_call(name) : stamped_operation(name)));
    }
    return known[text] - 1;
}

static int event_order(const void *left, const void *right) {
    const struct aorta_stamped_event *a = left, *b = right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    if (a->end_ns != b->end_ns) return a->end_ns > b->end_ns ? -1 : 1;
    return (a->stamped > b->stamped) - (a->stamped < b->stamped);
}

static uint8_t stamped_frame(const struct meanings *meanings, const struct aorta_trace_frame *frame) {
    switch ((enum aorta_trace_frame_kind)frame->kind) {
    case AORTA_FRAME_RANGE:
        return AORTA_STAMPED_RANGE;
    case AORTA_FRAME_FUNCTION:
        return AORTA_STAMPED_FUNCTION;
    case AORTA_FRAME_OPERATION:
        return meaning_of(meanings, frame->name, false);
    case AORTA_FRAME_CALL:
        break;
    }
    return meaning_of(meanings, frame->name, true);
}

/* Where the next event of each thread goes; the first time around events are only counted. */
struct places {
    const struct aorta_trace *trace;
    const struct meanings *meanings;
    const bool *wanted; /* of each thread */
    size_t *next;
    struct aorta_stamped_event *events; /* NULL: to be counted */
};

static void add_event(struct places *places, int64_t start_ns, int64_t end_ns, uint32_t name, uint32_t thread,
                      uint8_t stamped) {
    struct aorta_stamped_event *event = &places->events[places->next[thread]++];
    *event = (struct aorta_stamped_event){.start_ns = start_ns,
                                          .end_ns = end_ns,
                                          .name = name & AORTA_STAMPED_TEXTS,
                                          .parent = AORTA_TRACE_NONE,
                                          .only = AORTA_TRACE_NONE,
                                          .stamped = stamped & 15};
}

static void add_operations(struct places *places) {
    const struct aorta_trace *trace = places->trace;
    for (size_t i = 0; i < trace->operation_count; i++) {
        const struct aorta_trace_operation *row = &trace->operations[i];
        if (!places->wanted[row->thread]) continue;
        if (!places->events)
            places->next[row->thread]++;
        else
            add_event(places, row->start_ns, row->end_ns, row->name, row->thread,
                      row->range ? AORTA_STAMPED_RANGE : meaning_of(places->meanings, row->name, false));
    }
}

/* A step's range is written when the step is over: with the others it would not be in order. */
static void add_frames(struct places *places, bool ranges) {
    const struct aorta_trace *trace = places->trace;
    for (size_t i = 0; i < trace->frame_count; i++) {
        const struct aorta_trace_frame *frame = &trace->frames[i];
        if (!places->wanted[frame->thread] || (frame->kind == AORTA_FRAME_RANGE) != ranges) continue;
        if (!places->events)
            places->next[frame->thread]++;
        else
            add_event(places, frame->start_ns, frame->end_ns, frame->name, frame->thread,
                      stamped_frame(places->meanings, frame));
    }
}

/* Kineto's calls of no known kind are frames, and its waits for data are ranges. */
static bool is_own_call(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    if (trace->format != AORTA_TRACE_KINETO) return true;
    return call->kind != AORTA_CALL_DATA_WAIT && call->kind != AORTA_CALL_OTHER;
}

static void add_calls(struct places *places) {
    const struct aorta_trace *trace = places->trace;
    for (size_t i = 0; i < trace->call_count; i++) {
        const struct aorta_trace_call *call = &trace->calls[i];
        if (!places->wanted[call->thread] || !is_own_call(trace, call)) continue;
        if (!places->events)
            places->next[call->thread]++;
        else
            add_event(places, call->start_ns, call->end_ns, call->name, call->thread,
                      meaning_of(places->meanings, call->name, true));
    }
}

/* Kineto has all that was stamped; a recording of `aorta trace run` calls alone. */
static void add_all(struct places *places) {
    add_operations(places);
    add_frames(places, false);
    add_frames(places, true);
    add_calls(places);
}

/* A thread's events: its operations, which are in order, then the others, which mostly are. */
static void collect(struct places *places, struct aorta_stamped_events *events, struct aorta_arena *memory) {
    const size_t threads = places->trace->thread_count;
    add_all(places);
    for (size_t i = 0; i < threads; i++) {
        const size_t count = places->next[i];
        places->next[i] = events->count;
        events->count += count;
    }
    events->items = aorta_arena_raw(memory, (events->count + events->count / 2 + 2) * sizeof *events->items);
    if (!events->items) return;
    places->events = events->items;
    add_all(places);
    for (size_t i = 0, first = 0; i < threads; first = places->next[i++])
        aorta_sort_rows(events->items + first, places->next[i] - first, sizeof *events->items, event_order);
}

/* Threads that launch, and those that have the steps. */
static bool *wanted_threads(const struct aorta_trace *trace, struct aorta_arena *memory) {
    bool *wanted = aorta_trace_launching_threads(trace, memory);
    for (size_t i = 0; wanted && i < trace->frame_count; i++)
        if (trace->frames[i].kind == AORTA_FRAME_RANGE) wanted[trace->frames[i].thread] = true;
    return wanted;
}

/* What lies in what, of the events first … end - 1, which begin at `count` then; returns where they end. */
static size_t nest(struct aorta_stamped_event *events, size_t first, size_t end, size_t count) {
    uint32_t open = AORTA_TRACE_NONE;
    for (size_t i = first; i < end; i++) {
        struct aorta_stamped_event event = events[i];
        while (open != AORTA_TRACE_NONE && events[open].end_ns <= event.start_ns) open = events[open].parent;
        if (open != AORTA_TRACE_NONE) {
            struct aorta_stamped_event *around = &events[open];
            if (is_call(around)) {
                if (event.stamped == AORTA_STAMPED_LAUNCH) around->stamped = event.stamped;
                continue;
            }
            if (event.end_ns > around->end_ns) event.end_ns = around->end_ns;
            around->only = around->only == AORTA_TRACE_NONE ? (uint32_t)count : (uint32_t)AORTA_STAMPED_SEVERAL;
        }
        event.parent = open;
        open = (uint32_t)count;
        events[count++] = event;
    }
    return count;
}

struct aorta_stamped_events aorta_stamped_events_make(const struct aorta_trace *trace, struct aorta_arena *memory,
                                                      struct aorta_arena *scratch) {
    const size_t texts = aorta_trace_text_count(trace) + 1;
    bool *wanted = wanted_threads(trace, scratch);
    const struct meanings meanings = {trace, aorta_arena_alloc(scratch, texts), aorta_arena_alloc(scratch, texts)};
    struct aorta_stamped_events events = {.ends =
                                              aorta_arena_alloc(scratch, (trace->thread_count + 1) * sizeof(size_t))};
    struct places places = {.trace = trace, .meanings = &meanings, .wanted = wanted, .next = events.ends};
    if (wanted && !scratch->failed) collect(&places, &events, memory);
    scratch->failed |= memory->failed;
    if (scratch->failed) return events;
    events.count = 0;
    for (size_t i = 0, first = 0; i < trace->thread_count; i++) {
        const size_t end = events.ends[i];
        events.ends[i] = events.count = nest(events.items, first, end, events.count);
        first = end;
    }
    return events;
}
