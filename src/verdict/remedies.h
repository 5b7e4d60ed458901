/* What to try against a cause, given how the run was configured: nothing is advised that is already set. */
#ifndef AORTA_VERDICT_REMEDIES_H
#define AORTA_VERDICT_REMEDIES_H

#include "verdict/verdict.h"

/* One configuration key as it was in force: "fsdp.forward_prefetch", "true". Borrowed. */
struct aorta_setting {
    const char *key, *value;
};

struct aorta_settings {
    struct aorta_setting *items;
    size_t count;
};

/* Rewrites the advice of those findings for which configuration keys are the remedy. Settings that are not listed count
 * as not set. */
AORTA_MUST_USE aorta_status aorta_verdict_advise(struct aorta_verdict *verdict, const struct aorta_settings *settings);

#endif
