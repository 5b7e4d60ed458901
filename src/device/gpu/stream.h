/* Streams, events and captures on a GPU, and the notes that kernels leave. */
#ifndef AORTA_DEVICE_GPU_STREAM_H
#define AORTA_DEVICE_GPU_STREAM_H

#include "device/backend.h"
#include "device/gpu.h"
#include "device/gpu/driver.h"

#include <pthread.h>

struct gpu_stream;

/* ---- notes.c ---- */

struct gpu_note;
struct gpu_notes { /* without repetition; zeros: empty; freed by free(items) */
    struct gpu_note **items;
    size_t count, capacity;
};
/* Adds the notes of `from`. Work on `stream` is ordered after the kernels that write them. */
aorta_status aorta_gpu_notes_carry(struct gpu_notes *notes, const struct gpu_notes *from,
                                   const struct gpu_stream *stream);
/* Returns a copy of the first failure in a note, or NULL if there is none so far. */
aorta_status aorta_gpu_notes_failure(struct gpu_device *device, const struct gpu_notes *notes);
void aorta_gpu_notes_close(struct gpu_device *device);

/* ---- streams ---- */

struct gpu_stream {
    struct aorta_stream base;
    void *handle;
    aorta_status failure; /* sticky; owned */
    struct gpu_notes notes;
    int64_t *stamps[GPU_STAMPS];    /* timestamps asked for since the last command of a capture */
    uint32_t stamp_count;           /* of them */
    const char *last;               /* last kernel launched, for messages; static */
    struct gpu_prepared *preparing; /* a launch is stored in it and not queued; NULL: it is queued */
};

struct gpu_branch { /* one stream's part of a capture */
    struct capture_branch base;
    void *doomed; /* handle of a stream that was destroyed, to be destroyed at the end of the capture */
};

struct gpu_capture {
    struct capture_state state;
    struct gpu_notes notes;
};

struct gpu_event { /* the members are those of the last record */
    struct aorta_event base;
    void *handle;                    /* made at the first record */
    const struct gpu_stream *stream; /* recorded on; only compared */
    aorta_status failure;            /* the stream's failure when the record was queued; owned */
    struct gpu_notes notes;          /* the stream's by then */
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

/* Called before anything is queued. Makes the context current and writes pending timestamps. *skip is true if the
 * stream has failed and runs nothing more. */
aorta_status aorta_gpu_stream_enter(struct gpu_stream *stream, bool *skip);
/* Handles a refused call: outside a capture the stream keeps the failure and NULL is returned, inside it breaks the
 * capture. */
aorta_status aorta_gpu_stream_keep(struct gpu_stream *stream, aorta_status failure);
/* As aorta_gpu_stream_keep outside a capture, and returns the failure as well. */
aorta_status aorta_gpu_stream_fail(struct gpu_stream *stream, aorta_status failure);
/* Queues the timestamps asked for. */
aorta_status aorta_gpu_stream_write_stamps(struct gpu_stream *stream);
aorta_status aorta_gpu_stream_failure(struct gpu_stream *stream); /* a copy, notes' included; NULL: none */

/* ---- streams with a share of the device (stream.c) ---- */

void aorta_gpu_partitions_close(struct gpu_device *device);

/* ---- members of the table ---- */

aorta_status aorta_gpu_stream_create(struct aorta_device *device, const char *name, enum aorta_priority priority,
                                     struct aorta_stream **stream);
aorta_status aorta_gpu_stream_limit(struct aorta_stream *stream, double share, int part);
void aorta_gpu_stream_destroy(struct aorta_stream *stream);
aorta_status aorta_gpu_stream_synchronize(struct aorta_stream *stream);
aorta_status aorta_gpu_stream_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                                     size_t bytes);
aorta_status aorta_gpu_host_call(struct aorta_stream *stream, void (*function)(void *user), void *user);
aorta_status aorta_gpu_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes);
aorta_status aorta_gpu_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes);
aorta_status aorta_gpu_timestamp(struct aorta_stream *stream, int64_t *slot);

void aorta_gpu_event_end(struct aorta_event *event);
aorta_status aorta_gpu_event_record(struct aorta_event *event, struct aorta_stream *stream);
aorta_status aorta_gpu_stream_wait(struct aorta_stream *stream, struct aorta_event *event);
aorta_status aorta_gpu_event_synchronize(struct aorta_event *event);
bool aorta_gpu_event_done(struct aorta_event *event);

aorta_status aorta_gpu_capture_begin(struct aorta_stream *stream);
aorta_status aorta_gpu_capture_end(struct aorta_stream *stream, aorta_status failure, struct aorta_graph **graph);
void aorta_gpu_branch_leave(struct capture_branch *branch);
void aorta_gpu_capture_free(struct capture_state *capture);
aorta_status aorta_gpu_graph_launch(struct aorta_graph *graph, struct aorta_stream *stream);
void aorta_gpu_graph_destroy(struct aorta_graph *graph);

#endif
