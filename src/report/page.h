/* The page of a result: one self-contained HTML file with program and data. The program is bundled from web/ when AORTA
 * is built. A build without Node.js has no pages. Data: docs/report.md. */
#ifndef AORTA_REPORT_PAGE_H
#define AORTA_REPORT_PAGE_H

#include "base/result_table.h"

#include <stdbool.h>

/* False if the build has no pages; aorta_page_missing gives the reason and the fix. */
bool aorta_page_available(void);
/* One sentence: why this build writes no pages, and how to get them. */
const char *aorta_page_missing(void);

/* What wrote a folder, recognized by a file that nothing else writes. */
enum aorta_folder_kind { AORTA_FOLDER_RUN = 1, AORTA_FOLDER_SWEEP = 2, AORTA_FOLDER_REPORT = 4 };
/* AORTA_USAGE if the folder is of one of these kinds, as its page and summary would be replaced. `key` is the option in
 * the message, as "--output". A folder that does not exist is fine. */
AORTA_MUST_USE aorta_status aorta_folder_check_free(const char *path, const char *key, unsigned kinds);

/* The page of results that a command also prints as JSON. */
struct aorta_page_results {
    const char *kind, *title;         /* kind: the row of web/main.js that shows it */
    const struct aorta_text *results; /* one JSON value */
    const struct aorta_text *parts;   /* more JSON values that the page shows; may be NULL */
    size_t part_count;
    const struct aorta_result_table *const *tables; /* whose columns the page shows; ends with NULL; may be NULL */
};
/* Writes the page to `path`. AORTA_UNSUPPORTED, AORTA_MEMORY, AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_page_write(const struct aorta_page_results *page, const char *path);

#endif
