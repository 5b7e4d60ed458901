/* The modules and operations that launched work, as a tree of one recording or several: for the page's flame view, and
 * to pair what recordings did where the operations below differ: fused and unfused, one library's and another's.
 *
 * A piece of work has a path: the modules around its launch (of a gradient those of its forward pass) and the
 * operations, outermost first, by their common names (aorta_operation_alike; LlamaRMSNorm_3 is LlamaRMSNorm). Paths of
 * all recordings make one tree. A piece counts for the innermost node of its path that every recording has: for
 * itself where all have it, else for the lowest operation or module in common, with all that is below it in any of
 * them. What has no node in common is a row of its own, by the outermost of its path. TraceLens' TraceDiff aligns the
 * children of two trees one by one instead. */
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
    struct aorta_table table;
    struct aorta_intern names;
    bool any; /* operations or modules are recorded */
};

/* AORTA_MEMORY. In any case aorta_call_trees_free. */
AORTA_MUST_USE aorta_status aorta_call_trees_make(const struct aorta_trace_compare_input *inputs, size_t count,
                                                  struct aorta_call_trees *trees);
void aorta_call_trees_free(struct aorta_call_trees *trees);

/* The node that the work of this node counts for. */
uint32_t aorta_call_trees_row(const struct aorta_call_trees *trees, uint32_t node);
/* Of a row: "aten::linear", "LlamaRMSNorm (module)". */
const char *aorta_call_trees_name(const struct aorta_call_trees *trees, uint32_t row, char *name, size_t size);

#endif
