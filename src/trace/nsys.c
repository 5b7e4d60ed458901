/* Reads the database that `nsys export --type sqlite` makes of a report: tables of CUPTI's records, with names in
 * StringIds. Each device of each process becomes a trace; each table is read once for all traces.
 *
 * Source: Nsight Systems User Guide, "SQLite Schema Reference" (2021.5 to 2025.3). Empty tables are absent, and columns
 * depend on the version, so both are looked up. Numbers of processes and threads are combined:
 * globalPid = (host, VM, process) << 24, globalTid = globalPid | thread. Times are ns since the session's start. */
#include "base/sort.h"
#include "trace/sqlite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A device of a process, whose work becomes a trace. Sorted by process and device. */
struct target {
    int64_t process; /* with host and VM: globalPid >> 24; -1: not known */
    int64_t device;  /* CUDA's number in the process; -1: not known */
    bool shared;     /* the process has work on another device, too */
    struct aorta_trace_builder *builder;
};

/* A launch whose work ran on this target, if its process has several targets. Sorted. */
struct launch {
    int64_t process, correlation;
    const struct target *target;
};

/* The recording of an event. Sorted. */
struct event {
    const struct target *target;
    int64_t context, event, correlation, stream;
};

struct gpu {
    struct aorta_trace_device facts;
    const char *name; /* NULL: not in the file */
};

/* The number of a GPU within a process. */
struct called {
    int64_t process, number, gpu;
};

struct nsys {
    struct aorta_sqlite *file;
    struct aorta_sqlite_texts texts;
    struct target *targets;
    size_t target_count, target_capacity;
    struct launch *launches;
    size_t launch_count, launch_capacity;
    struct event *events;
    size_t event_count, event_capacity;
    struct gpu *gpus;
    size_t gpu_count, gpu_capacity;
    struct called *called;
    size_t called_count, called_capacity;
    int64_t copies;            /* of host rows, for devices beyond the first 64 of a process */
    const struct table *table; /* being read */
    struct aorta_arena arena;  /* of all arrays and texts */
};

/* The text with the number in a column; NULL if there is none. */
static const char *numbered_text(const struct nsys *nsys, sqlite3_stmt *row, int column) {
    int64_t number;
    return aorta_sqlite_number(row, column, &number) ? aorta_sqlite_find_text(&nsys->texts, number) : NULL;
}

static uint32_t text_of(const struct target *target, const char *text) {
    return aorta_trace_builder_text(target->builder, text, strlen(text));
}

static uint32_t thread_of(const struct target *target, int64_t global) {
    const uint64_t number = (uint64_t)global;
    return aorta_trace_builder_thread(target->builder, (int64_t)(number >> 24 & 0xffffff),
                                      (int64_t)(number & 0xffffff));
}

static void warn(const struct target *target, enum aorta_trace_reason reason) {
    aorta_trace_builder_warn(target->builder, reason, -1);
}

/* The process in a globalPid or globalTid; -1: not known. */
static int64_t process_of(sqlite3_stmt *row, int column) {
    int64_t global;
    return aorta_sqlite_number(row, column, &global) ? global >> 24 : -1;
}

/* ---- targets ---- */

enum { ROW_PROCESS, ROW_DEVICE, ROW_FIRST }; /* columns of device work: ROW_FIRST is the first after these */

static AORTA_ORDER(by_launch, struct launch, AORTA_UP(process) AORTA_UP(correlation) AORTA_UP(target));

/* NULL if the row belongs to no target. */
static struct target *target_of(const struct nsys *nsys, sqlite3_stmt *row) {
    const struct target key = {.process = process_of(row, ROW_PROCESS),
                               .device = aorta_sqlite_number_or(row, ROW_DEVICE, -1)};
    return nsys->target_count ? bsearch(&key, nsys->targets, nsys->target_count, sizeof key, aorta_by_int64_pair)
                              : NULL;
}

enum { DEVICES = 64, MOST_COPIES = 1 << 20 };

/* Whether too many copies were made of host rows for more devices than a process usually has. */
static bool is_too_much(struct nsys *nsys, size_t device) {
    if (device >= DEVICES) nsys->copies++;
    return nsys->copies > MOST_COPIES;
}

