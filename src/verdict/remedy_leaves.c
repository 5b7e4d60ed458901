/* Splits a recorded rank into operations, each with the kernels that it launched itself. */
#include "verdict/remedy_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct aorta_inputs nothing;

/* ---- tensors ---- */

/* `stored`: without axes of stride 0. */
static double elements_of(const struct aorta_input *input, bool stored) {
    double elements = 1;
    if (input->list) return input->list_elements;
    for (int i = 0; i < input->rank; i++)
        if (!stored || !input->strided || input->stride[i]) elements *= (double)input->size[i];
    return elements;
}

double aorta_remedy_elements(const struct aorta_input *input) {
    return elements_of(input, true);
}

double aorta_remedy_bytes(const struct aorta_input *input) {
    return aorta_remedy_elements(input) * (input->list ? 4 : input->bytes);
}

const struct aorta_input *aorta_remedy_tensor(const struct leaf *leaf, int number) {
    for (int i = 0; i < leaf->inputs->count; i++)
        if (leaf->inputs->items[i].tensor && leaf->inputs->items[i].rank > 0 && !number--)
            return &leaf->inputs->items[i];
    return NULL;
}

struct aorta_inputs *aorta_remedy_read_inputs(struct remedy_model *model, const struct aorta_trace_inputs *texts) {
    const struct aorta_operation described = {.dims = aorta_trace_json(model->trace, texts->dims),
                                              .types = aorta_trace_json(model->trace, texts->types),
                                              .values = aorta_trace_json(model->trace, texts->values),
                                              .strides = aorta_trace_json(model->trace, texts->strides)};
    struct aorta_inputs *inputs = aorta_arena_alloc(model->memory, sizeof *inputs);
    if (inputs) aorta_inputs_read(&described, inputs);
    return inputs;
}

const struct aorta_inputs *aorta_remedy_inputs_of(struct remedy_model *model,
                                                  const struct aorta_trace_operation *operation) {
    if (!operation || operation->inputs == AORTA_TRACE_NONE) return &nothing;
    struct aorta_inputs **inputs = &model->inputs[operation->inputs];
    if (!*inputs) *inputs = aorta_remedy_read_inputs(model, &model->trace->inputs[operation->inputs]);
    return *inputs ? *inputs : &nothing;
}

/* ---- outputs ---- */

static void add_output(struct leaf *leaf, double elements, int bytes, enum aorta_arithmetic arithmetic) {
    if (leaf->output_count < LEAF_OUTPUTS)
        leaf->outputs[leaf->output_count++] = (struct leaf_tensor){elements, bytes, arithmetic};
}

/* Elements of a size such as "[64, 128]" in quotes; -1: no list. */
static double elements_in(struct aorta_json_value value) {
    if (!aorta_json_is_string(value) || value.length < 4 || value.text[1] != '[') return -1;
    struct aorta_json_cursor sizes = aorta_json_elements((struct aorta_json_value){value.text + 1, value.length - 2});
    struct aorta_json_value size;
    double elements = 1;
    for (int64_t number; aorta_json_next_element(&sizes, &size);)
        elements *= aorta_json_get_int(size, &number) ? (double)number : 0;
    return elements;
}

static void add_allocated(struct leaf *leaf, const char *name, const struct aorta_inputs *inputs) {
    const bool strided = !strcmp(name, "aten::empty_strided");
    if (!strcmp(name, "aten::empty_like") && inputs->count && inputs->items[0].tensor) {
        add_output(leaf, aorta_remedy_elements(&inputs->items[0]), inputs->items[0].bytes, inputs->items[0].arithmetic);
        return;
    }
    if (inputs->count < 2 + strided) return;
    const double elements = elements_in(inputs->items[0].value);
    int64_t code;
    if (elements < 0) return;
    if (!aorta_json_get_int(inputs->items[1 + strided].value, &code)) code = 6;
    const struct aorta_element *element = aorta_element_of_code(code);
    if (element) add_output(leaf, elements, element->bytes, element->arithmetic);
}

/* The outputs are the tensors that the operation itself allocates. Its inner operations are the next rows. */
static void find_allocations(struct remedy_model *model, struct leaf *leaf) {
    const struct aorta_trace *trace = model->trace;
    enum { FAR = 64 };
    for (size_t i = leaf->operation + 1; i < trace->operation_count && i < leaf->operation + FAR; i++) {
        const struct aorta_trace_operation *inner = &trace->operations[i];
        if (inner->parent == AORTA_TRACE_NONE || inner->parent < leaf->operation) return;
        if (inner->parent != leaf->operation || !(aorta_remedy_op_bits(model, inner->name) & AORTA_OP_EMPTY)) continue;
        add_allocated(leaf, aorta_trace_text(trace, inner->name), aorta_remedy_inputs_of(model, inner));
    }
}

