/* The comparison of runs as text and as JSON. */
#include "base/json.h"
#include "base/lines.h"
#include "base/result_table.h"
#include "report/phrases.h"
#include "report/trace_report.h"
#include "verdict/devices.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 12, NAME_WIDTH = 48, CHANCE_WIDTH = 9, WIDEST = 100, NAME_SIZE = 512 };

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

static const char *whole_of(const struct aorta_trace_comparison *c) {
    return c->stepped ? "step" : "recording";
}

/* ---- the table ---- */

/* The color of a significant change: better or worse. */
static enum aorta_color color_of(const struct aorta_trace_compare_row *row, const struct aorta_trace_compared *value) {
    if (row->good == AORTA_GOOD_NEITHER || value->of.p_value >= aorta_significance || value->change_ms == 0)
        return AORTA_PLAIN;
    return (value->change_ms < 0) == (row->good == AORTA_GOOD_LOW) ? AORTA_GREEN : AORTA_RED;
}

/* "+12.3%", "62x"; "" if there is no change. */
static const char *change_of(const struct aorta_trace_compared *value, char text[40]) {
    if (isnan(value->percent))
        snprintf(text, 40, "%s", value->change_ms == 0 ? "" : "new");
    else if (value->percent >= aorta_most_percent)
        snprintf(text, 40, "%sx", aorta_brief(1 + value->percent / 100).text);
    else
        snprintf(text, 40, "%+.1f%%", value->percent);
    return text;
}

/* Rows whose change would be printed as zero are hidden. The step is always shown. */
static bool is_shown(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *row) {
    static const double least_ms = 0.0005;
    if (row->section == AORTA_SECTION_SUBTREE && !row->below) return false;
    return row == c->rows || row->largest_ms >= least_ms;
}

static void put_change_cells(const struct aorta_trace_compare_row *row, const struct aorta_trace_compared *value,
                             bool last, const struct aorta_verdict_style *style, struct aorta_text *out) {
    char cells[64], share[40], chance[24] = "";
    const double p = value->of.p_value;
    if (!isnan(p)) snprintf(chance, sizeof chance, "p=%.3f", p);
    if (p < 0.001) snprintf(chance, sizeof chance, "p<0.001");
    snprintf(cells, sizeof cells, " %+10.3f %7s", value->change_ms, change_of(value, share));
    aorta_text_colored(out, style->color ? color_of(row, value) : AORTA_PLAIN, cells);
    if (*chance || !last) aorta_text_printf(out, " %8s", chance);
}

/* "mm [512,768]x[768,2304]" of "aten::mm [[512, 768], [768, 2304]] [types]" */
static const char *product_for_line(const char *name, char *text, size_t size) {
    struct aorta_text shape = {0};
    const char *dims = strstr(name, " ["), *library = strstr(name, "::");
    if (library && (!dims || library < dims)) name = library + strlen("::");
    if (dims) aorta_shape_for_line(dims + 1, &shape);
    snprintf(text, size, "%.*s %s", dims ? (int)(dims - name) : (int)strlen(name), name, shape.data ? shape.data : "");
    aorta_text_free(&shape);
    return text;
}

/* Kernels and products are short, if not --full-names is given. */
static const char *name_of(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *row,
                           bool whole, char name[NAME_SIZE]) {
    const char *shown[MOST_ROWS];
    size_t count = 0;
    const bool product = row->section == AORTA_SECTION_GEMM;
    if (whole || (row->section != AORTA_SECTION_KERNEL && !product)) return row->name;
    for (size_t i = 0; i < c->row_count && count < MOST_ROWS; i++)
        if (c->rows[i].section == row->section && is_shown(c, &c->rows[i])) shown[count++] = c->rows[i].name;
    return aorta_name_apart(row->name, shown, count, product ? product_for_line : aorta_name_for_line, name, NAME_SIZE);
}

/* Names also use the column of p if p is unknown, and shrink if the terminal is narrow. */
static int name_width(const struct aorta_trace_comparison *c, const struct aorta_verdict_style *style) {
    const int there = NAME_WIDTH + (c->unsure && c->side_count == 2 ? CHANCE_WIDTH : 0);
    return there - (WIDEST - aorta_verdict_width(style));
}