typedef void add_row(struct nsys *nsys, const struct target *target, sqlite3_stmt *row);

/* Adds a row of the host to all devices of its process, or to all devices if the process is unknown. */
static void add_to_process(struct nsys *nsys, int64_t process, sqlite3_stmt *row, add_row *add) {
    const struct target key = {.process = process, .device = INT64_MIN};
    const size_t first =
        process == -1 ? 0 : aorta_count_below(nsys->targets, nsys->target_count, sizeof key, &key, aorta_by_int64_pair);
    for (size_t i = first; i < nsys->target_count && !is_too_much(nsys, i - first); i++) {
        if (process != -1 && nsys->targets[i].process != process) return;
        add(nsys, &nsys->targets[i], row);
    }
}

/* ---- device work ---- */

enum {
    START = ROW_FIRST,
    END,
    NAME,
    SHORT_NAME,
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
};
static const char *const work_columns[] = {
    "globalPid", "deviceId",      "start", "end",         "demangledName", "shortName", "contextId",
    "streamId",  "correlationId", "bytes", "graphNodeId", "copyKind",      "srcKind",   "dstKind",
    "gridX",     "gridY",         "gridZ", "blockX",      "blockY",        "blockZ",    "graphId"};

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

/* The name as in PyTorch's traces. Kinds: ENUM_CUDA_MEM_KIND. */
static uint32_t copy_name(const struct target *target, sqlite3_stmt *row) {
    static const char *const kinds[] = {"Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed"};
    enum { KINDS = sizeof kinds / sizeof *kinds, UNIFIED = 11 /* the first of ENUM_CUDA_MEMCPY_OPER's migrations */ };
    const int64_t kind = aorta_sqlite_number_or(row, COPY, 0);
    const char *way = aorta_copy_name(kind);
    const int64_t from = aorta_sqlite_number_or(row, SOURCE, -1), to = aorta_sqlite_number_or(row, DESTINATION, -1);
    char name[64];
    if (kind >= UNIFIED) {
        snprintf(name, sizeof name, "%s (Unified memory)", way);
        return text_of(target, name);
    }
    if (from < 0 || from >= KINDS || to < 0 || to >= KINDS) return text_of(target, way);
    snprintf(name, sizeof name, "%s (%s -> %s)", way, kinds[from], kinds[to]);
    return text_of(target, name);
}

static uint32_t work_name(const struct nsys *nsys, const struct target *target, sqlite3_stmt *row) {
    const struct table *table = nsys->table;
    char graph[48];
    if (table->kind == AORTA_TRACE_COPY) return copy_name(target, row);
    if (table->kind == AORTA_TRACE_FILL) return text_of(target, "Memset");
    if (table->graph) {
        snprintf(graph, sizeof graph, "%s%lld", AORTA_WHOLE_GRAPH, (long long)aorta_sqlite_number_or(row, GRAPH, -1));
        warn(target, AORTA_REASON_WHOLE_GRAPH);
        return text_of(target, graph);
    }
    const char *name = numbered_text(nsys, row, NAME);
    if (!name) name = numbered_text(nsys, row, SHORT_NAME);
    if (!name) warn(target, AORTA_REASON_UNKNOWN_NAME);
    return text_of(target, name ? name : "(unknown)");
}

