/* The page of a result: one HTML file with its program, its data and nothing from elsewhere. The program is bundled
 * from web/ when AORTA is built; a build without Node.js has none. The data: docs/report.md. */
#ifndef AORTA_REPORT_PAGE_H
#define AORTA_REPORT_PAGE_H

#include "base/result_table.h"

#include <stdbool.h>

/* False where the build has no page; the reason, and what to do, is aorta_page_missing's. */
bool aorta_page_available(void);
/* One sentence: why this build writes no pages, and how to get them. */
const char *aorta_page_missing(void);

/* What a folder is of, by a file that only that leaves there. */
enum aorta_folder_kind { AORTA_FOLDER_RUN = 1, AORTA_FOLDER_SWEEP = 2, AORTA_FOLDER_REPORT = 4 };
/* AORTA_USAGE where the folder is of one of these kinds, whose page and summary would be replaced by those of another
 * thing. `key` names it in the message, as in "--output". What does not exist is fine. */
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