/* A name that is too long loses its middle, as ends distinguish names. */
static void put_name(const char *name, int width, struct aorta_text *out) {
    const char *end = name + strlen(name);
    if (aorta_columns(name) > width) end -= width / 3;
    while ((*end & 0xc0) == 0x80) end++; /* within a character */
    aorta_text_column(out, name, width - aorta_columns(end));
    aorta_text_puts(out, end);
}

/* Full names follow the figures, as they may be long. */
static void put_row(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *row,
                    const struct aorta_verdict_style *style, struct aorta_text *out) {
    char buffer[NAME_SIZE];
    const bool whole = style->view.full_names;
    const char *name = name_of(c, row, whole, buffer);
    if (!whole) aorta_text_puts(out, "  ");
    if (!whole) put_name(name, name_width(c, style), out);
    for (size_t i = 0; i < c->side_count; i++) {
        const struct aorta_trace_compared *value = &row->values[i];
        if (value->there)
            aorta_text_printf(out, " %10.3f", value->ms);
        else
            aorta_text_printf(out, " %10s", "-");
        if (i) put_change_cells(row, value, i + 1 == c->side_count && !whole, style, out);
    }
    aorta_text_printf(out, "%s%s\n", whole ? "  " : "", whole ? name : "");
}

/* "aten::pow, aten::mul, aten::mean and 3 more" */
static void put_names(const struct aorta_trace_below *below, struct aorta_text *out) {
    for (size_t i = 0; i < below->count && i < AORTA_BELOW; i++)
        aorta_text_printf(out, "%s%s", i ? ", " : "", below->names[i]);
    if (below->count > AORTA_BELOW) aorta_text_printf(out, " and %zu more", below->count - AORTA_BELOW);
}

static void put_below(const struct aorta_trace_comparison *c, const struct aorta_trace_compare_row *row,
                      struct aorta_text *out) {
    for (size_t i = 0; row->below && i < c->side_count; i++) {
        aorta_text_printf(out, "        %s: %s", label_of(c, i), row->below[i].count ? "" : "nothing");
        put_names(&row->below[i], out);
        aorta_text_puts(out, "\n");
    }
}

/* False if the section has rows of which none has changed. */
static bool put_section(const struct aorta_trace_comparison *c, enum aorta_trace_section section,
                        const struct aorta_verdict_style *style, struct aorta_text *out) {
    size_t rows = 0, shown = 0, left_out = 0;
    AORTA_EACH (const struct aorta_trace_compare_row, row, c->rows, c->row_count) {
        rows += row->section == section && section != AORTA_SECTION_SUBTREE;
        if (row->section != section || !is_shown(c, row)) continue;
        if (shown == MOST_ROWS && section != AORTA_SECTION_TIMELINE) {
            left_out++;
            continue;
        }
        if (!shown) aorta_text_printf(out, "%s\n", titles[section]);
        put_row(c, row, style, out);
        put_below(c, row, out);
        shown++;
    }
    if (left_out) aorta_text_printf(out, "  … and %zu that changed less (--json has all)\n", left_out);
    return shown || !rows;
}

static void put_tables(const struct aorta_trace_comparison *c, const struct aorta_verdict_style *style,
                       struct aorta_text *out) {
    const bool whole = style->view.full_names;
    struct aorta_text alike = {0};
    aorta_text_printf(out, "\n%-*s %10s", whole ? 0 : name_width(c, style) + 2,
                      c->stepped ? "Recorded ms per step and rank" : "ms per recording and rank", "base");
    for (size_t i = 1; i < c->side_count; i++)
        aorta_text_printf(out, "%*s %10s %10s", i > 1 ? 17 : 0, "", "test", "change");
    aorta_text_puts(out, "\n");
    for (int i = 0; i < AORTA_SECTION_COUNT; i++) {
        const enum aorta_trace_section section = (enum aorta_trace_section)i;
        if (!put_section(c, section, style, out))
            aorta_text_printf(&alike, "%s%s", alike.length ? ", " : "", aorta_trace_section_name(section));
    }
    if (alike.length) aorta_text_printf(out, "unchanged: %s (--json has all)\n", alike.data);
    aorta_text_end(&alike, out);
}