static void add_work(struct nsys *nsys, const struct target *target, sqlite3_stmt *row, int64_t start_ns,
                     int64_t end_ns) {
    const int64_t correlation = aorta_sqlite_number_or(row, CORRELATION, 0),
                  bytes = aorta_sqlite_number_or(row, BYTES, -1);
    int64_t blocks[3], threads[3];
    const struct aorta_trace_work work = {
        .start_ns = start_ns,
        .end_ns = end_ns,
        .bytes = nsys->table->kind == AORTA_TRACE_KERNEL || bytes < 0 ? -1 : bytes,
        .correlation = correlation > 0 ? (uint64_t)correlation : 0,
        .name = work_name(nsys, target, row),
        .stream = aorta_trace_builder_stream(target->builder, target->device, aorta_sqlite_number_or(row, CONTEXT, -1),
                                             aorta_sqlite_number_or(row, STREAM, -1)),
        .queue = AORTA_TRACE_NONE,
        .device = (int32_t)target->device,
        .kind = (uint8_t)nsys->table->kind,
        .graph = nsys->table->graph || aorta_sqlite_number_or(row, NODE, 0) > 0,
    };
    aorta_trace_builder_work(target->builder, &work, -1, NULL, -1);
    if (work.kind != AORTA_TRACE_KERNEL || nsys->table->graph) return;
    for (int i = 0; i < 3; i++) {
        blocks[i] = aorta_sqlite_number_or(row, GRID + i, -1);
        threads[i] = aorta_sqlite_number_or(row, BLOCK + i, -1);
    }
    aorta_trace_builder_geometry(target->builder, blocks, threads);
}

static void take_work(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const struct target *target = target_of(nsys, row);
    struct launch launch = {.target = target};
    int64_t start_ns, end_ns;
    if (!target) return;
    launch.process = target->process;
    aorta_trace_builder_head(target->builder)->events++;
    if (target->shared && aorta_sqlite_number(row, CORRELATION, &launch.correlation))
        aorta_arena_append(&nsys->arena, &nsys->launches, &nsys->launch_capacity, &nsys->launch_count, &launch,
                           sizeof launch);
    if (!aorta_sqlite_number(row, START, &start_ns) || !aorta_sqlite_number(row, END, &end_ns) ||
        !aorta_trace_times_fit(start_ns, end_ns)) {
        warn(target, AORTA_REASON_BAD_EVENT);
        return;
    }
    add_work(nsys, target, row, start_ns, end_ns);
}

static aorta_status read_work(struct nsys *nsys) {
    const int columns = sizeof work_columns / sizeof *work_columns;
    for (nsys->table = tables; nsys->table < tables + TABLES; nsys->table++)
        AORTA_TRY(aorta_sqlite_each(nsys->file, nsys->table->name, "", work_columns, columns, take_work, nsys));
    nsys->launch_count = aorta_sort_unique(nsys->launches, nsys->launch_count, sizeof *nsys->launches, by_launch);
    return NULL;
}

/* ---- waits ---- */

static void take_event(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const struct target *target = target_of(nsys, row);
    struct event event;
    if (!target || !aorta_sqlite_number(row, ROW_FIRST, &event.context) ||
        !aorta_sqlite_number(row, ROW_FIRST + 1, &event.event) ||
        !aorta_sqlite_number(row, ROW_FIRST + 2, &event.correlation) ||
        !aorta_sqlite_number(row, ROW_FIRST + 3, &event.stream))
        return;
    event.target = target;
    aorta_arena_append(&nsys->arena, &nsys->events, &nsys->event_capacity, &nsys->event_count, &event, sizeof event);
}

static AORTA_ORDER(by_event, struct event, AORTA_UP(target) AORTA_UP(context) AORTA_UP(event) AORTA_UP(correlation));

/* The last recording of the event before this call; NULL if it is not in the file. */
static const struct event *recorded_before(const struct nsys *nsys, const struct target *target, int64_t context,
                                           int64_t event, int64_t correlation) {
    const struct event key = {target, context, event, correlation, 0};
    const size_t low = aorta_count_below(nsys->events, nsys->event_count, sizeof key, &key, by_event);
    const struct event *found = low ? &nsys->events[low - 1] : NULL;
    return found && found->target == target && found->context == context && found->event == event ? found : NULL;
}

/* ENUM_CUPTI_SYNC_TYPE. A wait for a whole context adds nothing to its call. */
enum { SYNC_EVENT = 1, SYNC_STREAM_EVENT = 2, SYNC_STREAM = 3 };
enum { WAIT_START = ROW_FIRST, WAIT_CONTEXT, WAIT_STREAM, WAIT_CORRELATION, WAIT_TYPE, WAIT_EVENT };

