/* Steps of a program that marks none: training repeats itself, and the repetition can be found in the order of kernels.
 *
 * On the stream of compute, a kernel that runs once a step divides the recording. The kernels of which that seems true
 * are those that come back after the same number of others most of the time; what they divide must then also be equal,
 * kernel by kernel. A step begins behind the optimizer's last kernel, or else where the device was idle longest. */
#ifndef AORTA_TIMELINE_INFER_H
#define AORTA_TIMELINE_INFER_H

#include "timeline/trace.h"

/* Gives traces without steps those that repetition shows, three at least, and sets steps_inferred. Of several traces
 * with device work all or none get steps; a step has the same number in all of them, as far as their times show.
 * Nothing happens where nothing repeats. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_infer_steps(struct aorta_trace_list *list);

#endif
