/* The tables of an analysis of traces, as rows: JSON, text, CSV and the page are made of them. How to add one:
 * docs/architecture.md. */
#ifndef AORTA_REPORT_TRACE_TABLES_H
#define AORTA_REPORT_TRACE_TABLES_H

#include "analysis/breakdown.h"
#include "base/result_table.h"

/* What a table is of: an analysis, and one of its ranks where the table is a rank's. */
struct aorta_trace_of {
    const struct aorta_trace_analysis *analysis;
    const struct aorta_trace_rank *rank;
    const void *made; /* for a table of aorta_by_tables */
};

/* Those of each rank, in the order of the JSON (the roofline stands between the two lists), and those of all together.
 * NULL ends each. */
extern const struct aorta_result_table *const aorta_rank_tables[], *const aorta_rank_tables_after[],
                                                                       *const aorta_world_tables[];

/* Those of each rank that are made when they are asked for, by enum aorta_by. */
extern const struct aorta_result_table *const aorta_by_tables[];

/* Those of the text. */
extern const struct aorta_result_table aorta_table_ranks; /* of all: one line for each rank */
extern const struct aorta_result_table aorta_table_work;  /* kernels, copies and fills */
extern const struct aorta_result_table aorta_table_collectives, aorta_table_collective_sizes,
    aorta_table_synchronisations, aorta_table_differences;
/* The same of a step, of those that the verdict is of. */
extern const struct aorta_result_table aorta_table_work_by_step, aorta_table_collectives_by_step,
    aorta_table_collective_sizes_by_step;

/* A sentence on the rank's kernels that may be communication; false: there are none. */
bool aorta_trace_possible_collectives(const struct aorta_trace_rank *rank, struct aorta_text *sentence);

extern const struct aorta_row aorta_trace_figure_rows[]; /* of struct aorta_trace_figures */
/* What the JSON says of a rank beside its tables, and of its clock (trace_json.c); for the docs. */
extern const struct aorta_row aorta_trace_rank_rows[], aorta_trace_clock_rows[], aorta_trace_slowdown_rows[];
/* Key and value of "gemm_slowdown" (trace_json.c). */
void aorta_trace_slowdown_json(const struct aorta_slowdown *slowdown, struct aorta_json *json);

/* Key and value of "idle_causes_ms". What was not recorded is null, with its reason. */
void aorta_trace_idle_json(const struct aorta_trace *trace, const struct aorta_idle *idle, struct aorta_json *json);

#endif
