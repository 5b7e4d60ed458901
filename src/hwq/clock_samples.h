/* Samples the device's clock while iterations are timed: before and after them, and twice a second in between, on a
 * thread of its own. On a CPU there is nothing to sample. */
#ifndef AORTA_HWQ_CLOCK_SAMPLES_H
#define AORTA_HWQ_CLOCK_SAMPLES_H

#include "measure/clocks.h"

struct aorta_hwq_clock_sampler;

/* Opens the library of the vendor, which takes a while. */
AORTA_MUST_USE aorta_status aorta_hwq_clock_sampler_open(struct aorta_device *device,
                                                         struct aorta_hwq_clock_sampler **sampler);
AORTA_MUST_USE aorta_status aorta_hwq_clock_sampler_begin(struct aorta_hwq_clock_sampler *sampler);
/* Call it directly after the last iteration. */
AORTA_MUST_USE aorta_status aorta_hwq_clock_sampler_end(struct aorta_hwq_clock_sampler *sampler,
                                                        struct aorta_clocks *clocks);
void aorta_hwq_clock_sampler_close(struct aorta_hwq_clock_sampler *sampler); /* NULL is fine; also without an end */

#endif