static void take_wait(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const struct target *target = target_of(nsys, row);
    const int64_t where = aorta_sqlite_number_or(row, WAIT_CONTEXT, -1),
                  stream = aorta_sqlite_number_or(row, WAIT_STREAM, -1),
                  correlation = aorta_sqlite_number_or(row, WAIT_CORRELATION, -1),
                  type = aorta_sqlite_number_or(row, WAIT_TYPE, 0);
    struct aorta_trace_wait_facts facts = {.correlation = (uint64_t)correlation, .stream = AORTA_TRACE_NONE};
    if (!target || !aorta_sqlite_number(row, WAIT_START, &facts.start_ns) ||
        !aorta_trace_times_fit(facts.start_ns, facts.start_ns))
        return;
    if (correlation <= 0 || type < SYNC_EVENT || type > SYNC_STREAM) return;
    if (type == SYNC_STREAM) {
        facts.on = aorta_trace_builder_stream(target->builder, target->device, where, stream);
    } else {
        const struct event *event =
            recorded_before(nsys, target, where, aorta_sqlite_number_or(row, WAIT_EVENT, -1), correlation);
        if (!event || event->correlation <= 0) return;
        facts.record_correlation = (uint64_t)event->correlation;
        facts.on = aorta_trace_builder_stream(target->builder, target->device, where, event->stream);
        if (type == SYNC_STREAM_EVENT)
            facts.stream = aorta_trace_builder_stream(target->builder, target->device, where, stream);
    }
    aorta_trace_builder_wait(target->builder, &facts);
}

/* ---- the host: calls of CUDA, ranges of NVTX, names of threads ---- */

/* "cudaLaunchKernel_v7000": the length without the version. */
static size_t call_length(const char *name) {
    for (const char *version = name; (version = strstr(version, "_v")); version++) {
        const size_t digits = strspn(version + 2, "0123456789");
        if (digits >= 4 && !version[2 + digits]) return (size_t)(version - name);
    }
    return strlen(name);
}

enum {
    HOST_THREAD,
    HOST_START,
    HOST_END,
    HOST_NAME,
    HOST_CORRELATION,
    HOST_RESULT,
    RANGE_TYPE = HOST_CORRELATION,
    RANGE_TEXT
};

static bool read_times(sqlite3_stmt *row, int64_t *start_ns, int64_t *end_ns) {
    return aorta_sqlite_number(row, HOST_START, start_ns) && aorta_sqlite_number(row, HOST_END, end_ns) &&
           aorta_trace_times_fit(*start_ns, *end_ns) && *end_ns >= *start_ns;
}

/* "failed calls: cudaFree (cudaErrorIllegalAddress)", and more while the line is short. */
static void name_failed(const struct target *target, const char *call, int64_t result) {
    enum { LONG = 100 };
    struct aorta_trace *head = aorta_trace_builder_head(target->builder);
    const char *before = head->warnings[AORTA_REASON_FAILED].words;
    char one[80], all[LONG + sizeof one + 16];
    snprintf(one, sizeof one, "%s (%s)", call, aorta_cuda_error(result).text);
    warn(target, AORTA_REASON_FAILED);
    if (before && (strlen(before) > LONG || strstr(before, one))) return;
    snprintf(all, sizeof all, "%s%s%s", before ? before : "failed calls: ", before ? ", " : "", one);
    head->warnings[AORTA_REASON_FAILED].words = aorta_trace_text(head, text_of(target, all));
}

/* A failed call has no work. Without its correlation, no work is reported as missing. */
static void mark_failed(const struct target *target, struct aorta_trace_call *call, int64_t result) {
    struct aorta_trace *head = aorta_trace_builder_head(target->builder);
    const char *name = aorta_trace_text(head, call->name);
    enum aorta_trace_call_kind kind;
    if (!result || !aorta_trace_call_classify(name, &kind) || !aorta_cuda_call_failed(result, kind)) return;
    call->correlation = 0;
    if (kind != AORTA_CALL_LAUNCH && kind != AORTA_CALL_GRAPH_LAUNCH) {
        name_failed(target, name, result);
        return;
    }
    warn(target, AORTA_REASON_FAILED_LAUNCH);
    if (!head->coverage.failed++) head->coverage.error = result;
}

