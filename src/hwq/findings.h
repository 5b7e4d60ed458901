/* The findings of a run: facts in the result, sentences in findings.def. */
#ifndef AORTA_HWQ_FINDINGS_H
#define AORTA_HWQ_FINDINGS_H

#include "base/json.h"
#include "base/text.h"

#include <stdbool.h>

struct aorta_hwq_result;

enum aorta_hwq_finding {
#define FINDING(name, kind, key, advice, template) AORTA_HWQ_##name,
#include "hwq/findings.def"
#undef FINDING
    AORTA_HWQ_FINDINGS
};

const char *aorta_hwq_finding_key(enum aorta_hwq_finding finding);    /* "launches"; NULL for an unknown limit */
const char *aorta_hwq_finding_advice(enum aorta_hwq_finding finding); /* NULL: none */

/* Its sentence, without a full stop. False: a fact is not known, and nothing is written. */
bool aorta_hwq_finding_text(const struct aorta_hwq_result *result, enum aorta_hwq_finding finding,
                            struct aorta_text *out);
/* A wrong result, else the answer to the workload's question, else the limit. */
enum aorta_hwq_finding aorta_hwq_answer(const struct aorta_hwq_result *result);
void aorta_hwq_headline(const struct aorta_hwq_result *result, struct aorta_text *out);
/* "0.411 us", "97%", "not known: one rank" */
void aorta_hwq_value_text(double value, const char *unit, struct aorta_text *out);
/* The keys headline, findings (sentences) and facts (of each finding: key, value, unit, place). */
void aorta_hwq_findings_json(const struct aorta_hwq_result *result, struct aorta_json *json);

#endif
