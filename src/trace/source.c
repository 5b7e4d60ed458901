#include "trace/source.h"
#include "base/array.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/thread.h"
#include "trace/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef AORTA_ISAL
#include <isa-l/igzip_lib.h>
#else
#include <zlib.h>
#endif

/* ---- packings ---- */

static const struct {
    enum aorta_packing packing;
    size_t at, length;
    const char *bytes;
} marks[] = {
    {AORTA_PACKING_GZIP, 0, 2, "\x1f\x8b"},           {AORTA_PACKING_STREAM, 0, 4, "\x28\xb5\x2f\xfd"}, /* zstd */
    {AORTA_PACKING_STREAM, 0, 6, "\xfd\x37zXZ\0"},    {AORTA_PACKING_STREAM, 0, 3, "BZh"},
    {AORTA_PACKING_STREAM, 0, 4, "\x04\x22\x4d\x18"}, /* lz4 */
    {AORTA_PACKING_ARCHIVE, 0, 4, "PK\3\4"},          /* zip */
    {AORTA_PACKING_ARCHIVE, 257, 5, "ustar"},         /* tar */
};

enum aorta_packing aorta_packing_of(const char *bytes, size_t length) {
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (length >= marks[i].at + marks[i].length && !memcmp(bytes + marks[i].at, marks[i].bytes, marks[i].length))
            return marks[i].packing;
    return AORTA_PACKING_NONE;
}

/* The length without the suffix; 0 if the path has another one. */
static size_t without(const char *path, size_t length, const char *suffix) {
    const size_t part = strlen(suffix);
    return length > part && !strncasecmp(path + length - part, suffix, part) ? length - part : 0;
}

size_t aorta_packing_strip(const char *path) {
    static const char *const suffixes[] = {".gz", ".zst", ".xz", ".bz2", ".lz4"};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const size_t left = without(path, length, suffixes[i]);
        if (left) return left;
    }
    return length;
}

bool aorta_packing_is_archive_name(const char *path) {
    const size_t length = aorta_packing_strip(path);
    return without(path, length, ".tar") || without(path, length, ".zip") || without(path, length, ".tgz");
}

/* ---- gzip: by ISA-L if it was found at build time (two to three times as fast), else by zlib ---- */

struct gunzip {
    const unsigned char *in;
    unsigned char *out;
    size_t in_left, out_left; /* at most 2 GiB */
    const char *broken;       /* the reason; NULL until it is broken */
    void *state;              /* the library's */
};

#ifdef AORTA_ISAL
static bool gunzip_begin(struct gunzip *bytes) {
    struct inflate_state *state = bytes->state = malloc(sizeof *state);
    if (!state) return false;
    isal_inflate_init(state);
    state->crc_flag = ISAL_GZIP;
    return true;
}

static const char *reason_of(int result) {
    static const struct {
        int result;
        const char *reason;
    } rows[] = {{ISAL_INVALID_SYMBOL, "invalid code"},
                {ISAL_INVALID_LOOKBACK, "invalid distance"},
                {ISAL_INVALID_WRAPPER, "incorrect header"},
                {ISAL_UNSUPPORTED_METHOD, "unknown compression method"},
                {ISAL_INCORRECT_CHECKSUM, "incorrect checksum or length"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].result == result) return rows[i].reason;
    return "invalid block";
}

static bool gunzip(struct gunzip *bytes) {
    struct inflate_state *state = bytes->state;
    state->next_in = (unsigned char *)bytes->in; /* it only reads there */
    state->avail_in = (uint32_t)bytes->in_left;
    state->next_out = bytes->out;
    state->avail_out = (uint32_t)bytes->out_left;
    const int result = isal_inflate(state);
    bytes->in = state->next_in;
    bytes->in_left = state->avail_in;
    bytes->out = state->next_out;
    bytes->out_left = state->avail_out;
    if (result < 0) bytes->broken = reason_of(result);
    if (result < 0 || state->block_state != ISAL_BLOCK_FINISH) return false;
    isal_inflate_reset(state);
    return true;
}

static void gunzip_end(struct gunzip *bytes) {
    free(bytes->state);
}

#else
enum { GZIP_WINDOW = 15 + 16 };

static bool gunzip_begin(struct gunzip *bytes) {
    z_stream *state = bytes->state = calloc(1, sizeof *state);
    return state && inflateInit2(state, GZIP_WINDOW) == Z_OK;
}

