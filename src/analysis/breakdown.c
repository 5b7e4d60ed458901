#include "analysis/breakdown.h"

#include "analysis/phases.h"
#include "analysis/within.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/table.h"
#include "trace/nest.h"
#include "trace/work_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[AORTA_BY_COUNT] = {"op",       "shape",  "module", "function", "annotation",
                                                  "category", "phase",  "kernel", "sequence", "time",
                                                  "stream",   "memory", "path",   "arrival"};
const char *aorta_by_name(enum aorta_by by) {
    return names[by];
}

/* What distinguishes rows. */
struct key {
    const char *name; /* equal names are one text */
    uint32_t inputs;
};

struct making {
    const struct aorta_trace_rank *rank;
    const struct aorta_trace *trace;
    struct aorta_breakdown *breakdown;
    size_t capacity;
    struct aorta_table table;
    size_t *last; /* by row: the piece of work that counted there last, + 1 */
    size_t last_capacity;
    bool *seen;                          /* operations, functions or ranges with work within */
    const struct aorta_nest_range *nest; /* of functions, or of ranges where no operation is recorded */
    size_t nest_count;
    struct aorta_phases phases;
    struct aorta_work_names names;
    struct aorta_forwards forwards;
    struct aorta_breakdown_of of;
    struct aorta_within within;
    bool any; /* something has a name */
};

/* ---- rows ---- */

static uint64_t hash_of_key(const struct key *key) {
    return aorta_hash_add(aorta_hash_add(0, (uint64_t)(uintptr_t)key->name), key->inputs);
}

static uint64_t hash_of_row(const void *of, uint32_t number) {
    const struct aorta_breakdown_row *row = (const struct aorta_breakdown_row *)of + number;
    return hash_of_key(&(struct key){row->name, row->inputs});
}

static bool is_row(const void *of, uint32_t number, const void *wanted) {
    const struct aorta_breakdown_row *row = (const struct aorta_breakdown_row *)of + number;
    const struct key *key = wanted;
    return row->name == key->name && row->inputs == key->inputs;
}

/* The number of the key's row; NONE: no memory. */
static uint32_t row_of(struct making *making, struct key key) {
    struct aorta_breakdown *breakdown = making->breakdown;
    if (!aorta_table_reserve(&making->table, breakdown->count + 1, hash_of_row, breakdown->rows))
        return AORTA_TRACE_NONE;
    uint32_t *slot = aorta_table_slot(&making->table, hash_of_key(&key), is_row, breakdown->rows, &key);
    if (*slot) return *slot - 1;
    if (!aorta_array_fit(&breakdown->rows, &making->capacity, breakdown->count + 1, sizeof *breakdown->rows) ||
        !aorta_array_fit(&making->last, &making->last_capacity, breakdown->count + 1, sizeof *making->last))
        return AORTA_TRACE_NONE;
    making->last[breakdown->count] = 0;
    breakdown->rows[breakdown->count++] =
        (struct aorta_breakdown_row){.name = key.name, .inputs = key.inputs, .arithmetic = AORTA_ARITHMETIC_UNKNOWN};
    *slot = (uint32_t)breakdown->count;
    making->any |= key.name != NULL;
    return *slot - 1;
}

/* The first kernel of a run has all that its operation does. */
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

/* `own`: launched by it, not only within it. An operation within one of its own name counts once. */
static bool count(struct making *making, size_t piece, struct key key, bool own, bool run) {
    const struct aorta_trace_work *work = &making->rank->work[piece];
    const uint32_t number = row_of(making, key);
    if (number == AORTA_TRACE_NONE) return false;
    struct aorta_breakdown_row *row = &making->breakdown->rows[number];
    row->runs += run;
    if (own) {
        row->pieces++;
        row->ns += work->end_ns - work->start_ns;
        if (making->breakdown->by == AORTA_BY_SHAPE) count_amount(making->trace, work, row);
    }
    if (making->last[number] == piece + 1) return true;
    making->last[number] = piece + 1;
    row->pieces_within++;
    row->ns_within += work->end_ns - work->start_ns;
    return true;
}

static bool first_time(struct making *making, size_t number) {
    const bool first = !making->seen[number];
    making->seen[number] = true;
    return first;
}

/* ---- operations and ranges ---- */

static bool is_wanted(const struct making *making, const struct aorta_trace_operation *operation) {
    return operation->range == (making->breakdown->by == AORTA_BY_ANNOTATION);
}

static bool count_operations(struct making *making, size_t piece) {
    const struct aorta_trace *trace = making->trace;
    uint32_t at = making->rank->work[piece].operation;
    bool own = true;
    for (; at != AORTA_TRACE_NONE; at = trace->operations[at].parent) {
        const struct aorta_trace_operation *operation = &trace->operations[at];
        if (!is_wanted(making, operation)) continue;
        const struct key key = {aorta_trace_text(trace, operation->name),
                                making->breakdown->by == AORTA_BY_SHAPE ? operation->inputs : AORTA_TRACE_NONE};
        if (!count(making, piece, key, own, first_time(making, at))) return false;
        own = false;
    }
    return !own || count(making, piece, (struct key){NULL, AORTA_TRACE_NONE}, true, false);
}

/* ---- functions, and ranges of files without operations ---- */

static bool is_module(const char *name) {
    return !strncmp(name, "nn.Module: ", 11);
}

