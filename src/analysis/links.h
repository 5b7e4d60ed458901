/* What the link between the GPUs of a host can carry. */
#ifndef AORTA_ANALYSIS_LINKS_H
#define AORTA_ANALYSIS_LINKS_H

#include "analysis/analysis.h"

enum { AORTA_LINK_RANKS = 8 }; /* so many ranks are within one host */

/* GB/s of 10^9 bytes in each direction, by the name of the trace's device; 0: not known. */
double aorta_link_gbps(const struct aorta_trace *trace, int32_t device);

/* The same for a collective of the rank; 0 where its group is larger than a host, too. */
double aorta_trace_link_of(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                           const struct aorta_trace_collective_row *row);

#endif
