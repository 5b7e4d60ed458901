/* What the names and sizes in a file say about collectives. */
#include "trace/builder_internal.h"
#include "trace/operation_inputs.h"

#include <ctype.h>
#include <string.h>

/* ---- collectives ---- */

/* PyTorch's names ("_allgather_base", "all_to_allv", "allreduce_coalesced") and NCCL's ("ncclAllGather"), without case,
 * underscores and what stands before them. */
static const struct {
    const char *begin;
    enum aorta_collective kind;
} collective_names[] = {
    {"allreduce", AORTA_ALL_REDUCE}, {"reducescatter", AORTA_REDUCE_SCATTER}, {"allgather", AORTA_ALL_GATHER},
    {"broadcast", AORTA_BROADCAST},  {"alltoall", AORTA_ALL_TO_ALL},          {"barrier", AORTA_BARRIER},
};

static bool kind_by_name(const char *name, enum aorta_collective *kind) {
    static const char *const before[] = {"c10d::", "nccl", "rccl"};
    char plain[24];
    size_t length = 0;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (!strncmp(name, before[i], strlen(before[i]))) name += strlen(before[i]);
    for (; *name && length < sizeof plain - 1; name++)
        if (*name != '_') plain[length++] = (char)tolower((unsigned char)*name);
    plain[length] = 0;
    for (size_t i = 0; i < sizeof collective_names / sizeof *collective_names; i++) {
        if (strncmp(plain, collective_names[i].begin, strlen(collective_names[i].begin)) != 0) continue;
        *kind = collective_names[i].kind;
        return true;
    }
    return false;
}

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
        collective->kind = AORTA_COLLECTIVE_OTHER;
        collective->named = kind_by_name(aorta_trace_text(trace, collective->name), &collective->kind);
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
