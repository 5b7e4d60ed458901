/* Phases of a step (forward, backward, optimizer, prefill, decode) and properties of a program: whether it trains,
 * infers, shards parameters or decodes, and which collectives can reduce gradients. */
#include "analysis/phases.h"
#include "base/sort.h"
#include "trace/kernel_names.h"
#include "trace/operation_inputs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

enum mark { NOT_ASKED, NOTHING, BACKWARD, OPTIMIZER, PREFILL, DECODE, MIXED };

/* Whether the number after the word is above 0: "context_9(…)". -1 if the word is absent. */
static int some_of(const char *name, const char *word) {
    const char *at = strstr(name, word);
    return at ? strtol(at + strlen(word), NULL, 10) > 0 : -1;
}

/* vLLM: "execute_8192_context_9(…)_generation_37(…)", "execute_new_1_cached_4"; SGLang: "step[EXTEND bs=15 …". */
static enum mark mark_of_engine(const char *name) {
    static const char *const words[][2] = {{"_context_", "_generation_"}, {"_new_", "_cached_"}};
    for (size_t i = 0; i < sizeof words / sizeof *words && aorta_begins(name, "execute_"); i++) {
        const int prefill = some_of(name, words[i][0]), decode = some_of(name, words[i][1]);
        if (prefill < 0 || decode < 0 || !(prefill || decode)) continue;
        return prefill && decode ? MIXED : prefill ? PREFILL : DECODE;
    }
    if (aorta_begins(name, "step[EXTEND") || aorta_begins(name, "step[PREFILL")) return PREFILL;
    if (aorta_begins(name, "step[DECODE")) return DECODE;
    return aorta_begins(name, "step[MIXED") ? MIXED : NOTHING;
}

static enum mark mark_of(const char *name) {
    static const struct {
        const char *begin;
        enum mark mark;
    } rows[] = {{"autograd::engine::evaluate_function", BACKWARD},
                {"CompiledFunctionBackward", BACKWARD},
                {"Optimizer.step", OPTIMIZER}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (aorta_begins(name, rows[i].begin)) return rows[i].mark;
    return mark_of_engine(name);
}

static enum mark ask(const struct aorta_phases *phases, uint32_t name) {
    if (!phases->marks[name]) phases->marks[name] = (uint8_t)mark_of(aorta_trace_text(phases->trace, name));
    return (enum mark)phases->marks[name];
}

/* ---- work ---- */

struct aorta_phases aorta_phases_make(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_phases phases = {.trace = trace,
                                  .ranges = aorta_nest_of(trace->annotations, trace->annotation_count, memory),
                                  .marks = aorta_arena_alloc(memory, aorta_trace_text_count(trace))};
    if (!phases.marks) return phases;
    for (size_t i = 0; i < trace->annotation_count; i++)
        phases.training |= ask(&phases, trace->annotations[i].name) == OPTIMIZER;
    for (size_t i = 0; i < trace->operation_count; i++)
        phases.training |= trace->operations[i].gradient || ask(&phases, trace->operations[i].name) == BACKWARD;
    return phases;
}

static const char *name_of(enum mark mark) {
    static const char *const names[] = {[BACKWARD] = "backward",
                                        [OPTIMIZER] = "optimizer",
                                        [PREFILL] = "prefill",
                                        [DECODE] = "decode",
                                        [MIXED] = "prefill and decode"};
    return names[mark];
}

/* Autograd numbers operations of the forward pass, so a numbered operation within the backward pass is a
 * recomputation. */
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
    for (int mark = BACKWARD; mark <= MIXED; mark++)
        if (!strcmp(phase, name_of((enum mark)mark))) return true;
    return !strcmp(phase, "forward") || !strcmp(phase, "recomputation");
}

/* ---- gradients ---- */

/* If several operations have the same sequence number, the first one counts: it is the outermost. */
struct aorta_forwards aorta_forwards_make(const struct aorta_trace *trace, struct aorta_arena *memory) {
    struct aorta_forwards forwards = {.items =
                                          aorta_arena_raw(memory, trace->operation_count * sizeof *forwards.items)};
    for (size_t i = 0; forwards.items && i < trace->operation_count; i++) {
        const struct aorta_trace_operation *operation = &trace->operations[i];
        if (operation->sequence >= 0 && !operation->gradient && !operation->range)
            forwards.items[forwards.count++] = (struct aorta_forward){operation->sequence, (uint32_t)i};
    }
    forwards.count = aorta_sort_unique(forwards.items, forwards.count, sizeof *forwards.items, aorta_by_int64);
    return forwards;
}

