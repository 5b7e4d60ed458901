/* Devices, streams, events, graphs, memory: one interface for the CPU device and for GPUs.
 *
 * Everything that runs is ordered on a stream: operations on one stream run one after the other, operations on two
 * streams run side by side unless an event orders them. Calls that take a stream return once the work is queued.
 *
 * Failures of queued work are sticky: the stream skips what follows, an event recorded after it passes the failure
 * on, and every synchronising call on either returns a copy of the failure, until the stream is destroyed.
 * A fault of a GPU kernel (a wrong address, say) ends the whole device object.
 *
 * Threads: a stream, and a capture, belong to one host thread at a time; different streams may be used from different
 * threads; device-level calls (alloc, free, info) are thread-safe.
 *
 * Owner: everything created is destroyed by its creator, children before their device. */
#ifndef AORTA_DEVICE_DEVICE_H
#define AORTA_DEVICE_DEVICE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aorta_device;
struct aorta_stream;
struct aorta_event;
struct aorta_graph;
struct aorta_prepared;

enum aorta_device_kind { AORTA_DEVICE_CPU, AORTA_DEVICE_CUDA, AORTA_DEVICE_HIP };
enum aorta_priority { AORTA_PRIORITY_LOW, AORTA_PRIORITY_NORMAL, AORTA_PRIORITY_HIGH };

struct aorta_device_info {
    enum aorta_device_kind kind;
    int index;
    char name[128];
    char isa[64];           /* "avx512", "sm_90", "gfx942" */
    uint64_t memory_bytes;  /* in all; CPU: physical memory, or the limit of its control group if that is lower */
    int multiprocessors;    /* CPU: hardware threads this process may use */
    int64_t timestamp_tick; /* ns between two distinguishable timestamps, at best */
};

struct aorta_memory_info {  /* bytes, of this device object */
    uint64_t allocated;     /* handed out now */
    uint64_t peak;          /* most that was handed out at once, since creation or the last reset */
    uint64_t reserved;      /* taken from the system: as much as is handed out */
    uint64_t peak_reserved; /* most of that, since creation or the last reset of the peak */
    uint64_t pinned;        /* page-locked host memory handed out now */
    uint64_t free;          /* could still be allocated; the system's value may be 100 ms old */
};

const char *aorta_device_kind_name(enum aorta_device_kind kind); /* "cpu", "cuda", "hip" */

/* AORTA_UNSUPPORTED when there is no such device or its driver is missing; its detail names the searched places. */
AORTA_MUST_USE aorta_status aorta_device_open(enum aorta_device_kind kind, int index, struct aorta_device **device);
/* For one of several ranks on a host: the index is local_rank modulo the number of devices. `warning` is empty, or says
 * that ranks share a device. On the cpu kind all ranks have device 0 of their own process. */
struct aorta_device_warning {
    char text[256];
};
AORTA_MUST_USE aorta_status aorta_device_open_local(enum aorta_device_kind kind, int local_rank,
                                                    struct aorta_device **device, struct aorta_device_warning *warning);
/* Opens the first kind of cuda, hip and cpu that has a device. A GPU that is present and cannot be used is an error,
 * not a reason to use the CPU. */
AORTA_MUST_USE aorta_status aorta_device_open_best(int local_rank, struct aorta_device **device,
                                                   struct aorta_device_warning *warning);
void aorta_device_close(struct aorta_device *device);
const struct aorta_device_info *aorta_device_get_info(const struct aorta_device *device);
/* Times of a device are those of aorta_clock_ns. Returns the largest error in ns of a timestamp that the device
 * makes now. CPU: 0. GPU: the bound of the clocks' offset from exchanged messages, the error of the timestamps at that
 * time, a tick, and the possible drift since. Any thread. */
int64_t aorta_device_clock_error_ns(struct aorta_device *device);

/* ---- memory ---- */

/* Device memory, aligned to 256 bytes, contents undefined. `what` names it in the out-of-memory message (AORTA_MEMORY:
 * name, size, free memory) and is copied. Free it only when no queued work uses it. */
