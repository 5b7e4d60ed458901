/* What a recorded program does, as far as advice depends on it: an optimizer, tokens one by one, sharded parameters. */
#include "analysis/phases.h"
#include "trace/kernel_names.h"
#include "trace/operation_inputs.h"
#include "verdict/verdict_internal.h"

#include <string.h>
#include <strings.h>

static bool has_any(const char *name, const char *const *parts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcasestr(name, parts[i])) return true;
    return false;
}

#define HAS_ANY(name, parts) has_any(name, parts, sizeof parts / sizeof *parts)

/* Each name once. */
static bool any_range(const struct aorta_trace *trace, bool (*is_such)(const char *name), struct aorta_arena *memory) {
    bool *seen = aorta_arena_alloc(memory, aorta_trace_text_count(trace)), found = false;
    for (size_t i = 0; seen && i < trace->annotation_count + trace->operation_count && !found; i++) {
        const bool range = i < trace->annotation_count;
        const uint32_t name = range ? trace->annotations[i].name : trace->operations[i - trace->annotation_count].name;
        if (!seen[name]) found = is_such(aorta_trace_text(trace, name));
        seen[name] = true;
    }
    return found;
}

/* ---- optimizers ---- */

/* PyTorch's Adam without foreach runs operations of these names for each parameter. */
static bool is_kernel_of_optimizer(const char *name) {
    static const char *const parts[] = {"addcdiv", "addcmul", "lerp"};
    return aorta_kernel_is_of_optimizer(name) || HAS_ANY(name, parts);
}

static bool is_range_of_optimizer(const char *name) {
    static const char *const parts[] = {"optimizer", "aten::_foreach", "aten::_fused_", "addcdiv_"};
    return HAS_ANY(name, parts);
}

bool aorta_program_optimizes(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    return rank->trains && (aorta_rank_runs_kernel(rank, is_kernel_of_optimizer, memory) ||
                            any_range(rank->trace, is_range_of_optimizer, memory));
}

/* ---- sharded parameters ---- */

static bool is_range_of_sharding(const char *name) {
    static const char *const parts[] = {"FSDP", "FullyShardedDataParallel", "fully_shard"};
    return HAS_ANY(name, parts);
}

bool aorta_program_shards(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    return aorta_trace_reduces_gradients(rank, AORTA_REDUCE_SCATTER) ||
           any_range(rank->trace, is_range_of_sharding, memory);
}

/* ---- tokens one by one ---- */

static bool is_kernel_of_decoding(const char *name) {
    static const char *const parts[] = {"splitkv", "paged_attention", "single_query", "masked_multihead", "decode"};
    return aorta_kernel_category(name) == AORTA_CATEGORY_CACHE || HAS_ANY(name, parts);
}

static bool is_attention(const char *name) {
    return strstr(name, "scaled_dot_product") || strcmp(name, "aten::softmax") == 0 ||
           strcmp(name, "aten::_softmax") == 0;
}

/* Queries and keys, or a softmax over their products: the last axis but one has the queries. */
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

/* Pooling and class tokens have one query, too, in few layers. */
static bool asks_for_tokens(const struct aorta_trace *trace) {
    size_t all = 0, single = 0;
    for (size_t i = 0; i < trace->operation_count; i++) count_attention(trace, &trace->operations[i], &all, &single);
    return 2 * single > all;
}

bool aorta_program_decodes(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    return aorta_rank_runs_kernel(rank, is_kernel_of_decoding, memory) || asks_for_tokens(rank->trace);
}
