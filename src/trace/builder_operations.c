/* Operations of the framework, the shapes of kernels and sizes of collectives that follow from them, and the callers of
 * host calls. */
#include "base/sort.h"
#include "trace/builder_internal.h"
#include "trace/operation_inputs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST_NS = 5000 }; /* shorter functions and operations are not stored as callers of a wait */

/* ---- rows ---- */

/* A list as one line, "[[768], [512, 768]]". Some files write one number per line. */
static uint32_t list_text(struct aorta_trace_builder *builder, struct aorta_json_value list) {
    if (!list.length) return AORTA_TRACE_NONE;
    if (!memchr(list.text, '\n', list.length)) return aorta_trace_builder_text(builder, list.text, list.length);
    struct aorta_text line = {0};
    bool quoted = false;
    for (size_t i = 0; i < list.length; i++) {
        char c = list.text[i];
        if (c == '"' && (i == 0 || list.text[i - 1] != '\\')) quoted = !quoted;
        if (!quoted && isspace((unsigned char)c)) continue;
        aorta_text_append(&line, &c, 1);
        if (!quoted && c == ',') aorta_text_puts(&line, " ");
    }
    builder->memory.failed |= line.failed;
    uint32_t text = aorta_trace_builder_text(builder, line.data, line.length);
    aorta_text_free(&line);
    return text;
}

static int64_t two(uint32_t high, uint32_t low) {
    return (int64_t)((uint64_t)high << 32 | low);
}

uint32_t aorta_trace_add_inputs_row(struct aorta_trace_builder *builder, const struct aorta_trace_inputs *inputs) {
    const uint32_t number = aorta_keys_add(&builder->input_keys, two(inputs->dims, inputs->types),
                                           two(inputs->strides, inputs->values), 0, &builder->memory);
    if (number != builder->inputs.count) return number;
    aorta_trace_rows_put(builder, &builder->inputs, inputs, sizeof *inputs);
    return builder->memory.failed ? AORTA_TRACE_NONE : number;
}

static uint32_t add_inputs(struct aorta_trace_builder *builder, const struct aorta_operation *operation,
                           bool keeps_values) {
    struct aorta_trace_inputs inputs = {.dims = list_text(builder, operation->dims),
                                        .types = list_text(builder, operation->types),
                                        .strides = list_text(builder, operation->strides),
                                        .values = AORTA_TRACE_NONE};
    if (keeps_values) inputs.values = list_text(builder, operation->values);
    return aorta_trace_add_inputs_row(builder, &inputs);
}

uint32_t aorta_trace_add_shape_row(struct aorta_trace_builder *builder, const struct aorta_trace_shape *shape,
                                   uint32_t values) {
    const uint32_t number =
        aorta_keys_add(&builder->shape_keys, two(shape->op, shape->types), shape->dims, values, &builder->memory);
    if (number != builder->shapes.count) return number;
    aorta_trace_rows_put(builder, &builder->shapes, shape, sizeof *shape);
    return builder->memory.failed ? AORTA_TRACE_NONE : number;
}

/* Work and bytes of equal operations are computed once. */
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
    const uint32_t inputs = has_inputs ? add_inputs(builder, operation, meaning.keeps_values) : AORTA_TRACE_NONE;
    const struct aorta_trace_operation run = {.start_ns = frame->start_ns,
                                              .end_ns = frame->end_ns,
                                              .thread = frame->thread,
                                              .name = frame->name,
                                              .inputs = inputs,
                                              .sequence = operation->sequence,
                                              .gradient = operation->gradient,
                                              .captured = AORTA_TRACE_NONE};
    aorta_trace_rows_put(builder, &builder->runs, &run, sizeof run);
    if (!meaning.counted || inputs == AORTA_TRACE_NONE || builder->memory.failed) return;
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

/* Operations with a shape, by thread and time; made at first use. */
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

/* The innermost operation with a shape around the launch, if its class fits the kernel's name. */
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

/* In some older files, kernels and operations are numbered independently. */
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
    free(builder->operations.items);
    builder->operations = (struct trace_rows){0};
}

