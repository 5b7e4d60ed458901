/* Readings of the device in the metrics lines: --device-metrics, --enable-rocm-metrics, and the clocks of each GPU,
 * about once a second. */
#ifndef AORTA_TRAIN_READINGS_H
#define AORTA_TRAIN_READINGS_H

#include "measure/metrics.h"
#include "measure/sampler.h"
#include "train/context.h"
#include "train/train.h"

struct aorta_readings {
    struct aorta_sampler *sampler;       /* NULL: nothing is asked for, or nothing serves it */
    struct aorta_device_reading no_rocm; /* rocm_smi_output where ROCm SMI does not serve: null, and why */
    bool device, rocm;                   /* keys that readings go to */
    bool clocks;                         /* the device is a GPU */
    int64_t first_step, last_step;       /* whose clocks are read for certain */
    int64_t since_ns;                    /* when clocks were asked for first; 0: not yet */
    int64_t asked_ns, reported_ns;       /* when last; the reading reported last */
};

/* Warns on rank 0 when ROCm SMI is asked for and does not serve. */
AORTA_MUST_USE aorta_status aorta_readings_open(const struct aorta_train_run *run,
                                                const struct aorta_train_context *context,
                                                struct aorta_readings *readings);
void aorta_readings_close(struct aorta_readings *readings);
/* Before the first step: how many there will be. */
void aorta_readings_expect(struct aorta_readings *readings, int64_t total_steps);
/* Step `step` begins: a new reading is welcome. */
void aorta_readings_step(struct aorta_readings *readings, int64_t step);
/* `last`: no step is queued any more and no line follows, so that a reading which is being made may be waited for. */
void aorta_readings_report(struct aorta_readings *readings, bool last, struct aorta_step_metrics *metrics);

/* ---- peaks ---- */

/* The best of a few short products in the type in use, and of a few copies, by our own operations on the compute
 * stream: some 50 ms (peaks->cost_ms), all ranks at once, as in the steps. Rates of other types stay NaN; all do on
 * GPUs. */
AORTA_MUST_USE aorta_status aorta_train_measure_peaks(const struct aorta_train_context *context,
                                                      struct aorta_measured_peaks *peaks);

#endif
