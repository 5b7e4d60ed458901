/* A recorded run in memory: what one process (one rank) did on its devices, whichever tool recorded it.
 *
 * Times are int64 ns on the file's own clock; add base_ns for the time of day, where it is known. Texts are stored once
 * and named by their number (aorta_trace_text). AORTA_TRACE_NONE means "no such row". A value that the file does not
 * contain is -1, or INT64_MIN where -1 is a possible value.
 *
 * Readers fill a trace through a builder (builder.h); after that it is read only, and any thread may read it.
 * Formats: docs/trace-formats.md. */
#ifndef AORTA_TRACE_TRACE_H
#define AORTA_TRACE_TRACE_H

#include "base/array.h"
#include "base/directories.h"
#include "base/dtype.h"
#include "base/status.h"
#include "trace/kernel_names.h"
#include "trace/operations.h"
#include "trace/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AORTA_TRACE_NONE UINT32_MAX

enum aorta_trace_kind { AORTA_TRACE_KERNEL, AORTA_TRACE_COPY, AORTA_TRACE_FILL };

#define AORTA_TRACE_FORMAT_MAP(X)                                                                                      \
    X(KINETO, "Kineto")               /* PyTorch's profiler, and ours, which writes the same layout */                 \
    X(XLA, "XLA profiler JSON")       /* JAX's and TensorFlow's */                                                     \
    X(XPLANE, "XSpace")               /* XLA's own file */                                                             \
    X(ROCPROF_JSON, "rocprofv3 JSON") /* rocprofv3 --output-format json */                                             \
    X(ROCPROF_CSV, "rocprofv3 CSV")   /* rocprofv3 --output-format csv */                                              \
    X(ROCPD, "rocpd")                 /* rocprofv3's SQLite file */                                                    \
    X(PFTRACE, "rocprofv3 pftrace")   /* rocprofv3 --output-format pftrace */                                          \
    X(NSYS, "Nsight Systems")         /* `nsys export --type sqlite` */                                                \
    X(SPOOL, "aorta trace run")       /* recorded by `aorta trace run` */                                              \
    X(METRICS, "metrics lines")       /* of a run of ours, or of the original toolkit */
enum aorta_trace_format {
#define X(id, name) AORTA_TRACE_##id,
    AORTA_TRACE_FORMAT_MAP(X)
#undef X
        AORTA_TRACE_FORMAT_COUNT
};
const char *aorta_trace_format_name(enum aorta_trace_format format);

/* What a kernel, copy or fill was. */
struct aorta_trace_work {
    int64_t start_ns, end_ns;
    int64_t bytes;        /* copies and fills, and collectives made of copies; -1: not known */
    uint64_t correlation; /* shared with the call that launched it; 0: not known */
    uint32_t name;        /* text */
    uint32_t stream;      /* row of streams[] */
    uint32_t queue;       /* row of queues[]; NONE: the file does not say */
    uint32_t call;        /* row of calls[] that launched it; NONE: not in the file */
    uint32_t collective;  /* row of collectives[]; NONE: no facts (it may still be one by its name: class) */
    uint32_t shape;       /* row of shapes[]: the operation it belongs to; NONE: not known */
    uint32_t operation;   /* row of operations[]: the innermost that launched it; NONE: not known */
    uint32_t geometry;    /* matrix products: text, "12x4x1 of 256x1x1" (blocks, threads); NONE: not known */
    int32_t device;       /* the file's number of the device */
    uint8_t kind;         /* enum aorta_trace_kind */
    uint8_t class;        /* kernels: enum aorta_kernel_class by the one table of names */
    bool graph;           /* launched as part of a graph: its launch has further work */
    bool leads;           /* the first kernel of its operation's run */
    bool named;           /* collective kernels: the name says which one it is */
    uint8_t by_name;      /* when `named`: enum aorta_collective */
    bool first;           /* kernels: the first of this name in the file */
    uint16_t blocks;      /* kernels: thread blocks, at most AORTA_MANY_BLOCKS; 0: not known */
    uint16_t threads;     /* kernels: threads of a block; 0: not known */
};
enum { AORTA_MANY_BLOCKS = UINT16_MAX }; /* or more */