/* ---- callers ---- */

/* Whether a range that contains the call's start also contains its end and is long enough to be a caller. */
static bool is_around(int64_t start_ns, int64_t end_ns, const struct aorta_trace_call *call) {
    return end_ns - start_ns >= SHORTEST_NS && end_ns >= call->end_ns;
}

/* The outermost aten operation, which the program called: aten::item, not the aten::_local_scalar_dense within it. */
static uint32_t operation_around(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    const struct aorta_trace_operation *operations = trace->operations;
    uint32_t name = AORTA_TRACE_NONE;
    uint32_t at = aorta_nest_find(operations, trace->operation_count, sizeof *operations, call->thread, call->start_ns);
    for (; at != AORTA_NEST_NONE; at = operations[at].parent) {
        if (operations[at].range || !is_around(operations[at].start_ns, operations[at].end_ns, call)) continue;
        if (name != AORTA_TRACE_NONE && !aorta_begins(aorta_trace_text(trace, operations[at].name), "aten::")) break;
        name = operations[at].name;
    }
    return name;
}

/* The innermost caller; modules of PyTorch are skipped. */
static uint32_t name_around(const struct aorta_trace *trace, const struct aorta_nest_range *items, size_t count,
                            const struct aorta_trace_call *call) {
    uint32_t at = aorta_nest_find(items, count, sizeof *items, call->thread, call->start_ns);
    while (at != AORTA_NEST_NONE && (!is_around(items[at].start_ns, items[at].end_ns, call) ||
                                     aorta_module_name(aorta_trace_text(trace, items[at].number))))
        at = items[at].parent;
    return at == AORTA_NEST_NONE ? AORTA_TRACE_NONE : items[at].number;
}

void aorta_trace_link_callers(struct aorta_trace_builder *builder) {
    struct aorta_trace *trace = builder->trace;
    struct aorta_arena scratch = {0};
    const struct aorta_trace_call *calls = builder->calls.items;
    const struct aorta_nest_range *functions =
                                      aorta_nest_of(builder->functions.items, builder->functions.count, &scratch),
                                  *ranges =
                                      aorta_nest_of(builder->annotations.items, builder->annotations.count, &scratch);
    size_t capacity = 0;
    for (size_t i = 0; !scratch.failed && i < builder->calls.count; i++) {
        if (!aorta_trace_call_waits(trace, &calls[i])) continue;
        const struct aorta_trace_caller row = {(uint32_t)i, operation_around(trace, &calls[i]),
                                               name_around(trace, functions, builder->functions.count, &calls[i]),
                                               name_around(trace, ranges, builder->annotations.count, &calls[i])};
        if (row.operation != AORTA_TRACE_NONE || row.function != AORTA_TRACE_NONE || row.range != AORTA_TRACE_NONE)
            scratch.failed |= !aorta_array_append(&trace->callers, &capacity, &trace->caller_count, &row, sizeof row);
    }
    aorta_arena_end(&scratch, &builder->memory);
}

/* ---- kind and bytes of collectives ---- */

/* Reads PyTorch's names of types and ours; -1 if unknown. */
static int64_t element_bytes(const char *name) {
    const struct aorta_element *element = aorta_element_named(name);
    enum aorta_dtype dtype;
    if (element) return element->bytes;
    return aorta_dtype_parse(name, &dtype) ? (int64_t)aorta_dtype_size(dtype) : -1;
}

void aorta_trace_collective_complete(const struct aorta_trace *trace, struct aorta_trace_collective *collective) {
    if (!collective->named) {
        const char *name = aorta_trace_text(trace, collective->name);
        collective->kind = strcasestr(name, "barrier") ? AORTA_BARRIER : AORTA_COLLECTIVE_OTHER;
        collective->named = collective->kind == AORTA_BARRIER || aorta_collective_in(name, &collective->kind);
    }
    if (collective->bytes >= 0) return;
    int64_t elements =
        collective->in_elements > collective->out_elements ? collective->in_elements : collective->out_elements;
    if (elements < 0) return;
    int64_t size = element_bytes(aorta_trace_text(trace, collective->dtype)), bytes;
    if (size > 0 && !__builtin_mul_overflow(elements, size, &bytes)) collective->bytes = bytes;
}