const struct aorta_trace_operation *aorta_forward_of(const struct aorta_forwards *forwards,
                                                     const struct aorta_trace *trace, uint32_t operation) {
    while (operation != AORTA_TRACE_NONE && !trace->operations[operation].gradient)
        operation = trace->operations[operation].parent;
    if (operation == AORTA_TRACE_NONE) return NULL;
    const struct aorta_forward *items = forwards->items;
    const int64_t sequence = trace->operations[operation].sequence;
    const size_t at = aorta_count_before(items, forwards->count, sizeof *items, 0, sequence);
    return at < forwards->count && items[at].sequence == sequence ? &trace->operations[items[at].row] : NULL;
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

/* ---- backward pass ---- */

static bool is_of_training(const char *kernel) {
    static const char *const parts[] = {"backward", "_bwd", "bwd_", "bprop", "dgrad", "wgrad", NULL};
    return aorta_has_any(kernel, parts) || aorta_kernel_is_of_optimizer(kernel);
}

/* Whether any work of the rank has such a name. Each name is checked once. */
static bool runs_kernel(const struct aorta_trace_rank *rank, bool (*is_such)(const char *name),
                        struct aorta_arena *memory) {
    const struct aorta_trace *trace = rank->trace;
    bool *asked = aorta_arena_alloc(memory, aorta_trace_text_count(trace)), found = false;
    for (size_t i = 0; asked && i < rank->work_count && !found; i++) {
        const uint32_t name = rank->work[i].name;
        if (!asked[name]) found = is_such(aorta_trace_text(trace, name));
        asked[name] = true;
    }
    return found;
}

bool aorta_trace_trains(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    struct aorta_arena scratch = {0};
    const bool training = aorta_phases_make(rank, &scratch).training ||
                          (!aorta_trace_has_operations(rank->trace) && runs_kernel(rank, is_of_training, &scratch));
    aorta_arena_end(&scratch, memory);
    return training;
}

/* ---- process groups ---- */

/* Whether the text contains the word without adjacent letters: "tp" is in "tp:0" and "mesh_tp", not in "http". */
static bool has_word(const char *text, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = text; (at = strcasestr(at, word)); at++)
        if ((at == text || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[length])) return true;
    return false;
}

static bool has_any_word(const char *name, const char *description, const char *const *words) {
    while (*words && !has_word(name, *words) && !has_word(description, *words)) words++;
    return *words;
}

/* Megatron: DATA_PARALLEL_GROUP_WITH_CP, EXPERT_DATA_PARALLEL_GROUP, TENSOR_MODEL_PARALLEL_GROUP; meshes of PyTorch and
 * engines: dp, tp, tp:0. */
bool aorta_group_may_copy_model(const struct aorta_trace *trace, uint32_t group) {
    static const char *const copies[] = {"data", "dp", "ddp", "fsdp", "replicate", "shard", NULL};
    static const char *const parts[] = {"tensor",  "tp", "model",    "pipeline", "pp",        "expert", "ep",
                                        "context", "cp", "sequence", "sp",       "embedding", "attn",   NULL};
    if (group == AORTA_TRACE_NONE) return true;
    const struct aorta_trace_group *row = &trace->groups[group];
    const char *name = aorta_trace_text(trace, row->name), *description = aorta_trace_text(trace, row->description);
    return has_any_word(name, description, copies) || !has_any_word(name, description, parts);
}

bool aorta_trace_reduces_gradients(const struct aorta_trace_rank *rank, enum aorta_collective kind) {
    const struct aorta_trace *trace = rank->trace;
    bool copies = false;
    for (size_t i = 0; i < rank->work_count && !copies; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        if (!aorta_trace_is_collective(work) || aorta_trace_collective_kind(trace, work) != kind) continue;
        copies = work->collective == AORTA_TRACE_NONE ||
                 aorta_group_may_copy_model(trace, trace->collectives[work->collective].group);
    }
    return copies && rank->trains;
}

bool aorta_trace_infers(const struct aorta_trace_rank *rank) {
    return !rank->trace->measured && aorta_trace_has_operations(rank->trace) && !rank->trains;
}

