/* rocpd, the default output of rocprofv3: a SQLite file whose tables carry the id of a process in their names
 * (rocpd_kernel_dispatch_00000ac2_6f4e_…); `rocpd merge` puts several processes into one file. Columns are looked up,
 * as they differ: agent, queue and stream are columns of the record up to schema 3, and of its track from schema 4
 * on. */
#include "base/json_value.h"
#include "base/sort.h"
#include "trace/rocprof.h"
#include "trace/sqlite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Facts of a record that are in its event. */
struct event {
    int64_t id, stack, category;
    const char *message; /* NULL: none */
};

/* Values that all records of a track share. */
struct track {
    int64_t id;
    struct aorta_rocprof_record record;
};

/* The tables of one process. Events and tracks are sorted by id. The first of several with one id counts. */
struct database {
    struct aorta_sqlite *file;
    const char *suffix; /* of its tables: "_00000ac2_…" */
    struct aorta_rocprof *rocprof;
    struct aorta_sqlite_texts strings, categories;
    struct event *events;
    size_t event_count, event_capacity;
    struct track *tracks;
    size_t track_count, track_capacity;
    struct aorta_text scratch;
    struct aorta_arena arena; /* of all arrays and texts */
    bool has_process;
};

#define EACH(db, table, columns, take)                                                                                 \
    aorta_sqlite_each((db)->file, table, (db)->suffix, columns, sizeof(columns) / sizeof *(columns), take, db)

/* Finds the item with the id in a column, the first member of an item; NULL if there is none. */
static const void *find_item(sqlite3_stmt *row, int column, const void *items, size_t count, size_t size) {
    int64_t id;
    return count && aorta_sqlite_number(row, column, &id) ? bsearch(&id, items, count, size, aorta_by_int64) : NULL;
}

/* ---- JSON in columns ---- */

static bool find_member(const char *json, const char *name, struct aorta_json_value *value) {
    struct aorta_json_walk walk;
    struct aorta_json_value key;
    if (!json || *json != '{' || !aorta_json_walk_begin(&walk, json, json + strlen(json))) return false;
    while (aorta_json_walk_key(&walk, &key) && aorta_json_walk_value(&walk, value))
        if (aorta_json_key_is(key, name)) return true;
    return false;
}

/* A member that is a text, valid until the next call; NULL if there is none. */
static const char *text_member(struct database *db, const char *json, const char *name) {
    struct aorta_json_value value, text;
    aorta_text_clear(&db->scratch);
    if (!find_member(json, name, &value) || !aorta_json_get_string(value, &db->scratch, &text)) return NULL;
    if (!db->scratch.length) aorta_text_append(&db->scratch, text.text, text.length);
    db->arena.failed |= db->scratch.failed;
    return db->scratch.data;
}

/* ---- agents, kernels, the process ---- */

static void take_agent(void *context, sqlite3_stmt *row) {
    struct database *db = context;
    struct aorta_rocprof_agent agent = {.device = -1, .multiprocessors = -1};
    struct aorta_json_value value;
    if (!aorta_sqlite_number(row, 0, &agent.key)) return;
    const char *type = aorta_sqlite_text(row, 1), *product = aorta_sqlite_text(row, 2);
    agent.gpu = type && strcmp(type, "GPU") == 0;
    agent.name = product && *product ? product : aorta_sqlite_text(row, 3);
    if (find_member(aorta_sqlite_text(row, 4), "cu_count", &value)) aorta_json_get_int(value, &agent.multiprocessors);
    aorta_rocprof_add_agent(db->rocprof, &agent);
}

