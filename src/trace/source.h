/* Sources of a trace's bytes: a plain file, or one packed with gzip (unpacked on a thread of its own), zstd, xz, bzip2
 * or lz4. Tests add a source in memory (tests/json_memory.h). */
#ifndef AORTA_TRACE_SOURCE_H
#define AORTA_TRACE_SOURCE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The packing of a file, by its bytes. */
enum aorta_packing {
    AORTA_PACKING_NONE,
    AORTA_PACKING_GZIP,    /* a stream, unpacked by zlib */
    AORTA_PACKING_STREAM,  /* zstd, xz, bzip2, lz4 */
    AORTA_PACKING_ARCHIVE, /* zip, tar: files in a file */
};
/* By the first bytes; a tar needs 262 of them. */
enum aorta_packing aorta_packing_of(const char *bytes, size_t length);
/* The length of the name without ".gz", ".zst", … */
size_t aorta_packing_strip(const char *path);
/* Whether the name ends as archives' names do: ".zip", ".tar", ".tgz", ".tar.gz", … */
bool aorta_packing_is_archive_name(const char *path);

struct aorta_source {
    const struct aorta_source_kind {
        aorta_status (*read)(struct aorta_source *source, char *buffer, size_t capacity, size_t *got);
        void (*close)(struct aorta_source *source);
    } * kind;
    bool truncated, begun;
};

/* Packed files are recognised by content; gzip may have several members in sequence. A byte order mark of UTF-8 is
 * skipped. The path is borrowed. AORTA_IO names path and reason; AORTA_UNSUPPORTED: archive.h. */
AORTA_MUST_USE aorta_status aorta_source_open(const char *path, struct aorta_source **source);
void aorta_source_close(struct aorta_source *source); /* NULL is fine */

/* Up to `capacity` (> 0) bytes; *got is 0 at the end only. AORTA_IO: the file cannot be read. AORTA_FORMAT: the packed
 * data is broken (aorta_source_truncated: ends early); all bytes before the break were returned first. */
AORTA_MUST_USE aorta_status aorta_source_read(struct aorta_source *source, char *buffer, size_t capacity, size_t *got);
/* The first bytes of a file, fewer if it is shorter. No error if some bytes could be unpacked before a break.
 */
AORTA_MUST_USE aorta_status aorta_source_head(const char *path, char *bytes, size_t capacity, size_t *length);
/* All of a file of at most 2 GiB, and a NUL at its end; the caller frees it, also when it fails. AORTA_IO,
 * AORTA_MEMORY; AORTA_FORMAT: it is larger. */
AORTA_MUST_USE aorta_status aorta_source_load(const char *path, char **bytes, size_t *length);
bool aorta_source_truncated(const struct aorta_source *source);
/* Reads from an open file without unpacking; `path` names it in messages. AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_source_read_file(int file, const char *path, void *buffer, size_t capacity,
                                                   size_t *got);

/* A source of bytes that are written to a file. */
struct unpack_origin {
    aorta_status (*read)(void *from, char *buffer, size_t capacity, size_t *got);
    void *from;
    const char *shown;
    int64_t left; /* remaining limit of bytes, so that a malicious file cannot fill the disk */
    aorta_status (*too_much)(const char *shown);
};

AORTA_MUST_USE aorta_status aorta_unpack_folder(char *path);
/* Writes all bytes to a new file and creates its folders. */
AORTA_MUST_USE aorta_status aorta_unpack_write(struct unpack_origin *origin, char *path);

#endif
