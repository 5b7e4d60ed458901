/* The comparison of runs as text and as JSON. */
#include "base/json.h"
#include "base/lines.h"
#include "base/result_table.h"
#include "report/trace_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 12, NAME_WIDTH = 46, NAME_SIZE = 512 };

/* ---- text ---- */

static const char *const titles[AORTA_SECTION_COUNT] = {
    [AORTA_SECTION_TIMELINE] = "timeline",
    [AORTA_SECTION_CATEGORY] = "by what the work does, largest change first",
    [AORTA_SECTION_OPERATION] = "by operation of the framework, largest change first",
    [AORTA_SECTION_SUBTREE] = "same module, different operations",
    [AORTA_SECTION_KERNEL] = "kernels and copies, largest change first",
    [AORTA_SECTION_GEMM] = "matrix products by shape, largest change first",
    [AORTA_SECTION_COLLECTIVE] = "collectives, largest change first",
};

static const char *label_of(const struct aorta_trace_comparison *c, size_t side) {
    return c->sides[side].inputs->label;
}

static void put_value(const struct aorta_trace_compared *value, bool base, struct aorta_text *out) {
    if (!value->there)
        aorta_text_printf(out, " %11s", "-");
    else
        aorta_text_printf(out, " %11.3f", value->ms);
    if (base) return;
    char share[24] = "new", chance[24] = "";
    if (!isnan(value->percent)) snprintf(share, sizeof share, "%+.1f%%", value->percent);
    if (isnan(value->percent) && value->change_ms == 0) share[0] = '\0';
    if (!isnan(value->p)) snprintf(chance, sizeof chance, "p=%.3f", value->p);
    if (value->p < 0.001) snprintf(chance, sizeof chance, "p<0.001");
    aorta_text_printf(out, " %+11.3f %8s %8s", value->change_ms, share, chance);
}

/* Of a kernel short on a terminal, else as the file has it (columns 0). */
static const char *name_of(const struct aorta_trace_compare_row *row, int columns, char name[NAME_SIZE]) {
    bool kernel = row->section == AORTA_SECTION_KERNEL;
    return kernel && columns ? aorta_kernel_short_name(row->name, name, NAME_SIZE) : row->name;
}

static void put_row(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *row, int columns,
                    struct aorta_text *out) {
    char buffer[NAME_SIZE];
    const char *name = name_of(row, columns, buffer);
    if (columns) aorta_text_puts(out, "  ");
    aorta_text_row_begin(out, name, columns);
    for (size_t i = 0; i < c->side_count; i++) put_value(&row->values[i], i == 0, out);
    aorta_text_row_end(out, name, columns);
}

/* Which operations did the work in each recording. */
static void put_below(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *row,
                      struct aorta_text *out) {
    for (size_t i = 0; row->below && i < c->side_count; i++)
        aorta_text_printf(out, "        %s: %s\n", label_of(c, i), row->below[i] ? row->below[i] : "nothing");
}

static void put_section(const struct aorta_trace_comparison *c, enum aorta_trace_section section, int columns,
                        struct aorta_text *out) {
    size_t shown = 0, left_out = 0;
    for (size_t i = 0; i < c->row_count; i++) {
        const struct aorta_trace_compare_row *row = &c->rows[i];
        if (row->section != section || (section == AORTA_SECTION_SUBTREE && !row->below)) continue;
        if (shown == MOST_ROWS && section != AORTA_SECTION_TIMELINE) {
            left_out++;
            continue;
        }
        if (!shown) aorta_text_printf(out, "%s\n", titles[section]);
        put_row(c, row, columns, out);
        put_below(c, row, out);
        shown++;
    }
    if (left_out) aorta_text_printf(out, "  … and %zu that changed less (--json has all)\n", left_out);
}

/* How much a figure of the timeline changed, beyond chance where that is known; as one of `figures` it has to be the
 * less likely (Bonferroni). 0: it does not count. */
