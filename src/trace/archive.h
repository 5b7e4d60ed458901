/* libarchive unpacks every packing except gzip (source.h). It is opened at first use, so that neither the build nor the
 * package depends on it. */
#ifndef AORTA_TRACE_ARCHIVE_H
#define AORTA_TRACE_ARCHIVE_H

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "trace/trace.h"

#include <sys/types.h>

/* Writes the path of libarchive to `path`. False if it is not installed. */
bool aorta_archive_library(char *path, size_t capacity);

/* An open archive. With `stream` it is a single packed file without a name. */
struct aorta_archive;
/* Reads from the descriptor, which stays the caller's. `path` is for messages and borrowed. AORTA_UNSUPPORTED: the
 * library is not installed. */
AORTA_MUST_USE aorta_status aorta_archive_open(const char *path, int file, bool stream, struct aorta_archive **archive);
void aorta_archive_close(struct aorta_archive *archive); /* NULL is fine */
/* Texts are valid until the next call. */
struct aorta_archive_member {
    const char *name; /* NULL at the end */
    const char *link; /* the target if the member is a link; else NULL */
    bool symbolic;    /* `link` is relative to the link's folder, not to the archive's */
    bool file;        /* regular, no link */
    int64_t bytes;    /* 0: not known */
};
/* The next member. AORTA_FORMAT: broken. */
AORTA_MUST_USE aorta_status aorta_archive_next(struct aorta_archive *archive, struct aorta_archive_member *member);
/* Reads up to `capacity` bytes of the member; *got is 0 at its end. */
AORTA_MUST_USE aorta_status aorta_archive_read(struct aorta_archive *archive, char *buffer, size_t capacity,
                                               size_t *got);
/* Whether the last failure was for data that end early. */
bool aorta_archive_truncated(const struct aorta_archive *archive);

/* Inputs that must be unpacked first: the standard input ("-"), archives, and packed files of formats whose readers
 * need plain files. They are written to a temporary folder, which is removed with the list of traces. */

/* A path of the temporary folder, and the user's name for it. */
struct aorta_unpacked_name {
    const char *path, *shown;
};
/* Files with a trace's name that are not read. */
struct aorta_skipped {
    struct aorta_text names;
    size_t count;
};
void aorta_skip(struct aorta_skipped *skipped, const char *folder, const char *name, const char *why);

struct aorta_unpacking {
    struct aorta_trace_list *list;
    struct aorta_skipped skipped;
    struct aorta_arena memory; /* of names and of the paths that aorta_unpack returns */
    struct aorta_unpacked_name *names;
    size_t count, capacity;
    size_t folders; /* made so far */
    bool guarded;   /* as aorta_trace_options has it */
};

/* *place is the path itself if it can be read as it is, else the unpacked file, or for an archive the folder with its
 * files that have a trace's suffix. `path` must live as long as the unpacking. AORTA_IO, AORTA_UNSUPPORTED;
 * AORTA_FORMAT if the file is broken or unpacks to more than a thousand times its size. */
AORTA_MUST_USE aorta_status aorta_unpack(struct aorta_unpacking *unpacking, const char *path, const char **place);
/* Whether an archive lists a file that aorta_unpack would take. AORTA_FORMAT, AORTA_UNSUPPORTED. */
AORTA_MUST_USE aorta_status aorta_unpack_lists(const char *path, bool *any);

#endif