static const struct aorta_input *largest_tensor(const struct leaf *leaf, int *widest) {
    const struct aorta_input *largest = NULL;
    AORTA_EACH (const struct aorta_input, input, leaf->inputs->items, leaf->inputs->count) {
        if ((!input->tensor && !input->list) || input->rank == 0) continue;
        if (!largest || aorta_remedy_elements(input) > aorta_remedy_elements(largest)) largest = input;
        if (input->arithmetic != AORTA_ARITHMETIC_UNKNOWN && input->bytes > *widest) *widest = input->bytes;
    }
    return largest;
}

static void guess_outputs(struct leaf *leaf) {
    int widest = 0;
    const struct aorta_input *largest = largest_tensor(leaf, &widest);
    if (!largest || leaf->op & AORTA_OP_SMALL_OUTPUT) return;
    if (leaf->op & AORTA_OP_IN_PLACE && leaf->inputs->items[0].tensor) largest = &leaf->inputs->items[0];
    const bool sixteen = leaf->kernels_any & AORTA_KERNEL_HALF || (leaf->kernel && strstr(leaf->kernel, "<2u>"));
    int bytes = largest->bytes;
    enum aorta_arithmetic arithmetic = largest->arithmetic;
    if (largest->list) {
        bytes = sixteen ? 2 : 4;
        arithmetic = sixteen ? AORTA_IN_BF16 : AORTA_IN_FP32;
    } else if (!(leaf->op & AORTA_OP_IN_PLACE) && widest > bytes) {
        bytes = widest;
        arithmetic = widest == 4 ? AORTA_IN_FP32 : arithmetic;
    }
    add_output(leaf, elements_of(largest, false), bytes, arithmetic);
}

/* ---- the frames around an operation ---- */

/* An open operation or range of the walk, with data of the frames around it. */
struct frame {
    uint32_t row, own, all;    /* own: bits of its name; all: bits of this and all outer frames */
    int64_t forward, backward; /* of the innermost frame with such a number; -1 */
};

struct frames {
    struct frame *items; /* outermost first */
    size_t count, capacity;
};

static void open_frame(struct remedy_model *model, struct frames *frames, uint32_t row) {
    const struct aorta_trace_operation *operation = &model->trace->operations[row];
    while (frames->count && frames->items[frames->count - 1].row != operation->parent) frames->count--;
    struct frame frame = {.forward = -1, .backward = -1};
    if (frames->count) frame = frames->items[frames->count - 1];
    frame.row = row;
    frame.own = aorta_remedy_op_bits(model, operation->name);
    frame.all |= frame.own;
    if (operation->sequence >= 0) *(operation->gradient ? &frame.backward : &frame.forward) = operation->sequence;
    aorta_arena_append(model->memory, &frames->items, &frames->capacity, &frames->count, &frame, sizeof frame);
}

/* Sets the leaf's data from the innermost frame. The loss may also be one of the next outer frames. `generates`:
 * torch.compile generates kernels, and does not only replay recorded graphs. */
static void set_frames(const struct frames *frames, bool generates, struct leaf *leaf) {
    enum { NEAR = 4 };
    const struct frame *inner = &frames->items[frames->count - 1];
    leaf->in_optimizer = (inner->all & AORTA_OP_OPTIMIZER) != 0;
    leaf->in_embedding = (inner->all & AORTA_OP_EMBEDDING_GRADIENT) != 0;
    leaf->gradient = (inner->all & AORTA_OP_BACKWARD) != 0;
    leaf->compiled = generates && inner->all & AORTA_OP_COMPILED;
    for (size_t i = frames->count; i && i + NEAR > frames->count; i--)
        leaf->in_loss |= (frames->items[i - 1].own & AORTA_OP_LOSS) != 0;
    leaf->forward = inner->forward;
    leaf->backward = inner->backward;
    leaf->recomputed = inner->all & AORTA_OP_EVALUATES && leaf->forward >= 0;
}

