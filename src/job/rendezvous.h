/* The ranks of a job meet without MPI: rank 0 serves a small store of keys and values over TCP.
 *
 * Place. MASTER_ADDR and MASTER_PORT name rank 0's place. Rank 0 listens at the first free one of
 * AORTA_RENDEZVOUS_PORTS ports from MASTER_PORT on; all other ranks try these ports in turn until one answers as rank 0
 * of this run. So a port that another program has taken needs no agreement. Under torchrun MASTER_PORT itself belongs
 * to the store of torchrun's agent (TORCHELASTIC_USE_AGENT_STORE=True), so the ports begin one after it.
 *
 * Membership: every message begins with a magic number and a version. A handshake carries the number of ranks, the
 * sender's rank, the run (a hash of variables that launchers set differently for each run), and its token:
 * AORTA_RUN_TOKEN, which `aorta launch` draws at random, so that no other process can connect. Under torchrun and srun
 * there is none unless the user sets one.
 *
 * A rank whose connection ends before it has signed off has died; every rank can query this.
 *
 * Threads: the calls of one rendezvous may come from several threads; they take turns. */
#ifndef AORTA_JOB_RENDEZVOUS_H
#define AORTA_JOB_RENDEZVOUS_H

#include "job/ranks.h"

#include <stddef.h>
#include <stdint.h>

#define AORTA_RENDEZVOUS_PORTS 8
#define AORTA_RENDEZVOUS_KEY 64 /* bytes of a key, with the NUL */
#define AORTA_RENDEZVOUS_VALUE 4096
#define AORTA_RENDEZVOUS_TOKEN 64 /* bytes, with the NUL */

struct aorta_rendezvous;

struct aorta_rendezvous_options {
    const char *address; /* host name, IPv4 or IPv6 address of rank 0; borrowed during open */
    int port;            /* the first that is tried */
    int rank, world_size;
    uint64_t run;                       /* equal on all ranks of a run, and not that of another run */
    double timeout_s;                   /* until when all ranks must have connected */
    char token[AORTA_RENDEZVOUS_TOKEN]; /* equal on all ranks, padded with zeros; "": none */
};

/* Place and run as the environment has them; `instance` numbers the openings of one run. AORTA_USAGE when
 * MASTER_ADDR or MASTER_PORT is missing. */
AORTA_MUST_USE aorta_status aorta_rendezvous_find(const struct aorta_ranks *ranks, uint64_t instance, double timeout_s,
                                                  struct aorta_rendezvous_options *options);

/* Returns once all ranks have connected. AORTA_TIMEOUT names the ranks that are missing; AORTA_COMM says what does not
 * fit (two processes with one rank, another number of ranks, no free port). */
AORTA_MUST_USE aorta_status aorta_rendezvous_open(const struct aorta_rendezvous_options *options,
                                                  struct aorta_rendezvous **rendezvous);
/* Signs off. Rank 0 stays until all have, are lost, or timeout_s is over. NULL is fine. */
void aorta_rendezvous_close(struct aorta_rendezvous *rendezvous);

/* A key is set once. */
AORTA_MUST_USE aorta_status aorta_rendezvous_set(struct aorta_rendezvous *rendezvous, const char *key,
                                                 const void *value, size_t bytes);
/* Waits until the key is set; its value must have exactly `bytes`. AORTA_TIMEOUT after timeout_s; AORTA_COMM at once
 * when a rank has died. */
AORTA_MUST_USE aorta_status aorta_rendezvous_get(struct aorta_rendezvous *rendezvous, const char *key, void *value,
                                                 size_t bytes, double timeout_s);
/* The first rank that has died; -1: none. */
int aorta_rendezvous_lost(struct aorta_rendezvous *rendezvous);
/* A heartbeat of this rank, which is ready or not. *state: AORTA_RENDEZVOUS_READY once all ranks are ready; the number
 * of a rank that is not and has sent no heartbeat for timeout_s; else AORTA_RENDEZVOUS_WAITS. AORTA_COMM when a rank
 * has died. */
enum { AORTA_RENDEZVOUS_READY = -1, AORTA_RENDEZVOUS_WAITS = -2 };
AORTA_MUST_USE aorta_status aorta_rendezvous_beat(struct aorta_rendezvous *rendezvous, bool ready, int *state);

#endif
