/* Reads events of a large file on all processors. The part of the array that is in memory is cut into spans where an
 * event seems to begin. Each span has its own builder, the first that of the file. A span counts if the span before
 * it ends where it begins, so no cut is wrong. Anything odd ends a span, which is read again from there, event by
 * event. */
#include "base/array.h"
#include "base/intern.h"
#include "base/parallel.h"
#include "trace/builder_internal.h"
#include "trace/kineto_read_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- spans that were read side by side become one: rows of a part follow those before it, and name texts, streams,
 * threads, … by the numbers of the whole. Numbers are given in order of arrival, so they are those that one builder
 * would have given ---- */

/* Rows without a map: their numbers shift by the number of such rows in the whole. */
enum shift { SHIFT_COLLECTIVES = TRACE_MAP_COUNT, SHIFT_RUNS, NUMBER_KINDS };

struct appending {
    struct aorta_trace_builder *whole, *part;
    uint32_t shift[NUMBER_KINDS];
};

static uint32_t number_of(const struct appending *a, int kind, uint32_t number) {
    if (number == AORTA_TRACE_NONE) return AORTA_TRACE_NONE;
    return kind < TRACE_MAP_COUNT ? a->part->maps[kind].items[number] : number + a->shift[kind];
}

static void add_number(struct appending *a, enum trace_map kind, uint32_t number) {
    struct trace_numbers *map = &a->part->maps[kind];
    a->whole->memory.failed |= !aorta_array_append(&map->items, &map->capacity, &map->count, &number, sizeof number);
}

static void map_texts(struct appending *a) {
    const struct aorta_texts *texts = a->part->trace->texts;
    for (size_t i = a->part->maps[TRACE_MAP_TEXT].count; i < texts->count && !a->whole->memory.failed; i++)
        add_number(a, TRACE_MAP_TEXT,
                   aorta_trace_builder_text(a->whole, texts->entries[i].raw, texts->entries[i].length));
}

static void map_keys(struct appending *a, enum trace_map kind, const struct aorta_keys *from, struct aorta_keys *to) {
    for (size_t i = a->part->maps[kind].count; i < from->count && !a->whole->memory.failed; i++) {
        const int64_t *key = from->items[i];
        const int64_t last = kind == TRACE_MAP_QUEUE ? number_of(a, TRACE_MAP_TEXT, (uint32_t)key[2]) : key[2];
        add_number(a, kind, aorta_keys_add(to, key[0], key[1], last, &a->whole->memory));
    }
}

static void map_groups(struct appending *a) {
    const struct aorta_trace_group *groups = a->part->groups.items;
    for (size_t i = a->part->maps[TRACE_MAP_GROUP].count; i < a->part->groups.count && !a->whole->memory.failed; i++)
        add_number(a, TRACE_MAP_GROUP,
                   aorta_trace_builder_group(a->whole, number_of(a, TRACE_MAP_TEXT, groups[i].name),
                                             number_of(a, TRACE_MAP_TEXT, groups[i].description), groups[i].size,
                                             groups[i].ranks, groups[i].rank_count));
}

static void map_inputs(struct appending *a) {
    const struct aorta_trace_inputs *rows = a->part->inputs.items;
    for (size_t i = a->part->maps[TRACE_MAP_INPUTS].count; i < a->part->inputs.count && !a->whole->memory.failed; i++) {
        const struct aorta_trace_inputs inputs = {.dims = number_of(a, TRACE_MAP_TEXT, rows[i].dims),
                                                  .types = number_of(a, TRACE_MAP_TEXT, rows[i].types),
                                                  .strides = number_of(a, TRACE_MAP_TEXT, rows[i].strides),
                                                  .values = number_of(a, TRACE_MAP_TEXT, rows[i].values)};
        add_number(a, TRACE_MAP_INPUTS, aorta_trace_add_inputs_row(a->whole, &inputs));
    }
}

