#include "trace/operation_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

enum rule {
    NOTHING, /* neither flops nor bytes can be counted */
    /* Matrix products; first: A, then B. */
    PLAIN,
    BATCHED,
    LINEAR,
    VECTOR,
    GROUPED, /* A: [lines, k], its lines in groups; B: a [k, n] per group */
    EXPERTS, /* hidden states, the experts' first and second matrices, weights of each token's experts */
    /* Convolutions. Forward: input, weight; first: padding, then stride and dilation. Backward: gradient, input,
     * weight, and PyTorch's order of arguments. */
    CONVOLUTION_FORWARD,
    CONVOLUTION_BACKWARD,
    /* Attention; first: query, key, value (backward: gradient, query, key, value); count: whether it is causal. The
     * axes are batch, heads, sequence, width or batch, sequence, heads, width. */
    ATTENTION_BHSD,
    ATTENTION_BSHD,
    ATTENTION_BACKWARD_BHSD,
    ATTENTION_BACKWARD_BSHD,
    ATTENTION_VARIABLE, /* sequences one after the other, 0 to 3: query, key, value, where queries begin; first: the
                         * longest of queries, then of keys; count: whether it is causal */
    REQUESTS,           /* query, key, value; the number of keys is known from the step's requests
                         * (operation_inputs.h) */
    /* These read inputs [first, first + count). */
    MAP,    /* and write one output, as wide as the inputs broadcast */
    TEST,   /* as MAP, writing booleans */
    INTO,   /* and write input 0 */
    READ,   /* and write less, which is not counted, or write one of the inputs */
    UPDATE, /* and write inputs 0 and 1 */
    CACHE,  /* key, value, their caches, places: written with the cache's type */
    ROTARY, /* positions, query and key (both written), head size, a line of sines per position */
    /* Lookups: at least the bytes of the indices are read and the selected elements written. */
    GATHER,       /* input, axis, indices */
    INDEX_SELECT, /* input, axis, indices of slices along the axis */
};

struct row {
    const char *name;
    enum aorta_work_class class;
    enum rule rule;
    int first, count;
};
static const struct row rows[] = {
#define OPERATION(name, class, rule, first, count) {name, AORTA_WORK_##class, rule, first, count},
#include "trace/operations.def"
#undef OPERATION
};
static const struct row beginnings[] = {
#define OPERATION(name, class, rule, first, count)
#define OPERATIONS(name, class, rule, first, count) {name, AORTA_WORK_##class, rule, first, count},
#include "trace/operations.def"
#undef OPERATION
#undef OPERATIONS
};

struct name {
    const char *text;
    size_t length;
};

static int compare_name(const void *key, const void *item) {
    const struct name *name = key;
    const struct row *row = item;
    const size_t length = strlen(row->name);
    int order = memcmp(name->text, row->name, name->length < length ? name->length : length); /* it may hold zeros */
    return order ? order : (name->length > length) - (name->length < length);
}

static const struct row *find_row(const char *text, size_t length) {
    const struct name name = {text, length};
    const struct row *found = bsearch(&name, rows, sizeof rows / sizeof *rows, sizeof *rows, compare_name);
    for (size_t i = 0; !found && i < sizeof beginnings / sizeof *beginnings; i++) {
        size_t begin = strlen(beginnings[i].name);
        if (length >= begin && memcmp(text, beginnings[i].name, begin) == 0) found = &beginnings[i];
    }
    return found;
}

/* ---- types ---- */

static const char *const class_names[AORTA_WORK_CLASS_COUNT] = {"gemm",      "convolution", "attention",
                                                                "pointwise", "reduction",   "other"};
const char *aorta_work_class_name(int class) {
    return class_names[class];
}

const char *aorta_arithmetic_name(int arithmetic) {
    static const char *const names[] = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4", "unknown"};
    return names[arithmetic];
}

