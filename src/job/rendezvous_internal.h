/* Messages between the ranks and the store, and the store's own thread. Internal to rendezvous*.c. */
#ifndef AORTA_JOB_RENDEZVOUS_INTERNAL_H
#define AORTA_JOB_RENDEZVOUS_INTERNAL_H

#include "job/rendezvous.h"

#define WIRE_MAGIC 0x41525633u /* "ARV3": changes with the messages; read backwards on a host of other byte order */

enum wire_kind {
    WIRE_HELLO, /* rank → store: a handshake */
    WIRE_SET,   /* rank → store */
    WIRE_GET,   /* rank → store: answered when the key is set */
    WIRE_PING,  /* rank → store: `number` of the answer is the first lost rank or -1 */
    WIRE_BEAT, /* rank → store: `number` is whether it is ready; that of the answer as aorta_rendezvous_beat has it */
    WIRE_BYE,  /* rank → store */
    WIRE_ACCEPTED, /* store → rank: the handshake matches; wait for the other ranks */
    WIRE_DONE,     /* store → rank: value of a GET, end of a SET; after ACCEPTED: all ranks are connected */
    WIRE_FAILED,   /* store → rank: `number` is an aorta_code, the value a text */
    WIRE_OTHER_RUN /* store → rank: this is the store of another run */
};

/* Every message; `bytes` of a value follow it. */
struct wire_message {
    uint32_t magic, kind;
    int32_t number;
    uint32_t bytes;
    double timeout_s;
    char key[AORTA_RENDEZVOUS_KEY];
};

struct wire_handshake {
    int32_t rank, world_size;
    uint64_t run;
    char token[AORTA_RENDEZVOUS_TOKEN];
};

/* Sends all of it, waiting for at most a few seconds; false when the other side has gone. */
bool wire_send(int fd, const struct wire_message *message, const void *value);

/* ---- the store ---- */

struct store;

/* Serves the ranks that come to `listener`, and rank 0 itself through *own (which the caller closes). Takes over
 * `listener`. `place` is how messages call it. */
AORTA_MUST_USE aorta_status store_start(const struct aorta_rendezvous_options *options, int listener, const char *place,
                                        int *own, struct store **store);
/* Waits until all ranks have signed off, are lost, or the time is over. */
void store_end(struct store *store);

#endif
