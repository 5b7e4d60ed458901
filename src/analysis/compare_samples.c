#include "analysis/compare_samples.h"

#include "analysis/call_trees.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/sort.h"
#include "base/text.h"
#include "trace/work_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows by name ---- */

static aorta_status no_memory(void) {
    return AORTA_ERROR(AORTA_MEMORY, "no memory to compare recordings");
}

struct row_key {
    enum aorta_trace_section section;
    const char *name;
};

static uint64_t hash_of_name(enum aorta_trace_section section, const char *name) {
    return aorta_hash_bytes(name, strlen(name)) + section;
}

static uint64_t hash_of(const void *of, uint32_t number) {
    const struct compare_samples *s = of;
    return hash_of_name(s->rows[number].section, s->rows[number].name);
}

static bool is_row(const void *of, uint32_t number, const void *key) {
    const struct compare_samples *s = of;
    const struct row_key *wanted = key;
    return s->rows[number].section == wanted->section && strcmp(s->rows[number].name, wanted->name) == 0;
}

static aorta_status find_row(struct compare_samples *s, enum aorta_trace_section section, const char *name,
                             size_t *index) {
    if (!aorta_table_reserve(&s->table, s->count + 1, hash_of, s)) return no_memory();
    const struct row_key key = {section, name};
    uint32_t *slot = aorta_table_slot(&s->table, hash_of_name(section, name), is_row, s, &key);
    if (!*slot) {
        if (!aorta_array_fit(&s->rows, &s->capacity, s->count + 1, sizeof *s->rows)) return no_memory();
        struct compare_samples_row *row = &s->rows[s->count];
        *row = (struct compare_samples_row){
            .section = section,
            .name = aorta_arena_strdup(s->arena, name),
            .series = aorta_arena_alloc(s->arena, s->inputs * sizeof *row->series),
        };
        if (!row->name || !row->series) return no_memory();
        *slot = (uint32_t)++s->count;
    }
    *index = *slot - 1;
    return NULL;
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

static aorta_status add(struct collecting *c, size_t row, size_t step, int64_t ns, bool counted) {
    struct compare_samples_row *r = &c->samples->rows[row];
    struct compare_series *series = &r->series[c->input];
    if (!series->ns) series->ns = aorta_arena_alloc(c->samples->arena, c->step_count * sizeof *series->ns);
    if (!series->ns) return no_memory();
    series->ns[step] += (double)ns;
    series->count += counted;
    r->counted |= counted; /* where it occurs as the rest of what began before, it still is a thing */
    return NULL;
}

static aorta_status add_named(struct collecting *c, enum aorta_trace_section section, const char *name, size_t step,
                              int64_t ns, bool counted) {
    size_t row = 0;
    AORTA_TRY(find_row(c->samples, section, name, &row));
    return add(c, row, step, ns, counted);
}

/* Adds work, which may be a collective. */
static aorta_status add_named_work(struct collecting *c, enum aorta_trace_section section, const char *name,
                                   const struct aorta_trace_work *work, size_t step, int64_t ns, bool counted) {
    size_t row = 0;
    AORTA_TRY(find_row(c->samples, section, name, &row));
    c->samples->rows[row].communicates |= aorta_trace_is_collective(work);
    return add(c, row, step, ns, counted);
}

/* A part of the step. */
static aorta_status add_part(struct collecting *c, enum aorta_trace_section section, const char *name, size_t step,
                             int64_t ns) {
    size_t row = 0;
    AORTA_TRY(find_row(c->samples, section, name, &row));
    c->samples->rows[row].part = true;
    return add(c, row, step, ns, false);
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

static aorta_status add_classes(struct collecting *c, const struct aorta_overlap *overlap, size_t step) {
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        int64_t ns;
        memcpy(&ns, (const char *)overlap + classes[i].offset, sizeof ns);
        size_t row = 0;
        AORTA_TRY(find_row(c->samples, AORTA_SECTION_TIMELINE, classes[i].name, &row));
        c->samples->rows[row].good = classes[i].good;
        AORTA_TRY(add(c, row, step, ns, false));
    }
    return NULL;
}

static aorta_status add_idle(struct collecting *c, const struct aorta_idle *idle, size_t step) {
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "idle: %s", aorta_idle_words[i].name);
        AORTA_TRY(add_part(c, AORTA_SECTION_TIMELINE, name, step, idle->ns[i]));
    }
    return NULL;
}

