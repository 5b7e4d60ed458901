/* A table of results is rows (rows.h) of a struct and a function that fills the struct for each line. They make the
 * JSON, the terminal's text, CSV, and the columns of the page. */
#ifndef AORTA_BASE_RESULT_TABLE_H
#define AORTA_BASE_RESULT_TABLE_H

#include "base/rows.h"

/* A column of the text, right-aligned after a space; times are in ms. */
struct aorta_column {
    const char *key, *heading; /* key: of the row; NULL ends the list */
    int width, decimals;
    bool microseconds; /* of times */
};

enum aorta_line { AORTA_LINE_END, AORTA_LINE, AORTA_LINE_SKIP };

/* `of`: the data of the table, as its functions expect it. */
struct aorta_result_table {
    const char *key, *title, *help;
    const char *section; /* section of the page; NULL: the page shows the table in its own way */
    const struct aorta_row *rows;
    size_t size; /* of the struct */
    /* Fills the zeroed struct. AORTA_LINE_END: there is no line `index`; AORTA_LINE_SKIP: the line is not shown. */
    enum aorta_line (*fill)(const void *of, size_t index, void *values);
    const struct aorta_column *columns; /* of the text; NULL: it has none */
    bool whole; /* covers the whole recording even if other tables cover a part; the title then says so */
};

/* A table: its members from the key on, then its lines. */
#define AORTA_TABLE(id, ...) const struct aorta_result_table id = {__VA_ARGS__}
#define AORTA_TABLES(id, ...) const struct aorta_result_table *const id[] = {__VA_ARGS__, NULL}
/* Lines are structs of `type`, described by `rows_` and filled by `fill_`. */
#define AORTA_LINES(rows_, type, fill_) .rows = (rows_), .size = sizeof(type), .fill = (fill_)

/* How the text shows a table. Its last column is the row of type AORTA_ROW_LABEL or AORTA_ROW_KERNEL. */
struct aorta_table_view {
    const char *title; /* a line above; NULL: none */
    const char *name;  /* heading of the names; NULL: the table's title */
    size_t most;       /* lines */
    /* Shortens kernels' names; returns `name`. NULL: they stay whole. */
    const char *(*shorten)(const char *kernel, char *name, size_t size);
    bool whole;                         /* other tables are of a part of the recording */
    const struct aorta_column *columns; /* NULL: the table's */
    int width;                          /* names are cut to fit it; 0: not cut */
    const char *more;                   /* the option that shows lines beyond `most`; NULL: they are not mentioned */
};

/* Number of lines, including skipped lines. */
size_t aorta_table_count(const struct aorta_result_table *table, const void *of);
/* Writes nothing if the table has no lines. aorta_text_check of `out` reports failed allocations, also below. */
void aorta_table_text(const struct aorta_result_table *table, const void *of, const struct aorta_table_view *view,
                      struct aorta_text *out);
/* Key and array. */
void aorta_table_json(const struct aorta_result_table *table, const void *of, struct aorta_json *json);
/* As aorta_table_json, but of a table of more than `most` lines only every n-th line, and n as KEY_every. `most` 0:
 * all lines. */
void aorta_table_json_some(const struct aorta_result_table *table, const void *of, size_t most,
                           struct aorta_json *json);
/* `whole`: as in a view. {key, title, section, columns: [{key, heading, kind}]}; kind is kernel, word, text, share,
 * bytes or number; the key of a part's column is "part.key". */
void aorta_table_page_json(const struct aorta_result_table *table, bool whole, struct aorta_json *json);

/* RFC 4180. A name of the header line is the key, with the unit in brackets unless the key contains it. `first`: an
 * additional first column, whose value in all lines is `value`; NULL: none. */
void aorta_table_csv_header(const struct aorta_result_table *table, const char *first, struct aorta_text *out);
void aorta_table_csv_lines(const struct aorta_result_table *table, const void *of, const char *value,
                           struct aorta_text *out);

/* Writes KEY.csv into a folder, which is made where it is missing. AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_csv_write(const char *folder, const char *key, const struct aorta_text *csv);
AORTA_MUST_USE aorta_status aorta_table_csv(const struct aorta_result_table *table, const void *of, const char *folder);

#endif
