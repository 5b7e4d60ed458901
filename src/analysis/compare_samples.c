#include "analysis/call_trees.h"
#include "analysis/compare.h"

#include "analysis/breakdown.h"
#include "base/sort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows by name ---- */

/* The row's place, or one behind all rows. */
static uint32_t place_of(struct compare_samples *s, enum aorta_trace_section section, const char *name) {
    const char *known = aorta_intern(&s->names, name);
    s->arena->failed |= !known;
    return aorta_keys_add(&s->keys, section, (int64_t)(intptr_t)known, 0, s->arena);
}

static struct compare_samples_row *find_row(struct compare_samples *s, enum aorta_trace_section section,
                                            const char *name) {
    const uint32_t place = place_of(s, section, name);
    if (place < s->count) return &s->rows[place];
    struct compare_samples_row *rows = aorta_arena_grow(s->arena, s->rows, s->count, &s->capacity, sizeof *rows);
    const struct compare_samples_row row = {
        .row = {.section = section, .name = aorta_arena_strdup(s->arena, name)},
        .series = aorta_arena_alloc(s->arena, s->inputs * sizeof *row.series),
    };
    if (s->arena->failed) return NULL;
    s->rows = rows;
    rows[s->count] = row;
    return &rows[s->count++];
}

/* Numbers of rows begin with 1; 0: there is none. */
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
    /* of the trace at hand: the row + 1 of each text as a kernel's name, and of each shape */
    uint32_t *kernel_rows, *gemm_rows;
    bool *gemms; /* texts that name matrix products */
    const struct aorta_call_trees *trees;
    const uint32_t *nodes; /* of the rank's work[] */
    struct aorta_work_names names;
};

/* `counted`: the range is not the rest of work that began in the window before, which has counted it. */
static void add(struct collecting *c, struct compare_samples_row *row, size_t step, int64_t ns, bool counted) {
    struct compare_series *series = row ? &row->series[c->input] : NULL;
    if (row && !series->ns) series->ns = aorta_arena_alloc(c->samples->arena, c->step_count * sizeof *series->ns);
    if (!row || !series->ns) return;
    series->ns[step] += (double)ns;
    series->count += counted;
    row->counted |= counted; /* where it occurs as the rest of what began before, it still is a thing */
}

static void add_named(struct collecting *c, enum aorta_trace_section section, const char *name, size_t step, int64_t ns,
                      bool counted) {
    add(c, find_row(c->samples, section, name), step, ns, counted);
}

/* Adds work, which may be a collective. */
static void add_named_work(struct collecting *c, enum aorta_trace_section section, const char *name,
                           const struct aorta_trace_work *work, size_t step, int64_t ns, bool counted) {
    struct compare_samples_row *row = find_row(c->samples, section, name);
    if (row) row->row.communicates |= aorta_trace_is_collective(work);
    add(c, row, step, ns, counted);
}

/* A part of the step. */
static void add_part(struct collecting *c, enum aorta_trace_section section, const char *name, size_t step,
                     int64_t ns) {
    struct compare_samples_row *row = find_row(c->samples, section, name);
    if (row) row->row.part = true;
    add(c, row, step, ns, false);
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
        struct compare_samples_row *row = find_row(c->samples, AORTA_SECTION_TIMELINE, classes[i].name);
        if (row) row->row.good = classes[i].good;
        add(c, row, step, ns, false);
    }
}

static void add_idle(struct collecting *c, const struct aorta_idle *idle, size_t step) {
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "idle: %s", aorta_idle_words[i].name);
        add_part(c, AORTA_SECTION_TIMELINE, name, step, idle->ns[i]);
    }
}

/* A step counts with the gap before it: busy and idle add up to it, and the causes to idle. Where a run measured its
 * steps, that is the step, as `aorta report` has it; the gaps of ranges are a little off. */
static void add_timeline(struct collecting *c, const struct aorta_trace_window *window, size_t step) {
    const char *whole = c->samples->stepped ? "step" : "recording";
    const struct aorta_overlap *all = &window->profile.overlap;
    const int64_t step_ns = window->step_ns > 0 ? window->step_ns : all->lead_ns + all->span_ns;
    add_named(c, AORTA_SECTION_TIMELINE, whole, step, step_ns, false);
    add_classes(c, all, step);
    add_named(c, AORTA_SECTION_TIMELINE, "idle", step, all->lead_ns + all->idle_ns, false);
    add_idle(c, &all->idle, step);
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        const struct aorta_collective_overlap *overlap = &all->kind[kind];
        char name[64];
        if (!overlap->count) continue;
        snprintf(name, sizeof name, "%s: exposed", aorta_trace_kind_name(c->analysis, (enum aorta_collective)kind));
        add_part(c, AORTA_SECTION_COLLECTIVE, name, step, overlap->blamed_ns);
    }
}