enum aorta_arithmetic aorta_arithmetic_of(enum aorta_dtype dtype) {
    return dtype == AORTA_F32    ? AORTA_IN_FP32
           : dtype == AORTA_F16  ? AORTA_IN_FP16
           : dtype == AORTA_BF16 ? AORTA_IN_BF16
                                 : AORTA_ARITHMETIC_UNKNOWN;
}

static const struct aorta_input *input_at(const struct aorta_inputs *inputs, int index) {
    return index >= 0 && index < inputs->count ? &inputs->items[index] : NULL;
}

/* The input if it is a tensor with at least this many axes; else NULL. */
static const struct aorta_input *tensor_at(const struct aorta_inputs *inputs, int index, int rank) {
    const struct aorta_input *input = input_at(inputs, index);
    return input && input->rank >= rank && !input->list ? input : NULL;
}

static double elements_of(const struct aorta_input *input) {
    double elements = 1;
    for (int i = 0; i < input->rank; i++) elements *= (double)input->size[i];
    return elements;
}

/* NaN if the type is unknown. */
static double bytes_of(const struct aorta_input *input) {
    return input->bytes ? elements_of(input) * input->bytes : NAN;
}

/* ---- products ---- */

static bool find_product(enum rule rule, const struct aorta_input *a, const struct aorta_input *b,
                         struct aorta_product *product) {
    const int64_t *x = a->size, *y = b->size;
    int rank = a->rank;
    if (rule == PLAIN && rank == 2 && b->rank == 2 && x[1] == y[0]) {
        *product = (struct aorta_product){1, x[0], y[1], x[1]};
    } else if (rule == BATCHED && rank == 3 && b->rank == 3 && x[0] == y[0] && x[2] == y[1]) {
        *product = (struct aorta_product){x[0], x[1], y[2], x[2]};
    } else if (rule == VECTOR && rank == 2 && b->rank == 1 && x[1] == y[0]) {
        *product = (struct aorta_product){1, x[0], 1, x[1]};
    } else if (rule == LINEAR && b->rank == 2 && x[rank - 1] == y[1]) {
        int64_t lines = 1;
        for (int i = 0; i < rank - 1; i++)
            if (__builtin_mul_overflow(lines, x[i], &lines)) return false;
        *product = (struct aorta_product){1, lines, y[0], y[1]};
    } else {
        return false;
    }
    return true;
}

static void count_product(const struct row *row, const struct aorta_inputs *inputs, struct aorta_product *product,
                          struct aorta_work_amount *amount) {
    const struct aorta_input *a = tensor_at(inputs, row->first, 1), *b = tensor_at(inputs, row->first + 1, 1);
    if (!a || !b || !find_product(row->rule, a, b, product)) return;
    const double batch = (double)product->batch, m = (double)product->m, n = (double)product->n, k = (double)product->k;
    amount->arithmetic = a->arithmetic;
    amount->flops = 2 * batch * m * n * k * a->packed;
    amount->bytes = bytes_of(a) + bytes_of(b) + (a->bytes ? batch * m * n * a->bytes : NAN);
}

/* Each line is multiplied once, with the matrix of its group. The matrices of all groups count as read. */
static void count_grouped(const struct row *row, const struct aorta_inputs *inputs, struct aorta_work_amount *amount) {
    const struct aorta_input *a = tensor_at(inputs, row->first, 2), *b = tensor_at(inputs, row->first + 1, 3);
    if (!a || !b || a->rank != 2 || b->rank != 3 || a->size[1] != b->size[1]) return;
    const double outputs = (double)a->size[0] * (double)b->size[2];
    amount->arithmetic = a->arithmetic;
    amount->flops = 2 * outputs * (double)a->size[1] * a->packed;
    amount->bytes = bytes_of(a) + bytes_of(b) + (a->bytes ? outputs * a->bytes : NAN);
}

/* Inputs: hidden states [tokens, k], the experts' [experts, n, k] and [experts, k, n / 2 or n], and weights [tokens,
 * chosen experts]. Tokens × chosen experts limits how many experts are read. */
