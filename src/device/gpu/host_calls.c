/* Host calls on a GPU's streams, and what becomes of their failures.
 *
 * The vendor's library calls a function on a thread of its own; a failure goes into the stream's outcome, with the
 * number of the call, so that an event recorded before the call does not carry it and one recorded after it does. Such
 * a function must not call the vendor's library, so all of it is plain host work. */
#include "base/array.h"
#include "device/gpu/stream.h"

#include <stdlib.h>
#include <string.h>

/* ---- notes of kernels ----
 * Notes: what kernels leave for the host to find.
 *
 * A host call after each such kernel would report a failure in the stream's order, but delays the stream for as long
 * as the vendor's thread needs to wake: 0.3 ms a call in a graph on an H100. So nothing is queued, and the note is read
 * whenever the host learns that work has ended. */

struct gpu_note {
    _Atomic int references; /* of the lists that hold it */
    pthread_mutex_t lock;
    char stream[64];
    aorta_status (*check)(void *user);
    void *user;
    aorta_status failure; /* every list reports it */
};

static struct gpu_note *make_note(const char *stream, aorta_status (*check)(void *user), void *user) {
    struct gpu_note *note = calloc(1, sizeof *note);
    if (!note) return NULL;
    pthread_mutex_init(&note->lock, NULL);
    memcpy(note->stream, stream, sizeof note->stream);
    note->check = check;
    note->user = user;
    return note;
}

static void release_note(struct gpu_note *note) {
    if (atomic_fetch_sub(&note->references, 1) > 1) return;
    aorta_status_free(note->failure);
    pthread_mutex_destroy(&note->lock);
    free(note);
}

static aorta_status read_note(struct gpu_note *note) {
    pthread_mutex_lock(&note->lock);
    if (!note->failure) note->failure = aorta_annotate(note->check(note->user), "stream %s", note->stream);
    aorta_status failure = aorta_status_copy(note->failure);
    pthread_mutex_unlock(&note->lock);
    return failure;
}

static bool holds(const struct gpu_notes *notes, aorta_status (*check)(void *user), const void *user) {
    for (size_t i = 0; i < notes->count; i++)
        if (notes->items[i]->check == check && notes->items[i]->user == user) return true;
    return false;
}

static bool append(struct gpu_notes *notes, struct gpu_note *note) {
    if (!aorta_array_fit(&notes->items, &notes->capacity, notes->count + 1, sizeof *notes->items)) return false;
    atomic_fetch_add(&note->references, 1);
    notes->items[notes->count++] = note;
    return true;
}

static bool copy_notes(struct gpu_notes *notes, const struct gpu_notes *from) {
    for (size_t i = 0; i < from->count; i++) {
        struct gpu_note *note = from->items[i];
        if (!holds(notes, note->check, note->user) && !append(notes, note)) return false;
    }
    return true;
}

/* the first failure */
static aorta_status read_notes(const struct gpu_notes *notes) {
    for (size_t i = 0; i < notes->count; i++) AORTA_TRY(read_note(notes->items[i]));
    return NULL;
}

void aorta_gpu_notes_free(struct gpu_notes *notes) {
    for (size_t i = 0; i < notes->count; i++) release_note(notes->items[i]);
    free(notes->items);
    *notes = (struct gpu_notes){0};
}

/* Made at first use; NULL: no memory. */
static struct gpu_outcome *outcome_of_stream(struct gpu_stream *stream) {
    if (stream->outcome) return stream->outcome;
    struct gpu_outcome *outcome = calloc(1, sizeof *outcome);
    if (!outcome) return NULL;
    outcome->references = 1;
    pthread_mutex_init(&outcome->lock, NULL);
    return stream->outcome = outcome;
}

static bool add(struct gpu_notes *notes, const char *stream, aorta_status (*check)(void *user), void *user) {
    if (holds(notes, check, user)) return true;
    struct gpu_note *note = make_note(stream, check, user);
    if (!note) return false;
    if (append(notes, note)) return true;
    atomic_fetch_add(&note->references, 1);
    release_note(note);
    return false;
}

