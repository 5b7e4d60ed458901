/* A gate before the device: nothing queued behind it runs until the host opens it.
 *
 * A kernel on a stream of its own looks at a flag in pinned memory; every stream of the workload waits for the event
 * behind it. Streams that share a hardware queue with the gate's are held by that as well. The kernel gives up after
 * AORTA_HWQ_GATE_LIMIT_S, so that a host held up in a launch (the device's queues being full) comes free again. */
#ifndef AORTA_HWQ_GATE_H
#define AORTA_HWQ_GATE_H

#include "hwq/workload.h"

#define AORTA_HWQ_GATE_LIMIT_S 2.0

struct aorta_hwq_barrier;
AORTA_MUST_USE aorta_status aorta_hwq_gate_create(struct aorta_hwq *hwq, struct aorta_hwq_barrier **gate);
void aorta_hwq_gate_destroy(struct aorta_hwq_barrier *gate); /* NULL is fine */
/* Streams idle: from now on all of the workload's streams wait. */
AORTA_MUST_USE aorta_status aorta_hwq_gate_close(struct aorta_hwq_barrier *gate);
void aorta_hwq_gate_open(struct aorta_hwq_barrier *gate);
/* Streams idle again: whether the gate held until it was opened. */
bool aorta_hwq_gate_held(const struct aorta_hwq_barrier *gate);

#endif
