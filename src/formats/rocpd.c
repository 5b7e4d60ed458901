/* rocpd, the default output of rocprofv3: a SQLite file whose tables carry the id of a process in their names
 * (rocpd_kernel_dispatch_00000ac2_6f4e_…); `rocpd merge` puts several processes into one file. Columns are looked up,
 * since they differ: up to schema 3 a record says itself on which agent, queue and stream it ran, from schema 4 on its
 * track does. The file is opened read-only and as immutable: nothing is written beside it. */
#include "formats/open.h"
#include "formats/reader.h"
#include "formats/rocprof.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct database {
    sqlite3 *handle;
    const char *path;
    const char *suffix; /* of the tables being read: "_00000ac2_…" */
    const struct aorta_trace_options *options;
    struct aorta_rocprof *rocprof;
};

static aorta_status failure(const struct database *db, const char *what) {
    int code = sqlite3_errcode(db->handle);
    enum aorta_code kind = code == SQLITE_NOMEM ? AORTA_MEMORY : AORTA_FORMAT;
    if ((code & 0xff) == SQLITE_IOERR || code == SQLITE_CANTOPEN) kind = AORTA_IO;
    return AORTA_ERROR(kind, "%s: %s: %s", db->path, what, sqlite3_errmsg(db->handle));
}

/* ---- what the file has ---- */

/* Runs a query with table and column names already in it; `text` ends with sqlite3_free. */
static aorta_status prepare(const struct database *db, char *text, const char *what, sqlite3_stmt **statement) {
    if (!text) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for a query", db->path);
    int code = sqlite3_prepare_v2(db->handle, text, -1, statement, NULL);
    sqlite3_free(text);
    return code == SQLITE_OK ? NULL : failure(db, what);
}

/* A table, not a view of that name. Any failure counts as none: the query that needs it will say why. */
static bool has_table(const struct database *db, const char *table) {
    sqlite3_stmt *statement = NULL;
    char *text =
        sqlite3_mprintf("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '%q%q'", table, db->suffix);
    aorta_status status = prepare(db, text, table, &statement);
    bool found = !status && sqlite3_step(statement) == SQLITE_ROW;
    if (!status) sqlite3_finalize(statement);
    aorta_status_free(status);
    return found;
}

static bool has_column(const struct database *db, const char *table, const char *column) {
    sqlite3_stmt *statement = NULL;
    char *text =
        sqlite3_mprintf("SELECT 1 FROM pragma_table_info('%q%q') WHERE name = '%q'", table, db->suffix, column);
    aorta_status status = prepare(db, text, table, &statement);
    bool found = !status && sqlite3_step(statement) == SQLITE_ROW;
    if (!status) sqlite3_finalize(statement);
    aorta_status_free(status);
    return found;
}

/* ---- walking rows ---- */

/* Hands each row to `take`. With `recover`, rows before a break are used. */
static aorta_status each_row(struct database *db, const char *table, char *query,
                             void (*take)(struct database *db, sqlite3_stmt *row)) {
    sqlite3_stmt *statement = NULL;
    AORTA_TRY(prepare(db, query, table, &statement));
    long long rows = 0;
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        take(db, statement);
        rows++;
    }
    aorta_status status = NULL;
    if (code != SQLITE_DONE) {
        char place[256];
        snprintf(place, sizeof place, "table %s%s, after %lld rows", table, db->suffix, rows);
        status = failure(db, place);
    }
    sqlite3_finalize(statement);
    bool usable = status && db->options && db->options->recover && aorta_status_code(status) == AORTA_FORMAT;
    if (!usable) return status;
    aorta_rocprof_warn(db->rocprof, AORTA_REASON_MALFORMED, -1);
    aorta_status_free(status);
    return NULL;
}

static bool number_at(sqlite3_stmt *row, int column, int64_t *number) {
    if (sqlite3_column_type(row, column) != SQLITE_INTEGER) return false;
    *number = sqlite3_column_int64(row, column);
    return true;
}

static const char *text_at(sqlite3_stmt *row, int column) {
    if (sqlite3_column_type(row, column) != SQLITE_TEXT) return NULL;
    return (const char *)sqlite3_column_text(row, column);
}

/* ---- agents, kernels, the process ---- */

static void take_agent(struct database *db, sqlite3_stmt *row) {
    struct aorta_rocprof_agent agent = {.device = -1, .multiprocessors = -1};
    int64_t units;
    if (!number_at(row, 0, &agent.key)) return;
    const char *type = text_at(row, 1);
    agent.gpu = type && strcmp(type, "GPU") == 0;
    agent.name = text_at(row, 2);
    if (number_at(row, 3, &units) && units >= 0 && units < INT32_MAX) agent.multiprocessors = (int32_t)units;
    aorta_rocprof_add_agent(db->rocprof, &agent);
}

