/* Where ranges of collectives begin (profiling.collective_start): with the collective's kernel where that can be
 * witnessed, else when the device has room for it. What the kernel needs is learnt once for each collective of a step,
 * from a capture that is thrown away. */
#ifndef AORTA_TRAIN_ROOMS_H
#define AORTA_TRAIN_ROOMS_H

#include "train/context.h"

struct aorta_rooms;

/* *rooms is NULL where ranges begin with their streams: it is asked for, or the device cannot tell what kernels need.
 * The context's device, streams and groups are there. All functions take NULL and do nothing then. */
AORTA_MUST_USE aorta_status aorta_rooms_create(const struct aorta_train_context *context, struct aorta_rooms **rooms);
void aorta_rooms_destroy(struct aorta_rooms *rooms); /* before the streams of the context */

/* Room for a collective that is about to be queued on `stream`, for aorta_range_begin_room; without a footprint where
 * nothing is known. False: it should be learnt. */
bool aorta_rooms_find(const struct aorta_rooms *rooms, struct aorta_stream *stream,
                      const struct aorta_train_collective *collective, struct aorta_room *room);
/* After the collective has been queued for the first time (the library is connected then). All ranks of the group do
 * so in the same place; inside a capture nothing is learnt. */
AORTA_MUST_USE aorta_status aorta_rooms_learn(struct aorta_rooms *rooms, struct aorta_stream *stream,
                                              const struct aorta_train_collective *collective);

/* Stamps of a step come behind `begin`; `stream` comes behind all stamps. */
AORTA_MUST_USE aorta_status aorta_rooms_begin(struct aorta_rooms *rooms, struct aorta_event *begin);
AORTA_MUST_USE aorta_status aorta_rooms_join(struct aorta_rooms *rooms, struct aorta_stream *stream);

#endif
