/* What the commands of `aorta hwq` and `aorta sdma` find: the rows of findings.def. */
#ifndef AORTA_HWQ_FINDINGS_H
#define AORTA_HWQ_FINDINGS_H

#include "base/found.h"

#include <math.h>

enum aorta_hwq_finding {
#define FINDING(name, kind, key, advice, template) AORTA_HWQ_##name,
#include "hwq/findings.def"
#undef FINDING
    AORTA_HWQ_FINDINGS
};

/* From this share of the shorter side on, work overlaps; less is noise. */
#define HWQ_LEAST_HIDDEN 0.1

extern const struct aorta_found_row aorta_hwq_finding_rows[AORTA_HWQ_FINDINGS];

static inline struct aorta_found_fact hwq_value(const char *key, double value, const char *unit) {
    return (struct aorta_found_fact){key, value, unit, NULL, NULL};
}
static inline struct aorta_found_fact hwq_count(const char *key, double value) {
    return hwq_value(key, value, NULL);
}
static inline struct aorta_found_fact hwq_text(const char *key, const char *text) {
    return (struct aorta_found_fact){key, NAN, NULL, text, NULL};
}

static inline void aorta_hwq_add(struct aorta_found_list *list, enum aorta_hwq_finding finding,
                                 const struct aorta_found_fact *facts) {
    aorta_found_add(list, aorta_hwq_finding_rows, finding, facts);
}
#define HWQ_FIND(findings, finding, ...)                                                                               \
    aorta_hwq_add(findings, finding, (const struct aorta_found_fact[]){__VA_ARGS__, {0}})

#endif