static void map_shapes(struct appending *a) {
    const struct aorta_trace_shape *rows = a->part->shapes.items;
    for (size_t i = a->part->maps[TRACE_MAP_SHAPE].count; i < a->part->shapes.count && !a->whole->memory.failed; i++) {
        struct aorta_trace_shape shape = rows[i];
        shape.op = number_of(a, TRACE_MAP_TEXT, shape.op);
        shape.dims = number_of(a, TRACE_MAP_TEXT, shape.dims);
        shape.types = number_of(a, TRACE_MAP_TEXT, shape.types);
        const uint32_t values = number_of(a, TRACE_MAP_TEXT, (uint32_t)a->part->shape_keys.items[i][2]);
        add_number(a, TRACE_MAP_SHAPE, aorta_trace_add_shape_row(a->whole, &shape, values));
    }
}

static void map_all(struct appending *a) {
    struct aorta_trace_builder *part = a->part, *whole = a->whole;
    map_texts(a);
    map_keys(a, TRACE_MAP_STREAM, &part->streams, &whole->streams);
    map_keys(a, TRACE_MAP_QUEUE, &part->queues, &whole->queues);
    map_keys(a, TRACE_MAP_THREAD, &part->threads, &whole->threads);
    map_groups(a);
    map_inputs(a);
    map_shapes(a);
    a->shift[SHIFT_COLLECTIVES] = (uint32_t)whole->collectives.count;
    a->shift[SHIFT_RUNS] = (uint32_t)whole->runs.count;
}

/* ---- rows ---- */

enum { NUMBERS = 6 };

/* Rows in order of arrival, and which members of them are numbers. */
struct kind_of_rows {
    size_t rows, size; /* the member of the builder */
    struct {
        size_t at;
        int kind;
    } numbers[NUMBERS]; /* up to the first without a kind */
};