static void add_call(struct nsys *nsys, const struct target *target, sqlite3_stmt *row) {
    const char *name = numbered_text(nsys, row, HOST_NAME);
    struct aorta_trace_call call = {0};
    aorta_trace_builder_head(target->builder)->events++;
    if (!name || !read_times(row, &call.start_ns, &call.end_ns)) {
        warn(target, AORTA_REASON_ODD_VALUE);
        return;
    }
    const int64_t correlation = aorta_sqlite_number_or(row, HOST_CORRELATION, 0);
    call.correlation = correlation > 0 ? (uint64_t)correlation : 0;
    call.name = aorta_trace_builder_text(target->builder, name, call_length(name));
    call.thread = thread_of(target, aorta_sqlite_number_or(row, HOST_THREAD, 0));
    mark_failed(target, &call, aorta_sqlite_number_or(row, HOST_RESULT, 0));
    aorta_trace_builder_any_call(target->builder, &call);
}

/* In a process with several devices, a launch belongs to the devices of its work. */
static void take_call(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const struct launch key = {process_of(row, HOST_THREAD), aorta_sqlite_number_or(row, HOST_CORRELATION, -1), NULL};
    const size_t first = aorta_count_below(nsys->launches, nsys->launch_count, sizeof key, &key, by_launch);
    size_t last = first;
    while (last < nsys->launch_count && nsys->launches[last].process == key.process &&
           nsys->launches[last].correlation == key.correlation && !is_too_much(nsys, last - first))
        add_call(nsys, nsys->launches[last++].target, row);
    if (last == first) add_to_process(nsys, key.process, row, add_call);
}

/* Calls of the operating system, of which short ones block nothing. */
static void add_system_call(struct nsys *nsys, const struct target *target, sqlite3_stmt *row) {
    enum { SHORT_NS = 10000 };
    const char *name = numbered_text(nsys, row, HOST_NAME);
    struct aorta_trace_annotation call = {0};
    if (!name || !read_times(row, &call.start_ns, &call.end_ns) || call.end_ns - call.start_ns < SHORT_NS) return;
    call.name = text_of(target, name);
    call.thread = thread_of(target, aorta_sqlite_number_or(row, HOST_THREAD, 0));
    aorta_trace_builder_frame(target->builder, &call, AORTA_FRAME_SYSTEM);
}

static void take_system_call(void *context, sqlite3_stmt *row) {
    add_to_process(context, process_of(row, HOST_THREAD), row, add_system_call);
}

/* Types of ranges; rows of other types are marks, domains and categories. */
enum { PUSH_POP = 59, START_END = 60 };

static void add_range(struct nsys *nsys, const struct target *target, sqlite3_stmt *row) {
    const char *own = aorta_sqlite_text(row, RANGE_TEXT), *name = own ? own : numbered_text(nsys, row, HOST_NAME);
    const int64_t type = aorta_sqlite_number_or(row, RANGE_TYPE, PUSH_POP);
    struct aorta_trace_annotation range = {0};
    aorta_trace_builder_head(target->builder)->events++;
    if (type != PUSH_POP && type != START_END) return;
    if (!name || !*name || !aorta_sqlite_number(row, HOST_END, &range.end_ns)) return; /* no name, or still open */
    if (!read_times(row, &range.start_ns, &range.end_ns)) {
        warn(target, AORTA_REASON_ODD_VALUE);
        return;
    }
    range.thread = thread_of(target, aorta_sqlite_number_or(row, HOST_THREAD, 0));
    aorta_trace_builder_marked(target->builder, name, range);
}

static void take_range(void *context, sqlite3_stmt *row) {
    add_to_process(context, process_of(row, HOST_THREAD), row, add_range);
}

static void add_thread(struct nsys *nsys, const struct target *target, sqlite3_stmt *row) {
    const char *name = numbered_text(nsys, row, 1);
    int64_t thread;
    if (name && aorta_sqlite_number(row, HOST_THREAD, &thread))
        aorta_trace_builder_thread_name(target->builder, thread_of(target, thread), text_of(target, name));
}

static void take_thread(void *context, sqlite3_stmt *row) {
    add_to_process(context, process_of(row, HOST_THREAD), row, add_thread);
}

/* ---- devices, ranks, the start ---- */