/* What would be left of a piece of work. */
struct aorta_work_scale {
    float left;    /* of its time: 0 … 1 */
    bool gone;     /* nothing launches it any more */
    bool prepared; /* … and the host prepares it no more, even where that takes as long as a pause */
    uint8_t added; /* launches that the host makes before it then */
};

/* Streams and hardware queues as the file numbers them. One stream may use several queues and the other way round. */
struct aorta_trace_stream {
    int64_t device, context, id; /* context -1: not known */
};
struct aorta_trace_queue {
    int64_t device, id; /* HSA queue (ROCm), channel (CUDA) or queue_id (rocprofv3) */
    uint32_t type;      /* text, e.g. CUDA's channel_type; NONE: not known */
};

/* Calls of the host that can delay the device. Other calls are not stored. */
enum aorta_trace_call_kind {
    AORTA_CALL_LAUNCH,       /* of a kernel */
    AORTA_CALL_GRAPH_LAUNCH, /* of a graph */
    AORTA_CALL_COPY,         /* the launch of a copy; a synchronous one waits for it as well */
    AORTA_CALL_FILL,
    AORTA_CALL_SYNC,       /* waits for a device, stream or event */
    AORTA_CALL_MEMORY,     /* allocates or frees device memory: frees wait for the device */
    AORTA_CALL_DATA_WAIT,  /* the data loader's next batch */
    AORTA_CALL_COLLECTIVE, /* communication on the host: a call of MPI, a thread of gloo (builder_launches.c) */
    AORTA_CALL_OTHER,      /* any other call that launched work, e.g. one without a known name */
    AORTA_CALL_KIND_COUNT
};
struct aorta_trace_call {
    int64_t start_ns, end_ns;
    uint64_t correlation; /* 0: none */
    uint32_t name;        /* text */
    uint32_t thread;      /* row of threads[] */
    uint8_t kind;         /* enum aorta_trace_call_kind */
};

/* Where in the program a call that waits for the device was made. Texts; NONE: not recorded. */
struct aorta_trace_caller {
    uint32_t call;      /* row of calls[] */
    uint32_t operation; /* "aten::item": the outermost of PyTorch's operations around the call */
    uint32_t function;  /* "train.py(45): step": the innermost Python function that is not PyTorch's own */
    uint32_t range;     /* the innermost annotation */
};

/* A wait for an event or for a stream, as the host asked for it. */
struct aorta_trace_wait {
    int64_t asked_ns;    /* when: the start of the call */
    int64_t recorded_ns; /* the start of the call that recorded the event; INT64_MIN: not known, or no event */
    uint32_t stream;     /* row of streams[]: the one that waits; NONE: not known, or the host waits */
    uint32_t on;         /* row of streams[]: the one that the event was recorded on, or that is waited for; NONE: not
                          * known */
    uint32_t call;       /* row of calls[], where the host waits; NONE: a stream does */
};
struct aorta_trace_thread {
    int64_t process, id;
    uint32_t name; /* text; NONE: not known */
};

/* The inputs of an operation, JSON as it stands in the file; each once. Texts; NONE: not recorded. */
struct aorta_trace_inputs {
    uint32_t dims, types, strides;
    uint32_t values; /* of what is no tensor: stored where it says what is computed, or the sizes of an output */
};

/* One run of an operation of the framework, or of a range of the program, on the host. */
struct aorta_trace_operation {
    int64_t start_ns, end_ns;
    uint32_t thread; /* row of threads[] */
    uint32_t name;   /* text */
    uint32_t parent; /* row of operations[]: the innermost around it, always above this one; NONE: none */
    uint32_t inputs; /* row of inputs[]; NONE: not recorded */
    /* Autograd's number: operations of the forward pass and their gradients have the same; -1: none. */
    int64_t sequence;
    bool gradient; /* autograd runs it for the operation of the forward pass with its number */
    bool range;    /* a range of the program */
    /* Work that a graph replayed: row of captured_places[], from its capture; NONE: it ran here itself. Its times are
     * those of its capture, scaled to the length of the graph's launch. */
    uint32_t captured;
};

/* Where among the program's functions an operation ran when it was captured. */
struct aorta_trace_place {
    int64_t at_ns;
    uint32_t thread; /* row of threads[] */
};

