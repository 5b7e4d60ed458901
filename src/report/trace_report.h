/* An analysis of traces with its verdict, as text, JSON or a page; a comparison of several as well. */
#ifndef AORTA_REPORT_TRACE_REPORT_H
#define AORTA_REPORT_TRACE_REPORT_H

#include "analysis/analysis.h"
#include "analysis/breakdown.h"
#include "analysis/compare.h"
#include "base/text.h"
#include "replay/critical_path.h"
#include "report/summary.h"
#include "report/verdict_text.h"
#include "verdict/verdict.h"

/* Borrowed. */
struct aorta_trace_report {
    const struct aorta_trace_analysis *analysis;
    const struct aorta_verdict *verdict;
    const struct aorta_recorded_machine *machine; /* NULL: none was read */
    unsigned by;                  /* tables of work by what launched it that are asked for: bits 1 << enum aorta_by */
    size_t top;                   /* lines of each in the text */
    struct aorta_breakdown_of of; /* the work that those of work are of */
    const struct aorta_critical_path *path; /* where AORTA_BY_PATH asks for it; NULL: it was not made */
    /* Limit for JSON tables with one line per step or collective: they keep about so many lines, every n-th; 0: all. */
    size_t most_lines;
};

/* Lines of at most `width` columns where it is 96 or more; 0 (no terminal): sentences are wrapped at 100, and no name
 * is cut. */
void aorta_trace_report_text(const struct aorta_trace_report *report, const struct aorta_verdict_style *style,
                             struct aorta_text *out);
/* The verdict alone, and before it which kernels may be communication that it takes for compute. */
void aorta_trace_report_verdict(const struct aorta_trace_report *report, const struct aorta_verdict_style *style,
                                struct aorta_text *out);
/* The tables of report->by alone, of the busiest rank; the verdict may be NULL. */
void aorta_trace_report_by(const struct aorta_trace_report *report, const struct aorta_verdict_style *style,
                           struct aorta_text *out);
/* `indent`: as in base/json.h; 0: one line. */
void aorta_trace_report_json(const struct aorta_trace_report *report, int indent, struct aorta_text *out);
/* Each table as a file of the folder, which is made where it is missing. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_report_csv(const struct aorta_trace_report *report, const char *folder);

/* `threshold`: NaN where none was asked for. `answer`: the headlines alone. `differences`: of each side from the first,
 * of which there are none. */
void aorta_trace_comparison_text(const struct aorta_trace_comparison *comparison,
                                 const struct aorta_differences *differences, double threshold, bool answer,
                                 const struct aorta_verdict_style *style, struct aorta_text *out);
/* ", mostly softmax 262 -> 154 ms (-41%)" after a headline; nothing where no row makes half of the step's change. */
void aorta_trace_comparison_mostly(const struct aorta_trace_comparison *comparison, size_t side,
                                   struct aorta_text *out);
/* As GitHub's Markdown: headline and facts, the figures of the timeline, and the other sections folded. */
void aorta_trace_comparison_markdown(const struct aorta_trace_comparison *comparison,
                                     const struct aorta_differences *differences, double threshold,
                                     struct aorta_text *out);
void aorta_trace_comparison_json(const struct aorta_trace_comparison *comparison,
                                 const struct aorta_differences *differences, double threshold, struct aorta_text *out);
/* Each section as a file of the folder. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_comparison_csv(const struct aorta_trace_comparison *comparison,
                                                       const char *folder);

#endif
