/* Writes scalars as TensorBoard reads them: a file of TFRecords (length, its masked crc32c, bytes, their masked crc32c;
 * tensorflow/core/lib/io/record_writer.h), each an Event (tensorflow/core/util/event.proto) with a Summary of simple
 * values. */
#ifndef AORTA_REPORT_TENSORBOARD_H
#define AORTA_REPORT_TENSORBOARD_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct aorta_board_scalar {
    char tag[96]; /* "aorta/step_ms": the part before the slash is TensorBoard's section */
    double value; /* stored as a float; one that is not known (NaN) is left out */
};

struct aorta_tensorboard;
/* A new file in the directory, which is made where it is missing: TensorBoard reads all of a directory together.
 * AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_tensorboard_open(const char *directory, struct aorta_tensorboard **board);
/* One event, written at once. AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_tensorboard_write(struct aorta_tensorboard *board, double wall_s, int64_t step,
                                                    const struct aorta_board_scalar *scalars, size_t count);
void aorta_tensorboard_close(struct aorta_tensorboard *board); /* NULL is fine */

#endif
