/* Reports of the fake libcuda to the stand-in for CUPTI, once the program has loaded that: the numbers of its calls,
 * the nodes of its graphs, and every run of a kernel, copy or fill. Without the stand-in all of this does nothing. */
#ifndef AORTA_TESTS_FAKE_GPU_RECORDS_H
#define AORTA_TESTS_FAKE_GPU_RECORDS_H

#include "device/device.h"

enum fake_work { FAKE_COPY = 1, FAKE_FILL = 2, FAKE_KERNEL = 10 }; /* CUpti_ActivityKind */

void fake_records_call(uint32_t callback); /* a call of this number in cupti_driver_cbid.h */

/* Around the queueing of one piece of work: its launch is numbered, in a capture it becomes a node, and when it runs it
 * is recorded. */
struct fake_record;
struct fake_record *fake_record_begin(struct aorta_stream *stream, enum fake_work kind, const char *name, size_t bytes);
void fake_record_end(struct aorta_stream *stream, struct fake_record *record);

struct fake_nodes; /* of a capture; they stay for as long as the library */
void fake_records_capture(void);
struct fake_nodes *fake_records_captured(void);
void fake_records_instantiate(const struct fake_nodes *nodes);
void fake_records_replay(struct fake_nodes *nodes, struct aorta_stream *stream);

#endif