static bool count_nested(struct making *making, size_t piece) {
    const struct aorta_trace_work *work = &making->rank->work[piece];
    const enum aorta_by by = making->breakdown->by;
    uint32_t thread, range = AORTA_NEST_NONE;
    int64_t at_ns;
    bool own = true;
    if (aorta_forward_place(&making->forwards, making->trace, work, &thread, &at_ns))
        range = aorta_nest_find(making->nest, making->nest_count, sizeof *making->nest, thread, at_ns);
    for (; range != AORTA_NEST_NONE; range = making->nest[range].parent) {
        const char *name = aorta_trace_text(making->trace, making->nest[range].number);
        const bool wanted = by == AORTA_BY_ANNOTATION || is_module(name) == (by == AORTA_BY_MODULE);
        const struct key key = {name + (by == AORTA_BY_MODULE && wanted ? 11 : 0), AORTA_TRACE_NONE};
        if (wanted && !count(making, piece, key, own, first_time(making, range))) return false;
        own &= !wanted;
    }
    return !own || count(making, piece, (struct key){NULL, AORTA_TRACE_NONE}, true, false);
}

/* ---- what the work itself says ---- */

static bool count_work(struct making *making, size_t piece) {
    const struct aorta_trace_work *work = &making->rank->work[piece];
    const char *name = aorta_trace_text(making->trace, work->name);
    if (making->breakdown->by == AORTA_BY_CATEGORY) name = aorta_work_category(&making->names, work);
    if (making->breakdown->by == AORTA_BY_PHASE) name = aorta_phase_of(&making->phases, work);
    return count(making, piece, (struct key){name, AORTA_TRACE_NONE}, true, false);
}

/* ---- all of it ---- */

static int larger_first(const void *left, const void *right) {
    const struct aorta_breakdown_row *a = left, *b = right;
    if (!a->name != !b->name) return a->name ? -1 : 1;
    if (a->ns_within != b->ns_within) return a->ns_within > b->ns_within ? -1 : 1;
    if (a->ns != b->ns) return a->ns > b->ns ? -1 : 1;
    const int order = a->name ? strcmp(a->name, b->name) : 0;
    return order ? order : (a->inputs > b->inputs) - (a->inputs < b->inputs);
}

/* By shape, whose rates are of what an operation launched itself. */
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

static bool prepare(struct making *making) {
    const struct aorta_trace *trace = making->trace;
    const enum aorta_by by = making->breakdown->by;
    const bool functions = by == AORTA_BY_MODULE || by == AORTA_BY_FUNCTION;
    const bool ranges = by == AORTA_BY_ANNOTATION && !trace->operation_count;
    if (functions || ranges) {
        making->nest_count = functions ? trace->function_count : trace->annotation_count;
        making->nest = aorta_nest_of(functions ? trace->functions : trace->annotations, making->nest_count);
        if (!making->nest) return false;
    }
    making->seen = calloc(trace->operation_count + making->nest_count + 1, sizeof *making->seen);
    return making->seen && (!functions || aorta_forwards_make(trace, &making->forwards)) &&
           (by != AORTA_BY_CATEGORY || aorta_work_names_make(trace, &making->names)) &&
           ((by != AORTA_BY_PHASE && !making->of.phase) || aorta_phases_make(making->rank, &making->phases));
}

static bool is_asked_for(const struct making *making, const struct aorta_trace_work *work) {
    const char *phase = making->of.phase ? aorta_phase_of(&making->phases, work) : NULL;
    if (making->of.phase && (!phase || strcmp(phase, making->of.phase) != 0)) return false;
    return !making->of.within || aorta_within_has(&making->within, work);
}

static bool count_all(struct making *making) {
    const enum aorta_by by = making->breakdown->by;
    const bool of_work = by == AORTA_BY_CATEGORY || by == AORTA_BY_PHASE || by == AORTA_BY_KERNEL;
    for (size_t i = 0; i < making->rank->work_count; i++) {
        const struct aorta_trace_work *work = &making->rank->work[i];
        if (!is_asked_for(making, work)) continue;
        making->breakdown->total_ns += work->end_ns - work->start_ns;
        if (!(of_work ? count_work : making->nest ? count_nested : count_operations)(making, i)) return false;
    }
    return true;
}

aorta_status aorta_breakdown_make(const struct aorta_trace_rank *rank, enum aorta_by by, struct aorta_breakdown_of of,
                                  struct aorta_breakdown *breakdown) {
    struct making making = {.rank = rank, .trace = rank->trace, .breakdown = breakdown, .of = of};
    *breakdown = (struct aorta_breakdown){.by = by};
    aorta_status status = of.within ? aorta_within_make(rank->trace, of.within, &making.within) : NULL;
    const bool made = !status && prepare(&making) && count_all(&making);
    if (made && breakdown->count)
        qsort(breakdown->rows, breakdown->count, sizeof *breakdown->rows,
              by == AORTA_BY_SHAPE ? larger_itself_first : larger_first);
    if (!making.any) breakdown->reason = why_nothing(by);
    if (made && !breakdown->count && of.within)
        breakdown->reason = "no work lies within what --within matches";
    else if (made && !breakdown->count && of.phase)
        breakdown->reason = "no work is of this phase (--by phase has those that there are)";
    aorta_within_free(&making.within);
    aorta_table_free(&making.table);
    free(making.last);
    free(making.seen);
    free((void *)making.nest);
    aorta_phases_free(&making.phases);
    aorta_work_names_free(&making.names);
    aorta_forwards_free(&making.forwards);
    if (made) return NULL;
    aorta_breakdown_free(breakdown);
    if (status) return status;
    return AORTA_ERROR(AORTA_MEMORY, "no memory to distinguish %zu kernels by %s", rank->work_count, names[by]);
}

void aorta_breakdown_free(struct aorta_breakdown *breakdown) {
    free(breakdown->rows);
    *breakdown = (struct aorta_breakdown){0};
}
