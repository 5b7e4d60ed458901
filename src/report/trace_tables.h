/* The tables of an analysis of traces, as rows: JSON, text, CSV and the page are made of them. How to add one:
 * docs/architecture.md. */
#ifndef AORTA_REPORT_TRACE_TABLES_H
#define AORTA_REPORT_TRACE_TABLES_H

#include "analysis/breakdown.h"
#include "analysis/memory.h"
#include "analysis/series.h"
#include "base/result_table.h"
#include "replay/critical_path.h"

/* The data of a table: an analysis and, for tables of one rank, the rank. */
struct aorta_trace_of {
    const struct aorta_trace_analysis *analysis;
    const struct aorta_trace_rank *rank;
    const void *made; /* for a table of aorta_by_tables */
    bool of_steps;    /* work and collectives only of the steps that the verdict covers */
};

/* Tables of each rank, in the order of the JSON (the roofline comes between the two lists), and tables of all ranks
 * together. NULL ends each list. */
extern const struct aorta_result_table *const aorta_rank_tables[], *const aorta_rank_tables_after[],
                                                                       *const aorta_world_tables[];

/* Tables of each rank that are made only on request, by enum aorta_by. */
extern const struct aorta_result_table *const aorta_by_tables[];

struct aorta_trace_report; /* trace_report.h */

/* A table of each rank as CSV, with the rank in front. `by`: as enum aorta_by, of tables that are made on request. */
enum { AORTA_TABLE_OF_RANK = -1 };
void aorta_rank_table_csv(const struct aorta_trace_report *report, const struct aorta_result_table *table, int by,
                          struct aorta_text *csv);

/* Tables of the text report. */
extern const struct aorta_result_table aorta_table_ranks; /* one line per rank */
extern const struct aorta_result_table aorta_table_work;  /* kernels, copies and fills */
extern const struct aorta_result_table aorta_table_collectives, aorta_table_collective_sizes,
    aorta_table_synchronisations, aorta_table_differences;
/* Their columns per step (of_steps). */
extern const struct aorta_column trace_work_step_columns[], trace_collective_step_columns[], trace_size_step_columns[];

/* Writes a sentence on the rank's kernels that may be communication; false if there are none. */
bool aorta_trace_possible_collectives(const struct aorta_trace_rank *rank, struct aorta_text *sentence);

extern const struct aorta_row aorta_trace_figure_rows[]; /* of struct aorta_trace_figures */
/* The JSON fields of a rank outside its tables, and of its clock (trace_text.c). The docs list them. */
extern const struct aorta_row aorta_trace_rank_rows[], aorta_trace_clock_rows[], aorta_trace_slowdown_rows[];

/* Key and value of "idle_causes_ms". A time that was not recorded is null, with its reason. */
void aorta_trace_idle_json(const struct aorta_trace *trace, const struct aorta_idle *idle, struct aorta_json *json);

/* ---- what the files of trace_tables share ---- */

const char *trace_text_of(const struct aorta_trace *trace, uint32_t text); /* NULL: AORTA_TRACE_NONE */

/* Members of the struct aorta_trace_of that the functions of a table receive as `of`. */
const struct aorta_trace_rank *trace_rank_of(const void *of);
const struct aorta_trace_analysis *trace_analysis_of(const void *of);
const void *trace_made_of(const void *of);

extern const struct aorta_row trace_times_rows[]; /* of struct aorta_trace_times */
/* Inserts the rows of the member `times` at this place. */
#define TRACE_TIMES(place)                                                                                             \
    { NULL, AORTA_ROW_PART, (place), .part = trace_times_rows }

/* The data of a table of aorta_by_tables. */
struct trace_made {
    struct aorta_trace_of of; /* argument of the table's functions; its `made` points to the next member */
    union {
        struct aorta_breakdown breakdown;
        struct aorta_sequences sequences;
        struct aorta_series series;
        struct aorta_memory memory;
        struct aorta_path_rows path;
    };
    struct aorta_arena arena; /* aorta_arena_free it in the end */
};

/* `lines`: of the text; 0: for a file. Without memory made->arena has failed, and there is no table. */
void trace_by_make(const struct aorta_trace_report *report, const struct aorta_trace_rank *rank, enum aorta_by by,
                   size_t lines, struct trace_made *made);
/* Writes each table of report->by of a rank, or the reason why it is empty. Failed allocations are reported by the
 * output (aorta_text_check), also below. */
void trace_by_json(const struct aorta_trace_report *report, const struct aorta_trace_rank *rank,
                   struct aorta_json *json);
/* One of them (the critical path: of all ranks), or the reason. */
void trace_by_text(const struct aorta_trace_report *report, const struct aorta_trace_rank *rank, enum aorta_by by,
                   const struct aorta_table_view *view, struct aorta_text *out);

extern const struct aorta_result_table trace_table_kernels, trace_table_copies, trace_table_gemms,
    trace_table_shared_collectives, trace_table_streams, trace_table_queues, trace_table_gaps, trace_table_warnings,
    trace_table_stragglers, trace_table_uneven, trace_table_pairs;
extern const struct aorta_result_table trace_table_by_sequence, trace_table_by_time, trace_table_by_stream,
    trace_table_by_memory, trace_table_by_path, trace_table_by_arrival;

extern const struct aorta_row trace_memory_peak_rows[]; /* of "memory_peak" */

#endif
