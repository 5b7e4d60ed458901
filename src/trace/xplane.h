/* What events of XLA's profiler mean (JAX, TensorFlow), whichever file has them: its JSON or its XSpace. */
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
    struct aorta_proto hlo;     /* the operation that it belongs to: "all-gather-start.3" */
    bool graph;                 /* a node of a graph */
    int64_t step;               /* step_num; -1: none */
    int64_t offset;             /* in the file */
};

void aorta_xla_add_work(struct aorta_trace_builder *builder, const struct aorta_xla_event *event, int64_t device,
                        int64_t stream);
/* On a thread of the host: a launch bears the kernel's name and shares its number; the rest is what XLA, or the
 * program, marked. */
void aorta_xla_add_host(struct aorta_trace_builder *builder, const struct aorta_xla_event *event, uint32_t thread);

#endif