static double change_of(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *row, size_t side,
                        size_t figures) {
    const struct aorta_trace_compared *value = &row->values[side];
    const double far = fabs(value->change_ms);
    if (row->section != AORTA_SECTION_TIMELINE || value->p >= aorta_significance / (double)figures) return 0;
    return far < 0.01 * c->rows[0].values[0].ms ? 0 : far;
}

/* Where no one thing changed most: the step's change, else that of the figure of the timeline that changed most. */
static void put_figure(const struct aorta_trace_comparison *c, size_t side, struct aorta_text *out) {
    const struct aorta_trace_compare_row *largest = c->rows;
    const char *base = label_of(c, 0), *test = label_of(c, side);
    size_t figures = 0;
    while (figures < c->row_count && c->rows[figures].section == AORTA_SECTION_TIMELINE) figures++;
    double farthest = figures && c->stepped ? change_of(c, c->rows, side, 1) : 0;
    const bool step = farthest > 0;
    for (size_t i = 0; i < figures && !step; i++) {
        const double far = change_of(c, &c->rows[i], side, figures);
        if (far <= farthest) continue;
        farthest = far;
        largest = &c->rows[i];
    }
    if (!(farthest > 0)) {
        aorta_text_printf(out, "No figure of %s differs from %s beyond the noise and 1%% of a %s.", test, base,
                          c->stepped ? "step" : "recording");
        return;
    }
    const struct aorta_trace_compared *value = &largest->values[side];
    const struct aorta_difference difference = {.figure = largest->name,
                                                .unit = "ms",
                                                .sides = {base, test},
                                                .value = {largest->values[0].ms, value->ms},
                                                .word = "",
                                                .after = isnan(value->p) ? ", which may be chance" : NULL};
    aorta_difference_text(&difference, base, test, out);
}

static const char *named_after(const struct aorta_trace_compare_row *row, char *name, size_t size) {
    return row->section == AORTA_SECTION_KERNEL ? aorta_kernel_short_name(row->name, name, size) : row->name;
}

/* "What changed most: softmax 262 → 154 ms, -108 ms, 38% of the step and 90% of all changes; the step 285 → 180 ms
 * (-37%)." */
static void put_largest(const struct aorta_trace_comparison *c, size_t side, struct aorta_text *out) {
    double share;
    const struct aorta_trace_compare_row *most = aorta_trace_changed_most(c, side, &share);
    const char *whole = c->stepped ? "step" : "recording";
    char name[NAME_SIZE];
    if (!most) {
        put_figure(c, side, out);
        return;
    }
    const struct aorta_trace_compared *step = &c->rows[0].values[side], *value = &most->values[side];
    const double base_ms = most->values[0].ms, step_ms = c->rows[0].values[0].ms;
    aorta_text_puts(out, "What changed most");
    if (c->side_count > 2) aorta_text_printf(out, " in %s", label_of(c, side));
    aorta_text_printf(out, ": %s %s", named_after(most, name, sizeof name), aorta_brief(base_ms).text);
    aorta_text_printf(out, " → %s ms", aorta_brief(value->ms).text);
    aorta_text_printf(out, ", %s%s ms", value->change_ms > 0 ? "+" : "", aorta_brief(value->change_ms).text);
    aorta_text_printf(out, ", %.0f%% of the %s and %.0f%% of all changes%s", 100 * fabs(value->change_ms) / step_ms,
                      whole, 100 * share, isnan(value->p) ? ", which may be chance" : "");
    aorta_text_printf(out, "; the %s %s", whole, aorta_brief(step_ms).text);
    aorta_text_printf(out, " → %s ms (%+.1f%%)", aorta_brief(step->ms).text, step->percent);
    aorta_text_puts(out, ".");
}

/* ---- bandwidth of collectives ---- */

static int64_t group_size(const struct aorta_trace_analysis *analysis, const struct aorta_trace_collective_row *row) {
    return row->group == AORTA_TRACE_NONE ? -1 : analysis->groups[row->group].size;
}

