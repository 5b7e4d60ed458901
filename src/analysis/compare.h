/* Compares recordings: what became longer or shorter, and whether the change is significant (`aorta trace compare`).
 *
 * All times are per step and rank, so that recordings of different length and size are comparable. If a recording has
 * no steps, all recordings are compared as a whole. A step's sample is the mean over its ranks. A side is one
 * recording or several of equal runs. `p` and the interval of a change come from base/compare.h over the steps and runs
 * of both; with fewer than three steps in a recording there is neither. If recordings are compared as a whole, each is
 * a sample, and a side needs at least three. */
#ifndef AORTA_ANALYSIS_COMPARE_H
#define AORTA_ANALYSIS_COMPARE_H

#include "analysis/analysis.h"
#include "base/arena.h"
#include "base/compare.h"
#include "base/intern.h"

struct aorta_trace_compare_input {
    const char *path;  /* borrowed */
    const char *label; /* short name (aorta_trace_compare_labels); borrowed */
    const struct aorta_trace_analysis *analysis;
    bool repeats;    /* another run of the previous input's side */
    double pressure; /* pressure of its machine (base/compare.h); NaN: not known */
};

struct aorta_trace_side {
    const struct aorta_trace_compare_input *inputs; /* its recordings; the first names it */
    size_t first, count;                            /* among all inputs */
    const size_t *steps;                            /* of each recording; 1 if compared as a whole */
    const double *pressures;                        /* of each */
    size_t step_count;                              /* of all of them */
    /* The rows with the largest increase and decrease among operations, idle causes and exposed time of each
     * collective. If operations launched less than half of the work, categories replace them. Operations that replace
     * each other are one row of the subtrees. The change must be significant (corrected for the number of rows, if p is
     * known) and at least 1% of the step. NULL: none. */
    const struct aorta_trace_compare_row *longer, *shorter;
};

enum aorta_trace_section {
    AORTA_SECTION_TIMELINE,   /* the step, its classes, its idle time by cause */
    AORTA_SECTION_CATEGORY,   /* categories of work (breakdown.h) */
    AORTA_SECTION_OPERATION,  /* of the framework, by common names (breakdown.h) */
    AORTA_SECTION_SUBTREE,    /* the lowest operation or module in common (see below); rows add up to all work */
    AORTA_SECTION_KERNEL,     /* kernels, copies and fills, by name */
    AORTA_SECTION_GEMM,       /* matrix products by shape */
    AORTA_SECTION_COLLECTIVE, /* by kind and group size; and the exposed time of each kind */
    AORTA_SECTION_COUNT
};
const char *aorta_trace_section_name(enum aorta_trace_section section); /* "timeline", "categories", … */

struct aorta_trace_compared {
    bool there;                 /* it occurs in a recording of this side */
    double ms, count;           /* per step and rank */
    double mean_us;             /* of one run; NaN if there is none or the row is not countable */
    double change_ms;           /* from the first side */
    double percent;             /* of the first side; NaN if that is 0 */
    struct aorta_comparison of; /* with the first side, in ms; p_value NaN: see aorta_trace_comparison.unsure */
};

/* The operations that did the work of a subtree, largest first. */
enum { AORTA_BELOW = 3 };
struct aorta_trace_below {
    const char *names[AORTA_BELOW];
    size_t count; /* all of them */
};

struct aorta_trace_compare_row {
    enum aorta_trace_section section;
    const char *name;
    struct aorta_trace_compared *values; /* one for each side */
    double largest_ms;                   /* change, by size */
    bool communicates;                   /* it has collectives */
    bool part;                           /* idle time of a cause, or exposed time of a collective */
    enum aorta_good good;
    struct aorta_trace_below *below; /* one per side for subtrees that differ; else NULL */
};

struct aorta_trace_comparison {
    struct aorta_arena arena; /* holds everything */
    struct aorta_trace_side *sides;
    size_t side_count; /* the first is the base */
    bool stepped;
    const char *unsure;                   /* why there is no p; else NULL */
    struct aorta_trace_compare_row *rows; /* by section; the timeline in its own order, further sections by largest
                                           * change */
    size_t row_count;
};

