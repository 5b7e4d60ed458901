#include "trace/sqlite.h"

#include "base/sort.h"
#include "trace/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STEPS = 1000 }; /* between two checks of the limit */

static aorta_status failure(const struct aorta_sqlite *db, const char *what) {
    int code = sqlite3_errcode(db->handle);
    if (code == SQLITE_INTERRUPT)
        return AORTA_ERROR(AORTA_FORMAT,
                           "%s: %s: damaged: reading it takes more steps than its %lld bytes can need; export it again",
                           db->path, what, (long long)db->bytes);
    enum aorta_code kind = code == SQLITE_NOMEM ? AORTA_MEMORY : AORTA_FORMAT;
    if ((code & 0xff) == SQLITE_IOERR || code == SQLITE_CANTOPEN) kind = AORTA_IO;
    return AORTA_ERROR(kind, "%s: %s: %s", db->path, what, sqlite3_errmsg(db->handle));
}

/* Frees `text` with sqlite3_free; NULL means that memory ran out. */
static aorta_status prepare(const struct aorta_sqlite *db, char *text, const char *what, sqlite3_stmt **statement) {
    if (!text) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for a query", db->path);
    int code = sqlite3_prepare_v2(db->handle, text, -1, statement, NULL);
    sqlite3_free(text);
    return code == SQLITE_OK ? NULL : failure(db, what);
}

/* ---- names ---- */

static void add_name(struct aorta_sqlite *db, sqlite3_stmt *row) {
    const char *type = aorta_sqlite_text(row, 0), *text = aorta_sqlite_text(row, 1);
    const bool table = type && !strcmp(type, "table");
    if (!text || (!table && strcmp(type ? type : "", "view") != 0)) return;
    const struct aorta_sqlite_name name = {aorta_arena_strdup(&db->arena, text), table};
    if (name.text) aorta_arena_append(&db->arena, &db->names, &db->name_capacity, &db->name_count, &name, sizeof name);
}

static aorta_status list_names(struct aorta_sqlite *db) {
    static const char what[] = "cannot list its tables";
    sqlite3_stmt *statement = NULL;
    AORTA_TRY(prepare(db, sqlite3_mprintf("SELECT type, name FROM sqlite_master"), what, &statement));
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) add_name(db, statement);
    aorta_status status = code == SQLITE_DONE ? NULL : failure(db, what);
    if (!status) status = aorta_arena_check(&db->arena, "the names of tables");
    sqlite3_finalize(statement);
    if (db->name_count) qsort(db->names, db->name_count, sizeof *db->names, aorta_by_text);
    return status;
}

/* NULL: there is no table or view of this name. */
static const struct aorta_sqlite_name *find_name(const struct aorta_sqlite *db, const char *text) {
    const struct aorta_sqlite_name key = {.text = text};
    return db->name_count ? bsearch(&key, db->names, db->name_count, sizeof key, aorta_by_text) : NULL;
}

/* ---- rows ---- */

/* Sets a bit in *found for each of the columns that the table has. */
static aorta_status find_columns(const struct aorta_sqlite *db, const char *table, const char *const *columns,
                                 int count, uint64_t *found) {
    enum { NAME = 1, HIDDEN = 6 };
    sqlite3_stmt *statement = NULL;
    aorta_status status = NULL;
    int code = SQLITE_DONE;
    AORTA_TRY(prepare(db, sqlite3_mprintf("PRAGMA main.table_xinfo(\"%w\")", table), table, &statement));
    while (!status && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = aorta_sqlite_text(statement, NAME);
        for (int i = 0; i < count && name; i++)
            if (!strcmp(name, columns[i])) *found |= UINT64_C(1) << i;
        if (sqlite3_column_int(statement, HIDDEN))
            status = AORTA_ERROR(
                AORTA_FORMAT,
                "%s: table %s: column %s is computed, not stored; AORTA computes nothing for a file: export it again",
                db->path, table, name ? name : "");
    }
    if (!status && code != SQLITE_DONE) status = failure(db, table);
    sqlite3_finalize(statement);
    return status;
}

