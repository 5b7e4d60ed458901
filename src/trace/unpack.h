/* Inputs that are no files of their own: the standard input ("-"), archives, and packed files of formats whose readers
 * need plain ones. They become files of a temporary folder, which ends with the list of traces. */
#ifndef AORTA_TRACE_UNPACK_H
#define AORTA_TRACE_UNPACK_H

#include "base/text.h"
#include "trace/trace.h"

/* A path of the temporary folder, and the user's name for it. */
struct aorta_unpacked_name {
    char *path, *shown; /* owned */
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
    struct aorta_unpacked_name *names;
    size_t count, capacity;
    size_t folders; /* made so far */
    bool guarded;   /* as aorta_trace_options has it */
};
void aorta_unpacking_free(struct aorta_unpacking *unpacking); /* not the files */

/* *place is the path itself if it can be read as it is, else the unpacked file, or the folder with an archive's files
 * that have a trace's suffix. The caller frees it. AORTA_IO, AORTA_UNSUPPORTED; AORTA_FORMAT: broken, or unpacked it
 * would be more than a thousand times as large. */
AORTA_MUST_USE aorta_status aorta_unpack(struct aorta_unpacking *unpacking, const char *path, char **place);
/* Whether an archive lists a file that aorta_unpack would take. AORTA_FORMAT, AORTA_UNSUPPORTED. */
AORTA_MUST_USE aorta_status aorta_unpack_lists(const char *path, bool *any);

/* Traces from the `from`th on, and messages, name what the user named; the first trace names what was skipped.
 * AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_unpack_name_traces(const struct aorta_unpacking *unpacking, size_t from);
AORTA_MUST_USE aorta_status aorta_unpack_name_failure(const struct aorta_unpacking *unpacking, aorta_status status);

/* Where bytes come from. */
struct unpack_origin {
    aorta_status (*read)(void *from, char *buffer, size_t capacity, size_t *got);
    void *from;
    const char *shown;
    int64_t left; /* bytes that may still come; a file that unpacks to more is meant to fill the disk */
    aorta_status (*too_much)(const char *shown);
};

/* All bytes into a new file; makes its folders. */
AORTA_MUST_USE aorta_status aorta_unpack_write(struct unpack_origin *origin, char *path);

#endif