AORTA_MUST_USE aorta_status aorta_device_alloc(struct aorta_device *device, size_t bytes, const char *what,
                                               void **memory);
void aorta_device_free(struct aorta_device *device, void *memory); /* NULL is fine */
/* Device memory that another library allocated counts as the device's from now on, and aorta_device_free gives it back
 * through `put`. On failure (AORTA_MEMORY, beyond the limit below) it still belongs to the caller. With `memory` NULL
 * it returns the error that the memory does not fit. */
AORTA_MUST_USE aorta_status aorta_device_adopt(struct aorta_device *device, void *memory, size_t bytes,
                                               const char *what, void (*put)(void *owner, void *memory), void *owner);
/* Page-locked host memory, readable by host and device. On the CPU device mlock is tried and its refusal is no error.
 */
AORTA_MUST_USE aorta_status aorta_pinned_alloc(struct aorta_device *device, size_t bytes, const char *what,
                                               void **memory);
void aorta_pinned_free(struct aorta_device *device, void *memory);
struct aorta_memory_info aorta_device_memory(struct aorta_device *device);
void aorta_device_reset_peak(struct aorta_device *device);
/* Test aid and budget: allocations beyond `bytes` in all fail as if the device were full; 0 lifts the limit. */
void aorta_device_limit_memory(struct aorta_device *device, uint64_t bytes);

/* ---- for watchdogs ---- */

/* From now on every call that queues work on this device or waits for it fails with a copy of `status`, which this call
 * takes over. The first status remains. For callers that give up on queued work which will never end. Any thread. */
void aorta_device_fail(struct aorta_device *device, aorta_status status);
/* How many such calls have begun and ended. If they differ and do not change for long, the host is stuck in a call. */
struct aorta_device_calls {
    uint64_t begun, ended;
};
struct aorta_device_calls aorta_device_count_calls(struct aorta_device *device);

/* ---- streams ---- */

/* The first 63 bytes of the name are copied. A priority that the system does not grant is no error. */
AORTA_MUST_USE aorta_status aorta_stream_create(struct aorta_device *device, const char *name,
                                                enum aorta_priority priority, struct aorta_stream **stream);
/* The stream's work will run on at most `share` of the device's multiprocessors: more than 0, up to 1 (all). Call it
 * before anything is queued on the stream, once.
 * CPU: the thread of the stream is bound to ceil(share · n) of the n processors that the process may use, and so are
 * threads that its work starts later. Processes that share the processors pass different parts (0, 1, …). Equal shares
 * are then adjacent and wrap around to the first processor.
 * GPU: all kernels of the stream, by a partition of the multiprocessors (CUDA's green contexts, HIP's masks of compute
 * units), whose size is rounded down to a size that the hardware can cut; copies by copy engines are not limited,
 * `part` does not matter. HIP gives such a stream the default priority. AORTA_UNSUPPORTED names the driver that is too
 * old, or the smallest share. */
AORTA_MUST_USE aorta_status aorta_stream_limit(struct aorta_stream *stream, double share, int part);
void aorta_stream_destroy(struct aorta_stream *stream); /* waits for its work */
struct aorta_device *aorta_stream_device(const struct aorta_stream *stream);
const char *aorta_stream_name(const struct aorta_stream *stream);
AORTA_MUST_USE aorta_status aorta_stream_synchronize(struct aorta_stream *stream);

/* A kernel: a CPU function and a GPU launch with one name. Const and static. */
struct aorta_kernel {
    const char *name;
    /* Runs on the stream's thread with the copied arguments. */
    aorta_status (*cpu)(const void *args);
    /* Called by aorta_launch itself on GPU streams: chooses a grid and queues through gpu.h. NULL: the CPU only. */
    aorta_status (*gpu)(struct aorta_stream *stream, const void *args);
};

/* Queues kernel(args); `bytes` of *args are copied, to a multiple of 16; pointers inside are not followed. */
AORTA_MUST_USE aorta_status aorta_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel,
                                         const void *args, size_t bytes);