static void count_experts(const struct row *row, const struct aorta_inputs *inputs, struct aorta_work_amount *amount) {
    const struct aorta_input *x = tensor_at(inputs, row->first, 2), *up = tensor_at(inputs, row->first + 1, 3);
    const struct aorta_input *down = tensor_at(inputs, row->first + 2, 3),
                             *weights = tensor_at(inputs, row->first + 3, 2);
    if (!x || !up || !down || !weights || x->size[1] != up->size[2] || up->size[0] != down->size[0]) return;
    const double runs = (double)x->size[0] * (double)weights->size[1], experts = (double)up->size[0];
    const double reached = experts > 0 ? fmin(1, runs / experts) : 0;
    amount->arithmetic = up->arithmetic == AORTA_ARITHMETIC_UNKNOWN ? x->arithmetic : up->arithmetic;
    amount->flops = experts > 0 ? 2 * runs * (elements_of(up) + elements_of(down)) / experts : 0;
    amount->bytes = 2 * bytes_of(x) + reached * (bytes_of(up) + bytes_of(down));
}

/* ---- convolutions ---- */

/* Reads a list such as "[1, 1]" in quotes; missing numbers are copies of the first. */
static bool get_list(const struct aorta_inputs *inputs, int index, int count, int64_t *numbers) {
    const struct aorta_input *input = input_at(inputs, index);
    if (!input || input->value.length < 3 || !aorta_json_is_string(input->value)) return false;
    const struct aorta_json_value list = {input->value.text + 1, input->value.length - 2};
    struct aorta_json_cursor cursor = aorta_json_elements(list);
    struct aorta_json_value number;
    int found = 0;
    for (; found < count && aorta_json_next_element(&cursor, &number); found++)
        if (!aorta_json_get_int(number, &numbers[found])) return false;
    for (; found > 0 && found < count; found++) numbers[found] = numbers[0];
    return found == count;
}

/* Flops of one pass: each output element is a sum over the kernel and the channels of its group. */
static double convolution_flops(double outputs, const struct aorta_input *weight) {
    return 2 * outputs * elements_of(weight) / (double)(weight->size[0] ? weight->size[0] : 1);
}

static void count_convolution(const struct row *row, const struct aorta_inputs *inputs,
                              struct aorta_work_amount *amount) {
    const struct aorta_input *x = tensor_at(inputs, 0, 3), *w = tensor_at(inputs, 1, 3);
    if (!x || !w || x->rank != w->rank) return;
    const int axes = x->rank - 2;
    int64_t padding[AORTA_INPUT_RANK], stride[AORTA_INPUT_RANK], dilation[AORTA_INPUT_RANK];
    if (!get_list(inputs, row->first, axes, padding) || !get_list(inputs, row->first + 1, axes, stride) ||
        !get_list(inputs, row->first + 2, axes, dilation))
        return;
    double outputs = (double)x->size[0] * (double)w->size[0];
    for (int i = 0; i < axes; i++) {
        const double reach = (double)dilation[i] * ((double)w->size[i + 2] - 1) + 1;
        const double across = (double)x->size[i + 2] + 2 * (double)padding[i] - reach;
        if (stride[i] < 1 || across < 0) return;
        outputs *= floor(across / (double)stride[i]) + 1;
    }
    amount->arithmetic = x->arithmetic;
    amount->flops = convolution_flops(outputs, w);
    amount->bytes = bytes_of(x) + bytes_of(w) + (x->bytes ? outputs * x->bytes : NAN);
}

/* (gradient, input, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups, mask): the mask
 * selects the gradients of input, weight and bias. */