/* A step counts with the gap before it, as the verdict's does: busy and idle add up to it, and the causes to idle.
 * Where a run measured its steps, that is the step, as `aorta report` has it; the gaps of ranges are a little off. */
static aorta_status add_timeline(struct collecting *c, const struct aorta_trace_window *window, size_t step) {
    const char *whole = c->samples->stepped ? "step" : "recording";
    const struct aorta_overlap *all = &window->overlap;
    const int64_t step_ns = window->step_ns > 0 ? window->step_ns : all->lead_ns + all->span_ns;
    AORTA_TRY(add_named(c, AORTA_SECTION_TIMELINE, whole, step, step_ns, false));
    AORTA_TRY(add_classes(c, all, step));
    AORTA_TRY(add_named(c, AORTA_SECTION_TIMELINE, "idle", step, all->lead_ns + all->idle_ns, false));
    AORTA_TRY(add_idle(c, &all->idle, step));
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        const struct aorta_collective_overlap *overlap = &window->overlap.kind[kind];
        char name[64];
        if (!overlap->count) continue;
        snprintf(name, sizeof name, "%s: exposed", aorta_trace_kind_name(c->analysis, (enum aorta_collective)kind));
        AORTA_TRY(add_part(c, AORTA_SECTION_COLLECTIVE, name, step, overlap->blamed_ns));
    }
    return NULL;
}

static aorta_status add_gemm(struct collecting *c, const struct aorta_trace *trace, const struct aorta_trace_work *work,
                             size_t step, int64_t ns, bool counted) {
    uint32_t *known = &c->gemm_rows[work->shape];
    if (!*known) {
        const struct aorta_trace_shape *shape = &trace->shapes[work->shape];
        char name[512];
        size_t row = 0;
        snprintf(name, sizeof name, "%s %s %s", aorta_trace_text(trace, shape->op),
                 aorta_trace_text(trace, shape->dims), aorta_trace_text(trace, shape->types));
        AORTA_TRY(find_row(c->samples, AORTA_SECTION_GEMM, name, &row));
        *known = (uint32_t)row + 1;
    }
    return add(c, *known - 1, step, ns, counted);
}

/* `counted`: the range is not the rest of work that began in the window before, which has counted it. */
/* By what the work does and what launched it. */
static aorta_status add_launched(struct collecting *c, const struct aorta_trace_work *work, uint32_t node, size_t step,
                                 int64_t ns, bool counted) {
    char name[512];
    const char *operation = aorta_work_operation(&c->names, work);
    const char *category = aorta_work_category(&c->names, work);
    AORTA_TRY(add_named_work(c, AORTA_SECTION_CATEGORY, category, work, step, ns, counted));
    if (operation) AORTA_TRY(add_named_work(c, AORTA_SECTION_OPERATION, operation, work, step, ns, counted));
    if (!c->trees->any) return NULL;
    aorta_call_trees_name(c->trees, aorta_call_trees_row(c->trees, node), name, sizeof name);
    return add_named_work(c, AORTA_SECTION_SUBTREE, name, work, step, ns, counted);
}

