/* Parts of a file that were read side by side become one: rows of a part follow those before it, and name texts,
 * streams, threads, … by the numbers of the whole. Numbers are given in order of arrival, so they are those that one
 * builder would have given. */
#include "trace/builder_internal.h"

#include "base/array.h"
#include "trace/texts.h"

#include <string.h>

aorta_status aorta_trace_builder_part(const struct aorta_trace_builder *whole,
                                      const struct aorta_trace_options *options, struct aorta_trace_builder **part) {
    return aorta_trace_builder_create(whole->trace->format, whole->trace->path, options, part);
}

void aorta_trace_builder_part_begins(const struct aorta_trace_builder *whole, struct aorta_trace_builder *part) {
    part->captures_before = aorta_trace_builder_captures(whole);
}

/* ---- numbers ---- */

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
    const struct aorta_trace_texts *texts = a->part->trace->texts;
    for (size_t i = a->part->maps[TRACE_MAP_TEXT].count; i < texts->count && !a->whole->memory.failed; i++)
        add_number(a, TRACE_MAP_TEXT,
                   aorta_trace_builder_text(a->whole, texts->entries[i].raw, texts->entries[i].length));
}

static void map_keys(struct appending *a, enum trace_map kind, const struct trace_keys *from, struct trace_keys *to) {
    for (size_t i = a->part->maps[kind].count; i < from->count && !a->whole->memory.failed; i++) {
        const int64_t *key = from->keys[i];
        const int64_t last = kind == TRACE_MAP_QUEUE ? number_of(a, TRACE_MAP_TEXT, (uint32_t)key[2]) : key[2];
        add_number(a, kind, aorta_trace_add_key(a->whole, to, key[0], key[1], last));
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
        const uint32_t values = number_of(a, TRACE_MAP_TEXT, (uint32_t)a->part->shape_keys.keys[i][2]);
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

bool aorta_trace_builder_append(struct aorta_trace_builder *whole, struct aorta_trace_builder *part) {
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
