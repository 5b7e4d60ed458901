#include "comm/backend.h"

#include <stdio.h>

/* Bytes of the larger buffer of one rank, as nccl-tests count. */
static double larger_buffer(const struct aorta_comm_call *call, int size) {
    bool blocks =
        call->kind == AORTA_ALL_GATHER || call->kind == AORTA_REDUCE_SCATTER || call->kind == AORTA_ALL_TO_ALL;
    return (double)call->count * (double)aorta_dtype_size(call->dtype) * (blocks ? size : 1);
}

void aorta_comm_describe(const struct aorta_comm_call *call, uint64_t sequence, int size,
                         char text[AORTA_BEACON_TEXT]) {
    double bytes = larger_buffer(call, size);
    int length = snprintf(text, AORTA_BEACON_TEXT, "%s #%llu of %d ranks", aorta_collective_name(call->kind),
                          (unsigned long long)sequence, size);
    if (call->kind == AORTA_BARRIER) return;
    text += length;
    size_t room = AORTA_BEACON_TEXT - (size_t)length;
    if (bytes < 10240)
        snprintf(text, room, ", %.0f bytes", bytes);
    else if (bytes < 1048576)
        snprintf(text, room, ", %.1f KiB", bytes / 1024);
    else
        snprintf(text, room, ", %.1f MiB", bytes / 1048576);
}
