#include "trace/operation_inputs.h"
#include "trace/operations.h"

#include <string.h>

/* C++ names of PyTorch's element types (c10/core/ScalarType.h), as Kineto writes them. */
static const struct {
    const char *name;
    int bytes;
    enum aorta_arithmetic arithmetic;
} types[] = {
    {"c10::BFloat16", 2, AORTA_IN_BF16},
    {"float", 4, AORTA_IN_FP32},
    {"c10::Half", 2, AORTA_IN_FP16},
    {"double", 8, AORTA_IN_FP64},
    {"c10::Float8_e4m3fn", 1, AORTA_IN_FP8},
    {"c10::Float8_e5m2", 1, AORTA_IN_FP8},
    {"c10::Float8_e4m3fnuz", 1, AORTA_IN_FP8},
    {"c10::Float8_e5m2fnuz", 1, AORTA_IN_FP8},
    {"c10::Float8_e8m0fnu", 1, AORTA_IN_FP8},
    {"c10::Float4_e2m1fn_x2", 1, AORTA_IN_FP4},
    {"bool", 1, AORTA_ARITHMETIC_UNKNOWN},
    {"long int", 8, AORTA_ARITHMETIC_UNKNOWN},
    {"long", 8, AORTA_ARITHMETIC_UNKNOWN},
    {"int", 4, AORTA_ARITHMETIC_UNKNOWN},
    {"short", 2, AORTA_ARITHMETIC_UNKNOWN},
    {"short int", 2, AORTA_ARITHMETIC_UNKNOWN},
    {"unsigned char", 1, AORTA_ARITHMETIC_UNKNOWN},
    {"signed char", 1, AORTA_ARITHMETIC_UNKNOWN},
    {"c10::complex<float>", 8, AORTA_ARITHMETIC_UNKNOWN},
    {"c10::complex<double>", 16, AORTA_ARITHMETIC_UNKNOWN},
};

bool aorta_value_is_text(struct aorta_json_value value, const char *text) {
    size_t length = strlen(text);
    return value.length == length + 2 && memcmp(value.text + 1, text, length) == 0;
}

/* ---- inputs ---- */

static void read_shape(struct aorta_json_value shape, struct aorta_input *input) {
    struct aorta_json_cursor sizes = aorta_json_elements(shape);
    struct aorta_json_value size;
    for (input->rank = 0; aorta_json_next_element(&sizes, &size); input->rank++) {
        bool fits = input->rank < AORTA_INPUT_RANK && aorta_json_get_int(size, &input->size[input->rank]) &&
                    input->size[input->rank] >= 0;
        if (fits) continue;
        input->rank = -1;
        return;
    }
}

/* Tensors of a list. */
static void read_list(struct aorta_json_value shapes, struct aorta_input *input) {
    struct aorta_json_cursor cursor = aorta_json_elements(shapes);
    struct aorta_json_value shape, size;
    for (; aorta_json_next_element(&cursor, &shape); input->list_count++) {
        struct aorta_json_cursor sizes = aorta_json_elements(shape);
        double elements = 1;
        for (int64_t number; aorta_json_next_element(&sizes, &size);)
            elements *= aorta_json_get_int(size, &number) ? (double)number : 0;
        input->list_elements += elements;
    }
}

static void read_strides(struct aorta_json_value strides, struct aorta_input *input) {
    struct aorta_json_cursor cursor = aorta_json_elements(strides);
    struct aorta_json_value stride;
    int count = 0;
    while (count < input->rank && aorta_json_next_element(&cursor, &stride))
        if (!aorta_json_get_int(stride, &input->stride[count++])) return;
    input->strided = count > 0 && count == input->rank;
}

static void read_type(struct aorta_json_value type, struct aorta_input *input) {
    input->list = aorta_value_is_text(type, "TensorList") || aorta_value_is_text(type, "GenericList");
    for (size_t i = 0; i < sizeof types / sizeof *types && !input->tensor; i++) {
        if (!aorta_value_is_text(type, types[i].name)) continue;
        input->tensor = true;
        input->bytes = types[i].bytes;
        input->arithmetic = types[i].arithmetic;
        input->packed = types[i].arithmetic == AORTA_IN_FP4 ? 2 : 1;
    }
}

void aorta_inputs_read(const struct aorta_operation *operation, struct aorta_inputs *inputs) {
    struct aorta_json_cursor dims = aorta_json_elements(operation->dims), types_at, values_at, strides_at;
    types_at = aorta_json_elements(operation->types);
    values_at = aorta_json_elements(operation->values);
    strides_at = aorta_json_elements(operation->strides);
    struct aorta_json_value shape, type, strides;
    inputs->typed = operation->types.length > 0;
    for (inputs->count = 0; inputs->count < AORTA_INPUTS && aorta_json_next_element(&dims, &shape); inputs->count++) {
        struct aorta_input *input = &inputs->items[inputs->count];
        *input = (struct aorta_input){.arithmetic = AORTA_ARITHMETIC_UNKNOWN, .packed = 1};
        read_shape(shape, input);
        if (aorta_json_next_element(&types_at, &type)) read_type(type, input);
        if (input->list) read_list(shape, input);
        if (aorta_json_next_element(&strides_at, &strides)) read_strides(strides, input);
        if (!aorta_json_next_element(&values_at, &input->value)) input->value = (struct aorta_json_value){0};
    }
}