/* ---- facts of a test ---- */

/* One of the sides against the first. */
struct about {
    const struct aorta_trace_comparison *c;
    size_t side;
    const struct aorta_differences *differences;
    double threshold;
};

static struct aorta_compared compared_of(const struct aorta_trace_compare_row *row, size_t side) {
    const struct aorta_trace_compared *value = &row->values[side];
    struct aorta_compared compared = {.figure = row->name,
                                      .unit = "ms",
                                      .good = row->good,
                                      .p = value->of.p_value,
                                      .counts = value->of.p_value < aorta_significance,
                                      .of = value->of};
    compared.of.value[0] = row->values[0].ms;
    compared.of.value[1] = value->ms;
    compared.of.delta = value->change_ms;
    return compared;
}

/* "softmax 262 -> 154 ms (-41%)" */
static void put_change(const struct aorta_trace_compare_row *row, size_t side, struct aorta_text *out) {
    const struct aorta_compared compared = compared_of(row, side);
    aorta_compared_values(&compared, false, out);
}

/* The row that changed most in the direction of the step, or against it. */
static const struct aorta_trace_compare_row *largest(const struct aorta_trace_comparison *c, size_t side, bool with) {
    const bool longer = c->row_count && c->rows[0].values[side].change_ms > 0;
    return longer == with ? c->sides[side].longer : c->sides[side].shorter;
}

/* Whether the largest row explains the step's change: no other rows add to it, or offset it. */
static bool explains(const struct aorta_trace_comparison *c, size_t side) {
    static const double least = 0.5, most = 2;
    const struct aorta_trace_compare_row *row = largest(c, side, true);
    const double part = row ? row->values[side].change_ms / c->rows[0].values[side].change_ms : 0;
    return part >= least && part <= most;
}

/* "B is faster than A: step 285 -> 180 ms (-37%), mostly softmax 262 -> 154 ms (-41%)" */
static void put_headline(const struct aorta_trace_comparison *c, size_t side, struct aorta_text *out) {
    const char *base = label_of(c, 0), *test = label_of(c, side);
    if (!c->row_count) {
        aorta_text_printf(out, "%s and %s have no work to compare", test, base);
        return;
    }
    const struct aorta_compared step = compared_of(c->rows, side);
    if (c->unsure && isnan(step.p) && step.of.delta != 0) {
        aorta_text_printf(out, "not decided between %s and %s (%s): ", base, test,
                          c->stepped ? c->unsure : "the recordings do not mark their steps");
        aorta_compared_values(&step, false, out);
    } else {
        aorta_compared_headline(&step, base, test, false, out);
    }
    aorta_trace_comparison_mostly(c, side, out);
}

void aorta_trace_comparison_mostly(const struct aorta_trace_comparison *c, size_t side, struct aorta_text *out) {
    if (!explains(c, side)) return;
    aorta_text_puts(out, ", mostly ");
    put_change(largest(c, side, true), side, out);
}

/* ---- bandwidth of collectives ---- */

static int64_t group_size(const struct aorta_trace_analysis *analysis, const struct aorta_trace_collective_row *row) {
    return row->group == AORTA_TRACE_NONE ? -1 : analysis->groups[row->group].size;
}

/* The row with the same kind, size, type and group size. Like the base's row, it is of the first rank. */
static const struct aorta_trace_collective_row *same_of(const struct aorta_trace_analysis *base,
                                                        const struct aorta_trace_collective_row *row,
                                                        const struct aorta_trace_analysis *test) {
    const struct aorta_trace_rank *rank = &test->ranks[0], *from = &base->ranks[0];
    const char *type = aorta_trace_text(from->trace, row->dtype);
    AORTA_EACH (const struct aorta_trace_collective_row, other, rank->collective_sizes, rank->collective_size_count)
        if (other->kind == row->kind && other->bytes_each == row->bytes_each &&
            group_size(test, other) == group_size(base, row) &&
            !strcmp(type, aorta_trace_text(rank->trace, other->dtype)))
            return other;
    return NULL;
}

