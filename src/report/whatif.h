/* What aorta whatif found, and how it is printed. */
#ifndef AORTA_REPORT_WHATIF_H
#define AORTA_REPORT_WHATIF_H

#include "base/found.h"
#include "base/result_table.h"
#include "replay/unrecorded.h"
#include "replay/whatif.h"
#include "verdict/gains.h"

/* Efficiency below this is where scaling stops. */
#define AORTA_WHATIF_SCALES 0.8

struct aorta_whatif_row {
    int ranks;
    bool asked;        /* by --ranks, the recorded number, or all without --ranks; else of the curve only */
    double efficiency; /* step with the recorded number of ranks / this step */
    struct aorta_whatif_step step;
};

/* Remedies of compute that the graph has. */
struct aorta_whatif_remedies {
    uint32_t set; /* aorta_remedy_bit of each; 0: none */
    struct aorta_remedies_worth worth;
};

struct aorta_whatif_result {
    const struct aorta_whatif *whatif;
    struct aorta_whatif_resources resources; /* but for the ranks */
    struct aorta_graph_path path;            /* of the recording */
    struct aorta_unrecorded unrecorded;      /* what the recording cost; the graph is without it where that is known */
    double replayed_ns;                      /* step with nothing changed */
    struct aorta_whatif_remedies remedies;
    struct aorta_whatif_exposed exposed; /* with remedies, on most of the ranks asked for */
    bool changes_nothing;                /* but for the ranks, nothing else than what was recorded was asked for */
    bool only_remedies;                  /* these change the step, nothing else */
    bool bandwidth_given, latency_given;
    double verdict_ms[2]; /* gain of the cause that is left out, as the verdict shows it; 0: other changes, or none */
    struct aorta_whatif_row *rows; /* ascending ranks; doublings of the recorded number, and those asked for */
    size_t row_count;
    const struct aorta_whatif_row *stop; /* the first row that is no longer efficient; else the last one */
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
