/* The kernel view of an iteration: a profile whose ranges are the kernels and copies that ran. aorta_overlap_compute
 * works on it unchanged. Rules: docs/metrics.md. */
#ifndef AORTA_MEASURE_KERNELS_H
#define AORTA_MEASURE_KERNELS_H

#include "measure/tracer.h"
#include "trace/kernel_names.h"

/* Ranges of *profile: tag is the kernel's name, kind follows from the name, role is the usual one of that kind until
 * aorta_kernels_join finds a better one, stream counts the library's streams in order of first use. Timestamps that the
 * recorder queued are removed and counted (profile->kernels). Records need no order. */
AORTA_MUST_USE aorta_status aorta_kernels_profile(const struct aorta_activity_record *records, size_t count,
                                                  struct aorta_profile *profile);

/* Joins the kernels of an iteration with its ranges: a kernel belongs to the range in which it was launched, or its
 * node captured. Kernels get what ranges know: role, function, layer, group, bytes, flops, launch time and the range's
 * tag (info.within); and the host's ranges and the markers. Ranges get their times, from their first kernel's start to
 * their last one's end; those without a kernel go. `records`: of which *kernels was made. done_ns: the time that the
 * last of the iteration's timestamps wrote, by which the records' clock is brought to the device's
 * (profile->kernels.clock_offset_ns); INT64_MIN: it is left as it is. */
AORTA_MUST_USE aorta_status aorta_kernels_join(struct aorta_profile *kernels,
                                               const struct aorta_activity_record *records,
                                               struct aorta_profile *ranges, const struct aorta_launches *launches,
                                               int64_t done_ns);

#endif
