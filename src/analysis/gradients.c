#include "analysis/gradients.h"

#include "analysis/phases.h"

#include <ctype.h>
#include <string.h>

/* ---- backward pass ---- */

static bool has_operations(const struct aorta_trace *trace) {
    for (size_t i = 0; i < trace->operation_count; i++)
        if (!trace->operations[i].range) return true;
    return false;
}

static bool is_of_training(const char *kernel) {
    static const char *const parts[] = {"backward", "_bwd", "bwd_", "dgrad", "wgrad", "adam", "multi_tensor", "sgd"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcasestr(kernel, parts[i])) return true;
    return false;
}

/* Each name once. */
static bool has_kernels_of_training(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    const struct aorta_trace *trace = rank->trace;
    bool *seen = aorta_arena_alloc(memory, aorta_trace_text_count(trace)), found = false;
    for (size_t i = 0; seen && i < rank->work_count && !found; i++) {
        const uint32_t name = rank->work[i].name;
        if (!seen[name]) found = is_of_training(aorta_trace_text(trace, name));
        seen[name] = true;
    }
    return found;
}

static bool trains(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    struct aorta_arena scratch = {0};
    const bool training = aorta_phases_make(rank, &scratch).training ||
                          (!has_operations(rank->trace) && has_kernels_of_training(rank, &scratch));
    aorta_arena_end(&scratch, memory);
    return training;
}

/* ---- process groups ---- */

/* A word that no letters surround: "tp" in "tp:0" and "mesh_tp", not in "http". */
static bool has_word(const char *text, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = text; (at = strcasestr(at, word)); at++)
        if ((at == text || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[length])) return true;
    return false;
}

static bool has_any(const char *text, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (has_word(text, words[i])) return true;
    return false;
}

/* Megatron: DATA_PARALLEL_GROUP_WITH_CP, EXPERT_DATA_PARALLEL_GROUP, TENSOR_MODEL_PARALLEL_GROUP; meshes of PyTorch and
 * engines: dp, tp, tp:0. */
bool aorta_group_may_copy_model(const struct aorta_trace *trace, uint32_t group) {
    static const char *const copies[] = {"data", "dp", "ddp", "fsdp", "replicate", "shard"};
    static const char *const parts[] = {"tensor",  "tp", "model",    "pipeline", "pp",        "expert", "ep",
                                        "context", "cp", "sequence", "sp",       "embedding", "attn"};
    if (group == AORTA_TRACE_NONE) return true;
    const struct aorta_trace_group *row = &trace->groups[group];
    const char *const names[] = {aorta_trace_text(trace, row->name), aorta_trace_text(trace, row->description)};
    for (int i = 0; i < 2; i++)
        if (has_any(names[i], copies, sizeof copies / sizeof *copies)) return true;
    for (int i = 0; i < 2; i++)
        if (has_any(names[i], parts, sizeof parts / sizeof *parts)) return false;
    return true;
}

bool aorta_trace_reduces_gradients(const struct aorta_trace_rank *rank, enum aorta_collective kind,
                                   struct aorta_arena *memory) {
    const struct aorta_trace *trace = rank->trace;
    bool copies = false;
    for (size_t i = 0; i < rank->work_count && !copies; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        if (!aorta_trace_is_collective(work) || aorta_trace_collective_kind(trace, work) != kind) continue;
        copies = work->collective == AORTA_TRACE_NONE ||
                 aorta_group_may_copy_model(trace, trace->collectives[work->collective].group);
    }
    return copies && trains(rank, memory);
}

bool aorta_trace_infers(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    return !rank->trace->measured && has_operations(rank->trace) && !trains(rank, memory);
}

bool aorta_brings_activations(const struct aorta_trace_rank *rank, const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = rank->trace;
    const enum aorta_collective kind = aorta_trace_collective_kind(trace, work);
    if (trace->measured || kind > AORTA_ALL_GATHER) return false;
    if (rank->infers && kind == AORTA_ALL_REDUCE) return true;
    return work->collective != AORTA_TRACE_NONE &&
           !aorta_group_may_copy_model(trace, trace->collectives[work->collective].group);
}
