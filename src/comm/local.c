/* One rank: what it would receive is what it sends. */
#include "comm/backend.h"

static aorta_status local_open(const struct aorta_comm_options *options, struct aorta_comm *comm) {
    (void)options;
    comm->rank = 0;
    comm->size = 1;
    return NULL;
}

static aorta_status local_split(struct aorta_comm *parent, const int *ranks, int count, struct aorta_comm *comm) {
    (void)parent;
    (void)ranks;
    (void)count;
    return local_open(NULL, comm);
}

static void local_close(struct aorta_comm *comm) {
    (void)comm;
}

static aorta_status local_enqueue(struct aorta_comm *comm, struct aorta_stream *stream,
                                  const struct aorta_comm_call *call) {
    (void)comm;
    for (int i = 0; i < call->piece_count; i++) {
        const struct aorta_comm_piece *piece = &call->pieces[i];
        if (piece->send == piece->receive || piece->count == 0) continue; /* in place, broadcast, barrier */
        AORTA_TRY(aorta_copy(stream, piece->receive, piece->send, piece->count * aorta_dtype_size(call->dtype)));
    }
    return NULL;
}

const struct aorta_comm_backend aorta_comm_local = {
    .name = "local",
    .simulated = true,
    .open = local_open,
    .split = local_split,
    .close = local_close,
    .enqueue = local_enqueue,
};
