/* The reader of Nsight Systems' exports while it reads: nsys.c reads the device's records, nsys_host.c the host's. */
#ifndef AORTA_TRACE_NSYS_INTERNAL_H
#define AORTA_TRACE_NSYS_INTERNAL_H

#include "trace/sqlite.h"

#include <string.h>

/* Whose work becomes a trace; by process and device. */
struct nsys_target {
    int64_t process; /* with host and VM: globalPid >> 24; -1: not known */
    int64_t device;  /* CUDA's number in the process; -1: not known */
    bool shared;     /* the process has work on another device, too */
    struct aorta_trace_builder *builder;
};

/* A launch whose work ran on this target, of a process with several; ascending. */
struct nsys_launch {
    int64_t process, correlation;
    size_t target;
};

struct nsys {
    struct aorta_sqlite *file;
    struct aorta_sqlite_texts texts;
    struct nsys_target *targets;
    size_t target_count, target_capacity;
    struct nsys_launch *launches;
    size_t launch_count, launch_capacity;
    struct event *events;
    size_t event_count, event_capacity;
    struct gpu *gpus;
    size_t gpu_count, gpu_capacity;
    struct called *called;
    size_t called_count, called_capacity;
    int64_t copies;            /* of host rows, beyond the first 64 devices of a process */
    bool failed;               /* memory ran out */
    const struct table *table; /* that is read */
};

enum { NSYS_MOST_COPIES = 1 << 20 };

int aorta_nsys_by_target(const void *left, const void *right); /* by process and device */
int aorta_nsys_by_launch(const void *left, const void *right); /* by process, correlation and target */

/* For every target of its process. */
AORTA_MUST_USE aorta_status aorta_nsys_read_calls(struct nsys *nsys); /* once the launches are sorted */
AORTA_MUST_USE aorta_status aorta_nsys_read_ranges(struct nsys *nsys);
AORTA_MUST_USE aorta_status aorta_nsys_read_threads(struct nsys *nsys);
typedef void nsys_add(struct nsys *nsys, const struct nsys_target *target, sqlite3_stmt *row);
void aorta_nsys_add_to_process(struct nsys *nsys, int64_t process, sqlite3_stmt *row, nsys_add *add);

/* ---- rows ---- */

#define NSYS_EACH(nsys, table, columns, take)                                                                          \
    aorta_sqlite_each((nsys)->file, table, "", columns, sizeof(columns) / sizeof *(columns), take, nsys)

/* The text whose number a column holds; NULL: none. */
static inline const char *nsys_numbered_text(const struct nsys *nsys, sqlite3_stmt *row, int column) {
    int64_t number;
    return aorta_sqlite_number(row, column, &number) ? aorta_sqlite_find_text(&nsys->texts, number) : NULL;
}

static inline uint32_t nsys_text_of(const struct nsys_target *target, const char *text) {
    return aorta_trace_builder_text(target->builder, text, strlen(text));
}

static inline uint32_t nsys_thread_of(const struct nsys_target *target, int64_t global) {
    const uint64_t number = (uint64_t)global;
    return aorta_trace_builder_thread(target->builder, (int64_t)(number >> 24 & 0xffffff),
                                      (int64_t)(number & 0xffffff));
}

static inline void nsys_warn(const struct nsys_target *target, enum aorta_trace_reason reason) {
    aorta_trace_builder_warn(target->builder, reason, -1);
}

/* The process in a globalPid or globalTid; -1: not known. */
static inline int64_t nsys_process_of(sqlite3_stmt *row, int column) {
    int64_t global;
    return aorta_sqlite_number(row, column, &global) ? global >> 24 : -1;
}

#endif