/* -1 if it is below `least` or out of range. */
static int32_t small(sqlite3_stmt *row, int column, int64_t least) {
    const int64_t number = aorta_sqlite_number_or(row, column, -1);
    return number >= least && number <= INT32_MAX ? (int32_t)number : -1;
}

/* The last column is the former name of the number in TARGET_INFO_GPU, or the process in TARGET_INFO_CUDA_GPU. */
enum { GPU_NUMBER, GPU_NAME, GPU_BYTES, GPU_UNITS, GPU_MAJOR, GPU_MINOR, GPU_FORMER, GPU_PROCESS = GPU_FORMER };

static void add_gpu(struct nsys *nsys, sqlite3_stmt *row, int64_t id) {
    enum { MOST_MEGABYTES = 1 << 24 }; /* some old exports count in MiB */
    const char *name = aorta_sqlite_text(row, GPU_NAME);
    const int64_t bytes = aorta_sqlite_number_or(row, GPU_BYTES, -1);
    const struct gpu gpu = {.name = name ? aorta_arena_strdup(&nsys->arena, name) : NULL,
                            .facts = {.id = id,
                                      .memory_bytes = bytes > 0 && bytes < MOST_MEGABYTES ? bytes << 20 : bytes,
                                      .multiprocessors = small(row, GPU_UNITS, 1),
                                      .major = small(row, GPU_MAJOR, 1),
                                      .minor = small(row, GPU_MINOR, 0)}};
    aorta_arena_append(&nsys->arena, &nsys->gpus, &nsys->gpu_capacity, &nsys->gpu_count, &gpu, sizeof gpu);
}

static void take_gpu(void *context, sqlite3_stmt *row) {
    int64_t id;
    if (aorta_sqlite_number(row, GPU_NUMBER, &id) || aorta_sqlite_number(row, GPU_FORMER, &id))
        add_gpu(context, row, id);
}

static void add_called(struct nsys *nsys, const struct called *called) {
    aorta_arena_append(&nsys->arena, &nsys->called, &nsys->called_capacity, &nsys->called_count, called,
                       sizeof *called);
}

/* Old exports list the GPUs of each process without a global number. Numbers below 0 are unused elsewhere. */
static void take_gpu_of_process(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    struct called called = {.gpu = -1 - (int64_t)nsys->gpu_count};
    if (!aorta_sqlite_number(row, GPU_PROCESS, &called.process) ||
        !aorta_sqlite_number(row, GPU_NUMBER, &called.number))
        return;
    add_gpu(nsys, row, called.gpu);
    add_called(nsys, &called);
}

static void take_called(void *context, sqlite3_stmt *row) {
    struct called called;
    if (aorta_sqlite_number(row, 0, &called.process) && aorta_sqlite_number(row, 1, &called.number) &&
        aorta_sqlite_number(row, 2, &called.gpu))
        add_called(context, &called);
}

/* TARGET_INFO_CUDA_DEVICE maps a process's number to a GPU; without it the numbers are equal. */
static void add_device(const struct nsys *nsys, const struct target *target) {
    const struct called key = {target->process & 0xffffff, target->device, 0};
    const struct called *called =
        nsys->called_count ? bsearch(&key, nsys->called, nsys->called_count, sizeof key, aorta_by_int64_pair) : NULL;
    const int64_t id = called ? called->gpu : target->device;
    const size_t at = aorta_count_before(nsys->gpus, nsys->gpu_count, sizeof *nsys->gpus, 0, id);
    if (at == nsys->gpu_count || nsys->gpus[at].facts.id != id) return;
    struct aorta_trace_device device = nsys->gpus[at].facts;
    device.id = target->device;
    device.name = nsys->gpus[at].name ? text_of(target, nsys->gpus[at].name) : AORTA_TRACE_NONE;
    aorta_trace_builder_device(target->builder, &device);
}

/* The first rank of a process counts. */
static void add_rank(struct nsys *nsys, const struct target *target, sqlite3_stmt *row) {
    (void)nsys;
    struct aorta_trace *head = aorta_trace_builder_head(target->builder);
    if (head->rank < 0 && !target->shared) head->rank = small(row, 1, 0);
}

