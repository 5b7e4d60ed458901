/* How a reader fills a trace: rows in any order, links by correlation and operation made at the end.
 *
 * Memory that runs out is remembered, later rows are dropped, and finish says so: callers need not check each row.
 * One thread. */
#ifndef AORTA_TRACE_BUILDER_H
#define AORTA_TRACE_BUILDER_H

#include "trace/trace.h"

/* How a file is read. */
struct aorta_trace_options {
    bool recover;                                 /* keep what stands before the place where a file breaks */
    const struct aorta_kernel_patterns *patterns; /* more kernels that are collectives; may be NULL; borrowed */
    const char
        *step_range;  /* a step begins with each range whose name has this regular expression; NULL: see infer.h */
    int64_t until_ns; /* of spools: what begins then or later is left out; 0: nothing is */
    bool functions;   /* of Kineto files keep the program's functions and PyTorch's modules (trace->functions) */
    struct aorta_execution_traces *executed; /* of Kineto files: what says the shapes that they do not; or NULL */
    bool guarded;  /* signals that end the process remove what inputs were unpacked to; for programs of ours */
    bool to_align; /* of Kineto files keep no calls, annotations and shapes, which aligning clocks does not need */
};

struct aorta_trace_builder;

/* `path` is what the trace is called in messages; options may be NULL and are borrowed until finish. */
AORTA_MUST_USE aorta_status aorta_trace_builder_create(enum aorta_trace_format format, const char *path,
                                                       const struct aorta_trace_options *options,
                                                       struct aorta_trace_builder **builder);
void aorta_trace_builder_destroy(struct aorta_trace_builder *builder); /* of one that is not finished; NULL is fine */

/* The trace's head (rank, world, base_ns, …), to be set directly; its arrays are empty until finish. */
struct aorta_trace *aorta_trace_builder_head(struct aorta_trace_builder *builder);

/* Rows that are stored once each: equal ones get the same number. The text need not end with NUL. */
uint32_t aorta_trace_builder_text(struct aorta_trace_builder *builder, const char *text, size_t length);
uint32_t aorta_trace_builder_stream(struct aorta_trace_builder *builder, int64_t device, int64_t context, int64_t id);
uint32_t aorta_trace_builder_queue(struct aorta_trace_builder *builder, int64_t device, int64_t id, uint32_t type);
uint32_t aorta_trace_builder_thread(struct aorta_trace_builder *builder, int64_t process, int64_t id);
void aorta_trace_builder_thread_name(struct aorta_trace_builder *builder, uint32_t thread, uint32_t name);
/* Ranks are copied and sorted; NULL: not known. */
uint32_t aorta_trace_builder_group(struct aorta_trace_builder *builder, uint32_t name, uint32_t description,
                                   int32_t size, const int32_t *ranks, size_t rank_count);

/* Device work. The caller sets times, bytes, correlation, name, stream, queue, device, kind, graph; the rest follows
 * (class from the name, call from the correlation, shape from `operation`). `operation` is the file's number of the
 * host operation that launched it (Kineto: External id); -1: not known. `collective` is copied, its bytes and kind are
 * made from its names and sizes where the caller leaves them -1 and not `named`; NULL: the file has no facts here.
 * `offset` is where it stands in the file (-1: no such thing). */
void aorta_trace_builder_work(struct aorta_trace_builder *builder, const struct aorta_trace_work *work,
                              int64_t operation, const struct aorta_trace_collective *collective, int64_t offset);

/* How the kernel added last was launched: thread blocks, and threads of each. Stored for matrix products, by name. */
void aorta_trace_builder_geometry(struct aorta_trace_builder *builder, const int64_t blocks[3],
                                  const int64_t threads[3]);

/* A call of the host's runtime or driver interface; the kind follows from the name. Calls that neither launch, wait
 * nor move memory are dropped unless they share a correlation with device work. True: it is of a known kind, and so a
 * row of calls[]. */
bool aorta_trace_builder_call(struct aorta_trace_builder *builder, const struct aorta_trace_call *call);
/* The same; a call of no known kind becomes a frame. */
void aorta_trace_builder_any_call(struct aorta_trace_builder *builder, const struct aorta_trace_call *call);