static void add_gemm(struct collecting *c, const struct aorta_trace *trace, const struct aorta_trace_work *work,
                     size_t step, int64_t ns, bool counted) {
    uint32_t *known = &c->gemm_rows[work->shape];
    if (!*known) {
        const struct aorta_trace_shape *shape = &trace->shapes[work->shape];
        char name[512];
        snprintf(name, sizeof name, "%s %s %s", aorta_trace_text(trace, shape->op),
                 aorta_trace_text(trace, shape->dims), aorta_trace_text(trace, shape->types));
        *known = number_of(c->samples, find_row(c->samples, AORTA_SECTION_GEMM, name));
    }
    add(c, row_of(c->samples, *known), step, ns, counted);
}

/* By what the work does and what launched it. */
static void add_launched(struct collecting *c, const struct aorta_trace_work *work, uint32_t node, size_t step,
                         int64_t ns, bool counted) {
    char name[512];
    const char *operation = aorta_work_operation(&c->names, work);
    const char *category = aorta_work_category(&c->names, work);
    add_named_work(c, AORTA_SECTION_CATEGORY, category, work, step, ns, counted);
    if (operation) add_named_work(c, AORTA_SECTION_OPERATION, operation, work, step, ns, counted);
    if (!c->trees->any) return;
    aorta_call_trees_name(c->trees, aorta_call_trees_row(c->trees, node), name, sizeof name);
    add_named_work(c, AORTA_SECTION_SUBTREE, name, work, step, ns, counted);
}

static void add_work(struct collecting *c, const struct aorta_trace *trace, const struct aorta_trace_work *work,
                     const struct aorta_range *range, size_t step, bool counted) {
    int64_t ns = range->end_ns - range->start_ns;
    uint32_t *known = &c->kernel_rows[work->name];
    if (!*known) {
        const char *text = aorta_trace_text(trace, work->name);
        *known = number_of(c->samples, find_row(c->samples, AORTA_SECTION_KERNEL, text));
        c->gemms[work->name] = work->class == AORTA_KERNEL_COMPUTE && aorta_kernel_is_gemm(text);
    }
    add(c, row_of(c->samples, *known), step, ns, counted);
    if (work->kind == AORTA_TRACE_KERNEL && work->shape != AORTA_TRACE_NONE && c->gemms[work->name])
        add_gemm(c, trace, work, step, ns, counted);
    if (range->info.kind != AORTA_RANGE_COLLECTIVE) return;
    char name[64];
    const char *kind = aorta_trace_kind_name(c->analysis, range->info.collective);
    if (range->info.group_size > 0)
        snprintf(name, sizeof name, "%s, %d ranks", kind, range->info.group_size);
    else
        snprintf(name, sizeof name, "%s", kind);
    add_named(c, AORTA_SECTION_COLLECTIVE, name, step, ns, counted);
}

/* False: it is in no step. */
static bool step_of(const struct collecting *c, const struct aorta_trace_window *window, size_t *step) {
    *step = 0;
    if (!c->samples->stepped) return true;
    if (window->number == INT64_MIN) return false;
    const int64_t *found = bsearch(&window->number, c->numbers, c->step_count, sizeof *found, aorta_by_int64);
    if (found) *step = (size_t)(found - c->numbers);
    return found != NULL;
}

static void add_rank(struct collecting *c, const struct aorta_trace_rank *rank) {
    for (size_t i = 0; i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        size_t step;
        if (!step_of(c, window, &step)) continue;
        add_timeline(c, window, step);
        for (size_t r = 0; r < window->profile.range_count; r++) {
            const struct aorta_trace_work *work = &rank->work[window->work[r]];
            bool whole = work->start_ns >= window->start_ns;
            const struct aorta_range *range = &window->profile.ranges[r];
            const int64_t ns = range->end_ns - range->start_ns;
            add_launched(c, work, c->nodes[window->work[r]], step, ns, whole);
            add_work(c, rank->trace, work, range, step, whole);
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

/* ---- what did the work of a subtree ---- */

struct below {
    uint32_t row, side;
    const char *name;
    double ns;
};

static int by_row_and_side(const void *left, const void *right) {
    const struct below *a = left, *b = right;
    if (a->row != b->row) return a->row < b->row ? -1 : 1;
    if (a->side != b->side) return a->side < b->side ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int largest_first(const void *left, const void *right) {
    const struct below *a = left, *b = right;
    return a->ns != b->ns ? (a->ns > b->ns ? -1 : 1) : strcmp(a->name, b->name);
}

/* The operations of one row and side. */
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

/* Rows below which recordings differ, and what each of them has there. */
static void describe_subtrees(struct compare_samples *s, const struct aorta_call_trees *trees) {
    struct aorta_arena scratch = {0};
    struct below *items = aorta_arena_raw(&scratch, trees->count * trees->inputs * sizeof *items);
    bool *differs = aorta_arena_alloc(&scratch, s->count);
    uint32_t *rows = aorta_arena_alloc(&scratch, trees->count * sizeof *rows); /* + 1; 0: none */
    size_t count = 0;
    for (size_t node = 1; rows && node < trees->count; node++) {
        char name[512];
        const uint32_t common = aorta_call_trees_row(trees, (uint32_t)node);
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

/* ---- all of them ---- */

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
    aorta_intern_free(&samples->names);
    aorta_arena_end(&scratch, arena);
}
