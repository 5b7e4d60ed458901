#include "analysis/breakdown.h"
#include "analysis/phases.h"
#include "base/intern.h"
#include "base/sort.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct aorta_work_names aorta_work_names_make(const struct aorta_trace *trace, struct aorta_arena *memory) {
    const size_t count = aorta_trace_text_count(trace);
    return (struct aorta_work_names){trace, aorta_arena_alloc(memory, count),
                                     aorta_arena_alloc(memory, count * sizeof(const char *))};
}

/* ---- categories ---- */

static enum aorta_category category_by_name(struct aorta_work_names *names, uint32_t name) {
    uint8_t *known = &names->categories[name];
    if (!*known) *known = (uint8_t)(aorta_kernel_category(aorta_trace_text(names->trace, name)) + 1);
    return (enum aorta_category)(*known - 1);
}

const char *aorta_work_category(struct aorta_work_names *names, const struct aorta_trace_work *work) {
    if (work->kind == AORTA_TRACE_COPY) return "copy";
    if (work->kind == AORTA_TRACE_FILL) return "fill";
    if (aorta_trace_is_collective(work)) return "collective";
    enum aorta_category category = category_by_name(names, work->name);
    if (work->shape == AORTA_TRACE_NONE) return aorta_category_name(category);
    const enum aorta_work_class class = names->trace->shapes[work->shape].amount.class;
    if (category == AORTA_CATEGORY_OTHER || (category == AORTA_CATEGORY_GEMM && class == AORTA_WORK_CONVOLUTION))
        category = aorta_category_of_class(class);
    return aorta_category_name(category);
}

/* ---- operations ---- */

const char *aorta_operation_alike(const char *operation) {
    static const char *const alike[][2] = {
        {"aten::mm", "mm"},
        {"aten::addmm", "mm"},
        {"aten::linear", "mm"},
        {"aten::matmul", "mm"},
        {"aten::_addmm_activation", "mm"},
        {"aten::bmm", "bmm"},
        {"aten::baddbmm", "bmm"},
        {"aten::convolution", "convolution"},
        {"aten::_convolution", "convolution"},
        {"aten::cudnn_convolution", "convolution"},
        {"aten::miopen_convolution", "convolution"},
        {"aten::convolution_backward", "convolution backward"},
        {"aten::cudnn_batch_norm", "batch norm"},
        {"aten::miopen_batch_norm", "batch norm"},
        {"aten::native_batch_norm", "batch norm"},
        {"aten::cudnn_batch_norm_backward", "batch norm backward"},
        {"aten::miopen_batch_norm_backward", "batch norm backward"},
        {"aten::native_batch_norm_backward", "batch norm backward"},
        {"aten::_flash_attention_forward", "attention"},
        {"aten::_efficient_attention_forward", "attention"},
        {"aten::_cudnn_attention_forward", "attention"},
        {"flash_attn::_flash_attn_forward", "attention"},
        {"aten::_flash_attention_backward", "attention backward"},
        {"aten::_efficient_attention_backward", "attention backward"},
        {"aten::_cudnn_attention_backward", "attention backward"},
        {"flash_attn::_flash_attn_backward", "attention backward"},
    };
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        if (!strcmp(operation, alike[i][0])) return alike[i][1];
    return operation;
}

const char *aorta_work_operation(struct aorta_work_names *names, const struct aorta_trace_work *work) {
    const struct aorta_trace_operation *operations = names->trace->operations;
    uint32_t at = work->operation;
    while (at != AORTA_TRACE_NONE && operations[at].range) at = operations[at].parent;
    if (at == AORTA_TRACE_NONE) return NULL;
    const char **known = &names->operations[operations[at].name];
    if (!*known) *known = aorta_operation_alike(aorta_trace_text(names->trace, operations[at].name));
    return *known;
}

/* Selects work launched within operations, modules, functions or ranges that match a pattern. Gradients are within the
 * modules and functions of their forward pass. */

struct aorta_within {
    const struct aorta_trace *trace;
    struct aorta_kernel_patterns *pattern;
    struct aorta_forwards forwards;
    struct aorta_nest_range *functions, *ranges; /* `ranges` only in files without operations */
    uint8_t *names;                              /* by text: enum answer, whether it matches the pattern */
    bool *operations;                            /* by row: it or an operation around it matches the pattern */
};

enum answer { NOT_ASKED, NO, YES };

static bool name_has(const struct aorta_within *within, uint32_t name) {
    uint8_t *answer = &within->names[name];
    if (!*answer)
        *answer = aorta_kernel_patterns_match(within->pattern, aorta_trace_text(within->trace, name)) ? YES : NO;
    return *answer == YES;
}

/* ---- operations ---- */

