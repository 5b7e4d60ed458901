/* What `nsys export --type sqlite` makes of a report of Nsight Systems: tables of CUPTI's records, their names in
 * StringIds. A trace for each device of each process.
 *
 * Source: Nsight Systems User Guide, "SQLite Schema Reference" (2021.5 to 2025.3). Tables are made only where they have
 * rows, and columns came with versions, so both are looked up. Numbers of processes and threads are joined:
 * globalPid = (host, VM, process) << 24, globalTid = globalPid | thread. Times are ns since the session's start. */
#include "base/array.h"
#include "formats/sqlite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whose work becomes a trace. */
struct target {
    int64_t process; /* with host and VM: globalPid >> 24; -1: not known */
    int64_t device;  /* CUDA's number in the process; -1: not known */
    bool shared;     /* the process has work on another device, too */
};

/* When an event was recorded; by context and event, then ascending. */
struct event {
    int64_t context, event, correlation, stream;
};

struct nsys {
    struct aorta_sqlite *file;
    struct target *targets;
    size_t target_count, target_capacity;
    struct event *events;
    size_t event_count, event_capacity;
    bool failed; /* memory ran out */
    struct target target;
    const struct table *table; /* that is read */
    struct aorta_trace_builder *builder;
};

/* ---- queries ---- */

static aorta_status each_row(struct nsys *nsys, const char *table, char *query,
                             void (*take)(void *context, sqlite3_stmt *row)) {
    return aorta_sqlite_each(nsys->file, table, "", query, take, nsys);
}

/* The columns that a table has, NULL for the others. */
static void append_columns(struct nsys *nsys, sqlite3_str *query, const char *table, const char *const *columns,
                           size_t count) {
    for (size_t i = 0; i < count; i++) {
        const bool known = aorta_sqlite_has_column(nsys->file, table, "", columns[i]);
        sqlite3_str_appendf(query, known ? ", M.\"%w\"" : ", NULL", columns[i]);
    }
}

/* The number in a column of M; -1 where there is none. */
static void append_number(struct nsys *nsys, sqlite3_str *query, const char *table, const char *column,
                          const char *part) {
    if (aorta_sqlite_has_column(nsys->file, table, "", column))
        sqlite3_str_appendf(query, "coalesce(CAST(M.\"%w\" AS INTEGER)%s, -1)", column, part);
    else
        sqlite3_str_appendall(query, "-1");
}

/* SELECT the text that the first of `names` leads to, then the columns. */
static sqlite3_str *begin_query(struct nsys *nsys, const char *table, const char *const names[2],
                                const char *const *columns, size_t count) {
    sqlite3_str *query = sqlite3_str_new(nsys->file->handle);
    const char *name = NULL;
    for (int i = 0; i < 2 && !name; i++)
        if (names[i] && aorta_sqlite_has_column(nsys->file, table, "", names[i])) name = names[i];
    const bool text = aorta_sqlite_has_column(nsys->file, table, "", "text");
    sqlite3_str_appendall(query, name && text ? "SELECT coalesce(M.text, S.value)"
                                 : name       ? "SELECT S.value"
                                 : text       ? "SELECT M.text"
                                              : "SELECT NULL");
    append_columns(nsys, query, table, columns, count);
    sqlite3_str_appendf(query, " FROM \"%w\" M", table);
    if (name) sqlite3_str_appendf(query, " LEFT JOIN StringIds S ON S.id = M.\"%w\"", name);
    return query;
}

static void add_event(struct nsys *nsys, enum aorta_trace_reason reason) {
    aorta_trace_builder_warn(nsys->builder, reason, -1);
}

static uint32_t text_of(struct nsys *nsys, const char *text) {
    return aorta_trace_builder_text(nsys->builder, text, strlen(text));
}

static uint32_t thread_of(struct nsys *nsys, int64_t global) {
    const uint64_t number = (uint64_t)global;
    return aorta_trace_builder_thread(nsys->builder, (int64_t)(number >> 24 & 0xffffff), (int64_t)(number & 0xffffff));
}

/* ---- device work ---- */

