#include "trace/source.h"

#include <isa-l/igzip_lib.h>
#include <stdlib.h>

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
