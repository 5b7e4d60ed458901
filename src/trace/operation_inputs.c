#include "trace/operation_inputs.h"
#include "base/sort.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The first 46 by their numbers in c10/core/ScalarType.h, then other names. */
static const struct aorta_element element_types[] = {
    {"Byte", "unsigned char", 1, AORTA_ARITHMETIC_UNKNOWN},
    {"Char", "signed char", 1, AORTA_ARITHMETIC_UNKNOWN},
    {"Short", "short int", 2, AORTA_ARITHMETIC_UNKNOWN},
    {"Int", "int", 4, AORTA_ARITHMETIC_UNKNOWN},
    {"Long", "long int", 8, AORTA_ARITHMETIC_UNKNOWN},
    {"Half", "c10::Half", 2, AORTA_IN_FP16},
    {"Float", "float", 4, AORTA_IN_FP32},
    {"Double", "double", 8, AORTA_IN_FP64},
    {"ComplexHalf", NULL, 4, AORTA_ARITHMETIC_UNKNOWN},
    {"ComplexFloat", "c10::complex<float>", 8, AORTA_ARITHMETIC_UNKNOWN},
    {"ComplexDouble", "c10::complex<double>", 16, AORTA_ARITHMETIC_UNKNOWN},
    {"Bool", "bool", 1, AORTA_ARITHMETIC_UNKNOWN},
    {"QInt8", NULL, 1, AORTA_ARITHMETIC_UNKNOWN},
    {"QUInt8", NULL, 1, AORTA_ARITHMETIC_UNKNOWN},
    {"QInt32", NULL, 4, AORTA_ARITHMETIC_UNKNOWN},
    {"BFloat16", "c10::BFloat16", 2, AORTA_IN_BF16},
    [23] = {"Float8_e5m2", "c10::Float8_e5m2", 1, AORTA_IN_FP8},
    {"Float8_e4m3fn", "c10::Float8_e4m3fn", 1, AORTA_IN_FP8},
    {"Float8_e5m2fnuz", "c10::Float8_e5m2fnuz", 1, AORTA_IN_FP8},
    {"Float8_e4m3fnuz", "c10::Float8_e4m3fnuz", 1, AORTA_IN_FP8},
    {"UInt16", NULL, 2, AORTA_ARITHMETIC_UNKNOWN},
    {"UInt32", NULL, 4, AORTA_ARITHMETIC_UNKNOWN},
    {"UInt64", NULL, 8, AORTA_ARITHMETIC_UNKNOWN},
    [44] = {"Float8_e8m0fnu", "c10::Float8_e8m0fnu", 1, AORTA_IN_FP8},
    {NULL, "c10::Float4_e2m1fn_x2", 1, AORTA_IN_FP4},
    {NULL, "long", 8, AORTA_ARITHMETIC_UNKNOWN},
    {NULL, "short", 2, AORTA_ARITHMETIC_UNKNOWN},
};
enum { LAST_CODE = 45, ELEMENTS = sizeof element_types / sizeof *element_types };

const struct aorta_element *aorta_element_of_input(struct aorta_json_value type) {
    for (size_t i = 0; i < ELEMENTS; i++)
        if (element_types[i].cxx && aorta_json_text_is(type, element_types[i].cxx)) return &element_types[i];
    return NULL;
}

const struct aorta_element *aorta_element_of_code(int64_t code) {
    return code >= 0 && code <= LAST_CODE && element_types[code].bytes ? &element_types[code] : NULL;
}

const struct aorta_element *aorta_element_named(const char *name) {
    for (size_t i = 0; i < ELEMENTS; i++)
        if (element_types[i].name && !strcmp(element_types[i].name, name)) return &element_types[i];
    return NULL;
}

