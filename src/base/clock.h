/* The host clock. The CPU device's clock is the same one, so that host and device times compare directly. */
#ifndef AORTA_BASE_CLOCK_H
#define AORTA_BASE_CLOCK_H

#include <stdint.h>

int64_t aorta_clock_ns(void);  /* CLOCK_MONOTONIC, ns: common to all processes of one host */
int64_t aorta_clock_day(void); /* CLOCK_REALTIME, ns since 1970 */

#endif
