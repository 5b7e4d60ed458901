/* rocpd, the default output of rocprofv3: a SQLite file whose tables carry the id of a process in their names
 * (rocpd_kernel_dispatch_00000ac2_6f4e_…); `rocpd merge` puts several processes into one file. Columns are looked up,
 * since they differ: up to schema 3 a record says itself on which agent, queue and stream it ran, from schema 4 on its
 * track does. */
#include "formats/rocprof.h"
#include "formats/sqlite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct database {
    struct aorta_sqlite *file;
    const char *suffix; /* of the tables being read: "_00000ac2_…" */
    struct aorta_rocprof *rocprof;
};

static bool has_table(const struct database *db, const char *table) {
    return aorta_sqlite_has_table(db->file, table, db->suffix);
}

static bool has_column(const struct database *db, const char *table, const char *column) {
    return aorta_sqlite_has_column(db->file, table, db->suffix, column);
}

static aorta_status each_row(struct database *db, const char *table, char *query,
                             void (*take)(void *context, sqlite3_stmt *row)) {
    return aorta_sqlite_each(db->file, table, db->suffix, query, take, db);
}

/* ---- agents, kernels, the process ---- */

static void take_agent(void *context, sqlite3_stmt *row) {
    struct database *db = context;
    struct aorta_rocprof_agent agent = {.device = -1, .multiprocessors = -1};
    int64_t units;
    if (!aorta_sqlite_number(row, 0, &agent.key)) return;
    const char *type = aorta_sqlite_text(row, 1);
    agent.gpu = type && strcmp(type, "GPU") == 0;
    agent.name = aorta_sqlite_text(row, 2);
    if (aorta_sqlite_number(row, 3, &units) && units >= 0 && units < INT32_MAX) agent.multiprocessors = (int32_t)units;
    aorta_rocprof_add_agent(db->rocprof, &agent);
}

static void take_symbol(void *context, sqlite3_stmt *row) {
    struct database *db = context;
    int64_t kernel;
    const char *name = aorta_sqlite_text(row, 1);
    if (!name || !*name) name = aorta_sqlite_text(row, 2);
    if (aorta_sqlite_number(row, 0, &kernel) && name) aorta_rocprof_add_symbol(db->rocprof, kernel, name, strlen(name));
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

static void take_process(void *context, sqlite3_stmt *row) {
    struct database *db = context;
    int64_t process;
    if (aorta_sqlite_number(row, 0, &process)) aorta_rocprof_process(db->rocprof, process);
    for (int i = 0; i < VARIABLES; i++) {
        int32_t rank, world = -1;
        if (!small_number(aorta_sqlite_text(row, 1 + 2 * i), &rank)) continue;
        if (!small_number(aorta_sqlite_text(row, 2 + 2 * i), &world)) world = -1;
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
    sqlite3_str *query = sqlite3_str_new(db->file->handle);
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
    sqlite3_str *query = sqlite3_str_new(db->file->handle);
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
        if (aorta_sqlite_number(row, i, &number)) {
            memcpy((char *)&record + fields[i].offset, &number, sizeof number);
        } else if (sqlite3_column_type(row, i) != SQLITE_NULL) {
            aorta_rocprof_warn(db->rocprof, AORTA_REASON_ODD_VALUE, -1);
        }
    }
    if (!aorta_sqlite_number(row, CORRELATION, &record.correlation)) record.correlation = -1;
    record.name = aorta_sqlite_text(row, NAME);
    record.name_length = record.name ? strlen(record.name) : 0;
    if (domain == AORTA_ROCPROF_MARKER) {
        const char *message = aorta_sqlite_text(row, MESSAGE);
        if (message) aorta_rocprof_add_message(db->rocprof, record.correlation, message, strlen(message));
    }
    aorta_rocprof_add(db->rocprof, domain, &record);
}

static void take_dispatch(void *context, sqlite3_stmt *row) {
    take_record(context, row, AORTA_ROCPROF_DISPATCH);
}
static void take_copy(void *context, sqlite3_stmt *row) {
    take_record(context, row, AORTA_ROCPROF_COPY);
}
static void take_region(void *context, sqlite3_stmt *row) {
    const char *category = aorta_sqlite_text(row, CATEGORY);
    enum aorta_rocprof_domain domain;
    if (category && aorta_rocprof_domain_of(category, strlen(category), &domain)) take_record(context, row, domain);
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
                                 void (*take)(void *context, sqlite3_stmt *row)) {
    if (!has_table(db, table)) return NULL;
    struct shape shape = {
        .track = has_column(db, table, "track_id") && has_table(db, "rocpd_track"),
        .event = has_column(db, table, "event_id") && has_column(db, "rocpd_event", "stack_id"),
        .name = has_column(db, table, "name_id") && has_table(db, "rocpd_string"),
        .categories = has_table(db, "rocpd_info_category"),
    };
    shape.category = shape.event && (shape.categories || has_table(db, "rocpd_string"));
    sqlite3_str *query = sqlite3_str_new(db->file->handle);
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
    AORTA_TRY(aorta_rocprof_create(AORTA_TRACE_ROCPD, db->file->path, db->file->options, &db->rocprof));
    aorta_status status = read_tables(db);
    if (!status) return aorta_rocprof_finish(db->rocprof, bytes, list);
    aorta_rocprof_destroy(db->rocprof);
    return status;
}

/* ---- the file ---- */

aorta_status aorta_trace_read_rocpd(struct aorta_sqlite *file, struct aorta_trace_list *list) {
    static const char prefix[] = "rocpd_kernel_dispatch";
    struct database db = {.file = file};
    sqlite3_stmt *statement = NULL;
    char *query = sqlite3_mprintf(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB '%q*' ORDER BY name", prefix);
    AORTA_TRY(aorta_sqlite_prepare(file, query, "cannot list its tables", &statement));
    aorta_status status = NULL;
    bool first = true;
    int code;
    while (!status && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = aorta_sqlite_text(statement, 0);
        if (!name) continue;
        status = read_process_tables(&db, name + strlen(prefix), first ? file->bytes : 0, list);
        first = false;
    }
    if (!status && code != SQLITE_DONE) status = aorta_sqlite_failure(file, "cannot list its tables");
    sqlite3_finalize(statement);
    return status;
}
