/* Peaks of the CPU device, measured before the first step, as no vendor's table has them. */
#ifndef AORTA_TRAIN_PEAKS_H
#define AORTA_TRAIN_PEAKS_H

#include "train/context.h"

/* The best of a few short products in the type in use, and of a few copies, by our own operations on the compute
 * stream: some 50 ms (peaks->cost_ms), all ranks at once, as in the steps. Rates of other types stay NaN; all do on
 * GPUs. */
AORTA_MUST_USE aorta_status aorta_train_measure_peaks(const struct aorta_train_context *context,
                                                      struct aorta_measured_peaks *peaks);

#endif