aorta_status aorta_gpu_note(struct aorta_stream *base, aorta_status (*check)(void *user), void *user) {
    struct gpu_stream *stream = gpu_stream(base);
    bool added;
    if (stream->base.branch) {
        added = add(&gpu_capture(base->branch->capture)->notes, base->name, check, user);
    } else {
        struct gpu_outcome *outcome = outcome_of_stream(stream);
        if (outcome) pthread_mutex_lock(&outcome->lock);
        added = outcome && add(&outcome->notes, base->name, check, user);
        if (outcome) pthread_mutex_unlock(&outcome->lock);
    }
    return added ? NULL : AORTA_ERROR(AORTA_MEMORY, "no host memory for a note of a kernel on stream %s", base->name);
}

aorta_status aorta_gpu_notes_carry(struct gpu_stream *stream, struct gpu_notes *from, pthread_mutex_t *lock) {
    struct gpu_notes copy = {0};
    if (lock) pthread_mutex_lock(lock);
    bool copied = copy_notes(&copy, from);
    if (lock) pthread_mutex_unlock(lock);
    struct gpu_outcome *outcome = copy.count ? outcome_of_stream(stream) : NULL;
    if (outcome) {
        pthread_mutex_lock(&outcome->lock);
        copied = copy_notes(&outcome->notes, &copy) && copied;
        pthread_mutex_unlock(&outcome->lock);
    }
    copied = copied && (outcome || !copy.count);
    aorta_gpu_notes_free(&copy);
    return copied ? NULL
                  : AORTA_ERROR(AORTA_MEMORY, "no host memory for notes of kernels on stream %s", stream->base.name);
}

struct gpu_outcome *aorta_gpu_outcome_retain(struct gpu_outcome *outcome) {
    if (outcome) atomic_fetch_add(&outcome->references, 1);
    return outcome;
}

void aorta_gpu_outcome_release(struct gpu_outcome *outcome) {
    if (!outcome || atomic_fetch_sub(&outcome->references, 1) > 1) return;
    aorta_status_free(outcome->failure);
    aorta_gpu_notes_free(&outcome->notes);
    pthread_mutex_destroy(&outcome->lock);
    free(outcome);
}

/* Keeps the first failure and frees a later one; locked. */
static void keep_failure(struct gpu_outcome *outcome, uint64_t position, aorta_status failure) {
    if (!failure) return;
    if (!outcome->failure) outcome->position = position;
    outcome->failure = aorta_status_join(outcome->failure, failure);
    atomic_store(&outcome->failed, true);
}

static void outcome_fail(struct gpu_outcome *outcome, uint64_t position, aorta_status failure) {
    if (!failure) return;
    pthread_mutex_lock(&outcome->lock);
    keep_failure(outcome, position, failure);
    pthread_mutex_unlock(&outcome->lock);
}

aorta_status aorta_gpu_outcome_at(struct gpu_outcome *outcome, uint64_t position) {
    if (!outcome) return NULL;
    pthread_mutex_lock(&outcome->lock);
    if (!outcome->failure) keep_failure(outcome, 0, read_notes(&outcome->notes));
    aorta_status failure =
        outcome->failure && outcome->position <= position ? aorta_status_copy(outcome->failure) : NULL;
    pthread_mutex_unlock(&outcome->lock);
    return failure;
}

/* ---- calls outside graphs ---- */

struct queued_call {
    struct gpu_outcome *outcome; /* a reference */
    uint64_t position;           /* among the calls of the stream */
    char stream[64];
    aorta_status (*function)(void *user);
    void *user;
    struct gpu_outcome *from; /* carry: whose failure; a reference */
    uint64_t from_position;
    struct gpu_run *run; /* begins a run of a graph */
};

static void free_call(struct queued_call *call) {
    aorta_gpu_outcome_release(call->outcome);
    aorta_gpu_outcome_release(call->from);
    free(call);
}