static aorta_status add_work(struct collecting *c, const struct aorta_trace *trace, const struct aorta_trace_work *work,
                             const struct aorta_range *range, size_t step, bool counted) {
    int64_t ns = range->end_ns - range->start_ns;
    uint32_t *known = &c->kernel_rows[work->name];
    if (!*known) {
        const char *text = aorta_trace_text(trace, work->name);
        size_t row = 0;
        AORTA_TRY(find_row(c->samples, AORTA_SECTION_KERNEL, text, &row));
        *known = (uint32_t)row + 1;
        c->gemms[work->name] = work->class == AORTA_KERNEL_COMPUTE && aorta_kernel_is_gemm(text);
    }
    AORTA_TRY(add(c, *known - 1, step, ns, counted));
    if (work->kind == AORTA_TRACE_KERNEL && work->shape != AORTA_TRACE_NONE && c->gemms[work->name])
        AORTA_TRY(add_gemm(c, trace, work, step, ns, counted));
    if (range->info.kind != AORTA_RANGE_COLLECTIVE) return NULL;
    char name[64];
    const char *kind = aorta_trace_kind_name(c->analysis, range->info.collective);
    if (range->info.group_size > 0)
        snprintf(name, sizeof name, "%s, %d ranks", kind, range->info.group_size);
    else
        snprintf(name, sizeof name, "%s", kind);
    return add_named(c, AORTA_SECTION_COLLECTIVE, name, step, ns, counted);
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

static aorta_status add_rank(struct collecting *c, const struct aorta_trace_rank *rank) {
    for (size_t i = 0; i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        size_t step;
        if (!step_of(c, window, &step)) continue;
        AORTA_TRY(add_timeline(c, window, step));
        for (size_t r = 0; r < window->profile.range_count; r++) {
            const struct aorta_trace_work *work = &rank->work[window->work[r]];
            bool whole = work->start_ns >= window->start_ns;
            const struct aorta_range *range = &window->profile.ranges[r];
            const int64_t ns = range->end_ns - range->start_ns;
            AORTA_TRY(add_launched(c, work, c->nodes[window->work[r]], step, ns, whole));
            AORTA_TRY(add_work(c, rank->trace, work, range, step, whole));
        }
    }
    return NULL;
}

static aorta_status list_steps(struct collecting *c) {
    size_t windows = 0, count = 0;
    for (size_t r = 0; r < c->analysis->rank_count; r++) windows += c->analysis->ranks[r].window_count;
    c->numbers = malloc((windows + 1) * sizeof *c->numbers);
    if (!c->numbers) return no_memory();
    for (size_t r = 0; r < c->analysis->rank_count; r++)
        for (size_t w = 0; w < c->analysis->ranks[r].window_count; w++)
            if (aorta_trace_step_counts(c->analysis, c->analysis->ranks[r].windows[w].number))
                c->numbers[count++] = c->analysis->ranks[r].windows[w].number;
    aorta_sort_int64(c->numbers, count);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || c->numbers[i] != c->numbers[i - 1]) c->numbers[c->step_count++] = c->numbers[i];
    if (!c->samples->stepped) c->step_count = 1;
    return NULL;
}

