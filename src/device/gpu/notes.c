/* Notes: failures that kernels write for the host.
 *
 * A host call after each such kernel would report a failure in the stream's order, but delays the stream for as long
 * as the vendor's thread needs to wake: 0.3 ms a call in a graph on an H100. So nothing is queued, and the note is read
 * whenever the host learns that work has ended. */
#include "base/array.h"
#include "device/gpu/stream.h"

#include <stdlib.h>
#include <string.h>

struct gpu_note { /* lives until the device closes */
    struct gpu_note *next;
    char stream[64];
    aorta_status (*check)(void *user);
    void *user;
    aorta_status failure; /* for each wait that knows of the note */
};

void aorta_gpu_notes_close(struct gpu_device *device) {
    while (device->notes) {
        struct gpu_note *note = device->notes;
        device->notes = note->next;
        aorta_status_free(note->failure);
        free(note);
    }
    pthread_mutex_destroy(&device->notes_lock);
}

static bool append(struct gpu_notes *notes, struct gpu_note *note) {
    return aorta_array_append(&notes->items, &notes->capacity, &notes->count, &note, sizeof note);
}

static bool holds(const struct gpu_notes *notes, aorta_status (*check)(void *user), const void *user) {
    for (size_t i = 0; i < notes->count; i++)
        if (notes->items[i]->check == check && notes->items[i]->user == user) return true;
    return false;
}

static aorta_status no_memory(const struct aorta_stream *stream) {
    return AORTA_ERROR(AORTA_MEMORY, "no host memory for notes of kernels on stream %s", stream->name);
}

aorta_status aorta_gpu_note(struct aorta_stream *stream, aorta_status (*check)(void *user), void *user) {
    struct gpu_device *device = gpu_device(stream->device);
    struct gpu_notes *notes =
        stream->branch ? &gpu_capture(stream->branch->capture)->notes : &gpu_stream(stream)->notes;
    if (holds(notes, check, user)) return NULL;
    struct gpu_note *note = calloc(1, sizeof *note);
    if (!note || !append(notes, note)) {
        free(note);
        return no_memory(stream);
    }
    memcpy(note->stream, stream->name, sizeof note->stream);
    note->check = check;
    note->user = user;
    pthread_mutex_lock(&device->notes_lock);
    note->next = device->notes;
    device->notes = note;
    pthread_mutex_unlock(&device->notes_lock);
    return NULL;
}

aorta_status aorta_gpu_notes_carry(struct gpu_notes *notes, const struct gpu_notes *from,
                                   const struct gpu_stream *stream) {
    for (size_t i = 0; i < from->count; i++) {
        struct gpu_note *note = from->items[i];
        if (!holds(notes, note->check, note->user) && !append(notes, note)) return no_memory(&stream->base);
    }
    return NULL;
}

aorta_status aorta_gpu_notes_failure(struct gpu_device *device, const struct gpu_notes *notes) {
    aorta_status failure = NULL;
    pthread_mutex_lock(&device->notes_lock);
    for (size_t i = 0; i < notes->count && !failure; i++) {
        struct gpu_note *note = notes->items[i];
        if (!note->failure) note->failure = aorta_annotate(note->check(note->user), "stream %s", note->stream);
        failure = aorta_status_copy(note->failure);
    }
    pthread_mutex_unlock(&device->notes_lock);
    return failure;
}