static aorta_status prepare_rows(struct aorta_sqlite *db, const char *table, const char *const *columns, int count,
                                 sqlite3_stmt **statement) {
    uint64_t found = 0;
    if (!find_name(db, table)->table ||
        sqlite3_table_column_metadata(db->handle, "main", table, NULL, NULL, NULL, NULL, NULL, NULL) != SQLITE_OK)
        return AORTA_ERROR(AORTA_FORMAT,
                           "%s: %s is a view, not a table; AORTA runs no query of a file: export it again", db->path,
                           table);
    AORTA_TRY(find_columns(db, table, columns, count, &found));
    sqlite3_str *query = sqlite3_str_new(NULL);
    for (int i = 0; i < count; i++)
        sqlite3_str_appendf(query, found >> i & 1 ? "%s\"%w\"" : "%sNULL", i ? ", " : "SELECT ", columns[i]);
    sqlite3_str_appendf(query, " FROM main.\"%w\" NOT INDEXED", table);
    return prepare(db, sqlite3_str_finish(query), table, statement);
}

/* False if rows have more bytes than the file: rows of a damaged file can share bytes, and SQLite repeats a column's
 * default for every row. */
static bool fits(struct aorta_sqlite *db, sqlite3_stmt *row, int count) {
    for (int i = 0; i < count; i++) {
        const int type = sqlite3_column_type(row, i);
        if (type == SQLITE_TEXT || type == SQLITE_BLOB) db->bytes_left -= sqlite3_column_bytes(row, i);
    }
    return db->bytes_left >= 0;
}

static aorta_status walk(struct aorta_sqlite *db, const char *table, const char *const *columns, int count,
                         void (*take)(void *context, sqlite3_stmt *row), void *context) {
    sqlite3_stmt *statement = NULL;
    aorta_status status = NULL;
    long long rows = 0;
    int code;
    AORTA_TRY(prepare_rows(db, table, columns, count, &statement));
    while ((code = sqlite3_step(statement)) == SQLITE_ROW && fits(db, statement, count)) {
        take(context, statement);
        rows++;
    }
    if (code == SQLITE_ROW) {
        status =
            AORTA_ERROR(AORTA_FORMAT,
                        "%s: table %s, after %lld rows: damaged: its values are longer than the file; export it again",
                        db->path, table, rows);
    } else if (code != SQLITE_DONE) {
        char place[256];
        snprintf(place, sizeof place, "table %s, after %lld rows", table, rows);
        status = failure(db, place);
    }
    sqlite3_finalize(statement);
    return status;
}

aorta_status aorta_sqlite_each(struct aorta_sqlite *db, const char *table, const char *suffix,
                               const char *const *columns, int count, void (*take)(void *context, sqlite3_stmt *row),
                               void *context) {
    char *name = sqlite3_mprintf("%s%s", table, suffix);
    if (!name) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for a query", db->path);
    aorta_status status = find_name(db, name) ? walk(db, name, columns, count, take, context) : NULL;
    sqlite3_free(name);
    db->broken += aorta_trace_recovers(db->options, &status);
    return status;
}

bool aorta_sqlite_number(sqlite3_stmt *row, int column, int64_t *number) {
    if (sqlite3_column_type(row, column) != SQLITE_INTEGER) return false;
    *number = sqlite3_column_int64(row, column);
    return true;
}

const char *aorta_sqlite_text(sqlite3_stmt *row, int column) {
    if (sqlite3_column_type(row, column) != SQLITE_TEXT) return NULL;
    return (const char *)sqlite3_column_text(row, column);
}

/* ---- texts ---- */

static void take_text(void *context, sqlite3_stmt *row) {
    struct aorta_sqlite_texts *texts = context;
    const char *text = aorta_sqlite_text(row, 1);
    int64_t number;
    if (!text || !aorta_sqlite_number(row, 0, &number)) return;
    const struct aorta_sqlite_numbered item = {number, aorta_arena_strdup(texts->arena, text)};
    aorta_arena_append(texts->arena, &texts->items, &texts->capacity, &texts->count, &item, sizeof item);
}

aorta_status aorta_sqlite_read_texts(struct aorta_sqlite *db, const char *table, const char *suffix, const char *text,
                                     struct aorta_sqlite_texts *texts) {
    const char *const columns[] = {"id", text};
    AORTA_TRY(aorta_sqlite_each(db, table, suffix, columns, 2, take_text, texts));
    if (texts->arena->failed) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its texts", db->path);
    if (texts->count) aorta_sort_rows(texts->items, texts->count, sizeof *texts->items, aorta_by_int64);
    return NULL;
}