/* A graph that the program captured: what its launches put on the device. */
struct aorta_captured_graph {
    int64_t start_ns, end_ns; /* of the capture, on the host */
    uint32_t first, count;    /* rows of captured[] */
};

/* Ranges that the program marked itself on the host (record_function, NVTX, roctx); to a builder also its functions and
 * the framework's operations. */
struct aorta_trace_annotation {
    int64_t start_ns, end_ns;
    uint32_t name, thread;
};

/* What says where a step begins. */
enum aorta_step_source {
    AORTA_STEPS_MARKED,        /* the file: ProfilerStep#N */
    AORTA_STEPS_BY_RANGE,      /* ranges of the user's choice (--step-range) */
    AORTA_STEPS_BY_OPTIMIZER,  /* the end of the optimizer's range */
    AORTA_STEPS_BY_ENGINE,     /* ranges of an inference engine */
    AORTA_STEPS_BY_REPETITION, /* the order of the kernels (infer.c) */
    AORTA_STEPS_APART,         /* iterations measured one by one: the time between them belongs to none */
    AORTA_STEPS_MEASURED,      /* the recorder: what belongs to a step is known operation by operation */
    AORTA_STEP_SOURCE_COUNT
};
const char *aorta_step_source_name(enum aorta_step_source source); /* "profiler", "range", … "iterations" */

/* What a profiler stamped on a thread of the host beside operations[]. From both replay/unrecorded.h finds what
 * stamping cost. */
enum aorta_trace_frame_kind {
    AORTA_FRAME_OPERATION, /* of the framework */
    AORTA_FRAME_RANGE,     /* ProfilerStep#N */
    AORTA_FRAME_FUNCTION,  /* of Python */
    AORTA_FRAME_CALL,      /* of the runtime or driver interface, of no kind that calls[] knows */
    AORTA_FRAME_SYSTEM,    /* of the operating system, as poll, fsync */
};
struct aorta_trace_frame {
    int64_t start_ns, end_ns;
    uint32_t name;   /* text; NONE: of short functions */
    uint16_t thread; /* row of threads[] */
    uint8_t kind;    /* enum aorta_trace_frame_kind */
};

/* ProfilerStep#N, or what else begins a step. */
struct aorta_trace_step {
    int64_t number;
    int64_t start_ns, end_ns;               /* on the host */
    int64_t device_start_ns, device_end_ns; /* of its device work, as the file says; INT64_MIN: it does not */
    bool of_device;                         /* the step is of this device alone; else of all devices */
    int32_t device;
};

/* Memory of a device that the framework's allocator handed out or took back. */
struct aorta_trace_allocation {
    int64_t at_ns;               /* on the host */
    int64_t bytes;               /* below 0: taken back */
    int64_t allocated, reserved; /* in all, after it: handed out, and taken from the device; -1: not known */
    uint64_t address;
    uint32_t thread; /* row of threads[] */
    int32_t device;
};

struct aorta_trace_group {
    uint32_t name, description; /* texts; NONE: not known */
    int32_t size;               /* -1: not known */
    int32_t *ranks;             /* world ranks, ascending; NULL: not known */
    size_t rank_count;
};

/* One collective, as the program asked for it. Several kernels may share a row. */
struct aorta_trace_collective {
    int64_t in_elements, out_elements; /* of this rank; -1: not known */
    int64_t bytes;                     /* larger buffer of this rank, as nccl-tests count; -1: not known */
    int64_t sequence;                  /* number within the group; -1: the file does not say */
    int64_t blocks;                    /* thread blocks of the kernel, its channels; -1: not known */
    uint32_t name;                     /* text: "_allgather_base"; NONE: not known */
    uint32_t dtype;                    /* text as in the file: "BFloat16"; NONE: not known */
    uint32_t group;                    /* row of groups[]; NONE: not known */
    uint32_t communicator;             /* text of the communicator's id, which can exceed 64 bits; NONE: not known */
    uint32_t in_splits, out_splits; /* texts as in the file, "[3, 1]": elements sent to and received from each rank of
                                     * the group, where they are not equal parts; NONE: not known */
    uint32_t annotation;            /* row of annotations[]: the innermost the program was in; NONE: none */
    int32_t group_size;             /* -1: not known */
    int32_t peer;                   /* the other rank of a send or receive; -1: none */
    enum aorta_collective kind;     /* when `named` */
    bool named;
    bool simulated; /* a local copy replaces it: a file of ours, from a run of one rank */
};

