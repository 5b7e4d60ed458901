/* The interface of a driver of one kind of device; device.c checks, counts and dispatches. Internal to src/device.
 *
 * A driver embeds the structs below as the first member of its own ones, and fills every member of the table. */
#ifndef AORTA_DEVICE_BACKEND_H
#define AORTA_DEVICE_BACKEND_H

#include "device/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aorta_memory;
struct aorta_attachments;

struct aorta_device {
    const struct aorta_backend *backend;
    struct aorta_device_info info;
    struct aorta_memory *memory; /* set by device.c, and so are the attachments */
    struct aorta_attachments *attachments;
    _Atomic(aorta_status) failure; /* of the whole device; owned. These three are for watchdogs */
    _Atomic uint64_t calls_begun, calls_ended;
};

struct aorta_stream {
    struct aorta_device *device;
    enum aorta_priority priority;
    char name[64];
    double share; /* of the multiprocessors; 0: not limited. With `part` set by device.c when the driver has done it */
    int part;
};

struct aorta_event {
    struct aorta_device *device;
    bool untimed; /* set by device.c: the time of its records is never asked for */
};

struct aorta_graph {
    struct aorta_device *device;
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
    aorta_status (*open)(int index, struct aorta_device **device); /* fills backend and info */
    void (*close)(struct aorta_device *device);
    int64_t (*now_ns)(struct aorta_device *device);
    int64_t (*clock_error_ns)(struct aorta_device *device); /* NULL: none */

    /* System memory, uncounted and uncached (memory.c does both); aligned to 256 bytes. NULL without a failure when
     * there is no more. */
    aorta_status (*memory_get)(struct aorta_device *device, size_t bytes, void **memory);
    void (*memory_put)(struct aorta_device *device, void *memory, size_t bytes);
    aorta_status (*pinned_get)(struct aorta_device *device, size_t bytes, void **memory);
    void (*pinned_put)(struct aorta_device *device, void *memory, size_t bytes);
    uint64_t (*memory_free)(struct aorta_device *device); /* what memory_get could still give, in all */

    aorta_status (*stream_create)(struct aorta_device *device, const char *name, enum aorta_priority priority,
                                  struct aorta_stream **stream);
    aorta_status (*stream_limit)(struct aorta_stream *stream, double share, int part);
    void (*stream_destroy)(struct aorta_stream *stream);
    aorta_status (*stream_synchronize)(struct aorta_stream *stream);
    bool (*stream_idle)(struct aorta_stream *stream);

    aorta_status (*launch)(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                           size_t bytes);
    /* Both may be NULL: prepared launches are then plain ones. `prepare` fills what embeds the struct, whose members
     * are set already; device.c has allocated prepared_bytes and frees them after `prepared_end`. */
    size_t prepared_bytes;
    aorta_status (*prepare)(struct aorta_prepared *prepared);
    aorta_status (*launch_prepared)(struct aorta_prepared *const *items, size_t count);
    void (*prepared_end)(struct aorta_prepared *prepared);
    aorta_status (*host_call)(struct aorta_stream *stream, aorta_status (*function)(void *user), void *user);
    aorta_status (*copy)(struct aorta_stream *stream, void *to, const void *from, size_t bytes);
    aorta_status (*fill_bytes)(struct aorta_stream *stream, void *to, int value, size_t bytes);
    aorta_status (*timestamp)(struct aorta_stream *stream, int64_t *slot);

    aorta_status (*event_create)(struct aorta_device *device, struct aorta_event **event);
    void (*event_destroy)(struct aorta_event *event);
    aorta_status (*event_record)(struct aorta_event *event, struct aorta_stream *stream);
    aorta_status (*stream_wait)(struct aorta_stream *stream, struct aorta_event *event);
    aorta_status (*event_synchronize)(struct aorta_event *event);
    bool (*event_done)(struct aorta_event *event);
    aorta_status (*event_time)(struct aorta_event *event, int64_t *time_ns);

    aorta_status (*capture_begin)(struct aorta_stream *stream);
    aorta_status (*capture_end)(struct aorta_stream *stream, struct aorta_graph **graph);
    bool (*stream_capturing)(const struct aorta_stream *stream);
    aorta_status (*graph_launch)(struct aorta_graph *graph, struct aorta_stream *stream);
    void (*graph_destroy)(struct aorta_graph *graph);
};

extern const struct aorta_backend aorta_cpu_backend, aorta_cuda_backend, aorta_hip_backend;

/* ---- memory.c: counting, limit, reuse and messages, for every kind of device ---- */

aorta_status aorta_memory_create(struct aorta_device *device, struct aorta_memory **memory);
void aorta_memory_destroy(struct aorta_memory *memory); /* gives everything back to the system */

/* ---- captures ----
 * The state of a capture and of each stream in it, and mistakes that are reported, by name, before the device sees
 * them. Each device records and replays work in its own way. */

struct reach { /* zero-initialise; free `counts` */
    uint32_t *counts;
    size_t count;
};

bool aorta_reach_merge(struct reach *into, const struct reach *from);

struct capture_state {      /* first member of a device's capture; `references` and freeing are the device's */
    _Atomic int references; /* captured streams' and events' */
    struct aorta_device *device;
    bool active;
    aorta_status broken; /* first error inside; the capture's end returns it */
};

struct capture_branch { /* first member of a device's data of one stream */
    size_t index;       /* 0: the stream that capture began on */
    char name[64];      /* the stream's */
    struct reach reach; /* everything before its next node; owned */
};

/* Makes the branch of a stream that comes into a capture. False: no memory, and nothing to free. */
bool aorta_capture_branch_open(struct capture_branch *branch, size_t index, const char *name);

/* Keeps a copy of the first error as the one that broke the capture, and returns the error given. */
AORTA_MUST_USE aorta_status aorta_capture_break(struct capture_state *capture, aorta_status error);
AORTA_MUST_USE aorta_status aorta_capture_no_memory(void);

/* May the stream `name`, itself captured by `own` (NULL: it is not), wait for an event last recorded in `recorded`
 * (NULL: outside of captures) on the stream `recorded_on`? AORTA_DEVICE says why not. */
AORTA_MUST_USE aorta_status aorta_capture_check_wait(const char *name, const struct capture_state *own,
                                                     const struct capture_state *recorded, const char *recorded_on);
/* AORTA_DEVICE naming the branch when its last node does not come before the end of the first branch, `origin`. */
AORTA_MUST_USE aorta_status aorta_capture_check_joined(const struct capture_branch *origin,
                                                       const struct capture_branch *branch);

/* Further mistakes with a captured stream; `name` is the stream's. */
AORTA_MUST_USE aorta_status aorta_capture_begun_already(const char *name);
AORTA_MUST_USE aorta_status aorta_capture_not_begun(const char *name);
AORTA_MUST_USE aorta_status aorta_capture_begun_elsewhere(const char *name, const struct capture_branch *origin);
AORTA_MUST_USE aorta_status aorta_capture_stream_destroyed(const char *name);
/* The error for callers that ask an event of a capture for its time, or wait for it on the host. */
AORTA_MUST_USE aorta_status aorta_capture_only_orders(const char *recorded_on);

#endif
