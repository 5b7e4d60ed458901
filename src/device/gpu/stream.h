/* Host calls queued on a stream, notes that its kernels leave, and their failures. */
#ifndef AORTA_DEVICE_GPU_STREAM_H
#define AORTA_DEVICE_GPU_STREAM_H

#include "device/backend.h"
#include "device/gpu.h"
#include "device/gpu/driver.h"

#include <pthread.h>
#include <stdatomic.h>

struct gpu_stream;

/* ---- notes ---- */

struct gpu_note;
struct gpu_notes { /* without repetition; zeros: empty */
    struct gpu_note **items;
    size_t count, capacity;
};
void aorta_gpu_notes_free(struct gpu_notes *notes);
/* A wait for `stream` reads these notes, too, under `lock`; NULL: nothing else changes them. */
aorta_status aorta_gpu_notes_carry(struct gpu_stream *stream, struct gpu_notes *from, pthread_mutex_t *lock);

/* ---- host_calls.c ---- */

struct gpu_outcome {
    _Atomic int references; /* the stream's, its queued calls', and those of events after them */
    _Atomic bool failed;
    _Atomic uint64_t done; /* the calls up to this one have ended, and with them the graphs' before it */
    pthread_mutex_t lock;
    uint64_t position; /* of the call that failed; 0: a note */
    aorta_status failure;
    struct gpu_notes notes;
};
struct gpu_outcome *aorta_gpu_outcome_retain(struct gpu_outcome *outcome);
void aorta_gpu_outcome_release(struct gpu_outcome *outcome); /* NULL is fine */
/* A copy of the failure if it was at `position` or before, or of a note's failure; NULL: none so far. */
aorta_status aorta_gpu_outcome_at(struct gpu_outcome *outcome, uint64_t position);
/* Queues a call that fails `stream` if the calls of `from` up to `position` failed. */
aorta_status aorta_gpu_outcome_carry(struct gpu_stream *stream, struct gpu_outcome *from, uint64_t position);

/* Whose failure the host calls of a graph are: set anew for each run. */
struct gpu_run {
    struct gpu_outcome *outcome;
    uint64_t position;
    struct gpu_graph_call *calls; /* owned */
};
void aorta_gpu_run_free(struct gpu_run *run);
aorta_status aorta_gpu_run_begin(struct gpu_stream *stream, struct gpu_run *run); /* queued before the graph */

/* ---- streams ---- */

struct gpu_stream {
    struct aorta_stream base;
    void *handle;
    aorta_status failure;           /* sticky; owned */
    struct gpu_outcome *outcome;    /* NULL: no host call or note yet */
    uint64_t host_calls;            /* ever queued */
    int64_t *stamps[GPU_STAMPS];    /* timestamps asked for since the last command of a capture */
    uint32_t stamp_count;           /* of them */
    const char *last;               /* last kernel launched, for messages; static */
    struct gpu_prepared *preparing; /* launches are stored in it and not queued; NULL: they are queued */
};

struct gpu_branch { /* one stream's part of a capture */
    struct capture_branch base;
    void *doomed; /* handle of a stream that was destroyed, to be destroyed at the end of the capture */
};

struct gpu_capture {
    struct capture_state state;
    struct gpu_run *run; /* NULL: no host call inside */
    struct gpu_notes notes;
};

/* One place in a stream: an event of the vendor's, and where the device writes the time. While an earlier record may
 * still be on its way, an event recorded on another stream takes a new one. */
struct gpu_mark {
    void *handle;
    int64_t *slot;                   /* pinned */
    const struct gpu_stream *stream; /* recorded on; only compared */
    bool captured;                   /* recorded in a capture: nothing is on its way */
    aorta_status failure;            /* the stream's when it was queued; owned */
    struct gpu_outcome *outcome;     /* the stream's; NULL: it had none */
    uint64_t position;               /* host calls before it */
    struct gpu_mark *next;
};

struct gpu_event {
    struct aorta_event base;
    struct gpu_mark *mark; /* of the last record; NULL: never recorded */
};

static inline struct gpu_stream *gpu_stream(struct aorta_stream *stream) {
    return (struct gpu_stream *)stream;
}
static inline struct gpu_event *gpu_event(struct aorta_event *event) {
    return (struct gpu_event *)event;
}
static inline struct gpu_capture *gpu_capture(struct capture_state *capture) {
    return (struct gpu_capture *)capture;
}
static inline struct gpu_device *device_of(const struct gpu_stream *stream) {
    return gpu_device(stream->base.device);
}
static inline const struct gpu_api *api_of(const struct gpu_stream *stream) {
    return &device_of(stream)->driver.api;
}

/* ---- stream.c ---- */

/* Before anything is queued: the context is made current and timestamps asked for are on their way. *skip: the stream
 * has failed, nothing more runs on it. */
aorta_status aorta_gpu_stream_enter(struct gpu_stream *stream, bool *skip);
/* Handles a refused call: outside a capture the stream keeps the failure and NULL is returned, inside it breaks the
 * capture. */
aorta_status aorta_gpu_stream_keep(struct gpu_stream *stream, aorta_status failure);
/* As aorta_gpu_stream_keep outside a capture, and returns the failure as well. */
aorta_status aorta_gpu_stream_fail(struct gpu_stream *stream, aorta_status failure);
/* Queues the timestamps asked for. */
aorta_status aorta_gpu_stream_write_stamps(struct gpu_stream *stream);
aorta_status aorta_gpu_stream_failure(struct gpu_stream *stream); /* a copy, host calls' included; NULL: none */

/* ---- streams with a share of the device (stream.c) ---- */

void aorta_gpu_partitions_close(struct gpu_device *device);

/* ---- event.c ---- */

aorta_status aorta_gpu_marks_open(struct gpu_device *device);
void aorta_gpu_marks_close(struct gpu_device *device);

/* ---- members of the table ---- */

aorta_status aorta_gpu_stream_create(struct aorta_device *device, const char *name, enum aorta_priority priority,
                                     struct aorta_stream **stream);
aorta_status aorta_gpu_stream_limit(struct aorta_stream *stream, double share, int part);
void aorta_gpu_stream_destroy(struct aorta_stream *stream);
aorta_status aorta_gpu_stream_synchronize(struct aorta_stream *stream);
aorta_status aorta_gpu_stream_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                                     size_t bytes);
aorta_status aorta_gpu_host_call(struct aorta_stream *stream, aorta_status (*function)(void *user), void *user);
aorta_status aorta_gpu_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes);
aorta_status aorta_gpu_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes);
aorta_status aorta_gpu_timestamp(struct aorta_stream *stream, int64_t *slot);

void aorta_gpu_event_end(struct aorta_event *event);
aorta_status aorta_gpu_event_record(struct aorta_event *event, struct aorta_stream *stream);
aorta_status aorta_gpu_stream_wait(struct aorta_stream *stream, struct aorta_event *event);
aorta_status aorta_gpu_event_synchronize(struct aorta_event *event);
bool aorta_gpu_event_done(struct aorta_event *event);
aorta_status aorta_gpu_event_time(struct aorta_event *event, int64_t *time_ns);

aorta_status aorta_gpu_capture_begin(struct aorta_stream *stream);
aorta_status aorta_gpu_capture_end(struct aorta_stream *stream, aorta_status failure, struct aorta_graph **graph);
void aorta_gpu_branch_leave(struct capture_branch *branch);
void aorta_gpu_capture_free(struct capture_state *capture);
aorta_status aorta_gpu_graph_launch(struct aorta_graph *graph, struct aorta_stream *stream);
void aorta_gpu_graph_destroy(struct aorta_graph *graph);

#endif