static void take_symbol(void *context, sqlite3_stmt *row) {
    struct database *db = context;
    int64_t kernel;
    const char *name = aorta_sqlite_text(row, 1);
    if (!name || !*name) name = aorta_sqlite_text(row, 2);
    if (aorta_sqlite_number(row, 0, &kernel) && name)
        aorta_rocprof_add_name(db->rocprof, AORTA_ROCPROF_KERNELS, kernel, 0, name, strlen(name));
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

/* The first row counts. */
static void take_process(void *context, sqlite3_stmt *row) {
    struct database *db = context;
    int64_t process;
    if (db->has_process) return;
    db->has_process = true;
    if (aorta_sqlite_number(row, 0, &process)) aorta_rocprof_process(db->rocprof, process);
    const char *environment = aorta_sqlite_text(row, 1);
    for (int i = 0; i < VARIABLES; i++) {
        int32_t rank, world = -1;
        if (!small_number(text_member(db, environment, rank_variables[i][0]), &rank)) continue;
        if (!small_number(text_member(db, environment, rank_variables[i][1]), &world)) world = -1;
        aorta_rocprof_rank(db->rocprof, rank, world);
        return;
    }
}

static aorta_status read_process(struct database *db) {
    static const char *const process[] = {"pid", "environment"},
                             *const agent[] = {"id", "type", "product_name", "name", "extdata"},
                             *const symbol[] = {"id", "display_name", "kernel_name"};
    AORTA_TRY(EACH(db, "rocpd_info_process", process, take_process));
    AORTA_TRY(EACH(db, "rocpd_info_agent", agent, take_agent));
    return EACH(db, "rocpd_info_kernel_symbol", symbol, take_symbol);
}

/* ---- what records refer to ---- */

static void take_event(void *context, sqlite3_stmt *row) {
    struct database *db = context;
    struct event event = {.stack = aorta_sqlite_number_or(row, 1, -1), .category = aorta_sqlite_number_or(row, 2, -1)};
    if (!aorta_sqlite_number(row, 0, &event.id)) return;
    const char *message = text_member(db, aorta_sqlite_text(row, 3), "message");
    if (message) event.message = aorta_arena_strdup(&db->arena, message);
    aorta_arena_append(&db->arena, &db->events, &db->event_capacity, &db->event_count, &event, sizeof event);
}

/* Sets the record's fields from the columns that begin at `at`. */
static void take_fields(struct database *db, sqlite3_stmt *row, int at, struct aorta_rocprof_record *record) {
    for (int i = 0; i < AORTA_ROCPROF_FIELDS; i++) {
        int64_t number;
        if (!aorta_rocprof_fields[i].sql) continue;
        if (aorta_sqlite_number(row, at, &number))
            aorta_rocprof_set(record, i, number);
        else if (sqlite3_column_type(row, at) != SQLITE_NULL)
            aorta_rocprof_warn(db->rocprof, AORTA_REASON_ODD_VALUE, -1);
        at++;
    }
}

static void take_track(void *context, sqlite3_stmt *row) {
    struct database *db = context;
    struct track track = {.record = aorta_rocprof_nothing};
    if (!aorta_sqlite_number(row, 0, &track.id)) return;
    take_fields(db, row, 1, &track.record);
    aorta_arena_append(&db->arena, &db->tracks, &db->track_capacity, &db->track_count, &track, sizeof track);
}

/* Adds the fields' columns after the first `count` columns. Returns the new number of columns. */
static int add_fields(const char **columns, int count) {
    for (int i = 0; i < AORTA_ROCPROF_FIELDS; i++)
        if (aorta_rocprof_fields[i].sql) columns[count++] = aorta_rocprof_fields[i].sql;
    return count;
}

static aorta_status read_references(struct database *db) {
    static const char *const event[] = {"id", "stack_id", "category_id", "extdata"};
    const char *track[1 + AORTA_ROCPROF_FIELDS] = {"id"};
    AORTA_TRY(aorta_sqlite_read_texts(db->file, "rocpd_string", db->suffix, "string", &db->strings));
    AORTA_TRY(aorta_sqlite_read_texts(db->file, "rocpd_info_category", db->suffix, "name", &db->categories));
    AORTA_TRY(EACH(db, "rocpd_event", event, take_event));
    AORTA_TRY(aorta_sqlite_each(db->file, "rocpd_track", db->suffix, track, add_fields(track, 1), take_track, db));
    if (db->arena.failed) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its records", db->file->path);
    db->event_count = aorta_sort_unique(db->events, db->event_count, sizeof *db->events, aorta_by_int64);
    db->track_count = aorta_sort_unique(db->tracks, db->track_count, sizeof *db->tracks, aorta_by_int64);
    return NULL;
}

/* ---- records ---- */

enum { EVENT, NAME, TRACK, FIRST_FIELD };

static const struct event *event_of(const struct database *db, sqlite3_stmt *row) {
    return find_item(row, EVENT, db->events, db->event_count, sizeof *db->events);
}

static void take_record(struct database *db, sqlite3_stmt *row, enum aorta_rocprof_domain domain) {
    int64_t id;
    const struct event *event = event_of(db, row);
    const struct track *track = find_item(row, TRACK, db->tracks, db->track_count, sizeof *db->tracks);
    struct aorta_rocprof_record record = track ? track->record : aorta_rocprof_nothing;
    take_fields(db, row, FIRST_FIELD, &record);
    record.domain = domain;
    record.correlation = event ? event->stack : -1;
    record.name = aorta_sqlite_number(row, NAME, &id) ? aorta_sqlite_find_text(&db->strings, id) : NULL;
    record.name_length = record.name ? strlen(record.name) : 0;
    if (domain == AORTA_ROCPROF_MARKER && event && event->message)
        aorta_rocprof_add_name(db->rocprof, AORTA_ROCPROF_MESSAGES, record.correlation, 0, event->message,
                               strlen(event->message));
    aorta_rocprof_add(db->rocprof, &record);
}

static void take_dispatch(void *context, sqlite3_stmt *row) {
    take_record(context, row, AORTA_ROCPROF_DISPATCH);
}
static void take_copy(void *context, sqlite3_stmt *row) {
    take_record(context, row, AORTA_ROCPROF_COPY);
}
/* From schema 4 on, categories have their own table. */
static void take_region(void *context, sqlite3_stmt *row) {
    const struct database *db = context;
    const struct event *event = event_of(db, row);
    const char *category =
        event ? aorta_sqlite_find_text(db->categories.count ? &db->categories : &db->strings, event->category) : NULL;
    enum aorta_rocprof_domain domain;
    if (category && aorta_rocprof_domain_of(category, strlen(category), &domain)) take_record(context, row, domain);
}

static aorta_status read_records(struct database *db, const char *table,
                                 void (*take)(void *context, sqlite3_stmt *row)) {
    const char *columns[FIRST_FIELD + AORTA_ROCPROF_FIELDS] = {"event_id", "name_id", "track_id"};
    return aorta_sqlite_each(db->file, table, db->suffix, columns, add_fields(columns, FIRST_FIELD), take, db);
}

static aorta_status read_tables(struct database *db) {
    AORTA_TRY(read_process(db));
    AORTA_TRY(read_references(db));
    AORTA_TRY(read_records(db, "rocpd_kernel_dispatch", take_dispatch));
    AORTA_TRY(read_records(db, "rocpd_memory_copy", take_copy));
    return read_records(db, "rocpd_region", take_region);
}

/* ---- the file ---- */

static aorta_status read_one(struct aorta_sqlite *file, const char *suffix, int64_t bytes,
                             struct aorta_trace_list *list) {
    struct database db = {.file = file, .suffix = suffix};
    db.strings.arena = db.categories.arena = &db.arena;
    AORTA_TRY(aorta_rocprof_create(AORTA_TRACE_ROCPD, file->path, file->options, &db.rocprof));
    aorta_status status = read_tables(&db);
    aorta_text_free(&db.scratch);
    aorta_arena_free(&db.arena);
    return aorta_rocprof_finish(db.rocprof, status, bytes, list);
}

aorta_status aorta_trace_read_rocpd(struct aorta_sqlite *file, struct aorta_trace_list *list) {
    static const char prefix[] = "rocpd_kernel_dispatch";
    int64_t bytes = file->bytes;
    AORTA_EACH (const struct aorta_sqlite_name, name, file->names, file->name_count) {
        if (!name->table || !aorta_begins(name->text, prefix)) continue;
        AORTA_TRY(read_one(file, name->text + strlen(prefix), bytes, list));
        bytes = 0;
    }
    return NULL;
}
