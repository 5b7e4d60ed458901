#include "formats/sqlite.h"

#include "formats/open.h"
#include "formats/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

aorta_status aorta_sqlite_failure(const struct aorta_sqlite *db, const char *what) {
    int code = sqlite3_errcode(db->handle);
    enum aorta_code kind = code == SQLITE_NOMEM ? AORTA_MEMORY : AORTA_FORMAT;
    if ((code & 0xff) == SQLITE_IOERR || code == SQLITE_CANTOPEN) kind = AORTA_IO;
    return AORTA_ERROR(kind, "%s: %s: %s", db->path, what, sqlite3_errmsg(db->handle));
}

/* ---- queries ---- */

aorta_status aorta_sqlite_prepare(const struct aorta_sqlite *db, char *text, const char *what,
                                  sqlite3_stmt **statement) {
    if (!text) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for a query", db->path);
    int code = sqlite3_prepare_v2(db->handle, text, -1, statement, NULL);
    sqlite3_free(text);
    return code == SQLITE_OK ? NULL : aorta_sqlite_failure(db, what);
}

static bool has_row(const struct aorta_sqlite *db, char *text) {
    sqlite3_stmt *statement = NULL;
    aorta_status status = aorta_sqlite_prepare(db, text, "cannot list its tables", &statement);
    bool found = !status && sqlite3_step(statement) == SQLITE_ROW;
    if (!status) sqlite3_finalize(statement);
    aorta_status_free(status);
    return found;
}

bool aorta_sqlite_has_table(const struct aorta_sqlite *db, const char *name, const char *suffix) {
    return has_row(db,
                   sqlite3_mprintf("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '%q%q'", name, suffix));
}

bool aorta_sqlite_has_column(const struct aorta_sqlite *db, const char *table, const char *suffix, const char *column) {
    return has_row(db,
                   sqlite3_mprintf("SELECT 1 FROM pragma_table_info('%q%q') WHERE name = '%q'", table, suffix, column));
}

aorta_status aorta_sqlite_each(struct aorta_sqlite *db, const char *table, const char *suffix, char *query,
                               void (*take)(void *context, sqlite3_stmt *row), void *context) {
    sqlite3_stmt *statement = NULL;
    AORTA_TRY(aorta_sqlite_prepare(db, query, table, &statement));
    long long rows = 0;
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        take(context, statement);
        rows++;
    }
    aorta_status status = NULL;
    if (code != SQLITE_DONE) {
        char place[256];
        snprintf(place, sizeof place, "table %s%s, after %lld rows", table, suffix, rows);
        status = aorta_sqlite_failure(db, place);
    }
    sqlite3_finalize(statement);
    bool usable = status && db->options && db->options->recover && aorta_status_code(status) == AORTA_FORMAT;
    if (!usable) return status;
    db->broken++;
    aorta_status_free(status);
    return NULL;
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

/* ---- whose tables ---- */

static const struct kind {
    const char *table;
    aorta_trace_sqlite_reader *read;
} kinds[] = {
#define READER(symbol, suffix, names)
#define JSON(key, suffix, names, read)
#define SQLITE(table, suffix, names, read) {table, read},
#include "formats/formats.def"
#undef READER
#undef JSON
#undef SQLITE
};

static const char table_names[] =
#define READER(symbol, suffix, names)
#define JSON(key, suffix, names, read)
#define SQLITE(table, suffix, names, read) " " table "… (" names ")"
#include "formats/formats.def"
#undef READER
#undef JSON
#undef SQLITE
    ;

static const struct kind *kind_of(const struct aorta_sqlite *db) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (has_row(db, sqlite3_mprintf("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name GLOB '%q*'",
                                        kinds[i].table)))
            return &kinds[i];
    return NULL;
}

/* What is known and not read, by a table. */
static const struct {
    const char *table, *is, *instead;
} others[] = {
    {"rocpd_op", "written by rocmProfileData (.rpd), not by rocprofv3",
     "its rpd2tracing.py makes a JSON trace of it, which can be read"},
    {"StringTable", "written by nvprof, which is no longer made", "record with nsys profile or `aorta trace run`"},
};

static aorta_status no_tables(const struct aorta_sqlite *db) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (aorta_sqlite_has_table(db, others[i].table, ""))
            return AORTA_ERROR(AORTA_FORMAT, "%s: %s: %s", db->path, others[i].is, others[i].instead);
    return AORTA_ERROR(AORTA_FORMAT, "%s: a SQLite database, but no trace: it has none of the tables%s", db->path,
                       table_names);
}

/* ---- the file ---- */

static uint32_t big_endian(const unsigned char *bytes, int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

/* The header shows that a file was cut short (https://www.sqlite.org/fileformat.html, section 1.3), which SQLite
 * itself looks at late. */
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
    bool counted = memcmp(head + 24, head + 92, 4) == 0; /* else a version wrote it that did not keep the count */
    int64_t whole = (int64_t)page * pages;
    if (got == sizeof head && (!counted || info.st_size >= whole)) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "%s: byte %lld: the file ends in the middle; it had %lld bytes", db->path,
                       (long long)info.st_size, got == sizeof head ? (long long)whole : 100LL);
}

