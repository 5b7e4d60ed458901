/* Remedies: changes that make the compute of a step faster (products, attention, layout, precision, …). Each remedy is
 * a row of remedies.def with a rule.
 *
 * A rule sees a recorded rank as operations with their kernels, inputs and autograd data. It lowers the time of the
 * operations that it changes: to their arithmetic at the rate that this run or this card reaches, or to their least
 * bytes at the bandwidth that this run reaches, whichever takes longer. Fewer rules apply to files without shapes or
 * operations. The figures of those rules do not change.
 *
 * Times are ns of kernels, per step of one rank. The replay computes the gain of the step (replay/trace_graph.h).
 * Formulas and constants: docs/remedies.md. */
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
    double least; /* lower end of the gain, as a share of it: on a card at its power limit */
    bool upper;   /* an upper bound, which gets no finding */
    bool ours;    /* aorta train has a key for it */
};
extern const struct aorta_remedy_rule aorta_remedy_rules[AORTA_REMEDY_COUNT];
/* The remedies (bits) of a key or a cause ("precision"), as given to --remedy. 0: none. */
uint32_t aorta_remedy_find(const char *text);
static inline uint32_t aorta_remedy_bit(enum aorta_remedy remedy) {
    return UINT32_C(1) << remedy;
}

struct aorta_remedy_row {
    double alone_ns;     /* saved kernel time, without other remedies */
    double touched_ns;   /* recorded kernel time of the changed operations */
    double operations;   /* number of these operations */
    double gone;         /* number of kernels that are removed */
    double memory_bytes; /* additional memory; 0: none known */
    struct {
        const char *name, *dims; /* the trace's; name NULL: nothing is saved; dims NULL: not recorded */
        double runs, ns;         /* per step */
    } largest;                   /* the group of equal operations that saves most */
    double rough_ns;             /* part of alone_ns that follows from names and times, as sizes are not recorded */
};

struct aorta_remedies {
    struct aorta_remedy_row rows[AORTA_REMEDY_COUNT];
    double kernels_ns; /* all kernels of the step */
    /* The time of all operations at the card's peak rates, and at the rates that this run reaches. Operations of
     * unknown size count as recorded. NaN: the peaks are unknown. */
    double at_peak_ns, at_reached_ns;
    double bounded_ns;             /* recorded time of these operations, without copies between host and device */
    double sized_ns;               /* part of bounded_ns with known bytes or arithmetic */
    double halved_ns;              /* part of bounded_ns in 16 bits or fewer */
    bool no_bf16;                  /* the card supports fp16, but not bf16 */
    bool amd;                      /* the card is from AMD */
    bool wide_attention;           /* unfused attention in fp32, whose softmax stays in fp32 with 16 bits */
    bool reorders;                 /* the program reorders its cache of keys and values, as beam search does */
    bool widens;                   /* the program widens weights before each product */
    bool all_fp64;                 /* nearly all kernels with a known type compute in fp64 */
    bool looks_up;                 /* the program looks up rows of a table, for example of a vocabulary */
    bool norms_batches, convolves; /* the program has batch norms; much of its time is convolutions */
    bool fallback;                 /* scaled_dot_product_attention computes 16 bits unfused, in fp32 */
    struct {
        double ns, operations;
        bool before_tf32; /* names of kernels are for cards without TF32 */
    } plain;              /* if rates are unknown: products and convolutions in fp32 without matrix units */
    const char *lacks;    /* data that the file lacks for rules that need shapes, for advice; static; NULL: nothing */
    const char *unknown;  /* why no remedy can be computed (peaks are unknown); static; NULL: remedies are known */
    struct aorta_arena memory; /* of the model */
    struct remedy_model *model;
};

/* Makes the remedies of a recorded rank. The analysis is borrowed until aorta_remedies_free. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_remedies_make(const struct aorta_trace_analysis *analysis, size_t rank,
                                                struct aorta_remedies *remedies);
/* Most of alone_ns follows from names and times only, which is an upper bound. */
bool aorta_remedy_row_is_rough(const struct aorta_remedy_row *row);
void aorta_remedies_free(struct aorta_remedies *remedies);
/* Keeps the figures and frees the model. aorta_remedies_apply must not be called any more. */
void aorta_remedies_settle(struct aorta_remedies *remedies);

/* Totals per step. */
struct aorta_remedies_applied {
    double saved_ns;    /* kernel time, without collectives, whose savings are only in the scales */
    double gone, added; /* launches */
};

/* Applies a set of remedies (bits) to the recording, in the table's order. `scales`: one entry per row of the trace's
 * work[]; entries of other ranks do not change. If memory is exhausted, remedies->memory has failed. */
struct aorta_remedies_applied aorta_remedies_apply(struct aorta_remedies *remedies, uint32_t set,
                                                   struct aorta_work_scale *scales);

/* The kernel has fewer thread blocks than a quarter of the multiprocessors. False if unknown. */
static inline bool aorta_has_few_blocks(const struct aorta_trace_work *work, int32_t multiprocessors) {
    return work->blocks && 4 * work->blocks < multiprocessors;
}

#endif
