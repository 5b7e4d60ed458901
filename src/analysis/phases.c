#include "analysis/phases.h"

#include "base/sort.h"
#include "trace/nest.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

enum mark { NOT_ASKED, NOTHING, BACKWARD, OPTIMIZER, PREFILL, DECODE, MIXED };

/* How often the word is followed by a number above 0: "context_9(…)". -1: the word is not there. */
static int some_of(const char *name, const char *word) {
    const char *at = strstr(name, word);
    return at ? strtol(at + strlen(word), NULL, 10) > 0 : -1;
}

/* vLLM: "execute_8192_context_9(…)_generation_37(…)", "execute_new_1_cached_4"; SGLang: "step[EXTEND bs=15 …". */
static enum mark mark_of_engine(const char *name) {
    static const char *const words[][2] = {{"_context_", "_generation_"}, {"_new_", "_cached_"}};
    for (size_t i = 0; i < sizeof words / sizeof *words && !strncmp(name, "execute_", 8); i++) {
        const int prefill = some_of(name, words[i][0]), decode = some_of(name, words[i][1]);
        if (prefill < 0 || decode < 0 || !(prefill || decode)) continue;
        return prefill && decode ? MIXED : prefill ? PREFILL : DECODE;
    }
    if (!strncmp(name, "step[EXTEND", 11) || !strncmp(name, "step[PREFILL", 12)) return PREFILL;
    if (!strncmp(name, "step[DECODE", 11)) return DECODE;
    return !strncmp(name, "step[MIXED", 10) ? MIXED : NOTHING;
}

static enum mark mark_of(const char *name) {
    static const struct {
        const char *begin;
        enum mark mark;
    } rows[] = {{"autograd::engine::evaluate_function", BACKWARD},
                {"CompiledFunctionBackward", BACKWARD},
                {"Optimizer.step", OPTIMIZER}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strncmp(name, rows[i].begin, strlen(rows[i].begin))) return rows[i].mark;
    return mark_of_engine(name);
}

static enum mark ask(const struct aorta_phases *phases, uint32_t name) {
    if (!phases->marks[name]) phases->marks[name] = (uint8_t)mark_of(aorta_trace_text(phases->trace, name));
    return (enum mark)phases->marks[name];
}

/* ---- work ---- */

bool aorta_phases_make(const struct aorta_trace_rank *rank, struct aorta_phases *phases) {
    const struct aorta_trace *trace = rank->trace;
    *phases = (struct aorta_phases){.trace = trace};
    phases->marks = calloc(aorta_trace_text_count(trace) + 1, sizeof *phases->marks);
    phases->ranges = aorta_nest_of(trace->annotations, trace->annotation_count);
    if (!phases->marks || !phases->ranges) return false;
    for (size_t i = 0; i < trace->annotation_count; i++)
        phases->training |= ask(phases, trace->annotations[i].name) == OPTIMIZER;
    for (size_t i = 0; i < trace->operation_count; i++)
        phases->training |= trace->operations[i].gradient || ask(phases, trace->operations[i].name) == BACKWARD;
    return true;
}

static const char *name_of(enum mark mark) {
    static const char *const names[] = {[BACKWARD] = "backward",
                                        [OPTIMIZER] = "optimizer",
                                        [PREFILL] = "prefill",
                                        [DECODE] = "decode",
                                        [MIXED] = "prefill and decode"};
    return names[mark];
}

/* Autograd numbers operations while it records them: one with a number within the backward pass is run again. */
const char *aorta_phase_of(const struct aorta_phases *phases, const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = phases->trace;
    bool again = false;
    for (uint32_t at = work->operation; at != AORTA_TRACE_NONE; at = trace->operations[at].parent) {
        const struct aorta_trace_operation *operation = &trace->operations[at];
        const enum mark mark = ask(phases, operation->name);
        if (mark == BACKWARD || operation->gradient) return again ? "recomputation" : "backward";
        if (mark != NOTHING) return name_of(mark);
        again |= operation->sequence >= 0 && !operation->range;
    }
    const struct aorta_trace_call *call = work->call == AORTA_TRACE_NONE ? NULL : &trace->calls[work->call];
    const struct aorta_nest_range *ranges = phases->ranges;
    uint32_t range = AORTA_NEST_NONE;
    if (call) range = aorta_nest_find(ranges, trace->annotation_count, sizeof *ranges, call->thread, call->start_ns);
    for (; range != AORTA_NEST_NONE; range = ranges[range].parent)
        if (ask(phases, ranges[range].number) != NOTHING) return name_of(ask(phases, ranges[range].number));
    return phases->training && work->operation != AORTA_TRACE_NONE ? "forward" : NULL;
}

