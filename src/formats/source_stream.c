/* zstd, xz, bzip2 and lz4, unpacked by libarchive as they are asked for. */
#include "formats/archive.h"
#include "formats/source_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct stream_source {
    struct aorta_source base;
    struct aorta_archive *archive;
    char *path;
    int file;
};

static aorta_status stream_read(struct aorta_source *source, char *buffer, size_t capacity, size_t *got) {
    struct stream_source *self = (struct stream_source *)source;
    aorta_status status = aorta_archive_read(self->archive, buffer, capacity, got);
    source->truncated = status && aorta_archive_truncated(self->archive);
    return status;
}

static void stream_close(struct aorta_source *source) {
    struct stream_source *self = (struct stream_source *)source;
    aorta_archive_close(self->archive);
    close(self->file);
    free(self->path);
    free(self);
}

static const struct aorta_source_kind stream_kind = {stream_read, stream_close};

static aorta_status open_stream(struct stream_source *self) {
    struct aorta_archive_member member;
    AORTA_TRY(aorta_archive_open(self->path, self->file, true, &self->archive));
    AORTA_TRY(aorta_archive_next(self->archive, &member));
    return member.name ? NULL : AORTA_ERROR(AORTA_FORMAT, "%s: nothing is packed in it", self->path);
}

aorta_status aorta_source_stream(const char *path, int file, struct aorta_source **source) {
    struct stream_source *self = calloc(1, sizeof *self);
    char *copy = strdup(path);
    if (!self || !copy) {
        free(self);
        free(copy);
        close(file);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", path);
    }
    *self = (struct stream_source){.base = {.kind = &stream_kind}, .path = copy, .file = file};
    aorta_status status = open_stream(self);
    if (status)
        stream_close(&self->base);
    else
        *source = &self->base;
    return status;
}
