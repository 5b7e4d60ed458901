/* Notes: what kernels leave for the host to find.
 *
 * A host call after each such kernel would report a failure in the stream's order, but delays the stream for as long
 * as the vendor's thread needs to wake: 0.3 ms a call in a graph on an H100. So nothing is queued, and the note is read
 * whenever the host learns that work has ended. */
#include "base/array.h"
#include "device/gpu/stream.h"

#include <stdlib.h>
#include <string.h>

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

aorta_status aorta_gpu_outcome_failure(struct gpu_outcome *outcome) {
    if (!outcome) return NULL;
    pthread_mutex_lock(&outcome->lock);
    if (!outcome->failure) outcome->failure = read_notes(&outcome->notes);
    if (outcome->failure) atomic_store(&outcome->failed, true);
    aorta_status failure = aorta_status_copy(outcome->failure);
    pthread_mutex_unlock(&outcome->lock);
    return failure;
}
