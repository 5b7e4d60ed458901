#include "timeline/compare.h"
#include "base/compare.h"
#include "timeline/compare_samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const section_names[AORTA_SECTION_COUNT] = {
    [AORTA_SECTION_TIMELINE] = "timeline",      [AORTA_SECTION_CATEGORY] = "categories",
    [AORTA_SECTION_OPERATION] = "operations",   [AORTA_SECTION_SUBTREE] = "subtrees",
    [AORTA_SECTION_KERNEL] = "kernels",         [AORTA_SECTION_GEMM] = "gemms",
    [AORTA_SECTION_COLLECTIVE] = "collectives",
};

const char *aorta_trace_section_name(enum aorta_trace_section section) {
    return section_names[section];
}

/* Samples per rank, one recording after the other; zeros where the thing does not occur. */
static double *per_rank(const struct aorta_trace_side *side, const struct compare_samples_row *row) {
    double *values = calloc(side->step_count + 1, sizeof *values), *at = values;
    for (size_t r = 0; values && r < side->count; at += side->steps[r++]) {
        const struct compare_series *series = &row->series[side->first + r];
        for (size_t i = 0; series->ns && i < side->steps[r]; i++)
            at[i] = series->ns[i] / (double)side->inputs[r].analysis->rank_count;
    }
    return values;
}

/* The mean over its recordings, as aorta_compare's. */
static void measure(const struct aorta_trace_side *side, const struct compare_samples_row *row, const double *samples,
                    struct aorta_trace_compared *value) {
    double recordings = 0, all_ns = 0, all = 0, each = 0;
    for (size_t r = 0; r < side->count; samples += side->steps[r++]) {
        const struct compare_series *series = &row->series[side->first + r];
        const double steps = (double)side->steps[r], ranks = (double)side->inputs[r].analysis->rank_count;
        double sum_ns = 0;
        for (size_t i = 0; i < side->steps[r]; i++) sum_ns += samples[i];
        value->there |= series->ns != NULL;
        all_ns += sum_ns * ranks;
        all += series->count;
        if (!(steps > 0)) continue;
        recordings++;
        value->ms += sum_ns / steps / 1e6;
        each += series->count / steps / ranks;
    }
    if (recordings > 0) value->ms /= recordings;
    value->count = row->counted && recordings > 0 ? each / recordings : NAN;
    value->mean_us = row->counted && all > 0 ? all_ns / all / 1e3 : NAN;
}

/* Measured steps may be of a CPU; everything else that has steps ran on a GPU. */
static bool on_gpu(const struct aorta_trace_side *side) {
    const struct aorta_trace_analysis *analysis = side->inputs->analysis;
    const struct aorta_trace *trace = analysis->rank_count ? analysis->ranks[0].trace : NULL;
    return !trace || !trace->measured || trace->on_gpu;
}

/* Recordings without steps are a series themselves. */
static struct aorta_samples samples_of(const struct aorta_trace_comparison *c, size_t side, const double *values) {
    const struct aorta_trace_side *s = &c->sides[side];
    return (struct aorta_samples){values, s->step_count, c->stepped ? s->steps : NULL, s->count, s->pressures};
}

static void compare_with_base(const struct aorta_trace_comparison *c, const double *base, size_t side,
                              const double *samples, struct aorta_trace_compared *value) {
    const struct aorta_samples before = samples_of(c, 0, base), after = samples_of(c, side, samples);
    const struct aorta_between_runs between = aorta_between_runs_on(on_gpu(c->sides) && on_gpu(&c->sides[side]));
    value->compared = aorta_compare(&before, &after, AORTA_MEAN, c->stepped ? &between : NULL);
    value->p = value->compared.p_value;
    value->low_ms = value->compared.low / 1e6;
    value->high_ms = value->compared.high / 1e6;
}

static aorta_status compare_row(struct aorta_trace_comparison *c, const struct compare_samples_row *from,
                                struct aorta_trace_compare_row *row) {
    *row = (struct aorta_trace_compare_row){
        .section = from->section, .name = from->name, .communicates = from->communicates, .below = from->below};
    row->values = aorta_arena_alloc(&c->arena, c->side_count * sizeof *row->values);
    double *base = per_rank(c->sides, from);
    bool complete = row->values && base;
    for (size_t i = 0; complete && i < c->side_count; i++) {
        struct aorta_trace_compared *value = &row->values[i];
        double *samples = per_rank(&c->sides[i], from);
        complete = samples != NULL;
        if (!complete) break;
        measure(&c->sides[i], from, samples, value);
        value->change_ms = value->ms - row->values[0].ms;
        value->percent = row->values[0].ms > 0 ? value->change_ms / row->values[0].ms * 100 : NAN;
        value->p = value->low_ms = value->high_ms = NAN;
        if (i > 0) compare_with_base(c, base, i, samples, value);
        if (fabs(value->change_ms) > row->largest_ms) row->largest_ms = fabs(value->change_ms);
        free(samples);
    }
    free(base);
    return complete ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory to compare recordings");
}

