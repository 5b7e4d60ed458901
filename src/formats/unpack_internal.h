/* Writes unpacked bytes into the temporary folder: unpack.c for single files, unpack_archive.c for archives. */
#ifndef AORTA_FORMATS_UNPACK_INTERNAL_H
#define AORTA_FORMATS_UNPACK_INTERNAL_H

#include "formats/unpack.h"

enum { UNPACK_MOST_TIMES = 1000, UNPACK_SMALL = 1 << 26 };

static const int64_t UNPACK_MOST_INPUT = INT64_C(4) << 30; /* bytes of the standard input */

/* Where bytes come from. */
struct unpack_origin {
    aorta_status (*read)(void *from, char *buffer, size_t capacity, size_t *got);
    void *from;
    const char *shown;
    int64_t left; /* bytes that may still come; what unpacks to more is no trace but meant to fill the disk */
    aorta_status (*too_much)(const char *shown);
};
static inline int64_t aorta_unpack_most_bytes(int64_t packed) {
    return packed < INT64_MAX / UNPACK_MOST_TIMES - UNPACK_SMALL ? packed * UNPACK_MOST_TIMES + UNPACK_SMALL
                                                                 : INT64_MAX;
}

/* All bytes into a new file; makes its folders. */
AORTA_MUST_USE aorta_status aorta_unpack_write(struct unpack_origin *origin, char *path);
AORTA_MUST_USE aorta_status aorta_unpack_archive(const char *path, const char *folder, struct aorta_skipped *skipped);

AORTA_MUST_USE aorta_status aorta_unpack_no_memory(void);
AORTA_MUST_USE aorta_status aorta_unpack_too_much(const char *shown);

#endif
