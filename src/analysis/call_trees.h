/* The modules and operations that launched work, as one tree for one or several recordings. The page's flame view shows
 * it. It also pairs the work of recordings whose lower operations differ, for example fused and unfused, or those of
 * two libraries.
 *
 * A piece of work has a path: the modules around its launch (for a gradient, the modules of its forward pass), then the
 * operations, outermost first, by their common names (aorta_operation_alike; LlamaRMSNorm_3 is LlamaRMSNorm). The paths
 * of all recordings make one tree. A piece counts for the innermost node of its path that every recording has. If that
 * is not its own node, the lowest common operation or module sums everything below it in each recording. Work whose
 * path has no common node gets a row named by the path's outermost node. TraceLens' TraceDiff instead aligns the
 * children of two trees one by one. */
#ifndef AORTA_ANALYSIS_CALL_TREES_H
#define AORTA_ANALYSIS_CALL_TREES_H

#include "analysis/compare.h"
#include "base/intern.h"

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
    struct aorta_intern names;
    struct aorta_arena *memory; /* of the arrays of of_work */
    bool any;                   /* operations or modules are recorded */
};

/* Ends with aorta_call_trees_free. */
struct aorta_call_trees aorta_call_trees_make(const struct aorta_trace_compare_input *inputs, size_t count,
                                              struct aorta_arena *memory);
void aorta_call_trees_free(struct aorta_call_trees *trees);

/* The node that the work of this node counts for. */
uint32_t aorta_call_trees_row(const struct aorta_call_trees *trees, uint32_t node);
/* Name of a row: "aten::linear", "LlamaRMSNorm (module)". */
const char *aorta_call_trees_name(const struct aorta_call_trees *trees, uint32_t row, char *name, size_t size);

#endif