static void take_symbol(struct database *db, sqlite3_stmt *row) {
    int64_t kernel;
    const char *name = text_at(row, 1);
    if (!name || !*name) name = text_at(row, 2);
    if (number_at(row, 0, &kernel) && name) aorta_rocprof_add_symbol(db->rocprof, kernel, name, strlen(name));
}

static bool small_number(const char *text, int32_t *number) {
    char *end;
    if (!text || !*text) return false;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (*end || errno || value < 0 || value > INT32_MAX) return false;
    *number = (int32_t)value;
    return true;
}

/* Launchers' names for a process's rank and the number of ranks, the first that is set counts. */
static const char *const rank_variables[][2] = {
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};
enum { VARIABLES = sizeof rank_variables / sizeof rank_variables[0] };

static void take_process(struct database *db, sqlite3_stmt *row) {
    int64_t process;
    if (number_at(row, 0, &process)) aorta_rocprof_process(db->rocprof, process);
    for (int i = 0; i < VARIABLES; i++) {
        int32_t rank, world = -1;
        if (!small_number(text_at(row, 1 + 2 * i), &rank)) continue;
        if (!small_number(text_at(row, 2 + 2 * i), &world)) world = -1;
        aorta_rocprof_rank(db->rocprof, rank, world);
        return;
    }
}

/* A member of a column that holds JSON; NULL where it holds none. Appended to a query. */
static void json_member(sqlite3_str *query, const char *column, const char *member) {
    sqlite3_str_appendf(query, "CASE WHEN json_valid(%s) THEN json_extract(%s, '$.%q') END", column, column, member);
}

static aorta_status read_process(struct database *db) {
    if (!has_table(db, "rocpd_info_process")) return NULL;
    sqlite3_str *query = sqlite3_str_new(db->handle);
    sqlite3_str_appendall(query, "SELECT pid");
    for (int i = 0; i < 2 * VARIABLES; i++) {
        sqlite3_str_appendall(query, ", ");
        json_member(query, "environment", rank_variables[i / 2][i % 2]);
    }
    sqlite3_str_appendf(query, " FROM \"rocpd_info_process%w\" LIMIT 1", db->suffix);
    return each_row(db, "rocpd_info_process", sqlite3_str_finish(query), take_process);
}

static aorta_status read_agents(struct database *db) {
    if (!has_table(db, "rocpd_info_agent")) return NULL;
    sqlite3_str *query = sqlite3_str_new(db->handle);
    sqlite3_str_appendall(query, "SELECT id, type, coalesce(nullif(product_name, ''), name), ");
    json_member(query, "extdata", "cu_count");
    sqlite3_str_appendf(query, " FROM \"rocpd_info_agent%w\"", db->suffix);
    return each_row(db, "rocpd_info_agent", sqlite3_str_finish(query), take_agent);
}

static aorta_status read_symbols(struct database *db) {
    if (!has_table(db, "rocpd_info_kernel_symbol")) return NULL;
    char *query =
        sqlite3_mprintf("SELECT id, display_name, kernel_name FROM \"rocpd_info_kernel_symbol%w\"", db->suffix);
    return each_row(db, "rocpd_info_kernel_symbol", query, take_symbol);
}

/* ---- records ---- */

#define FIELD(member) offsetof(struct aorta_rocprof_record, member)
static const struct {
    const char *column;
    size_t offset;
} fields[] = {
    {"start", FIELD(start_ns)},
    {"end", FIELD(end_ns)},
    {"tid", FIELD(thread)},
    {"kernel_id", FIELD(kernel)},
    {"agent_id", FIELD(agent)},
    {"queue_id", FIELD(queue)},
    {"stream_id", FIELD(stream)},
    {"src_agent_id", FIELD(source)},
    {"dst_agent_id", FIELD(destination)},
    {"size", FIELD(bytes)},
    {"workgroup_size_x", FIELD(group[0])},
    {"workgroup_size_y", FIELD(group[1])},
    {"workgroup_size_z", FIELD(group[2])},
    {"grid_size_x", FIELD(grid[0])},
    {"grid_size_y", FIELD(grid[1])},
    {"grid_size_z", FIELD(grid[2])},
};
#undef FIELD
/* The columns of a query over records: the fields, then these. */
enum { FIELD_COUNT = sizeof fields / sizeof fields[0], CORRELATION = FIELD_COUNT, NAME, CATEGORY, MESSAGE };