static double transfer_ms(const struct aorta_trace_analysis *of, const struct aorta_trace_collective_row *row) {
    return (double)row->steps.transfer_ns / 1e6 / (double)of->ranks[0].steps;
}

/* "all_gather of 11.0 MB: bus 217 -> 16 GB/s, 24 -> 1 channels": the longest collective of the base whose bandwidth
 * differs by a tenth or more, which is time of the step. Only without waiting, which needs all ranks: a late rank is no
 * slow link. */
static void put_bandwidth(const struct about *about, struct aorta_text *out) {
    static const double most_alike = 1.1, least = 0.01; /* of the base's step */
    const struct aorta_trace_side *sides = about->c->sides;
    const struct aorta_trace_analysis *base = sides->inputs->analysis, *test = sides[about->side].inputs->analysis;
    if (!base->rank_count || !test->rank_count) return;
    AORTA_EACH (const struct aorta_trace_collective_row, row, base->ranks[0].collective_sizes,
                base->ranks[0].collective_size_count) {
        const struct aorta_trace_collective_row *other = row->bytes_each > 0 ? same_of(base, row, test) : NULL;
        if (!other || isnan(row->transfer_busbw_gbps) || isnan(other->transfer_busbw_gbps)) continue;
        const double ratio = row->transfer_busbw_gbps / other->transfer_busbw_gbps;
        if (ratio < most_alike && 1 / ratio < most_alike) continue;
        if (fabs(transfer_ms(test, other) - transfer_ms(base, row)) < least * about->c->rows[0].values[0].ms) continue;
        aorta_text_printf(out, "%s of %s MB: bus", aorta_trace_kind_name(base, row->kind),
                          aorta_brief((double)row->bytes_each / 1e6).text);
        aorta_text_printf(out, " %s", aorta_brief(row->transfer_busbw_gbps).text);
        aorta_text_printf(out, " -> %s GB/s", aorta_brief(other->transfer_busbw_gbps).text);
        if (row->channels > 0 && other->channels > 0 && row->channels != other->channels)
            aorta_text_printf(out, ", %lld -> %lld channels", (long long)row->channels, (long long)other->channels);
        return;
    }
}

/* Two ranks of one job: different ranks, the same number of ranks, recorded at the same time. */
static void put_ranks(const struct about *about, struct aorta_text *out) {
    const struct aorta_trace *traces[2];
    for (int i = 0; i < 2; i++) {
        const struct aorta_trace_side *side = &about->c->sides[i ? about->side : 0];
        if (side->count > 1 || side->inputs->analysis->rank_count != 1) return;
        traces[i] = side->inputs->analysis->ranks[0].trace;
        if (traces[i]->rank < 0 || traces[i]->base_ns == INT64_MIN || !traces[i]->work_count) return;
    }
    const struct aorta_trace *base = traces[0], *test = traces[1];
    const int64_t later_ns = test->base_ns - base->base_ns;
    const bool together = test->work[0].start_ns + later_ns <= base->work[base->work_count - 1].end_ns &&
                          base->work[0].start_ns <= test->work[test->work_count - 1].end_ns + later_ns;
    if (base->rank == test->rank || base->world < 2 || base->world != test->world || !together) return;
    aorta_text_printf(out, "ranks %d and %d of one job: aorta trace analyze with both files says which one is late",
                      base->rank, test->rank);
}

/* The category of work that changed most, by a hundredth of the step or more. */
static void put_category(const struct about *about, struct aorta_text *out) {
    static const double least = 0.01;
    const struct aorta_trace_comparison *c = about->c;
    const size_t side = about->side;
    const struct aorta_trace_compare_row *most = NULL;
    AORTA_EACH (const struct aorta_trace_compare_row, row, c->rows, c->row_count) {
        if (row->section != AORTA_SECTION_CATEGORY) continue;
        if (!most || fabs(row->values[side].change_ms) > fabs(most->values[side].change_ms)) most = row;
    }
    if (!most || !(fabs(most->values[side].change_ms) > least * c->rows[0].values[0].ms)) return;
    if (most == c->sides[side].longer || most == c->sides[side].shorter) return; /* another line names it */
    if (most->values[side].of.p_value >= aorta_significance) return;
    put_change(most, side, out);
}