static const char *const work_columns[] = {"start",       "end",      "contextId", "streamId", "correlationId", "bytes",
                                           "graphNodeId", "copyKind", "srcKind",   "dstKind",  "gridX",         "gridY",
                                           "gridZ",       "blockX",   "blockY",    "blockZ",   "graphId"};
enum {
    START = 1,
    END,
    CONTEXT,
    STREAM,
    CORRELATION,
    BYTES,
    NODE,
    COPY,
    SOURCE,
    DESTINATION,
    GRID,
    BLOCK = GRID + 3,
    GRAPH = BLOCK + 3,
    WORK_COLUMNS = sizeof work_columns / sizeof *work_columns
};

static const struct table {
    const char *name;
    enum aorta_trace_kind kind;
    bool graph; /* a row is a whole graph */
} tables[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL", AORTA_TRACE_KERNEL, false},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", AORTA_TRACE_COPY, false},
    {"CUPTI_ACTIVITY_KIND_MEMSET", AORTA_TRACE_FILL, false},
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", AORTA_TRACE_KERNEL, true},
};
enum { TABLES = sizeof tables / sizeof *tables };

static int64_t number_or(sqlite3_stmt *row, int column, int64_t otherwise) {
    int64_t number;
    return aorta_sqlite_number(row, column, &number) ? number : otherwise;
}

/* In the words of PyTorch's traces. ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND. */
static uint32_t copy_name(struct nsys *nsys, sqlite3_stmt *row) {
    static const char *const ways[] = {NULL,   "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD",
                                       "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD"};
    static const char *const kinds[] = {"Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed"};
    enum { WAYS = sizeof ways / sizeof *ways, KINDS = sizeof kinds / sizeof *kinds };
    const int64_t way = number_or(row, COPY, 0), from = number_or(row, SOURCE, -1),
                  to = number_or(row, DESTINATION, -1);
    char name[64] = "Memcpy";
    if (way > 0 && way < WAYS) snprintf(name, sizeof name, "Memcpy %s", ways[way]);
    const size_t length = strlen(name);
    if (from >= 0 && from < KINDS && to >= 0 && to < KINDS)
        snprintf(name + length, sizeof name - length, " (%s -> %s)", kinds[from], kinds[to]);
    return text_of(nsys, name);
}

static uint32_t work_name(struct nsys *nsys, sqlite3_stmt *row) {
    const struct table *table = nsys->table;
    const char *name = aorta_sqlite_text(row, 0);
    char graph[48];
    if (table->kind == AORTA_TRACE_COPY) return copy_name(nsys, row);
    if (table->kind == AORTA_TRACE_FILL) return text_of(nsys, "Memset");
    if (table->graph) {
        snprintf(graph, sizeof graph, "CUDA graph %lld", (long long)number_or(row, GRAPH, -1));
        name = graph;
        add_event(nsys, AORTA_REASON_WHOLE_GRAPH);
    }
    if (!name) add_event(nsys, AORTA_REASON_UNKNOWN_NAME);
    return text_of(nsys, name ? name : "(unknown)");
}

static void add_work(struct nsys *nsys, sqlite3_stmt *row, int64_t start_ns, int64_t end_ns) {
    const int64_t correlation = number_or(row, CORRELATION, 0), bytes = number_or(row, BYTES, -1);
    int64_t blocks[3], threads[3];
    const struct aorta_trace_work work = {
        .start_ns = start_ns,
        .end_ns = end_ns,
        .bytes = nsys->table->kind == AORTA_TRACE_KERNEL || bytes < 0 ? -1 : bytes,
        .correlation = correlation > 0 ? (uint64_t)correlation : 0,
        .name = work_name(nsys, row),
        .stream = aorta_trace_builder_stream(nsys->builder, nsys->target.device, number_or(row, CONTEXT, -1),
                                             number_or(row, STREAM, -1)),
        .queue = AORTA_TRACE_NONE,
        .call = AORTA_TRACE_NONE,
        .collective = AORTA_TRACE_NONE,
        .shape = AORTA_TRACE_NONE,
        .device = (int32_t)nsys->target.device,
        .kind = (uint8_t)nsys->table->kind,
        .graph = nsys->table->graph || number_or(row, NODE, 0) > 0,
    };
    aorta_trace_builder_work(nsys->builder, &work, -1, NULL, -1);
    if (work.kind != AORTA_TRACE_KERNEL || nsys->table->graph) return;
    for (int i = 0; i < 3; i++) {
        blocks[i] = number_or(row, GRID + i, -1);
        threads[i] = number_or(row, BLOCK + i, -1);
        if (blocks[i] < 1 || threads[i] < 1) return;
    }
    aorta_trace_builder_geometry(nsys->builder, blocks, threads);
}