static void take_record(struct database *db, sqlite3_stmt *row, enum aorta_rocprof_domain domain) {
    struct aorta_rocprof_record record = aorta_rocprof_nothing;
    for (int i = 0; i < FIELD_COUNT; i++) {
        int64_t number;
        if (number_at(row, i, &number)) {
            memcpy((char *)&record + fields[i].offset, &number, sizeof number);
        } else if (sqlite3_column_type(row, i) != SQLITE_NULL) {
            aorta_rocprof_warn(db->rocprof, AORTA_REASON_ODD_VALUE, -1);
        }
    }
    if (!number_at(row, CORRELATION, &record.correlation)) record.correlation = -1;
    record.name = text_at(row, NAME);
    record.name_length = record.name ? strlen(record.name) : 0;
    if (domain == AORTA_ROCPROF_MARKER) {
        const char *message = text_at(row, MESSAGE);
        if (message) aorta_rocprof_add_message(db->rocprof, record.correlation, message, strlen(message));
    }
    aorta_rocprof_add(db->rocprof, domain, &record);
}

static void take_dispatch(struct database *db, sqlite3_stmt *row) {
    take_record(db, row, AORTA_ROCPROF_DISPATCH);
}
static void take_copy(struct database *db, sqlite3_stmt *row) {
    take_record(db, row, AORTA_ROCPROF_COPY);
}
static void take_region(struct database *db, sqlite3_stmt *row) {
    const char *category = text_at(row, CATEGORY);
    enum aorta_rocprof_domain domain;
    if (category && aorta_rocprof_domain_of(category, strlen(category), &domain)) take_record(db, row, domain);
}

/* What can be asked of a table of records: its own columns, and those of the tables it points to. */
struct shape {
    bool track, event, name, category, categories; /* categories: a table of their own (schema 4) */
};

static void append_fields(const struct database *db, sqlite3_str *query, const char *table, const struct shape *shape) {
    for (int i = 0; i < FIELD_COUNT; i++) {
        const char *column = fields[i].column;
        if (i) sqlite3_str_appendall(query, ", ");
        if (has_column(db, table, column)) {
            sqlite3_str_appendf(query, "M.\"%w\"", column);
        } else if (shape->track && has_column(db, "rocpd_track", column)) {
            sqlite3_str_appendf(query, "T.\"%w\"", column);
        } else {
            sqlite3_str_appendall(query, "NULL");
        }
    }
    sqlite3_str_appendall(query, shape->event ? ", E.stack_id" : ", NULL");
    sqlite3_str_appendall(query, shape->name ? ", S.string" : ", NULL");
    sqlite3_str_appendall(query, !shape->category ? ", NULL, " : shape->categories ? ", C.name, " : ", C.string, ");
    if (shape->event) {
        json_member(query, "E.extdata", "message");
    } else {
        sqlite3_str_appendall(query, "NULL");
    }
}

static aorta_status read_records(struct database *db, const char *table,
                                 void (*take)(struct database *db, sqlite3_stmt *row)) {
    if (!has_table(db, table)) return NULL;
    struct shape shape = {
        .track = has_column(db, table, "track_id") && has_table(db, "rocpd_track"),
        .event = has_column(db, table, "event_id") && has_column(db, "rocpd_event", "stack_id"),
        .name = has_column(db, table, "name_id") && has_table(db, "rocpd_string"),
        .categories = has_table(db, "rocpd_info_category"),
    };
    shape.category = shape.event && (shape.categories || has_table(db, "rocpd_string"));
    sqlite3_str *query = sqlite3_str_new(db->handle);
    sqlite3_str_appendall(query, "SELECT ");
    append_fields(db, query, table, &shape);
    const char *suffix = db->suffix;
    sqlite3_str_appendf(query, " FROM \"%w%w\" M", table, suffix);
    if (shape.track) sqlite3_str_appendf(query, " LEFT JOIN \"rocpd_track%w\" T ON T.id = M.track_id", suffix);
    if (shape.event) sqlite3_str_appendf(query, " LEFT JOIN \"rocpd_event%w\" E ON E.id = M.event_id", suffix);
    if (shape.name) sqlite3_str_appendf(query, " LEFT JOIN \"rocpd_string%w\" S ON S.id = M.name_id", suffix);
    if (shape.category)
        sqlite3_str_appendf(query, " LEFT JOIN \"%s%w\" C ON C.id = E.category_id",
                            shape.categories ? "rocpd_info_category" : "rocpd_string", suffix);
    return each_row(db, table, sqlite3_str_finish(query), take);
}

/* One process of the file. Device work comes first, so that calls without work can be dropped as they come. */
static aorta_status read_tables(struct database *db) {
    AORTA_TRY(read_process(db));
    AORTA_TRY(read_agents(db));
    AORTA_TRY(read_symbols(db));
    AORTA_TRY(read_records(db, "rocpd_kernel_dispatch", take_dispatch));
    AORTA_TRY(read_records(db, "rocpd_memory_copy", take_copy));
    return read_records(db, "rocpd_region", take_region);
}