extern const struct aorta_trace_collective aorta_trace_unknown_collective; /* nothing is known of it */

/* What a shape's amount is of. Passes of a unit (a layer, forward or backward) are recorded by our own runs on GPUs:
 * what their products and their attention do is known of all kernels together. */
enum aorta_trace_extent { AORTA_SHAPE_OPERATION, AORTA_SHAPE_PASS, AORTA_SHAPE_KERNEL_OF_PASS };

/* The operation that launched a kernel, with its shape; each once. */
struct aorta_trace_shape {
    uint32_t op;    /* text: "aten::addmm" */
    uint32_t dims;  /* text: "[[768], [512, 768], [768, 768]]" */
    uint32_t types; /* text: "[\"float\", …]"; NONE: not known */
    struct aorta_product product;
    struct aorta_work_amount amount; /* of one run: all kernels of the operation together */
    enum aorta_trace_extent extent;
    struct aorta_work_amount attention; /* of a pass, beside `amount`, which is its products' */
};

struct aorta_trace_device {
    int64_t id;
    uint32_t name;           /* text; NONE: not known */
    int64_t memory_bytes;    /* -1: not known */
    int32_t multiprocessors; /* -1: not known */
    int32_t major, minor;    /* compute capability; -1: not known */
    const char *isa;         /* text: "gfx942"; NULL: not known */
    bool measured;           /* its peaks were measured */
    struct aorta_measured_peaks peaks;
};

/* A device whose clock was ahead of the host's in the file; the times here are corrected (builder_launches.c). */
struct aorta_device_clock {
    int32_t device;
    int64_t ahead_ns; /* above 0 */
};

/* A step as a recorder of ours measured it: its operations are known one by one. */
struct aorta_trace_measured {
    int64_t step_ns;                     /* from step to step, as the run measured it; 0: not known */
    const struct aorta_profile *profile; /* on the clock of the rank's host, or of the step (own_clock); borrowed */
    uint32_t *work;                      /* row of work[] for each range; owned */
};

enum aorta_trace_reason {
#define REASON(id, key, text) AORTA_REASON_##id,
#include "trace/reasons.def"
#undef REASON
    AORTA_REASON_COUNT
};
const char *aorta_trace_reason_key(enum aorta_trace_reason reason); /* "no_launch" */

struct aorta_trace_warning {
    int64_t count;     /* events it holds for; 0: none */
    int64_t offset;    /* byte offset of the first in the (unpacked) file; -1: the format has none */
    const char *about; /* what the first is: another file, or work; NULL: nothing more is known */
    const char *words; /* what to say instead of the reason's text, a text; or NULL */
};

/* What of the work that a file speaks of is in it. */
struct aorta_trace_coverage {
    size_t launches, unanswered; /* calls that launch kernels or graphs; of them those without work */
    size_t failed;               /* launches that returned an error, which are not among these */
    int64_t error;               /* of the first of them */
    int64_t dispatches, lost;    /* of a process, where they are numbered: in the file; missing between these */
};

struct aorta_trace {
    enum aorta_trace_format format;
    char *path;                /* owned; of the file, or what it was recorded from */
    char *unpacked;            /* owned; the unpacked file, if the path is packed; NULL: the path's own */
    int32_t rank, world;       /* -1: not known */
    int64_t process;           /* -1: not known */
    int64_t base_ns;           /* added to times gives ns since 1970; INT64_MIN: not known */
    uint32_t backend, library; /* texts: "nccl", its version; NONE: not known */
    uint32_t note;             /* text: what the recorder says of a recording that did not go well; NONE */
    int64_t events;            /* events in the file, of any sort */
    int64_t bytes_read;        /* of the unpacked file */
    bool own;                  /* written by `aorta train`, which takes its hosts' times without slowing them */
    bool no_launches;          /* calls that launch were left out on purpose, so no work has one */
    bool no_waits;             /* so were calls that wait for the device */
    bool earlier;              /* of an earlier cycle (ranks.h) */
    bool host_only;            /* the file has no device work: operations of the host are the work */
    size_t repeated;           /* launches with the number of an earlier one that had ended */
    size_t processes;          /* of Kineto files: whose events are in the trace and are not separated */

