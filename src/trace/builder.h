/* How a reader fills a trace. Rows come in any order; finish links them by correlation and operation.
 *
 * If memory runs out, later rows are dropped and finish returns AORTA_MEMORY, so callers need not check each row. A
 * builder is used by one thread. */
#ifndef AORTA_TRACE_BUILDER_H
#define AORTA_TRACE_BUILDER_H

#include "trace/trace.h"

/* How a file is read. */
struct aorta_trace_options {
    bool recover;                                 /* keep what comes before the place where a file breaks */
    const struct aorta_kernel_patterns *patterns; /* more kernels that are collectives; may be NULL; borrowed */
    const char
        *step_range;  /* a step begins with each range whose name has this regular expression; NULL: see infer.h */
    int64_t until_ns; /* of spools: events that begin then or later are left out; 0: no limit */
    bool functions;   /* of Kineto files keep the program's functions and PyTorch's modules (trace->functions) */
    struct aorta_execution_traces *executed; /* of Kineto files: execution traces with shapes that the files lack; may
                                              * be NULL */
    bool guarded;  /* a signal that ends the process also removes the unpacked files; for our programs, not for the
                    * library */
    bool to_align; /* of Kineto files keep no calls, annotations and shapes, which aligning clocks does not need */
};

struct aorta_trace_builder;

/* `path` names the trace in messages. Options may be NULL and are borrowed until finish. */
AORTA_MUST_USE aorta_status aorta_trace_builder_create(enum aorta_trace_format format, const char *path,
                                                       const struct aorta_trace_options *options,
                                                       struct aorta_trace_builder **builder);
void aorta_trace_builder_destroy(struct aorta_trace_builder *builder); /* of an unfinished builder; NULL is fine */

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
 * host operation that launched it (Kineto: External id); -1: not known. `collective` is copied; NULL if the file has no
 * facts. Its bytes are computed if -1, and its kind is derived from its name if not `named`.
 * `offset`: its place in the file (-1: it is in none). */
void aorta_trace_builder_work(struct aorta_trace_builder *builder, const struct aorta_trace_work *work,
                              int64_t operation, const struct aorta_trace_collective *collective, int64_t offset);

/* The launch of the kernel added last: thread blocks, and threads per block. The text is stored only for kernels with
 * the name of a matrix product. */
void aorta_trace_builder_geometry(struct aorta_trace_builder *builder, const int64_t blocks[3],
                                  const int64_t threads[3]);

/* A call of the host's runtime or driver interface; its kind is derived from its name. Calls that neither launch, wait
 * nor move memory are dropped unless they share a correlation with device work. True if the kind is known, so that the
 * call becomes a row of calls[]. */
bool aorta_trace_builder_call(struct aorta_trace_builder *builder, const struct aorta_trace_call *call);
/* As aorta_trace_builder_call, but a call of unknown kind also becomes a frame. */
void aorta_trace_builder_any_call(struct aorta_trace_builder *builder, const struct aorta_trace_call *call);

/* Whether a graph was captured so far. Then readers add for each launch call, by its correlation, the kernel's name
 * (text; NONE if unknown) and the file's number of the operation (-1 if unknown). */
bool aorta_trace_builder_captures(const struct aorta_trace_builder *builder);
void aorta_trace_builder_launch(struct aorta_trace_builder *builder, uint64_t correlation, uint32_t kernel,
                                int64_t operation);

/* An operation of the framework: `number` is the file's (-1 if none). `operation` has its inputs and the same name as
 * the frame. */
void aorta_trace_builder_operation(struct aorta_trace_builder *builder, const struct aorta_trace_annotation *frame,
                                   int64_t number, const struct aorta_operation *operation);

/* A function of the program, "train.py(45): step". With options->functions also a module of PyTorch, "nn.Module:
 * Linear_3". */
void aorta_trace_builder_function(struct aorta_trace_builder *builder, const struct aorta_trace_annotation *frame);

/* Memory that the framework's allocator handed out or took back. */
void aorta_trace_builder_allocation(struct aorta_trace_builder *builder,
                                    const struct aorta_trace_allocation *allocation);

/* A host event of the profiler that becomes neither an operation nor an annotation. */
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

/* A collective as the host asked for it, on this thread at this time (Kineto: record_param_comms): collective kernels
 * launched within it that have no facts of their own get these. */
void aorta_trace_builder_request(struct aorta_trace_builder *builder, int64_t start_ns, int64_t end_ns, uint32_t thread,
                                 const struct aorta_trace_collective *collective);

/* Ranges marked by the program. ProfilerStep#N becomes a step; a range of the data loader also becomes a wait for data
 * (calls). */
void aorta_trace_builder_annotation(struct aorta_trace_builder *builder,
                                    const struct aorta_trace_annotation *annotation);
/* Adds a range of NVTX or roctx with this name. Ranges that PyTorch's emit_nvtx wrote become operations. */
void aorta_trace_builder_marked(struct aorta_trace_builder *builder, const char *name,
                                struct aorta_trace_annotation range);
/* The device's side of an annotation. Only steps are stored. */
void aorta_trace_builder_device_annotation(struct aorta_trace_builder *builder, uint32_t name, int64_t start_ns,
                                           int64_t end_ns);
/* A step that the file marks on one device. If the file also marks steps on the host, only those count. */
void aorta_trace_builder_device_step(struct aorta_trace_builder *builder, int32_t device, int64_t number,
                                     int64_t start_ns, int64_t end_ns);
void aorta_trace_builder_device(struct aorta_trace_builder *builder, const struct aorta_trace_device *device);

/* Whether these are times: a time more than 73 years before zero or 146 after it is damage; of the times between,
 * differences cannot overflow. Readers leave out and count events whose times do not fit. */
bool aorta_trace_times_fit(int64_t start_ns, int64_t end_ns);

void aorta_trace_builder_warn(struct aorta_trace_builder *builder, enum aorta_trace_reason reason, int64_t offset);

/* Sorts and links the rows and counts odd ones. Destroys the builder, also on failure. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_builder_finish(struct aorta_trace_builder *builder, struct aorta_trace **trace);
/* Finishes the builder and appends the trace to the list. */
AORTA_MUST_USE aorta_status aorta_trace_builder_finish_into(struct aorta_trace_builder *builder,
                                                            struct aorta_trace_list *list);

#endif
