/* A rank's device work by what launched it (operation, shape, module, Python function, range of the program, phase) or
 * by what it does (category, kernel). Computed on request. */
#ifndef AORTA_ANALYSIS_BREAKDOWN_H
#define AORTA_ANALYSIS_BREAKDOWN_H

#include "analysis/analysis.h"
#include "analysis/phases.h"
#include "trace/trace.h"

enum aorta_by {
    AORTA_BY_OPERATION,  /* of the framework */
    AORTA_BY_SHAPE,      /* operation with the shapes and types of its inputs */
    AORTA_BY_MODULE,     /* PyTorch's nn.Module; gradients count for that of their forward pass */
    AORTA_BY_FUNCTION,   /* Python function of the program; gradients as for modules */
    AORTA_BY_ANNOTATION, /* ranges that the program marked: record_function, NVTX, roctx */
    AORTA_BY_CATEGORY,   /* what it does (kernel_names.h); collectives, copies and fills apart */
    AORTA_BY_PHASE,      /* forward, backward, recomputation, optimizer; prefill, decode */
    AORTA_BY_KERNEL,     /* name */
    AORTA_BY_BREAKDOWN_COUNT,
    AORTA_BY_SEQUENCE = AORTA_BY_BREAKDOWN_COUNT, /* kernels that follow each other again and again (series.h) */
    AORTA_BY_TIME,                                /* equal parts of the rank's time (series.h) */
    AORTA_BY_STREAM,                              /* the queue of each stream (series.h) */
    AORTA_BY_MEMORY,                              /* contents of the device's memory at its peak (memory.h) */
    AORTA_BY_PATH,                                /* the critical path (replay/critical_path.h) */
    AORTA_BY_ARRIVAL, /* each collective that several ranks share (analysis_collectives.c) */
    AORTA_BY_COUNT
};
const char *aorta_by_name(enum aorta_by by); /* "op", "shape", "module", "function", "annotation", … */

struct aorta_breakdown_row {
    const char *name;     /* lives as long as the trace; NULL: remaining work */
    uint32_t inputs;      /* by shape: row of the trace's inputs[]; NONE: not recorded */
    size_t runs;          /* operations, functions or ranges of this name with work within; 0 for remaining work */
    size_t pieces;        /* kernels, copies and fills that it launched directly … */
    int64_t ns;           /* … and their total time; the sum of all rows is all work */
    size_t pieces_within; /* pieces including those launched by anything within it */
    int64_t ns_within;
    /* By shape, for direct launches: runs whose flops and bytes are known (operations.h), the time of their pieces, and
     * the sums. */
    size_t counted_runs;
    int64_t counted_ns;
    double flops, bytes;
    enum aorta_arithmetic arithmetic; /* of its products */
    size_t last;                      /* used while rows are made: index of the last piece counted within it, + 1 */
};

struct aorta_breakdown {
    enum aorta_by by;
    struct aorta_breakdown_row *rows; /* largest ns_within first; by shape largest ns */
    size_t count;
    int64_t total_ns;   /* of all work */
    const char *reason; /* why there is no breakdown; else NULL */
};

/* Selects work; NULL: all. */
struct aorta_breakdown_of {
    const char *phase;  /* of this phase (phases.h) */
    const char *within; /* launched within anything that matches this pattern */
};

/* Covers the rank's chosen steps. `by`: below AORTA_BY_BREAKDOWN_COUNT. AORTA_USAGE if `within` is no valid pattern. */
AORTA_MUST_USE aorta_status aorta_breakdown_make(const struct aorta_trace_rank *rank, enum aorta_by by,
                                                 struct aorta_breakdown_of of, struct aorta_arena *arena,
                                                 struct aorta_breakdown *breakdown);

/* AORTA_USAGE if the pattern of --within is no regular expression. NULL is fine. */
AORTA_MUST_USE aorta_status aorta_within_check(const char *regex);

/* ---- names of device work that do not depend on library or vendor ---- */

/* Names of one trace's work. Each text is classified only once. */
struct aorta_work_names {
    const struct aorta_trace *trace;
    uint8_t *categories;     /* by text: of a kernel's name, + 1 */
    const char **operations; /* by text: aorta_operation_alike of it; NULL: not looked up yet */
};

struct aorta_work_names aorta_work_names_make(const struct aorta_trace *trace, struct aorta_arena *memory);

/* "gemm", "attention", … (kernel_names.h); "collective", "copy", "fill". */
const char *aorta_work_category(struct aorta_work_names *names, const struct aorta_trace_work *work);
/* aorta_operation_alike of the innermost operation of the framework that launched it; NULL if not recorded. */
const char *aorta_work_operation(struct aorta_work_names *names, const struct aorta_trace_work *work);

/* One name for equivalent operations: "mm" for aten::mm, addmm and linear, "convolution" for cudnn_convolution and
 * miopen_convolution. Other names are unchanged. */
const char *aorta_operation_alike(const char *operation);

#endif
