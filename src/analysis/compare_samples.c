/* Samples of compared recordings, and the tree of launching modules and operations. */
#include "analysis/breakdown.h"
#include "analysis/compare.h"
#include "base/array.h"
#include "base/sort.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 128 };

/* ---- nodes of the tree ---- */

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

/* ---- paths of a rank's work ---- */

struct walking {
    struct aorta_call_trees *trees;
    size_t input;
    const struct aorta_trace *trace;
    const char **operations, **modules; /* by text: common names; NULL: not looked up yet */
    struct aorta_nest_range *nest;      /* of the functions */
    struct aorta_forwards forwards;
};

/* LlamaRMSNorm for LlamaRMSNorm_3. NULL for a function. */
static const char *module_name(struct walking *w, uint32_t text) {
    const char *name = aorta_module_name(aorta_trace_text(w->trace, text));
    if (!name || w->modules[text]) return w->modules[text];
    size_t length = strlen(name), digits = 0;
    while (digits < length && isdigit((unsigned char)name[length - 1 - digits])) digits++;
    if (digits && digits < length && name[length - 1 - digits] == '_') length -= digits + 1;
    w->modules[text] = aorta_intern_slice(&w->trees->names, name, length);
    return w->modules[text];
}

/* The path of work, innermost first. If it is too deep, the outermost nodes are dropped. */
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

static uint32_t add_path(struct walking *w, const struct aorta_trace_work *work) {
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

static uint32_t *add_rank_paths(struct aorta_call_trees *trees, size_t input, size_t place) {
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
        nodes[i] = add_path(&w, &rank->work[i]);
    aorta_arena_end(&scratch, trees->memory);
    return nodes;
}

/* ---- the tree ---- */

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
        for (size_t r = 0; !memory->failed && r < ranks; r++) trees.of_work[i][r] = add_rank_paths(&trees, i, r);
    }
    return trees;
}

void aorta_call_trees_free(struct aorta_call_trees *trees) {
    free(trees->nodes);
    free(trees->there);
    free(trees->ns);
    aorta_keys_free(&trees->keys);
    aorta_texts_free(&trees->names);
}

static bool in_all(const struct aorta_call_trees *trees, uint32_t node) {
    for (size_t i = 0; i < trees->inputs; i++)
        if (!trees->there[node * trees->inputs + i]) return false;
    return true;
}

/* The node for which the work of this node counts. */
static uint32_t common_of(const struct aorta_call_trees *trees, uint32_t node) {
    while (!in_all(trees, node) && trees->nodes[node].parent) node = trees->nodes[node].parent;
    return node;
}

const char *aorta_call_trees_name(const struct aorta_call_trees *trees, uint32_t row, char *name, size_t size) {
    snprintf(name, size, "%s%s", trees->nodes[row].name, trees->nodes[row].module ? " (module)" : "");
    return name;
}

/* ---- rows by name ---- */

/* The row's place, or one after all rows. */
static uint32_t place_of(struct compare_samples *s, enum aorta_trace_section section, const char *name) {
    const char *known = aorta_intern(&s->names, name);
    s->arena->failed |= !known;
    return aorta_keys_add(&s->keys, section, (int64_t)(intptr_t)known, 0, s->arena);
}

static struct compare_samples_row *find_row(struct compare_samples *s, enum aorta_trace_section section,
                                            const char *name) {
    const uint32_t place = place_of(s, section, name);
    if (place < s->count) return &s->rows[place];
    const struct compare_samples_row row = {
        .row = {.section = section, .name = aorta_arena_strdup(s->arena, name)},
        .series = aorta_arena_alloc(s->arena, s->inputs * sizeof *row.series),
    };
    if (s->arena->failed) return NULL;
    return aorta_arena_append(s->arena, &s->rows, &s->capacity, &s->count, &row, sizeof row);
}

/* Row numbers begin at 1; 0: none. */
static uint32_t number_of(const struct compare_samples *s, const struct compare_samples_row *row) {
    return row ? (uint32_t)(row - s->rows) + 1 : 0;
}

static struct compare_samples_row *row_of(const struct compare_samples *s, uint32_t number) {
    return number ? &s->rows[number - 1] : NULL;
}

/* ---- one recording ---- */

struct collecting {
    struct compare_samples *samples;
    size_t input;
    const struct aorta_trace_analysis *analysis;
    int64_t *numbers; /* of the steps, ascending */
    size_t step_count;
    /* of the current trace: row + 1 by kernel name, and by shape */
    uint32_t *kernel_rows, *gemm_rows;
    bool *gemms; /* by text: names a matrix product */
    const struct aorta_call_trees *trees;
    const uint32_t *nodes; /* of the rank's work[] */
    struct aorta_work_names names;
};