static bool shape_has(const struct aorta_within *within, const struct aorta_trace_operation *operation,
                      struct aorta_text *text) {
    const uint32_t inputs = operation->inputs;
    if (inputs == AORTA_TRACE_NONE || within->trace->inputs[inputs].dims == AORTA_TRACE_NONE) return false;
    aorta_text_clear(text);
    aorta_text_printf(text, "%s %s", aorta_trace_text(within->trace, operation->name),
                      aorta_trace_text(within->trace, within->trace->inputs[inputs].dims));
    return !text->failed && aorta_kernel_patterns_match(within->pattern, text->data);
}

/* Enclosing operations have lower rows. */
static void ask_operations(struct aorta_within *within) {
    struct aorta_text text = {0};
    for (size_t i = 0; i < within->trace->operation_count; i++) {
        const struct aorta_trace_operation *operation = &within->trace->operations[i];
        within->operations[i] = (operation->parent != AORTA_TRACE_NONE && within->operations[operation->parent]) ||
                                name_has(within, operation->name) || shape_has(within, operation, &text);
    }
    aorta_text_free(&text);
}

/* ---- functions, and ranges of files without operations ---- */

static bool nest_has(const struct aorta_within *within, const struct aorta_nest_range *nest, size_t count,
                     uint32_t thread, int64_t at_ns) {
    uint32_t range = nest ? aorta_nest_find(nest, count, sizeof *nest, thread, at_ns) : AORTA_NEST_NONE;
    for (; range != AORTA_NEST_NONE; range = nest[range].parent)
        if (name_has(within, nest[range].number)) return true;
    return false;
}

/* ---- all of it ---- */

aorta_status aorta_within_check(const char *regex) {
    struct aorta_kernel_patterns *pattern = NULL;
    aorta_status status = regex ? aorta_kernel_patterns_add(&pattern, regex) : NULL;
    aorta_kernel_patterns_free(pattern);
    return status;
}

/* An operation also matches by its name with the shapes of its inputs after it: "aten::mm [[8, 4], [4, 4]]". The caller
 * frees the pattern. AORTA_USAGE. */
static aorta_status within_make(const struct aorta_trace *trace, const char *regex, struct aorta_arena *memory,
                                struct aorta_within *within) {
    *within = (struct aorta_within){.trace = trace};
    AORTA_TRY(aorta_kernel_patterns_add(&within->pattern, regex));
    within->names = aorta_arena_alloc(memory, aorta_trace_text_count(trace) * sizeof *within->names);
    within->operations = aorta_arena_alloc(memory, trace->operation_count);
    within->forwards = aorta_forwards_make(trace, memory);
    if (trace->function_count) within->functions = aorta_nest_of(trace->functions, trace->function_count, memory);
    if (!trace->operation_count) within->ranges = aorta_nest_of(trace->annotations, trace->annotation_count, memory);
    if (!memory->failed) ask_operations(within);
    return NULL;
}

static bool within_has(const struct aorta_within *within, const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = within->trace;
    uint32_t thread;
    int64_t at_ns;
    if (work->operation != AORTA_TRACE_NONE && within->operations[work->operation]) return true;
    if (!aorta_forward_place(&within->forwards, trace, work, &thread, &at_ns)) return false;
    return nest_has(within, within->functions, trace->function_count, thread, at_ns) ||
           nest_has(within, within->ranges, trace->annotation_count, thread, at_ns);
}

static const char *const names[AORTA_BY_COUNT] = {"op",       "shape",  "module", "function", "annotation",
                                                  "category", "phase",  "kernel", "sequence", "time",
                                                  "stream",   "memory", "path",   "arrival"};
const char *aorta_by_name(enum aorta_by by) {
    return names[by];
}

struct making {
    const struct aorta_trace_rank *rank;
    const struct aorta_trace *trace;
    struct aorta_breakdown *breakdown;
    struct aorta_arena *arena, scratch; /* of the rows; of everything else */
    size_t capacity;
    struct aorta_keys keys;              /* of the rows: address of the name (equal names share a text), and inputs */
    bool *seen;                          /* operations, functions or ranges with work within */
    const struct aorta_nest_range *nest; /* of functions, or of ranges in files without operations */
    size_t nest_count;
    struct aorta_phases phases;
    struct aorta_work_names names;
    struct aorta_forwards forwards;
    struct aorta_breakdown_of of;
    struct aorta_within within;
    bool any; /* a row has a name */
};

/* ---- rows ---- */