static bool gunzip(struct gunzip *bytes) {
    z_stream *state = bytes->state;
    state->next_in = (unsigned char *)bytes->in; /* it only reads there */
    state->avail_in = (uInt)bytes->in_left;
    state->next_out = bytes->out;
    state->avail_out = (uInt)bytes->out_left;
    const int result = inflate(state, Z_NO_FLUSH);
    bytes->in = state->next_in;
    bytes->in_left = state->avail_in;
    bytes->out = state->next_out;
    bytes->out_left = state->avail_out;
    if (result == Z_STREAM_END && inflateReset2(state, GZIP_WINDOW) == Z_OK) return true;
    if (result != Z_OK && result != Z_BUF_ERROR) bytes->broken = state->msg ? state->msg : zError(result);
    return false;
}

static void gunzip_end(struct gunzip *bytes) {
    if (bytes->state) inflateEnd(bytes->state);
    free(bytes->state);
}
#endif

/* ---- sources ---- */

aorta_status aorta_source_read_file(int file, const char *path, void *buffer, size_t capacity, size_t *got) {
    ssize_t count;
    do count = read(file, buffer, capacity);
    while (count < 0 && errno == EINTR);
    if (count < 0) return AORTA_ERROR(AORTA_IO, "cannot read %s: %s", path, strerror(errno));
    *got = (size_t)count;
    return NULL;
}

/* ---- gzip, unpacked on a thread of its own into a ring of blocks while earlier blocks are read ---- */

enum { BLOCKS = 4, BLOCK_BYTES = 512 * 1024, FIRST_BYTES = 64 * 1024, PACKED_BYTES = 128 * 1024 };

struct gzip_source {
    struct aorta_source base;
    const char *path;
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

    size_t offset; /* in the current block; used only by the reader */

    /* used only by the thread */
    struct gunzip inflate;
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
    AORTA_TRY(aorta_source_read_file(self->file, self->path, self->packed, PACKED_BYTES, &self->inflate.in_left));
    self->inflate.in = self->packed;
    self->packed_bytes += (int64_t)self->inflate.in_left;
    *more = self->inflate.in_left > 0;
    return NULL;
}

/* After the end of a member another one begins, or only zeros follow (padding of tapes). */
static aorta_status next_member(struct gzip_source *self, bool *more) {
    for (*more = true;;) {
        if (!self->inflate.in_left) AORTA_TRY(fetch_packed(self, more));
        if (!*more || self->inflate.in[0]) return NULL;
        self->inflate.in++;
        self->inflate.in_left--;
    }
}

/* *more is false at the end of the file. */
static aorta_status unpack_some(struct gzip_source *self, bool *more) {
    struct gunzip *inflate = &self->inflate;
    const size_t place = inflate->out_left;
    bool fetched = true;
    if (!inflate->in_left) AORTA_TRY(fetch_packed(self, &fetched));
    if (gunzip(inflate)) return next_member(self, more);
    if (inflate->broken)
        return AORTA_ERROR(AORTA_FORMAT, "%s: broken gzip data near packed byte %lld: %s", self->path,
                           (long long)self->packed_bytes - (long long)inflate->in_left, inflate->broken);
    self->cut = !fetched && inflate->out_left == place;
    if (!self->cut) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "%s is cut off: the packed data ends at byte %lld in the middle", self->path,
                       (long long)self->packed_bytes);
}

/* Fills one block; the first blocks only in part, as often only the beginning of a file is read. */
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
    gunzip_end(&self->inflate);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->mutex);
    for (int i = 0; i < BLOCKS; i++) free(self->blocks[i].bytes);
    free(self->packed);
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

static bool prepare(struct gzip_source *self) {
    bool complete = true;
    for (int i = 0; i < BLOCKS; i++) complete &= (self->blocks[i].bytes = malloc(BLOCK_BYTES)) != NULL;
    self->packed = malloc(PACKED_BYTES);
    return complete && self->packed && gunzip_begin(&self->inflate);
}