bool aorta_phase_exists(const char *phase) {
    static const char *const others[] = {"forward", "recomputation"};
    for (int mark = BACKWARD; mark <= MIXED; mark++)
        if (!strcmp(phase, name_of((enum mark)mark))) return true;
    return !strcmp(phase, others[0]) || !strcmp(phase, others[1]);
}

void aorta_phases_free(struct aorta_phases *phases) {
    free(phases->marks);
    free((void *)phases->ranges);
    *phases = (struct aorta_phases){0};
}

/* ---- gradients ---- */

struct numbered {
    int64_t sequence;
    uint32_t row;
};

static int by_sequence(const void *left, const void *right) {
    const struct numbered *a = left, *b = right;
    if (a->sequence != b->sequence) return aorta_order_int64(a->sequence, b->sequence);
    return (a->row > b->row) - (a->row < b->row);
}

/* Of several with one number the first: the outermost. */
bool aorta_forwards_make(const struct aorta_trace *trace, struct aorta_forwards *forwards) {
    struct numbered *all = malloc((trace->operation_count + 1) * sizeof *all);
    size_t count = 0;
    forwards->rows = malloc((trace->operation_count + 1) * sizeof *forwards->rows);
    if (!all || !forwards->rows) {
        free(all);
        return false;
    }
    for (size_t i = 0; i < trace->operation_count; i++)
        if (trace->operations[i].sequence >= 0 && !trace->operations[i].gradient && !trace->operations[i].range)
            all[count++] = (struct numbered){trace->operations[i].sequence, (uint32_t)i};
    qsort(all, count, sizeof *all, by_sequence);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || all[i].sequence != all[i - 1].sequence) forwards->rows[forwards->count++] = all[i].row;
    free(all);
    return true;
}

const struct aorta_trace_operation *aorta_forward_of(const struct aorta_forwards *forwards,
                                                     const struct aorta_trace *trace, uint32_t operation) {
    while (operation != AORTA_TRACE_NONE && !trace->operations[operation].gradient)
        operation = trace->operations[operation].parent;
    if (operation == AORTA_TRACE_NONE || !forwards->rows) return NULL;
    const int64_t sequence = trace->operations[operation].sequence;
    size_t low = 0, high = forwards->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (trace->operations[forwards->rows[middle]].sequence < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = low < forwards->count && trace->operations[forwards->rows[low]].sequence == sequence;
    return found ? &trace->operations[forwards->rows[low]] : NULL;
}

bool aorta_forward_place(const struct aorta_forwards *forwards, const struct aorta_trace *trace,
                         const struct aorta_trace_work *work, uint32_t *thread, int64_t *at_ns) {
    const struct aorta_trace_operation *forward = aorta_forward_of(forwards, trace, work->operation);
    const struct aorta_trace_operation *own =
        work->operation == AORTA_TRACE_NONE ? NULL : &trace->operations[work->operation];
    const struct aorta_trace_operation *stands = forward ? forward : own;
    if (stands && stands->captured != AORTA_TRACE_NONE) {
        *thread = trace->captured_places[stands->captured].thread;
        *at_ns = trace->captured_places[stands->captured].at_ns;
        return true;
    }
    if (!stands && work->call == AORTA_TRACE_NONE) return false;
    const bool called = !forward && work->call != AORTA_TRACE_NONE;
    *thread = called ? trace->calls[work->call].thread : stands->thread;
    *at_ns = called ? trace->calls[work->call].start_ns : stands->start_ns;
    return true;
}

void aorta_forwards_free(struct aorta_forwards *forwards) {
    free(forwards->rows);
    *forwards = (struct aorta_forwards){0};
}
