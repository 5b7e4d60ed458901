#include "base/files.h"
#include "formats/merge_internal.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { ENOUGH = 1 << 18, PACKED = 1 << 16 };

struct aorta_merge_sink {
    struct aorta_file_writer *file;
    struct aorta_text text;
    bool packs, begun;
    z_stream packer;
    unsigned char packed[PACKED];
};

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

aorta_status aorta_merge_sink_open(const char *path, struct aorta_merge_sink **out) {
    enum { GZIP = 15 + 16 }; /* window bits, and gzip's frame instead of zlib's */
    struct aorta_merge_sink *sink = calloc(1, sizeof *sink);
    if (!sink) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory to write it", path);
    sink->packs = ends_with(path, ".gz");
    aorta_status status = aorta_file_begin(path, &sink->file);
    if (!status && sink->packs) {
        int code = deflateInit2(&sink->packer, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY);
        sink->begun = code == Z_OK;
        if (!sink->begun) status = AORTA_ERROR(AORTA_MEMORY, "%s: no memory to pack it", path);
    }
    if (status) {
        aorta_merge_sink_discard(sink);
        return status;
    }
    *out = sink;
    return NULL;
}

struct aorta_text *aorta_merge_sink_text(struct aorta_merge_sink *sink) {
    return &sink->text;
}

static aorta_status pack(struct aorta_merge_sink *sink, int flush) {
    sink->packer.next_in = (unsigned char *)sink->text.data;
    sink->packer.avail_in = (unsigned)sink->text.length;
    do {
        sink->packer.next_out = sink->packed;
        sink->packer.avail_out = PACKED;
        deflate(&sink->packer, flush); /* cannot fail with space in both buffers */
        AORTA_TRY(aorta_file_append(sink->file, (const char *)sink->packed, PACKED - sink->packer.avail_out));
    } while (sink->packer.avail_out == 0);
    return NULL;
}

static aorta_status write_out(struct aorta_merge_sink *sink, int flush) {
    AORTA_TRY(aorta_text_check(&sink->text));
    if (sink->packs)
        AORTA_TRY(pack(sink, flush));
    else
        AORTA_TRY(aorta_file_append(sink->file, sink->text.data, sink->text.length));
    aorta_text_clear(&sink->text);
    return NULL;
}

aorta_status aorta_merge_sink_flush(struct aorta_merge_sink *sink) {
    return sink->text.length < ENOUGH ? aorta_text_check(&sink->text) : write_out(sink, Z_NO_FLUSH);
}

static void release(struct aorta_merge_sink *sink) {
    if (sink->begun) deflateEnd(&sink->packer);
    aorta_text_free(&sink->text);
    free(sink);
}

aorta_status aorta_merge_sink_commit(struct aorta_merge_sink *sink) {
    aorta_status status = write_out(sink, Z_FINISH);
    if (status) {
        aorta_merge_sink_discard(sink);
        return status;
    }
    status = aorta_file_commit(sink->file);
    release(sink);
    return status;
}

void aorta_merge_sink_discard(struct aorta_merge_sink *sink) {
    if (!sink) return;
    aorta_file_discard(sink->file);
    release(sink);
}
