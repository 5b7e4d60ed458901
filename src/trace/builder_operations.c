/* Operations of the framework as they ran, and what their names and sizes say about collectives. */
#include "base/array.h"
#include "base/sort.h"
#include "trace/builder_internal.h"
#include "trace/operation_inputs.h"
#include "trace/operations.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the names and sizes in a file say about collectives ---- */

/* Element sizes by PyTorch's names (c10/core/ScalarType.h) that are not also ours. */
static const struct {
    const char *name;
    int64_t bytes;
} scalar_types[] = {
    {"Byte", 1},
    {"Char", 1},
    {"Bool", 1},
    {"Short", 2},
    {"Int", 4},
    {"Long", 8},
    {"Half", 2},
    {"Float", 4},
    {"Double", 8},
    {"BFloat16", 2},
    {"UInt16", 2},
    {"UInt32", 4},
    {"UInt64", 8},
    {"ComplexHalf", 4},
    {"ComplexFloat", 8},
    {"QInt8", 1},
    {"QUInt8", 1},
    {"QInt32", 4},
    {"ComplexDouble", 16},
    {"Float8_e4m3fn", 1},
    {"Float8_e5m2", 1},
    {"Float8_e4m3fnuz", 1},
    {"Float8_e5m2fnuz", 1},
    {"Float8_e8m0fnu", 1},
};

/* -1: not known. */
static int64_t element_bytes(const char *name) {
    for (size_t i = 0; i < sizeof scalar_types / sizeof *scalar_types; i++)
        if (!strcmp(name, scalar_types[i].name)) return scalar_types[i].bytes;
    enum aorta_dtype dtype;
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

/* ---- of the operation that launched the kernel ---- */

/* PyTorch's names of scalar types by those that it writes for inputs. */
static uint32_t scalar_type(struct aorta_trace_builder *builder, struct aorta_json_value type) {
    static const char *const other[][2] = {{"float", "Float"},     {"double", "Double"},      {"int", "Int"},
                                           {"long int", "Long"},   {"unsigned char", "Byte"}, {"signed char", "Char"},
                                           {"short int", "Short"}, {"bool", "Bool"}};
    static const char space[] = "c10::";
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (aorta_value_is_text(type, other[i][0]))
            return aorta_trace_builder_text(builder, other[i][1], strlen(other[i][1]));
    const size_t skip = sizeof space - 1;
    if (type.length < skip + 2 || memcmp(type.text + 1, space, skip) != 0) return AORTA_TRACE_NONE;
    return aorta_trace_builder_text(builder, type.text + 1 + skip, type.length - 2 - skip);
}

static struct aorta_json_value json_of(const struct aorta_trace *trace, uint32_t text) {
    const char *json = text == AORTA_TRACE_NONE ? "" : aorta_trace_text(trace, text);
    return (struct aorta_json_value){json, strlen(json)};
}

/* The number of the largest tensor among the inputs, and its elements; -1: there is none. */
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
    const struct aorta_operation operation = {.dims = json_of(builder->trace, lists->dims),
                                              .types = json_of(builder->trace, lists->types)};
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

/* Ranges of NVTX and roctx. With torch.autograd.profiler.emit_nvtx PyTorch marks its operations so, and puts into their
 * names what differs from run to run: "aten::mm, seq = 500, op_id = 1001, sizes = [[8, 4], [4, 2]]"
 * (torch/csrc/profiler/util.cpp, getNvtxStr). They become operations with that name, number and these shapes. */

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

/* From the bracket that opens to the one that closes; length 0: there are none. */
static struct aorta_json_value list_at(const char *at, const char *end) {
    int depth = 0;
    for (const char *to = at; at && to < end; to++) {
        depth += (*to == '[') - (*to == ']');
        if (depth <= 0) return (struct aorta_json_value){at, *to == ']' ? (size_t)(to + 1 - at) : 0};
    }
    return (struct aorta_json_value){0};
}

/* The end of the name proper. */
static const char *find_facts(const char *name, const char *end) {
    static const char *const words[] = {", seq = ", ", op_id = ", ", sizes = ["};
    const char *first = end;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = memmem(name, (size_t)(first - name), words[i], strlen(words[i]));
        if (found) first = found;
    }
    return first == name ? end : first;
}