struct aorta_json_value aorta_trace_json(const struct aorta_trace *trace, uint32_t text) {
    const char *json = aorta_trace_text(trace, text);
    return (struct aorta_json_value){json, strlen(json)};
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
    while (aorta_json_next_element(&cursor, &shape)) {
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
    input->list = aorta_json_text_is(type, "TensorList") || aorta_json_text_is(type, "GenericList");
    const struct aorta_element *element = aorta_element_of_input(type);
    if (!element) return;
    input->tensor = true;
    input->bytes = element->bytes;
    input->arithmetic = element->arithmetic;
    input->packed = element->arithmetic == AORTA_IN_FP4 ? 2 : 1;
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

/* ---- lengths of requests ---- */

/* "_context_9(sq8155sk8430sqsq7475785sqsk7671310)", added to the sums. */
static bool add_sums(const char *range, const char *word, struct aorta_request_lengths *lengths) {
    static const char *const keys[] = {"(sq", "sk", "sqsq", "sqsk"};
    double *const sums[] = {&lengths->queries, &lengths->keys, &lengths->queries_squared, &lengths->queries_by_keys};
    const char *at = strstr(range, word);
    if (!at) return false;
    at += strlen(word);
    while (isdigit((unsigned char)*at)) at++;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t length = strlen(keys[i]);
        if (strncmp(at, keys[i], length) != 0 || !isdigit((unsigned char)at[length])) return false;
        char *end;
        *sums[i] += (double)strtoull(at + length, &end, 10);
        at = end;
    }
    return *at == ')';
}

bool aorta_request_lengths_read(const char *range, struct aorta_request_lengths *lengths) {
    *lengths = (struct aorta_request_lengths){0};
    if (!aorta_begins(range, "execute_")) return false;
    if (!add_sums(range, "_context_", lengths) || !add_sums(range, "_generation_", lengths)) return false;
    return lengths->queries > 0 && lengths->keys >= lengths->queries && lengths->queries_squared >= lengths->queries &&
           lengths->queries_by_keys >= lengths->queries_squared;
}

/* ---- attention of requests ---- */

/* Query, key, value: [tokens, heads, width]; keys and values may be the cache itself, with more axes before these. */
bool aorta_request_attention(const struct aorta_operation *operation, const struct aorta_request_lengths *lengths,
                             int cache_bytes, struct aorta_work_amount *amount) {
    struct aorta_inputs inputs;
    aorta_inputs_read(operation, &inputs);
    const struct aorta_input *q = &inputs.items[0], *k = &inputs.items[1], *v = &inputs.items[2];
    if (inputs.count < 3 || q->rank != 3 || k->rank < 3 || v->rank < 3 || !q->bytes) return false;
    const double tokens = (double)q->size[0], heads = (double)q->size[1], width = (double)q->size[2];
    const double value_width = (double)v->size[v->rank - 1];
    const bool is_cache = k->rank > 3 || k->size[0] != q->size[0];
    if (k->size[k->rank - 1] != q->size[2] || lengths->queries > tokens) return false;
    if (is_cache) cache_bytes = k->bytes;
    if (!cache_bytes) return false;
    /* Causal attention: a new token does not read the tokens after it. */
    const double pairs = lengths->queries_by_keys - (lengths->queries_squared - lengths->queries) / 2;
    const double cached = (double)k->size[k->rank - 2] * width + (double)v->size[v->rank - 2] * value_width;
    amount->arithmetic = q->arithmetic;
    amount->flops = 2 * heads * pairs * (width + value_width);
    amount->bytes = lengths->queries * heads * (width + value_width) * q->bytes + lengths->keys * cached * cache_bytes;
    return true;
}

/* ---- the attention of a trace ---- */

/* A run of an attention's operation. */
struct run {
    int64_t ns;                       /* of its kernels */
    uint32_t operation, range, shape; /* rows: its operation and its step's range in operations[], its shape in
                                       * shapes[] */
    bool windowed;                    /* by the name of a kernel */
};

struct counting {
    struct aorta_trace *trace;
    uint32_t *run_of; /* by operation */
    struct run *runs;
    size_t run_count, run_capacity;
    int cache_bytes;
    struct aorta_arena memory;
};

static struct aorta_operation operation_of(const struct aorta_trace *trace, const struct aorta_trace_shape *shape) {
    const struct aorta_json_value name = aorta_trace_json(trace, shape->op);
    return (struct aorta_operation){.name = name.text,
                                    .name_length = name.length,
                                    .dims = aorta_trace_json(trace, shape->dims),
                                    .types = aorta_trace_json(trace, shape->types)};
}

static enum aorta_cache_use cache_use(const struct aorta_trace *trace, uint32_t shape) {
    const struct aorta_json_value name = aorta_trace_json(trace, trace->shapes[shape].op);
    return aorta_operation_cache_use(name.text, name.length);
}

/* Bytes per element of the cache, from the inputs of operations that write to it; 0: there are none, or caches
 * differ. */
static int find_cache_bytes(const struct aorta_trace *trace) {
    int bytes = 0;
    for (size_t i = 0; i < trace->shape_count; i++) {
        enum { CACHE = 2 };
        struct aorta_inputs inputs;
        if (cache_use(trace, (uint32_t)i) != AORTA_CACHE_WRITTEN) continue;
        const struct aorta_operation operation = operation_of(trace, &trace->shapes[i]);
        aorta_inputs_read(&operation, &inputs);
        const int own = inputs.count > CACHE ? inputs.items[CACHE].bytes : 0;
        if (!own || (bytes && bytes != own)) return 0;
        bytes = own;
    }
    return bytes;
}

/* The range around the operation that has the lengths; NONE if there is none. */
static uint32_t step_of(const struct aorta_trace *trace, uint32_t operation) {
    struct aorta_request_lengths lengths;
    for (uint32_t at = operation; at != AORTA_TRACE_NONE; at = trace->operations[at].parent)
        if (trace->operations[at].range &&
            aorta_request_lengths_read(aorta_trace_text(trace, trace->operations[at].name), &lengths))
            return at;
    return AORTA_TRACE_NONE;
}

static void add_work(struct counting *counting, const struct aorta_trace_work *work) {
    uint32_t *number = &counting->run_of[work->operation];
    if (*number == AORTA_TRACE_NONE) {
        const uint32_t range = step_of(counting->trace, work->operation);
        if (range == AORTA_TRACE_NONE) return;
        const struct run made = {.operation = work->operation, .range = range, .shape = work->shape};
        if (!aorta_arena_append(&counting->memory, &counting->runs, &counting->run_capacity, &counting->run_count,
                                &made, sizeof made))
            return;
        *number = (uint32_t)counting->run_count - 1;
    }
    struct run *run = &counting->runs[*number];
    run->ns += work->end_ns - work->start_ns;
    run->windowed |= strstr(aorta_trace_text(counting->trace, work->name), "Sliding") != NULL;
}

static void collect_runs(struct counting *counting, const bool *reads) {
    const struct aorta_trace *trace = counting->trace;
    AORTA_EACH (const struct aorta_trace_work, work, trace->work, trace->work_count) {
        if (work->shape == AORTA_TRACE_NONE || work->operation == AORTA_TRACE_NONE || !reads[work->shape]) continue;
        add_work(counting, work);
    }
}

static AORTA_ORDER(by_step_and_shape, struct run, AORTA_UP(range) AORTA_UP(shape) AORTA_UP(ns) AORTA_UP(operation));

/* Adds a shape with the amounts of these requests; returns the run's own shape if they are unknown. */
static uint32_t counted_shape(struct counting *counting, const struct run *run) {
    struct aorta_trace *trace = counting->trace;
    struct aorta_trace_shape row = trace->shapes[run->shape];
    const struct aorta_operation operation = operation_of(trace, &row);
    struct aorta_request_lengths lengths;
    if (!aorta_request_lengths_read(aorta_trace_text(trace, trace->operations[run->range].name), &lengths) ||
        !aorta_request_attention(&operation, &lengths, counting->cache_bytes, &row.amount))
        return run->shape;
    struct aorta_trace_shape *longer = realloc(trace->shapes, (trace->shape_count + 1) * sizeof *longer);
    counting->memory.failed |= !longer;
    if (!longer) return run->shape;
    trace->shapes = longer;
    trace->shapes[trace->shape_count] = row;
    return (uint32_t)trace->shape_count++;
}

/* Runs [first, end) are of one shape in one step, the shortest first. A tenth may be disturbed, so the 90th percentile
 * counts as the longest. */
static void count_group(struct counting *counting, size_t first, size_t end) {
    static const double usual = 0.9, alike = 0.75;
    const size_t longest = first + (size_t)ceil((double)(end - first) * usual) - 1;
    const double least_ns = alike * (double)counting->runs[longest].ns;
    const uint32_t shape = counted_shape(counting, &counting->runs[first]);
    for (size_t i = first; i < end; i++)
        if (!counting->runs[i].windowed && (double)counting->runs[i].ns >= least_ns) counting->runs[i].shape = shape;
}

static void count_runs(struct counting *counting) {
    struct run *runs = counting->runs;
    if (counting->run_count) qsort(runs, counting->run_count, sizeof *runs, by_step_and_shape);
    for (size_t i = 0, end; i < counting->run_count; i = end) {
        const struct run first = runs[i];
        for (end = i + 1;
             end < counting->run_count && runs[end].range == first.range && runs[end].shape == first.shape;)
            end++;
        count_group(counting, i, end);
    }
    for (size_t i = 0; i < counting->run_count; i++) counting->run_of[runs[i].operation] = runs[i].shape;
}

/* `run_of` has been replaced by the shapes of runs. */
static void give_shapes(const struct counting *counting, const bool *reads, size_t shape_count) {
    AORTA_EACH (struct aorta_trace_work, work, counting->trace->work, counting->trace->work_count) {
        if (work->operation == AORTA_TRACE_NONE || work->shape >= shape_count || !reads[work->shape]) continue;
        if (counting->run_of[work->operation] != AORTA_TRACE_NONE) work->shape = counting->run_of[work->operation];
    }
}

/* Only attention whose work does not follow from its inputs is changed. */
aorta_status aorta_trace_count_requests(struct aorta_trace *trace) {
    struct counting counting = {.trace = trace};
    const size_t shapes = trace->shape_count, operations = trace->operation_count;
    bool any = false, *reads = aorta_arena_alloc(&counting.memory, shapes);
    for (size_t i = 0; reads && i < shapes; i++)
        any |= reads[i] = cache_use(trace, (uint32_t)i) == AORTA_CACHE_READ && isnan(trace->shapes[i].amount.flops);
    if (any) {
        counting.cache_bytes = find_cache_bytes(trace);
        counting.run_of = aorta_arena_raw(&counting.memory, operations * sizeof *counting.run_of);
        for (size_t i = 0; counting.run_of && i < operations; i++) counting.run_of[i] = AORTA_TRACE_NONE;
    }
    if (counting.run_of) {
        collect_runs(&counting, reads);
        count_runs(&counting);
        give_shapes(&counting, reads, shapes);
    }
    aorta_status status = aorta_arena_check(&counting.memory, "the attention of a trace");
    aorta_arena_free(&counting.memory);
    return status;
}