/* NULL: no memory. */
static struct aorta_breakdown_row *row_of(struct making *making, const char *name, uint32_t inputs) {
    struct aorta_breakdown *breakdown = making->breakdown;
    const size_t number = aorta_keys_add(&making->keys, (int64_t)(intptr_t)name, inputs, 0, &making->scratch);
    if (number < breakdown->count) return &breakdown->rows[number];
    const struct aorta_breakdown_row row = {.name = name, .inputs = inputs, .arithmetic = AORTA_ARITHMETIC_UNKNOWN};
    making->any |= name != NULL;
    return aorta_arena_append(making->arena, &breakdown->rows, &making->capacity, &breakdown->count, &row, sizeof row);
}

/* Flops and bytes of a run are counted with its first kernel. */
static void count_amount(const struct aorta_trace *trace, const struct aorta_trace_work *work,
                         struct aorta_breakdown_row *row) {
    if (work->shape == AORTA_TRACE_NONE || !row->name) return;
    const struct aorta_trace_shape *shape = &trace->shapes[work->shape];
    const struct aorta_work_amount *amount = &shape->amount;
    if (aorta_trace_text(trace, shape->op) != row->name || shape->extent != AORTA_SHAPE_OPERATION) return;
    if (isnan(amount->flops) || isnan(amount->bytes)) return;
    row->counted_ns += work->end_ns - work->start_ns;
    if (!work->leads) return;
    row->counted_runs++;
    row->flops += amount->flops;
    row->bytes += amount->bytes;
    const bool tf32 = amount->arithmetic == AORTA_IN_FP32 && amount->flops > 0 &&
                      aorta_kernel_uses_tf32(aorta_trace_text(trace, work->name));
    row->arithmetic = tf32 ? AORTA_IN_TF32 : amount->arithmetic;
}

/* `own`: launched directly, not only within it. Work within nested operations of one name counts once. */
static void count(struct making *making, size_t piece, const char *name, uint32_t inputs, bool own, bool run) {
    const struct aorta_trace_work *work = &making->rank->work[piece];
    struct aorta_breakdown_row *row = row_of(making, name, inputs);
    if (!row) return;
    row->runs += run;
    if (own) {
        row->pieces++;
        row->ns += work->end_ns - work->start_ns;
        if (making->breakdown->by == AORTA_BY_SHAPE) count_amount(making->trace, work, row);
    }
    if (row->last == piece + 1) return;
    row->last = piece + 1;
    row->pieces_within++;
    row->ns_within += work->end_ns - work->start_ns;
}

static bool first_time(struct making *making, size_t number) {
    const bool first = !making->seen[number];
    making->seen[number] = true;
    return first;
}

/* ---- operations and ranges ---- */

static void count_operations(struct making *making, size_t piece) {
    const struct aorta_trace *trace = making->trace;
    uint32_t at = making->rank->work[piece].operation;
    bool own = true;
    for (; at != AORTA_TRACE_NONE; at = trace->operations[at].parent) {
        const struct aorta_trace_operation *operation = &trace->operations[at];
        if (operation->range != (making->breakdown->by == AORTA_BY_ANNOTATION)) continue;
        count(making, piece, aorta_trace_text(trace, operation->name),
              making->breakdown->by == AORTA_BY_SHAPE ? operation->inputs : AORTA_TRACE_NONE, own,
              first_time(making, at));
        own = false;
    }
    if (own) count(making, piece, NULL, AORTA_TRACE_NONE, true, false);
}

/* ---- functions, and ranges of files without operations ---- */

static void count_nested(struct making *making, size_t piece) {
    const struct aorta_trace_work *work = &making->rank->work[piece];
    const enum aorta_by by = making->breakdown->by;
    uint32_t thread, range = AORTA_NEST_NONE;
    int64_t at_ns;
    bool own = true;
    if (aorta_forward_place(&making->forwards, making->trace, work, &thread, &at_ns))
        range = aorta_nest_find(making->nest, making->nest_count, sizeof *making->nest, thread, at_ns);
    for (; range != AORTA_NEST_NONE; range = making->nest[range].parent) {
        const char *name = aorta_trace_text(making->trace, making->nest[range].number);
        const char *module = aorta_module_name(name);
        const bool wanted = by == AORTA_BY_ANNOTATION || (module != NULL) == (by == AORTA_BY_MODULE);
        if (wanted)
            count(making, piece, by == AORTA_BY_MODULE ? module : name, AORTA_TRACE_NONE, own,
                  first_time(making, range));
        own &= !wanted;
    }
    if (own) count(making, piece, NULL, AORTA_TRACE_NONE, true, false);
}

/* ---- by properties of the work itself ---- */

static void count_work(struct making *making, size_t piece) {
    const struct aorta_trace_work *work = &making->rank->work[piece];
    const char *name = aorta_trace_text(making->trace, work->name);
    if (making->breakdown->by == AORTA_BY_CATEGORY) name = aorta_work_category(&making->names, work);
    if (making->breakdown->by == AORTA_BY_PHASE) name = aorta_phase_of(&making->phases, work);
    count(making, piece, name, AORTA_TRACE_NONE, true, false);
}