static void count_convolution_backward(const struct row *row, const struct aorta_inputs *inputs,
                                       struct aorta_work_amount *amount) {
    (void)row;
    enum { TRANSPOSED = 7, MASK = 10 };
    const struct aorta_input *dy = tensor_at(inputs, 0, 3), *x = tensor_at(inputs, 1, 3), *w = tensor_at(inputs, 2, 3);
    const struct aorta_input *transposed = input_at(inputs, TRANSPOSED), *mask = input_at(inputs, MASK);
    if (!dy || !x || !w || !transposed || !mask || !aorta_json_text_is(transposed->value, "False")) return;
    const bool input = aorta_begins(mask->value.text ? mask->value.text : "", "\"[True");
    const bool weight = mask->value.length && memmem(mask->value.text, mask->value.length, ", True", 6);
    amount->arithmetic = dy->arithmetic;
    amount->flops = (input + weight) * convolution_flops(elements_of(dy), w);
    amount->bytes = bytes_of(dy) + (input ? bytes_of(w) + bytes_of(x) : 0) + (weight ? bytes_of(x) + bytes_of(w) : 0);
}

/* ---- attention ---- */

/* 0 or 1; -1 if unknown. */
static int is_causal(const struct aorta_inputs *inputs, int index) {
    const struct aorta_input *input = input_at(inputs, index);
    if (!input) return -1;
    if (aorta_json_text_is(input->value, "True") || aorta_json_text_is(input->value, "1") ||
        aorta_json_text_is(input->value, "2"))
        return 1;
    return aorta_json_text_is(input->value, "False") || aorta_json_text_is(input->value, "0") ? 0 : -1;
}

/* Counts two products of sequence by sequence forward, and four backward; recomputed products are not counted. */
static void count_attention(const struct row *row, const struct aorta_inputs *inputs,
                            struct aorta_work_amount *amount) {
    const bool backward = row->rule == ATTENTION_BACKWARD_BHSD || row->rule == ATTENTION_BACKWARD_BSHD;
    const int heads_at = row->rule == ATTENTION_BHSD || row->rule == ATTENTION_BACKWARD_BHSD ? 1 : 2;
    const int length_at = 3 - heads_at, first = row->first + backward, causal = is_causal(inputs, row->count);
    const struct aorta_input *q = tensor_at(inputs, first, 4), *k = tensor_at(inputs, first + 1, 4);
    const struct aorta_input *v = tensor_at(inputs, first + 2, 4);
    if (!q || !k || !v || causal < 0) return;
    const double batch = (double)q->size[0], heads = (double)q->size[heads_at];
    const double rows_q = (double)q->size[length_at], rows_k = (double)k->size[length_at];
    const double width = (double)q->size[3] + (double)v->size[3];
    double pairs = rows_q * rows_k;
    if (causal) pairs = rows_q <= rows_k ? rows_q * (2 * rows_k - rows_q + 1) / 2 : rows_k * (rows_k + 1) / 2;
    const double out_bytes = v->bytes ? batch * heads * rows_q * (double)v->size[3] * v->bytes : NAN;
    const double moved = bytes_of(q) + bytes_of(k) + bytes_of(v) + out_bytes;
    amount->arithmetic = q->arithmetic;
    amount->flops = 2 * batch * heads * pairs * width * (backward ? 2 : 1);
    amount->bytes = backward ? 2 * moved : moved;
}