/* Ranges of the program have no number of autograd, shapes or namespace. */
static bool is_operation(const char *name, const char *facts, const struct aorta_operation *operation) {
    return operation->sequence >= 0 || operation->dims.length > 2 || behind(name, facts, "::");
}

/* The request of a collective says nothing here, and hides the operation around it. */
static bool is_request(const char *name, const char *facts) {
    static const char request[] = "record_param_comms";
    return (size_t)(facts - name) == sizeof request - 1 && !memcmp(name, request, sizeof request - 1);
}

void aorta_trace_builder_marked(struct aorta_trace_builder *builder, const char *name,
                                struct aorta_trace_annotation range) {
    const char *end = name + strlen(name), *facts = find_facts(name, end);
    const char *sequence = behind(facts, end, ", seq = "), *sizes = behind(facts, end, ", sizes = ");
    const struct aorta_operation operation = {.name = name,
                                              .name_length = (size_t)(facts - name),
                                              .dims = list_at(sizes, end),
                                              .sequence = sequence ? number_at(sequence, end) : -1,
                                              .gradient = behind(name, facts, "Backward") != NULL};
    if (facts < end && is_request(name, facts)) return;
    range.name = aorta_trace_builder_text(builder, name, (size_t)(facts - name));
    if (facts < end && is_operation(name, facts, &operation))
        aorta_trace_builder_operation(builder, &range, -1, &operation);
    else
        aorta_trace_builder_annotation(builder, &range);
}

/* The operations of the framework as they ran: nested with the ranges of the program, and each piece of device work
 * linked to the innermost that launched it. */

/* ---- rows ---- */

static int64_t two(uint32_t high, uint32_t low) {
    return (int64_t)((uint64_t)high << 32 | low);
}

uint32_t aorta_trace_add_inputs_row(struct aorta_trace_builder *builder, const struct aorta_trace_inputs *inputs) {
    const uint32_t number = aorta_trace_add_key(builder, &builder->input_keys, two(inputs->dims, inputs->types),
                                                two(inputs->strides, inputs->values), 0);
    if (number != builder->inputs.count) return number;
    aorta_trace_rows_put(builder, &builder->inputs, inputs, sizeof *inputs);
    return builder->memory.failed ? AORTA_TRACE_NONE : number;
}

uint32_t aorta_trace_add_inputs(struct aorta_trace_builder *builder, const struct aorta_operation *operation,
                                bool keeps_values) {
    struct aorta_trace_inputs inputs = {.dims = aorta_trace_list_text(builder, operation->dims),
                                        .types = aorta_trace_list_text(builder, operation->types),
                                        .strides = aorta_trace_list_text(builder, operation->strides),
                                        .values = AORTA_TRACE_NONE};
    if (keeps_values) inputs.values = aorta_trace_list_text(builder, operation->values);
    return aorta_trace_add_inputs_row(builder, &inputs);
}

/* ---- nesting ---- */

/* The members by which operations nest. */
_Static_assert(offsetof(struct aorta_trace_operation, start_ns) == offsetof(struct aorta_nest_range, start_ns) &&
                   offsetof(struct aorta_trace_operation, end_ns) == offsetof(struct aorta_nest_range, end_ns) &&
                   offsetof(struct aorta_trace_operation, thread) == offsetof(struct aorta_nest_range, thread) &&
                   offsetof(struct aorta_trace_operation, parent) == offsetof(struct aorta_nest_range, parent),
               "operations begin as ranges do");

static int outer_first(const void *left, const void *right) {
    const struct aorta_trace_operation *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

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

/* Among equal ones the operation is before the range. */
void aorta_trace_link_operations(struct aorta_trace_builder *builder) {
    struct aorta_trace *trace = builder->trace;
    if (!builder->runs.count) return;
    add_ranges(builder);
    aorta_trace_rows_sort(&builder->runs, sizeof(struct aorta_trace_operation), outer_first);
    trace->operations = aorta_trace_rows_take(&builder->runs, &trace->operation_count, sizeof *trace->operations);
    aorta_nest_parents(trace->operations, trace->operation_count, sizeof *trace->operations);
    link_work(builder, &builder->pending);
    link_work(builder, &builder->captured);
}
