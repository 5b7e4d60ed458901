/* SQLite files of other tools: opened read-only and as immutable (nothing is written beside them), looked through for
 * what they hold, read row by row. Columns differ from version to version, so they are looked up. */
#ifndef AORTA_FORMATS_SQLITE_H
#define AORTA_FORMATS_SQLITE_H

#include "timeline/builder.h"

#include <sqlite3.h>

struct aorta_sqlite {
    sqlite3 *handle;
    const char *path;
    const struct aorta_trace_options *options; /* may be NULL */
    int64_t bytes;                             /* of the file */
    int64_t broken;                            /* tables that broke; the rows before were used (recover) */
};

/* Reads an open file whose tables are the reader's, and appends to the list. */
typedef aorta_status aorta_trace_sqlite_reader(struct aorta_sqlite *db, struct aorta_trace_list *list);
#define READER(symbol, suffix, names)
#define JSON(key, suffix, names, read)
#define SQLITE(table, suffix, names, read) aorta_trace_sqlite_reader read;
#include "formats/formats.def"
#undef READER
#undef JSON
#undef SQLITE

/* Whether there is a table, no view, of this name; it is in two parts. A failure counts as none: the query that needs
 * the table says why. */
bool aorta_sqlite_has_table(const struct aorta_sqlite *db, const char *name, const char *suffix);
bool aorta_sqlite_has_column(const struct aorta_sqlite *db, const char *table, const char *suffix, const char *column);

/* What SQLite says of the last call; `what` is for messages. */
AORTA_MUST_USE aorta_status aorta_sqlite_failure(const struct aorta_sqlite *db, const char *what);
/* `text` ends with sqlite3_free, NULL stands for no memory. */
AORTA_MUST_USE aorta_status aorta_sqlite_prepare(const struct aorta_sqlite *db, char *text, const char *what,
                                                 sqlite3_stmt **statement);
/* Hands each row of a query to `take`; `query` as above. With `recover` the rows before a break are used and it is
 * counted. `table` and `suffix` name the place in messages. */
AORTA_MUST_USE aorta_status aorta_sqlite_each(struct aorta_sqlite *db, const char *table, const char *suffix,
                                              char *query, void (*take)(void *context, sqlite3_stmt *row),
                                              void *context);

/* A column's value; false, NULL: it has another type. */
bool aorta_sqlite_number(sqlite3_stmt *row, int column, int64_t *number);
const char *aorta_sqlite_text(sqlite3_stmt *row, int column);

#endif