/* ---- collectives that only their operation describes ---- */

/* PyTorch's name of an input's type. */
static uint32_t scalar_type(struct aorta_trace_builder *builder, struct aorta_json_value type) {
    static const char space[] = "c10::";
    const size_t skip = sizeof space - 1;
    if (type.length >= skip + 2 && !memcmp(type.text + 1, space, skip))
        return aorta_trace_builder_text(builder, type.text + 1 + skip, type.length - 2 - skip);
    const struct aorta_element *element = aorta_element_of_input(type);
    if (!element || !element->name) return AORTA_TRACE_NONE;
    return aorta_trace_builder_text(builder, element->name, strlen(element->name));
}

/* The index of the largest tensor among the inputs, and its elements; -1 if there is none. */
static int largest_tensor(const struct aorta_inputs *inputs, int64_t *elements) {
    int found = -1;
    for (int i = 0; i < inputs->count; i++) {
        const struct aorta_input *input = &inputs->items[i];
        int64_t product = 1;
        if (!input->tensor || input->rank < 1) continue;
        for (int j = 0; j < input->rank; j++)
            if (__builtin_mul_overflow(product, input->size[j], &product)) return -1;
        if (found >= 0 && product * input->bytes <= *elements * inputs->items[found].bytes) continue;
        *elements = product;
        found = i;
    }
    return found;
}

bool aorta_trace_collective_of_operation(struct aorta_trace_builder *builder, uint32_t row,
                                         struct aorta_trace_collective *facts) {
    const struct aorta_trace_operation *operations = builder->trace->operations;
    while (row != AORTA_TRACE_NONE && (operations[row].range || operations[row].inputs == AORTA_TRACE_NONE))
        row = operations[row].parent;
    if (row == AORTA_TRACE_NONE) return false;
    const struct aorta_trace_inputs *lists = builder->inputs.items;
    lists += operations[row].inputs;
    const struct aorta_operation operation = {.dims = aorta_trace_json(builder->trace, lists->dims),
                                              .types = aorta_trace_json(builder->trace, lists->types)};
    struct aorta_inputs inputs;
    aorta_inputs_read(&operation, &inputs);
    int64_t elements = 0;
    const int number = largest_tensor(&inputs, &elements);
    if (number < 0) return false;
    struct aorta_json_cursor types = aorta_json_elements(operation.types);
    struct aorta_json_value type = {0};
    for (int i = 0; i <= number; i++)
        if (!aorta_json_next_element(&types, &type)) return false;
    *facts = aorta_trace_unknown_collective;
    facts->name = operations[row].name;
    facts->in_elements = elements;
    facts->dtype = scalar_type(builder, type);
    aorta_trace_collective_complete(builder->trace, facts);
    return true;
}

/* Ranges of NVTX and roctx. With torch.autograd.profiler.emit_nvtx PyTorch marks its operations with such ranges and
 * puts the facts of each run into their names: "aten::mm, seq = 500, op_id = 1001, sizes = [[8, 4], [4, 2]]"
 * (torch/csrc/profiler/util.cpp, getNvtxStr). They become operations with this name, autograd number and shapes. */

/* The text after a word in the name, before `end`; NULL: the name does not contain the word. */
static const char *behind(const char *name, const char *end, const char *word) {
    const char *found = memmem(name, (size_t)(end - name), word, strlen(word));
    return found ? found + strlen(word) : NULL;
}

static int64_t number_at(const char *at, const char *end) {
    int64_t number = 0;
    const char *from = at;
    for (; at < end && *at >= '0' && *at <= '9' && number < INT64_MAX / 16; at++) number = 10 * number + (*at - '0');
    return at > from ? number : -1;
}

