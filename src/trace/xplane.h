/* Adds events of XLA's profiler (JAX, TensorFlow) to a builder. Used for both of its formats, JSON and XSpace. */
#ifndef AORTA_TRACE_XPLANE_H
#define AORTA_TRACE_XPLANE_H

#include "trace/builder.h"
#include "trace/proto.h"

struct aorta_xla_event {
    int64_t start_ns, end_ns;
    struct aorta_proto name;
    uint32_t text; /* the name in the builder */
    uint64_t correlation;
    struct aorta_proto details; /* of a kernel, copy or fill: "size:2097152 …", "grid:40,1,1 block:256,1,1" */
    struct aorta_proto hlo;     /* its operation: "all-gather-start.3" */
    bool graph;                 /* a node of a graph */
    int64_t step;               /* step_num; -1: none */
    int64_t offset;             /* in the file */
};

void aorta_xla_add_work(struct aorta_trace_builder *builder, const struct aorta_xla_event *event, int64_t device,
                        int64_t stream);
/* Adds an event of a host thread: a launch has the kernel's name and correlation; other events are ranges of XLA or the
 * program. */
void aorta_xla_add_host(struct aorta_trace_builder *builder, const struct aorta_xla_event *event, uint32_t thread);

#endif