static aorta_status read_process_tables(struct database *db, const char *suffix, int64_t bytes,
                                        struct aorta_trace_list *list) {
    db->suffix = suffix;
    AORTA_TRY(aorta_rocprof_create(AORTA_TRACE_ROCPD, db->path, db->options, &db->rocprof));
    aorta_status status = read_tables(db);
    if (!status) return aorta_rocprof_finish(db->rocprof, bytes, list);
    aorta_rocprof_destroy(db->rocprof);
    return status;
}

/* ---- the file ---- */

static const char table_prefix[] = "rocpd_kernel_dispatch";

static aorta_status no_tables(struct database *db) {
    db->suffix = "";
    if (has_table(db, "rocpd_op"))
        return AORTA_ERROR(AORTA_FORMAT,
                           "%s: written by rocmProfileData (.rpd), not by rocprofv3: its rpd2tracing.py makes a JSON "
                           "trace of it, which can be read",
                           db->path);
    return AORTA_ERROR(AORTA_FORMAT, "%s: a SQLite database, but no trace: rocprofv3's have tables %s…", db->path,
                       table_prefix);
}

static aorta_status read_database(struct database *db, int64_t bytes, struct aorta_trace_list *list) {
    sqlite3_stmt *statement = NULL;
    char *query = sqlite3_mprintf(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB '%q*' ORDER BY name", table_prefix);
    AORTA_TRY(prepare(db, query, "cannot list its tables", &statement));
    aorta_status status = NULL;
    int code;
    bool found = false;
    while (!status && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = text_at(statement, 0);
        if (!name) continue;
        status = read_process_tables(db, name + strlen(table_prefix), found ? 0 : bytes, list);
        found = true;
    }
    if (!status && code != SQLITE_DONE) status = failure(db, "cannot list its tables");
    sqlite3_finalize(statement);
    return !status && !found ? no_tables(db) : status;
}

static uint32_t big_endian(const unsigned char *bytes, int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

/* The header shows that a file was cut short (https://www.sqlite.org/fileformat.html, section 1.3), which SQLite
 * itself looks at late. */
static aorta_status check_whole(const struct database *db, int64_t *bytes) {
    unsigned char head[100] = {0};
    struct stat info = {0};
    FILE *file = fopen(db->path, "rb");
    if (!file) return AORTA_ERROR(AORTA_IO, "%s: cannot open: %s", db->path, strerror(errno));
    size_t got = fread(head, 1, sizeof head, file);
    int error = fstat(fileno(file), &info) == 0 ? 0 : errno;
    fclose(file);
    if (error) return AORTA_ERROR(AORTA_IO, "%s: cannot read: %s", db->path, strerror(error));
    *bytes = info.st_size;
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

static aorta_status open_database(struct database *db, bool cut) {
    enum { LONGEST_TEXT = 1 << 24 };
    char *uri = uri_of(db->path);
    if (!uri) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its name", db->path);
    int code = sqlite3_open_v2(uri, &db->handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    sqlite3_free(uri);
    if (!db->handle) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory to open it", db->path);
    if (code != SQLITE_OK) return failure(db, "cannot open");
    /* What a file brings along (views, triggers, functions in its schema) is not run. SQLite looks into a file that is
     * shorter than it should be only when the schema may be written, which in a file opened read-only it cannot be. */
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db->handle, cut ? SQLITE_DBCONFIG_WRITABLE_SCHEMA : SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, LONGEST_TEXT);
    return NULL;
}

static aorta_status read_rocpd(const char *path, const struct aorta_trace_options *options,
                               struct aorta_trace_list *list) {
    struct database db = {.path = path, .options = options};
    int64_t bytes = 0;
    bool recover = options && options->recover, cut = false;
    aorta_status status = check_whole(&db, &bytes);
    if (!status) status = check_closed(path);
    if (status && recover && aorta_status_code(status) == AORTA_FORMAT) {
        cut = true; /* what can be read stays; if nothing can, that failure is returned */
        aorta_status_free(status);
        status = NULL;
    }
    size_t before = list->count;
    if (!status) status = open_database(&db, cut);
    if (!status) status = read_database(&db, bytes, list);
    sqlite3_close(db.handle);
    if (!status && cut && list->count > before) {
        struct aorta_trace_warning *warning = &list->items[before]->warnings[AORTA_REASON_TRUNCATED];
        if (!warning->count++) warning->offset = bytes;
    }
    return status;
}

static bool recognises(const char *head, size_t length) {
    static const char magic[] = "SQLite format 3"; /* with its NUL */
    return length >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

const struct aorta_trace_reader aorta_trace_reader_rocpd = {recognises, read_rocpd, NULL, false};
