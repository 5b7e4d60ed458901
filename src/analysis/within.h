/* Which device work was launched within an operation, a range of the program, a module or a function of some name:
 * gradients lie within the modules and functions of their forward pass, as for --by module. */
#ifndef AORTA_ANALYSIS_WITHIN_H
#define AORTA_ANALYSIS_WITHIN_H

#include "analysis/phases.h"
#include "trace/kernel_names.h"
#include "trace/nest.h"

struct aorta_within {
    const struct aorta_trace *trace;
    struct aorta_kernel_patterns *pattern;
    struct aorta_forwards forwards;
    struct aorta_nest_range *functions, *ranges; /* the latter of files without operations */
    uint8_t *names;                              /* by text: whether the pattern is in it */
    bool *operations;                            /* by row: it, or one around it, has the pattern */
};

/* AORTA_USAGE: no regular expression. NULL is fine. */
AORTA_MUST_USE aorta_status aorta_within_check(const char *regex);
/* An operation also matches by its name with the shapes of its inputs behind: "aten::mm [[8, 4], [4, 4]]". In any case
 * aorta_within_free. AORTA_MEMORY, AORTA_USAGE. */
AORTA_MUST_USE aorta_status aorta_within_make(const struct aorta_trace *trace, const char *regex,
                                              struct aorta_within *within);
bool aorta_within_has(const struct aorta_within *within, const struct aorta_trace_work *work);
void aorta_within_free(struct aorta_within *within);

#endif
