#include "analysis/gradients.h"

#include "analysis/phases.h"

#include <ctype.h>
#include <stdlib.h>
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
static aorta_status find_kernels_of_training(const struct aorta_trace_rank *rank, bool *found) {
    const struct aorta_trace *trace = rank->trace;
    bool *seen = calloc(aorta_trace_text_count(trace) + 1, sizeof *seen);
    if (!seen) return AORTA_ERROR(AORTA_MEMORY, "no memory for the names of %s", trace->path);
    for (size_t i = 0; i < rank->work_count && !*found; i++) {
        const uint32_t name = rank->work[i].name;
        if (!seen[name]) *found = is_of_training(aorta_trace_text(trace, name));
        seen[name] = true;
    }
    free(seen);
    return NULL;
}

static aorta_status find_training(const struct aorta_trace_rank *rank, bool *trains) {
    struct aorta_phases phases;
    const bool made = aorta_phases_make(rank, &phases);
    *trains = made && phases.training;
    aorta_phases_free(&phases);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no memory for the phases of %s", rank->trace->path);
    if (*trains || has_operations(rank->trace)) return NULL;
    return find_kernels_of_training(rank, trains);
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

aorta_status aorta_trace_reduces_gradients(const struct aorta_trace_rank *rank, enum aorta_collective kind,
                                           bool *reduces) {
    const struct aorta_trace *trace = rank->trace;
    bool copies = false;
    *reduces = false;
    for (size_t i = 0; i < rank->work_count && !copies; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        if (!aorta_trace_is_collective(work) || aorta_trace_collective_kind(trace, work) != kind) continue;
        copies = work->collective == AORTA_TRACE_NONE ||
                 aorta_group_may_copy_model(trace, trace->collectives[work->collective].group);
    }
    return copies ? find_training(rank, reduces) : NULL;
}

aorta_status aorta_trace_infers(const struct aorta_trace_rank *rank, bool *infers) {
    bool trains = true;
    if (!rank->trace->measured && has_operations(rank->trace)) AORTA_TRY(find_training(rank, &trains));
    *infers = !trains;
    return NULL;
}

bool aorta_brings_activations(const struct aorta_trace_rank *rank, const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = rank->trace;
    const enum aorta_collective kind = aorta_trace_collective_kind(trace, work);
    if (trace->measured || kind > AORTA_ALL_GATHER) return false;
    if (rank->infers && kind == AORTA_ALL_REDUCE) return true;
    return work->collective != AORTA_TRACE_NONE &&
           !aorta_group_may_copy_model(trace, trace->collectives[work->collective].group);
}