/* Recordings without steps have no variation between steps to compare with. */
static void put_chance(const struct about *about, struct aorta_text *out) {
    const struct aorta_trace_comparison *c = about->c;
    if (!c->row_count) return;
    const struct aorta_comparison *step = &c->rows[0].values[about->side].of;
    if (c->unsure && isnan(step->p_value)) {
        if (!c->stepped) aorta_text_puts(out, c->unsure); /* otherwise it is in the headline */
        return;
    }
    aorta_compare_chance(step, whole_of(c), out);
    if (!c->stepped) return;
    aorta_text_puts(out, ". ");
    aorta_compare_between(step, "recordings of one --label", out);
}

static void put_side(const struct aorta_trace_comparison *c, size_t side, struct aorta_text *out) {
    const struct aorta_trace_analysis *analysis = c->sides[side].inputs->analysis;
    struct aorta_arena memory = {0};
    struct aorta_peaks peaks;
    aorta_text_printf(out, "%s: %s", label_of(c, side), aorta_counted((long long)analysis->rank_count, "rank").text);
    if (c->stepped) aorta_text_printf(out, ", %s", aorta_counted((long long)c->sides[side].step_count, "step").text);
    if (c->sides[side].count > 1) aorta_text_printf(out, " in %zu recordings", c->sides[side].count);
    if (analysis->rank_count) aorta_rank_peaks(analysis, 0, &peaks);
    const char *device = analysis->rank_count ? aorta_rank_device_name(analysis, 0, &peaks, &memory) : NULL;
    if (device) aorta_text_printf(out, ", %.*s", aorta_model_length(device), device);
    aorta_arena_free(&memory);
}

static void put_threshold(const struct about *about, struct aorta_text *out) {
    if (isnan(about->threshold)) return;
    const bool regressed = aorta_trace_regressed(about->c, about->side, about->threshold);
    aorta_text_printf(out, "%s: %s more than %.3g%% longer", regressed ? "REGRESSED" : "passed",
                      regressed ? "takes" : "takes no", about->threshold * 100);
}

/* The facts below a test's headline; `write` empties the text, and writes nothing where it is empty. */
static void put_facts(const struct about *about,
                      void (*write)(struct aorta_text *out, const char *name, struct aorta_text *text),
                      struct aorta_text *out) {
    const struct aorta_trace_compare_row *with = largest(about->c, about->side, true);
    const struct aorta_trace_compare_row *opposite = largest(about->c, about->side, false);
    struct aorta_text text = {0};
    put_ranks(about, &text);
    write(out, "note", &text);
    aorta_differences_list(about->differences, &text);
    write(out, "different", &text);
    if (with && !explains(about->c, about->side)) put_change(with, about->side, &text);
    write(out, "largest", &text);
    if (opposite) put_change(opposite, about->side, &text);
    write(out, "opposite", &text);
    put_category(about, &text);
    write(out, "category", &text);
    put_bandwidth(about, &text);
    write(out, "bandwidth", &text);
    put_chance(about, &text);
    write(out, "chance", &text);
    put_side(about->c, 0, &text);
    write(out, "base", &text);
    put_side(about->c, about->side, &text);
    write(out, "test", &text);
    put_threshold(about, &text);
    write(out, "threshold", &text);
    aorta_text_free(&text);
}

void aorta_trace_comparison_text(const struct aorta_trace_comparison *c, const struct aorta_differences *differences,
                                 double threshold, bool answer, const struct aorta_verdict_style *style,
                                 struct aorta_text *out) {
    const struct aorta_lines headline = {
        .width = aorta_verdict_width(style), .indent = 2, .color = style->color ? AORTA_BOLD : AORTA_PLAIN};
    struct aorta_text text = {0};
    for (size_t side = 1; side < c->side_count; side++) {
        put_headline(c, side, &text);
        aorta_text_lines(out, text.length ? text.data : "", &headline);
        aorta_text_clear(&text);
        if (!answer) put_facts(&(struct about){c, side, &differences[side], threshold}, aorta_text_fact, out);
    }
    aorta_text_free(&text);
    if (!answer) put_tables(c, style, out);
}

