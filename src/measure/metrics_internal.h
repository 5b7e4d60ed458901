/* One iteration as one JSON line: the rows that write it, read it back and document it (docs/metrics-format.md). In
 * the structs NaN, AORTA_ROW_UNKNOWN and NULL mean that the line has no such value, or null. */
#ifndef AORTA_MEASURE_METRICS_INTERNAL_H
#define AORTA_MEASURE_METRICS_INTERNAL_H

#include "base/rows.h"
#include "measure/metrics.h"

extern const struct aorta_row aorta_step_rows[]; /* of struct aorta_step_metrics */

extern const struct aorta_row aorta_device_rows[]; /* of struct aorta_metrics_device */
extern const struct aorta_row aorta_peaks_rows[];  /* of struct aorta_measured_peaks */
/* Rows of struct aorta_device_reading, before and after the limits of the clock. */
extern const struct aorta_row aorta_clocks_rows[], aorta_clocks_at_rows[];

extern const struct aorta_row aorta_profile_rows[];      /* of struct aorta_profile */
extern const struct aorta_row aorta_kernel_facts_rows[]; /* of struct aorta_kernel_facts */

struct aorta_line_range {
    struct aorta_range range; /* without the facts below */
    const char *dims, *dtype, *collective;
    int role, kind; /* enum aorta_role; enum aorta_range_kind */
    int64_t duration_ns;
    double algbw_gbps, busbw_gbps;
};
extern const struct aorta_row aorta_range_rows[];

extern const struct aorta_row aorta_marker_rows[]; /* of struct aorta_marker */
extern const struct aorta_row aorta_host_rows[];   /* of struct aorta_host_range */

#endif
