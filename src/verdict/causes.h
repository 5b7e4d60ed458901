/* The causes of lost time: one table for names, measurements and explanations (replay/causes.def).
 *
 * Templates have placeholders of facts, which report/phrases.c fills:
 *     {key}, {key#}                      value with its unit; without
 *     {key*many|one}                     count with its noun
 *     {key.name}, .after, .shape,        parts of the fact's place
 *     .host, .count
 *     {key.where}                        ", rank 1, step 3"
 *     {key.text}                         explanation
 *     {kind}, {runs}, {rank}, {per}      the collective, its verb, the finding's rank, " per step"
 * A part in brackets is omitted if one of its facts is unknown. A template is skipped if a fact outside of brackets is
 * unknown. The first template that is not skipped is used. */
#ifndef AORTA_VERDICT_CAUSES_H
#define AORTA_VERDICT_CAUSES_H

#include "verdict/verdict.h"

enum { AORTA_TEMPLATES = 12 };

struct aorta_fill;
struct aorta_trace_analysis;

struct aorta_cause_row {
    const char *key;                         /* in JSON and --without */
    const char *name;                        /* template: "late kernel launches", "exposed {kind}" */
    const char *suffix;                      /* template that follows the key: "3 places"; NULL: none */
    const char *verb;                        /* NULL: "fixed" */
    const char *measured[AORTA_TEMPLATES];   /* what was measured */
    const char *worst[AORTA_TEMPLATES];      /* the worst place */
    const char *means, *how, *gain, *unless; /* sentences of `aorta help CAUSE` */
    bool by_kind;                            /* there is a finding for each kind of collective */
    enum aorta_fact_key cost;                /* fact that stores the cost; NONE: `fill` sets more detailed facts */
    void (*fill)(struct aorta_fill *fill);   /* adds facts from the sums of the steps; NULL: none */
    void (*find)(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding); /* adds the worst place */
};

const struct aorta_cause_row *aorta_cause_row(enum aorta_cause cause);
/* AORTA_CAUSE_COUNT: no such cause. */
enum aorta_cause aorta_cause_named(const char *key);

#endif
