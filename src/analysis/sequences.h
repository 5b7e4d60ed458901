/* Kernel sequences that repeat: what runs of the framework's operations launch, kernel by kernel. A sequence of short
 * kernels that comes back often is what fusing or capturing removes launches from.
 *
 * HTA's frequent CUDA kernel sequences are of one operation that the caller names
 * (hta/analyzers/cuda_kernel_analysis.py); these are of all operations. Of operations within each other that launch the
 * same work the outermost counts. Made when it is asked for. */
#ifndef AORTA_ANALYSIS_SEQUENCES_H
#define AORTA_ANALYSIS_SEQUENCES_H

#include "analysis/analysis.h"

enum { AORTA_SEQUENCE_SHORTEST = 2, AORTA_SEQUENCE_LONGEST = 12 };

struct aorta_sequence {
    uint32_t operation;                       /* text: the outermost that launched it, of its first run */
    uint32_t kernels[AORTA_SEQUENCE_LONGEST]; /* texts, in order of their starts; copies and fills count */
    uint32_t length;
    size_t runs;     /* 2 at least */
    int64_t ns;      /* times of the kernels of all runs added up */
    int64_t span_ns; /* of each run from the first start to the last end, added up */
};

struct aorta_sequences {
    struct aorta_sequence *rows; /* most kernels in all first */
    size_t count;
    const char *reason; /* why there are none; NULL */
};

/* Of the rank's chosen steps. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_sequences_make(const struct aorta_trace_rank *rank,
                                                 struct aorta_sequences *sequences);
void aorta_sequences_free(struct aorta_sequences *sequences);

#endif
