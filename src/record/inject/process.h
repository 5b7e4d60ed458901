/* The environment of the process: settings of the recording, and the process's identity. */
#ifndef AORTA_INJECT_PROCESS_H
#define AORTA_INJECT_PROCESS_H

#include "record/inject/cupti.h"
#include "record/inject/settings.h"
#include "record/inject/spool.h"

#include <stdint.h>

int64_t aorta_inject_time_of_day(void); /* ns since 1970 */

/* A whole number from 0 on in this variable of the environment; `fallback` without it. */
int64_t aorta_inject_setting(const char *name, int64_t fallback);
/* Parts of the record (AORTA_SPOOL_…). A word that is not known cannot come from our command: everything is recorded.
 */
uint32_t aorta_inject_parts_wished(void);
enum aorta_inject_stage aorta_inject_stage_wished(void);

/* The spool's record of the process: rank, host, command, CUPTI. */
void aorta_inject_put_process(struct aorta_spool *spool, const struct aorta_inject_cupti *cupti, uint32_t parts);

#endif
