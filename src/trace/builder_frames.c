/* What ran on the host around a call: the operation that launched a kernel, with its shape, and what made the calls
 * that wait for the device. */
#include "trace/builder_internal.h"

#include "base/array.h"
#include "base/sort.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST_NS = 5000 }; /* what is shorter holds no wait worth a name */

/* ---- rows ---- */

/* Some files write a number a line; here a list is one line: "[[768], [512, 768]]". */
uint32_t aorta_trace_list_text(struct aorta_trace_builder *builder, struct aorta_json_value list) {
    if (!list.length) return AORTA_TRACE_NONE;
    if (!memchr(list.text, '\n', list.length)) return aorta_trace_builder_text(builder, list.text, list.length);
    char *line = malloc(2 * list.length + 1);
    if (!line) {
        builder->failed = true;
        return AORTA_TRACE_NONE;
    }
    size_t length = 0;
    bool quoted = false;
    for (size_t i = 0; i < list.length; i++) {
        char c = list.text[i];
        if (c == '"' && (i == 0 || list.text[i - 1] != '\\')) quoted = !quoted;
        if (!quoted && isspace((unsigned char)c)) continue;
        line[length++] = c;
        if (!quoted && c == ',') line[length++] = ' ';
    }
    uint32_t text = aorta_trace_builder_text(builder, line, length);
    free(line);
    return text;
}

uint32_t aorta_trace_add_shape_row(struct aorta_trace_builder *builder, const struct aorta_trace_shape *shape,
                                   uint32_t values) {
    const int64_t op_and_types = (int64_t)((uint64_t)shape->op << 32 | shape->types);
    const uint32_t number = aorta_trace_add_key(builder, &builder->shape_keys, op_and_types, shape->dims, values);
    if (number != builder->shapes.count) return number;
    aorta_trace_rows_put(builder, &builder->shapes, shape, sizeof *shape);
    return builder->failed ? AORTA_TRACE_NONE : number;
}

/* Equal operations are counted once. */
static uint32_t add_shape(struct aorta_trace_builder *builder, uint32_t name, const struct aorta_operation *operation,
                          const struct aorta_trace_inputs *inputs, bool reads_values) {
    const struct aorta_trace_shape shape = {.op = name, .dims = inputs->dims, .types = inputs->types};
    const size_t before = builder->shapes.count;
    const uint32_t number =
        aorta_trace_add_shape_row(builder, &shape, reads_values ? inputs->values : AORTA_TRACE_NONE);
    if (builder->shapes.count == before) return number;
    struct aorta_trace_shape *row = (struct aorta_trace_shape *)builder->shapes.items + before;
    (void)aorta_operation_count(operation, &row->product, &row->amount);
    return number;
}

static void add_frame(struct aorta_trace_builder *builder, struct trace_rows *rows,
                      const struct aorta_trace_annotation *frame) {
    if (frame->end_ns - frame->start_ns < SHORTEST_NS && !builder->keeps_functions) return;
    aorta_trace_rows_put(builder, rows, frame, sizeof *frame);
}

void aorta_trace_builder_operation(struct aorta_trace_builder *builder, const struct aorta_trace_annotation *frame,
                                   int64_t number, const struct aorta_operation *operation) {
    if (builder->failed) return;
    const bool has_inputs = operation->dims.length;
    const struct trace_meaning *known = aorta_trace_operation_meaning(builder, frame->name, operation);
    if (!known) return;
    const struct trace_meaning meaning = *known;
    const uint32_t inputs =
        has_inputs ? aorta_trace_add_inputs(builder, operation, meaning.keeps_values) : AORTA_TRACE_NONE;
    struct aorta_trace_operation *run = aorta_trace_rows_add(builder, &builder->runs, sizeof *run);
    if (!run) return;
    *run = (struct aorta_trace_operation){.start_ns = frame->start_ns,
                                          .end_ns = frame->end_ns,
                                          .thread = frame->thread,
                                          .name = frame->name,
                                          .inputs = inputs,
                                          .sequence = operation->sequence,
                                          .gradient = operation->gradient,
                                          .captured = AORTA_TRACE_NONE};
    if (!meaning.counted || inputs == AORTA_TRACE_NONE) return;
    const struct aorta_trace_inputs *rows = builder->inputs.items;
    const uint32_t shape = add_shape(builder, frame->name, operation, &rows[inputs], meaning.reads_values);
    if (shape == AORTA_TRACE_NONE) return;
    const struct trace_operation row = {number, (uint32_t)builder->runs.count - 1, shape, false};
    aorta_trace_rows_put(builder, &builder->operations, &row, sizeof row);
}

