/* Numbers, names and templates of facts, as shown to people. */
#ifndef AORTA_REPORT_PHRASES_H
#define AORTA_REPORT_PHRASES_H

#include "base/text.h"
#include "verdict/verdict.h"

/* aorta_measured if the range is within 10% of the value; else two digits. */
struct aorta_brief aorta_estimated(double value, const double range[2]);
/* "46", "4.9", "0.12": two significant digits, but all digits before the point. */
struct aorta_brief aorta_about(double value);

/* "10 to 14": two digits; three if both ends would look equal. */
struct aorta_brief_range {
    char text[72];
};
struct aorta_brief_range aorta_about_range(double least, double most);

enum { AORTA_NAME_COLUMNS = 60 };
/* A kernel's, operation's or call's name for a line: without template arguments, at most AORTA_NAME_COLUMNS columns;
 * generic kernels by their functor ("FillFunctor"), Tensile's by their tile ("Tensile MT16x16x128"). Returns `text`. */
const char *aorta_name_for_line(const char *name, char *text, size_t size);
/* "[8192,768]x[768,50257]" of "[[8192, 768], [768, 50257]]". */
void aorta_shape_for_line(const char *dims, struct aorta_text *out);

/* Fills a template of verdict/causes.h with the finding's facts. False if a required fact is unknown: nothing is
 * written then. `whole_names`: names are not shortened. */
bool aorta_phrase(const struct aorta_verdict *verdict, const struct aorta_finding *finding, const char *template,
                  bool whole_names, struct aorta_text *out);
/* The cause's first template whose facts are known; nothing if there is none. */
void aorta_phrase_first(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                        const char *const *templates, bool whole_names, struct aorta_text *out);
/* The name of a cause as in the verdict's finding. */
void aorta_cause_display(const struct aorta_verdict *verdict, enum aorta_cause cause, struct aorta_text *out);
/* "late kernel launches", "exposed all_gather", "straggler rank 3"; "A + B" of findings that gain only together. */
void aorta_finding_name(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                        struct aorta_text *out);
/* The fix at `index`: "fsdp.forward_prefetch=true (gather …)". `also`: for its second line; NULL: it follows in `out`.
 */
void aorta_fix_text(const struct aorta_finding *finding, int index, struct aorta_text *out, struct aorta_text *also);

/* The text of an advice row, with "rank 3" or "the late rank" (-1) for {rank}. */
void aorta_advice_put(int rank, const char *advice, struct aorta_text *out);

/* As `evidence` and `advice` of the JSON. */
void aorta_finding_evidence(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                            struct aorta_text *out);
void aorta_finding_advice(const struct aorta_finding *finding, struct aorta_text *out);

#endif
