#include "report/verdict_text.h"
#include "base/lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NARROWEST = 80, WIDEST = 100, NAME = 11, BAR = 10, FIGURE = 9, INDENT = 6, LABEL = 7 };

static const double BARRED = 0.05, RED = 0.2, YELLOW = 0.1; /* of the step */

struct writer {
    struct aorta_text *out;
    int width;
    bool color;
};

static void put(const struct writer *writer, enum aorta_color color, const char *text) {
    aorta_text_colored(writer->out, writer->color ? color : AORTA_PLAIN, text);
}

/* Wraps the text after `taken` columns that are written already. */
static void put_lines(const struct writer *writer, enum aorta_color color, const char *text, int taken, int indent) {
    const struct aorta_lines lines = {writer->width, taken, indent, writer->color ? color : AORTA_PLAIN};
    aorta_text_lines(writer->out, text, &lines);
}

static void put_rows(const struct writer *writer, const struct aorta_verdict_view *view) {
    for (int i = 0; i < view->row_count; i++) {
        aorta_text_printf(writer->out, "  %-*s", NAME, view->rows[i].name);
        put_lines(writer, AORTA_PLAIN, view->rows[i].text, 2 + NAME, 2 + NAME);
    }
}

static void put_bar(const struct writer *writer, double share) {
    char bar[BAR + 1];
    int filled = (int)lround(share * BAR);
    filled = filled < 0 ? 0 : filled > BAR ? BAR : filled;
    memset(bar, share < BARRED ? ' ' : '.', BAR);
    if (share >= BARRED) memset(bar, '#', (size_t)filled);
    bar[BAR] = '\0';
    put(writer, share >= RED ? AORTA_RED : share >= YELLOW ? AORTA_YELLOW : AORTA_CYAN, bar);
}

/* "  ####......  41%   10 to 14 ms  unfused pointwise kernels (fusion)" */
static void put_head(const struct writer *writer, const struct aorta_view_block *block, bool marked) {
    enum { BEFORE = 2 + BAR + 7, UNIT = 5 }; /* columns before the figure, and of " ms" and blanks after it */
    struct aorta_text figure = {0}, name = {0};
    aorta_text_puts(writer->out, "  ");
    put_bar(writer, block->share);
    aorta_text_printf(writer->out, " %3.0f%%  ", 100 * block->share);
    aorta_text_printf(&figure, "%*s ms", FIGURE, block->figure);
    put(writer, AORTA_BOLD, figure.data ? figure.data : "");
    aorta_text_puts(writer->out, "  ");
    aorta_text_printf(&name, "%s (%s)%s%s%s", block->name, block->key, marked ? ", cost" : "",
                      *block->suffix ? ", " : "", block->suffix);
    put_lines(writer, AORTA_PLAIN, name.data ? name.data : "", BEFORE + (int)figure.length + 2, BEFORE + FIGURE + UNIT);
    writer->out->failed |= figure.failed || name.failed;
    aorta_text_free(&figure);
    aorta_text_free(&name);
}

static void put_labelled(const struct writer *writer, const char *label, enum aorta_color color, const char *text) {
    aorta_text_printf(writer->out, "%*s%-*s", INDENT, "", LABEL, label);
    put_lines(writer, color, text, INDENT + LABEL, INDENT + LABEL);
}

/* `marked`: its figure is a cost among gains. */
static void put_block(const struct writer *writer, const struct aorta_view_block *block, bool marked) {
    struct aorta_text measured = {0};
    put_head(writer, block, marked);
    aorta_text_puts(&measured, block->measured);
    if (*block->mark) aorta_text_printf(&measured, "%s(%s)", measured.length ? " " : "", block->mark);
    if (measured.length) {
        aorta_text_printf(writer->out, "%*s", INDENT, "");
        put_lines(writer, AORTA_DIM, measured.data, INDENT, INDENT);
    }
    writer->out->failed |= measured.failed;
    aorta_text_free(&measured);
    if (*block->worst) put_labelled(writer, "worst", AORTA_DIM, block->worst);
    for (int i = 0; i < block->fix_count; i++) put_labelled(writer, i ? "" : "fix", AORTA_GREEN, block->fix[i]);
}

