/* Fixes: one table by cause, program and facts. */
#ifndef AORTA_VERDICT_ADVICE_H
#define AORTA_VERDICT_ADVICE_H

#include "base/settings.h"
#include "verdict/verdict.h"

/* Values of rows that know only the direction of a better value. */
extern const char aorta_advice_larger[], aorta_advice_smaller[], aorta_advice_another[];

/* Rows of one cause are tried in order. A row with a key fits only our own programs, if their settings are known and
 * the key has another value. Up to two such rows are chosen. The first row without a key ends the search. */
struct aorta_advice_row {
    enum aorta_cause cause;
    unsigned programs;           /* bits of enum aorta_program */
    int collective;              /* 1 + enum aorta_collective; 0: any */
    const char *remedy;          /* key of the finding's remedy; NULL: any */
    enum aorta_fact_key when[2]; /* facts that the finding must have */
    const char *key;             /* of the configuration, or an environment variable (capitals); NULL: none */
    const char *value;           /* or one of the three directions above */
    const char *unless;          /* "key=value key!=value": each of these settings makes the row pointless; "": so do
                                    collectives that are not those of NCCL or RCCL between ranks; NULL: none */
    const char *text;            /* "{rank}" is the finding's rank */
    const char *also;            /* a second line; NULL: none */
};
const struct aorta_advice_row *aorta_advice_rows(size_t *count);

/* Chooses the fixes of every finding. `settings`: NULL or empty if unknown; needed values are copied. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_advise(struct aorta_verdict *verdict, const struct aorta_settings *settings);

/* Adds to findings the variables of environment.json ("environment.NCCL_PROTO") that explain them. */
void aorta_verdict_environment(struct aorta_verdict *verdict, const struct aorta_settings *environment);

#endif
