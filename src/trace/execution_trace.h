/* PyTorch's execution traces (ExecutionTraceObserver, Chakra): the operations of a process with the shapes, types and
 * values of their inputs, without times. Beside a trace of torch.profiler of the same process, recorded without
 * record_shapes, they say what its operations worked on: both have the numbers of PyTorch's record functions.
 *
 * Read from torch/csrc/profiler/standalone/execution_trace_observer.cpp (schemas 1.0.1 to 1.1.1). */
#ifndef AORTA_TRACE_EXECUTION_TRACE_H
#define AORTA_TRACE_EXECUTION_TRACE_H

#include "trace/json_stream.h"
#include "trace/operations.h"
#include "trace/trace.h"

struct aorta_execution_traces; /* of several processes */

/* Whether a JSON file is one, by its beginning. */
bool aorta_execution_trace_is(const char *head, size_t length);

/* One more file; *traces is made with the first. AORTA_MEMORY, AORTA_IO, AORTA_FORMAT. */
AORTA_MUST_USE aorta_status aorta_execution_traces_add(struct aorta_execution_traces **traces,
                                                       struct aorta_json_stream *stream);
void aorta_execution_traces_free(struct aorta_execution_traces *traces);

/* Fills dims, types, values and strides of an operation, which has a name, as the profiler writes them. `function`,
 * `external`: its arguments "Record function id" and "External id", which old profilers write alone: that number plus
 * one. Unchanged: it is not there. Several threads may ask. */
void aorta_execution_traces_find(struct aorta_execution_traces *traces, int64_t process,
                                 struct aorta_json_value function, struct aorta_json_value external,
                                 struct aorta_operation *operation);

/* The trace says of which files nothing was ever found (AORTA_REASON_NO_PARTNER). */
void aorta_execution_traces_note_unused(const struct aorta_execution_traces *traces, struct aorta_trace *trace);

#endif
