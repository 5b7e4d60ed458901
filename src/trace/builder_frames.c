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
        builder->memory.failed = true;
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
    return builder->memory.failed ? AORTA_TRACE_NONE : number;
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

void aorta_trace_builder_operation(struct aorta_trace_builder *builder, const struct aorta_trace_annotation *frame,
                                   int64_t number, const struct aorta_operation *operation) {
    if (builder->memory.failed) return;
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
    if (frame->end_ns - frame->start_ns >= SHORTEST_NS || builder->keeps_functions)
        aorta_trace_rows_put(builder, &builder->functions, frame, sizeof *frame);
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
    struct aorta_arena memory;
};

static void nest_shaped(const struct aorta_trace_builder *builder, struct shaped *shaped) {
    const struct trace_operation *operations = builder->operations.items;
    shaped->count = builder->operations.count;
    shaped->nest = aorta_arena_raw(&shaped->memory, shaped->count * sizeof *shaped->nest);
    for (size_t i = 0; shaped->nest && i < shaped->count; i++) {
        const struct aorta_trace_operation *frame = run_of(builder, &operations[i]);
        shaped->nest[i] = (struct aorta_nest_range){frame->start_ns, frame->end_ns, frame->thread, (uint32_t)i, 0};
    }
    if (shaped->nest) aorta_nest_make(shaped->nest, shaped->count);
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
        for (size_t i = 0; i < both[k]->count && !shaped.memory.failed; i++)
            link_shape(builder, (struct trace_pending *)both[k]->items + i, &shaped);
    aorta_arena_end(&shaped.memory, &builder->memory);
    aorta_trace_rows_free(&builder->operations);
}

/* ---- callers ---- */

/* Whether it can be what made the call, which may last as long. */
static bool is_around(int64_t start_ns, int64_t end_ns, const struct aorta_trace_call *call) {
    return end_ns - start_ns >= SHORTEST_NS && end_ns >= call->end_ns;
}

/* aten::item is around aten::_local_scalar_dense, which synchronises: the program knows the outer one. */
static uint32_t operation_around(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    const struct aorta_trace_operation *operations = trace->operations;
    uint32_t name = AORTA_TRACE_NONE;
    uint32_t at = aorta_nest_find(operations, trace->operation_count, sizeof *operations, call->thread, call->start_ns);
    for (; at != AORTA_NEST_NONE; at = operations[at].parent) {
        if (operations[at].range || !is_around(operations[at].start_ns, operations[at].end_ns, call)) continue;
        if (name != AORTA_TRACE_NONE && strncmp(aorta_trace_text(trace, operations[at].name), "aten::", 6) != 0) break;
        name = operations[at].name;
    }
    return name;
}

struct nest {
    struct aorta_nest_range *items; /* `number` is the name */
    size_t count;
};

static struct nest nest_rows(const struct trace_rows *rows, struct aorta_arena *memory) {
    return (struct nest){aorta_nest_of(rows->items, rows->count, memory), rows->count};
}

/* Modules are no functions. */
static uint32_t name_around(const struct aorta_trace *trace, const struct nest *nest,
                            const struct aorta_trace_call *call) {
    const struct aorta_nest_range *items = nest->items;
    uint32_t at = aorta_nest_find(items, nest->count, sizeof *items, call->thread, call->start_ns);
    while (at != AORTA_NEST_NONE && (!is_around(items[at].start_ns, items[at].end_ns, call) ||
                                     !strncmp(aorta_trace_text(trace, items[at].number), "nn.Module: ", 11)))
        at = items[at].parent;
    return at == AORTA_NEST_NONE ? AORTA_TRACE_NONE : items[at].number;
}

void aorta_trace_link_callers(struct aorta_trace_builder *builder) {
    struct aorta_trace *trace = builder->trace;
    struct aorta_arena scratch = {0};
    const struct aorta_trace_call *calls = builder->calls.items;
    const struct nest functions = nest_rows(&builder->functions, &scratch),
                      ranges = nest_rows(&builder->annotations, &scratch);
    size_t capacity = 0;
    for (size_t i = 0; !scratch.failed && i < builder->calls.count; i++) {
        if (!aorta_trace_call_waits(trace, &calls[i])) continue;
        const struct aorta_trace_caller row = {(uint32_t)i, operation_around(trace, &calls[i]),
                                               name_around(trace, &functions, &calls[i]),
                                               name_around(trace, &ranges, &calls[i])};
        if (row.operation != AORTA_TRACE_NONE || row.function != AORTA_TRACE_NONE || row.range != AORTA_TRACE_NONE)
            scratch.failed |= !aorta_array_append(&trace->callers, &capacity, &trace->caller_count, &row, sizeof row);
    }
    aorta_arena_end(&scratch, &builder->memory);
}
