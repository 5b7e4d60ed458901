/* The last operation of each rank of `aorta launch`, readable by the launcher even after the rank was killed.
 *
 * The launcher makes one small file, names it in AORTA_STATE_DIR, and every rank maps it: one fixed-size record per
 * rank. Writing is a copy of at most 100 bytes into shared memory, without locks and without system calls. Without
 * AORTA_STATE_DIR there is no beacon: aorta_beacon_open gives NULL and aorta_beacon_set does nothing.
 *
 * Threads: aorta_beacon_set may be called from several threads at once; everything else by one thread. */
#ifndef AORTA_JOB_BEACON_H
#define AORTA_JOB_BEACON_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AORTA_BEACON_TEXT 96 /* bytes of an operation's text, with the NUL; longer ones are cut */

struct aorta_beacon;

/* ---- for ranks ---- */

/* The record of `rank` in the file that AORTA_STATE_DIR names; *beacon is NULL when the variable is not set.
 * AORTA_IO when the file exists but cannot be used. */
AORTA_MUST_USE aorta_status aorta_beacon_open(int rank, struct aorta_beacon **beacon);
/* Reports the operation that this rank begins ("all_gather #12 of 2 ranks, 1.0 MiB"). `beacon` may be NULL. */
void aorta_beacon_set(struct aorta_beacon *beacon, const char *text);
/* The training step this rank is in; -1 (as at the start): none. `beacon` may be NULL. */
void aorta_beacon_step(struct aorta_beacon *beacon, int64_t step);
/* Reports that this rank has failed first, not because another ended. Call it before other ranks can notice, since this
 * process may take longer to end than theirs. The first call counts. `beacon` may be NULL. */
void aorta_beacon_failed(struct aorta_beacon *beacon);
/* How long this rank waits for its peers. The launcher waits as long for a stopped rank. `beacon` may be NULL. */
void aorta_beacon_timeout(struct aorta_beacon *beacon, double timeout_s);
void aorta_beacon_close(struct aorta_beacon *beacon); /* NULL is fine; the record stays */

/* ---- for the launcher and its per-rank wrapper ---- */

/* Makes the file in `directory` with a record for each of `ranks` ranks. */
AORTA_MUST_USE aorta_status aorta_beacon_create(const char *directory, int ranks);
AORTA_MUST_USE aorta_status aorta_beacon_open_at(const char *directory, int rank, struct aorta_beacon **beacon);
/* The program of this rank has started (its pid, or 0 if it is about to start, and its process group, which its wrapper
 * leads), or has ended with a status as from waitpid. */
void aorta_beacon_started(struct aorta_beacon *beacon, int pid, int group);
void aorta_beacon_ended(struct aorta_beacon *beacon, int wait_status);

struct aorta_beacon_state {
    int pid, group; /* 0: never started */
    bool ended;
    int wait_status;              /* as from waitpid, when ended */
    int64_t ended_ns;             /* aorta_clock_ns */
    int64_t failed_ns;            /* when it reported its failure; 0: it did not */
    int64_t step;                 /* -1: none */
    int64_t timeout_ns;           /* 0: not reported */
    int64_t reported_ns;          /* when the last operation was reported; 0: never */
    char text[AORTA_BEACON_TEXT]; /* "": none */
};
/* A consistent copy of the record of any rank now. */
struct aorta_beacon_state aorta_beacon_read(const struct aorta_beacon *beacon, int rank);

#endif