void aorta_trace_builder_function(struct aorta_trace_builder *builder, const struct aorta_trace_annotation *frame) {
    add_frame(builder, &builder->functions, frame);
}

void aorta_trace_builder_module(struct aorta_trace_builder *builder, const struct aorta_trace_annotation *frame) {
    add_frame(builder, &builder->modules, frame);
}

void aorta_trace_builder_frame(struct aorta_trace_builder *builder, const struct aorta_trace_annotation *frame,
                               enum aorta_trace_frame_kind kind) {
    const struct aorta_trace_frame row = {frame->start_ns, frame->end_ns, frame->name, (uint16_t)frame->thread,
                                          (uint8_t)kind};
    if (frame->thread <= UINT16_MAX) aorta_trace_rows_put(builder, &builder->frames, &row, sizeof row);
}

/* ---- shapes ---- */

static const struct aorta_trace_operation *run_of(const struct aorta_trace_builder *builder,
                                                  const struct trace_operation *operation) {
    return (const struct aorta_trace_operation *)builder->runs.items + operation->run;
}

/* Operations with a shape, by thread and time; made when it is first needed. */
struct shaped {
    struct aorta_nest_range *nest; /* `number` is the operation's row */
    size_t count;
};

static void nest_shaped(struct aorta_trace_builder *builder, struct shaped *shaped) {
    const struct trace_operation *operations = builder->operations.items;
    shaped->count = builder->operations.count;
    shaped->nest = malloc((shaped->count + 1) * sizeof *shaped->nest);
    if (!shaped->nest) {
        builder->failed = true;
        return;
    }
    for (size_t i = 0; i < shaped->count; i++) {
        const struct aorta_trace_operation *frame = run_of(builder, &operations[i]);
        shaped->nest[i] = (struct aorta_nest_range){frame->start_ns, frame->end_ns, frame->thread, (uint32_t)i, 0};
    }
    aorta_nest_make(shaped->nest, shaped->count);
}

/* The innermost operation with a shape around the launch, if it does what the kernel does by its name. */
static struct trace_operation *operation_around_launch(struct aorta_trace_builder *builder,
                                                       const struct aorta_trace_work *work, struct shaped *shaped) {
    enum aorta_work_class class = aorta_trace_work_class(builder, work->name);
    if (work->call == AORTA_TRACE_NONE || class == AORTA_WORK_OTHER) return NULL;
    if (!shaped->nest) nest_shaped(builder, shaped);
    if (!shaped->nest) return NULL;
    const struct aorta_trace_call *calls = builder->calls.items, *call = &calls[work->call];
    const uint32_t around =
        aorta_nest_find(shaped->nest, shaped->count, sizeof *shaped->nest, call->thread, call->start_ns);
    if (around == AORTA_NEST_NONE) return NULL;
    struct trace_operation *operation =
        (struct trace_operation *)builder->operations.items + shaped->nest[around].number;
    const struct aorta_trace_shape *shapes = builder->shapes.items;
    return aorta_work_class_fits(class, shapes[operation->shape].amount.class) ? operation : NULL;
}

static struct trace_operation *operation_of_number(const struct aorta_trace_builder *builder, int64_t number) {
    const struct trace_operation key = {.number = number};
    if (number < 0) return NULL;
    return bsearch(&key, builder->operations.items, builder->operations.count, sizeof key, aorta_by_int64);
}

