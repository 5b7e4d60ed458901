/* What the files of trace_tables share. */
#ifndef AORTA_REPORT_TRACE_TABLES_INTERNAL_H
#define AORTA_REPORT_TRACE_TABLES_INTERNAL_H

#include "analysis/memory.h"
#include "analysis/series.h"
#include "replay/critical_path.h"
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

/* What the tables of aorta_by_tables are of. */
struct trace_made {
    union { /* first: tables are given the address of what was made */
        struct aorta_breakdown breakdown;
        struct aorta_sequences sequences;
        struct aorta_series series;
        struct aorta_memory memory;
        struct aorta_path_rows path;
    };
    struct aorta_arena arena;
};

/* What the tables of aorta_by_tables are made of beside the analysis. */
struct trace_by {
    const struct aorta_critical_path *path; /* for AORTA_BY_PATH; may be NULL */
    struct aorta_breakdown_of of;           /* the work that tables of work are of */
};

/* A table of aorta_by_tables for each bit 1 << enum aorta_by of a rank, with the reason where it distinguishes nothing.
 * A failed allocation shows in the output (aorta_text_check). */
void aorta_trace_by_json(const struct aorta_trace_of *of, unsigned by, const struct trace_by *from,
                         struct aorta_json *json);
/* One of them: of all ranks, as a file; of one (the critical path: of all), or the reason. AORTA_MEMORY, AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_trace_by_csv(const struct aorta_trace_analysis *analysis, enum aorta_by by,
                                               const struct trace_by *from, const char *folder);
AORTA_MUST_USE aorta_status aorta_trace_by_text(const struct aorta_trace_of *of, enum aorta_by by,
                                                const struct trace_by *from, const struct aorta_table_view *view,
                                                struct aorta_text *out);

extern const struct aorta_result_table trace_table_kernels, trace_table_copies, trace_table_gemms,
    trace_table_shared_collectives, trace_table_streams, trace_table_queues, trace_table_gaps, trace_table_warnings,
    trace_table_stragglers, trace_table_uneven, trace_table_pairs;
extern const struct aorta_result_table trace_table_by_sequence, trace_table_by_time, trace_table_by_stream,
    trace_table_by_memory, trace_table_by_path, trace_table_by_arrival;

extern const struct aorta_row trace_memory_peak_rows[]; /* of "memory_peak" */
/* Key and value of it; nothing where there are no allocations. */
void trace_memory_peak_json(const struct aorta_trace_rank *rank, const struct aorta_memory *memory,
                            struct aorta_json *json);
void trace_memory_peak_text(const struct aorta_trace_rank *rank, const struct aorta_memory *memory,
                            struct aorta_text *out);

#endif
