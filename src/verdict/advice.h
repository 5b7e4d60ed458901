/* What to try against a cause: one table for programs of ours, whose configuration is known, and for others. */
#ifndef AORTA_VERDICT_ADVICE_H
#define AORTA_VERDICT_ADVICE_H

#include "verdict/verdict.h"

/* One configuration key as it was in force: "fsdp.forward_prefetch", "true". Borrowed. */
struct aorta_setting {
    const char *key, *value;
};

struct aorta_settings {
    struct aorta_setting *items;
    size_t count;
};
const char *aorta_settings_value(const struct aorta_settings *settings, const char *key); /* NULL: there is none */

/* Whose program it is: aorta train with the transformer, or with the sparse model; another one. */
enum aorta_advised { AORTA_EITHER, AORTA_OURS, AORTA_SPARSE, AORTA_OTHERS };

/* Stand for a value where the best is not known, only where to look for it. */
extern const char aorta_advice_larger[], aorta_advice_smaller[], aorta_advice_another[];

/* Rows of one cause are tried in order. A row with a key holds for a program of ours whose settings are known, where
 * the key is not set so already; up to two of them are named. A row without a key ends the search. */
struct aorta_advice_row {
    enum aorta_cause cause;
    int collective; /* enum aorta_collective; -1: any */
    enum aorta_advised program;
    unsigned circumstances; /* enum aorta_circumstance: all of these must hold */
    const char *key;        /* of the configuration, or a variable of the environment (capitals); NULL: none */
    const char *value;      /* or one of the three above */
    const char *unless; /* settings any of which makes the row pointless, "key=value key!=value"; "": collectives are
                           not those of NCCL or RCCL between ranks; NULL: none */
    const char *text;   /* "{rank}" stands for the finding's rank */
};
const struct aorta_advice_row *aorta_advice_rows(size_t *count);

/* Gives every finding its advice. `settings`: NULL or empty where they are not known. */
AORTA_MUST_USE aorta_status aorta_advise(struct aorta_verdict *verdict, const struct aorta_settings *settings);

/* Says in the evidence of rows which variables of environment.json ("environment.NCCL_PROTO") explain them.
 * (environment.c) */
AORTA_MUST_USE aorta_status aorta_verdict_environment(struct aorta_verdict *verdict,
                                                      const struct aorta_settings *environment);

#endif
