/* The verdict on a terminal, as Markdown and as JSON. */
#ifndef AORTA_REPORT_VERDICT_TEXT_H
#define AORTA_REPORT_VERDICT_TEXT_H

#include "base/json.h"
#include "report/verdict_view.h"

struct aorta_verdict_style {
    int width;       /* of the terminal; lines have 80 to 100 columns; 0: not known, 100 */
    bool color;      /* escapes of a terminal */
    bool answer;     /* line 1 alone */
    const char *all; /* the command whose --all shows all findings; NULL: the one that prints */
    struct aorta_view_options view;
};

/* Headline, rows and blocks; one block per cause. `style` NULL: plain, 100 columns. */
void aorta_verdict_text(const struct aorta_verdict *verdict, const struct aorta_verdict_style *style,
                        struct aorta_text *out);
/* The verdict as GitHub's Markdown, for pull requests: rows and causes are tables. */
void aorta_verdict_markdown(const struct aorta_verdict *verdict, struct aorta_text *out);

/* Key and value of "verdict": [{cause, collective?, gain_ms, gain_share, gain_range_ms, alone_ms, cost_ms, share, rank,
 * facts, shares_with, evidence, advice, ...}], at most eight rows and a sum of those beyond ("verdict_folded"); of
 * "verdict_view": the parts of the view, for pages and other programs; of "replay" and "floor_ms". */
void aorta_verdict_json(const struct aorta_verdict *verdict, struct aorta_json *json);

#endif