    struct aorta_trace_work *work; /* ascending start, then end */
    size_t work_count;
    struct aorta_trace_call *calls; /* ascending start */
    size_t call_count;
    struct aorta_trace_caller *callers; /* of calls that wait, where anything is known; ascending call */
    size_t caller_count;
    struct aorta_trace_wait *waits; /* of streams for events, and of the host where the file says for what; ascending
                                     * asked_ns */
    size_t wait_count;
    struct aorta_trace_annotation *annotations; /* ascending start, longer first */
    size_t annotation_count;
    struct aorta_trace_annotation *functions; /* of the program, and modules; where options->functions asks for them */
    size_t function_count;
    struct aorta_trace_allocation *allocations; /* ascending at_ns */
    size_t allocation_count;
    struct aorta_trace_frame *frames; /* in the file's order; of Kineto, Nsight Systems and rocprofv3 */
    size_t frame_count;
    struct aorta_trace_step *steps; /* ascending start */
    size_t step_count;
    enum aorta_step_source steps_by;       /* where there are any */
    struct aorta_trace_measured *measured; /* one for each of steps[]; NULL unless steps_by is MEASURED */
    void *owned;                           /* what steps borrow, ended with the trace by `release`; or NULL */
    void (*release)(void *owned);
    bool on_gpu; /* … on a GPU, so that a range may hold many kernels */
    struct aorta_trace_stream *streams;
    size_t stream_count;
    struct aorta_trace_queue *queues;
    size_t queue_count;
    struct aorta_trace_thread *threads;
    size_t thread_count;
    struct aorta_trace_collective *collectives;
    size_t collective_count;
    struct aorta_trace_group *groups;
    size_t group_count;
    struct aorta_trace_shape *shapes;
    size_t shape_count;
    struct aorta_trace_operation *operations; /* by thread, then ascending start, longer first */
    size_t operation_count;
    struct aorta_trace_inputs *inputs;
    size_t input_count;
    struct aorta_captured_graph *graphs; /* in order of their captures, those of a thread after each other */
    size_t graph_count;
    struct aorta_trace_work *captured; /* launched while graphs were captured: start_ns is that of the call */
    size_t captured_count;
    struct aorta_trace_place *captured_places; /* NULL unless captures were joined (captures.h) */
    struct aorta_trace_device *devices;
    size_t device_count;
    struct aorta_device_clock *clocks; /* of devices with another clock than the host */
    size_t clock_count;
    struct aorta_trace_coverage coverage;
    struct aorta_trace_warning warnings[AORTA_REASON_COUNT];

    struct aorta_texts *texts; /* owned */
};

/* The reason's sentence, for SKIPPED with the names. */
const char *aorta_trace_warning_text(const struct aorta_trace *trace, enum aorta_trace_reason reason);

/* The text with this number; "" for NONE. Lives as long as the trace. */
const char *aorta_trace_text(const struct aorta_trace *trace, uint32_t text);
size_t aorta_trace_text_count(const struct aorta_trace *trace);               /* numbers are 0 … count - 1 */
bool aorta_trace_has_text(const struct aorta_trace *trace, const char *part); /* any text contains it */

/* Whether a call launches work: a kernel, a graph, a copy, a fill. */
bool aorta_trace_call_launches(const struct aorta_trace_call *call);
/* Where the work moves a page of managed memory that is touched there; UNKNOWN: it is no such work. */
enum aorta_copied aorta_trace_page_moved(const struct aorta_trace *trace, const struct aorta_trace_work *work);
/* Whether the launch of a kernel blocked the host: the call lasted a millisecond or more (a kernel's first launch in a
 * short recording: less), and the kernel began in its second half or as it ended. So it is where a kernel is loaded. */