static double bus_of(const struct aorta_trace_collective_row *row) {
    return isnan(row->transfer_busbw_gbps) ? row->busbw_gbps : row->transfer_busbw_gbps;
}

/* The row of the same kind, size, type and size of group; of the first rank, as that of the base is. */
static const struct aorta_trace_collective_row *same_of(const struct aorta_trace_analysis *base,
                                                        const struct aorta_trace_collective_row *row,
                                                        const struct aorta_trace_analysis *test) {
    const struct aorta_trace_rank *rank = &test->ranks[0], *from = &base->ranks[0];
    const char *type = aorta_trace_text(from->trace, row->dtype);
    for (size_t i = 0; i < rank->collective_size_count; i++) {
        const struct aorta_trace_collective_row *other = &rank->collective_sizes[i];
        if (other->kind == row->kind && other->bytes_each == row->bytes_each &&
            group_size(test, other) == group_size(base, row) &&
            !strcmp(type, aorta_trace_text(rank->trace, other->dtype)))
            return other;
    }
    return NULL;
}

/* "all_gather of 11.0 MB: bus 217 → 16 GB/s, 24 → 1 channels.", of the collectives that take longest in the base and
 * whose bandwidth differs by a tenth or more; nothing where there are none. */
static void put_bandwidth(const struct aorta_trace_comparison *c, size_t side, struct aorta_text *out) {
    static const double most_alike = 1.1;
    const struct aorta_trace_analysis *base = c->sides[0].inputs->analysis, *test = c->sides[side].inputs->analysis;
    if (!base->rank_count || !test->rank_count) return;
    for (size_t i = 0; i < base->ranks[0].collective_size_count; i++) {
        const struct aorta_trace_collective_row *row = &base->ranks[0].collective_sizes[i];
        const struct aorta_trace_collective_row *other = row->bytes_each > 0 ? same_of(base, row, test) : NULL;
        if (!other || isnan(bus_of(row)) || isnan(bus_of(other))) continue;
        const double ratio = bus_of(row) / bus_of(other);
        if (ratio < most_alike && 1 / ratio < most_alike) continue;
        aorta_text_printf(out, "%s of %s MB: bus", aorta_trace_kind_name(base, row->kind),
                          aorta_brief((double)row->bytes_each / 1e6).text);
        aorta_text_printf(out, " %s", aorta_brief(bus_of(row)).text);
        aorta_text_printf(out, " → %s GB/s", aorta_brief(bus_of(other)).text);
        if (row->channels > 0 && other->channels > 0 && row->channels != other->channels)
            aorta_text_printf(out, ", %lld → %lld channels", (long long)row->channels, (long long)other->channels);
        aorta_text_puts(out, ".");
        return;
    }
}

/* The category of work whose time changed most; nothing below a hundredth of the step. Shares are of all changes by
 * size, as they may cancel each other. */
static void put_category(const struct aorta_trace_comparison *c, size_t side, struct aorta_text *out) {
    static const double least = 0.01;
    const struct aorta_trace_compare_row *most = NULL;
    double all_ms = 0, most_ms = 0, share;
    for (size_t i = 0; i < c->row_count; i++) {
        if (c->rows[i].section != AORTA_SECTION_CATEGORY) continue;
        const double change_ms = fabs(c->rows[i].values[side].change_ms);
        all_ms += change_ms;
        if (!(change_ms > most_ms)) continue;
        most_ms = change_ms;
        most = &c->rows[i];
    }
    if (!most || !(most_ms > least * c->rows[0].values[0].ms)) return;
    if (aorta_trace_changed_most(c, side, &share) == most) return; /* the line before has it */
    const double p = most->values[side].p;
    aorta_text_printf(out, "By category, %s changed most: %.2f → %.2f ms, %.0f%% of all changes%s.\n", most->name,
                      most->values[0].ms, most->values[side].ms, 100 * most_ms / all_ms,
                      isnan(p)                  ? ", which may be chance"
                      : p >= aorta_significance ? ", within the noise"
                                                : "");
}

