#include "trace/source.h"

#include <stdlib.h>
#include <zlib.h>

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
