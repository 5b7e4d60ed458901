/* gzip, unpacked on a thread of its own into a ring of blocks, so that unpacking and reading run side by side. */
#include "base/thread.h"
#include "formats/inflate.h"
#include "formats/source_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 4, BLOCK_BYTES = 512 * 1024, FIRST_BYTES = 64 * 1024, PACKED_BYTES = 128 * 1024 };

struct gzip_source {
    struct aorta_source base;
    char *path;
    int file;
    pthread_t thread;

    pthread_mutex_t mutex; /* for the members below, up to the blocks' content */
    pthread_cond_t changed;
    size_t filled, taken; /* blocks since the start; block i lives in slot i % BLOCKS */
    bool ended, stop, cut;
    aorta_status failure; /* of the thread, once it has ended */
    struct {
        char *bytes;
        size_t length;
    } blocks[BLOCKS];

    size_t offset; /* in the block being handed out; the reader's own */

    /* the thread's own */
    struct aorta_inflate inflate;
    unsigned char *packed;
    int64_t packed_bytes; /* read from the file so far */
};

/* ---- the thread ---- */

/* The next slot to fill; NULL when the reader has gone. */
static char *wait_for_slot(struct gzip_source *self) {
    pthread_mutex_lock(&self->mutex);
    while (!self->stop && self->filled - self->taken == BLOCKS) pthread_cond_wait(&self->changed, &self->mutex);
    char *bytes = self->stop ? NULL : self->blocks[self->filled % BLOCKS].bytes;
    pthread_mutex_unlock(&self->mutex);
    return bytes;
}

static void hand_over(struct gzip_source *self, size_t length) {
    if (!length) return;
    pthread_mutex_lock(&self->mutex);
    self->blocks[self->filled % BLOCKS].length = length;
    self->filled++;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

static aorta_status fetch_packed(struct gzip_source *self, bool *more) {
    ssize_t count;
    do count = read(self->file, self->packed, PACKED_BYTES);
    while (count < 0 && errno == EINTR);
    if (count < 0) return AORTA_ERROR(AORTA_IO, "cannot read %s: %s", self->path, strerror(errno));
    self->inflate.in = self->packed;
    self->inflate.in_left = (size_t)count;
    self->packed_bytes += count;
    *more = count > 0;
    return NULL;
}

/* After the end of a member: another one begins, or nothing but zeros (padding of tapes) follows. */
static aorta_status next_member(struct gzip_source *self, bool *more) {
    for (*more = true;;) {
        if (!self->inflate.in_left) AORTA_TRY(fetch_packed(self, more));
        if (!*more || self->inflate.in[0]) return NULL;
        self->inflate.in++;
        self->inflate.in_left--;
    }
}

/* *more is false when the file has come to its end. */
static aorta_status unpack_some(struct gzip_source *self, bool *more) {
    struct aorta_inflate *inflate = &self->inflate;
    const size_t place = inflate->out_left;
    bool fetched = true;
    if (!inflate->in_left) AORTA_TRY(fetch_packed(self, &fetched));
    if (aorta_inflate(inflate)) return next_member(self, more);
    if (inflate->broken)
        return AORTA_ERROR(AORTA_FORMAT, "%s: broken gzip data near packed byte %lld: %s", self->path,
                           (long long)self->packed_bytes - (long long)inflate->in_left, inflate->broken);
    self->cut = !fetched && inflate->out_left == place;
    if (!self->cut) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "%s is cut off: the packed data ends at byte %lld in the middle", self->path,
                       (long long)self->packed_bytes);
}

/* Fills one block; the first ones in part, as of many files only the beginning is read. */
static aorta_status unpack_block(struct gzip_source *self, char *bytes, size_t *length, bool *more) {
    const size_t place = self->filled < BLOCKS ? FIRST_BYTES : BLOCK_BYTES;
    self->inflate.out = (unsigned char *)bytes;
    self->inflate.out_left = place;
    aorta_status status = NULL;
    while (!status && *more && self->inflate.out_left) status = unpack_some(self, more);
    *length = place - self->inflate.out_left;
    return status;
}

static void *unpack(void *argument) {
    struct gzip_source *self = argument;
    aorta_status status = NULL;
    bool more = true;
    while (!status && more) {
        char *bytes = wait_for_slot(self);
        if (!bytes) break;
        size_t length = 0;
        status = unpack_block(self, bytes, &length, &more);
        hand_over(self, length);
    }
    pthread_mutex_lock(&self->mutex);
    self->failure = status;
    self->ended = true;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}

/* ---- the reader ---- */

static aorta_status gzip_read(struct aorta_source *source, char *buffer, size_t capacity, size_t *got) {
    struct gzip_source *self = (struct gzip_source *)source;
    *got = 0;
    pthread_mutex_lock(&self->mutex);
    while (!self->ended && self->filled == self->taken) pthread_cond_wait(&self->changed, &self->mutex);
    bool available = self->filled > self->taken;
    aorta_status failure = NULL;
    if (!available) {
        failure = self->failure;
        self->failure = NULL;
        source->truncated = self->cut;
    }
    pthread_mutex_unlock(&self->mutex);
    if (!available) return failure;

    size_t slot = self->taken % BLOCKS, left = self->blocks[slot].length - self->offset;
    *got = left < capacity ? left : capacity;
    memcpy(buffer, self->blocks[slot].bytes + self->offset, *got);
    self->offset += *got;
    if (*got < left) return NULL;
    self->offset = 0;
    pthread_mutex_lock(&self->mutex);
    self->taken++;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}

static void release(struct gzip_source *self) {
    aorta_status_free(self->failure);
    aorta_inflate_end(&self->inflate);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->mutex);
    for (int i = 0; i < BLOCKS; i++) free(self->blocks[i].bytes);
    free(self->packed);
    free(self->path);
    close(self->file);
    free(self);
}

static void gzip_close(struct aorta_source *source) {
    struct gzip_source *self = (struct gzip_source *)source;
    pthread_mutex_lock(&self->mutex);
    self->stop = true;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->mutex);
    pthread_join(self->thread, NULL);
    release(self);
}

static const struct aorta_source_kind gzip_kind = {gzip_read, gzip_close};

static bool prepare(struct gzip_source *self, const char *path) {
    bool complete = true;
    for (int i = 0; i < BLOCKS; i++) complete &= (self->blocks[i].bytes = malloc(BLOCK_BYTES)) != NULL;
    self->packed = malloc(PACKED_BYTES);
    self->path = strdup(path);
    return complete && self->packed && self->path && aorta_inflate_begin(&self->inflate);
}

aorta_status aorta_source_gzip(const char *path, int file, struct aorta_source **source) {
    struct gzip_source *self = calloc(1, sizeof *self);
    if (!self) {
        close(file);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to unpack %s", path);
    }
    self->base.kind = &gzip_kind;
    self->file = file;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->changed, NULL);
    if (!prepare(self, path)) {
        release(self);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to unpack %s", path);
    }
    int error = aorta_thread_start(&self->thread, unpack, self);
    if (error) {
        release(self);
        return AORTA_ERROR(AORTA_MEMORY, "cannot start the thread that unpacks %s: %s", path, strerror(error));
    }
    *source = &self->base;
    return NULL;
}
