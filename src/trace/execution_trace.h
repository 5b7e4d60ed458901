/* PyTorch's execution traces (ExecutionTraceObserver, Chakra): the operations of a process with the shapes, types and
 * values of their inputs, without times. Next to a trace of torch.profiler of the same process, recorded without
 * record_shapes, they add the inputs of its operations. Both have the numbers of PyTorch's record functions.
 *
 * Read from torch/csrc/profiler/standalone/execution_trace_observer.cpp (schemas 1.0.1 to 1.1.1). */
#ifndef AORTA_TRACE_EXECUTION_TRACE_H
#define AORTA_TRACE_EXECUTION_TRACE_H

#include "trace/json_stream.h"
#include "trace/trace.h"

struct aorta_execution_traces; /* of several processes */

/* Whether a JSON file is an execution trace, by its beginning. */
bool aorta_execution_trace_is(const char *head, size_t length);

/* Adds a file; *traces is created for the first one. AORTA_MEMORY, AORTA_IO, AORTA_FORMAT. */
AORTA_MUST_USE aorta_status aorta_execution_traces_add(struct aorta_execution_traces **traces,
                                                       struct aorta_json_stream *stream);
void aorta_execution_traces_free(struct aorta_execution_traces *traces);

/* Fills dims, types, values and strides of an operation, which has a name, as the profiler writes them. `function` is
 * its argument "Record function id"; `external` is "External id", that number plus one, and the only one that old
 * profilers write. The operation is unchanged if none is found. Thread-safe. */
void aorta_execution_traces_find(struct aorta_execution_traces *traces, int64_t process,
                                 struct aorta_json_value function, struct aorta_json_value external,
                                 struct aorta_operation *operation);

/* Warns in the trace of files from which no operation was used (AORTA_REASON_NO_PARTNER). */
void aorta_execution_traces_note_unused(const struct aorta_execution_traces *traces, struct aorta_trace *trace);

#endif
