/* The verdict in parts: headline, rows, one block per cause. The terminal, Markdown, JSON, the page and Python show
 * these parts in this order, and write no sentences of their own. */
#ifndef AORTA_REPORT_VERDICT_TEXT_H
#define AORTA_REPORT_VERDICT_TEXT_H

#include "base/arena.h"
#include "base/json.h"
#include "base/result_table.h"
#include "verdict/verdict.h"

/* ---- the parts (verdict_view.c) ---- */

enum { AORTA_VIEW_ROWS = 16, AORTA_VIEW_BLOCKS = 24, AORTA_VIEW_LINES = 4 };

struct aorta_view_options {
    bool all;        /* also blocks for findings below 2%, and beyond eight */
    bool full_names; /* kernels and operations by their whole names */
};

struct aorta_view_block {
    const struct aorta_finding *finding;
    bool gains;                   /* share and figure are a gain; else a cost */
    double share;                 /* of the step */
    const char *figure;           /* "10 to 14" ms */
    const char *name, *key;       /* "late kernel launches", "host_launch" */
    const char *suffix;           /* "3 places"; "": none */
    const char *mark;             /* "shares 13.8 ms with fusion"; "": none */
    const char *measured, *worst; /* "": nothing */
    const char *fix[AORTA_VIEW_LINES];
    int fix_count;
};

/* Texts are the arena's. */
struct aorta_verdict_view {
    struct aorta_arena arena;
    const char *headline; /* without "Verdict: " */
    struct {
        const char *name, *text; /* "step", "34.3 ms …" */
    } rows[AORTA_VIEW_ROWS];
    int row_count;
    struct aorta_view_block blocks[AORTA_VIEW_BLOCKS];
    int block_count;
    const char *figures; /* heading of the blocks' figures: "gain alone", "cost" */
    const char *minor;   /* "1 minor finding below 2%: late kernel launches", "2 more findings: …"; "": none */
    int minor_count;
};

/* The verdict is borrowed. `options` NULL: none. aorta_arena_end the arena into the caller's, or free it: where it has
 * failed, texts are missing. */
void aorta_verdict_view_make(const struct aorta_verdict *verdict, const struct aorta_view_options *options,
                             struct aorta_verdict_view *view);

int aorta_model_length(const char *device); /* of "NVIDIA H100" in "NVIDIA H100 80GB HBM3" */
/* The headline alone. */
void aorta_verdict_headline(const struct aorta_verdict *verdict, struct aorta_text *out);

/* ---- on a terminal, as Markdown and as JSON ---- */

struct aorta_verdict_style {
    int width;       /* of the terminal; lines have 80 to 100 columns; 0: not known, 100 */
    bool color;      /* escapes of a terminal */
    bool answer;     /* line 1 alone */
    const char *all; /* the command whose --all shows all findings; NULL: the one that prints */
    struct aorta_view_options view;
};

int aorta_verdict_width(const struct aorta_verdict_style *style); /* of its lines; `style` NULL: 100 */
/* Headline, rows and blocks; one block per cause. `style` NULL: plain, 100 columns. */
void aorta_verdict_text(const struct aorta_verdict *verdict, const struct aorta_verdict_style *style,
                        struct aorta_text *out);
/* The verdict as GitHub's Markdown, for pull requests: rows and causes are tables. */
void aorta_verdict_markdown(const struct aorta_verdict *verdict, struct aorta_text *out);

/* One line per finding. The data of its functions is a verdict. */
extern const struct aorta_result_table aorta_verdict_table;
/* Key and value of "verdict": [{cause, collective?, gain_ms, gain_share, gain_range_ms, alone_ms, cost_ms, share, rank,
 * facts, shares_with, evidence, advice, ...}], at most eight rows and a sum of those beyond ("verdict_folded"); of
 * "verdict_view": the parts of the view, for pages and other programs; of "replay" and "floor_ms". */
void aorta_verdict_json(const struct aorta_verdict *verdict, struct aorta_json *json);

#endif
