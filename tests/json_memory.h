/* JSON from memory, as the readers get it from files. */
#ifndef AORTA_TESTS_JSON_MEMORY_H
#define AORTA_TESTS_JSON_MEMORY_H

#include "trace/json_stream.h"
#include "trace/source.h"

#include <stdlib.h>
#include <string.h>

struct memory_source {
    struct aorta_source base;
    const char *bytes;
    size_t left, piece;
};

static aorta_status memory_read(struct aorta_source *source, char *buffer, size_t capacity, size_t *got) {
    struct memory_source *self = (struct memory_source *)source;
    size_t count = capacity < self->left ? capacity : self->left;
    if (self->piece && count > self->piece) count = self->piece;
    *got = count;
    if (!count) return NULL; /* where nothing was given, `bytes` may be NULL */
    memcpy(buffer, self->bytes, count);
    self->bytes += count;
    self->left -= count;
    return NULL;
}

static void memory_close(struct aorta_source *source) {
    free(source);
}

/* The bytes are borrowed, and handed over in pieces of at most `piece` (0: as asked for). */
static inline aorta_status json_memory(const char *bytes, size_t length, size_t piece, const char *name,
                                       struct aorta_json_stream **stream) {
    static const struct aorta_source_kind kind = {memory_read, memory_close};
    struct memory_source *self = malloc(sizeof *self);
    if (!self) return AORTA_ERROR(AORTA_MEMORY, "no memory to read a trace");
    *self = (struct memory_source){.base.kind = &kind, .bytes = bytes, .left = length, .piece = piece};
    return aorta_json_stream_of(&self->base, name, stream);
}

#endif
