/* Rows of comma-separated values, plain or gzip, one in memory at a time.
 *
 * Fields may be quoted; a quote inside is doubled (RFC 4180). rocprofv3 does not double quotes within names, so a quote
 * without a comma or line end after it is part of the field. */
#ifndef AORTA_TRACE_CSV_H
#define AORTA_TRACE_CSV_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct aorta_csv;

/* The path is borrowed. AORTA_IO names path and reason. The file must begin with a row of names. */
AORTA_MUST_USE aorta_status aorta_csv_open(const char *path, struct aorta_csv **csv);
void aorta_csv_close(struct aorta_csv *csv); /* NULL is fine */

/* The column of this name (any case), -1 when there is none. */
int aorta_csv_column(const struct aorta_csv *csv, const char *name);

/* The next row; *more = false after the last one. Empty lines are passed over. AORTA_FORMAT, with the row's byte
 * offset, if the row has more or fewer fields than names, or the file ends in it. */
AORTA_MUST_USE aorta_status aorta_csv_next(struct aorta_csv *csv, bool *more);

/* The field of the current row, NUL-terminated, until the next call; "" for column -1. */
const char *aorta_csv_text(const struct aorta_csv *csv, int column);
/* False if it is no whole number in the range of int64. */
bool aorta_csv_int(const struct aorta_csv *csv, int column, int64_t *number);

int64_t aorta_csv_offset(const struct aorta_csv *csv); /* of the current row */
int64_t aorta_csv_bytes(const struct aorta_csv *csv);  /* read so far, unpacked */
bool aorta_csv_truncated(const struct aorta_csv *csv); /* it failed because the file ended */

#endif
