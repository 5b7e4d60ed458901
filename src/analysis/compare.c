#include "analysis/compare.h"
#include "base/compare.h"
#include "base/sort.h"
#include "trace/source.h"

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

/* Samples per rank, one recording after the other; zeros if the row does not occur. */
static double *per_rank(const struct aorta_trace_side *side, const struct compare_samples_row *row,
                        struct aorta_arena *memory) {
    double *values = aorta_arena_alloc(memory, side->step_count * sizeof *values), *at = values;
    for (size_t r = 0; values && r < side->count; at += side->steps[r++]) {
        const struct compare_series *series = &row->series[side->first + r];
        for (size_t i = 0; series->ns && i < side->steps[r]; i++)
            at[i] = series->ns[i] / 1e6 / (double)side->inputs[r].analysis->rank_count;
    }
    return values;
}

/* The mean over the side's recordings, as in aorta_compare. */
static void measure(const struct aorta_trace_side *side, const struct compare_samples_row *row, const double *samples,
                    struct aorta_trace_compared *value) {
    double recordings = 0, all_ms = 0, all = 0, each = 0;
    for (size_t r = 0; r < side->count; samples += side->steps[r++]) {
        const struct compare_series *series = &row->series[side->first + r];
        const double steps = (double)side->steps[r], ranks = (double)side->inputs[r].analysis->rank_count;
        double sum_ms = 0;
        for (size_t i = 0; i < side->steps[r]; i++) sum_ms += samples[i];
        value->there |= series->ns != NULL;
        all_ms += sum_ms * ranks;
        all += series->count;
        if (!(steps > 0)) continue;
        recordings++;
        value->ms += sum_ms / steps;
        each += series->count / steps / ranks;
    }
    if (recordings > 0) value->ms /= recordings;
    value->count = row->counted && recordings > 0 ? each / recordings : NAN;
    value->mean_us = row->counted && all > 0 ? 1e3 * all_ms / all : NAN;
}

/* Measured steps may be of a CPU; other recordings are of GPUs. */
static bool on_gpu(const struct aorta_trace_side *side) {
    const struct aorta_trace_analysis *analysis = side->inputs->analysis;
    const struct aorta_trace *trace = analysis->rank_count ? analysis->ranks[0].trace : NULL;
    return !trace || !trace->measured || trace->on_gpu;
}

/* Recordings without steps form one series. */
static struct aorta_samples samples_of(const struct aorta_trace_comparison *c, size_t side, const double *values) {
    const struct aorta_trace_side *s = &c->sides[side];
    return (struct aorta_samples){values, s->step_count, c->stepped ? s->steps : NULL, s->count, s->pressures};
}

static struct aorta_comparison compare_with_base(const struct aorta_trace_comparison *c, const double *base,
                                                 size_t side, const double *samples) {
    const struct aorta_samples before = samples_of(c, 0, base), after = samples_of(c, side, samples);
    const struct aorta_between_runs between = aorta_between_runs_on(on_gpu(c->sides) && on_gpu(&c->sides[side]));
    return aorta_compare(&before, &after, AORTA_MEAN, c->stepped ? &between : NULL);
}

static void compare_row(struct aorta_trace_comparison *c, const struct compare_samples_row *from,
                        struct aorta_trace_compare_row *row) {
    *row = from->row;
    row->values = aorta_arena_alloc(&c->arena, c->side_count * sizeof *row->values);
    struct aorta_arena scratch = {0};
    const double *base = per_rank(c->sides, from, &scratch);
    for (size_t i = 0; row->values && i < c->side_count; i++) {
        struct aorta_trace_compared *value = &row->values[i];
        const double *samples = per_rank(&c->sides[i], from, &scratch);
        if (scratch.failed) break;
        measure(&c->sides[i], from, samples, value);
        value->change_ms = value->ms - row->values[0].ms;
        value->percent = row->values[0].ms > 0 ? value->change_ms / row->values[0].ms * 100 : NAN;
        value->of = compare_with_base(c, base, i, samples);
        if (fabs(value->change_ms) > row->largest_ms) row->largest_ms = fabs(value->change_ms);
    }
    aorta_arena_end(&scratch, &c->arena);
}

static AORTA_ORDER(by_change, struct aorta_trace_compare_row,
                   AORTA_UP(section) AORTA_DOWN(largest_ms) AORTA_TEXT(name));

