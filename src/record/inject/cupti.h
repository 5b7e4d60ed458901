/* CUPTI in a process that is not ours: the library the process already has, or the one that suits its driver. */
#ifndef AORTA_RECORD_INJECT_CUPTI_H
#define AORTA_RECORD_INJECT_CUPTI_H

#include "measure/cupti_abi.h"

#include <stdbool.h>

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

#endif
