/* From CUPTI's records to the spool's. One thread. */
#ifndef AORTA_RECORD_INJECT_RECORDS_H
#define AORTA_RECORD_INJECT_RECORDS_H

#include "measure/cupti_abi.h"
#include "record/inject/spool.h"

enum { AORTA_INJECT_DEVICES = 64 };

struct aorta_inject_records { /* zero-initialise */
    uint32_t parts;           /* enum aorta_spool_part: other calls are dropped */
    struct aorta_inject_names names;
    uint8_t known_devices[AORTA_INJECT_DEVICES]; /* already described */
    uint64_t unfinished;
};

/* Calls of other parts are dropped; device work without times counts as unfinished. */
void aorta_inject_record(struct aorta_inject_records *records, struct aorta_spool *spool,
                         const struct aorta_cupti_activity *activity);

#endif