bool aorta_brings_activations(const struct aorta_trace_rank *rank, const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = rank->trace;
    const enum aorta_collective kind = aorta_trace_collective_kind(trace, work);
    if (trace->measured || kind > AORTA_ALL_GATHER) return false;
    if (rank->infers && kind == AORTA_ALL_REDUCE) return true;
    return work->collective != AORTA_TRACE_NONE &&
           !aorta_group_may_copy_model(trace, trace->collectives[work->collective].group);
}

/* ---- properties that advice needs ---- */

/* Whether the name of any range or operation contains one of the parts. Each name is checked once. */
static bool any_range(const struct aorta_trace *trace, const char *const *parts, struct aorta_arena *memory) {
    bool *seen = aorta_arena_alloc(memory, aorta_trace_text_count(trace)), found = false;
    for (size_t i = 0; seen && i < trace->annotation_count + trace->operation_count && !found; i++) {
        const bool range = i < trace->annotation_count;
        const uint32_t name = range ? trace->annotations[i].name : trace->operations[i - trace->annotation_count].name;
        if (!seen[name]) found = aorta_has_any(aorta_trace_text(trace, name), parts);
        seen[name] = true;
    }
    return found;
}

/* PyTorch's Adam without foreach runs operations of these names for each parameter. */
static bool is_kernel_of_optimizer(const char *name) {
    static const char *const parts[] = {"addcdiv", "addcmul", "lerp", NULL};
    return aorta_kernel_is_of_optimizer(name) || aorta_has_any(name, parts);
}

bool aorta_program_optimizes(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    static const char *const parts[] = {"optimizer", "aten::_foreach", "aten::_fused_", "addcdiv_", NULL};
    return rank->trains && (runs_kernel(rank, is_kernel_of_optimizer, memory) || any_range(rank->trace, parts, memory));
}

bool aorta_program_shards(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    static const char *const parts[] = {"FSDP", "FullyShardedDataParallel", "fully_shard", NULL};
    return aorta_trace_reduces_gradients(rank, AORTA_REDUCE_SCATTER) || any_range(rank->trace, parts, memory);
}

static bool is_kernel_of_decoding(const char *name) {
    static const char *const parts[] = {"splitkv",          "paged_attention", "single_query",
                                        "masked_multihead", "decode",          NULL};
    return aorta_kernel_category(name) == AORTA_CATEGORY_CACHE || aorta_has_any(name, parts);
}

static bool is_attention(const char *name) {
    return strstr(name, "scaled_dot_product") || strcmp(name, "aten::softmax") == 0 ||
           strcmp(name, "aten::_softmax") == 0;
}

/* Counts attention operations, and those with one query: the second-last axis of the queries, or of the softmax's
 * input. */
static void count_attention(const struct aorta_trace *trace, const struct aorta_trace_operation *operation, size_t *all,
                            size_t *single) {
    enum { LEAST = 3 };
    const char *name = aorta_trace_text(trace, operation->name);
    struct aorta_inputs inputs;
    if (operation->inputs == AORTA_TRACE_NONE || !is_attention(name)) return;
    const struct aorta_trace_inputs *lists = &trace->inputs[operation->inputs];
    aorta_inputs_read(&(struct aorta_operation){.name = name,
                                                .name_length = strlen(name),
                                                .dims = aorta_trace_json(trace, lists->dims),
                                                .types = aorta_trace_json(trace, lists->types)},
                      &inputs);
    const struct aorta_input *query = &inputs.items[0];
    if (!inputs.count || query->rank < LEAST) return;
    const struct aorta_input *keys = strstr(name, "softmax") ? query : &inputs.items[1];
    const int axis = strstr(name, "softmax") ? query->rank - 1 : keys->rank - 2;
    if (axis < 1) return;
    ++*all;
    *single += query->size[query->rank - 2] == 1 && keys->size[axis] > 1;
}

/* Whether most attention has one query. Pooling and class tokens have one, too, but only in few layers. */
static bool asks_for_tokens(const struct aorta_trace *trace) {
    size_t all = 0, single = 0;
    for (size_t i = 0; i < trace->operation_count; i++) count_attention(trace, &trace->operations[i], &all, &single);
    return 2 * single > all;
}

bool aorta_program_decodes(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    return runs_kernel(rank, is_kernel_of_decoding, memory) || asks_for_tokens(rank->trace);
}