/* The parent of an operation is always open, as inner operations are the next rows. */
static void read_frames(struct remedy_model *model, const uint32_t *of_operation) {
    struct frames frames = {0};
    const bool generates = aorta_trace_framework(model->trace) == AORTA_FRAMEWORK_COMPILED;
    for (size_t i = 0; model->operations && i < model->trace->operation_count; i++) {
        open_frame(model, &frames, (uint32_t)i);
        if (model->memory->failed) return;
        if (of_operation[i]) set_frames(&frames, generates, &model->leaves[of_operation[i] - 1]);
    }
}

/* ---- kinds ---- */

static enum leaf_kind kind_of(const struct leaf *leaf) {
    const bool all_stream = leaf->kernels_all & AORTA_KERNEL_STREAMS;
    if (leaf->in_optimizer) return LEAF_OPTIMIZER;
    if (leaf->kernels_any & AORTA_KERNEL_HOST_COPY) return LEAF_TRANSFER;
    if (leaf->kernels_any & AORTA_KERNEL_GENERATED) return LEAF_GENERATED;
    if (leaf->op & AORTA_OP_ATTENTION || leaf->kernels_any & AORTA_KERNEL_FUSED_ATTENTION) return LEAF_ATTENTION;
    if (leaf->op & AORTA_OP_PRODUCT) return LEAF_PRODUCT;
    if (leaf->op & AORTA_OP_CONVOLUTION) return LEAF_CONVOLUTION;
    if (leaf->compiled && (all_stream || leaf->op & AORTA_OP_COPY)) return LEAF_GENERATED; /* the compiler's choice */
    if (leaf->op & AORTA_OP_COPY) return LEAF_COPY;
    if (leaf->operation == AORTA_TRACE_NONE && leaf->kernels_any & AORTA_KERNEL_PRODUCT) return LEAF_PRODUCT;
    return all_stream || (!leaf->kernels && leaf->fills) ? LEAF_STREAM : LEAF_OTHER;
}

static const enum leaf_math math_of_type[AORTA_ARITHMETIC_COUNT + 1] = {[AORTA_IN_FP32] = MATH_FP32,
                                                                        [AORTA_IN_TF32] = MATH_TF32,
                                                                        [AORTA_IN_FP16] = MATH_HALF,
                                                                        [AORTA_IN_BF16] = MATH_HALF,
                                                                        [AORTA_IN_FP8] = MATH_FP8};

/* `type`: of the inputs; if unknown, names show it. On NVIDIA, fp32 runs as TF32 on matrix units, unless the kernel's
 * name shows plain fp32. AMD's matrix units support fp32; names show XF32, which has fewer bits. */
static enum leaf_math math_of(const struct remedy_model *model, const struct leaf *leaf, enum aorta_arithmetic type) {
    const enum leaf_math typed = math_of_type[type];
    if (leaf->kind == LEAF_ATTENTION) return typed;
    if (!aorta_leaf_multiplies(leaf)) return MATH_NONE;
    if (typed == MATH_NONE && type == AORTA_ARITHMETIC_UNKNOWN) {
        if (leaf->kernels_any & AORTA_KERNEL_FP8) return MATH_FP8;
        if (leaf->kernels_any & AORTA_KERNEL_HALF) return MATH_HALF;
        if (leaf->kernels_any & AORTA_KERNEL_TF32) return MATH_TF32;
        return leaf->kernels_any & AORTA_KERNEL_PLAIN_FP32 ? MATH_FP32 : MATH_NONE;
    }
    if (typed != MATH_FP32 || leaf->kernels_any & AORTA_KERNEL_TF32) return typed == MATH_FP32 ? MATH_TF32 : typed;
    const bool plain = model->remedies->amd || (model->own && !model->trace->on_gpu);
    return plain || leaf->kernels_any & AORTA_KERNEL_PLAIN_FP32 ? MATH_FP32 : MATH_TF32;
}

/* ---- matrices ---- */

const struct aorta_input *aorta_remedy_matrix(const struct leaf *leaf, int which) {
    const struct aorta_inputs *inputs = leaf->inputs;
    const struct aorta_input *found[3] = {NULL};
    int count = 0;
    for (int i = 0; i < inputs->count && count < 3; i++)
        if (inputs->items[i].tensor && inputs->items[i].rank >= 2) found[count++] = &inputs->items[i];
    const bool adds = leaf->name && strstr(leaf->name, "add") != NULL;
    const int first = leaf->op & AORTA_OP_PRODUCT && adds && count == 3 ? 1 : 0;
    return which < 3 - first ? found[first + which] : NULL;
}

