/* The interface of a driver of one kind of device; device.c checks, counts and dispatches. Internal to src/device.
 *
 * A driver embeds the structs below as the first member of its own ones, and fills every member of the table. */
#ifndef AORTA_DEVICE_BACKEND_H
#define AORTA_DEVICE_BACKEND_H

#include "device/device.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aorta_memory;
struct aorta_attachment;

struct reach { /* zero-initialise; free `counts` */
    uint32_t *counts;
    size_t count;
};

struct aorta_device {
    const struct aorta_backend *backend;
    struct aorta_device_info info;
    struct aorta_memory *memory; /* set by device.c, like the attachments, which are newest first */
    struct aorta_attachment *attachments;
    pthread_mutex_t attachments_lock; /* recursive, as making an attachment may need another one */
    _Atomic(aorta_status) failure;    /* of the whole device; owned. This member and the next two are for watchdogs */
    _Atomic uint64_t calls_begun, calls_ended;
};

struct aorta_stream {
    struct aorta_device *device;
    struct capture_branch *branch; /* while captured */
    enum aorta_priority priority;
    char name[64];
    double share; /* of the multiprocessors, 0 if not limited; device.c sets it and `part` after the driver has limited
                     the stream */
    int part;
};

struct aorta_event {
    struct aorta_device *device;
    pthread_mutex_t lock;
    char recorded_on[64];          /* stream of the last record; empty: never recorded */
    struct capture_state *capture; /* the last record was made in it; holds a reference */
    struct reach reach;            /* capture: everything before that record */
};

struct aorta_graph {
    struct aorta_device *device;
    struct capture_state *capture; /* set by capture.c; holds a reference */
    size_t node_count;
};

struct aorta_prepared {
    struct aorta_stream *stream;
    const struct aorta_kernel *kernel;
    const void *args; /* a copy, freed by device.c */
    size_t bytes;
};

struct aorta_backend {
    enum aorta_device_kind kind;
    /* Fills backend and info. All other members are zero. */
    aorta_status (*open)(const struct aorta_backend *backend, int index, struct aorta_device **device);
    void (*close)(struct aorta_device *device);
    int64_t (*clock_error_ns)(struct aorta_device *device); /* NULL: none */

    /* System memory, not counted or cached (memory.c does that), aligned to 256 bytes. *memory is NULL without
     * a failure if no memory is left. */
    aorta_status (*memory_get)(struct aorta_device *device, size_t bytes, void **memory);
    void (*memory_put)(struct aorta_device *device, void *memory);
    aorta_status (*pinned_get)(struct aorta_device *device, size_t bytes, void **memory);
    void (*pinned_put)(struct aorta_device *device, void *memory, size_t bytes);
    uint64_t (*memory_free)(struct aorta_device *device); /* total bytes that memory_get could still return */

    aorta_status (*stream_create)(struct aorta_device *device, const char *name, enum aorta_priority priority,
                                  struct aorta_stream **stream);
    aorta_status (*stream_limit)(struct aorta_stream *stream, double share, int part);
    void (*stream_destroy)(struct aorta_stream *stream);
    aorta_status (*stream_synchronize)(struct aorta_stream *stream);

    aorta_status (*launch)(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                           size_t bytes);
    /* Both may be NULL: prepared launches are then plain ones. `prepare` fills what embeds the struct, whose members
     * are set already; device.c has allocated prepared_bytes and frees them. */
    size_t prepared_bytes;
    aorta_status (*prepare)(struct aorta_prepared *prepared);
    aorta_status (*launch_prepared)(struct aorta_prepared *const *items, size_t count);
    aorta_status (*host_call)(struct aorta_stream *stream, void (*function)(void *user), void *user);
    aorta_status (*copy)(struct aorta_stream *stream, void *to, const void *from, size_t bytes);
    aorta_status (*fill_bytes)(struct aorta_stream *stream, void *to, int value, size_t bytes);
    aorta_status (*timestamp)(struct aorta_stream *stream, int64_t *slot);

    /* device.c allocates events. A record, or a wait for a recorded event, may be in a capture. The event is locked
     * except while the host waits. The host only waits for or queries events recorded outside of captures. */
    size_t event_bytes;
    void (*event_end)(struct aorta_event *event);
    aorta_status (*event_record)(struct aorta_event *event, struct aorta_stream *stream);
    aorta_status (*stream_wait)(struct aorta_stream *stream, struct aorta_event *event);
    aorta_status (*event_synchronize)(struct aorta_event *event);
    bool (*event_done)(struct aorta_event *event);

    /* capture.c allocates captures and branches, which live until the graph and the events inside are gone. */
    size_t capture_bytes, branch_bytes;
    aorta_status (*capture_begin)(struct aorta_stream *stream); /* NULL: there is nothing to do */
    /* Called for the first branch. With a `failure` it makes no graph and returns the failure. */
    aorta_status (*capture_end)(struct aorta_stream *stream, aorta_status failure, struct aorta_graph **graph);
    void (*branch_leave)(struct capture_branch *branch); /* its stream is about to be destroyed. NULL: nothing to do */
    void (*capture_free)(struct capture_state *capture); /* the driver's parts, and those of its branches */
    aorta_status (*graph_launch)(struct aorta_graph *graph, struct aorta_stream *stream);
    void (*graph_destroy)(struct aorta_graph *graph);
};

extern const struct aorta_backend aorta_cpu_backend, aorta_cuda_backend, aorta_hip_backend;

/* ---- memory.c: counting, limit, reuse and messages, for every kind of device ---- */

aorta_status aorta_memory_create(struct aorta_device *device, struct aorta_memory **memory);
void aorta_memory_destroy(struct aorta_memory *memory); /* gives everything back to the system */

/* ---- capture.c ---- */

struct capture_state {      /* first member of a driver's capture */
    _Atomic int references; /* of the capture while it lasts, of the graph, and of events recorded inside */
    struct aorta_device *device;
    bool active;
    aorta_status broken; /* first error inside; the capture's end returns it */
    struct capture_branch **branches;
    size_t branch_count, branch_capacity;
};

struct capture_branch { /* first member of a driver's data of one stream */
    size_t index;       /* 0: the stream that capture began on */
    char name[64];      /* the stream's */
    struct reach reach; /* everything before the branch's next node; the driver counts the nodes */
    struct capture_state *capture;
    struct aorta_stream *stream; /* NULL: the capture has ended, or the stream was destroyed */
};

/* Stores a copy of the first error as the one that broke the capture. Returns `error`. */
AORTA_MUST_USE aorta_status aorta_capture_break(struct capture_state *capture, aorta_status error);
AORTA_MUST_USE aorta_status aorta_capture_no_memory(void);
void aorta_capture_release(struct capture_state *capture); /* NULL is fine */
void aorta_capture_leave(struct aorta_stream *stream);     /* a captured stream is being destroyed */

/* The event is locked. */
AORTA_MUST_USE aorta_status aorta_capture_record(struct aorta_stream *stream, struct aorta_event *event);
AORTA_MUST_USE aorta_status aorta_capture_wait(struct aorta_stream *stream, struct aorta_event *event);
void aorta_capture_forget(struct aorta_event *event); /* its last record is outside of captures */
/* The error for callers that wait on the host for an event of a capture. */
AORTA_MUST_USE aorta_status aorta_capture_only_orders(const struct aorta_event *event);

#endif
