/* The calls of CUDA's interfaces whose times are recorded: what launches, waits for the device, or can make it wait.
 * Numbers are those of cupti_runtime_cbid.h and cupti_driver_cbid.h, which never change;
 * tests/record/test_calls.c compares them with the headers where these are installed. */
#ifndef AORTA_RECORD_INJECT_CALLS_H
#define AORTA_RECORD_INJECT_CALLS_H

#include <stdint.h>

struct aorta_inject_call {
    uint32_t kind; /* AORTA_CUPTI_KIND_RUNTIME or _DRIVER */
    uint32_t id;
    const char *name; /* without the version after it in NVIDIA's list */
};

extern const struct aorta_inject_call aorta_inject_calls[];
extern const uint32_t aorta_inject_call_count;

/* NULL: none of them. */
const struct aorta_inject_call *aorta_inject_call_of(uint32_t kind, uint32_t id);
/* Which part of a recording it is: enum aorta_spool_part. */
uint32_t aorta_inject_call_part(const struct aorta_inject_call *call);

#endif