/* The list from its opening to its closing bracket; length 0 if there is none. */
static struct aorta_json_value list_at(const char *at, const char *end) {
    int depth = 0;
    for (const char *to = at; at && to < end; to++) {
        depth += (*to == '[') - (*to == ']');
        if (depth <= 0) return (struct aorta_json_value){at, *to == ']' ? (size_t)(to + 1 - at) : 0};
    }
    return (struct aorta_json_value){0};
}

/* The end of the operation's name, before its facts. */
static const char *find_facts(const char *name, const char *end) {
    static const char *const words[] = {", seq = ", ", op_id = ", ", sizes = ["};
    const char *first = end;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = memmem(name, (size_t)(first - name), words[i], strlen(words[i]));
        if (found) first = found;
    }
    return first == name ? end : first;
}

void aorta_trace_builder_marked(struct aorta_trace_builder *builder, const char *name,
                                struct aorta_trace_annotation range) {
    static const char request[] = "record_param_comms";
    const char *end = name + strlen(name), *facts = find_facts(name, end);
    const char *sequence = behind(facts, end, ", seq = "), *sizes = behind(facts, end, ", sizes = ");
    const struct aorta_operation operation = {.name = name,
                                              .name_length = (size_t)(facts - name),
                                              .dims = list_at(sizes, end),
                                              .sequence = sequence ? number_at(sequence, end) : -1,
                                              .gradient = behind(name, facts, "Backward") != NULL};
    /* A request of a collective has no facts here and would hide the operation around it. */
    if (facts < end && facts - name == sizeof request - 1 && aorta_begins(name, request)) return;
    range.name = aorta_trace_builder_text(builder, name, (size_t)(facts - name));
    /* Ranges of the program have no autograd number, shapes or namespace. */
    if (facts < end && (operation.sequence >= 0 || operation.dims.length > 2 || behind(name, facts, "::")))
        aorta_trace_builder_operation(builder, &range, -1, &operation);
    else
        aorta_trace_builder_annotation(builder, &range);
}

/* Operations of the framework are nested with the ranges of the program, and each piece of device work is linked to the
 * innermost that launched it. */

/* ---- nesting ---- */

/* Operations are nested as ranges, so they must begin with the same members. */
_Static_assert(offsetof(struct aorta_trace_operation, start_ns) == offsetof(struct aorta_nest_range, start_ns) &&
                   offsetof(struct aorta_trace_operation, end_ns) == offsetof(struct aorta_nest_range, end_ns) &&
                   offsetof(struct aorta_trace_operation, thread) == offsetof(struct aorta_nest_range, thread) &&
                   offsetof(struct aorta_trace_operation, parent) == offsetof(struct aorta_nest_range, parent),
               "operations begin as ranges do");

static void add_ranges(struct aorta_trace_builder *builder) {
    const struct aorta_trace_annotation *annotations = builder->annotations.items;
    for (size_t i = 0; i < builder->annotations.count; i++) {
        const struct aorta_trace_operation range = {.start_ns = annotations[i].start_ns,
                                                    .end_ns = annotations[i].end_ns,
                                                    .thread = annotations[i].thread,
                                                    .name = annotations[i].name,
                                                    .inputs = AORTA_TRACE_NONE,
                                                    .sequence = -1,
                                                    .range = true,
                                                    .captured = AORTA_TRACE_NONE};
        aorta_trace_rows_put(builder, &builder->runs, &range, sizeof range);
    }
}

static void link_work(const struct aorta_trace_builder *builder, const struct trace_rows *of) {
    const struct aorta_trace *trace = builder->trace;
    struct trace_pending *rows = of->items;
    const struct aorta_trace_call *calls = builder->calls.items;
    for (size_t i = 0; i < of->count; i++) {
        struct aorta_trace_work *work = &rows[i].work;
        if (work->call == AORTA_TRACE_NONE) continue;
        const struct aorta_trace_call *call = &calls[work->call];
        work->operation = aorta_nest_find(trace->operations, trace->operation_count, sizeof *trace->operations,
                                          call->thread, call->start_ns);
    }
}