/* Moves the timeline's rows to the front in their order, and sorts the remaining rows. */
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

static void make_sides(struct aorta_trace_comparison *c, const struct aorta_trace_compare_input *inputs, size_t count,
                       const struct compare_samples *samples) {
    double *pressures = aorta_arena_alloc(&c->arena, count * sizeof *pressures);
    c->sides = aorta_arena_alloc(&c->arena, count * sizeof *c->sides);
    for (size_t i = 0; c->sides && i < count; i++) {
        pressures[i] = inputs[i].pressure;
        struct aorta_trace_side *side = &c->sides[samples->sides[i]];
        if (!side->count++)
            *side = (struct aorta_trace_side){
                .inputs = &inputs[i], .first = i, .count = 1, .steps = &samples->steps[i], .pressures = &pressures[i]};
        side->step_count += samples->steps[i];
        c->side_count = samples->sides[i] + 1;
    }
}

static const char *why_unsure(struct aorta_trace_comparison *c) {
    const double enough = (double)aorta_compare_fewest(AORTA_MEAN);
    double fewest = enough;
    for (size_t i = 0; i < c->side_count; i++)
        for (size_t r = 0; r < c->sides[i].count; r++)
            fewest = fmin(fewest, (double)(c->stepped ? c->sides[i].steps[r] : c->sides[i].count));
    if (fewest == enough) return NULL;
    if (!c->stepped)
        return "not every recording marks its steps (ProfilerStep#N): no spread to compare a change with; three "
               "recordings of each --label would show one";
    return aorta_arena_printf(&c->arena, "%s per recording %s too few, about 20 needed",
                              aorta_counted((long long)fewest, "step").text, fewest == 1 ? "is" : "are");
}

void aorta_trace_comparison_free(struct aorta_trace_comparison *comparison) {
    aorta_arena_free(&comparison->arena);
    *comparison = (struct aorta_trace_comparison){0};
}

bool aorta_trace_regressed(const struct aorta_trace_comparison *c, size_t side, double threshold) {
    if (c->row_count == 0) return false;
    const struct aorta_trace_compared *step = &c->rows[0].values[side];
    return step->percent > threshold * 100 && !(step->of.p_value >= aorta_significance);
}

/* ---- the largest changes ---- */

static double sum_ms(const struct aorta_trace_comparison *c, enum aorta_trace_section section, size_t side) {
    double ms = 0;
    for (size_t i = 0; i < c->row_count; i++)
        if (c->rows[i].section == section) ms += c->rows[i].values[side].ms;
    return ms;
}

/* Whether operations launched most of the work on both sides. Operations of replayed graphs may be unknown. */
static bool operations_say_most(const struct aorta_trace_comparison *c, size_t side) {
    static const double most = 0.5;
    const size_t sides[] = {0, side};
    for (size_t i = 0; i < 2; i++)
        if (sum_ms(c, AORTA_SECTION_OPERATION, sides[i]) < most * sum_ms(c, AORTA_SECTION_CATEGORY, sides[i]))
            return false;
    return sum_ms(c, AORTA_SECTION_OPERATION, 0) > 0;
}

/* Whether the operation of this name runs only on one of the two sides. */
static bool is_alone(const struct aorta_trace_comparison *c, size_t side, const char *name) {
    AORTA_EACH (const struct aorta_trace_compare_row, row, c->rows, c->row_count)
        if (row->section == AORTA_SECTION_OPERATION && !strcmp(row->name, name))
            return row->values[0].there != row->values[side].there;
    return false;
}

/* Whether the operations of a subtree replace each other, as each runs only on one side: "aten::clamp_min",
 * "aten::threshold_". */
static bool is_replacement(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *row,
                           size_t side) {
    const size_t sides[] = {0, side};
    if (row->section != AORTA_SECTION_SUBTREE || !row->below) return false;
    if (!row->values[0].there || !row->values[side].there) return false;
    for (size_t i = 0; i < 2; i++) {
        const struct aorta_trace_below *below = &row->below[sides[i]];
        if (!below->count || below->count > AORTA_BELOW) return false;
        for (size_t n = 0; n < below->count; n++)
            if (!is_alone(c, side, below->names[n])) return false;
    }
    return true;
}

