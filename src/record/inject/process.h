/* The process that is recorded, which is not ours: its CUPTI, its settings of the recording, and its identity. */
#ifndef AORTA_RECORD_INJECT_PROCESS_H
#define AORTA_RECORD_INJECT_PROCESS_H

#include "measure/cupti_abi.h"
#include "record/inject/settings.h"
#include "record/inject/spool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- CUPTI: the library the process already has, or the one that suits its driver ---- */

struct aorta_inject_cupti {
    struct aorta_cupti_api api;                          /* register_clock is not used: see spool_format.h */
    uint32_t (*enable_runtime)(uint32_t id, uint8_t on); /* NULL before CUDA 12.5 */
    uint32_t (*enable_driver)(uint32_t id, uint8_t on);
    uint32_t (*enable_domain)(uint32_t on, void *subscriber, uint32_t domain);
    uint32_t (*finalize)(void);
    void *handle;
    char path[1024];
    char tried[1024];         /* the paths tried, when nothing was found */
    uint32_t version, driver; /* 0: not known */
};

/* `wish`: a path to be tried once no libcupti is loaded yet; may be NULL. */
bool aorta_inject_cupti_open(struct aorta_inject_cupti *cupti, const char *wish);

/* A name of the driver's library, where it is loaded; NULL. */
void *aorta_inject_driver_symbol(const char *name);

/* Whether another profiler has subscribed in this process. Takes and gives back the one subscription there is, so it
 * is asked only at the start and when no records come. `name`: the other's, where CUPTI names it. */
bool aorta_inject_cupti_taken(const struct aorta_inject_cupti *cupti, char name[64]);

/* ---- the environment ---- */

int64_t aorta_inject_time_of_day(void); /* ns since 1970 */

/* A whole number from 0 on in this variable of the environment; `fallback` without it. */
int64_t aorta_inject_setting(const char *name, int64_t fallback);
/* Parts of the record (AORTA_SPOOL_…). A word that is not known cannot come from our command: everything is recorded.
 */
uint32_t aorta_inject_parts_wished(void);
enum aorta_inject_stage aorta_inject_stage_wished(void);

/* The spool's record of the process: rank, host, command, CUPTI. */
void aorta_inject_put_process(struct aorta_spool *spool, const struct aorta_inject_cupti *cupti, uint32_t parts);

/* ---- leaving CUPTI ----
 * Removes CUPTI from a program that continues to run.
 *
 * Disabling all records is not enough: CUPTI, once used, slows every call of CUDA's interfaces down, and PyTorch's
 * users saw 10 to 20% of a step remain (github.com/pytorch/pytorch/pull/146604). cuptiFinalize removes it.
 * NVIDIA wants it called where a call of CUDA's ends (cupti_activity.h at cuptiFinalize), so a subscriber is put there
 * for a moment, and the program's next call takes CUPTI out on its own thread. Programs with CUDA graphs crashed before
 * CUDA 12.6, so there CUPTI stays. */

struct aorta_inject_detach { /* zero-initialise; stays where it is, for CUPTI holds its address */
    _Atomic int phase;
    void *subscriber;
    uint32_t result; /* of cuptiFinalize, once it is done */
    const struct aorta_inject_cupti *cupti;
};

/* Asks for it, once. NULL, or why CUPTI stays: it is too old, or another's by now. Everything must be disabled and
 * flushed before. */
const char *aorta_inject_detach_ask(struct aorta_inject_detach *detach, const struct aorta_inject_cupti *cupti);
/* Whether CUPTI is gone, or has refused to go (`result`). No function of it may be called any more then: it would come
 * back. */
bool aorta_inject_detach_done(const struct aorta_inject_detach *detach);
/* The program ends: if none of its calls has come by, it need not. */
void aorta_inject_detach_cancel(struct aorta_inject_detach *detach);
/* In a child made by fork, which has no CUDA: without a call of CUPTI's. */
void aorta_inject_detach_forget(struct aorta_inject_detach *detach);

#endif