/* ---- all of it ---- */

static AORTA_ORDER(larger_first, struct aorta_breakdown_row,
                   AORTA_BY(!a->name - !b->name) AORTA_DOWN(ns_within) AORTA_DOWN(ns)
                       AORTA_BY(a->name ? strcmp(a->name, b->name) : 0) AORTA_UP(inputs));

/* Order by shape: by direct time, as rates are of direct launches. */
static int larger_itself_first(const void *left, const void *right) {
    const struct aorta_breakdown_row *a = left, *b = right;
    if (!a->name == !b->name && a->ns != b->ns) return a->ns > b->ns ? -1 : 1;
    return larger_first(left, right);
}

static const char *why_nothing(enum aorta_by by) {
    static const char *const reasons[AORTA_BY_BREAKDOWN_COUNT] = {
        [AORTA_BY_OPERATION] = "the file has no operations of a framework that launched this work",
        [AORTA_BY_SHAPE] = "the file has no operations of a framework that launched this work",
        [AORTA_BY_MODULE] = "the file has no modules (torch.profiler: with_stack=True, or with_modules=True)",
        [AORTA_BY_FUNCTION] = "the file has no functions of the program (torch.profiler: with_stack=True)",
        [AORTA_BY_ANNOTATION] = "no range of the program holds a launch of this work",
        [AORTA_BY_PHASE] = "the file marks neither backward pass nor optimizer, nor an inference engine's batches",
    };
    return reasons[by];
}

static void prepare(struct making *making) {
    const struct aorta_trace *trace = making->trace;
    const enum aorta_by by = making->breakdown->by;
    const bool functions = by == AORTA_BY_MODULE || by == AORTA_BY_FUNCTION;
    const bool ranges = by == AORTA_BY_ANNOTATION && !trace->operation_count;
    struct aorta_arena *memory = &making->scratch;
    if (functions || ranges) {
        making->nest_count = functions ? trace->function_count : trace->annotation_count;
        making->nest = aorta_nest_of(functions ? trace->functions : trace->annotations, making->nest_count, memory);
    }
    making->seen = aorta_arena_alloc(memory, trace->operation_count + making->nest_count);
    if (functions) making->forwards = aorta_forwards_make(trace, memory);
    if (by == AORTA_BY_CATEGORY) making->names = aorta_work_names_make(trace, memory);
    if (by == AORTA_BY_PHASE || making->of.phase) making->phases = aorta_phases_make(making->rank, memory);
}

static bool is_asked_for(const struct making *making, const struct aorta_trace_work *work) {
    const char *phase = making->of.phase ? aorta_phase_of(&making->phases, work) : NULL;
    if (making->of.phase && (!phase || strcmp(phase, making->of.phase) != 0)) return false;
    return !making->of.within || within_has(&making->within, work);
}

static void count_all(struct making *making) {
    const enum aorta_by by = making->breakdown->by;
    const bool of_work = by == AORTA_BY_CATEGORY || by == AORTA_BY_PHASE || by == AORTA_BY_KERNEL;
    for (size_t i = 0; !making->scratch.failed && i < making->rank->work_count; i++) {
        const struct aorta_trace_work *work = &making->rank->work[i];
        if (!is_asked_for(making, work)) continue;
        making->breakdown->total_ns += work->end_ns - work->start_ns;
        (of_work ? count_work : making->nest ? count_nested : count_operations)(making, i);
    }
}

aorta_status aorta_breakdown_make(const struct aorta_trace_rank *rank, enum aorta_by by, struct aorta_breakdown_of of,
                                  struct aorta_arena *arena, struct aorta_breakdown *breakdown) {
    struct making making = {.rank = rank, .trace = rank->trace, .breakdown = breakdown, .arena = arena, .of = of};
    *breakdown = (struct aorta_breakdown){.by = by};
    if (of.within) AORTA_TRY(within_make(rank->trace, of.within, &making.scratch, &making.within));
    prepare(&making);
    count_all(&making);
    if (breakdown->count)
        qsort(breakdown->rows, breakdown->count, sizeof *breakdown->rows,
              by == AORTA_BY_SHAPE ? larger_itself_first : larger_first);
    if (!making.any) breakdown->reason = why_nothing(by);
    if (!breakdown->count && of.within)
        breakdown->reason = "no work is within what --within matches";
    else if (!breakdown->count && of.phase)
        breakdown->reason = "no work is of this phase (--by phase has those that there are)";
    aorta_kernel_patterns_free(making.within.pattern);
    aorta_keys_free(&making.keys);
    aorta_arena_end(&making.scratch, arena);
    return NULL;
}