static int by_change(const void *left, const void *right) {
    const struct aorta_trace_compare_row *a = left, *b = right;
    if (a->section != b->section) return a->section < b->section ? -1 : 1;
    if (a->largest_ms != b->largest_ms) return a->largest_ms > b->largest_ms ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The timeline's rows are met first and in their order; they stay where they are. */
static void sort_rows(struct aorta_trace_comparison *c) {
    size_t timeline = 0;
    struct aorta_trace_compare_row *rows = c->rows;
    for (size_t i = 0; i < c->row_count; i++) {
        if (rows[i].section != AORTA_SECTION_TIMELINE) continue;
        struct aorta_trace_compare_row row = rows[i];
        memmove(rows + timeline + 1, rows + timeline, (i - timeline) * sizeof *rows);
        rows[timeline++] = row;
    }
    qsort(rows + timeline, c->row_count - timeline, sizeof *rows, by_change);
}

/* False: no memory. */
static bool make_sides(struct aorta_trace_comparison *c, const struct aorta_trace_compare_input *inputs, size_t count,
                       const struct compare_samples *samples) {
    double *pressures = aorta_arena_alloc(&c->arena, count * sizeof *pressures);
    c->sides = pressures ? aorta_arena_alloc(&c->arena, count * sizeof *c->sides) : NULL;
    for (size_t i = 0; c->sides && i < count; i++) {
        pressures[i] = inputs[i].pressure;
        struct aorta_trace_side *side = &c->sides[samples->sides[i]];
        if (!side->count++)
            *side = (struct aorta_trace_side){
                .inputs = &inputs[i], .first = i, .count = 1, .steps = &samples->steps[i], .pressures = &pressures[i]};
        side->step_count += samples->steps[i];
        c->side_count = samples->sides[i] + 1;
    }
    return c->sides != NULL;
}

static const char *why_unsure(const struct aorta_trace_comparison *c) {
    const size_t fewest = aorta_compare_fewest(AORTA_MEAN);
    bool few = false;
    for (size_t i = 0; i < c->side_count; i++) {
        few |= !c->stepped && c->sides[i].count < fewest;
        for (size_t r = 0; c->stepped && r < c->sides[i].count; r++) few |= c->sides[i].steps[r] < fewest;
    }
    if (!few) return NULL;
    return c->stepped ? "fewer than three steps in a recording are too few to separate a change from chance: it needs "
                        "about 20"
                      : "not every recording marks its steps (ProfilerStep#N): no spread to compare a change with; "
                        "three recordings of each --label would show one";
}

aorta_status aorta_trace_compare(const struct aorta_trace_compare_input *inputs, size_t count,
                                 struct aorta_trace_comparison *c) {
    *c = (struct aorta_trace_comparison){0};
    struct compare_samples samples;
    aorta_status status = aorta_compare_samples_make(inputs, count, &c->arena, &samples);
    c->stepped = samples.stepped;
    if (!status && !make_sides(c, inputs, count, &samples))
        status = AORTA_ERROR(AORTA_MEMORY, "no memory to compare recordings");
    if (!status) {
        c->unsure = why_unsure(c);
        c->rows = aorta_arena_alloc(&c->arena, (samples.count + 1) * sizeof *c->rows);
        if (!c->rows) status = AORTA_ERROR(AORTA_MEMORY, "no memory to compare recordings");
    }
    for (size_t i = 0; i < samples.count && !status; i++)
        status = compare_row(c, &samples.rows[i], &c->rows[c->row_count++]);
    aorta_compare_samples_free(&samples);
    if (status) {
        aorta_trace_comparison_free(c);
        return status;
    }
    sort_rows(c);
    return NULL;
}

void aorta_trace_comparison_free(struct aorta_trace_comparison *comparison) {
    aorta_arena_free(&comparison->arena);
    *comparison = (struct aorta_trace_comparison){0};
}

bool aorta_trace_regressed(const struct aorta_trace_comparison *c, size_t side, double threshold) {
    if (c->row_count == 0) return false;
    const struct aorta_trace_compared *step = &c->rows[0].values[side];
    return step->percent > threshold * 100 && !(step->p >= aorta_significance);
}

/* ---- what changed most ---- */

static double sum_ms(const struct aorta_trace_comparison *c, enum aorta_trace_section section, size_t side) {
    double ms = 0;
    for (size_t i = 0; i < c->row_count; i++)
        if (c->rows[i].section == section) ms += c->rows[i].values[side].ms;
    return ms;
}

/* Operations launched most of the work on both sides: of a replayed graph nothing may be known. */
static bool operations_say_most(const struct aorta_trace_comparison *c, size_t side) {
    static const double most = 0.5;
    const size_t sides[] = {0, side};
    for (size_t i = 0; i < 2; i++)
        if (sum_ms(c, AORTA_SECTION_OPERATION, sides[i]) < most * sum_ms(c, AORTA_SECTION_CATEGORY, sides[i]))
            return false;
    return sum_ms(c, AORTA_SECTION_OPERATION, 0) > 0;
}

/* Whether the operation of this name (not ended) runs on one of the two sides only. */
static bool stands_alone(const struct aorta_trace_comparison *c, size_t side, const char *name, size_t length) {
    for (size_t i = 0; i < c->row_count; i++) {
        const struct aorta_trace_compare_row *row = &c->rows[i];
        if (row->section == AORTA_SECTION_OPERATION && !strncmp(row->name, name, length) && !row->name[length])
            return row->values[0].there != row->values[side].there;
    }
    return false;
}

/* Whether other operations do on one side what operations do on the other: "aten::clamp_min", "aten::threshold_". */
static bool is_replacement(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *row,
                           size_t side) {
    const size_t sides[] = {0, side};
    if (row->section != AORTA_SECTION_SUBTREE || !row->below) return false;
    if (!row->values[0].there || !row->values[side].there) return false;
    for (size_t i = 0; i < 2; i++) {
        const char *at = row->below[sides[i]];
        if (!at || !*at) return false;
        for (size_t length; *at; at += length + (at[length] ? 2 : 0)) {
            length = strcspn(at, ",");
            if (!stands_alone(c, side, at, length)) return false;
        }
    }
    return true;
}

static bool is_replaced(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *operation,
                        size_t side) {
    const size_t of = operation->values[0].there ? 0 : side, length = strlen(operation->name);
    if (operation->values[0].there == operation->values[side].there) return false;
    for (size_t i = 0; i < c->row_count; i++) {
        const struct aorta_trace_compare_row *row = &c->rows[i];
        const char *found = row->below && row->below[of] ? strstr(row->below[of], operation->name) : NULL;
        if (found && (!found[length] || found[length] == ',') && is_replacement(c, row, side)) return true;
    }
    return false;
}

static bool is_one_thing(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *row, size_t side,
                         bool operations) {
    static const char idle[] = "idle: ", exposed[] = ": exposed";
    const size_t length = strlen(row->name), end = sizeof exposed - 1;
    if (row->section == AORTA_SECTION_TIMELINE) return !strncmp(row->name, idle, sizeof idle - 1);
    if (row->section == AORTA_SECTION_COLLECTIVE) return length > end && !strcmp(row->name + length - end, exposed);
    if (row->communicates) return false;
    if (!operations) return row->section == AORTA_SECTION_CATEGORY;
    return row->section == AORTA_SECTION_OPERATION ? !is_replaced(c, row, side) : is_replacement(c, row, side);
}

const struct aorta_trace_compare_row *aorta_trace_changed_most(const struct aorta_trace_comparison *c, size_t side,
                                                               double *share) {
    static const double least = 0.01; /* of the base's step */
    const bool operations = operations_say_most(c, side);
    const struct aorta_trace_compare_row *most = NULL;
    double all_ms = 0;
    size_t count = 0;
    for (size_t i = 0; i < c->row_count; i++) {
        if (!is_one_thing(c, &c->rows[i], side, operations)) continue;
        all_ms += fabs(c->rows[i].values[side].change_ms);
        count++;
    }
    for (size_t i = 0; i < c->row_count; i++) {
        const struct aorta_trace_compare_row *row = &c->rows[i];
        const struct aorta_trace_compared *value = &row->values[side];
        if (fabs(value->change_ms) < least * c->rows[0].values[0].ms) continue;
        if (value->p >= aorta_significance / (double)count || value->change_ms == 0) continue;
        if (!is_one_thing(c, row, side, operations)) continue;
        if (!most || fabs(value->change_ms) > fabs(most->values[side].change_ms)) most = row;
    }
    *share = most ? fabs(most->values[side].change_ms) / all_ms : NAN;
    return most;
}

/* ---- labels ---- */

/* Of the folders that all paths begin with, with the last slash. */
static size_t common_folders(const char *const *paths, size_t count) {
    size_t same = 0;
    for (size_t i = 0; paths[0][i]; i++) {
        for (size_t p = 1; p < count; p++)
            if (paths[p][i] != paths[0][i]) return same;
        if (paths[0][i] == '/') same = i + 1;
    }
    return same;
}

static size_t without_ending(const char *name) {
    static const char *const endings[] = {".gz", ".json", ".trace", ".pt"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t end = strlen(endings[i]);
        if (length > end && !strncmp(name + length - end, endings[i], end)) length -= end;
    }
    return length;
}

const char **aorta_trace_compare_labels(const char *const *paths, size_t count, struct aorta_arena *arena) {
    const char **labels = aorta_arena_alloc(arena, (count + 1) * sizeof *labels);
    const size_t folders = common_folders(paths, count);
    bool apart = true;
    for (size_t i = 0; labels && i < count; i++) {
        const char *name = paths[i] + folders;
        labels[i] = aorta_arena_printf(arena, "%.*s", (int)without_ending(name), name);
        if (!labels[i]) return NULL;
        apart &= labels[i][0] != '\0';
        for (size_t j = 0; j < i; j++) apart &= strcmp(labels[i], labels[j]) != 0;
    }
    for (size_t i = 0; labels && i < count && !apart; i++) labels[i] = paths[i];
    return labels;
}