/* What is known of chance, for the step of each test. */
static void put_chance(const struct aorta_trace_comparison *c, size_t side, struct aorta_text *out) {
    const char *whole = c->stepped ? "step" : "recording";
    if (!c->row_count || (!c->stepped && c->unsure)) return;
    const struct aorta_comparison *step = &c->rows[0].values[side].compared;
    aorta_text_printf(out, "The %s of %s is ", whole, label_of(c, side));
    aorta_text_printf(out, "%s ms, %+.1f%%: ", aorta_brief(step->value[1] / 1e6).text,
                      100 * step->delta / step->value[0]);
    aorta_compare_chance(step, whole, out);
    aorta_text_puts(out, ".\n");
    if (!c->stepped) return; /* how recordings differ is the whole chance */
    aorta_compare_between(step, "recordings of one --label", out);
    aorta_text_puts(out, "\n");
}

void aorta_trace_comparison_text(const struct aorta_trace_comparison *c, const struct aorta_differences *differences,
                                 double threshold, int width, struct aorta_text *out) {
    const int columns = width ? NAME_WIDTH : 0;
    for (size_t i = 0; i < c->side_count; i++) {
        aorta_text_printf(out, "%s%s: %s", i ? "test " : "base ", label_of(c, i),
                          aorta_counted((long long)c->sides[i].inputs->analysis->rank_count, "rank").text);
        if (c->stepped) aorta_text_printf(out, ", %s", aorta_counted((long long)c->sides[i].step_count, "step").text);
        if (c->sides[i].count > 1) aorta_text_printf(out, " in %zu recordings", c->sides[i].count);
        aorta_text_puts(out, "\n");
    }
    for (size_t i = 1; i < c->side_count; i++) {
        aorta_differences_text(&differences[i], out);
        put_largest(c, i, out);
        aorta_text_puts(out, "\n");
        put_category(c, i, out);
        const size_t before = out->length;
        put_bandwidth(c, i, out);
        if (out->length > before) aorta_text_puts(out, "\n");
        put_chance(c, i, out);
    }
    aorta_text_printf(out, "ms per %s and rank", c->stepped ? "step" : "recording");
    if (c->unsure) aorta_text_printf(out, "; %s", c->unsure);
    aorta_text_printf(out, "\n%-*s %11s", columns ? columns + 2 : 0, "", "base");
    for (size_t i = 1; i < c->side_count; i++)
        aorta_text_printf(out, "%*s %11s %11s", i > 1 ? 18 : 0, "", "test", "change");
    aorta_text_puts(out, "\n");
    for (int section = 0; section < AORTA_SECTION_COUNT; section++)
        put_section(c, (enum aorta_trace_section)section, columns, out);
    for (size_t i = 1; i < c->side_count && !isnan(threshold); i++)
        aorta_text_printf(
            out, "%s: the %s %s %.3g%% longer than the base's\n", label_of(c, i), c->stepped ? "step" : "recording",
            aorta_trace_regressed(c, i, threshold) ? "REGRESSED: it takes more than" : "takes no more than",
            threshold * 100);
}

/* ---- Markdown ---- */

static void put_sentence_markdown(void (*say)(const struct aorta_trace_comparison *c, size_t side,
                                              struct aorta_text *out),
                                  const struct aorta_trace_comparison *c, size_t side, struct aorta_text *out) {
    struct aorta_text text = {0};
    say(c, side, &text);
    while (text.length && text.data[text.length - 1] == '\n') text.data[--text.length] = '\0';
    if (text.length) {
        aorta_text_markdown(out, text.data);
        aorta_text_puts(out, "\n\n");
    }
    out->failed |= text.failed;
    aorta_text_free(&text);
}

