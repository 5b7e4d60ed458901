/* How a workload scales with the number of streams. */
#ifndef AORTA_HWQ_SWEEP_H
#define AORTA_HWQ_SWEEP_H

#include "hwq/result.h"

struct aorta_hwq_scaling {
    double *efficiencies; /* per-stream throughput over that of the first count; owned */
    int inflection_point; /* first count whose efficiency is 20% or more below the one before; 0: none */
    int peak_streams;     /* with the highest throughput */
};
/* `results` in the order of their stream counts, at least one. A throughput that is not positive has efficiency NaN
 * and is ignored. */
AORTA_MUST_USE aorta_status aorta_hwq_scaling_make(const struct aorta_hwq_result *results, size_t count,
                                                   struct aorta_hwq_scaling *scaling);
void aorta_hwq_scaling_free(struct aorta_hwq_scaling *scaling);
void aorta_hwq_sweep_text(const struct aorta_hwq_result *results, size_t count, const struct aorta_hwq_scaling *scaling,
                          struct aorta_text *out);
void aorta_hwq_sweep_json(const struct aorta_hwq_result *results, size_t count, const struct aorta_hwq_scaling *scaling,
                          struct aorta_json *json);
/* That JSON as a file. */
AORTA_MUST_USE aorta_status aorta_hwq_sweep_write(const struct aorta_hwq_result *results, size_t count,
                                                  const char *path);

#endif