static void take_work(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    int64_t start_ns, end_ns;
    aorta_trace_builder_head(nsys->builder)->events++;
    if (!aorta_sqlite_number(row, START, &start_ns) || !aorta_sqlite_number(row, END, &end_ns) ||
        !aorta_trace_times_fit(start_ns, end_ns)) {
        add_event(nsys, AORTA_REASON_BAD_EVENT);
        return;
    }
    add_work(nsys, row, start_ns, end_ns);
}

/* Rows of the process and device at hand; a table that has no such column has those of all. */
static void append_target(struct nsys *nsys, sqlite3_str *query, const char *table) {
    sqlite3_str_appendall(query, " WHERE ");
    append_number(nsys, query, table, "globalPid", " >> 24");
    sqlite3_str_appendf(query, " IS %lld AND ", (long long)nsys->target.process);
    append_number(nsys, query, table, "deviceId", "");
    sqlite3_str_appendf(query, " IS %lld", (long long)nsys->target.device);
}

static aorta_status read_work(struct nsys *nsys) {
    static const char *const names[] = {"demangledName", "shortName"};
    for (size_t i = 0; i < TABLES; i++) {
        if (!aorta_sqlite_has_table(nsys->file, tables[i].name, "")) continue;
        nsys->table = &tables[i];
        sqlite3_str *query = begin_query(nsys, tables[i].name, names, work_columns, WORK_COLUMNS);
        append_target(nsys, query, tables[i].name);
        AORTA_TRY(each_row(nsys, tables[i].name, sqlite3_str_finish(query), take_work));
    }
    return NULL;
}

/* ---- the host ---- */

/* "cudaLaunchKernel_v7000": the version that follows is of no use here. */
static size_t call_length(const char *name) {
    const char *version = strstr(name, "_v");
    if (!version || strspn(version + 2, "0123456789") < 4) return strlen(name);
    return version[2 + strspn(version + 2, "0123456789")] ? strlen(name) : (size_t)(version - name);
}

enum { CALL_THREAD = 3, CALL_CORRELATION };

static void take_call(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const char *name = aorta_sqlite_text(row, 0);
    struct aorta_trace_call call = {0};
    aorta_trace_builder_head(nsys->builder)->events++;
    if (!name || !aorta_sqlite_number(row, START, &call.start_ns) || !aorta_sqlite_number(row, END, &call.end_ns) ||
        !aorta_trace_times_fit(call.start_ns, call.end_ns) || call.end_ns < call.start_ns) {
        add_event(nsys, AORTA_REASON_ODD_VALUE);
        return;
    }
    const int64_t correlation = number_or(row, CALL_CORRELATION, 0);
    call.correlation = correlation > 0 ? (uint64_t)correlation : 0;
    call.name = aorta_trace_builder_text(nsys->builder, name, call_length(name));
    call.thread = thread_of(nsys, number_or(row, CALL_THREAD, 0));
    aorta_trace_builder_call(nsys->builder, &call);
}

/* Launches of work on another device of the process are that trace's. */
static void append_not_others(struct nsys *nsys, sqlite3_str *query) {
    sqlite3_str_appendall(query, " AND coalesce(M.correlationId, -1) NOT IN (SELECT -2");
    for (size_t i = 0; i < TABLES; i++) {
        const char *table = tables[i].name;
        if (!aorta_sqlite_has_column(nsys->file, table, "", "correlationId")) continue;
        sqlite3_str_appendf(
            query, " UNION ALL SELECT M.correlationId FROM \"%w\" M WHERE M.correlationId IS NOT NULL AND ", table);
        append_number(nsys, query, table, "globalPid", " >> 24");
        sqlite3_str_appendf(query, " IS %lld AND ", (long long)nsys->target.process);
        append_number(nsys, query, table, "deviceId", "");
        sqlite3_str_appendf(query, " IS NOT %lld", (long long)nsys->target.device);
    }
    sqlite3_str_appendall(query, ")");
}