/* Whether a graph was captured so far; then launches say more with `launch`: the kernel's name (text; NONE: not known)
 * and the file's number of the operation (-1: not known), of the call with this correlation. */
bool aorta_trace_builder_captures(const struct aorta_trace_builder *builder);
void aorta_trace_builder_launch(struct aorta_trace_builder *builder, uint64_t correlation, uint32_t kernel,
                                int64_t operation);

/* An operation of the framework: `number` is the file's (-1: none). `operation`: its inputs, with the name of the
 * frame. */
void aorta_trace_builder_operation(struct aorta_trace_builder *builder, const struct aorta_trace_annotation *frame,
                                   int64_t number, const struct aorta_operation *operation);

/* A function of the program, "train.py(45): step", or, where options->functions, one of PyTorch's modules,
 * "nn.Module: Linear_3". */
void aorta_trace_builder_function(struct aorta_trace_builder *builder, const struct aorta_trace_annotation *frame);

/* Memory that the framework's allocator handed out or took back. */
void aorta_trace_builder_allocation(struct aorta_trace_builder *builder,
                                    const struct aorta_trace_allocation *allocation);

/* What the profiler stamped on the host and no operation or annotation is made of. */
void aorta_trace_builder_frame(struct aorta_trace_builder *builder, const struct aorta_trace_annotation *frame,
                               enum aorta_trace_frame_kind kind);

/* What the file says of a wait, in addition to the call that asks for it. */
struct aorta_trace_wait_facts {
    uint64_t correlation;        /* of that call */
    int64_t start_ns;            /* used as the call's start if the call is not in the file */
    uint64_t record_correlation; /* of the call that recorded the event; 0: not known, or no event */
    uint32_t stream;             /* that waits; NONE: the host */
    uint32_t on;                 /* the stream that is waited for */
};
void aorta_trace_builder_wait(struct aorta_trace_builder *builder, const struct aorta_trace_wait_facts *facts);

/* A collective as the host asked for it, on this thread at this time (Kineto: record_param_comms): the facts of
 * collective kernels that carry none themselves and were launched within it. */
void aorta_trace_builder_request(struct aorta_trace_builder *builder, int64_t start_ns, int64_t end_ns, uint32_t thread,
                                 const struct aorta_trace_collective *collective);

/* Ranges marked by the program. ProfilerStep#N becomes a step, the data loader's a wait for data (calls). */
void aorta_trace_builder_annotation(struct aorta_trace_builder *builder,
                                    const struct aorta_trace_annotation *annotation);
/* Adds a range of NVTX or roctx with this name. Ranges that PyTorch's emit_nvtx wrote become operations. */
void aorta_trace_builder_marked(struct aorta_trace_builder *builder, const char *name,
                                struct aorta_trace_annotation range);
/* The device's side of an annotation: only steps are stored. */
void aorta_trace_builder_device_annotation(struct aorta_trace_builder *builder, uint32_t name, int64_t start_ns,
                                           int64_t end_ns);
/* A step that the file marks on one device. Steps that it marks on the host count alone. */
void aorta_trace_builder_device_step(struct aorta_trace_builder *builder, int32_t device, int64_t number,
                                     int64_t start_ns, int64_t end_ns);
void aorta_trace_builder_device(struct aorta_trace_builder *builder, const struct aorta_trace_device *device);

/* Whether these are times: what lies more than 73 years before zero or 146 after it is damage; of what lies between,
 * differences cannot overflow. Readers leave out the rest, and count it. */
bool aorta_trace_times_fit(int64_t start_ns, int64_t end_ns);

void aorta_trace_builder_warn(struct aorta_trace_builder *builder, enum aorta_trace_reason reason, int64_t offset);

/* Sorts, links, counts what is odd. Ends the builder, also when it fails. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_builder_finish(struct aorta_trace_builder *builder, struct aorta_trace **trace);
/* The same, and appends the trace to the list. */
AORTA_MUST_USE aorta_status aorta_trace_builder_finish_into(struct aorta_trace_builder *builder,
                                                            struct aorta_trace_list *list);

#endif
