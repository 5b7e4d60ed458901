/* From CUPTI's records of device work to ours: for the tracer and for the library in other people's programs. */
#ifndef AORTA_MEASURE_CUPTI_RECORDS_H
#define AORTA_MEASURE_CUPTI_RECORDS_H

#include "measure/cupti_abi.h"
#include "measure/tracer.h"

/* False: it is no device work. The name of a kernel is CUPTI's, and lives as long as the activity's buffer. */
bool aorta_cupti_decode(const struct aorta_cupti_activity *activity, struct aorta_activity_record *record);
/* False: it was given out before it had ended, and its times are none. */
bool aorta_cupti_is_finished(const struct aorta_activity_record *record);

#endif