/* On the vendor's thread. */
static void run_call(void *user) {
    struct queued_call *call = user;
    if (call->from) outcome_fail(call->outcome, call->position, aorta_gpu_outcome_at(call->from, call->from_position));
    if (call->run) {
        aorta_gpu_outcome_release(call->run->outcome);
        call->run->outcome = aorta_gpu_outcome_retain(call->outcome);
        call->run->position = call->position;
    }
    if (call->function && !atomic_load(&call->outcome->failed)) {
        outcome_fail(call->outcome, call->position,
                     aorta_annotate(call->function(call->user), "stream %s: host call", call->stream));
    }
    if (!call->run) atomic_store(&call->outcome->done, call->position); /* of a run the calls are still to come */
    free_call(call);
}

static struct queued_call *make_call(struct gpu_stream *stream) {
    struct queued_call *call = outcome_of_stream(stream) ? calloc(1, sizeof *call) : NULL;
    if (!call) return NULL;
    call->outcome = aorta_gpu_outcome_retain(stream->outcome);
    memcpy(call->stream, stream->base.name, sizeof call->stream);
    return call;
}

/* Takes the call over. */
static aorta_status queue_call(struct gpu_stream *stream, struct queued_call *call) {
    if (!call) return AORTA_ERROR(AORTA_MEMORY, "no host memory for a host call on stream %s", stream->base.name);
    call->position = ++stream->host_calls;
    int result = api_of(stream)->host_call(stream->handle, run_call, call);
    if (!result) return NULL;
    free_call(call);
    return aorta_gpu_error(device_of(stream), result, "stream %s: host call", stream->base.name);
}

aorta_status aorta_gpu_outcome_carry(struct gpu_stream *stream, struct gpu_outcome *from, uint64_t position) {
    struct queued_call *call = make_call(stream);
    if (call) {
        call->from = aorta_gpu_outcome_retain(from);
        call->from_position = position;
    }
    return queue_call(stream, call);
}

aorta_status aorta_gpu_run_begin(struct gpu_stream *stream, struct gpu_run *run) {
    struct queued_call *call = make_call(stream);
    if (call) call->run = run;
    return queue_call(stream, call);
}

/* ---- calls inside graphs: they stay with the graph ---- */

struct gpu_graph_call {
    struct gpu_graph_call *next;
    struct gpu_run *run;
    char stream[64];
    aorta_status (*function)(void *user);
    void *user;
};

static void run_graph_call(void *user) {
    struct gpu_graph_call *call = user;
    struct gpu_outcome *outcome = call->run->outcome;
    if (atomic_load(&outcome->failed)) return;
    outcome_fail(outcome, call->run->position,
                 aorta_annotate(call->function(call->user), "stream %s: host call", call->stream));
}

static aorta_status capture_call(struct gpu_stream *stream, aorta_status (*function)(void *user), void *user) {
    struct gpu_capture *capture = gpu_capture(stream->base.branch->capture);
    if (!capture->run) capture->run = calloc(1, sizeof *capture->run);
    struct gpu_graph_call *call = capture->run ? calloc(1, sizeof *call) : NULL;
    if (!call) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the graph being captured");
    *call =
        (struct gpu_graph_call){.next = capture->run->calls, .run = capture->run, .function = function, .user = user};
    memcpy(call->stream, stream->base.name, sizeof call->stream);
    capture->run->calls = call;
    int result = api_of(stream)->host_call(stream->handle, run_graph_call, call);
    return result ? aorta_gpu_error(device_of(stream), result, "stream %s: host call", stream->base.name) : NULL;
}

void aorta_gpu_run_free(struct gpu_run *run) {
    if (!run) return;
    while (run->calls) {
        struct gpu_graph_call *call = run->calls;
        run->calls = call->next;
        free(call);
    }
    aorta_gpu_outcome_release(run->outcome);
    free(run);
}

aorta_status aorta_gpu_host_call(struct aorta_stream *base, aorta_status (*function)(void *user), void *user) {
    struct gpu_stream *stream = gpu_stream(base);
    bool skip;
    AORTA_TRY(aorta_gpu_stream_fail(stream, aorta_gpu_stream_enter(stream, &skip)));
    if (skip) return NULL;
    if (stream->base.branch) return aorta_gpu_stream_keep(stream, capture_call(stream, function, user));
    struct queued_call *call = make_call(stream);
    if (call) {
        call->function = function;
        call->user = user;
    }
    return aorta_gpu_stream_keep(stream, queue_call(stream, call));
}