static void put_details(const struct writer *writer, const struct aorta_verdict_style *style,
                        const struct aorta_verdict_view *view) {
    if (view->row_count) aorta_text_puts(writer->out, "\n");
    put_rows(writer, view);
    if (view->block_count)
        aorta_text_printf(writer->out, "\n  share of step      %10s\n", view->blocks[0].gains ? "gain alone" : "cost");
    for (int i = 0; i < view->block_count; i++)
        put_block(writer, &view->blocks[i], view->blocks[0].gains && !view->blocks[i].gains);
    if (*view->minor) aorta_text_puts(writer->out, "\n  ");
    if (*view->minor) {
        struct aorta_text minor = {0};
        const char *hint = view->minor_count == 1 ? " (--all shows it)" : " (--all shows them)";
        aorta_text_printf(&minor, "%s%s", view->minor, style->view.all ? "" : hint);
        put_lines(writer, AORTA_PLAIN, minor.data ? minor.data : "", 2, 2);
        aorta_text_free(&minor);
    }
}

void aorta_verdict_text(const struct aorta_verdict *verdict, const struct aorta_verdict_style *style,
                        struct aorta_text *out) {
    static const struct aorta_verdict_style plain = {0};
    struct aorta_verdict_view view;
    struct aorta_text headline = {0};
    if (!style) style = &plain;
    aorta_status status = aorta_verdict_view_make(verdict, &style->view, &view);
    out->failed |= status != NULL;
    aorta_status_free(status);
    if (out->failed) return;
    const int width = style->width ? style->width : WIDEST;
    const struct writer writer = {out, width < NARROWEST ? NARROWEST : width > WIDEST ? WIDEST : width, style->color};
    aorta_text_printf(&headline, "Verdict: %s", view.headline);
    put_lines(&writer, AORTA_BOLD, headline.data ? headline.data : "", 0, 2);
    if (!style->answer) put_details(&writer, style, &view);
    out->failed |= headline.failed;
    aorta_text_free(&headline);
    aorta_verdict_view_free(&view);
}

/* ---- Markdown ---- */

static void put_markdown_block(const struct aorta_view_block *block, struct aorta_text *out) {
    aorta_text_printf(out, "| %.0f%% | %s ms%s | ", 100 * block->share, block->figure, block->gains ? "" : " (cost)");
    aorta_text_markdown(out, block->name);
    aorta_text_printf(out, " (`%s`)%s%s", block->key, *block->suffix ? ", " : "", block->suffix);
    if (*block->mark) aorta_text_puts(out, " (");
    aorta_text_markdown(out, block->mark);
    if (*block->mark) aorta_text_puts(out, ")");
    aorta_text_puts(out, " | ");
    aorta_text_markdown(out, block->measured);
    if (*block->worst) aorta_text_puts(out, *block->measured ? "<br>worst: " : "worst: ");
    aorta_text_markdown(out, block->worst);
    aorta_text_puts(out, " | ");
    for (int i = 0; i < block->fix_count; i++) {
        if (i) aorta_text_puts(out, "<br>");
        aorta_text_markdown(out, block->fix[i]);
    }
    aorta_text_puts(out, " |\n");
}

void aorta_verdict_markdown(const struct aorta_verdict *verdict, struct aorta_text *out) {
    struct aorta_verdict_view view;
    aorta_status status = aorta_verdict_view_make(verdict, NULL, &view);
    out->failed |= status != NULL;
    aorta_status_free(status);
    if (out->failed) return;
    aorta_text_puts(out, "**Verdict: ");
    aorta_text_markdown(out, view.headline);
    aorta_text_puts(out, "**\n\n| | |\n| --- | --- |\n");
    for (int i = 0; i < view.row_count; i++) {
        aorta_text_puts(out, "| ");
        aorta_text_markdown(out, view.rows[i].name);
        aorta_text_puts(out, " | ");
        aorta_text_markdown(out, view.rows[i].text);
        aorta_text_puts(out, " |\n");
    }
    if (view.block_count)
        aorta_text_printf(out, "\n| of the step | %s | cause | measured | fix |\n| ---: | ---: | --- | --- | --- |\n",
                          view.blocks[0].gains ? "gain alone" : "cost");
    for (int i = 0; i < view.block_count; i++) put_markdown_block(&view.blocks[i], out);
    if (*view.minor) {
        aorta_text_puts(out, "\n");
        aorta_text_markdown(out, view.minor);
        aorta_text_puts(out, "\n");
    }
    aorta_verdict_view_free(&view);
}
