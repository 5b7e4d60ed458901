/* Hardware queues for the fake GPU, whose streams are threads and would never block each other.
 *
 * FAKE_GPU_QUEUES=MODEL:Q,Q,… puts the streams, in the order in which they are made, into the queues of these numbers,
 * over and over; the driver's own first stream (its clock's) into none. Models:
 *   dispatch   a command is taken from its queue when all before it have been started; one that has to wait for its own
 *              stream holds up the queue (CUDA's connections)
 *   barrier    a command is taken from its queue when all before it have ended (an AQL queue with barrier bits) */
#ifndef AORTA_TESTS_FAKE_QUEUES_H
#define AORTA_TESTS_FAKE_QUEUES_H

#include "device/device.h"

void fake_queues_add(struct aorta_device *device, struct aorta_stream *stream);
void fake_queues_remove(struct aorta_stream *stream);

/* Around the queueing of each kernel and copy. */
void fake_queues_enter(struct aorta_stream *stream);
void fake_queues_leave(struct aorta_stream *stream);

#endif