/* Some older files number kernels otherwise than operations. */
static bool is_launched_within(const struct aorta_trace_builder *builder, const struct aorta_trace_work *work,
                               const struct trace_operation *operation) {
    if (work->call == AORTA_TRACE_NONE) return true; /* nothing else is known */
    const struct aorta_trace_call *calls = builder->calls.items, *call = &calls[work->call];
    const struct aorta_trace_operation *frame = run_of(builder, operation);
    return call->thread == frame->thread && call->start_ns >= frame->start_ns && call->start_ns <= frame->end_ns;
}

static void link_shape(struct aorta_trace_builder *builder, struct trace_pending *row, struct shaped *shaped) {
    struct aorta_trace_work *work = &row->work;
    if (work->kind != AORTA_TRACE_KERNEL) return;
    struct trace_operation *found = operation_of_number(builder, row->operation);
    if (!found || !is_launched_within(builder, work, found)) {
        struct trace_operation *around = operation_around_launch(builder, work, shaped);
        if (around) found = around;
    }
    if (!found) return;
    work->shape = found->shape;
    work->leads = !found->seen;
    found->seen = true;
}

void aorta_trace_link_shapes(struct aorta_trace_builder *builder) {
    struct trace_rows *const both[] = {&builder->pending, &builder->captured};
    struct shaped shaped = {0};
    if (!builder->operations.count) return;
    aorta_trace_rows_sort(&builder->operations, sizeof(struct trace_operation), aorta_by_int64);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < both[k]->count && !builder->failed; i++)
            link_shape(builder, (struct trace_pending *)both[k]->items + i, &shaped);
    free(shaped.nest);
    aorta_trace_rows_free(&builder->operations);
}

/* ---- callers ---- */

/* A call that waits for the device. */
struct wait {
    int64_t start_ns, end_ns;
    uint32_t thread, call;
};

static int wait_order(const void *left, const void *right) {
    const struct wait *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->call > b->call) - (a->call < b->call);
}

struct waits {
    struct wait *items; /* by thread, then time */
    size_t count;
};

static bool collect_waits(const struct aorta_trace_builder *builder, struct waits *waits) {
    const struct aorta_trace_call *calls = builder->calls.items;
    size_t count = 0;
    for (size_t i = 0; i < builder->calls.count; i++) count += aorta_trace_call_waits(builder->trace, &calls[i]);
    waits->items = malloc((count + 1) * sizeof *waits->items);
    if (!waits->items) return false;
    for (size_t i = 0; i < builder->calls.count; i++)
        if (aorta_trace_call_waits(builder->trace, &calls[i]))
            waits->items[waits->count++] =
                (struct wait){calls[i].start_ns, calls[i].end_ns, calls[i].thread, (uint32_t)i};
    if (count) qsort(waits->items, count, sizeof *waits->items, wait_order);
    return true;
}

/* Whether the first wait that begins within the frame ends within it. */
static bool holds_wait(const struct waits *waits, const struct aorta_nest_range *frame) {
    size_t low = 0, high = waits->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct wait *wait = &waits->items[middle];
        if (wait->thread < frame->thread || (wait->thread == frame->thread && wait->start_ns < frame->start_ns))
            low = middle + 1;
        else
            high = middle;
    }
    return low < waits->count && waits->items[low].thread == frame->thread && waits->items[low].end_ns <= frame->end_ns;
}

struct frames {
    struct aorta_nest_range *nest; /* `number` is the name */
    size_t count, capacity;
};

/* If it holds a wait. */
static bool add_holder(const struct aorta_nest_range *frame, const struct waits *waits, struct frames *frames) {
    if (frame->end_ns - frame->start_ns < SHORTEST_NS || !holds_wait(waits, frame)) return true;
    return aorta_array_append(&frames->nest, &frames->capacity, &frames->count, frame, sizeof *frame);
}

