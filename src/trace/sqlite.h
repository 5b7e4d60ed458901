/* SQLite files of other tools: opened read-only and as immutable (no files are written in their folder). Tables are
 * read one at a time, row by row; readers join them. Nothing in a file is executed: no views, triggers, virtual tables,
 * functions or indices. The file's size limits the steps and bytes of reading. */
#ifndef AORTA_TRACE_SQLITE_H
#define AORTA_TRACE_SQLITE_H

#include "base/arena.h"
#include "trace/builder.h"

#include <sqlite3.h>

struct aorta_sqlite_name {
    const char *text;
    bool table; /* else a view */
};

struct aorta_sqlite {
    sqlite3 *handle;
    const char *path;
    const struct aorta_trace_options *options; /* may be NULL */
    int64_t bytes;                             /* of the file */
    int64_t broken;                            /* tables that broke, whose rows before the break were used (recover) */
    int64_t steps_left, bytes_left;            /* of SQLite's virtual machine; of values */
    struct aorta_sqlite_name *names;           /* of tables and views, ascending */
    size_t name_count, name_capacity;
    struct aorta_arena arena; /* of the names */
};

/* Reads an open file with the reader's tables, and appends to the list. */
typedef aorta_status aorta_trace_sqlite_reader(struct aorta_sqlite *db, struct aorta_trace_list *list);
#define SQLITE(table, suffix, names, read) aorta_trace_sqlite_reader read;
#include "trace/formats.def"

/* Passes each row of the table to `take`, with the values of `columns` (at most 64) in order; NULL for a column that
 * the table lacks. The table's name is `table` and `suffix` joined. A missing table has no rows. AORTA_FORMAT: a view,
 * a computed column, a damaged table, or more data than a file of this size can have. With options->recover, rows
 * before a break are used and the break is counted. */
AORTA_MUST_USE aorta_status aorta_sqlite_each(struct aorta_sqlite *db, const char *table, const char *suffix,
                                              const char *const *columns, int count,
                                              void (*take)(void *context, sqlite3_stmt *row), void *context);

/* A column's value. False or NULL if it has another type. */
bool aorta_sqlite_number(sqlite3_stmt *row, int column, int64_t *number);
const char *aorta_sqlite_text(sqlite3_stmt *row, int column);
static inline int64_t aorta_sqlite_number_or(sqlite3_stmt *row, int column, int64_t otherwise) {
    int64_t number;
    return aorta_sqlite_number(row, column, &number) ? number : otherwise;
}

/* The texts of a table by number. Zero-initialise, except the arena. */
struct aorta_sqlite_texts {
    struct aorta_arena *arena;
    struct aorta_sqlite_numbered {
        int64_t number;
        const char *text;
    } * items;
    size_t count, capacity;
};
/* Adds the texts of a column, numbered by the column "id". */
AORTA_MUST_USE aorta_status aorta_sqlite_read_texts(struct aorta_sqlite *db, const char *table, const char *suffix,
                                                    const char *text, struct aorta_sqlite_texts *texts);
const char *aorta_sqlite_find_text(const struct aorta_sqlite_texts *texts, int64_t number); /* the first; NULL: none */

/* nsys_missing.c: returns the error for an export of Nsight Systems without GPU work. */
AORTA_MUST_USE aorta_status aorta_nsys_without_work(struct aorta_sqlite *file);

#endif