static void put_value_cell(const struct aorta_trace_compared *value, bool base, struct aorta_text *out) {
    if (value->there)
        aorta_text_printf(out, " %.3f |", value->ms);
    else
        aorta_text_puts(out, " - |");
    if (base) return;
    aorta_text_printf(out, " %+.3f", value->change_ms);
    if (!isnan(value->percent)) aorta_text_printf(out, " (%+.1f%%)", value->percent);
    if (value->p < 0.001)
        aorta_text_puts(out, ", p &lt; 0.001");
    else if (!isnan(value->p))
        aorta_text_printf(out, ", p = %.3f", value->p);
    aorta_text_puts(out, " |");
}

static void put_header_row(const struct aorta_trace_comparison *c, struct aorta_text *out) {
    aorta_text_printf(out, "| ms per %s and rank |", c->stepped ? "step" : "recording");
    for (size_t i = 0; i < c->side_count; i++) {
        aorta_text_puts(out, " ");
        aorta_text_markdown(out, label_of(c, i));
        aorta_text_puts(out, i ? " | change |" : " |");
    }
    aorta_text_puts(out, "\n| --- | ---: |");
    for (size_t i = 1; i < c->side_count; i++) aorta_text_puts(out, " ---: | ---: |");
    aorta_text_puts(out, "\n");
}

static void put_section_markdown(const struct aorta_trace_comparison *c, enum aorta_trace_section section,
                                 struct aorta_text *out) {
    const bool folded = section != AORTA_SECTION_TIMELINE;
    size_t shown = 0;
    for (size_t i = 0; i < c->row_count; i++) {
        const struct aorta_trace_compare_row *row = &c->rows[i];
        char name[NAME_SIZE];
        if (row->section != section || (section == AORTA_SECTION_SUBTREE && !row->below)) continue;
        if (folded && shown == MOST_ROWS) break;
        if (!shown && folded) aorta_text_printf(out, "<details><summary>%s</summary>\n\n", titles[section]);
        if (!shown) put_header_row(c, out);
        aorta_text_puts(out, "| ");
        aorta_text_markdown(out, name_of(row, NAME_WIDTH, name));
        aorta_text_puts(out, " |");
        for (size_t j = 0; j < c->side_count; j++) put_value_cell(&row->values[j], j == 0, out);
        aorta_text_puts(out, "\n");
        shown++;
    }
    if (shown) aorta_text_puts(out, folded ? "\n</details>\n\n" : "\n");
}

void aorta_trace_comparison_markdown(const struct aorta_trace_comparison *c,
                                     const struct aorta_differences *differences, double threshold,
                                     struct aorta_text *out) {
    for (size_t i = 1; i < c->side_count; i++) {
        struct aorta_text different = {0};
        aorta_differences_text(&differences[i], &different);
        aorta_text_puts(out, "**");
        put_sentence_markdown(put_largest, c, i, out);
        while (out->length && out->data[out->length - 1] == '\n') out->data[--out->length] = '\0';
        aorta_text_puts(out, "**\n\n");
        if (different.length) {
            aorta_text_markdown(out, different.data);
            aorta_text_puts(out, "\n\n");
        }
        out->failed |= different.failed;
        aorta_text_free(&different);
        put_sentence_markdown(put_category, c, i, out);
        put_sentence_markdown(put_bandwidth, c, i, out);
        put_sentence_markdown(put_chance, c, i, out);
    }
    for (int section = 0; section < AORTA_SECTION_COUNT; section++)
        put_section_markdown(c, (enum aorta_trace_section)section, out);
    for (size_t i = 1; i < c->side_count && !isnan(threshold); i++) {
        const bool regressed = aorta_trace_regressed(c, i, threshold);
        aorta_text_puts(out, regressed ? "**Regressed**: " : "");
        aorta_text_markdown(out, label_of(c, i));
        aorta_text_printf(out, ": the %s takes %s %.3g%% longer than the base's\n", c->stepped ? "step" : "recording",
                          regressed ? "more than" : "no more than", threshold * 100);
    }
}

/* ---- rows ---- */