static aorta_status collect(struct collecting *c) {
    AORTA_TRY(list_steps(c));
    for (size_t r = 0; r < c->analysis->rank_count; r++) {
        const struct aorta_trace_rank *rank = &c->analysis->ranks[r];
        size_t texts = aorta_trace_text_count(rank->trace);
        c->nodes = c->trees->of_work[c->input][r];
        c->kernel_rows = calloc(texts + 1, sizeof *c->kernel_rows);
        c->gemm_rows = calloc(rank->trace->shape_count + 1, sizeof *c->gemm_rows);
        c->gemms = calloc(texts + 1, sizeof *c->gemms);
        const bool made = aorta_work_names_make(rank->trace, &c->names);
        aorta_status status = made && c->kernel_rows && c->gemm_rows && c->gemms ? add_rank(c, rank) : no_memory();
        aorta_work_names_free(&c->names);
        free(c->kernel_rows);
        free(c->gemm_rows);
        free(c->gemms);
        AORTA_TRY(status);
    }
    return NULL;
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
static aorta_status describe(struct compare_samples *s, struct below *items, size_t count) {
    struct compare_samples_row *row = &s->rows[items[0].row];
    size_t names = 0;
    for (size_t i = 0; i < count; i++)
        if (names && !strcmp(items[names - 1].name, items[i].name))
            items[names - 1].ns += items[i].ns;
        else
            items[names++] = items[i];
    qsort(items, names, sizeof *items, largest_first);
    if (!row->below) row->below = aorta_arena_alloc(s->arena, s->inputs * sizeof *row->below);
    if (!row->below) return no_memory();
    struct aorta_trace_below *below = &row->below[items[0].side];
    for (below->count = 0; below->count < names; below->count++) {
        if (below->count >= AORTA_BELOW) continue;
        below->names[below->count] = aorta_arena_strdup(s->arena, items[below->count].name);
        if (!below->names[below->count]) return no_memory();
    }
    return NULL;
}

/* Rows below which recordings differ, and what each of them has there. */
static aorta_status describe_subtrees(struct compare_samples *s, const struct aorta_call_trees *trees) {
    struct below *items = calloc(trees->count * trees->inputs + 1, sizeof *items);
    bool *differs = calloc(s->count + 1, sizeof *differs);
    uint32_t *rows = calloc(trees->count + 1, sizeof *rows); /* + 1; 0: none */
    aorta_status status = items && differs && rows ? NULL : no_memory();
    size_t count = 0;
    for (size_t node = 1; node < trees->count && !status; node++) {
        char name[512];
        const uint32_t common = aorta_call_trees_row(trees, (uint32_t)node);
        const struct row_key key = {AORTA_SECTION_SUBTREE, aorta_call_trees_name(trees, common, name, sizeof name)};
        if (!s->table.slot_count) break;
        rows[node] = *aorta_table_slot(&s->table, hash_of_name(key.section, key.name), is_row, s, &key);
        if (rows[node] && common != node) differs[rows[node] - 1] = true;
    }
    for (size_t node = 1; node < trees->count && !status; node++)
        for (size_t i = 0; i < trees->inputs; i++) {
            const double ns = trees->ns[node * trees->inputs + i];
            if (!rows[node] || !differs[rows[node] - 1] || !(ns > 0)) continue;
            items[count++] = (struct below){rows[node] - 1, s->sides[i], trees->nodes[node].name, ns};
        }
    if (count) qsort(items, count, sizeof *items, by_row_and_side);
    for (size_t first = 0, end; first < count && !status; first = end) {
        for (end = first; end < count && items[end].row == items[first].row && items[end].side == items[first].side;)
            end++;
        status = describe(s, items + first, end - first);
    }
    free(items);
    free(differs);
    free(rows);
    return status;
}

/* ---- all of them ---- */

static aorta_status make(struct compare_samples *samples, const struct aorta_trace_compare_input *inputs, size_t count,
                         const struct aorta_call_trees *trees) {
    for (size_t i = 0; i < count; i++) {
        struct collecting c = {.samples = samples, .input = i, .analysis = inputs[i].analysis, .trees = trees};
        aorta_status status = collect(&c);
        samples->steps[i] = c.step_count;
        free(c.numbers);
        AORTA_TRY(status);
    }
    return trees->any ? describe_subtrees(samples, trees) : NULL;
}

aorta_status aorta_compare_samples_make(const struct aorta_trace_compare_input *inputs, size_t count,
                                        struct aorta_arena *arena, struct compare_samples *samples) {
    struct aorta_call_trees trees;
    *samples = (struct compare_samples){.arena = arena, .inputs = count, .stepped = true};
    for (size_t i = 0; i < count; i++) samples->stepped = samples->stepped && inputs[i].analysis->stepped;
    samples->steps = aorta_arena_alloc(arena, count * sizeof *samples->steps);
    samples->sides = aorta_arena_alloc(arena, count * sizeof *samples->sides);
    if (!samples->steps || !samples->sides) return no_memory();
    for (size_t i = 1; i < count; i++) samples->sides[i] = samples->sides[i - 1] + !inputs[i].repeats;
    aorta_status status = aorta_call_trees_make(inputs, count, &trees);
    if (!status) status = make(samples, inputs, count, &trees);
    aorta_call_trees_free(&trees);
    return status;
}

void aorta_compare_samples_free(struct compare_samples *samples) {
    free(samples->rows);
    samples->rows = NULL;
    aorta_table_free(&samples->table);
}