static void take_rank(void *context, sqlite3_stmt *row) {
    const int64_t process = process_of(row, 0);
    if (process != -1) add_to_process(context, process, row, add_rank);
}

static void take_base(void *context, sqlite3_stmt *row) {
    const struct nsys *nsys = context;
    int64_t base_ns;
    if (!aorta_sqlite_number(row, 0, &base_ns) || !aorta_trace_times_fit(base_ns, base_ns)) return;
    for (size_t i = 0; i < nsys->target_count; i++) {
        struct aorta_trace *head = aorta_trace_builder_head(nsys->targets[i].builder);
        if (head->base_ns == INT64_MIN) head->base_ns = base_ns;
    }
}

/* ---- the tables ---- */

struct query {
    const char *table;
    void (*take)(void *context, sqlite3_stmt *row);
    const char *columns[9]; /* NULL after the last */
};

#define RANGES "globalTid", "start", "end", "textId", "eventType", "text"
/* Facts that work and calls refer to. */
static const struct query facts[] = {
    {"MPI_RANKS", take_rank, {"globalTid", "rank"}},
    {"TARGET_INFO_SESSION_START_TIME", take_base, {"utcEpochNs"}},
    {"CUPTI_ACTIVITY_KIND_CUDA_EVENT",
     take_event,
     {"globalPid", "deviceId", "contextId", "eventId", "correlationId", "streamId"}},
    {"TARGET_INFO_GPU", take_gpu, {"id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor", "deviceId"}},
    {"TARGET_INFO_CUDA_GPU",
     take_gpu_of_process,
     {"deviceId", "name", "globalMemorySize", "numMultiprocessors", "computeCapabilityMajor", "computeCapabilityMinor",
      "pid"}},
    {"TARGET_INFO_CUDA_DEVICE", take_called, {"pid", "cudaId", "gpuId"}},
};
/* The host's tables are read after the work. MPI: --trace=mpi. */
static const struct query of_host[] = {
    {"CUPTI_ACTIVITY_KIND_RUNTIME", take_call, {"globalTid", "start", "end", "nameId", "correlationId", "returnValue"}},
    {"OSRT_API", take_system_call, {"globalTid", "start", "end", "nameId"}},
    {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
     take_wait,
     {"globalPid", "deviceId", "start", "contextId", "streamId", "correlationId", "syncType", "eventId"}},
    {"NVTX_EVENTS", take_range, {RANGES}},
    {"MPI_P2P_EVENTS", take_range, {RANGES}},
    {"MPI_COLLECTIVES_EVENTS", take_range, {RANGES}},
    {"MPI_START_WAIT_EVENTS", take_range, {RANGES}},
    {"MPI_OTHER_EVENTS", take_range, {RANGES}},
    {"ThreadNames", take_thread, {"globalTid", "nameId"}},
};
#undef RANGES

static aorta_status ask(struct nsys *nsys, const struct query *queries, size_t count) {
    for (; count; count--, queries++) {
        int columns = 0;
        while (queries->columns[columns]) columns++;
        AORTA_TRY(aorta_sqlite_each(nsys->file, queries->table, "", queries->columns, columns, queries->take, nsys));
    }
    return NULL;
}

/* ---- the file ---- */

static void take_target(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const struct target target = {.process = process_of(row, ROW_PROCESS),
                                  .device = aorta_sqlite_number_or(row, ROW_DEVICE, -1)};
    if (nsys->target_count && !aorta_by_int64_pair(&nsys->targets[nsys->target_count - 1], &target)) return;
    aorta_arena_append(&nsys->arena, &nsys->targets, &nsys->target_capacity, &nsys->target_count, &target,
                       sizeof target);
}

static aorta_status no_memory(const struct nsys *nsys) {
    return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its records", nsys->file->path);
}

