/* What the compute of a step would take if it were done otherwise: remedies of products, attention, layout, precision
 * and so on, as rows of remedies.def, and one ledger of what they bring.
 *
 * A recorded rank is seen as operations with the kernels that each launched, their inputs, and what autograd says of
 * them. A rule names the operations that it changes and what they take then: the larger of their arithmetic at the rate
 * that this run, or this card, reaches with it, and their least bytes at the bandwidth that this run reaches. Files
 * without shapes or operations have fewer rules, never other figures for the rest.
 *
 * Times are ns of kernels, a step's on one rank; what the step gains by them is the replay's to say
 * (replay/trace_graph.h). Formulas and constants: docs/remedies.md. */
#ifndef AORTA_VERDICT_REMEDIES_H
#define AORTA_VERDICT_REMEDIES_H

#include "analysis/analysis.h"
#include "base/arena.h"
#include "verdict/devices.h"

enum aorta_remedy {
#define REMEDY(name, key, cause, rule, needs, least, upper, ours, change) AORTA_REMEDY_##name,
#include "verdict/remedies.def"
#undef REMEDY
    AORTA_REMEDY_COUNT
};
struct remedy_model;
/* A row of remedies.def. */
struct aorta_remedy_rule {
    const char *key, *cause, *change; /* "precision=bf16", "precision", "products … in bf16" */
    void (*apply)(struct remedy_model *model);
    enum { AORTA_NEEDS_TIMES, AORTA_NEEDS_NAMES, AORTA_NEEDS_SHAPES } needs;
    double least; /* of the gain, on a card at its power limit */
    bool upper;   /* an upper bound: it gets no row of the verdict */
    bool ours;    /* a key of aorta train does it */
};
extern const struct aorta_remedy_rule aorta_remedy_rules[AORTA_REMEDY_COUNT];
/* Remedies of one text of --remedy, as bits: a key, or a cause ("precision": all of it). 0: there is none. */
uint32_t aorta_remedy_find(const char *text);
static inline uint32_t aorta_remedy_bit(enum aorta_remedy remedy) {
    return UINT32_C(1) << remedy;
}

struct aorta_remedy_row {
    double alone_ns;     /* kernel time saved, from the recording as it is */
    double touched_ns;   /* kernel time of the operations that it changes, as recorded */
    double operations;   /* number of these operations */
    double gone;         /* number of kernels that are removed */
    double memory_bytes; /* additional memory; 0: none known */
    struct {
        const char *name, *dims; /* the trace's; name NULL: it saves nothing; dims NULL: not recorded */
        double runs, ns;         /* per step */
    } largest;                   /* of operations alike, those that save most */
    double rough_ns;             /* of alone_ns: from names and times, as sizes are not recorded */
};

struct aorta_remedies {
    struct aorta_remedy_row rows[AORTA_REMEDY_COUNT];
    double kernels_ns; /* all of the step */
    /* The same operations at the card's peak rates, and at those that this run reaches; what is not known of an
     * operation takes as long as recorded. NaN: the peaks are not known. */
    double at_peak_ns, at_reached_ns;
    double bounded_ns;             /* … as recorded, one after the other; without copies from and to the host */
    double sized_ns;               /* of bounded_ns: of what the bytes or arithmetic are known */
    double halved_ns;              /* … and of what computes in 16 bits or fewer */
    bool no_bf16;                  /* the card has 16 bits as fp16 only */
    bool amd;                      /* the card */
    bool wide_attention;           /* attention that is written out in fp32: 16 bits gain with it in one kernel */
    bool reorders;                 /* the cache of keys and values, as beam search does */
    bool widens;                   /* weights, in front of each product */
    bool all_fp64;                 /* nearly all kernels that say their type */
    bool looks_up;                 /* rows of a table, as of a vocabulary */
    bool norms_batches, convolves; /* as networks of convolutions do */
    bool fallback;                 /* scaled_dot_product_attention computes 16 bits without a fused kernel */
    struct {
        double ns, operations;
        bool before_tf32; /* by their names they are for cards that have no TF32 */
    } plain;              /* where rates are not known: products and convolutions in fp32 without matrix units */
    const char *lacks;    /* what the file would need for rules that need shapes, as advice; static; NULL: nothing */
    const char *unknown;  /* why no remedy can be computed: the card's peaks are not known; NULL: they are. Static */
    struct aorta_arena memory; /* of the model */
    struct remedy_model *model;
};

/* Makes the remedies of a recorded rank. The analysis is borrowed until aorta_remedies_free. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_remedies_make(const struct aorta_trace_analysis *analysis, size_t rank,
                                                struct aorta_remedies *remedies);
/* Whether most of alone_ns follows from names and times only. The saving is then an upper bound. */
bool aorta_remedy_row_is_rough(const struct aorta_remedy_row *row);
void aorta_remedies_free(struct aorta_remedies *remedies);
/* Keeps the figures and frees what only aorta_remedies_apply needs. That function may not be called any more. */
void aorta_remedies_settle(struct aorta_remedies *remedies);

/* Totals per step. */
struct aorta_remedies_applied {
    double saved_ns;    /* kernel time, without that of collectives, which the scales have */
    double gone, added; /* launches */
};

/* Applies a set of remedies (bits) to the recording as it is, in the table's order. `scales`: one entry per row of the
 * trace's work[]; those of other ranks are not changed. Where memory is exhausted remedies->memory has failed. */
struct aorta_remedies_applied aorta_remedies_apply(struct aorta_remedies *remedies, uint32_t set,
                                                   struct aorta_work_scale *scales);

/* Whether a kernel has fewer thread blocks than a quarter of the multiprocessors; false: not known. */
static inline bool aorta_has_few_blocks(const struct aorta_trace_work *work, int32_t multiprocessors) {
    return work->blocks && 4 * work->blocks < multiprocessors;
}

#endif