const char *aorta_sqlite_find_text(const struct aorta_sqlite_texts *texts, int64_t number) {
    const size_t at = aorta_count_before(texts->items, texts->count, sizeof *texts->items, 0, number);
    return at < texts->count && texts->items[at].number == number ? texts->items[at].text : NULL;
}

/* ---- the reader of a database ---- */

static const struct kind {
    const char *table;
    aorta_trace_sqlite_reader *read;
} kinds[] = {
#define SQLITE(table, suffix, names, read) {table, read},
#include "trace/formats.def"
};

static const char table_names[] =
#define SQLITE(table, suffix, names, read) " or " table "… (" names ")"
#include "trace/formats.def"
    ;

static const struct kind *kind_of(const struct aorta_sqlite *db) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (size_t k = 0; k < db->name_count; k++)
            if (db->names[k].table && aorta_begins(db->names[k].text, kinds[i].table)) return &kinds[i];
    return NULL;
}

/* Known databases that are not read, recognized by a table. */
static const struct {
    const char *table, *is, *instead;
} others[] = {
    {"rocpd_op", "written by rocmProfileData (.rpd), not by rocprofv3",
     "record the program with rocprofv3 --sys-trace or torch.profiler"},
    {"CANN_API", "written by Ascend's profiler", "AORTA reads recordings of NVIDIA's and AMD's GPUs"},
    {"StringTable", "written by nvprof, which is no longer made", "record with nsys profile or `aorta trace run`"},
};

static aorta_status no_tables(const struct aorta_sqlite *db) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (find_name(db, others[i].table))
            return AORTA_ERROR(AORTA_FORMAT, "%s: %s: %s", db->path, others[i].is, others[i].instead);
    return AORTA_ERROR(AORTA_USAGE, "%s is a SQLite database, but no trace: it has no table %s", db->path,
                       table_names + strlen(" or "));
}

/* ---- the file ---- */

static uint32_t big_endian(const unsigned char *bytes, int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

/* Finds a file that was cut by its header (https://www.sqlite.org/fileformat.html, section 1.3), as SQLite notices
 * late. */
static aorta_status check_whole(struct aorta_sqlite *db) {
    unsigned char head[100] = {0};
    struct stat info = {0};
    FILE *file = fopen(db->path, "rb");
    if (!file) return AORTA_ERROR(AORTA_IO, "%s: cannot open: %s", db->path, strerror(errno));
    size_t got = fread(head, 1, sizeof head, file);
    int error = fstat(fileno(file), &info) == 0 ? 0 : errno;
    fclose(file);
    if (error) return AORTA_ERROR(AORTA_IO, "%s: cannot read: %s", db->path, strerror(error));
    db->bytes = info.st_size;
    if (got >= 2 && head[0] == 0x1f && head[1] == 0x8b)
        return AORTA_ERROR(AORTA_FORMAT, "%s: a packed SQLite database; unpack it first (gunzip)", db->path);
    uint32_t page = big_endian(head + 16, 2), pages = big_endian(head + 28, 4);
    if (page == 1) page = 65536;
    bool counted = memcmp(head + 24, head + 92, 4) == 0; /* else written by a version that did not update the count */
    int64_t whole = (int64_t)page * pages;
    if (got == sizeof head && (!counted || info.st_size >= whole)) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "%s: byte %lld: the file ends in the middle; it had %lld bytes", db->path,
                       (long long)info.st_size, got == sizeof head ? (long long)whole : 100LL);
}

/* Recent writes may still be in a file of their own, which an immutable database does not read. */
static aorta_status check_closed(const char *path) {
    char *journal;
    struct stat info;
    if (asprintf(&journal, "%s-wal", path) < 0) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its name", path);
    bool open = stat(journal, &info) == 0 && info.st_size > 0;
    free(journal);
    if (!open) return NULL;
    return AORTA_ERROR(AORTA_FORMAT,
                       "%s: not finished: %s-wal holds more; is the program still running? Else "
                       "`sqlite3 %s 'PRAGMA wal_checkpoint(TRUNCATE)'` puts it into the file",
                       path, path, path);
}

/* The path as a URI, with special characters as %XX. */
static char *uri_of(const char *path) {
    sqlite3_str *uri = sqlite3_str_new(NULL);
    sqlite3_str_appendall(uri, "file:");
    for (const char *c = path; *c; c++)
        if (strchr("%?#", *c))
            sqlite3_str_appendf(uri, "%%%02X", (unsigned char)*c);
        else
            sqlite3_str_appendchar(uri, 1, *c);
    sqlite3_str_appendall(uri, "?mode=ro&immutable=1");
    return sqlite3_str_finish(uri);
}