bool aorta_trace_launch_blocks(const struct aorta_trace *trace, const struct aorta_trace_work *work);
/* When work was launched; INT64_MIN: not known. */
int64_t aorta_trace_launched_ns(const struct aorta_trace *trace, const struct aorta_trace_work *work);
/* The kind of a call by its name: cudaLaunchKernel, hipModuleLaunchKernel, cuStreamSynchronize, … false: none that
 * matters. */
bool aorta_trace_call_classify(const char *name, enum aorta_trace_call_kind *kind);
/* "cudaErrorInvalidValue", "error 12345". */
struct aorta_cuda_error {
    char text[40];
};
struct aorta_cuda_error aorta_cuda_error(int64_t number);
/* Whether the call failed, so that its work did not run: not where the work is not ready, or the program ends. */
bool aorta_cuda_call_failed(int64_t result, enum aorta_trace_call_kind kind);
static inline bool aorta_trace_changes_memory(const char *name) {
    enum aorta_trace_call_kind kind;
    return aorta_trace_call_classify(name, &kind) && kind == AORTA_CALL_MEMORY;
}

bool aorta_trace_has_operations(const struct aorta_trace *trace); /* not only ranges that the program marked */
/* Whether each of the trace's threads launches work, as those do that the device waits for and a watchdog does not. */
bool *aorta_trace_launching_threads(const struct aorta_trace *trace, struct aorta_arena *memory);

/* A loss, a flag: a copy of so few bytes to the host is of values that it reads. */
enum { AORTA_VALUE_BYTES = 256 };
bool aorta_trace_is_value(const struct aorta_trace *trace, const struct aorta_trace_work *work);
/* Whether each of the trace's calls copies to the host; with `values` so few bytes. */
bool *aorta_trace_reading_calls(const struct aorta_trace *trace, bool values, struct aorta_arena *memory);
/* Whether a call returns only when the device has come so far: it synchronises, copies or frees. */
bool aorta_trace_call_waits(const struct aorta_trace *trace, const struct aorta_trace_call *call);

/* Whether work is communication: a kernel that the one table of names, or the file's own facts, call a collective. */
static inline bool aorta_trace_is_collective(const struct aorta_trace_work *work) {
    return work->kind == AORTA_TRACE_KERNEL && work->class == AORTA_KERNEL_COLLECTIVE;
}

/* Which collective such a kernel is: what the file says, else what its name does. */
static inline enum aorta_collective aorta_trace_collective_kind(const struct aorta_trace *trace,
                                                                const struct aorta_trace_work *work) {
    if (work->collective != AORTA_TRACE_NONE && trace->collectives[work->collective].named)
        return trace->collectives[work->collective].kind;
    return work->named ? (enum aorta_collective)work->by_name : AORTA_COLLECTIVE_OTHER;
}

/* Whether a range is one that gloo makes around its part of a collective ("gloo:all_reduce"). */
static inline bool aorta_trace_is_gloo_range(const char *name) {
    return aorta_begins(name, "gloo:");
}

/* "Linear_3" of "nn.Module: Linear_3", as PyTorch calls the functions of modules; NULL: it is another function. */
static inline const char *aorta_module_name(const char *function) {
    return aorta_begins(function, "nn.Module: ") ? function + 11 : NULL;
}

/* What the file says of the device with this number, as its work names it. AMD's tools number processors first (2 or 8
 * is often the first GPU) and list their devices from 0 on: then it is the row on which all numbers that fit the list
 * agree. NULL: the file does not say, or rows that differ fit. */
const struct aorta_trace_device *aorta_trace_device_of(const struct aorta_trace *trace, int32_t device);
/* How the name of a graph begins that is recorded as one piece. */
static const char AORTA_WHOLE_GRAPH[] = "CUDA graph ";
/* The number of that device's multiprocessors; -1: not known. */
int32_t aorta_trace_multiprocessors(const struct aorta_trace *trace, int32_t device);

/* How far the device's clock was ahead of the host's; 0: it was not. */
int64_t aorta_trace_device_ahead(const struct aorta_trace *trace, int32_t device);

/* Arithmetic of a matrix product, 2·batch·m·n·k; NaN: no product, or its sizes are not known. */
double aorta_trace_flops(const struct aorta_trace *trace, uint32_t shape);

