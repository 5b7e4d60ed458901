/* Inside the sources: the common head and the kinds that unpack. */
#ifndef AORTA_FORMATS_SOURCE_INTERNAL_H
#define AORTA_FORMATS_SOURCE_INTERNAL_H

#include "formats/source.h"

struct aorta_source_kind {
    aorta_status (*read)(struct aorta_source *source, char *buffer, size_t capacity, size_t *got);
    void (*close)(struct aorta_source *source);
};

struct aorta_source {
    const struct aorta_source_kind *kind;
    bool truncated, begun;
};

/* Unpacks the open file on its own thread; takes the descriptor over, also when it fails. */
AORTA_MUST_USE aorta_status aorta_source_gzip(const char *path, int file, struct aorta_source **source);

/* The same for what libarchive unpacks. */
AORTA_MUST_USE aorta_status aorta_source_stream(const char *path, int file, struct aorta_source **source);

#endif