/* ---- Markdown ---- */

/* "- name: text"; empties the text. */
static void put_fact_markdown(struct aorta_text *out, const char *name, struct aorta_text *text) {
    out->failed |= text->failed;
    if (!text->length) return;
    aorta_text_printf(out, "- %s: ", name);
    aorta_text_markdown(out, text->data);
    aorta_text_puts(out, "\n");
    aorta_text_clear(text);
}

static void put_value_cell(const struct aorta_trace_compared *value, bool base, struct aorta_text *out) {
    char share[40];
    if (value->there)
        aorta_text_printf(out, " %.3f |", value->ms);
    else
        aorta_text_puts(out, " - |");
    if (base) return;
    aorta_text_printf(out, " %+.3f", value->change_ms);
    if (!isnan(value->percent)) aorta_text_printf(out, " (%s)", change_of(value, share));
    if (value->of.p_value < 0.001)
        aorta_text_puts(out, ", p &lt; 0.001");
    else if (!isnan(value->of.p_value))
        aorta_text_printf(out, ", p = %.3f", value->of.p_value);
    aorta_text_puts(out, " |");
}

static void put_header_row(const struct aorta_trace_comparison *c, struct aorta_text *out) {
    aorta_text_printf(out, "| ms per %s and rank |", whole_of(c));
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
    AORTA_EACH (const struct aorta_trace_compare_row, row, c->rows, c->row_count) {
        char name[NAME_SIZE];
        if (row->section != section || !is_shown(c, row)) continue;
        if (folded && shown == MOST_ROWS) break;
        if (!shown && folded) aorta_text_printf(out, "<details><summary>%s</summary>\n\n", titles[section]);
        if (!shown) put_header_row(c, out);
        aorta_text_puts(out, "| ");
        aorta_text_markdown(out, name_of(c, row, false, name));
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
    struct aorta_text text = {0};
    for (size_t side = 1; side < c->side_count; side++) {
        put_headline(c, side, &text);
        aorta_text_puts(out, "**");
        aorta_text_markdown(out, text.length ? text.data : "");
        aorta_text_puts(out, "**\n\n");
        aorta_text_clear(&text);
        put_facts(&(struct about){c, side, &differences[side], threshold}, put_fact_markdown, out);
        aorta_text_puts(out, "\n");
    }
    aorta_text_free(&text);
    for (int section = 0; section < AORTA_SECTION_COUNT; section++)
        put_section_markdown(c, (enum aorta_trace_section)section, out);
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
    {"ci_low_ms", AORTA_ROW_NUMBER, AT(of.low), "ms", 9, .help = "of the change: its 95% interval"},
    {"ci_high_ms", AORTA_ROW_NUMBER, AT(of.high), "ms", 9, .help = "and its end"},
    {"p", AORTA_ROW_NUMBER, AT(of.p_value), .help = "that chance alone makes such a change"},
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

static enum aorta_line fill_pair(const void *of, size_t index, void *values) {
    const struct pair_of *pair = of;
    const size_t tests = pair->comparison->side_count - 1, test = 1 + index % tests;
    if (index >= pair->comparison->row_count * tests) return AORTA_LINE_END;
    const struct aorta_trace_compare_row *row = &pair->comparison->rows[index / tests];
    if (row->section != pair->section) return AORTA_LINE_SKIP;
    *(struct pair_values *)values =
        (struct pair_values){row->name, label_of(pair->comparison, test), row->values[0], row->values[test]};
    return AORTA_LINE;
}

aorta_status aorta_trace_comparison_csv(const struct aorta_trace_comparison *comparison, const char *folder) {
    for (int section = 0; section < AORTA_SECTION_COUNT; section++) {
        const struct pair_of pairs = {comparison, (enum aorta_trace_section)section};
        const struct aorta_result_table table = {aorta_trace_section_name(pairs.section),
                                                 AORTA_LINES(pair_rows, struct pair_values, fill_pair)};
        AORTA_TRY(aorta_table_csv(&table, &pairs, folder));
    }
    return NULL;
}

/* ---- JSON ---- */

static void put_json_value(struct aorta_json *json, const struct aorta_trace_comparison *c,
                           const struct aorta_trace_compared *value, const struct aorta_trace_below *below, bool base) {
    struct aorta_text names = {0};
    aorta_json_object(json);
    aorta_rows_json(compared_rows, value, 0, json);
    if (below) put_names(below, &names);
    if (below) aorta_json_key_sentence(json, "below", &names);
    if (!base) {
        aorta_rows_json(change_rows, value, 0, json);
        aorta_json_key_array(json, "ci_ms");
        aorta_json_fixed(json, value->of.low, 9);
        aorta_json_fixed(json, value->of.high, 9);
        aorta_json_array_end(json);
        aorta_json_key_double(json, "p", value->of.p_value);
        if (isnan(value->of.p_value)) aorta_json_key_string(json, "p_reason", c->unsure);
    }
    aorta_json_object_end(json);
}

static void put_json_section(struct aorta_json *json, const struct aorta_trace_comparison *c,
                             enum aorta_trace_section section) {
    aorta_json_key_array(json, aorta_trace_section_name(section));
    AORTA_EACH (const struct aorta_trace_compare_row, row, c->rows, c->row_count) {
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

static void put_json_recording(struct aorta_json *json, const struct aorta_trace_compare_input *input, int64_t steps) {
    aorta_json_key_string(json, "path", input->path);
    aorta_json_key_int(json, "ranks", (int64_t)input->analysis->rank_count);
    aorta_json_key_natural(json, "steps", steps);
}

/* A side: the path of its first recording, and the steps of all its recordings. */
static void put_json_side(struct aorta_json *json, const struct aorta_trace_comparison *c, size_t i,
                          const struct aorta_differences *differences, double threshold) {
    aorta_json_object(json);
    const struct aorta_trace_side *side = &c->sides[i];
    aorta_json_key_string(json, "label", label_of(c, i));
    put_json_recording(json, side->inputs, c->stepped ? (int64_t)side->step_count : -1);
    aorta_json_key_array(json, "recordings");
    for (size_t r = 0; r < side->count; r++) {
        aorta_json_object(json);
        put_json_recording(json, &side->inputs[r], c->stepped ? (int64_t)side->steps[r] : -1);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    if (i) {
        const struct about about = {c, i, &differences[i], threshold};
        struct aorta_text headline = {0}, bandwidth = {0};
        put_headline(c, i, &headline);
        aorta_json_key_sentence(json, "largest_change", &headline);
        put_bandwidth(&about, &bandwidth);
        aorta_json_key_sentence(json, "bandwidth_change", &bandwidth);
        aorta_differences_json(&differences[i], json);
        if (c->stepped && c->row_count) aorta_compare_between_json(&c->rows[0].values[i].of, json);
    }
    if (i && !isnan(threshold)) aorta_json_key_bool(json, "regression", aorta_trace_regressed(c, i, threshold));
    aorta_json_object_end(json);
}

void aorta_trace_comparison_json(const struct aorta_trace_comparison *c, const struct aorta_differences *differences,
                                 double threshold, struct aorta_text *out) {
    struct aorta_json json;
    aorta_json_output(&json, out, 2, 1);
    aorta_json_key_string(&json, "per", c->stepped ? "step and rank" : "recording and rank");
    aorta_json_key_double(&json, "threshold", threshold);
    aorta_json_key(&json, "base");
    put_json_side(&json, c, 0, differences, threshold);
    aorta_json_key_array(&json, "tests");
    for (size_t i = 1; i < c->side_count; i++) put_json_side(&json, c, i, differences, threshold);
    aorta_json_array_end(&json);
    for (int section = 0; section < AORTA_SECTION_COUNT; section++)
        put_json_section(&json, c, (enum aorta_trace_section)section);
    aorta_json_output_end(&json);
}