static bool is_below(const struct aorta_trace_below *below, const char *name) {
    for (size_t n = 0; n < below->count && n < AORTA_BELOW; n++)
        if (!strcmp(below->names[n], name)) return true;
    return false;
}

static bool is_replaced(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *operation,
                        size_t side) {
    const size_t of = operation->values[0].there ? 0 : side;
    if (operation->values[0].there == operation->values[side].there) return false;
    AORTA_EACH (const struct aorta_trace_compare_row, row, c->rows, c->row_count)
        if (row->below && is_below(&row->below[of], operation->name) && is_replacement(c, row, side)) return true;
    return false;
}

static bool is_one_thing(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *row, size_t side,
                         bool operations) {
    if (row->part) return true;
    if (row->section == AORTA_SECTION_TIMELINE || row->communicates) return false;
    if (!operations) return row->section == AORTA_SECTION_CATEGORY;
    return row->section == AORTA_SECTION_OPERATION ? !is_replaced(c, row, side) : is_replacement(c, row, side);
}

/* If p is unknown, each change counts. If the step's change is significant, a row with half of it only needs its own p,
 * without correction. `rows` has space for each row. */
static const struct aorta_trace_compare_row *find_largest(const struct aorta_trace_comparison *c, size_t side,
                                                          bool longer, struct aorta_compared *rows) {
    static const double least = 0.01; /* of the base's step */
    const bool operations = operations_say_most(c, side);
    size_t count = 0;
    for (size_t i = 0; i < c->row_count; i++) {
        const struct aorta_trace_compared *value = &c->rows[i].values[side];
        if (!is_one_thing(c, &c->rows[i], side, operations)) continue;
        const double far = longer ? value->change_ms : -value->change_ms;
        rows[count++] = (struct aorta_compared){.figure = c->rows[i].name,
                                                .source = &c->rows[i],
                                                .family = 1,
                                                .far = far,
                                                .too_small = !(far > 0) || far < least * c->rows[0].values[0].ms,
                                                .of = value->of};
    }
    aorta_compared_correct(rows, count);
    const struct aorta_trace_compared *step = &c->rows[0].values[side];
    for (size_t i = 0; i < count; i++) {
        const bool half = step->of.p_value < aorta_significance && 2 * rows[i].far >= fabs(step->change_ms);
        rows[i].counts |= !rows[i].too_small && (isnan(rows[i].p) || (half && rows[i].of.p_value < aorta_significance));
    }
    const struct aorta_compared *largest = aorta_compared_largest(rows, count);
    return largest ? largest->source : NULL;
}

static void find_largest_of_sides(struct aorta_trace_comparison *c) {
    struct aorta_arena scratch = {0};
    struct aorta_compared *rows = aorta_arena_raw(&scratch, c->row_count * sizeof *rows);
    for (size_t side = 1; rows && side < c->side_count; side++) {
        c->sides[side].longer = find_largest(c, side, true, rows);
        c->sides[side].shorter = find_largest(c, side, false, rows);
    }
    aorta_arena_end(&scratch, &c->arena);
}

/* ---- the comparison ---- */

aorta_status aorta_trace_compare(const struct aorta_trace_compare_input *inputs, size_t count,
                                 struct aorta_trace_comparison *c) {
    *c = (struct aorta_trace_comparison){0};
    struct compare_samples samples;
    aorta_compare_samples_make(inputs, count, &c->arena, &samples);
    c->stepped = samples.stepped;
    make_sides(c, inputs, count, &samples);
    c->rows = aorta_arena_alloc(&c->arena, samples.count * sizeof *c->rows);
    if (!c->arena.failed) c->unsure = why_unsure(c);
    for (size_t i = 0; !c->arena.failed && i < samples.count; i++)
        compare_row(c, &samples.rows[i], &c->rows[c->row_count++]);
    if (!c->arena.failed) sort_rows(c);
    if (!c->arena.failed) find_largest_of_sides(c);
    aorta_status status = aorta_arena_check(&c->arena, "the comparison of recordings");
    if (status) aorta_trace_comparison_free(c);
    return status;
}

/* ---- labels ---- */

/* Length of the folders common to all paths, including the last slash. */
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
    static const char *const endings[] = {".json", ".trace", ".pt"};
    size_t length = aorta_packing_strip(name);
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
