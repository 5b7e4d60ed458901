/* The causes of lost time: one table for names, measurements and explanations (replay/causes.def).
 *
 * Templates have placeholders of facts, which report/phrases.c fills: {key} is the value with its unit, {key#} without;
 * {key*many|one} a count with its noun; {key.name}, {key.after}, {key.shape}, {key.host}, {key.count} parts of its
 * place, {key.where} ", rank 1, step 3", {key.text} its explanation. {kind} is the collective, {runs} its verb, {rank}
 * the finding's rank, {per} " per step". A part in brackets is left out where a fact in it is not known. A
 * template is skipped where a fact outside of brackets is not known. The first template that is not skipped is used. */
#ifndef AORTA_VERDICT_CAUSES_H
#define AORTA_VERDICT_CAUSES_H

#include "verdict/verdict.h"

enum { AORTA_TEMPLATES = 12 };

struct aorta_fill;
struct aorta_trace_analysis;

struct aorta_cause_row {
    const char *key;                         /* as in JSON and --without */
    const char *name;                        /* template: "late kernel launches", "exposed {kind}" */
    const char *suffix;                      /* template that follows the key: "3 places"; NULL: none */
    const char *verb;                        /* NULL: "fixed" */
    const char *measured[AORTA_TEMPLATES];   /* what was measured */
    const char *worst[AORTA_TEMPLATES];      /* the worst place */
    const char *means, *how, *gain, *unless; /* of `aorta help CAUSE`: sentences */
    bool by_kind;                            /* there is a finding for each kind of collective */
    enum aorta_fact_key cost;                /* the fact that is its cost; NONE: its facts say more */
    void (*fill)(struct aorta_fill *fill);   /* more facts, from the sums of the steps; NULL: none */
    void (*find)(const struct aorta_trace_analysis *analysis, struct aorta_finding *finding); /* adds the worst place */
};

const struct aorta_cause_row *aorta_cause_row(enum aorta_cause cause);
/* AORTA_CAUSE_COUNT: there is none. */
enum aorta_cause aorta_cause_named(const char *key);

#endif