/* Known only if all sequences have the length of the longest, and queries and keys are equally long. */
static void count_variable(const struct row *row, const struct aorta_inputs *inputs, struct aorta_work_amount *amount) {
    enum { BEGINS = 3 };
    const struct aorta_input *q = tensor_at(inputs, 0, 3), *k = tensor_at(inputs, 1, 3), *v = tensor_at(inputs, 2, 3);
    const struct aorta_input *begins = tensor_at(inputs, BEGINS, 1), *longest = input_at(inputs, row->first);
    const struct aorta_input *longest_k = input_at(inputs, row->first + 1);
    const int causal = is_causal(inputs, row->count);
    int64_t length, length_k;
    if (!q || !k || !v || !begins || !longest || !longest_k || causal < 0 ||
        !aorta_json_get_int(longest->value, &length) || !aorta_json_get_int(longest_k->value, &length_k) ||
        length != length_k)
        return;
    const double sequences = (double)begins->size[0] - 1, rows_q = (double)length;
    if (sequences < 1 || sequences * rows_q != (double)q->size[0]) return;
    const double heads = (double)q->size[1], width = (double)q->size[2] + (double)v->size[2];
    const double pairs = causal ? rows_q * (rows_q + 1) / 2 : rows_q * rows_q;
    const double line = (double)(k->size[1] * k->size[2]) * k->bytes + (double)(v->size[1] * v->size[2]) * v->bytes;
    amount->arithmetic = q->arithmetic;
    amount->flops = 2 * sequences * heads * pairs * width;
    amount->bytes = 2 * bytes_of(q) + (k->bytes && v->bytes ? sequences * rows_q * line : NAN);
}

/* ---- operations that only move data ---- */

/* Bytes of the tensors among inputs [first, first + count); NaN if a type or shape is unknown. */
static double bytes_read(const struct row *row, const struct aorta_inputs *inputs) {
    double bytes = 0;
    if (!inputs->typed) return NAN;
    for (int i = row->first; i < row->first + row->count && i < inputs->count; i++) {
        const struct aorta_input *input = &inputs->items[i];
        if (input->list || (input->tensor && input->rank < 0)) return NAN;
        if (input->tensor) bytes += bytes_of(input);
    }
    return bytes;
}

/* Elements of the output of inputs that broadcast. Shapes that do not broadcast are parameters (of norms); the output
 * then has the size of the largest input. */
static double broadcast_elements(const struct row *row, const struct aorta_inputs *inputs) {
    int64_t size[AORTA_INPUT_RANK] = {0}; /* from the last axis on */
    double most = 0, elements = 1;
    bool fits = true;
    for (int i = row->first; i < row->first + row->count && i < inputs->count; i++) {
        const struct aorta_input *input = &inputs->items[i];
        if (!input->tensor) continue;
        if (elements_of(input) > most) most = elements_of(input);
        for (int j = 0; j < input->rank; j++) {
            int64_t own = input->size[input->rank - 1 - j];
            fits &= !size[j] || size[j] == own || size[j] == 1 || own == 1;
            if (own > size[j]) size[j] = own;
        }
    }
    for (int j = 0; j < AORTA_INPUT_RANK; j++) elements *= size[j] ? (double)size[j] : 1;
    return fits ? elements : most;
}

/* Bytes per element of the output: those of the widest input with axes, or of the widest input if none has axes. */
static int widest(const struct row *row, const struct aorta_inputs *inputs) {
    int with_axes = 0, any = 0;
    for (int i = row->first; i < row->first + row->count && i < inputs->count; i++) {
        const struct aorta_input *input = &inputs->items[i];
        if (input->tensor && input->rank > 0 && input->bytes > with_axes) with_axes = input->bytes;
        if (input->tensor && input->bytes > any) any = input->bytes;
    }
    return with_axes ? with_axes : any;
}

static double bytes_written(const struct row *row, const struct aorta_inputs *inputs) {
    const struct aorta_input *into = tensor_at(inputs, 0, 0), *and = tensor_at(inputs, 1, 0);
    switch (row->rule) {
    case MAP:
        return broadcast_elements(row, inputs) * widest(row, inputs);
    case TEST:
        return broadcast_elements(row, inputs);
    case INTO:
        return into ? bytes_of(into) : NAN;
    case UPDATE:
        return into && and? bytes_of(into) + bytes_of(and) : NAN;
    default:
        return 0;
    }
}

static void count_moved(const struct row *row, const struct aorta_inputs *inputs, struct aorta_work_amount *amount) {
    const struct aorta_input *first = tensor_at(inputs, row->first, 0);
    const double bytes = bytes_read(row, inputs) + bytes_written(row, inputs);
    amount->flops = 0;
    if (bytes > 0) amount->bytes = bytes;
    if (first) amount->arithmetic = first->arithmetic;
}