#define ROWS(member, type, ...)                                                                                        \
    {                                                                                                                  \
        offsetof(struct aorta_trace_builder, member), sizeof(type), {                                                  \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define RANGES(member)                                                                                                 \
    ROWS(member, struct aorta_trace_annotation, {offsetof(struct aorta_trace_annotation, name), TRACE_MAP_TEXT},       \
         {offsetof(struct aorta_trace_annotation, thread), TRACE_MAP_THREAD})
#define FACTS(member)                                                                                                  \
    ROWS(member, struct aorta_trace_collective, {offsetof(struct aorta_trace_collective, name), TRACE_MAP_TEXT},       \
         {offsetof(struct aorta_trace_collective, dtype), TRACE_MAP_TEXT},                                             \
         {offsetof(struct aorta_trace_collective, group), TRACE_MAP_GROUP},                                            \
         {offsetof(struct aorta_trace_collective, communicator), TRACE_MAP_TEXT},                                      \
         {offsetof(struct aorta_trace_collective, in_splits), TRACE_MAP_TEXT},                                         \
         {offsetof(struct aorta_trace_collective, out_splits), TRACE_MAP_TEXT})

static const struct kind_of_rows arriving[] = {
    ROWS(pending, struct trace_pending, {offsetof(struct trace_pending, work.name), TRACE_MAP_TEXT},
         {offsetof(struct trace_pending, work.stream), TRACE_MAP_STREAM},
         {offsetof(struct trace_pending, work.queue), TRACE_MAP_QUEUE},
         {offsetof(struct trace_pending, work.collective), SHIFT_COLLECTIVES},
         {offsetof(struct trace_pending, work.geometry), TRACE_MAP_TEXT}),
    ROWS(calls, struct aorta_trace_call, {offsetof(struct aorta_trace_call, name), TRACE_MAP_TEXT},
         {offsetof(struct aorta_trace_call, thread), TRACE_MAP_THREAD}),
    RANGES(annotations),
    RANGES(functions),
    ROWS(operations, struct trace_operation, {offsetof(struct trace_operation, run), SHIFT_RUNS},
         {offsetof(struct trace_operation, shape), TRACE_MAP_SHAPE}),
    ROWS(runs, struct aorta_trace_operation, {offsetof(struct aorta_trace_operation, name), TRACE_MAP_TEXT},
         {offsetof(struct aorta_trace_operation, thread), TRACE_MAP_THREAD},
         {offsetof(struct aorta_trace_operation, inputs), TRACE_MAP_INPUTS}),
    ROWS(requests, struct trace_request, {offsetof(struct trace_request, thread), TRACE_MAP_THREAD}),
    ROWS(allocations, struct aorta_trace_allocation,
         {offsetof(struct aorta_trace_allocation, thread), TRACE_MAP_THREAD}),
    ROWS(wait_facts, struct aorta_trace_wait_facts, {offsetof(struct aorta_trace_wait_facts, stream), TRACE_MAP_STREAM},
         {offsetof(struct aorta_trace_wait_facts, on), TRACE_MAP_STREAM}),
    ROWS(capture_marks, struct trace_capture_mark, {offsetof(struct trace_capture_mark, thread), TRACE_MAP_THREAD}),
    ROWS(launches, struct trace_launch, {offsetof(struct trace_launch, kernel), TRACE_MAP_TEXT}),
    FACTS(collectives),
    FACTS(request_facts),
    ROWS(thread_names, uint32_t[2], {0, TRACE_MAP_THREAD}, {sizeof(uint32_t), TRACE_MAP_TEXT}),
};

static void renumber(const struct appending *a, const struct kind_of_rows *kind, char *rows, size_t count) {
    for (int n = 0; n < NUMBERS && kind->numbers[n].kind; n++) {
        char *at = rows + kind->numbers[n].at;
        for (size_t i = 0; i < count; i++, at += kind->size) {
            uint32_t number;
            memcpy(&number, at, sizeof number);
            number = number_of(a, kind->numbers[n].kind, number);
            memcpy(at, &number, sizeof number);
        }
    }
}

static void append_rows(struct appending *a, const struct kind_of_rows *kind) {
    struct trace_rows *from = (struct trace_rows *)((char *)a->part + kind->rows);
    struct trace_rows *to = (struct trace_rows *)((char *)a->whole + kind->rows);
    if (!from->count || a->whole->memory.failed) return;
    if (!aorta_array_fit(&to->items, &to->capacity, to->count + from->count, kind->size)) {
        a->whole->memory.failed = true;
        return;
    }
    char *added = (char *)to->items + to->count * kind->size;
    memcpy(added, from->items, from->count * kind->size);
    renumber(a, kind, added, from->count);
    to->count += from->count;
    from->count = 0;
}

static void append_frames(struct appending *a) {
    const struct aorta_trace_frame *frames = a->part->frames.items;
    for (size_t i = 0; i < a->part->frames.count; i++) {
        const struct aorta_trace_annotation frame = {frames[i].start_ns, frames[i].end_ns,
                                                     number_of(a, TRACE_MAP_TEXT, frames[i].name),
                                                     number_of(a, TRACE_MAP_THREAD, frames[i].thread)};
        aorta_trace_builder_frame(a->whole, &frame, (enum aorta_trace_frame_kind)frames[i].kind);
    }
    a->part->frames.count = 0;
}

static void append_head(struct appending *a) {
    struct aorta_trace *to = a->whole->trace, *from = a->part->trace;
    aorta_trace_warnings_add(to->warnings, from->warnings);
    for (int i = 0; i < AORTA_REASON_COUNT; i++) from->warnings[i] = (struct aorta_trace_warning){.offset = -1};
    if (to->process < 0) to->process = from->process;
    to->events += from->events;
    from->events = 0;
}

/* Adds the rows of the part, and empties it for a later one. False: rows before it decide what is read of the part
 * (captures), and nothing was added. */
static bool append(struct aorta_trace_builder *whole, struct aorta_trace_builder *part) {
    struct appending a = {.whole = whole, .part = part};
    if (aorta_trace_builder_captures(whole) != part->captures_before) return false;
    whole->memory.failed |= part->memory.failed;
    map_all(&a);
    if (whole->memory.failed) return true; /* the end says so */
    for (size_t i = 0; i < sizeof arriving / sizeof *arriving; i++) append_rows(&a, &arriving[i]);
    append_frames(&a);
    append_head(&a);
    const struct aorta_trace_step *steps = part->steps.items;
    for (size_t i = 0; i < part->steps.count; i++) aorta_trace_add_step(whole, &steps[i]);
    return true;
}

enum { FIRST_AFTER = 16 << 20, SPAN = 1 << 20, MOST = 8 };

struct span {
    const char *begin, *limit, *end; /* the next span's beginning; that of what is in memory */
    int64_t offset;                  /* of `begin` in the file */
    const char *last, *behind;       /* the last event that was read, and what follows it; NULL: none was */
    bool joins;                      /* the next event is that at `limit` */
};

struct kineto_spans {
    size_t count, cut; /* at most; now */
    size_t window;     /* bytes, a power of two */
    struct span spans[MOST];
    struct trace_kineto *readers[MOST]; /* of all but the first, with their builders */
    int64_t again;                      /* not before this place in the file */
    struct trace_kineto *whole;
};

static void free_reader(struct trace_kineto *reader) {
    if (reader) aorta_trace_builder_destroy(reader->whole);
    aorta_trace_kineto_destroy(reader);
}

void aorta_trace_kineto_spans_free(struct kineto_spans *spans) {
    if (!spans) return;
    for (size_t i = 1; i < spans->count; i++) free_reader(spans->readers[i]);
    free(spans);
}

static struct kineto_spans *make_spans(struct trace_kineto *kineto) {
    struct kineto_spans *spans = calloc(1, sizeof *spans);
    if (!spans) return NULL;
    const size_t width = aorta_parallel_width();
    spans->count = width < MOST ? width : MOST;
    for (spans->window = SPAN; spans->window < spans->count * SPAN; spans->window *= 2) continue;
    spans->readers[0] = spans->whole = kineto;
    spans->again = FIRST_AFTER;
    return spans;
}

/* False: memory is exhausted, and what is to be read is read without it. */
static bool make_reader(struct kineto_spans *spans, size_t i) {
    struct trace_kineto *whole = spans->whole;
    struct aorta_trace_builder *builder;
    if (spans->readers[i]) return true;
    aorta_status status =
        aorta_trace_builder_create(whole->whole->trace->format, whole->whole->trace->path, whole->options, &builder);
    if (!status) {
        status = aorta_trace_kineto_create(whole->stream, builder, whole->options, &spans->readers[i]);
        if (status) aorta_trace_builder_destroy(builder);
    }
    const bool made = !status;
    aorta_status_free(status);
    return made;
}

/* ---- one span ---- */

static const char *pass_spaces(const char *at, const char *end) {
    while (at < end && aorta_json_space(*at)) at++;
    return at;
}

/* The event behind a comma; NULL: none is in memory. */
static const char *next_event(const char *at, const char *end) {
    at = pass_spaces(at, end);
    if (at == end || *at != ',') return NULL;
    at = pass_spaces(at + 1, end);
    return at < end && *at == '{' ? at : NULL;
}

/* Names and labels of processes make ranks, for which events are read otherwise; ends of recordings are counted. */
static bool is_for_one(const struct kineto_event *event) {
    return aorta_json_text_is(event->field[FIELD_NAME], "process_name") ||
           aorta_json_text_is(event->field[FIELD_NAME], "Record Window End") ||
           aorta_trace_kineto_label(event->field[FIELD_PROCESS]);
}

/* The last piece of all is to read on in the file. */
static aorta_status read_span(void *user, size_t piece) {
    struct kineto_spans *spans = user;
    if (piece == spans->cut) {
        aorta_json_stream_fill_next(spans->whole->stream);
        return NULL;
    }
    struct trace_kineto *reader = spans->readers[piece];
    struct span *span = &spans->spans[piece];
    struct kineto_event event;
    const char *at = span->begin;
    while (at && at < span->limit) {
        const char *behind = aorta_trace_kineto_walk(reader, at, span->end, &event);
        if (!behind || is_for_one(&event)) return NULL;
        event.offset = span->offset + (at - span->begin);
        aorta_status status = aorta_trace_kineto_add_event(reader, &event);
        if (status) { /* it is met again */
            aorta_status_free(status);
            return NULL;
        }
        aorta_trace_builder_head(reader->whole)->events++;
        span->last = at;
        span->behind = behind;
        at = next_event(behind, span->end);
    }
    span->joins = at == span->limit;
    return NULL;
}

/* ---- all of them ---- */

/* Where an event seems to begin: a bracket that opens behind one that closes and a comma. */
static const char *find_begin(const char *from, const char *at, const char *end) {
    while (at < end && (at = memchr(at, '{', (size_t)(end - at)))) {
        const char *before = at - 1;
        while (before > from && aorta_json_space(*before)) before--;
        if (before > from && *before == ',') {
            for (before--; before > from && aorta_json_space(*before);) before--;
            if (*before == '}') return at;
        }
        at++;
    }
    return NULL;
}

/* How many there are. */
static size_t cut(struct kineto_spans *spans, const char *begin, const char *end, int64_t offset) {
    const size_t length = (size_t)(end - begin);
    size_t count = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const char *at = i ? find_begin(begin, begin + length / spans->count * i, end) : begin;
        if (!at || (i && !make_reader(spans, i))) break;
        if (i) spans->spans[i - 1].limit = at;
        spans->spans[count++] = (struct span){.begin = at, .limit = end, .end = end, .offset = offset + (at - begin)};
        if (i) spans->readers[i]->whole->captures_before = aorta_trace_builder_captures(spans->whole->whole);
    }
    return count;
}

/* The last span that counts: readers of later spans may have seen events that are not there. */
static struct span *join(struct kineto_spans *spans, size_t count) {
    size_t last = 0;
    while (last + 1 < count && spans->spans[last].joins && append(spans->whole->whole, spans->readers[last + 1]->whole))
        last++;
    for (size_t i = last + 1; i < count; i++) {
        free_reader(spans->readers[i]);
        spans->readers[i] = NULL;
    }
    while (last && !spans->spans[last].behind) last--;
    return &spans->spans[last];
}

void aorta_trace_kineto_read_spans(struct trace_kineto *kineto) {
    if (!kineto->spans) kineto->spans = make_spans(kineto);
    struct kineto_spans *spans = kineto->spans;
    struct aorta_json_stream *stream = kineto->stream;
    const int64_t offset = aorta_json_stream_bytes(stream);
    if (!spans || spans->count < 2 || offset < spans->again || kineto->rank_count || kineto->mixed || kineto->xla)
        return;
    const bool filled = aorta_json_stream_fill(stream, spans->window);
    const char *end, *ahead = aorta_json_stream_ahead(stream, &end), *begin = filled ? next_event(ahead, end) : NULL;
    spans->again = offset + (int64_t)spans->window / 2;
    if (!begin) return;
    spans->cut = cut(spans, begin, end, offset + (begin - ahead));
    aorta_status_free(aorta_parallel(spans->cut + 1, read_span, spans));
    const struct span *last = join(spans, spans->cut);
    if (!last->behind) return;
    aorta_json_stream_pass(stream, last->last);
    aorta_json_stream_pass(stream, last->behind);
    if (last->behind - ahead >= (ptrdiff_t)(spans->window / 4)) spans->again = 0;
}