#define AT(member) offsetof(struct aorta_trace_compared, member)
static const struct aorta_row compared_rows[] = {
    {"ms", AORTA_ROW_NUMBER, AT(ms), "ms", 9, .help = "per step and rank"},
    {"present", AORTA_ROW_BOOL, AT(there), .help = "it occurs in this recording"},
    {"count", AORTA_ROW_NUMBER, AT(count), .help = "per step and rank"},
    {"mean_us", AORTA_ROW_NUMBER, AT(mean_us), "us", .help = "of one; null: it cannot be counted"},
    {0}};
static const struct aorta_row change_rows[] = {
    {"change_ms", AORTA_ROW_NUMBER, AT(change_ms), "ms", 9, .help = "against the base"},
    {"percent", AORTA_ROW_NUMBER, AT(percent), "percent", .help = "of the base's; null: that is 0"},
    {0}};
static const struct aorta_row interval_rows[] = {
    {"ci_low_ms", AORTA_ROW_NUMBER, AT(low_ms), "ms", 9, .help = "of the change: its 95% interval"},
    {"ci_high_ms", AORTA_ROW_NUMBER, AT(high_ms), "ms", 9, .help = "and its end"},
    {"p", AORTA_ROW_NUMBER, AT(p), .help = "that chance alone makes such a change"},
    {0}};
#undef AT

/* One line of CSV: a row of a section against one of the tests. */
struct pair_of {
    const struct aorta_trace_comparison *comparison;
    enum aorta_trace_section section;
};

struct pair_values {
    const char *name, *test;
    struct aorta_trace_compared base, other;
};

#define AT(member) offsetof(struct pair_values, member)
static const struct aorta_row pair_rows[] = {
    {"name", AORTA_ROW_KERNEL, AT(name), .help = "of the figure, kernel, product or collective"},
    {"test", AORTA_ROW_TEXT, AT(test), .help = "the recording that is compared"},
    {"base", AORTA_ROW_PART, AT(base), .part = compared_rows},
    {NULL, AORTA_ROW_PART, AT(other), .part = compared_rows},
    {NULL, AORTA_ROW_PART, AT(other), .part = change_rows},
    {NULL, AORTA_ROW_PART, AT(other), .part = interval_rows},
    {0}};
#undef AT

static size_t pair_count(const void *of) {
    const struct aorta_trace_comparison *c = ((const struct pair_of *)of)->comparison;
    return c->row_count * (c->side_count - 1);
}

static bool fill_pair(const void *of, size_t index, void *values) {
    const struct pair_of *pair = of;
    const size_t tests = pair->comparison->side_count - 1, test = 1 + index % tests;
    const struct aorta_trace_compare_row *row = &pair->comparison->rows[index / tests];
    if (row->section != pair->section) return false;
    *(struct pair_values *)values =
        (struct pair_values){row->name, label_of(pair->comparison, test), row->values[0], row->values[test]};
    return true;
}

aorta_status aorta_trace_comparison_csv(const struct aorta_trace_comparison *comparison, const char *folder) {
    for (int section = 0; section < AORTA_SECTION_COUNT; section++) {
        const struct pair_of pairs = {comparison, (enum aorta_trace_section)section};
        const struct aorta_result_table table = {.key = aorta_trace_section_name(pairs.section),
                                                 .rows = pair_rows,
                                                 .size = sizeof(struct pair_values),
                                                 .count = pair_count,
                                                 .fill = fill_pair};
        AORTA_TRY(aorta_table_csv(&table, &pairs, folder));
    }
    return NULL;
}

/* ---- JSON ---- */

static void put_json_value(struct aorta_json *json, const struct aorta_trace_comparison *c,
                           const struct aorta_trace_compared *value, const char *const *below, bool base) {
    aorta_json_object(json);
    aorta_rows_json(compared_rows, value, 0, json);
    if (below) aorta_json_key_string(json, "below", *below);
    if (!base) {
        aorta_rows_json(change_rows, value, 0, json);
        aorta_json_key_array(json, "ci_ms");
        aorta_json_fixed(json, value->low_ms, 9);
        aorta_json_fixed(json, value->high_ms, 9);
        aorta_json_array_end(json);
        aorta_json_key_double(json, "p", value->p);
        if (isnan(value->p)) aorta_json_key_string(json, "p_reason", c->unsure);
    }
    aorta_json_object_end(json);
}