/* Counts the reason once; the first offset stays. */
static inline void aorta_trace_warn(struct aorta_trace_warning *warnings, enum aorta_trace_reason reason,
                                    int64_t offset) {
    if (!warnings[reason].count++) warnings[reason].offset = offset;
}

/* Counts what `more` has too; the first offset stays. Both have AORTA_REASON_COUNT. */
void aorta_trace_warnings_add(struct aorta_trace_warning *warnings, const struct aorta_trace_warning *more);

/* Counts the reason, which is about another file. */
void aorta_trace_warn_of_file(struct aorta_trace *trace, enum aorta_trace_reason reason, const char *path);

void aorta_trace_free(struct aorta_trace *trace); /* NULL is fine */

/* For traces that do not know their rank: "…/rank_3/x.json", "job-rank3.json.gz": the number behind the last "rank", or
 * -1. */
int aorta_trace_rank_in_path(const char *path);

/* Several ranks. Zero-initialise; ends with aorta_trace_list_free. */
struct aorta_trace_list {
    struct aorta_trace **items;
    size_t count, capacity;
    struct aorta_temporary *unpacked;        /* holds unpacked copies of packed files; removed with the list; or NULL */
    struct aorta_execution_traces *executed; /* that were beside the traces; owned; or NULL */
};

/* Takes the trace over, also when it fails. */
AORTA_MUST_USE aorta_status aorta_trace_list_add(struct aorta_trace_list *list, struct aorta_trace *trace);
void aorta_trace_list_free(struct aorta_trace_list *list);

/* ---- how much of the device's work a recording holds, as far as it says itself what ran ---- */

/* The larger share that is missing: of kernels that were launched, or of dispatches by their numbers. 0: none is, or
 * the file does not say. */
double aorta_trace_missing_share(const struct aorta_trace *trace);

/* Whether too much is missing to say what limits a step: then there is no verdict, but what to record instead. */
bool aorta_trace_is_too_thin(const struct aorta_trace *trace);

/* ---- nested ranges of a thread: the innermost one around a moment ---- */

struct aorta_nest_range {
    int64_t start_ns, end_ns;
    uint32_t thread;
    uint32_t number; /* the caller's */
    uint32_t parent; /* index of the range around this one; NONE (made by aorta_nest_parents) */
};
enum { AORTA_NEST_NONE = UINT32_MAX };

/* By thread, then start, longer first; for all items that begin with the members before `number`. */
int aorta_nest_order(const void *left, const void *right);
/* Sorts the ranges in place, equal ones as they were, and finds their parents. */
void aorta_nest_make(struct aorta_nest_range *ranges, size_t count);
/* Nests annotations; the number of each range is that of the annotation's name. */
struct aorta_nest_range *aorta_nest_of(const struct aorta_trace_annotation *frames, size_t count,
                                       struct aorta_arena *memory);
/* The parents of items in this order. They have `size` bytes and begin with the members of struct aorta_nest_range. */
void aorta_nest_parents(void *items, size_t count, size_t size);
/* Finds the innermost of such items on the thread with start <= time <= end; NONE. */
uint32_t aorta_nest_find(const void *items, size_t count, size_t size, uint32_t thread, int64_t time_ns);

/* ---- who made a trace's kernels, as far as their names say ---- */

enum aorta_framework {
    AORTA_FRAMEWORK_OTHER,      /* C, C++, Fortran, or not known */
    AORTA_FRAMEWORK_DIRECTIVES, /* … with loops of OpenACC or OpenMP */
    AORTA_FRAMEWORK_XLA,        /* JAX: kernels are named after what was fused, and some are XLA's own */
    AORTA_FRAMEWORK_CUPY,
    AORTA_FRAMEWORK_TRITON,   /* many kernels are functions of @triton.jit, by their plain names, which the driver
                                 launches */
    AORTA_FRAMEWORK_COMPILED, /* PyTorch, some of it by torch.compile: its kernels say what they fuse */
    AORTA_FRAMEWORK_TORCH
};

/* The program has PyTorch's functions, and its profiler can record it. */
bool aorta_framework_is_torch(enum aorta_framework framework);
enum aorta_framework aorta_trace_framework(const struct aorta_trace *trace);

#endif
