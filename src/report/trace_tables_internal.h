/* What the files of trace_tables share. */
#ifndef AORTA_REPORT_TRACE_TABLES_INTERNAL_H
#define AORTA_REPORT_TRACE_TABLES_INTERNAL_H

#include "report/trace_tables.h"

const char *trace_text_of(const struct aorta_trace *trace, uint32_t text); /* NULL: AORTA_TRACE_NONE */
int64_t trace_known(int64_t value);                                        /* -1 is AORTA_ROW_UNKNOWN */

/* Of what a table is of. */
const struct aorta_trace_rank *trace_rank_of(const void *of);
const struct aorta_trace_analysis *trace_analysis_of(const void *of);

extern const struct aorta_row trace_times_rows[]; /* of struct aorta_trace_times */
/* The rows of the member `times`, among the others. */
#define TRACE_TIMES(type)                                                                                              \
    { NULL, AORTA_ROW_PART, offsetof(type, times), .part = trace_times_rows }

extern const struct aorta_result_table trace_table_kernels, trace_table_copies, trace_table_gemms,
    trace_table_shared_collectives, trace_table_streams, trace_table_queues, trace_table_gaps, trace_table_warnings;

#endif
