/* Kineto's layout of the Chrome trace format: PyTorch's profiler (CUDA and ROCm, old and new), and our own writer.
 * Sources: libkineto's output_json.cpp and collective metadata of torch/csrc/distributed/c10d/ParamCommsUtils.hpp; and
 * files of several versions. */
#ifndef AORTA_TRACE_KINETO_READ_H
#define AORTA_TRACE_KINETO_READ_H

#include "trace/builder.h"
#include "trace/json_stream.h"

struct trace_kineto;

AORTA_MUST_USE aorta_status aorta_trace_kineto_create(struct aorta_json_stream *stream,
                                                      struct aorta_trace_builder *builder,
                                                      const struct aorta_trace_options *options,
                                                      struct trace_kineto **kineto);
void aorta_trace_kineto_destroy(struct trace_kineto *kineto); /* NULL is fine; the builder stays */

/* The array of events, which comes next in the stream. */
AORTA_MUST_USE aorta_status aorta_trace_kineto_events(struct trace_kineto *kineto);
/* Any other member of the outermost object: those that matter are read, the rest passed over. */
AORTA_MUST_USE aorta_status aorta_trace_kineto_member(struct trace_kineto *kineto, struct aorta_json_value key);
/* After all is read: the ranks of a merged file get their numbers, and what `whole`, the trace of its events that are
 * of no rank, says of devices. */
void aorta_trace_kineto_number_ranks(struct trace_kineto *kineto, const struct aorta_trace *whole);
/* How many processes' events the trace has (trace->processes). AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_kineto_count_processes(const struct trace_kineto *kineto,
                                                               struct aorta_trace *trace);
/* Before the file of several processes, which was read as `whole`, is read again: each becomes a rank, by the place of
 * its events in the file, or by its launches. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_kineto_separate(struct trace_kineto *kineto, const struct aorta_trace *whole,
                                                        bool by_place);
/* The builder of each rank of a merged file, in order, which the caller ends; NULL: no more. */
struct aorta_trace_builder *aorta_trace_kineto_take_rank(struct trace_kineto *kineto, size_t rank);

#endif
