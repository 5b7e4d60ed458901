/* What rocprof.c collects and rocprof_build.c makes traces of. */
#ifndef AORTA_TRACE_ROCPROF_INTERNAL_H
#define AORTA_TRACE_ROCPROF_INTERNAL_H

#include "base/intern.h"
#include "trace/open.h"
#include "trace/rocprof.h"

struct rocprof_work {
    int64_t start_ns, end_ns, correlation, stream, queue, bytes, kernel, agent, offset;
    const char *name;              /* NULL: of the kernel */
    int32_t blocks[3], threads[3]; /* of a dispatch; 0: not known */
    uint8_t kind;                  /* enum aorta_trace_kind */
};

/* Calls of the host, and markers. */
struct rocprof_call {
    int64_t start_ns, end_ns, correlation, thread;
    const char *name;        /* NULL: of the operation */
    int32_t kind, operation; /* -1: not known */
    uint8_t domain;          /* enum aorta_rocprof_domain */
};

struct rocprof_agent {
    int64_t key, device;
    const char *name;
    int32_t multiprocessors;
    bool gpu;
};

struct rocprof_name { /* of a kernel (a: id), an operation (kind, operation), a message (correlation) */
    int64_t a, b;
    const char *name;
};

/* A growing array. */
struct rocprof_rows {
    void *items;
    size_t count, capacity;
};

struct aorta_rocprof {
    enum aorta_trace_format format;
    char *path;
    const struct aorta_trace_options *options;
    int64_t process;
    int32_t rank, world;
    int64_t events;
    bool failed; /* memory ran out */
    struct rocprof_rows work, calls, agents, symbols, operations, messages;
    bool operations_sorted;
    int64_t first_dispatch, last_dispatch, dispatches; /* lowest and highest number; how many have one */
    struct rocprof_rows launched;                      /* bits: correlation ids of the work so far */
    struct aorta_intern strings;
    struct aorta_trace_warning warnings[AORTA_REASON_COUNT];
};

/* The name of an operation, NULL when there is none (yet). */
const char *aorta_rocprof_operation(struct aorta_rocprof *rocprof, int64_t kind, int64_t operation);

#endif