/* If an operation and a range have equal times, the operation is the outer one. */
void aorta_trace_link_operations(struct aorta_trace_builder *builder) {
    struct aorta_trace *trace = builder->trace;
    if (!builder->runs.count) return;
    add_ranges(builder);
    aorta_trace_rows_sort(&builder->runs, sizeof(struct aorta_trace_operation), aorta_nest_order);
    trace->operations = aorta_trace_rows_take(&builder->runs, &trace->operation_count, sizeof *trace->operations);
    aorta_nest_parents(trace->operations, trace->operation_count, sizeof *trace->operations);
    link_work(builder, &builder->pending);
    link_work(builder, &builder->captured);
}

/* If a file has no device work, the self time of each host operation becomes work, with its thread as stream. Time
 * between operations is not counted. */

struct sweep {
    struct aorta_trace_builder *builder;
    struct open {       /* open operations, the innermost last */
        int64_t end_ns; /* at most that of the operation around it */
        uint32_t row;
    } * open;
    size_t depth, capacity;
    int64_t at_ns; /* time up to here is already assigned */
};

static void add_until(struct sweep *sweep, int64_t until_ns) {
    const uint32_t row = sweep->open[sweep->depth - 1].row;
    const struct aorta_trace *trace = sweep->builder->trace;
    const struct aorta_trace_operation *operation = &trace->operations[row];
    const int64_t from_ns = sweep->at_ns;
    sweep->at_ns = until_ns;
    if (operation->range || from_ns >= until_ns) return;
    const int64_t thread = sweep->builder->threads.items[operation->thread][1];
    const struct aorta_trace_work work = {.start_ns = from_ns,
                                          .end_ns = until_ns,
                                          .bytes = -1,
                                          .name = operation->name,
                                          .stream = aorta_trace_builder_stream(sweep->builder, 0, -1, thread),
                                          .queue = AORTA_TRACE_NONE,
                                          .kind = AORTA_TRACE_KERNEL};
    const size_t before = sweep->builder->pending.count;
    aorta_trace_builder_work(sweep->builder, &work, -1, NULL, -1);
    struct trace_pending *rows = sweep->builder->pending.items;
    if (sweep->builder->pending.count > before) rows[before].work.operation = row;
}

static void close_until(struct sweep *sweep, int64_t until_ns) {
    while (sweep->depth && sweep->open[sweep->depth - 1].end_ns <= until_ns) {
        add_until(sweep, sweep->open[sweep->depth - 1].end_ns);
        sweep->depth--;
    }
}

static void open_one(struct sweep *sweep, uint32_t row) {
    const struct aorta_trace_operation *operation = &sweep->builder->trace->operations[row];
    if (sweep->depth && operation->start_ns > sweep->at_ns) add_until(sweep, operation->start_ns);
    if (operation->start_ns > sweep->at_ns || !sweep->depth) sweep->at_ns = operation->start_ns;
    const int64_t around_ns = sweep->depth ? sweep->open[sweep->depth - 1].end_ns : INT64_MAX;
    const struct open open = {operation->end_ns < around_ns ? operation->end_ns : around_ns, row};
    sweep->builder->memory.failed |=
        !aorta_array_append(&sweep->open, &sweep->capacity, &sweep->depth, &open, sizeof open);
}

void aorta_trace_add_host_work(struct aorta_trace_builder *builder) {
    const struct aorta_trace *trace = builder->trace;
    struct sweep sweep = {.builder = builder};
    if (builder->pending.count || builder->captured.count || builder->memory.failed) return;
    for (size_t i = 0; i < trace->operation_count && !builder->memory.failed; i++) {
        const bool same = i > 0 && trace->operations[i - 1].thread == trace->operations[i].thread;
        close_until(&sweep, same ? trace->operations[i].start_ns : INT64_MAX);
        open_one(&sweep, (uint32_t)i);
    }
    close_until(&sweep, INT64_MAX);
    builder->trace->host_only = builder->pending.count > 0;
    free(sweep.open);
}