/* A launch in two parts: everything is computed once (on a GPU: function, grid, checked and copied arguments), then
 * queued any number of times, with little code before the vendor's own launch. The kernel's `gpu` function must queue
 * one kernel with the arguments it gets. In captures and on failed streams a prepared launch acts like aorta_launch. It
 * is destroyed before its stream. `launch` queues the items in order, each on its own stream; all of one device. */
AORTA_MUST_USE aorta_status aorta_launch_prepare(struct aorta_stream *stream, const struct aorta_kernel *kernel,
                                                 const void *args, size_t bytes, struct aorta_prepared **prepared);
AORTA_MUST_USE aorta_status aorta_launch_prepared(struct aorta_prepared *const *items, size_t count);
void aorta_prepared_destroy(struct aorta_prepared *prepared); /* NULL is fine */
/* Queues a call on the host, in stream order. The function must not call this interface. */
AORTA_MUST_USE aorta_status aorta_host_call(struct aorta_stream *stream, void (*function)(void *user), void *user);
/* Queues a copy between any two of device, pinned and plain memory. From plain host memory the call may wait. */
AORTA_MUST_USE aorta_status aorta_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes);
AORTA_MUST_USE aorta_status aorta_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes);
/* Queues the writing of the device clock (ns) to *slot in pinned memory of this device. Works in graphs: every replay
 * writes it anew. */
AORTA_MUST_USE aorta_status aorta_timestamp(struct aorta_stream *stream, int64_t *slot);
/* ---- events ---- */

/* Events order streams, and the host. A timestamp has the time of a place in a stream. */
AORTA_MUST_USE aorta_status aorta_event_create(struct aorta_device *device, struct aorta_event **event);
/* At any time: records and waits that are queued keep their meaning. */
void aorta_event_destroy(struct aorta_event *event); /* NULL is fine */
AORTA_MUST_USE aorta_status aorta_event_record(struct aorta_event *event, struct aorta_stream *stream);
/* Work queued on `stream` from now on waits for the last record of `event` made before this call. An event never
 * recorded causes no wait. */
AORTA_MUST_USE aorta_status aorta_stream_wait(struct aorta_stream *stream, struct aorta_event *event);
AORTA_MUST_USE aorta_status aorta_event_synchronize(struct aorta_event *event);
bool aorta_event_done(struct aorta_event *event);

/* ---- graphs ---- */

/* From begin to end, work queued on `stream`, and on every stream that comes to depend on it through an event, is
 * recorded and not run. All such streams must have been joined back to `stream` by the end (AORTA_DEVICE otherwise,
 * naming the stream). Events recorded inside and waited for inside order the graph. Inside a capture it is an error to
 * wait for an event recorded before it, to synchronise, or to launch a graph. Any error inside breaks the capture: its
 * end, which must still be called, returns that error and frees all streams.
 *
 * An event whose last record was made in a capture orders that graph and nothing else: it is never done, and once
 * the capture has ended, waiting for it is an error until it is recorded anew. */
AORTA_MUST_USE aorta_status aorta_capture_begin(struct aorta_stream *stream);
AORTA_MUST_USE aorta_status aorta_capture_end(struct aorta_stream *stream, struct aorta_graph **graph);
bool aorta_stream_capturing(const struct aorta_stream *stream);
/* Queues one run of the whole graph on `stream`; runs of one graph never overlap each other. */
AORTA_MUST_USE aorta_status aorta_graph_launch(struct aorta_graph *graph, struct aorta_stream *stream);
size_t aorta_graph_node_count(const struct aorta_graph *graph); /* kernels, copies, fills, timestamps, host calls */
void aorta_graph_destroy(struct aorta_graph *graph);            /* not while it runs */

/* ---- what memory was handed out and given back ---- */

struct aorta_memory_event {
    int64_t time_ns;                       /* by the host's clock */
    int64_t bytes;                         /* negative: given back */
    uint64_t address, allocated, reserved; /* the two after it */
};
/* Copies events from number `from` (0: the first of the device) on; returns how many, `capacity` at most. The first
 * 65536 are known. Any thread. */
size_t aorta_device_memory_events(struct aorta_device *device, size_t from, struct aorta_memory_event *events,
                                  size_t capacity);

#endif
