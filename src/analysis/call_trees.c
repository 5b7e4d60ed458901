#include "analysis/call_trees.h"

#include "analysis/breakdown.h"
#include "analysis/phases.h"
#include "base/array.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 128, NAME_SIZE = 512 };

/* ---- nodes ---- */

static uint32_t add_node(struct aorta_call_trees *trees, const struct aorta_call_node *key) {
    const size_t cells = trees->inputs * (trees->count + 1);
    struct aorta_arena *memory = trees->memory;
    const uint32_t number =
        aorta_keys_add(&trees->keys, key->parent, (int64_t)(intptr_t)key->name, key->module, memory);
    if (number < trees->count) return number;
    memory->failed = memory->failed ||
                     !aorta_array_fit(&trees->nodes, &trees->node_capacity, trees->count + 1, sizeof *trees->nodes) ||
                     !aorta_array_fit(&trees->there, &trees->there_capacity, cells, sizeof *trees->there) ||
                     !aorta_array_fit(&trees->ns, &trees->ns_capacity, cells, sizeof *trees->ns);
    if (memory->failed) return 0;
    for (size_t i = cells - trees->inputs; i < cells; i++) {
        trees->there[i] = false;
        trees->ns[i] = 0;
    }
    trees->nodes[trees->count++] = *key;
    return number;
}

/* ---- one recording's rank ---- */

struct walking {
    struct aorta_call_trees *trees;
    size_t input;
    const struct aorta_trace *trace;
    const char **operations, **modules; /* by text: common names; NULL: not asked yet */
    struct aorta_nest_range *nest;      /* of the functions */
    struct aorta_forwards forwards;
};

/* LlamaRMSNorm_3: LlamaRMSNorm. NULL: a function, no module. */
static const char *module_name(struct walking *w, uint32_t text) {
    const char *name = aorta_module_name(aorta_trace_text(w->trace, text));
    if (!name || w->modules[text]) return w->modules[text];
    size_t length = strlen(name), digits = 0;
    while (digits < length && isdigit((unsigned char)name[length - 1 - digits])) digits++;
    if (digits && digits < length && name[length - 1 - digits] == '_') length -= digits + 1;
    w->modules[text] = aorta_intern_slice(&w->trees->names, name, length);
    return w->modules[text];
}

/* Innermost first; what is deeper than the deepest is left out, from the outermost on. */
static size_t path_of(struct walking *w, const struct aorta_trace_work *work, struct aorta_call_node path[DEEPEST]) {
    const struct aorta_trace *trace = w->trace;
    size_t count = 0;
    for (uint32_t at = work->operation; at != AORTA_TRACE_NONE && count < DEEPEST; at = trace->operations[at].parent) {
        if (trace->operations[at].range) continue;
        const uint32_t text = trace->operations[at].name;
        const char **known = &w->operations[text];
        if (!*known) *known = aorta_intern(&w->trees->names, aorta_operation_alike(aorta_trace_text(trace, text)));
        if (count && path[count - 1].name == *known) continue;
        path[count++] = (struct aorta_call_node){.name = *known};
    }
    uint32_t thread;
    int64_t at_ns;
    if (!trace->function_count || !aorta_forward_place(&w->forwards, trace, work, &thread, &at_ns)) return count;
    uint32_t frame = aorta_nest_find(w->nest, trace->function_count, sizeof *w->nest, thread, at_ns);
    for (; frame != AORTA_NEST_NONE && count < DEEPEST; frame = w->nest[frame].parent) {
        const char *name = module_name(w, w->nest[frame].number);
        if (name) path[count++] = (struct aorta_call_node){.name = name, .module = true};
    }
    return count;
}

static uint32_t add_work(struct walking *w, const struct aorta_trace_work *work) {
    struct aorta_call_trees *trees = w->trees;
    struct aorta_call_node path[DEEPEST];
    size_t count = path_of(w, work, path);
    uint32_t node = 0;
    trees->any |= count > 0;
    if (!count) path[count++] = (struct aorta_call_node){.name = aorta_intern(&trees->names, "(not known)")};
    while (count-- > 0) {
        path[count].parent = node;
        trees->memory->failed |= !path[count].name;
        node = add_node(trees, &path[count]);
        if (trees->memory->failed) return 0;
        trees->there[node * trees->inputs + w->input] = true;
    }
    trees->ns[node * trees->inputs + w->input] += (double)(work->end_ns - work->start_ns);
    return node;
}

static uint32_t *add_rank(struct aorta_call_trees *trees, size_t input, size_t place) {
    const struct aorta_trace_rank *rank = &trees->of[input].analysis->ranks[place];
    const size_t texts = aorta_trace_text_count(rank->trace);
    struct aorta_arena scratch = {0};
    struct walking w = {.trees = trees,
                        .input = input,
                        .trace = rank->trace,
                        .operations = aorta_arena_alloc(&scratch, texts * sizeof *w.operations),
                        .modules = aorta_arena_alloc(&scratch, texts * sizeof *w.modules),
                        .nest = aorta_nest_of(rank->trace->functions, rank->trace->function_count, &scratch),
                        .forwards = aorta_forwards_make(rank->trace, &scratch)};
    uint32_t *nodes = aorta_arena_raw(trees->memory, rank->work_count * sizeof *nodes);
    for (size_t i = 0; !scratch.failed && !trees->memory->failed && i < rank->work_count; i++)
        nodes[i] = add_work(&w, &rank->work[i]);
    aorta_arena_end(&scratch, trees->memory);
    return nodes;
}

/* ---- all of them ---- */

struct aorta_call_trees aorta_call_trees_make(const struct aorta_trace_compare_input *inputs, size_t count,
                                              struct aorta_arena *memory) {
    const struct aorta_call_node root = {.name = "", .parent = AORTA_TRACE_NONE};
    struct aorta_call_trees trees = {.inputs = count,
                                     .of = inputs,
                                     .of_work = aorta_arena_alloc(memory, count * sizeof *trees.of_work),
                                     .memory = memory};
    add_node(&trees, &root);
    for (size_t i = 0; !memory->failed && i < count; i++) {
        const size_t ranks = inputs[i].analysis->rank_count;
        trees.of_work[i] = aorta_arena_alloc(memory, ranks * sizeof *trees.of_work[i]);
        for (size_t r = 0; !memory->failed && r < ranks; r++) trees.of_work[i][r] = add_rank(&trees, i, r);
    }
    return trees;
}

void aorta_call_trees_free(struct aorta_call_trees *trees) {
    free(trees->nodes);
    free(trees->there);
    free(trees->ns);
    aorta_keys_free(&trees->keys);
    aorta_intern_free(&trees->names);
}

static bool in_all(const struct aorta_call_trees *trees, uint32_t node) {
    for (size_t i = 0; i < trees->inputs; i++)
        if (!trees->there[node * trees->inputs + i]) return false;
    return true;
}

uint32_t aorta_call_trees_row(const struct aorta_call_trees *trees, uint32_t node) {
    while (!in_all(trees, node) && trees->nodes[node].parent) node = trees->nodes[node].parent;
    return node;
}

const char *aorta_call_trees_name(const struct aorta_call_trees *trees, uint32_t row, char *name, size_t size) {
    snprintf(name, size, "%s%s", trees->nodes[row].name, trees->nodes[row].module ? " (module)" : "");
    return name;
}
