#include "formats/source_internal.h"

#include "base/array.h"
#include "base/files.h"
#include "formats/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Enough bytes at once to see whether they begin with the mark, which is left out. */
static aorta_status read_first(struct aorta_source *source, char *buffer, size_t capacity, size_t *got) {
    enum { MARK = 3 };
    size_t more = 1;
    for (*got = 0; more && *got < MARK && *got < capacity; *got += more)
        AORTA_TRY(source->kind->read(source, buffer + *got, capacity - *got, &more));
    const size_t mark = aorta_utf8_mark(buffer, *got);
    if (!mark) return NULL;
    memmove(buffer, buffer + mark, *got - mark);
    *got -= mark;
    return *got ? NULL : source->kind->read(source, buffer, capacity, got);
}

aorta_status aorta_source_read(struct aorta_source *source, char *buffer, size_t capacity, size_t *got) {
    if (source->begun) return source->kind->read(source, buffer, capacity, got);
    source->begun = true;
    return read_first(source, buffer, capacity, got);
}

bool aorta_source_truncated(const struct aorta_source *source) {
    return source->truncated;
}

void aorta_source_close(struct aorta_source *source) {
    if (source) source->kind->close(source);
}

/* ---- a plain file ---- */
struct file_source {
    struct aorta_source base;
    int file;
    char *path;
};

static aorta_status file_read(struct aorta_source *source, char *buffer, size_t capacity, size_t *got) {
    struct file_source *self = (struct file_source *)source;
    ssize_t count;
    do count = read(self->file, buffer, capacity);
    while (count < 0 && errno == EINTR);
    if (count < 0) return AORTA_ERROR(AORTA_IO, "cannot read %s: %s", self->path, strerror(errno));
    *got = (size_t)count;
    return NULL;
}

static void file_close(struct aorta_source *source) {
    struct file_source *self = (struct file_source *)source;
    close(self->file);
    free(self->path);
    free(self);
}

static const struct aorta_source_kind file_kind = {file_read, file_close};

static aorta_status open_plain(const char *path, int file, struct aorta_source **source) {
    struct file_source *self = calloc(1, sizeof *self);
    char *copy = strdup(path);
    if (!self || !copy) {
        free(self);
        free(copy);
        close(file);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", path);
    }
    *self = (struct file_source){{&file_kind, false, false}, file, copy};
    *source = &self->base;
    return NULL;
}

aorta_status aorta_source_open(const char *path, struct aorta_source **source) {
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0) return AORTA_ERROR(AORTA_IO, "cannot open %s: %s", path, strerror(errno));
    struct stat facts;
    if (fstat(file, &facts) == 0 && S_ISDIR(facts.st_mode)) {
        close(file);
        return AORTA_ERROR(AORTA_IO, "cannot read %s: it is a directory", path);
    }
    char magic[8];
    ssize_t count = pread(file, magic, sizeof magic, 0);
    if (count < 0) { /* a pipe, say: it would have to be read twice */
        aorta_status status =
            AORTA_ERROR(AORTA_IO, "cannot read %s: %s (a regular file is needed)", path, strerror(errno));
        close(file);
        return status;
    }
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL); /* only makes it faster */
    const enum aorta_packing packing = aorta_packing_of(magic, (size_t)count);
    if (packing == AORTA_PACKING_GZIP) return aorta_source_gzip(path, file, source);
    if (packing == AORTA_PACKING_STREAM) return aorta_source_stream(path, file, source);
    return open_plain(path, file, source);
}

/* ---- memory ---- */
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

static const struct aorta_source_kind memory_kind = {memory_read, memory_close};

aorta_status aorta_source_memory(const char *bytes, size_t length, size_t piece, struct aorta_source **source) {
    struct memory_source *self = malloc(sizeof *self);
    if (!self) return AORTA_ERROR(AORTA_MEMORY, "no memory to read a trace");
    *self = (struct memory_source){{&memory_kind, false, false}, bytes, length, piece};
    *source = &self->base;
    return NULL;
}

static aorta_status load(struct aorta_source *source, const char *path, char **bytes, size_t *length) {
    static const size_t MOST = (size_t)2 << 30;
    enum { PIECE = 1 << 20 };
    size_t capacity = 0, got = 1;
    for (*length = 0; got; *length += got) {
        if (!aorta_array_fit(bytes, &capacity, *length + PIECE + 1, 1))
            return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", path);
        AORTA_TRY(aorta_source_read(source, *bytes + *length, PIECE, &got));
        if (*length + got > MOST) return AORTA_ERROR(AORTA_FORMAT, "%s: more than 2 GiB, which no such file has", path);
    }
    (*bytes)[*length] = '\0';
    return NULL;
}

aorta_status aorta_source_load(const char *path, char **bytes, size_t *length) {
    struct aorta_source *source;
    AORTA_TRY(aorta_source_open(path, &source));
    aorta_status status = load(source, path, bytes, length);
    aorta_source_close(source);
    return status;
}