/* Time of a step that is added to a row. */
struct amount {
    size_t step;
    int64_t ns;
    const struct aorta_trace_work *work; /* NULL: not of work */
    bool counted;                        /* counts as a run: not the rest of work that began in an earlier window */
};

/* NULL: no memory. */
static struct compare_samples_row *add(struct collecting *c, struct compare_samples_row *row, struct amount amount) {
    struct compare_series *series = row ? &row->series[c->input] : NULL;
    if (row && !series->ns) series->ns = aorta_arena_alloc(c->samples->arena, c->step_count * sizeof *series->ns);
    if (!row || !series->ns) return NULL;
    series->ns[amount.step] += (double)amount.ns;
    series->count += amount.counted;
    row->counted |= amount.counted; /* countable, even if it also occurs as a rest */
    row->row.communicates |= amount.work && aorta_trace_is_collective(amount.work);
    return row;
}

static struct compare_samples_row *add_named(struct collecting *c, enum aorta_trace_section section, const char *name,
                                             struct amount amount) {
    return add(c, find_row(c->samples, section, name), amount);
}

static void add_part(struct collecting *c, enum aorta_trace_section section, const char *name, size_t step,
                     int64_t ns) {
    struct compare_samples_row *row = add_named(c, section, name, (struct amount){step, ns, NULL, false});
    if (row) row->row.part = true;
}

#define AT(member) offsetof(struct aorta_overlap, member)
static const struct time_class {
    const char *name;
    size_t offset;
    enum aorta_good good;
} classes[] = {
    {"busy", AT(busy_ns), AORTA_GOOD_NEITHER},
    {"compute", AT(compute_ns), AORTA_GOOD_LOW},
    {"communication", AT(comm_ns), AORTA_GOOD_LOW},
    {"overlap", AT(overlap_ns), AORTA_GOOD_HIGH},
    {"exposed communication", AT(exposed_comm_ns), AORTA_GOOD_LOW},
    {"copies", AT(memcpy_ns), AORTA_GOOD_LOW},
    {"exposed copies", AT(exposed_copy_ns), AORTA_GOOD_LOW},
};
#undef AT

static void add_classes(struct collecting *c, const struct aorta_overlap *overlap, size_t step) {
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        int64_t ns;
        memcpy(&ns, (const char *)overlap + classes[i].offset, sizeof ns);
        struct compare_samples_row *row =
            add_named(c, AORTA_SECTION_TIMELINE, classes[i].name, (struct amount){step, ns, NULL, false});
        if (row) row->row.good = classes[i].good;
    }
}

static void add_idle(struct collecting *c, const struct aorta_idle *idle, size_t step) {
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "idle: %s", aorta_idle_words[i].name);
        add_part(c, AORTA_SECTION_TIMELINE, name, step, idle->ns[i]);
    }
}

/* A step includes the gap before it, so that busy and idle add up to the step, and causes to idle. A measured step time
 * is used instead, as in `aorta report`; gaps of ranges then differ slightly. */
static void add_timeline(struct collecting *c, const struct aorta_trace_window *window, size_t step) {
    const char *whole = c->samples->stepped ? "step" : "recording";
    const struct aorta_overlap *all = &window->profile.overlap;
    const int64_t step_ns = window->step_ns > 0 ? window->step_ns : all->lead_ns + all->span_ns;
    add_named(c, AORTA_SECTION_TIMELINE, whole, (struct amount){step, step_ns, NULL, false});
    add_classes(c, all, step);
    add_named(c, AORTA_SECTION_TIMELINE, "idle", (struct amount){step, all->lead_ns + all->idle_ns, NULL, false});
    add_idle(c, &all->idle, step);
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        const struct aorta_collective_overlap *overlap = &all->kind[kind];
        char name[64];
        if (!overlap->count) continue;
        snprintf(name, sizeof name, "%s: exposed", aorta_trace_kind_name(c->analysis, (enum aorta_collective)kind));
        add_part(c, AORTA_SECTION_COLLECTIVE, name, step, overlap->blamed_ns);
    }
}

static void add_gemm(struct collecting *c, const struct aorta_trace *trace, struct amount amount) {
    uint32_t *known = &c->gemm_rows[amount.work->shape];
    if (!*known) {
        const struct aorta_trace_shape *shape = &trace->shapes[amount.work->shape];
        char name[512];
        snprintf(name, sizeof name, "%s %s %s", aorta_trace_text(trace, shape->op),
                 aorta_trace_text(trace, shape->dims), aorta_trace_text(trace, shape->types));
        *known = number_of(c->samples, find_row(c->samples, AORTA_SECTION_GEMM, name));
    }
    add(c, row_of(c->samples, *known), amount);
}