static void count_lookup(const struct row *row, const struct aorta_inputs *inputs, struct aorta_work_amount *amount) {
    enum { INDICES = 2 };
    const struct aorta_input *from = tensor_at(inputs, 0, 1), *axis = input_at(inputs, 1);
    const struct aorta_input *indices = tensor_at(inputs, INDICES, 0);
    int64_t along = 0;
    if (!from || !axis || !indices || !from->bytes) return;
    double each = 1;
    if (row->rule == INDEX_SELECT) {
        if (!aorta_json_get_int(axis->value, &along) || along < -from->rank || along >= from->rank) return;
        int64_t size = from->size[along < 0 ? along + from->rank : along];
        each = size ? elements_of(from) / (double)size : 0;
    }
    amount->flops = 0;
    amount->arithmetic = from->arithmetic;
    amount->bytes = bytes_of(indices) + elements_of(indices) * each * from->bytes;
}

static void count_cache(const struct row *row, const struct aorta_inputs *inputs, struct aorta_work_amount *amount) {
    (void)row;
    const struct aorta_input *key = tensor_at(inputs, 0, 1), *value = tensor_at(inputs, 1, 1);
    const struct aorta_input *keys = tensor_at(inputs, 2, 1), *values = tensor_at(inputs, 3, 1);
    const struct aorta_input *places = tensor_at(inputs, 4, 0);
    if (!key || !value || !keys || !values || !places || !keys->bytes || !values->bytes) return;
    amount->flops = 0;
    amount->arithmetic = key->arithmetic;
    amount->bytes = bytes_of(key) + bytes_of(value) + bytes_of(places) + elements_of(key) * keys->bytes +
                    elements_of(value) * values->bytes;
}

static void count_rotary(const struct row *row, const struct aorta_inputs *inputs, struct aorta_work_amount *amount) {
    (void)row;
    enum { LINES = 4 };
    const struct aorta_input *positions = tensor_at(inputs, 0, 1), *query = tensor_at(inputs, 1, 1);
    const struct aorta_input *key = tensor_at(inputs, 2, 0), *lines = tensor_at(inputs, LINES, 2);
    if (!positions || !query || !lines) return;
    amount->flops = 0;
    amount->arithmetic = query->arithmetic;
    amount->bytes = bytes_of(positions) + 2 * (bytes_of(query) + (key && key->tensor ? bytes_of(key) : 0)) +
                    elements_of(positions) * (double)lines->size[lines->rank - 1] * lines->bytes;
}

/* ---- operations ---- */

typedef void count_rule(const struct row *row, const struct aorta_inputs *inputs, struct aorta_work_amount *amount);

static count_rule *const rules[] = {
    /* rules that are missing count products (count_product) or nothing */
    [GROUPED] = count_grouped,
    [EXPERTS] = count_experts,
    [CONVOLUTION_FORWARD] = count_convolution,
    [CONVOLUTION_BACKWARD] = count_convolution_backward,
    [ATTENTION_BHSD] = count_attention,
    [ATTENTION_BSHD] = count_attention,
    [ATTENTION_BACKWARD_BHSD] = count_attention,
    [ATTENTION_BACKWARD_BSHD] = count_attention,
    [ATTENTION_VARIABLE] = count_variable,
    [MAP] = count_moved,
    [TEST] = count_moved,
    [INTO] = count_moved,
    [READ] = count_moved,
    [UPDATE] = count_moved,
    [CACHE] = count_cache,
    [ROTARY] = count_rotary,
    [GATHER] = count_lookup,
    [INDEX_SELECT] = count_lookup,
};