static bool rows_aligned(const struct aorta_input *input, int bytes) {
    if (!input || !bytes || input->rank < 2) return true;
    const int last = input->rank - 1;
    int64_t row = input->size[last];
    if (input->strided) row = input->stride[last] > 1 ? input->stride[last] : input->stride[last - 1];
    return row * bytes % 16 == 0;
}

bool aorta_remedy_aligned(const struct leaf *leaf) {
    const struct aorta_input *a = aorta_remedy_matrix(leaf, 0), *b = aorta_remedy_matrix(leaf, 1);
    if (!a || !b) return !(leaf->kernels_any & AORTA_KERNEL_UNALIGNED);
    return aorta_remedy_aligned_with(leaf, a->bytes);
}

bool aorta_remedy_aligned_with(const struct leaf *leaf, int bytes) {
    const struct aorta_input *a = aorta_remedy_matrix(leaf, 0), *b = aorta_remedy_matrix(leaf, 1);
    return !a || !b || (rows_aligned(a, bytes) && rows_aligned(b, bytes) && b->size[b->rank - 1] * bytes % 16 == 0);
}

/* ---- amounts ---- */

static void count_amounts(struct remedy_model *model, struct leaf *leaf) {
    const struct aorta_trace *trace = model->trace;
    leaf->flops = leaf->bytes = NAN;
    double bytes = 0, cached = NAN;
    for (uint32_t left = aorta_leaf_work(leaf), row = leaf->first_work; left--; row = model->next_work[row]) {
        const uint32_t shape = trace->work[row].shape;
        if (shape == AORTA_TRACE_NONE || isnan(trace->shapes[shape].amount.flops)) continue;
        leaf->flops = trace->shapes[shape].amount.flops;
        if (trace->shapes[shape].amount.class == AORTA_WORK_ATTENTION) cached = trace->shapes[shape].amount.bytes;
        break;
    }
    AORTA_EACH (const struct aorta_input, input, leaf->inputs->items, leaf->inputs->count) {
        if (!input->tensor && !input->list) continue;
        bytes += aorta_remedy_bytes(input);
        if (input->rank != 0) leaf->largest = fmax(leaf->largest, elements_of(input, false));
    }
    const bool into_first = leaf->op & AORTA_OP_COPY && leaf->inputs->count > 1 && leaf->inputs->items[0].tensor &&
                            !strcmp(leaf->name, "aten::copy_");
    if (into_first || leaf->op & AORTA_OP_FILLS) leaf->output_count = 0;
    if (into_first) {
        const struct aorta_input *to = &leaf->inputs->items[0];
        add_output(leaf, aorta_remedy_elements(to), to->bytes, to->arithmetic);
        bytes -= aorta_remedy_bytes(to);
    } else if (!leaf->output_count) {
        guess_outputs(leaf);
    }
    for (int i = 0; i < leaf->output_count; i++) {
        bytes += leaf->outputs[i].elements * leaf->outputs[i].bytes;
        leaf->largest = fmax(leaf->largest, leaf->outputs[i].elements);
    }
    if (leaf->op & AORTA_OP_FILLS && leaf->output_count) bytes = leaf->outputs[0].elements * leaf->outputs[0].bytes;
    if (bytes > 0) leaf->bytes = bytes;
    if (!isnan(cached)) leaf->bytes = cached; /* attention reads only a part of its cache, but more than the queries */
}

/* Kind and amounts are recorded. Outputs are as large as the inputs. */
static void describe_own(struct remedy_model *model, struct leaf *leaf) {
    leaf->inputs = &nothing;
    leaf->name = leaf->kernel;
    leaf->math = math_of(model, leaf, aorta_remedy_describe_own(model, leaf));
    const struct aorta_input *first = aorta_remedy_tensor(leaf, 0);
    if (first) leaf->largest = aorta_remedy_elements(first);
}

static void describe(struct remedy_model *model, struct leaf *leaf) {
    const struct aorta_trace *trace = model->trace;
    if (model->own) {
        describe_own(model, leaf);
        return;
    }
    const bool known = leaf->operation != AORTA_TRACE_NONE;
    const struct aorta_trace_operation *operation = known ? &trace->operations[leaf->operation] : NULL;
    leaf->inputs = aorta_remedy_inputs_of(model, operation);
    leaf->name = known ? aorta_trace_text(trace, operation->name) : leaf->kernel;
    leaf->op = known ? aorta_remedy_op_bits(model, operation->name) : 0;
    if (known) find_allocations(model, leaf);
    leaf->kind = kind_of(leaf);
    const struct aorta_input *first = aorta_remedy_matrix(leaf, 0);
    const bool untyped = first && first->arithmetic == AORTA_ARITHMETIC_UNKNOWN;
    leaf->math = untyped ? MATH_NONE : math_of(model, leaf, first ? first->arithmetic : AORTA_ARITHMETIC_UNKNOWN);
    count_amounts(model, leaf);
}