static bool add_annotations(const struct trace_rows *rows, const struct waits *waits, struct frames *frames) {
    const struct aorta_trace_annotation *row = rows->items;
    for (size_t i = 0; i < rows->count; i++, row++) {
        const struct aorta_nest_range frame = {row->start_ns, row->end_ns, row->thread, row->name, 0};
        if (!add_holder(&frame, waits, frames)) return false;
    }
    return true;
}

static bool add_operations(const struct aorta_trace *trace, const struct waits *waits, struct frames *frames) {
    for (size_t i = 0; i < trace->operation_count; i++) {
        const struct aorta_trace_operation *row = &trace->operations[i];
        const struct aorta_nest_range frame = {row->start_ns, row->end_ns, row->thread, row->name, 0};
        if (!row->range && !add_holder(&frame, waits, frames)) return false;
    }
    return true;
}

static bool is_torch(const struct aorta_trace_builder *builder, uint32_t name) {
    return !strncmp(aorta_trace_text(builder->trace, name), "aten::", 6);
}

/* aten::item is around aten::_local_scalar_dense, which synchronises: the program knows the outer one. */
static uint32_t operation_around(const struct aorta_trace_builder *builder, const struct frames *frames,
                                 const struct wait *wait) {
    const struct aorta_nest_range *nest = frames->nest;
    uint32_t found = aorta_nest_find(nest, frames->count, sizeof *nest, wait->thread, wait->start_ns);
    if (found == AORTA_NEST_NONE) return AORTA_TRACE_NONE;
    for (uint32_t around = nest[found].parent; around != AORTA_NEST_NONE; around = nest[found].parent) {
        if (!is_torch(builder, nest[around].number) || nest[around].end_ns < wait->end_ns) break;
        found = around;
    }
    return nest[found].number;
}

static uint32_t name_around(const struct frames *frames, const struct wait *wait) {
    const uint32_t found =
        aorta_nest_find(frames->nest, frames->count, sizeof *frames->nest, wait->thread, wait->start_ns);
    return found == AORTA_NEST_NONE ? AORTA_TRACE_NONE : frames->nest[found].number;
}

/* Nested frames around waits. */
struct around {
    struct frames operations, functions, ranges;
};

static void fill_callers(struct aorta_trace_builder *builder, const struct waits *waits, const struct around *around) {
    struct aorta_trace *trace = builder->trace;
    trace->callers = malloc((waits->count + 1) * sizeof *trace->callers);
    if (!trace->callers) {
        builder->failed = true;
        return;
    }
    for (size_t i = 0; i < waits->count; i++) {
        const struct wait *wait = &waits->items[i];
        trace->callers[trace->caller_count++] =
            (struct aorta_trace_caller){wait->call, operation_around(builder, &around->operations, wait),
                                        name_around(&around->functions, wait), name_around(&around->ranges, wait)};
    }
    qsort(trace->callers, trace->caller_count, sizeof *trace->callers, aorta_by_uint32);
}

void aorta_trace_link_callers(struct aorta_trace_builder *builder) {
    struct waits waits = {0};
    struct around around = {0};
    bool made = collect_waits(builder, &waits);
    if (made && waits.count)
        made = add_operations(builder->trace, &waits, &around.operations) &&
               add_annotations(&builder->functions, &waits, &around.functions) &&
               add_annotations(&builder->annotations, &waits, &around.ranges);
    if (!made) builder->failed = true;
    if (made && around.operations.count + around.functions.count + around.ranges.count) {
        aorta_nest_make(around.operations.nest, around.operations.count);
        aorta_nest_make(around.functions.nest, around.functions.count);
        aorta_nest_make(around.ranges.nest, around.ranges.count);
        fill_callers(builder, &waits, &around);
    }
    free(waits.items);
    free(around.operations.nest);
    free(around.functions.nest);
    free(around.ranges.nest);
}