/* Adds work to the rows of its category, operation and subtree. */
static void add_launched(struct collecting *c, uint32_t node, struct amount amount) {
    char name[512];
    const char *operation = aorta_work_operation(&c->names, amount.work);
    add_named(c, AORTA_SECTION_CATEGORY, aorta_work_category(&c->names, amount.work), amount);
    if (operation) add_named(c, AORTA_SECTION_OPERATION, operation, amount);
    if (!c->trees->any) return;
    aorta_call_trees_name(c->trees, common_of(c->trees, node), name, sizeof name);
    add_named(c, AORTA_SECTION_SUBTREE, name, amount);
}

static void add_work(struct collecting *c, const struct aorta_trace *trace, const struct aorta_range *range,
                     struct amount amount) {
    const struct aorta_trace_work *work = amount.work;
    uint32_t *known = &c->kernel_rows[work->name];
    if (!*known) {
        const char *text = aorta_trace_text(trace, work->name);
        *known = number_of(c->samples, find_row(c->samples, AORTA_SECTION_KERNEL, text));
        c->gemms[work->name] = work->class == AORTA_KERNEL_COMPUTE && aorta_kernel_is_gemm(text);
    }
    add(c, row_of(c->samples, *known), amount);
    if (work->kind == AORTA_TRACE_KERNEL && work->shape != AORTA_TRACE_NONE && c->gemms[work->name])
        add_gemm(c, trace, amount);
    if (range->info.kind != AORTA_RANGE_COLLECTIVE) return;
    char name[64];
    const char *kind = aorta_trace_kind_name(c->analysis, range->info.collective);
    if (range->info.group_size > 0)
        snprintf(name, sizeof name, "%s, %d ranks", kind, range->info.group_size);
    else
        snprintf(name, sizeof name, "%s", kind);
    add_named(c, AORTA_SECTION_COLLECTIVE, name, amount);
}

/* False if the window is in no counted step. */
static bool step_of(const struct collecting *c, const struct aorta_trace_window *window, size_t *step) {
    *step = 0;
    if (!c->samples->stepped) return true;
    if (window->number == INT64_MIN) return false;
    const int64_t *found = bsearch(&window->number, c->numbers, c->step_count, sizeof *found, aorta_by_int64);
    if (found) *step = (size_t)(found - c->numbers);
    return found != NULL;
}

static void add_rank(struct collecting *c, const struct aorta_trace_rank *rank) {
    AORTA_EACH (const struct aorta_trace_window, window, rank->windows, rank->window_count) {
        size_t step;
        if (!step_of(c, window, &step)) continue;
        add_timeline(c, window, step);
        for (size_t r = 0; r < window->profile.range_count; r++) {
            const struct aorta_trace_work *work = &rank->work[window->work[r]];
            const struct aorta_range *range = &window->profile.ranges[r];
            const struct amount amount = {step, range->end_ns - range->start_ns, work,
                                          work->start_ns >= window->start_ns};
            add_launched(c, c->nodes[window->work[r]], amount);
            add_work(c, rank->trace, range, amount);
        }
    }
}

static void list_steps(struct collecting *c, struct aorta_arena *memory) {
    size_t windows = 0, count = 0;
    for (size_t r = 0; r < c->analysis->rank_count; r++) windows += c->analysis->ranks[r].window_count;
    c->numbers = aorta_arena_raw(memory, windows * sizeof *c->numbers);
    for (size_t r = 0; c->numbers && r < c->analysis->rank_count; r++)
        for (size_t w = 0; w < c->analysis->ranks[r].window_count; w++)
            if (aorta_trace_step_counts(c->analysis, c->analysis->ranks[r].windows[w].number))
                c->numbers[count++] = c->analysis->ranks[r].windows[w].number;
    c->step_count = aorta_sort_unique(c->numbers, count, sizeof *c->numbers, aorta_by_int64);
    if (!c->samples->stepped) c->step_count = 1;
}

static void collect(struct compare_samples *samples, size_t input, const struct aorta_trace_analysis *analysis,
                    const struct aorta_call_trees *trees) {
    struct aorta_arena scratch = {0};
    struct collecting c = {.samples = samples, .input = input, .analysis = analysis, .trees = trees};
    list_steps(&c, &scratch);
    samples->steps[input] = c.step_count;
    for (size_t r = 0; !samples->arena->failed && r < analysis->rank_count; r++) {
        const struct aorta_trace *trace = analysis->ranks[r].trace;
        const size_t texts = aorta_trace_text_count(trace);
        c.nodes = trees->of_work[input][r];
        c.kernel_rows = aorta_arena_alloc(&scratch, texts * sizeof *c.kernel_rows);
        c.gemm_rows = aorta_arena_alloc(&scratch, trace->shape_count * sizeof *c.gemm_rows);
        c.gemms = aorta_arena_alloc(&scratch, texts);
        c.names = aorta_work_names_make(trace, &scratch);
        if (!scratch.failed) add_rank(&c, &analysis->ranks[r]);
    }
    aorta_arena_end(&scratch, samples->arena);
}