/* What was written lately may still lie in a file of its own, which an immutable database does not look at. */
static aorta_status check_closed(const char *path) {
    char *journal;
    struct stat info;
    if (asprintf(&journal, "%s-wal", path) < 0) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its name", path);
    bool open = stat(journal, &info) == 0 && info.st_size > 0;
    free(journal);
    if (!open) return NULL;
    return AORTA_ERROR(AORTA_FORMAT,
                       "%s: not finished: %s-wal beside it holds the rest; is the program still running? Else "
                       "`sqlite3 %s 'PRAGMA wal_checkpoint(TRUNCATE)'` puts it into the file",
                       path, path, path);
}

/* The path as a URI: what would end or change it is written as %XX. */
static char *uri_of(const char *path) {
    sqlite3_str *uri = sqlite3_str_new(NULL);
    sqlite3_str_appendall(uri, "file:");
    for (const char *c = path; *c; c++) {
        if (strchr("%?#", *c)) {
            sqlite3_str_appendf(uri, "%%%02X", (unsigned char)*c);
        } else {
            sqlite3_str_appendchar(uri, 1, *c);
        }
    }
    sqlite3_str_appendall(uri, "?mode=ro&immutable=1");
    return sqlite3_str_finish(uri);
}

static aorta_status open_database(struct aorta_sqlite *db, bool cut) {
    enum { LONGEST_TEXT = 1 << 24 };
    char *uri = uri_of(db->path);
    if (!uri) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its name", db->path);
    int code = sqlite3_open_v2(uri, &db->handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    sqlite3_free(uri);
    if (!db->handle) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory to open it", db->path);
    if (code != SQLITE_OK) return aorta_sqlite_failure(db, "cannot open");
    /* What a file brings along (views, triggers, functions in its schema) is not run. SQLite looks into a file that is
     * shorter than it should be only when the schema may be written, which in a file opened read-only it cannot be. */
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db->handle, cut ? SQLITE_DBCONFIG_WRITABLE_SCHEMA : SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, LONGEST_TEXT);
    return NULL;
}

static aorta_status read_tables(struct aorta_sqlite *db, struct aorta_trace_list *list) {
    static const char what[] = "cannot list its tables";
    sqlite3_stmt *statement = NULL;
    AORTA_TRY(aorta_sqlite_prepare(db, sqlite3_mprintf("SELECT name FROM sqlite_master"), what, &statement));
    int code = SQLITE_ROW;
    while (code == SQLITE_ROW) code = sqlite3_step(statement);
    aorta_status status = code == SQLITE_DONE ? NULL : aorta_sqlite_failure(db, what);
    sqlite3_finalize(statement);
    AORTA_TRY(status);
    const struct kind *kind = kind_of(db);
    return kind ? kind->read(db, list) : no_tables(db);
}

static aorta_status read_file(const char *path, const struct aorta_trace_options *options,
                              struct aorta_trace_list *list) {
    struct aorta_sqlite db = {.path = path, .options = options};
    bool recover = options && options->recover, cut = false;
    aorta_status status = check_whole(&db);
    if (!status) status = check_closed(path);
    if (status && recover && aorta_status_code(status) == AORTA_FORMAT) {
        cut = true; /* what can be read stays; if nothing can, that failure is returned */
        aorta_status_free(status);
        status = NULL;
    }
    size_t before = list->count;
    if (!status) status = open_database(&db, cut);
    if (!status) status = read_tables(&db, list);
    sqlite3_close(db.handle);
    while (status && list->count > before) aorta_trace_free(list->items[--list->count]);
    if (!status && list->count > before) {
        struct aorta_trace_warning *warnings = list->items[before]->warnings;
        if (cut && !warnings[AORTA_REASON_TRUNCATED].count++) warnings[AORTA_REASON_TRUNCATED].offset = db.bytes;
        if (db.broken && !warnings[AORTA_REASON_MALFORMED].count) warnings[AORTA_REASON_MALFORMED].offset = -1;
        warnings[AORTA_REASON_MALFORMED].count += db.broken;
    }
    return status;
}

static bool recognises(const char *head, size_t length) {
    static const char magic[] = "SQLite format 3"; /* with its NUL */
    return length >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

/* Other programs' databases in a folder are passed over. One that breaks is named, so that its reader says why. */
static bool leads(const char *path, const char *head, size_t length) {
    (void)head;
    (void)length;
    struct aorta_sqlite db = {.path = path};
    aorta_status status = open_database(&db, false);
    sqlite3_stmt *statement = NULL;
    if (!status)
        status = aorta_sqlite_prepare(&db, sqlite3_mprintf("SELECT name FROM sqlite_master"), "tables", &statement);
    sqlite3_finalize(statement);
    bool ours = status || kind_of(&db);
    sqlite3_close(db.handle);
    aorta_status_free(status);
    return ours;
}

const struct aorta_trace_reader aorta_trace_reader_sqlite = {recognises, read_file, leads, true, false};