/* `inputs` are borrowed until the comparison is freed. */
AORTA_MUST_USE aorta_status aorta_trace_compare(const struct aorta_trace_compare_input *inputs, size_t count,
                                                struct aorta_trace_comparison *comparison);
void aorta_trace_comparison_free(struct aorta_trace_comparison *comparison);

/* Short names of recordings: without common folders, and without endings such as ".pt.trace.json.gz" if the names stay
 * distinct. Allocated in `arena`; NULL if memory is exhausted. */
const char **aorta_trace_compare_labels(const char *const *paths, size_t count, struct aorta_arena *arena);

/* Whether the step (or recording) of this side is longer than the base's by more than `threshold` (0.05: 5%) and, if p
 * is known, significantly (p < 0.05). */
bool aorta_trace_regressed(const struct aorta_trace_comparison *comparison, size_t side, double threshold);

/* ---- the tree of launching modules and operations ----
 *
 * One tree, for one or several recordings, of the modules and operations that launched work. The page's flame view
 * shows it. It also matches work of recordings whose lower operations differ, as fused and unfused ones, or those of
 * two libraries.
 *
 * A piece of work has a path: the modules around its launch (for a gradient, the modules of its forward pass), then the
 * operations, outermost first, by their common names (aorta_operation_alike; LlamaRMSNorm_3 is LlamaRMSNorm). The paths
 * of all recordings make one tree. A piece counts for the innermost node of its path that every recording has. So the
 * lowest common operation or module sums everything below it in each recording. Work without a common node gets a row
 * with the name of its path's outermost node. TraceLens' TraceDiff instead aligns the
 * children of two trees one by one. */

struct aorta_call_node {
    const char *name;
    uint32_t parent; /* 0: the root */
    bool module;
};

struct aorta_call_trees {
    size_t inputs;
    struct aorta_call_node *nodes; /* the root first; parents before children */
    size_t count, node_capacity;
    bool *there; /* by node, then input: work was launched in it or below it */
    double *ns;  /* by node, then input: time of work launched directly by the node */
    size_t there_capacity, ns_capacity;
    uint32_t ***of_work; /* by input, rank, row of the rank's work[]: the node */
    const struct aorta_trace_compare_input *of;
    struct aorta_keys keys; /* of nodes */
    struct aorta_texts names;
    struct aorta_arena *memory; /* of the arrays of of_work */
    bool any;                   /* operations or modules are recorded */
};

/* Free with aorta_call_trees_free. */
struct aorta_call_trees aorta_call_trees_make(const struct aorta_trace_compare_input *inputs, size_t count,
                                              struct aorta_arena *memory);
void aorta_call_trees_free(struct aorta_call_trees *trees);

/* Name of a row: "aten::linear", "LlamaRMSNorm (module)". */
const char *aorta_call_trees_name(const struct aorta_call_trees *trees, uint32_t row, char *name, size_t size);

/* ---- samples of each step of each recording, for compare.c ---- */

/* Samples of a row in one recording. */
struct compare_series {
    double *ns;   /* of each step, summed over ranks; NULL: it does not occur */
    double count; /* total */
};

struct compare_samples_row {
    struct aorta_trace_compare_row row; /* without values */
    struct compare_series *series;      /* one for each input */
    bool counted;                       /* the row is countable: kernels, not times */
};

struct compare_samples {
    struct aorta_arena *arena; /* borrowed */
    size_t inputs;
    size_t *steps;   /* of each input */
    uint32_t *sides; /* by input: its side */
    bool stepped;
    struct compare_samples_row *rows;
    size_t count, capacity;
    struct aorta_keys keys; /* of rows, while they are made: section and name */
    struct aorta_texts names;
};

void aorta_compare_samples_make(const struct aorta_trace_compare_input *inputs, size_t count, struct aorta_arena *arena,
                                struct compare_samples *samples);

#endif