static void put_json_section(struct aorta_json *json, const struct aorta_trace_comparison *c,
                             enum aorta_trace_section section) {
    aorta_json_key_array(json, aorta_trace_section_name(section));
    for (size_t i = 0; i < c->row_count; i++) {
        const struct aorta_trace_compare_row *row = &c->rows[i];
        if (row->section != section) continue;
        aorta_json_object(json);
        aorta_json_key_string(json, "name", row->name);
        aorta_json_key(json, "base");
        put_json_value(json, c, &row->values[0], row->below, true);
        aorta_json_key_array(json, "tests");
        for (size_t t = 1; t < c->side_count; t++)
            put_json_value(json, c, &row->values[t], row->below ? row->below + t : NULL, false);
        aorta_json_array_end(json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void put_json_recording(struct aorta_json *json, const struct aorta_trace_compare_input *input,
                               const size_t *steps) {
    aorta_json_key_string(json, "path", input->path);
    aorta_json_key_int(json, "ranks", (int64_t)input->analysis->rank_count);
    if (steps)
        aorta_json_key_int(json, "steps", (int64_t)*steps);
    else
        aorta_json_key_null(json, "steps");
}

/* Of the side its first recording, with the steps of all. */
static void put_json_side(struct aorta_json *json, const struct aorta_trace_comparison *c, size_t i,
                          const struct aorta_differences *differences, double threshold) {
    aorta_json_object(json);
    const struct aorta_trace_side *side = &c->sides[i];
    aorta_json_key_string(json, "label", label_of(c, i));
    put_json_recording(json, side->inputs, c->stepped ? &side->step_count : NULL);
    aorta_json_key_array(json, "recordings");
    for (size_t r = 0; r < side->count; r++) {
        aorta_json_object(json);
        put_json_recording(json, &side->inputs[r], c->stepped ? &side->steps[r] : NULL);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    if (i) {
        struct aorta_text largest = {0};
        put_largest(c, i, &largest);
        aorta_json_key_string(json, "largest_change", largest.data);
        json->out->failed |= largest.failed;
        aorta_text_clear(&largest);
        put_bandwidth(c, i, &largest);
        aorta_json_key_string(json, "bandwidth_change", largest.length ? largest.data : NULL);
        json->out->failed |= largest.failed;
        aorta_text_free(&largest);
        aorta_differences_json(&differences[i], json);
        if (c->stepped && c->row_count) aorta_compare_between_json(&c->rows[0].values[i].compared, json);
    }
    if (i && !isnan(threshold)) aorta_json_key_bool(json, "regression", aorta_trace_regressed(c, i, threshold));
    aorta_json_object_end(json);
}

void aorta_trace_comparison_json(const struct aorta_trace_comparison *c, const struct aorta_differences *differences,
                                 double threshold, struct aorta_text *out) {
    struct aorta_json json;
    aorta_json_begin(&json, out, 2);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", 1);
    aorta_json_key_string(&json, "per", c->stepped ? "step and rank" : "recording and rank");
    aorta_json_key_double(&json, "threshold", threshold);
    aorta_json_key(&json, "base");
    put_json_side(&json, c, 0, differences, threshold);
    aorta_json_key_array(&json, "tests");
    for (size_t i = 1; i < c->side_count; i++) put_json_side(&json, c, i, differences, threshold);
    aorta_json_array_end(&json);
    for (int section = 0; section < AORTA_SECTION_COUNT; section++)
        put_json_section(&json, c, (enum aorta_trace_section)section);
    aorta_json_object_end(&json);
    aorta_text_puts(out, "\n");
}