static aorta_status find_targets(struct nsys *nsys) {
    static const char *const columns[] = {"globalPid", "deviceId"};
    for (size_t i = 0; i < TABLES; i++)
        AORTA_TRY(aorta_sqlite_each(nsys->file, tables[i].name, "", columns, 2, take_target, nsys));
    if (nsys->arena.failed) return no_memory(nsys);
    struct target *targets = nsys->targets;
    nsys->target_count = aorta_sort_unique(targets, nsys->target_count, sizeof *targets, aorta_by_int64_pair);
    for (size_t i = 1; i < nsys->target_count; i++)
        if (targets[i].process == targets[i - 1].process) targets[i - 1].shared = targets[i].shared = true;
    return NULL;
}

/* The number of traces is limited, as a row of a few bytes can make one. */
static aorta_status check_targets(const struct nsys *nsys) {
    enum { MOST = 4096 };
    const char *path = nsys->file->path;
    if (!nsys->target_count) return aorta_nsys_without_work(nsys->file);
    if (nsys->target_count > MOST)
        return AORTA_ERROR(AORTA_FORMAT, "%s: work of %zu devices of processes; at most %d are read", path,
                           nsys->target_count, MOST);
    for (size_t i = 0; i < nsys->target_count; i++)
        if (nsys->targets[i].device < -1 || nsys->targets[i].device > INT32_MAX)
            return AORTA_ERROR(AORTA_FORMAT, "%s: work of a device %" PRId64 ", which is no device's number", path,
                               nsys->targets[i].device);
    return NULL;
}

static aorta_status create_builders(struct nsys *nsys) {
    AORTA_EACH (struct target, target, nsys->targets, nsys->target_count) {
        AORTA_TRY(
            aorta_trace_builder_create(AORTA_TRACE_NSYS, nsys->file->path, nsys->file->options, &target->builder));
        aorta_trace_builder_head(target->builder)->process = target->process < 0 ? -1 : target->process & 0xffffff;
    }
    return NULL;
}

static aorta_status fill(struct nsys *nsys) {
    AORTA_TRY(ask(nsys, facts, sizeof facts / sizeof *facts));
    aorta_sort_rows(nsys->events, nsys->event_count, sizeof *nsys->events, by_event);
    aorta_sort_rows(nsys->gpus, nsys->gpu_count, sizeof *nsys->gpus, aorta_by_int64);
    aorta_sort_rows(nsys->called, nsys->called_count, sizeof *nsys->called, aorta_by_int64_pair);
    AORTA_TRY(read_work(nsys));
    AORTA_TRY(ask(nsys, of_host, sizeof of_host / sizeof *of_host));
    for (size_t i = 0; i < nsys->target_count; i++) add_device(nsys, &nsys->targets[i]);
    if (nsys->copies > MOST_COPIES)
        return AORTA_ERROR(AORTA_FORMAT,
                           "%s: too many calls and ranges for work on so many devices: each of %zu would "
                           "get them; export fewer devices",
                           nsys->file->path, nsys->target_count);
    return nsys->arena.failed ? no_memory(nsys) : NULL;
}

static aorta_status finish(struct nsys *nsys, struct aorta_trace_list *list) {
    const size_t before = list->count;
    for (size_t i = 0; i < nsys->target_count; i++) {
        struct aorta_trace_builder *builder = nsys->targets[i].builder;
        nsys->targets[i].builder = NULL;
        AORTA_TRY(aorta_trace_builder_finish_into(builder, list));
    }
    list->items[before]->bytes_read = nsys->file->bytes;
    return NULL;
}

static aorta_status read_all(struct nsys *nsys, struct aorta_trace_list *list) {
    AORTA_TRY(find_targets(nsys));
    AORTA_TRY(check_targets(nsys));
    AORTA_TRY(aorta_sqlite_read_texts(nsys->file, "StringIds", "", "value", &nsys->texts));
    AORTA_TRY(create_builders(nsys));
    AORTA_TRY(fill(nsys));
    return finish(nsys, list);
}

aorta_status aorta_trace_read_nsys(struct aorta_sqlite *db, struct aorta_trace_list *list) {
    struct nsys nsys = {.file = db, .texts.arena = &nsys.arena};
    aorta_status status = read_all(&nsys, list);
    for (size_t i = 0; i < nsys.target_count; i++) aorta_trace_builder_destroy(nsys.targets[i].builder);
    aorta_arena_free(&nsys.arena);
    return status;
}