/* Stores only as many outputs as a leaf has. */
static void describe_all(struct remedy_model *model) {
    AORTA_EACH (struct leaf, leaf, model->leaves, model->leaf_count) {
        struct leaf_tensor outputs[LEAF_OUTPUTS] = {0};
        leaf->outputs = outputs;
        describe(model, leaf);
        leaf->outputs = aorta_arena_alloc(model->memory, leaf->output_count * sizeof *outputs);
        if (!leaf->outputs) return;
        memcpy(leaf->outputs, outputs, leaf->output_count * sizeof *outputs);
    }
}

/* ---- collecting ---- */

/* The place of a row of the rank's work[]. `window`: 1 + the first window with the row; 0: none. `number`: the
 * operation's number, which only our own recorder stores. */
struct place {
    uint32_t window;
    int number;
};

static void find_windows(const struct aorta_trace_rank *rank, struct place *places) {
    for (size_t i = 0; i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        for (size_t j = 0; j < window->profile.range_count; j++) {
            struct place *place = &places[window->work[j]];
            if (!place->window)
                *place = (struct place){(uint32_t)i + 1, window->borrowed ? window->profile.ranges[j].info.number : 0};
        }
    }
}

static void add_work(struct remedy_model *model, struct leaf *leaf, uint32_t row, uint32_t step) {
    const struct aorta_trace_work *work = &model->trace->work[row];
    const uint32_t bits = aorta_remedy_kernel_bits(model, work->name);
    const double ns = (double)(work->end_ns - work->start_ns);
    if (leaf->first_work == AORTA_TRACE_NONE) {
        leaf->first_work = row;
        leaf->step = step;
        leaf->kernels_all = ~UINT32_C(0);
    } else {
        model->next_work[leaf->last_work] = row;
    }
    leaf->last_work = row;
    leaf->ns += ns;
    leaf->kernels_any |= bits;
    if (work->kind == AORTA_TRACE_KERNEL) {
        leaf->kernels_all &= bits;
        leaf->kernels++;
    } else {
        leaf->fills++;
        if (work->kind == AORTA_TRACE_FILL) leaf->kernels_any |= AORTA_KERNEL_STREAMS;
    }
    if (bits & AORTA_KERNEL_CONVERTS) leaf->convert_ns += ns;
    if (leaf->kernel && ns <= leaf->longest_ns) return;
    leaf->kernel = aorta_trace_text(model->trace, work->name);
    leaf->longest_ns = ns;
}

/* A kernel that was launched in a range of the program, but in no operation, counts as an operation of its own. */
static uint32_t operation_of(const struct remedy_model *model, const struct aorta_trace_work *work) {
    if (!model->operations || work->operation == AORTA_TRACE_NONE) return AORTA_TRACE_NONE;
    return model->trace->operations[work->operation].range ? AORTA_TRACE_NONE : work->operation;
}

static struct leaf *leaf_for(struct remedy_model *model, const uint32_t *of_operation, uint32_t operation,
                             uint32_t thread) {
    struct leaf *leaf =
        &model->leaves[operation == AORTA_TRACE_NONE ? model->leaf_count++ : of_operation[operation] - 1];
    if (operation == AORTA_TRACE_NONE || !leaf->kernel)
        *leaf = (struct leaf){
            .operation = operation, .first_work = AORTA_TRACE_NONE, .thread = thread, .forward = -1, .backward = -1};
    return leaf;
}

static bool is_counted_work(const struct aorta_trace_work *work) {
    return !aorta_trace_is_collective(work) && !aorta_kernel_only_measures((enum aorta_kernel_class)work->class);
}

/* Numbers the leaves: first operations, sorted by thread and start, then kernels without operation, in the order of the
 * device. Returns the largest possible number of leaves. */
