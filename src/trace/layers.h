/* How many repetitions of a loop make a step: the layers of a model run equal kernels, and only their times differ.
 */
#ifndef AORTA_TRACE_LAYERS_H
#define AORTA_TRACE_LAYERS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct aorta_layers {
    size_t period;   /* repetitions of the loop in a step; 0: nothing shows */
    int64_t first;   /* a repetition that begins a step */
    double strength; /* of the evidence, in standard deviations */
};

/* Replaces *best where these values, one for each repetition, show a period with more evidence: those that are a whole
 * number of periods apart are alike, whatever the scale (the test of Kruskal and Wallis). A period of two does not
 * count: programs alternate between two buffers. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_layers_find(const int64_t *values, size_t count, struct aorta_layers *best);

#endif
