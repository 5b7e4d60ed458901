/* Host calls queued on a stream, notes that its kernels leave, and their failures. */
#ifndef AORTA_DEVICE_GPU_HOST_CALLS_H
#define AORTA_DEVICE_GPU_HOST_CALLS_H

#include "device/gpu.h"

#include <pthread.h>
#include <stdatomic.h>

struct gpu_stream;

/* ---- note.c ---- */

struct gpu_note;
struct gpu_notes { /* without repetition; zeros: empty */
    struct gpu_note **items;
    size_t count, capacity;
};
aorta_status aorta_gpu_notes_read(const struct gpu_notes *notes); /* the first failure */
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
struct gpu_outcome *aorta_gpu_stream_outcome(struct gpu_stream *stream); /* made if need be; NULL: no memory */
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

#endif
