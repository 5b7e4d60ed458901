/* Nsight Systems' records of the host: calls of CUDA, ranges of NVTX, names of threads. */
#include "base/sort.h"
#include "trace/nsys_internal.h"

#include <stdlib.h>
#include <string.h>

int aorta_nsys_by_target(const void *left, const void *right) {
    const struct nsys_target *a = left, *b = right;
    return a->process != b->process ? aorta_order_int64(a->process, b->process)
                                    : aorta_order_int64(a->device, b->device);
}

int aorta_nsys_by_launch(const void *left, const void *right) {
    const struct nsys_launch *a = left, *b = right;
    if (a->process != b->process) return aorta_order_int64(a->process, b->process);
    if (a->correlation != b->correlation) return aorta_order_int64(a->correlation, b->correlation);
    return (a->target > b->target) - (a->target < b->target);
}

/* Whether one row is for more devices than a process has, and that happened too often. */
static bool is_too_much(struct nsys *nsys, size_t device) {
    enum { DEVICES = 64 };
    if (device >= DEVICES) nsys->copies++;
    return nsys->copies > NSYS_MOST_COPIES;
}

/* A row of the host belongs to all devices of its process; where the process is not known, to all devices. */
void aorta_nsys_add_to_process(struct nsys *nsys, int64_t process, sqlite3_stmt *row, nsys_add *add) {
    const struct nsys_target key = {.process = process, .device = INT64_MIN};
    const size_t first =
        process == -1 ? 0
                      : aorta_count_below(nsys->targets, nsys->target_count, sizeof key, &key, aorta_nsys_by_target);
    for (size_t i = first; i < nsys->target_count && !is_too_much(nsys, i - first); i++) {
        if (process != -1 && nsys->targets[i].process != process) return;
        add(nsys, &nsys->targets[i], row);
    }
}

/* "cudaLaunchKernel_v7000": the version that follows is of no use here. */
static size_t call_length(const char *name) {
    const char *version = strstr(name, "_v");
    if (!version || strspn(version + 2, "0123456789") < 4) return strlen(name);
    return version[2 + strspn(version + 2, "0123456789")] ? strlen(name) : (size_t)(version - name);
}

enum { HOST_THREAD, HOST_START, HOST_END, HOST_NAME, HOST_CORRELATION, RANGE_TYPE = HOST_CORRELATION, RANGE_TEXT };

static void add_call(struct nsys *nsys, const struct nsys_target *target, sqlite3_stmt *row) {
    const char *name = nsys_numbered_text(nsys, row, HOST_NAME);
    struct aorta_trace_call call = {0};
    aorta_trace_builder_head(target->builder)->events++;
    if (!name || !aorta_sqlite_number(row, HOST_START, &call.start_ns) ||
        !aorta_sqlite_number(row, HOST_END, &call.end_ns) || !aorta_trace_times_fit(call.start_ns, call.end_ns) ||
        call.end_ns < call.start_ns) {
        nsys_warn(target, AORTA_REASON_ODD_VALUE);
        return;
    }
    const int64_t correlation = aorta_sqlite_number_or(row, HOST_CORRELATION, 0);
    call.correlation = correlation > 0 ? (uint64_t)correlation : 0;
    call.name = aorta_trace_builder_text(target->builder, name, call_length(name));
    call.thread = nsys_thread_of(target, aorta_sqlite_number_or(row, HOST_THREAD, 0));
    aorta_trace_builder_call(target->builder, &call);
}

/* In a process with several devices, a launch belongs to those whose work it launched. */
static void take_call(void *context, sqlite3_stmt *row) {
    struct nsys *nsys = context;
    const struct nsys_launch key = {nsys_process_of(row, HOST_THREAD),
                                    aorta_sqlite_number_or(row, HOST_CORRELATION, -1), 0};
    const size_t first = aorta_count_below(nsys->launches, nsys->launch_count, sizeof key, &key, aorta_nsys_by_launch);
    size_t last = first;
    while (last < nsys->launch_count && nsys->launches[last].process == key.process &&
           nsys->launches[last].correlation == key.correlation && !is_too_much(nsys, last - first))
        add_call(nsys, &nsys->targets[nsys->launches[last++].target], row);
    if (last == first) aorta_nsys_add_to_process(nsys, key.process, row, add_call);
}

aorta_status aorta_nsys_read_calls(struct nsys *nsys) {
    static const char *const columns[] = {"globalTid", "start", "end", "nameId", "correlationId"};
    return NSYS_EACH(nsys, "CUPTI_ACTIVITY_KIND_RUNTIME", columns, take_call);
}

/* Types of ranges; rows of other types are marks, domains and categories. */
enum { PUSH_POP = 59, START_END = 60 };

static void add_range(struct nsys *nsys, const struct nsys_target *target, sqlite3_stmt *row) {
    const char *own = aorta_sqlite_text(row, RANGE_TEXT), *name = own ? own : nsys_numbered_text(nsys, row, HOST_NAME);
    const int64_t type = aorta_sqlite_number_or(row, RANGE_TYPE, PUSH_POP);
    struct aorta_trace_annotation range = {0};
    aorta_trace_builder_head(target->builder)->events++;
    if (type != PUSH_POP && type != START_END) return;
    if (!name || !*name || !aorta_sqlite_number(row, HOST_END, &range.end_ns)) return; /* without a name, still open */
    if (!aorta_sqlite_number(row, HOST_START, &range.start_ns) ||
        !aorta_trace_times_fit(range.start_ns, range.end_ns) || range.end_ns < range.start_ns) {
        nsys_warn(target, AORTA_REASON_ODD_VALUE);
        return;
    }
    range.thread = nsys_thread_of(target, aorta_sqlite_number_or(row, HOST_THREAD, 0));
    aorta_trace_builder_marked(target->builder, name, range);
}

static void take_range(void *context, sqlite3_stmt *row) {
    aorta_nsys_add_to_process(context, nsys_process_of(row, HOST_THREAD), row, add_range);
}

aorta_status aorta_nsys_read_ranges(struct nsys *nsys) {
    static const char *const columns[] = {"globalTid", "start", "end", "textId", "eventType", "text"};
    static const char *const tables[] = {"NVTX_EVENTS", "MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS",
                                         "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"}; /* --trace=mpi */
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        AORTA_TRY(NSYS_EACH(nsys, tables[i], columns, take_range));
    return NULL;
}

static void add_thread(struct nsys *nsys, const struct nsys_target *target, sqlite3_stmt *row) {
    const char *name = nsys_numbered_text(nsys, row, 1);
    int64_t thread;
    if (name && aorta_sqlite_number(row, HOST_THREAD, &thread))
        aorta_trace_builder_thread_name(target->builder, nsys_thread_of(target, thread), nsys_text_of(target, name));
}

static void take_thread(void *context, sqlite3_stmt *row) {
    aorta_nsys_add_to_process(context, nsys_process_of(row, HOST_THREAD), row, add_thread);
}

aorta_status aorta_nsys_read_threads(struct nsys *nsys) {
    static const char *const columns[] = {"globalTid", "nameId"};
    return NSYS_EACH(nsys, "ThreadNames", columns, take_thread);
}
