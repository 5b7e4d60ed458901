/* Compares recordings: what takes longer, what shorter, and whether the difference is noise (`aorta trace compare`).
 *
 * All times are per step and rank (steps are ProfilerStep#N; where a recording has none, all are compared as a whole),
 * so that recordings of different length and size compare. A step's sample is the mean over its ranks. A side is one
 * recording or several of equal runs. `p` and the interval of a change come from base/compare.h over the steps and runs
 * of both; with fewer than three steps in a recording there is neither. Recordings that are compared as a whole are
 * samples themselves: of three or more a side. */
#ifndef AORTA_ANALYSIS_COMPARE_H
#define AORTA_ANALYSIS_COMPARE_H

#include "analysis/analysis.h"
#include "base/arena.h"
#include "base/compare.h"
#include "base/intern.h"

struct aorta_trace_compare_input {
    const char *path;  /* borrowed */
    const char *label; /* the same, shorter (aorta_trace_compare_labels); borrowed */
    const struct aorta_trace_analysis *analysis;
    bool repeats;    /* it is another run of the side of the one before */
    double pressure; /* of its machine (base/compare.h); NaN: not known */
};

struct aorta_trace_side {
    const struct aorta_trace_compare_input *inputs; /* its recordings; the first names it */
    size_t first, count;                            /* of all inputs */
    const size_t *steps;                            /* of each; 1 where recordings are compared as a whole */
    const double *pressures;                        /* of each */
    size_t step_count;                              /* of all of them */
    /* The row that became longer most, and shorter most, of what takes a part of the step: operations, idle causes,
     * exposed time of each collective. Where operations launched less than half of the work, categories instead.
     * Operations that run on one side each and replace each other are one row, of the subtrees. Beyond chance, where
     * that is known, as one of so many, and by 1% of the step. NULL: none. */
    const struct aorta_trace_compare_row *longer, *shorter;
};

enum aorta_trace_section {
    AORTA_SECTION_TIMELINE,   /* the step, its classes, its idle time by cause */
    AORTA_SECTION_CATEGORY,   /* of the work, whichever kernels did it (breakdown.h) */
    AORTA_SECTION_OPERATION,  /* of the framework, one name for what does the same (breakdown.h) */
    AORTA_SECTION_SUBTREE,    /* the lowest operation or module in common (see below); rows add up to all work */
    AORTA_SECTION_KERNEL,     /* kernels, copies and fills, by name */
    AORTA_SECTION_GEMM,       /* matrix products by their shape, whichever kernel made them */
    AORTA_SECTION_COLLECTIVE, /* by kind and size of the group; and the part of each kind that nothing hid */
    AORTA_SECTION_COUNT
};
const char *aorta_trace_section_name(enum aorta_trace_section section); /* "timeline", "categories", … */

struct aorta_trace_compared {
    bool there;                 /* it occurs in a recording of this side */
    double ms, count;           /* per step and rank */
    double mean_us;             /* of one; NaN where there is none or it is no thing that can be counted */
    double change_ms;           /* from the first side's */
    double percent;             /* of the first side's; NaN where that is 0 */
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
    bool part;                           /* of the step: idle time of a cause, exposed time of a collective */
    enum aorta_good good;
    struct aorta_trace_below *below; /* of subtrees that differ, for each side; else NULL */
};

struct aorta_trace_comparison {
    struct aorta_arena arena; /* holds everything */
    struct aorta_trace_side *sides;
    size_t side_count; /* the first is the base */
    bool stepped;
    const char *unsure;                   /* why no p is given; NULL: it is */
    struct aorta_trace_compare_row *rows; /* by section; the timeline in its own order, else the largest change first */
    size_t row_count;
};

/* `inputs` are borrowed until the comparison is freed. */
AORTA_MUST_USE aorta_status aorta_trace_compare(const struct aorta_trace_compare_input *inputs, size_t count,
                                                struct aorta_trace_comparison *comparison);
void aorta_trace_comparison_free(struct aorta_trace_comparison *comparison);

/* Shorter names of recordings: without the folders that all are in, and without ".pt.trace.json.gz" and the like where
 * the names stay apart. Into `arena`; NULL: no memory. */
const char **aorta_trace_compare_labels(const char *const *paths, size_t count, struct aorta_arena *arena);

/* Whether the step (the recording) of this side takes more than `threshold` (0.05: 5%) longer than the base's, and,
 * where that can be said, not by chance (p < 0.05). */
bool aorta_trace_regressed(const struct aorta_trace_comparison *comparison, size_t side, double threshold);

/* ---- the tree of what launched work ----
 *
 * The modules and operations that launched work, as one tree for one or several recordings. The page's flame view shows
 * it. It also pairs the work of recordings whose lower operations differ, for example fused and unfused, or those of
 * two libraries.
 *
 * A piece of work has a path: the modules around its launch (for a gradient, the modules of its forward pass), then the
 * operations, outermost first, by their common names (aorta_operation_alike; LlamaRMSNorm_3 is LlamaRMSNorm). The paths
 * of all recordings make one tree. A piece counts for the innermost node of its path that every recording has. If that
 * is not its own node, the lowest common operation or module sums everything below it in each recording. Work whose
 * path has no common node gets a row named by the path's outermost node. TraceLens' TraceDiff instead aligns the
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
    bool *there; /* by node, then input: something in it or below it ran */
    double *ns;  /* the same: of work launched by the node itself */
    size_t there_capacity, ns_capacity;
    uint32_t ***of_work; /* by input, rank, row of the rank's work[]: the node */
    const struct aorta_trace_compare_input *of;
    struct aorta_keys keys; /* of nodes */
    struct aorta_texts names;
    struct aorta_arena *memory; /* of the arrays of of_work */
    bool any;                   /* operations or modules are recorded */
};

/* Ends with aorta_call_trees_free. */
struct aorta_call_trees aorta_call_trees_make(const struct aorta_trace_compare_input *inputs, size_t count,
                                              struct aorta_arena *memory);
void aorta_call_trees_free(struct aorta_call_trees *trees);

/* Name of a row: "aten::linear", "LlamaRMSNorm (module)". */
const char *aorta_call_trees_name(const struct aorta_call_trees *trees, uint32_t row, char *name, size_t size);

/* ---- what each step of each recording spent on what; for compare.c ---- */

/* One recording's samples of a row. */
struct compare_series {
    double *ns;   /* of each step, summed over ranks; NULL: it does not occur */
    double count; /* in all */
};

struct compare_samples_row {
    struct aorta_trace_compare_row row; /* without values */
    struct compare_series *series;      /* one for each input */
    bool counted;                       /* things that can be counted: kernels, not stretches of time */
};

struct compare_samples {
    struct aorta_arena *arena; /* borrowed */
    size_t inputs;
    size_t *steps;   /* of each input */
    uint32_t *sides; /* of each input: the side that it belongs to */
    bool stepped;
    struct compare_samples_row *rows;
    size_t count, capacity;
    struct aorta_keys keys; /* of rows: section and name; while they are made */
    struct aorta_texts names;
};

void aorta_compare_samples_make(const struct aorta_trace_compare_input *inputs, size_t count, struct aorta_arena *arena,
                                struct compare_samples *samples);

#endif