/* Rows of the process's threads, and those of which that is not known. */
static void append_process(struct nsys *nsys, sqlite3_str *query, const char *table) {
    sqlite3_str_appendall(query, " WHERE ");
    append_number(nsys, query, table, "globalTid", " >> 24");
    sqlite3_str_appendf(query, " IN (%lld, -1)", (long long)nsys->target.process);
}

static aorta_status read_calls(struct nsys *nsys) {
    static const char table[] = "CUPTI_ACTIVITY_KIND_RUNTIME";
    static const char *const names[] = {"nameId", NULL};
    static const char *const columns[] = {"start", "end", "globalTid", "correlationId"};
    if (!aorta_sqlite_has_table(nsys->file, table, "")) return NULL;
    sqlite3_str *query = begin_query(nsys, table, names, columns, sizeof columns / sizeof *columns);
    append_process(nsys, query, table);
    if (nsys->target.shared && aorta_sqlite_has_column(nsys->file, table, "", "correlationId"))
        append_not_others(nsys, query);
    return each_row(nsys, table, sqlite3_str_finish(query), take_call);
}

/* A range; marks of a moment, domains and categories are not. */
enum { PUSH_POP = 59, START_END = 60, RANGE_THREAD = 3, RANGE_TYPE };

static void take_range(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const char *name = aorta_sqlite_text(row, 0);
    const int64_t type = number_or(row, RANGE_TYPE, PUSH_POP);
    struct aorta_trace_annotation range = {0};
    aorta_trace_builder_head(nsys->builder)->events++;
    if (type != PUSH_POP && type != START_END) return;
    if (!name || !*name || !aorta_sqlite_number(row, END, &range.end_ns)) return; /* without a name, or still open */
    if (!aorta_sqlite_number(row, START, &range.start_ns) || !aorta_trace_times_fit(range.start_ns, range.end_ns) ||
        range.end_ns < range.start_ns) {
        add_event(nsys, AORTA_REASON_ODD_VALUE);
        return;
    }
    range.name = text_of(nsys, name);
    range.thread = thread_of(nsys, number_or(row, RANGE_THREAD, 0));
    aorta_trace_builder_annotation(nsys->builder, &range);
}

static aorta_status read_ranges(struct nsys *nsys) {
    static const char table[] = "NVTX_EVENTS";
    static const char *const names[] = {"textId", NULL};
    static const char *const columns[] = {"start", "end", "globalTid", "eventType"};
    if (!aorta_sqlite_has_table(nsys->file, table, "")) return NULL;
    sqlite3_str *query = begin_query(nsys, table, names, columns, sizeof columns / sizeof *columns);
    append_process(nsys, query, table);
    return each_row(nsys, table, sqlite3_str_finish(query), take_range);
}

/* ---- waits ---- */

static void take_event(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    struct event event;
    if (!aorta_sqlite_number(row, 1, &event.context) || !aorta_sqlite_number(row, 2, &event.event) ||
        !aorta_sqlite_number(row, 3, &event.correlation) || !aorta_sqlite_number(row, 4, &event.stream))
        return;
    if (!aorta_array_fit(&nsys->events, &nsys->event_capacity, nsys->event_count + 1, sizeof *nsys->events))
        nsys->failed = true;
    else
        nsys->events[nsys->event_count++] = event;
}