bool aorta_operation_is_view(const char *name, size_t length) {
    static const char views[] =
        " alias as_strided detach detach_ expand expand_as narrow permute select slice split squeeze "
        "t transpose unbind unsqueeze unflatten view _unsafe_view _reshape_alias result_type numel "
        "size is_floating_point lift_fresh chunk split_with_sizes resolve_conj resolve_neg "
        "view_as ";
    static const char begin[] = "aten::";
    enum { LONGEST = 24 };
    const size_t skip = sizeof begin - 1, own = length - skip;
    char word[LONGEST + 2] = " ";
    if (length <= skip || own > LONGEST || memcmp(name, begin, skip) != 0) return false;
    memcpy(word + 1, name + skip, own);
    word[own + 1] = ' ';
    return memmem(views, sizeof views - 1, word, own + 2) != NULL;
}

bool aorta_operation_wanted(const char *name, size_t length) {
    return find_row(name, length) != NULL;
}

enum aorta_cache_use aorta_operation_cache_use(const char *name, size_t length) {
    const struct row *row = find_row(name, length);
    if (row && row->rule == CACHE) return AORTA_CACHE_WRITTEN;
    return row && (row->rule == REQUESTS || row->rule == ATTENTION_VARIABLE) ? AORTA_CACHE_READ : AORTA_CACHE_UNUSED;
}

bool aorta_operation_reads_values(const struct aorta_operation *operation) {
    const struct row *row = find_row(operation->name, operation->name_length);
    return row &&
           (row->class == AORTA_WORK_CONVOLUTION || row->class == AORTA_WORK_ATTENTION || row->rule == INDEX_SELECT);
}

bool aorta_operation_count(const struct aorta_operation *operation, struct aorta_product *product,
                           struct aorta_work_amount *amount) {
    const struct row *row = find_row(operation->name, operation->name_length);
    struct aorta_inputs inputs;
    if (!row) return false;
    *product = (struct aorta_product){-1, -1, -1, -1};
    *amount = (struct aorta_work_amount){
        .class = row->class, .arithmetic = AORTA_ARITHMETIC_UNKNOWN, .flops = NAN, .bytes = NAN};
    aorta_inputs_read(operation, &inputs);
    if (row->rule >= PLAIN && row->rule <= VECTOR) count_product(row, &inputs, product, amount);
    if (rules[row->rule]) rules[row->rule](row, &inputs, amount);
    return true;
}

/* ---- kernels without an operation ---- */

/* After "Cijk_Ailk_Bljk_" come the types of operands, result and sums, then flags:
 * "HHS_BH", "B_BS_BH", "SB", "F8BS_BH"; "S_MX_B": single precision with fewer bits. */
enum aorta_arithmetic aorta_kernel_tensile_arithmetic(const char *kernel) {
    enum { INDICES = 15 };
    const char *at = strstr(kernel, "Cijk_");
    if (!at || strlen(at) <= INDICES || at[5] != 'A' || at[10] != 'B' || at[INDICES - 1] != '_')
        return AORTA_ARITHMETIC_UNKNOWN;
    at += INDICES;
    if (at[0] == 'F' || (at[0] == 'B' && at[1] == '8')) return at[1] == '8' ? AORTA_IN_FP8 : AORTA_ARITHMETIC_UNKNOWN;
    switch (*at) {
    case 'H':
        return AORTA_IN_FP16;
    case 'B':
        return AORTA_IN_BF16;
    case 'S':
        return aorta_begins(at, "S_MX_") ? AORTA_IN_TF32 : AORTA_IN_FP32;
    case 'D':
        return AORTA_IN_FP64;
    default:
        return AORTA_ARITHMETIC_UNKNOWN;
    }
}

bool aorta_kernel_uses_tf32(const char *kernel) {
    /* cuBLAS, CUTLASS and cuDNN; 1688 is the shape of Ampere's TF32 instruction; XF32: AMD. */
    static const char *const parts[] = {"tf32", "TF32", "xf32", "XF32", "s1688", NULL};
    return aorta_has_any(kernel, parts) || aorta_kernel_tensile_arithmetic(kernel) == AORTA_IN_TF32;
}
