/* The clock of the device while iterations are timed (profile/clocks.h): read before and after them, and twice a second
 * between, on a thread of its own that touches nothing else. On a CPU nothing is read. */
#ifndef AORTA_HWQ_WATCH_H
#define AORTA_HWQ_WATCH_H

#include "measure/clocks.h"

struct aorta_hwq_watch;

/* Opens the library of the vendor, which takes a while. */
AORTA_MUST_USE aorta_status aorta_hwq_watch_open(struct aorta_device *device, struct aorta_hwq_watch **watch);
AORTA_MUST_USE aorta_status aorta_hwq_watch_begin(struct aorta_hwq_watch *watch);
/* To be called while the device is still warm. */
AORTA_MUST_USE aorta_status aorta_hwq_watch_end(struct aorta_hwq_watch *watch, struct aorta_clocks *clocks);
void aorta_hwq_watch_close(struct aorta_hwq_watch *watch); /* NULL is fine; also without an end */

#endif