static aorta_status open_gzip(const char *path, int file, struct aorta_source **source) {
    struct gzip_source *self = calloc(1, sizeof *self);
    if (!self) {
        close(file);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to unpack %s", path);
    }
    self->base.kind = &gzip_kind;
    self->path = path;
    self->file = file;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->changed, NULL);
    if (!prepare(self)) {
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

/* ---- plain files; and zstd, xz, bzip2 and lz4, which libarchive unpacks on demand ---- */

struct file_source {
    struct aorta_source base;
    struct aorta_archive *archive; /* NULL: plain */
    const char *path;
    int file;
};

static aorta_status plain_read(struct aorta_source *source, char *buffer, size_t capacity, size_t *got) {
    const struct file_source *self = (const struct file_source *)source;
    return aorta_source_read_file(self->file, self->path, buffer, capacity, got);
}

static aorta_status stream_read(struct aorta_source *source, char *buffer, size_t capacity, size_t *got) {
    struct file_source *self = (struct file_source *)source;
    aorta_status status = aorta_archive_read(self->archive, buffer, capacity, got);
    source->truncated = status && aorta_archive_truncated(self->archive);
    return status;
}

static void file_close(struct aorta_source *source) {
    struct file_source *self = (struct file_source *)source;
    aorta_archive_close(self->archive);
    close(self->file);
    free(self);
}

static const struct aorta_source_kind plain_kind = {plain_read, file_close}, stream_kind = {stream_read, file_close};

static aorta_status open_stream(struct file_source *self) {
    struct aorta_archive_member member;
    AORTA_TRY(aorta_archive_open(self->path, self->file, true, &self->archive));
    AORTA_TRY(aorta_archive_next(self->archive, &member));
    return member.name ? NULL : AORTA_ERROR(AORTA_FORMAT, "%s: nothing is packed in it", self->path);
}

static aorta_status open_file(const char *path, int file, bool packed, struct aorta_source **source) {
    struct file_source *self = calloc(1, sizeof *self);
    if (!self) {
        close(file);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", path);
    }
    *self = (struct file_source){.base = {.kind = packed ? &stream_kind : &plain_kind}, .path = path, .file = file};
    aorta_status status = packed ? open_stream(self) : NULL;
    if (status)
        file_close(&self->base);
    else
        *source = &self->base;
    return status;
}

/* ---- all sources ---- */

/* Reads enough bytes to find a byte order mark, and drops it. */
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
    if (count < 0) { /* such as a pipe, which cannot be read twice */
        aorta_status status =
            AORTA_ERROR(AORTA_IO, "cannot read %s: %s (a regular file is needed)", path, strerror(errno));
        close(file);
        return status;
    }
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL); /* only makes it faster */
    const enum aorta_packing packing = aorta_packing_of(magic, (size_t)count);
    if (packing == AORTA_PACKING_GZIP) return open_gzip(path, file, source);
    return open_file(path, file, packing == AORTA_PACKING_STREAM, source);
}

/* ---- the beginning of a file, or all of it ---- */

aorta_status aorta_source_head(const char *path, char *bytes, size_t capacity, size_t *length) {
    struct aorta_source *source;
    AORTA_TRY(aorta_source_open(path, &source));
    aorta_status status = NULL;
    size_t got = 1;
    for (*length = 0; !status && got && *length < capacity; *length += got) {
        got = 0;
        status = aorta_source_read(source, bytes + *length, capacity - *length, &got);
    }
    aorta_source_close(source);
    if (!*length) return status;
    aorta_status_free(status);
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

/* ---- into a file ---- */

static aorta_status copy_bytes(struct unpack_origin *origin, int file, const char *path) {
    enum { PIECE = 1 << 16 };
    char *piece = malloc(PIECE);
    size_t got = 1;
    aorta_status status = piece ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory to unpack");
    while (!status && got) {
        status = origin->read(origin->from, piece, PIECE, &got);
        if (status) break;
        origin->left -= (int64_t)got;
        const int error = origin->left < 0 ? 0 : aorta_write_all(file, piece, got);
        if (origin->left < 0)
            status = origin->too_much(origin->shown);
        else if (error)
            status = AORTA_ERROR(AORTA_IO, "%s: cannot be unpacked to %s: %s (TMPDIR names the place)", origin->shown,
                                 aorta_shown(path).text, strerror(error));
    }
    free(piece);
    return status;
}

aorta_status aorta_unpack_folder(char *path) {
    char *slash = strrchr(path, '/');
    *slash = '\0';
    aorta_status status = aorta_directory_make(path);
    *slash = '/';
    return status;
}

aorta_status aorta_unpack_write(struct unpack_origin *origin, char *path) {
    AORTA_TRY(aorta_unpack_folder(path));
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return AORTA_ERROR(AORTA_IO, "%s: cannot be unpacked to %s: %s", origin->shown, aorta_shown(path).text,
                           strerror(errno));
    aorta_status status = copy_bytes(origin, file, path);
    if (close(file) && !status) status = AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno));
    return status;
}