static int by_event(const void *left, const void *right) {
    const struct event *a = left, *b = right;
    if (a->context != b->context) return a->context < b->context ? -1 : 1;
    if (a->event != b->event) return a->event < b->event ? -1 : 1;
    return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static aorta_status read_events(struct nsys *nsys) {
    static const char table[] = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
    static const char *const columns[] = {"contextId", "eventId", "correlationId", "streamId"};
    nsys->event_count = 0;
    if (!aorta_sqlite_has_table(nsys->file, table, "")) return NULL;
    sqlite3_str *query = sqlite3_str_new(nsys->file->handle);
    sqlite3_str_appendall(query, "SELECT NULL");
    append_columns(nsys, query, table, columns, sizeof columns / sizeof *columns);
    sqlite3_str_appendf(query, " FROM \"%w\" M", table);
    append_target(nsys, query, table);
    AORTA_TRY(each_row(nsys, table, sqlite3_str_finish(query), take_event));
    if (nsys->event_count) qsort(nsys->events, nsys->event_count, sizeof *nsys->events, by_event);
    return NULL;
}

/* How it was recorded last before this call; NULL: not in the file. */
static const struct event *recorded_before(const struct nsys *nsys, int64_t context, int64_t event,
                                           int64_t correlation) {
    const struct event key = {context, event, correlation, 0};
    size_t low = 0, high = nsys->event_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_event(&nsys->events[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const struct event *found = low ? &nsys->events[low - 1] : NULL;
    return found && found->context == context && found->event == event ? found : NULL;
}

/* ENUM_CUPTI_SYNC_TYPE. A wait for a whole context says no more than its call. */
enum { SYNC_EVENT = 1, SYNC_STREAM_EVENT = 2, SYNC_STREAM = 3 };

static void take_wait(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const int64_t where = number_or(row, 2, -1), stream = number_or(row, 3, -1), correlation = number_or(row, 4, -1),
                  type = number_or(row, 5, 0), device = nsys->target.device;
    struct aorta_trace_wait_facts facts = {.correlation = (uint64_t)correlation, .stream = AORTA_TRACE_NONE};
    if (!aorta_sqlite_number(row, 1, &facts.start_ns) || !aorta_trace_times_fit(facts.start_ns, facts.start_ns)) return;
    if (correlation <= 0 || type < SYNC_EVENT || type > SYNC_STREAM) return;
    if (type == SYNC_STREAM) {
        facts.on = aorta_trace_builder_stream(nsys->builder, device, where, stream);
    } else {
        const struct event *event = recorded_before(nsys, where, number_or(row, 6, -1), correlation);
        if (!event || event->correlation <= 0) return;
        facts.record_correlation = (uint64_t)event->correlation;
        facts.on = aorta_trace_builder_stream(nsys->builder, device, where, event->stream);
        if (type == SYNC_STREAM_EVENT) facts.stream = aorta_trace_builder_stream(nsys->builder, device, where, stream);
    }
    aorta_trace_builder_wait(nsys->builder, &facts);
}

static aorta_status read_waits(struct nsys *nsys) {
    static const char table[] = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
    static const char *const columns[] = {"start", "contextId", "streamId", "correlationId", "syncType", "eventId"};
    if (!aorta_sqlite_has_table(nsys->file, table, "")) return NULL;
    AORTA_TRY(read_events(nsys));
    sqlite3_str *query = sqlite3_str_new(nsys->file->handle);
    sqlite3_str_appendall(query, "SELECT NULL");
    append_columns(nsys, query, table, columns, sizeof columns / sizeof *columns);
    sqlite3_str_appendf(query, " FROM \"%w\" M", table);
    append_target(nsys, query, table);
    return each_row(nsys, table, sqlite3_str_finish(query), take_wait);
}

/* ---- who did it, and on what ---- */

static void take_thread(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const char *name = aorta_sqlite_text(row, 0);
    int64_t thread;
    if (name && aorta_sqlite_number(row, 1, &thread))
        aorta_trace_builder_thread_name(nsys->builder, thread_of(nsys, thread), text_of(nsys, name));
}

static aorta_status read_threads(struct nsys *nsys) {
    static const char table[] = "ThreadNames";
    static const char *const names[] = {"nameId", NULL}, *const columns[] = {"globalTid"};
    if (!aorta_sqlite_has_table(nsys->file, table, "")) return NULL;
    sqlite3_str *query = begin_query(nsys, table, names, columns, 1);
    append_process(nsys, query, table);
    return each_row(nsys, table, sqlite3_str_finish(query), take_thread);
}

static void take_device(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const char *name = aorta_sqlite_text(row, 1);
    const int64_t units = number_or(row, 3, -1), major = number_or(row, 4, -1), minor = number_or(row, 5, -1);
    const struct aorta_trace_device device = {
        .id = nsys->target.device,
        .name = name ? text_of(nsys, name) : AORTA_TRACE_NONE,
        .memory_bytes = number_or(row, 2, -1),
        .multiprocessors = units > 0 && units <= INT32_MAX ? (int32_t)units : -1,
        .major = major > 0 && major <= INT32_MAX ? (int32_t)major : -1,
        .minor = minor >= 0 && minor <= INT32_MAX ? (int32_t)minor : -1,
    };
    aorta_trace_builder_device(nsys->builder, &device);
}

/* The GPU that the process calls by this number: TARGET_INFO_CUDA_DEVICE says so, else the numbers are the same. */
static aorta_status read_device(struct nsys *nsys) {
    static const char table[] = "TARGET_INFO_GPU", map[] = "TARGET_INFO_CUDA_DEVICE";
    static const char *const columns[] = {"name", "totalMemory", "smCount", "computeMajor", "computeMinor"};
    struct aorta_sqlite *file = nsys->file;
    if (!aorta_sqlite_has_table(file, table, "") || !aorta_sqlite_has_column(file, table, "", "id")) return NULL;
    sqlite3_str *query = sqlite3_str_new(file->handle);
    sqlite3_str_appendall(query, "SELECT NULL");
    append_columns(nsys, query, table, columns, sizeof columns / sizeof *columns);
    const bool mapped = aorta_sqlite_has_table(file, map, "") && aorta_sqlite_has_column(file, map, "", "gpuId") &&
                        aorta_sqlite_has_column(file, map, "", "cudaId") &&
                        aorta_sqlite_has_column(file, map, "", "pid");
    const long long device = (long long)nsys->target.device, process = (long long)(nsys->target.process & 0xffffff);
    sqlite3_str_appendf(query, " FROM \"%w\" M WHERE M.id IS ", table);
    if (mapped)
        sqlite3_str_appendf(query, "coalesce((SELECT gpuId FROM \"%w\" WHERE cudaId IS %lld AND pid IS %lld), %lld)",
                            map, device, process, device);
    else
        sqlite3_str_appendf(query, "%lld", device);
    sqlite3_str_appendall(query, " LIMIT 1");
    return each_row(nsys, table, sqlite3_str_finish(query), take_device);
}

static void take_rank(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const int64_t rank = number_or(row, 0, -1);
    if (rank >= 0 && rank <= INT32_MAX) aorta_trace_builder_head(nsys->builder)->rank = (int32_t)rank;
}

static void take_base(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    int64_t base_ns;
    if (aorta_sqlite_number(row, 0, &base_ns) && aorta_trace_times_fit(base_ns, base_ns))
        aorta_trace_builder_head(nsys->builder)->base_ns = base_ns;
}

static aorta_status read_head(struct nsys *nsys) {
    static const char ranks[] = "MPI_RANKS", session[] = "TARGET_INFO_SESSION_START_TIME";
    struct aorta_sqlite *file = nsys->file;
    if (!nsys->target.shared && aorta_sqlite_has_column(file, ranks, "", "globalTid") &&
        aorta_sqlite_has_column(file, ranks, "", "rank"))
        AORTA_TRY(each_row(nsys, ranks,
                           sqlite3_mprintf("SELECT rank FROM MPI_RANKS WHERE (globalTid >> 24) IS %lld LIMIT 1",
                                           (long long)nsys->target.process),
                           take_rank));
    if (!aorta_sqlite_has_column(file, session, "", "utcEpochNs")) return NULL;
    return each_row(nsys, session, sqlite3_mprintf("SELECT utcEpochNs FROM \"%w\" LIMIT 1", session), take_base);
}

/* ---- one trace ---- */

static aorta_status fill(struct nsys *nsys) {
    aorta_trace_builder_head(nsys->builder)->process = nsys->target.process < 0 ? -1 : nsys->target.process & 0xffffff;
    AORTA_TRY(read_head(nsys));
    AORTA_TRY(read_work(nsys));
    AORTA_TRY(read_calls(nsys));
    AORTA_TRY(read_waits(nsys));
    AORTA_TRY(read_ranges(nsys));
    AORTA_TRY(read_threads(nsys));
    return read_device(nsys);
}

static aorta_status no_memory(const struct nsys *nsys) {
    return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its records", nsys->file->path);
}

static aorta_status read_target(struct nsys *nsys, struct target target, struct aorta_trace_list *list) {
    struct aorta_trace *trace;
    nsys->target = target;
    AORTA_TRY(aorta_trace_builder_create(AORTA_TRACE_NSYS, nsys->file->path, nsys->file->options, &nsys->builder));
    aorta_status status = fill(nsys);
    if (!status && nsys->failed) status = no_memory(nsys);
    if (status) {
        aorta_trace_builder_destroy(nsys->builder);
        return status;
    }
    AORTA_TRY(aorta_trace_builder_finish(nsys->builder, &trace));
    return aorta_trace_list_add(list, trace);
}

/* ---- the file ---- */

static void take_target(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const struct target target = {number_or(row, 0, -1), number_or(row, 1, -1), false};
    if (!aorta_array_fit(&nsys->targets, &nsys->target_capacity, nsys->target_count + 1, sizeof *nsys->targets))
        nsys->failed = true;
    else
        nsys->targets[nsys->target_count++] = target;
}

static aorta_status find_targets(struct nsys *nsys) {
    sqlite3_str *query = sqlite3_str_new(nsys->file->handle);
    const char *word = "";
    for (size_t i = 0; i < TABLES; i++) {
        if (!aorta_sqlite_has_table(nsys->file, tables[i].name, "")) continue;
        sqlite3_str_appendf(query, "%sSELECT DISTINCT ", word);
        append_number(nsys, query, tables[i].name, "globalPid", " >> 24");
        sqlite3_str_appendall(query, ", ");
        append_number(nsys, query, tables[i].name, "deviceId", "");
        sqlite3_str_appendf(query, " FROM \"%w\" M", tables[i].name);
        word = " UNION ";
    }
    if (!*word) sqlite3_str_appendall(query, "SELECT 0, 0 WHERE 0");
    sqlite3_str_appendall(query, " ORDER BY 1, 2");
    AORTA_TRY(each_row(nsys, "CUPTI_ACTIVITY_KIND_KERNEL", sqlite3_str_finish(query), take_target));
    return nsys->failed ? no_memory(nsys) : NULL;
}

/* Each trace walks the tables, so the number of traces has a limit. */
static aorta_status check_targets(const struct nsys *nsys) {
    enum { MOST = 1024 };
    const char *path = nsys->file->path;
    if (!nsys->target_count)
        return AORTA_ERROR(AORTA_FORMAT,
                           "%s: an export of Nsight Systems without work of a GPU: record with `nsys profile "
                           "--trace=cuda,nvtx`",
                           path);
    if (nsys->target_count > MOST)
        return AORTA_ERROR(AORTA_FORMAT, "%s: work of %zu devices of processes; at most %d are read", path,
                           nsys->target_count, MOST);
    for (size_t i = 0; i < nsys->target_count; i++)
        if (nsys->targets[i].device < -1 || nsys->targets[i].device > INT32_MAX)
            return AORTA_ERROR(AORTA_FORMAT, "%s: work of a device %" PRId64 ", which is no device's number", path,
                               nsys->targets[i].device);
    return NULL;
}

static aorta_status read_targets(struct nsys *nsys, struct aorta_trace_list *list) {
    const size_t before = list->count;
    AORTA_TRY(find_targets(nsys));
    AORTA_TRY(check_targets(nsys));
    for (size_t i = 0; i < nsys->target_count; i++) {
        struct target *target = &nsys->targets[i];
        target->shared = (i && target[-1].process == target->process) ||
                         (i + 1 < nsys->target_count && target[1].process == target->process);
        AORTA_TRY(read_target(nsys, *target, list));
    }
    list->items[before]->bytes_read = nsys->file->bytes;
    return NULL;
}

aorta_status aorta_trace_read_nsys(struct aorta_sqlite *db, struct aorta_trace_list *list) {
    struct nsys nsys = {.file = db};
    aorta_status status = read_targets(&nsys, list);
    free(nsys.targets);
    free(nsys.events);
    return status;
}
