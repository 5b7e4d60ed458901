/* What the names and sizes in a file say about collectives and matrix products. */
#include "base/json_value.h"
#include "timeline/builder_parts.h"

#include <ctype.h>
#include <string.h>

/* ---- collectives ---- */

/* PyTorch's names ("_allgather_base", "all_to_allv", "allreduce_coalesced") and NCCL's, without case and underscores.
 */
static const struct {
    const char *begin;
    enum aorta_collective kind;
} collective_names[] = {
    {"allreduce", AORTA_ALL_REDUCE}, {"reducescatter", AORTA_REDUCE_SCATTER}, {"allgather", AORTA_ALL_GATHER},
    {"broadcast", AORTA_BROADCAST},  {"alltoall", AORTA_ALL_TO_ALL},          {"barrier", AORTA_BARRIER},
};

static bool kind_by_name(const char *name, enum aorta_collective *kind) {
    char plain[24];
    size_t length = 0;
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
    int64_t size = element_bytes(aorta_trace_text(trace, collective->dtype)), bytes;
    if (elements >= 0 && size > 0 && !__builtin_mul_overflow(elements, size, &bytes)) collective->bytes = bytes;
}

/* ---- shapes ---- */

/* Where a product's matrices stand among the inputs. */
enum product { NO_PRODUCT, PLAIN, BATCHED, LINEAR, VECTOR };
static const struct {
    const char *name;
    bool prefix;
    enum product product;
    int first; /* index of A among the inputs; B follows */
} operations[] = {
    {"aten::mm", false, PLAIN, 0},
    {"aten::addmm", false, PLAIN, 1},
    {"aten::addmm_", false, PLAIN, 1},
    {"aten::_addmm_activation", false, PLAIN, 1},
    {"aten::_scaled_mm", false, PLAIN, 0},
    {"aten::_int_mm", false, PLAIN, 0},
    {"aten::bmm", false, BATCHED, 0},
    {"aten::baddbmm", false, BATCHED, 1},
    {"aten::baddbmm_", false, BATCHED, 1},
    {"aten::linear", false, LINEAR, 0},
    {"aten::mv", false, VECTOR, 0},
    {"aten::addmv", false, VECTOR, 1},
    {"aten::addmv_", false, VECTOR, 1},
    {"aten::dot", false, NO_PRODUCT, 0},
    {"aten::_weight_int", true, NO_PRODUCT, 0},
    {"aten::convolution", true, NO_PRODUCT, 0},
    {"aten::_convolution", true, NO_PRODUCT, 0},
    {"aten::cudnn_convolution", true, NO_PRODUCT, 0},
    {"aten::miopen_convolution", true, NO_PRODUCT, 0},
    {"aten::_scaled_dot_product", true, NO_PRODUCT, 0},
    {"aten::_flash_attention", true, NO_PRODUCT, 0},
    {"aten::_efficient_attention", true, NO_PRODUCT, 0},
    {"aten::_cudnn_attention", true, NO_PRODUCT, 0},
    {"aorta::linear_", true, PLAIN, 0}, /* our own: products of the model, forward and backward */
};

enum { MAX_RANK = 8 };
struct extents {
    int count;
    int64_t size[MAX_RANK];
};

/* Dimensions of input `index`; false when there is no such input, or they are no plain list of numbers. */
static bool get_extents(struct aorta_json_value dims, int index, struct extents *extents) {
    struct aorta_json_cursor inputs = aorta_json_elements(dims);
    struct aorta_json_value input = {0}, number;
    for (int i = 0; i <= index; i++)
        if (!aorta_json_next_element(&inputs, &input)) return false;
    struct aorta_json_cursor sizes = aorta_json_elements(input);
    for (extents->count = 0; aorta_json_next_element(&sizes, &number); extents->count++)
        if (extents->count == MAX_RANK || !aorta_json_get_int(number, &extents->size[extents->count])) return false;
    return extents->count > 0;
}

static void fill_product(enum product product, const struct extents *a, const struct extents *b,
                         struct aorta_trace_shape *shape) {
    const int64_t *x = a->size, *y = b->size;
    int rank = a->count;
    if (product == PLAIN && rank == 2 && b->count == 2 && x[1] == y[0]) {
        shape->batch = 1, shape->m = x[0], shape->k = x[1], shape->n = y[1];
    } else if (product == BATCHED && rank == 3 && b->count == 3 && x[0] == y[0] && x[2] == y[1]) {
        shape->batch = x[0], shape->m = x[1], shape->k = x[2], shape->n = y[2];
    } else if (product == VECTOR && rank == 2 && b->count == 1 && x[1] == y[0]) {
        shape->batch = 1, shape->m = x[0], shape->k = x[1], shape->n = 1;
    } else if (product == LINEAR && b->count == 2 && x[rank - 1] == y[1]) {
        int64_t rows = 1;
        for (int i = 0; i < rank - 1; i++)
            if (__builtin_mul_overflow(rows, x[i], &rows)) return;
        shape->batch = 1, shape->m = rows, shape->k = y[1], shape->n = y[0];
    }
}

static int find_operation(const char *name, size_t name_length) {
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        size_t length = strlen(operations[i].name);
        if (name_length < length || memcmp(name, operations[i].name, length) != 0) continue;
        if (name_length == length || operations[i].prefix) return (int)i;
    }
    return -1;
}

bool aorta_trace_operation_wanted(const char *name, size_t length) {
    return find_operation(name, length) >= 0;
}

bool aorta_trace_shape_of(const char *name, size_t name_length, const char *dims, size_t dims_length,
                          struct aorta_trace_shape *shape) {
    int row = find_operation(name, name_length);
    if (row < 0) return false;
    *shape = (struct aorta_trace_shape){.batch = -1, .m = -1, .n = -1, .k = -1};
    struct aorta_json_value list = {dims, dims_length};
    struct extents a, b;
    int first = operations[row].first;
    if (operations[row].product != NO_PRODUCT && get_extents(list, first, &a) && get_extents(list, first + 1, &b))
        fill_product(operations[row].product, &a, &b, shape);
    return true;
}