/* ---- the operations of a subtree ---- */

struct below {
    uint32_t row, side;
    const char *name;
    double ns;
};

static AORTA_ORDER(by_row_and_side, struct below, AORTA_UP(row) AORTA_UP(side) AORTA_TEXT(name));

static AORTA_ORDER(largest_first, struct below, AORTA_DOWN(ns) AORTA_TEXT(name));

/* Stores the largest operations of one row and side. */
static void describe(struct compare_samples *s, struct below *items, size_t count) {
    struct aorta_trace_compare_row *row = &s->rows[items[0].row].row;
    size_t names = 0;
    for (size_t i = 0; i < count; i++)
        if (names && !strcmp(items[names - 1].name, items[i].name))
            items[names - 1].ns += items[i].ns;
        else
            items[names++] = items[i];
    qsort(items, names, sizeof *items, largest_first);
    if (!row->below) row->below = aorta_arena_alloc(s->arena, s->inputs * sizeof *row->below);
    if (!row->below) return;
    struct aorta_trace_below *below = &row->below[items[0].side];
    for (below->count = 0; below->count < names; below->count++)
        if (below->count < AORTA_BELOW)
            below->names[below->count] = aorta_arena_strdup(s->arena, items[below->count].name);
}

/* Finds the rows below which recordings differ, and each side's operations there. */
static void describe_subtrees(struct compare_samples *s, const struct aorta_call_trees *trees) {
    struct aorta_arena scratch = {0};
    struct below *items = aorta_arena_raw(&scratch, trees->count * trees->inputs * sizeof *items);
    bool *differs = aorta_arena_alloc(&scratch, s->count);
    uint32_t *rows = aorta_arena_alloc(&scratch, trees->count * sizeof *rows); /* + 1; 0: none */
    size_t count = 0;
    for (size_t node = 1; rows && node < trees->count; node++) {
        char name[512];
        const uint32_t common = common_of(trees, (uint32_t)node);
        const uint32_t place =
            place_of(s, AORTA_SECTION_SUBTREE, aorta_call_trees_name(trees, common, name, sizeof name));
        if (place < s->count) rows[node] = place + 1;
        if (rows[node] && common != node) differs[rows[node] - 1] = true;
    }
    for (size_t node = 1; rows && node < trees->count; node++)
        for (size_t i = 0; i < trees->inputs; i++) {
            const double ns = trees->ns[node * trees->inputs + i];
            if (!rows[node] || !differs[rows[node] - 1] || !(ns > 0)) continue;
            items[count++] = (struct below){rows[node] - 1, s->sides[i], trees->nodes[node].name, ns};
        }
    if (count) qsort(items, count, sizeof *items, by_row_and_side);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first; end < count && items[end].row == items[first].row && items[end].side == items[first].side;)
            end++;
        describe(s, items + first, end - first);
    }
    aorta_arena_end(&scratch, s->arena);
}

/* ---- all samples ---- */

void aorta_compare_samples_make(const struct aorta_trace_compare_input *inputs, size_t count, struct aorta_arena *arena,
                                struct compare_samples *samples) {
    struct aorta_arena scratch = {0};
    *samples = (struct compare_samples){.arena = arena, .inputs = count, .stepped = true};
    for (size_t i = 0; i < count; i++) samples->stepped = samples->stepped && inputs[i].analysis->stepped;
    samples->steps = aorta_arena_alloc(arena, count * sizeof *samples->steps);
    samples->sides = aorta_arena_alloc(arena, count * sizeof *samples->sides);
    struct aorta_call_trees trees = aorta_call_trees_make(inputs, count, &scratch);
    arena->failed |= scratch.failed;
    for (size_t i = 1; !arena->failed && i < count; i++) samples->sides[i] = samples->sides[i - 1] + !inputs[i].repeats;
    for (size_t i = 0; !arena->failed && i < count; i++) collect(samples, i, inputs[i].analysis, &trees);
    if (!arena->failed && trees.any) describe_subtrees(samples, &trees);
    aorta_call_trees_free(&trees);
    aorta_keys_free(&samples->keys);
    aorta_texts_free(&samples->names);
    aorta_arena_end(&scratch, arena);
}
