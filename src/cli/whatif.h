/* What aorta whatif found, and how it is printed. For src/cli only. */
#ifndef AORTA_CLI_WHATIF_H
#define AORTA_CLI_WHATIF_H

#include "base/json.h"
#include "replay/unrecorded.h"
#include "replay/whatif.h"
#include "verdict/gains.h"

/* Efficiency below this is where scaling stops. */
#define WHATIF_SCALES 0.8

struct whatif_row {
    int ranks;
    bool asked;        /* by --ranks, the recorded number, or all without --ranks; else of the curve only */
    double efficiency; /* step with the recorded number of ranks / this step */
    struct aorta_whatif_step step;
};

/* Remedies of compute that the graph has. */
struct whatif_remedies {
    uint32_t set; /* aorta_remedy_bit of each; 0: none */
    struct aorta_remedies_worth worth;
};

struct whatif_page {
    const struct aorta_whatif *whatif;
    struct aorta_whatif_resources resources; /* but for the ranks */
    struct aorta_graph_path path;            /* of the recording */
    struct aorta_unrecorded unrecorded;      /* what the recording cost; the graph is without it where that is known */
    double replayed_ns;                      /* step with nothing changed */
    struct whatif_remedies remedies;
    struct aorta_whatif_exposed exposed; /* with remedies, on most of the ranks asked for */
    bool changes_nothing;                /* no other resources were asked for */
    bool bandwidth_given, latency_given;
    struct whatif_row *rows; /* ascending ranks; doublings of the recorded number, and those asked for */
    size_t row_count;
    const struct whatif_row *stop;   /* the first row that is no longer efficient; else the last one */
    struct aorta_whatif_limit limit; /* there */
};

/* `answer`: line 1 alone. */
void whatif_text(const struct whatif_page *page, bool answer, struct aorta_text *out);
void whatif_json(const struct whatif_page *page, struct aorta_text *out);
extern const struct aorta_result_table *const whatif_tables[]; /* of the page; ends with NULL */
/* Each table as a file of the folder. AORTA_IO. */
AORTA_MUST_USE aorta_status whatif_csv(const struct whatif_page *page, const char *folder);

#endif
