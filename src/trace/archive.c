#include "trace/archive.h"

#include "base/shared_library.h"

#include <errno.h>
#include <stdio.h>
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

/* ---- what is packed ---- */

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

/* The length without the suffix; 0: it has another one. */
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

/* ---- gzip ---- */

#ifdef AORTA_ISAL
bool aorta_inflate_begin(struct aorta_inflate *bytes) {
    struct inflate_state *state = bytes->state = malloc(sizeof *state);
    if (!state) return false;
    isal_inflate_init(state);
    state->crc_flag = ISAL_GZIP;
    return true;
}

static const char *reason_of(int result) {
    switch (result) {
    case ISAL_INVALID_SYMBOL:
        return "invalid code";
    case ISAL_INVALID_LOOKBACK:
        return "invalid distance";
    case ISAL_INVALID_WRAPPER:
        return "incorrect header";
    case ISAL_UNSUPPORTED_METHOD:
        return "unknown compression method";
    case ISAL_INCORRECT_CHECKSUM:
        return "incorrect checksum or length";
    default:
        return "invalid block";
    }
}

bool aorta_inflate(struct aorta_inflate *bytes) {
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

void aorta_inflate_end(struct aorta_inflate *bytes) {
    free(bytes->state);
}

#else
enum { GZIP_WINDOW = 15 + 16 };

bool aorta_inflate_begin(struct aorta_inflate *bytes) {
    z_stream *state = bytes->state = calloc(1, sizeof *state);
    return state && inflateInit2(state, GZIP_WINDOW) == Z_OK;
}

bool aorta_inflate(struct aorta_inflate *bytes) {
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

void aorta_inflate_end(struct aorta_inflate *bytes) {
    if (bytes->state) inflateEnd(bytes->state);
    free(bytes->state);
}
#endif

/* ---- libarchive ---- */

struct archive;
struct archive_entry;

enum { ARCHIVE_EOF = 1, ARCHIVE_OK = 0, ARCHIVE_WARN = -20 };

/* As archive.h and archive_entry.h of libarchive 3.2 to 3.7 declare them. */
struct archive_api {
    struct archive *(*make)(void);
    int (*free)(struct archive *);
    int (*zip)(struct archive *), (*tar)(struct archive *), (*raw)(struct archive *);
    int (*gzip)(struct archive *), (*zstd)(struct archive *), (*xz)(struct archive *), (*bzip2)(struct archive *),
        (*lz4)(struct archive *);
    int (*open)(struct archive *, int file, size_t block);
    int (*next)(struct archive *, struct archive_entry **);
    ssize_t (*read)(struct archive *, void *, size_t);
    const char *(*error)(struct archive *);
    const char *(*name)(struct archive_entry *), *(*raw_name)(struct archive_entry *);
    const char *(*symbolic)(struct archive_entry *), *(*hard)(struct archive_entry *);
    int64_t (*size)(struct archive_entry *);
    mode_t (*type)(struct archive_entry *);
};

static const char *const library_names[] = {"libarchive.so.13", "libarchive.so", NULL};

#define AT(member) offsetof(struct archive_api, member)
static const struct aorta_symbol symbols[] = {
    {"archive_read_new", AT(make), true},
    {"archive_read_free", AT(free), true},
    {"archive_read_support_format_zip", AT(zip), true},
    {"archive_read_support_format_tar", AT(tar), true},
    {"archive_read_support_format_raw", AT(raw), true},
    {"archive_read_support_filter_gzip", AT(gzip), true},
    {"archive_read_support_filter_zstd", AT(zstd), true},
    {"archive_read_support_filter_xz", AT(xz), true},
    {"archive_read_support_filter_bzip2", AT(bzip2), true},
    {"archive_read_support_filter_lz4", AT(lz4), true},
    {"archive_read_open_fd", AT(open), true},
    {"archive_read_next_header", AT(next), true},
    {"archive_read_data", AT(read), true},
    {"archive_error_string", AT(error), true},
    {"archive_entry_pathname_utf8", AT(name), true},
    {"archive_entry_pathname", AT(raw_name), true},
    {"archive_entry_symlink", AT(symbolic), true},
    {"archive_entry_hardlink", AT(hard), true},
    {"archive_entry_size", AT(size), true},
    {"archive_entry_filetype", AT(type), true},
};
#undef AT

static const struct aorta_library_description description = {
    .purpose = "reading packed files",
    .names = library_names,
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof *symbols,
    .install = "install it (Debian, Ubuntu: libarchive13 or libarchive13t64), or unpack the file",
};

struct aorta_archive {
    struct archive_api api;
    struct archive *handle;
    const char *path;
    bool truncated;
};

bool aorta_archive_library(char *path, size_t capacity) {
    struct archive_api api;
    struct aorta_library library;
    aorta_status status = aorta_library_open(&description, &api, &library);
    const bool found = !status;
    aorta_status_free(status);
    if (found) snprintf(path, capacity, "%s", library.path);
    return found;
}

static aorta_status failure(struct aorta_archive *archive) {
    const char *reason = archive->api.error(archive->handle);
    if (!reason) reason = "broken";
    archive->truncated = strcasestr(reason, "truncated") || strcasestr(reason, "unexpected end");
    return AORTA_ERROR(AORTA_FORMAT, "%s: cannot be unpacked: %s", archive->path, reason);
}

/* Formats and filters one by one: those of "all" start programs. */
static aorta_status open_handle(struct aorta_archive *archive, int file, bool stream) {
    enum { BLOCK = 1 << 17 };
    const struct archive_api *api = &archive->api;
    int (*const filters[])(struct archive *) = {api->gzip, api->zstd, api->xz, api->bzip2, api->lz4};
    archive->handle = api->make();
    if (!archive->handle) return AORTA_ERROR(AORTA_MEMORY, "no memory to unpack %s", archive->path);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) filters[i](archive->handle);
    if (stream) {
        api->raw(archive->handle);
    } else {
        api->zip(archive->handle);
        api->tar(archive->handle);
    }
    return api->open(archive->handle, file, BLOCK) == ARCHIVE_OK ? NULL : failure(archive);
}

aorta_status aorta_archive_open(const char *path, int file, bool stream, struct aorta_archive **archive) {
    struct aorta_archive *made = calloc(1, sizeof *made);
    struct aorta_library library;
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no memory to unpack %s", path);
    made->path = path;
    aorta_status status = aorta_annotate(aorta_library_open(&description, &made->api, &library), "%s", path);
    if (!status) status = open_handle(made, file, stream);
    if (status) {
        aorta_archive_close(made);
        return status;
    }
    *archive = made;
    return NULL;
}

void aorta_archive_close(struct aorta_archive *archive) {
    if (archive && archive->handle) archive->api.free(archive->handle);
    free(archive);
}

aorta_status aorta_archive_next(struct aorta_archive *archive, struct aorta_archive_member *member) {
    const struct archive_api *api = &archive->api;
    struct archive_entry *entry;
    *member = (struct aorta_archive_member){0};
    const int code = api->next(archive->handle, &entry);
    if (code == ARCHIVE_EOF) return NULL;
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) return failure(archive);
    const mode_t type = api->type(entry);
    const char *name = api->name(entry), *symbolic = api->symbolic(entry), *hard = api->hard(entry);
    if (!name) name = api->raw_name(entry); /* no UTF-8 */
    *member = (struct aorta_archive_member){.name = name ? name : "",
                                            .link = symbolic ? symbolic : hard,
                                            .symbolic = symbolic,
                                            .file = !symbolic && !hard && (!type || S_ISREG(type)),
                                            .bytes = api->size(entry)};
    return NULL;
}

aorta_status aorta_archive_read(struct aorta_archive *archive, char *buffer, size_t capacity, size_t *got) {
    const ssize_t count = archive->api.read(archive->handle, buffer, capacity);
    *got = count > 0 ? (size_t)count : 0;
    return count < 0 ? failure(archive) : NULL;
}

bool aorta_archive_truncated(const struct aorta_archive *archive) {
    return archive->truncated;
}