static int count_steps(void *context) {
    struct aorta_sqlite *db = context;
    db->steps_left -= STEPS;
    return db->steps_left < 0;
}

/* Allows only reading of tables by statements of this file: no views, functions, recursion or statistics of the
 * database. */
static int authorize(void *unused, int action, const char *first, const char *second, const char *database,
                     const char *within) {
    (void)unused;
    (void)second;
    (void)database;
    if (within) return SQLITE_DENY;
    if (action == SQLITE_READ) return first && aorta_begins(first, "sqlite_stat") ? SQLITE_DENY : SQLITE_OK;
    if (action == SQLITE_PRAGMA) return first && !strcmp(first, "table_xinfo") ? SQLITE_OK : SQLITE_DENY;
    return action == SQLITE_SELECT ? SQLITE_OK : SQLITE_DENY;
}

static void restrict_database(struct aorta_sqlite *db, bool cut) {
    enum { LONGEST = 1 << 24, SMALL = 1 << 16 };
    static const int off[] = {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_TRIGGER,
                              SQLITE_DBCONFIG_ENABLE_VIEW, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) sqlite3_db_config(db->handle, off[i], 0, NULL);
    /* SQLite reads a file that is too short only if the schema is writable, which is harmless in a file opened
     * read-only. */
    sqlite3_db_config(db->handle, cut ? SQLITE_DBCONFIG_WRITABLE_SCHEMA : SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_drop_modules(db->handle, NULL);
    sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, LONGEST);
    sqlite3_set_authorizer(db->handle, authorize, NULL);
    /* A row of a real file takes less than a step per byte, and tables are read at most twice. */
    db->steps_left = 16 * (db->bytes + SMALL);
    db->bytes_left = 4 * (db->bytes + SMALL);
    sqlite3_progress_handler(db->handle, STEPS, count_steps, db);
}

static aorta_status open_database(struct aorta_sqlite *db, bool cut) {
    char *uri = uri_of(db->path);
    if (!uri) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its name", db->path);
    int code = sqlite3_open_v2(uri, &db->handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    sqlite3_free(uri);
    if (!db->handle) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory to open it", db->path);
    if (code != SQLITE_OK) return failure(db, "cannot open");
    restrict_database(db, cut);
    return list_names(db);
}

static void close_database(struct aorta_sqlite *db) {
    sqlite3_close(db->handle);
    aorta_arena_free(&db->arena);
}

static aorta_status read_file(const char *path, const struct aorta_trace_options *options,
                              struct aorta_trace_list *list) {
    struct aorta_sqlite db = {.path = path, .options = options};
    aorta_status status = check_whole(&db);
    if (!status) status = check_closed(path);
    const bool cut = aorta_trace_recovers(options, &status); /* if nothing can be read, that failure is returned */
    size_t before = list->count;
    if (!status) status = open_database(&db, cut);
    const struct kind *kind = status ? NULL : kind_of(&db);
    if (!status) status = kind ? kind->read(&db, list) : no_tables(&db);
    close_database(&db);
    while (status && list->count > before) aorta_trace_free(list->items[--list->count]);
    if (!status && list->count > before) {
        struct aorta_trace_warning *warnings = list->items[before]->warnings;
        if (cut) aorta_trace_warn(warnings, AORTA_REASON_TRUNCATED, db.bytes);
        for (int64_t i = 0; i < db.broken; i++) aorta_trace_warn(warnings, AORTA_REASON_MALFORMED, -1);
    }
    return status;
}

static bool recognises(const char *head, size_t length) {
    static const char magic[] = "SQLite format 3"; /* with its NUL */
    return length >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

/* Skips other programs' databases in a folder. A broken one counts, so that its reader reports the error. */
static bool leads(const char *path, const char *head, size_t length) {
    (void)head;
    (void)length;
    struct aorta_sqlite db = {.path = path};
    aorta_status status = check_whole(&db);
    if (!status) status = open_database(&db, false);
    bool ours = status || kind_of(&db);
    close_database(&db);
    aorta_status_free(status);
    return ours;
}

const struct aorta_trace_reader aorta_trace_reader_sqlite = {recognises, read_file, leads, true, false, false};