static size_t number_operations(struct remedy_model *model, uint32_t *of_operation) {
    const struct aorta_trace_rank *rank = model->rank;
    size_t alone = 0;
    for (size_t i = 0; i < rank->work_count; i++) {
        if (!is_counted_work(&rank->work[i])) continue;
        const uint32_t operation = operation_of(model, &rank->work[i]);
        if (operation == AORTA_TRACE_NONE)
            alone++;
        else
            of_operation[operation] = 1;
    }
    for (size_t i = 0; model->operations && i < model->trace->operation_count; i++)
        if (of_operation[i]) of_operation[i] = (uint32_t)++model->leaf_count;
    return model->leaf_count + alone;
}

/* The last work on a stream, where kernels of one operation of our own recorder follow each other. */
enum { STREAMS = 64 };
struct last {
    struct place place;
    uint32_t stream;
    size_t leaf;
};

static bool continues(const struct last *last, struct place place, uint32_t stream) {
    return place.number && last->place.number == place.number && last->place.window == place.window &&
           last->stream == stream;
}

/* Work that crosses windows has several rows in the rank. It belongs to the step of its first row. */
static void collect(struct remedy_model *model, const struct place *places, const uint32_t *of_operation, bool *added) {
    const struct aorta_trace_rank *rank = model->rank;
    struct last last[STREAMS] = {0};
    for (size_t i = 0; i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        struct last *before = &last[work->stream % STREAMS];
        if (!is_counted_work(work)) continue;
        const uint32_t row = rank->source ? rank->source[i] : (uint32_t)(work - model->trace->work);
        if (added[row]) continue;
        added[row] = true;
        const uint32_t thread =
            work->call == AORTA_TRACE_NONE ? AORTA_TRACE_NONE : model->trace->calls[work->call].thread;
        struct leaf *leaf = continues(before, places[i], work->stream)
                                ? &model->leaves[before->leaf]
                                : leaf_for(model, of_operation, operation_of(model, work), thread);
        add_work(model, leaf, row, places[i].window);
        *before = (struct last){places[i], work->stream, (size_t)(leaf - model->leaves)};
    }
}

static void mark_counted(struct remedy_model *model, const struct aorta_trace_analysis *analysis) {
    AORTA_EACH (struct leaf, leaf, model->leaves, model->leaf_count)
        leaf->counted = leaf->step && aorta_trace_window_counts(analysis, &model->rank->windows[leaf->step - 1]);
}

static int by_number(const void *left, const void *right, void *user) {
    const struct leaf *leaves = user, *a = &leaves[*(const size_t *)left], *b = &leaves[*(const size_t *)right];
    if (a->backward != b->backward) return a->backward < b->backward ? -1 : 1;
    return (a > b) - (a < b);
}

static void index_gradients(struct remedy_model *model) {
    model->by_backward = aorta_arena_alloc(model->memory, (model->leaf_count + 1) * sizeof *model->by_backward);
    if (!model->by_backward) return;
    for (size_t i = 0; i < model->leaf_count; i++)
        if (model->leaves[i].backward >= 0 && !model->leaves[i].recomputed)
            model->by_backward[model->by_backward_count++] = i;
    qsort_r(model->by_backward, model->by_backward_count, sizeof *model->by_backward, by_number, model->leaves);
}

void aorta_remedy_leaves(struct remedy_model *model, const struct aorta_trace_analysis *analysis) {
    const struct aorta_trace *trace = model->trace;
    struct aorta_arena scratch = {0};
    struct place *places = aorta_arena_alloc(&scratch, (model->rank->work_count + 1) * sizeof *places);
    uint32_t *of_operation = aorta_arena_alloc(&scratch, (trace->operation_count + 1) * sizeof *of_operation);
    bool *added = aorta_arena_alloc(&scratch, (trace->work_count + 1) * sizeof *added);
    const size_t most = scratch.failed ? 0 : number_operations(model, of_operation);
    model->leaves = aorta_arena_alloc(model->memory, (most + 1) * sizeof *model->leaves);
    model->memory->failed |= scratch.failed;
    if (!model->memory->failed) {
        find_windows(model->rank, places);
        collect(model, places, of_operation, added);
        mark_counted(model, analysis);
        read_frames(model, of_operation);
        describe_all(model);
    }
    if (!model->memory->failed) {
        aorta_remedy_unsized_mark_optimizer(model);
        aorta_remedy_unsized_mark_recomputed(model);
        aorta_remedy_unsized_mark_tables(model);
        index_gradients(model);
    }
    aorta_arena_end(&scratch, model->memory);
}
