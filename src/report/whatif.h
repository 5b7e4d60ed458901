/* The result of aorta whatif, and its output. */
#ifndef AORTA_REPORT_WHATIF_H
#define AORTA_REPORT_WHATIF_H

#include "base/found.h"
#include "base/result_table.h"
#include "replay/unrecorded.h"
#include "replay/whatif.h"
#include "verdict/gains.h"

/* Scaling stops at the first number of ranks with a lower efficiency. */
#define AORTA_WHATIF_SCALES 0.8

struct aorta_whatif_row {
    int ranks;
    bool asked;        /* by --ranks, the recorded number, or all without --ranks; else of the curve only */
    double efficiency; /* step with the recorded number of ranks / this step */
    struct aorta_whatif_step step;
};

/* Remedies of compute that are applied to the graph. */
struct aorta_whatif_remedies {
    uint32_t set; /* aorta_remedy_bit of each; 0: none */
    struct aorta_remedies_worth worth;
};

struct aorta_whatif_result {
    const struct aorta_whatif *whatif;
    struct aorta_whatif_resources resources; /* except the ranks */
    struct aorta_graph_path path;            /* of the recording */
    struct aorta_unrecorded unrecorded;      /* cost of the recording, removed from the graph if known */
    double replayed_ns;                      /* step with nothing changed */
    struct aorta_whatif_remedies remedies;
    struct aorta_whatif_exposed exposed; /* with remedies, on most of the ranks asked for */
    bool changes_nothing;                /* apart from ranks, only the recorded values were asked for */
    bool only_remedies;                  /* only remedies change the step */
    bool bandwidth_given, latency_given;
    double verdict_ms[2];          /* the verdict's gain of the only removed cause; 0: other changes, or none */
    struct aorta_whatif_row *rows; /* by ascending ranks: doublings of the recorded number, and those asked for */
    size_t row_count;
    const struct aorta_whatif_row *stop; /* the first inefficient row, else the last row */
    struct aorta_whatif_limit limit;     /* there */
};

/* The facts and the assumptions, to be freed. Out of memory: the list's arena has failed. */
struct aorta_found_list aorta_whatif_find(const struct aorta_whatif_result *result);
void aorta_whatif_text(const struct aorta_whatif_result *result, const struct aorta_found_list *found,
                       struct aorta_text *out);
void aorta_whatif_json(const struct aorta_whatif_result *result, const struct aorta_found_list *found,
                       struct aorta_text *out);
void aorta_whatif_schema(struct aorta_json *json);
extern const struct aorta_result_table *const aorta_whatif_tables[]; /* of the result; ends with NULL */

#endif
