/* Shared by the files of rows.h. */
#ifndef AORTA_BASE_ROWS_INTERNAL_H
#define AORTA_BASE_ROWS_INTERNAL_H

#include "base/rows.h"

/* A value as it is stored: texts and names of choices in `text`, whole numbers, times and flags in `whole`, all numbers
 * but flags in `number`. */
struct aorta_row_value {
    bool known;
    int64_t whole;
    double number;
    const char *text;
};
/* `index`: of an array (a row with `names`), else 0. */
struct aorta_row_value aorta_row_value(const struct aorta_row *row, const void *values, int index);

/* The value alone. */
void aorta_row_json(const struct aorta_row *row, struct aorta_row_value value, int64_t origin_ns,
                    struct aorta_json *json);

/* In files; "" for counts and texts. */
const char *aorta_row_unit(const struct aorta_row *row);

#endif
