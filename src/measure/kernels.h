/* The kernel view of an iteration: a profile whose ranges are the kernels and copies that ran. aorta_overlap_compute
 * works on it unchanged. Rules: docs/measurement.md. */
#ifndef AORTA_MEASURE_KERNELS_H
#define AORTA_MEASURE_KERNELS_H

#include "measure/tracer.h"
#include "timeline/kernel_names.h"

/* Ranges of *profile: tag is the kernel's name, kind what its name says, role the usual one of that kind until
 * aorta_kernels_attribute knows better, stream counts the library's streams in order of first use. Stamps that the
 * recorder queued are left out and counted (profile->kernels). Records need no order. `patterns` may be NULL. */
AORTA_MUST_USE aorta_status aorta_kernels_profile(const struct aorta_trace_record *records, size_t count,
                                                  const struct aorta_kernel_patterns *patterns,
                                                  struct aorta_profile *profile);

/* Gives kernels what the ranges of the same iteration know: role, function, layer, group, bytes, flops, launch time and
 * the range's tag (info.within), where it is certain to which range a kernel belongs; and the host's ranges and the
 * markers. Shifts the kernels' clock where the stamps show that it differs (profile->kernels.clock_offset_ns). */
AORTA_MUST_USE aorta_status aorta_kernels_attribute(struct aorta_profile *kernels, const struct aorta_profile *ranges);

#endif
