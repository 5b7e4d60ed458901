/* A recorded run in memory: what one process (one rank) did on its devices, whichever tool recorded it.
 *
 * Times are int64 ns on the file's own clock; adding base_ns, if known, gives the time of day. Texts are stored once
 * and named by their number (aorta_trace_text). AORTA_TRACE_NONE means "no such row". A value that the file does not
 * contain is -1, or INT64_MIN where -1 is a possible value.
 *
 * Readers fill a trace through a builder (builder.h). After that it is read-only and can be read by any thread.
 * Formats: docs/trace-formats.md. */
#ifndef AORTA_TRACE_TRACE_H
#define AORTA_TRACE_TRACE_H

#include "base/array.h"
#include "base/directories.h"
#include "base/dtype.h"
#include "base/status.h"
#include "trace/kernel_names.h"
#include "trace/profile.h"

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
    X(METRICS, "metrics lines")       /* of our runs, or of the original toolkit */
enum aorta_trace_format {
#define X(id, name) AORTA_TRACE_##id,
    AORTA_TRACE_FORMAT_MAP(X)
#undef X
        AORTA_TRACE_FORMAT_COUNT
};
const char *aorta_trace_format_name(enum aorta_trace_format format);

/* A kernel, copy or fill. */
struct aorta_trace_work {
    int64_t start_ns, end_ns;
    int64_t bytes;        /* copies and fills, and collectives made of copies; -1: not known */
    uint64_t correlation; /* shared with the call that launched it; 0: not known */
    uint32_t name;        /* text */
    uint32_t stream;      /* row of streams[] */
    uint32_t queue;       /* row of queues[]; NONE: not known */
    uint32_t call;        /* row of calls[] that launched it; NONE: not in the file */
    uint32_t collective;  /* row of collectives[]; NONE: no facts (`class` may still be collective, by name) */
    uint32_t shape;       /* row of shapes[]: the operation it belongs to; NONE: not known */
    uint32_t operation;   /* row of operations[]: the innermost that launched it; NONE: not known */
    uint32_t geometry;    /* matrix products: text, "12x4x1 of 256x1x1" (blocks, threads); NONE: not known */
    int32_t device;       /* the file's number of the device */
    uint8_t kind;         /* enum aorta_trace_kind */
    uint8_t class;        /* kernels: enum aorta_kernel_class by the one table of names */
    bool graph;           /* launched as part of a graph, together with other work */
    bool leads;           /* the first kernel of its operation's run */
    bool named;           /* collective kernels: the name shows which collective */
    uint8_t by_name;      /* when `named`: enum aorta_collective */
    bool first;           /* kernels: the first of this name in the file */
    uint16_t blocks;      /* kernels: thread blocks, at most AORTA_MANY_BLOCKS; 0: not known */
    uint16_t threads;     /* kernels: threads of a block; 0: not known */
};
enum { AORTA_MANY_BLOCKS = UINT16_MAX }; /* or more */

/* How a what-if changes a piece of work. */
struct aorta_work_scale {
    float left;    /* remaining share of its time: 0 … 1 */
    bool gone;     /* it is no longer launched */
    bool prepared; /* … and the host's preparation disappears, even if it is as long as a pause */
    uint8_t added; /* launches that the host adds before it */
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
    AORTA_CALL_COPY,         /* launches a copy; a synchronous call also waits for it */
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

/* A wait for an event or a stream, requested by a call of the host. */
struct aorta_trace_wait {
    int64_t asked_ns;    /* start of the requesting call */
    int64_t recorded_ns; /* the start of the call that recorded the event; INT64_MIN: not known, or no event */
    uint32_t stream;     /* row of streams[]: the waiting stream; NONE: not known, or the host waits */
    uint32_t on;         /* row of streams[]: the stream of the event, or the stream waited for; NONE: not known */
    uint32_t call;       /* row of calls[] if the host waits; NONE if a stream does */
};
struct aorta_trace_thread {
    int64_t process, id;
    uint32_t name; /* text; NONE: not known */
};

/* The inputs of an operation, JSON as in the file; each once. Texts; NONE: not recorded. */
struct aorta_trace_inputs {
    uint32_t dims, types, strides;
    uint32_t values; /* of non-tensors: stored if they change what is computed, or are sizes of an output */
};

/* One run of an operation of the framework, or of a range of the program, on the host. */
struct aorta_trace_operation {
    int64_t start_ns, end_ns;
    uint32_t thread; /* row of threads[] */
    uint32_t name;   /* text */
    uint32_t parent; /* row of operations[]: the innermost around it, at a lower index; NONE: none */
    uint32_t inputs; /* row of inputs[]; NONE: not recorded */
    /* Autograd's number, shared by an operation of the forward pass and its gradient; -1: none. */
    int64_t sequence;
    bool gradient; /* computes the gradient of the forward operation with this number */
    bool range;    /* a range of the program */
    /* Work that a graph replayed: row of captured_places[], from its capture; NONE: it ran here itself. Times of the
     * capture are scaled to the duration of the graph's launch. */
    uint32_t captured;
};

/* The time and thread of an operation when it was captured, to find the functions around it. */
struct aorta_trace_place {
    int64_t at_ns;
    uint32_t thread; /* row of threads[] */
};

/* A captured graph: the work that its launches put on the device. */
struct aorta_captured_graph {
    int64_t start_ns, end_ns; /* of the capture, on the host */
    uint32_t first, count;    /* rows of captured[] */
};

/* A range that the program marked on the host (record_function, NVTX, roctx). In a builder also a function or an
 * operation of the framework. */
struct aorta_trace_annotation {
    int64_t start_ns, end_ns;
    uint32_t name, thread;
};

/* What defines the beginning of a step. */
enum aorta_step_source {
    AORTA_STEPS_MARKED,        /* the file: ProfilerStep#N */
    AORTA_STEPS_BY_RANGE,      /* ranges chosen by the user (--step-range) */
    AORTA_STEPS_BY_OPTIMIZER,  /* the end of the optimizer's range */
    AORTA_STEPS_BY_ENGINE,     /* ranges of an inference engine */
    AORTA_STEPS_BY_REPETITION, /* the order of the kernels (infer.c) */
    AORTA_STEPS_APART,         /* separately measured iterations; the time between them is in no step */
    AORTA_STEPS_MEASURED,      /* our recorder, which knows the step of each operation */
    AORTA_STEP_SOURCE_COUNT
};
const char *aorta_step_source_name(enum aorta_step_source source); /* "profiler", "range", … "iterations" */

/* What a profiler stamped on a thread of the host besides operations[]. replay/unrecorded.h uses both to estimate the
 * cost of stamping. */
enum aorta_trace_frame_kind {
    AORTA_FRAME_OPERATION, /* of the framework */
    AORTA_FRAME_RANGE,     /* ProfilerStep#N */
    AORTA_FRAME_FUNCTION,  /* of Python */
    AORTA_FRAME_CALL,      /* of the runtime or driver interface, not in calls[] */
    AORTA_FRAME_SYSTEM,    /* of the operating system, as poll, fsync */
};
struct aorta_trace_frame {
    int64_t start_ns, end_ns;
    uint32_t name;   /* text; NONE: of short functions */
    uint16_t thread; /* row of threads[] */
    uint8_t kind;    /* enum aorta_trace_frame_kind */
};

/* A step: ProfilerStep#N, or of another source. */
struct aorta_trace_step {
    int64_t number;
    int64_t start_ns, end_ns;               /* on the host */
    int64_t device_start_ns, device_end_ns; /* of its device work; INT64_MIN: not in the file */
    bool of_device;                         /* the step is only of `device`; else of all devices */
    int32_t device;
};

/* An allocation or release of device memory by the framework's allocator. */
struct aorta_trace_allocation {
    int64_t at_ns;               /* on the host */
    int64_t bytes;               /* negative: released */
    int64_t allocated, reserved; /* totals after it: in use, and reserved from the device; -1: not known */
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

/* A collective, as requested by the program. Several kernels may share a row. */
struct aorta_trace_collective {
    int64_t in_elements, out_elements; /* of this rank; -1: not known */
    int64_t bytes;                     /* larger buffer of this rank, as nccl-tests count; -1: not known */
    int64_t sequence;                  /* number within the group; -1: not known */
    int64_t blocks;                    /* thread blocks of the kernel, its channels; -1: not known */
    uint32_t name;                     /* text: "_allgather_base"; NONE: not known */
    uint32_t dtype;                    /* text as in the file: "BFloat16"; NONE: not known */
    uint32_t group;                    /* row of groups[]; NONE: not known */
    uint32_t communicator;             /* text of the communicator's id, which can exceed 64 bits; NONE: not known */
    uint32_t in_splits, out_splits; /* texts as in the file, "[3, 1]": elements sent to and received from each rank of
                                     * the group, where they are not equal parts; NONE: not known */
    uint32_t annotation;            /* row of annotations[]: the innermost around the call; NONE: none */
    int32_t group_size;             /* -1: not known */
    int32_t peer;                   /* the other rank of a send or receive; -1: none */
    enum aorta_collective kind;     /* when `named` */
    bool named;
    bool simulated; /* a local copy replaces it, in our files of runs of one rank */
};

extern const struct aorta_trace_collective aorta_trace_unknown_collective; /* nothing is known of it */

/* What a shape's amount covers. A pass is a layer's forward or backward in our own runs on GPUs; the amounts of its
 * products and its attention are known only for all its kernels together. */
enum aorta_trace_extent { AORTA_SHAPE_OPERATION, AORTA_SHAPE_PASS, AORTA_SHAPE_KERNEL_OF_PASS };

/* The operation that launched a kernel, with its shape; each once. */
struct aorta_trace_shape {
    uint32_t op;    /* text: "aten::addmm" */
    uint32_t dims;  /* text: "[[768], [512, 768], [768, 768]]" */
    uint32_t types; /* text: "[\"float\", …]"; NONE: not known */
    struct aorta_product product;
    struct aorta_work_amount amount; /* of one run: all kernels of the operation together */
    enum aorta_trace_extent extent;
    struct aorta_work_amount attention; /* of a pass, in addition to `amount`, which is its products' */
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

/* A step of our own recorder, in which each operation is known. */
struct aorta_trace_measured {
    int64_t step_ns;                     /* from step to step, as the run measured it; 0: not known */
    const struct aorta_profile *profile; /* on the host's clock, or the step's own (own_clock); borrowed */
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
    int64_t count;     /* number of events; 0: none */
    int64_t offset;    /* byte offset of the first in the (unpacked) file; -1: none */
    const char *about; /* the file or work of the first event; NULL: not known */
    const char *words; /* text that replaces the reason's text; or NULL */
};

/* How much of the work that the file mentions is in it. */
struct aorta_trace_coverage {
    size_t launches, unanswered; /* calls that launch kernels or graphs; those of them without work */
    size_t failed;               /* launches that returned an error; not in `launches` */
    int64_t error;               /* of the first of them */
    int64_t dispatches, lost;    /* numbered dispatches of a process: in the file; missing between them */
};

struct aorta_trace {
    enum aorta_trace_format format;
    char *path;                /* owned; of the file, or the name of the input */
    char *unpacked;            /* owned; the unpacked file if the path is packed; else NULL */
    int32_t rank, world;       /* -1: not known */
    int64_t process;           /* -1: not known */
    int64_t base_ns;           /* added to times gives ns since 1970; INT64_MIN: not known */
    uint32_t backend, library; /* texts: "nccl", its version; NONE: not known */
    uint32_t note;             /* text: the recorder's message about a problem; NONE */
    int64_t events;            /* events in the file, of any sort */
    int64_t bytes_read;        /* of the unpacked file */
    bool own;                  /* written by `aorta train`, whose recording does not slow the host */
    bool no_launches;          /* launching calls were not recorded on purpose */
    bool no_waits;             /* calls that wait for the device were not recorded on purpose */
    bool earlier;              /* of an earlier cycle (ranks.h) */
    bool host_only;            /* the file has no device work: `work` are operations of the host */
    size_t repeated;           /* launches with the correlation of an earlier launch that had ended */
    size_t processes;          /* of Kineto files: number of processes in the trace that were not separated */

    struct aorta_trace_work *work; /* ascending start, then end */
    size_t work_count;
    struct aorta_trace_call *calls; /* ascending start */
    size_t call_count;
    struct aorta_trace_caller *callers; /* of waiting calls, if anything is known; ascending call */
    size_t caller_count;
    struct aorta_trace_wait *waits; /* of streams for events, and of the host if the event or stream is known; ascending
                                     * asked_ns */
    size_t wait_count;
    struct aorta_trace_annotation *annotations; /* ascending start, longer first */
    size_t annotation_count;
    struct aorta_trace_annotation *functions; /* of the program, and modules; only with options->functions */
    size_t function_count;
    struct aorta_trace_allocation *allocations; /* ascending at_ns */
    size_t allocation_count;
    struct aorta_trace_frame *frames; /* in the file's order; of Kineto, Nsight Systems and rocprofv3 */
    size_t frame_count;
    struct aorta_trace_step *steps; /* ascending start */
    size_t step_count;
    enum aorta_step_source steps_by;       /* unless there are none */
    struct aorta_trace_measured *measured; /* one for each of steps[]; NULL unless steps_by is MEASURED */
    void *owned;                           /* data that steps borrow, freed with the trace by `release`; or NULL */
    void (*release)(void *owned);
    bool on_gpu; /* … measured on a GPU, so that a range may have many kernels */
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
    struct aorta_captured_graph *graphs; /* by thread, then in order of capture */
    size_t graph_count;
    struct aorta_trace_work *captured; /* launched while graphs were captured: start_ns is that of the call */
    size_t captured_count;
    struct aorta_trace_place *captured_places; /* NULL unless captures were joined (captures.h) */
    struct aorta_trace_device *devices;
    size_t device_count;
    struct aorta_device_clock *clocks; /* of devices whose clocks were ahead */
    size_t clock_count;
    struct aorta_trace_coverage coverage;
    struct aorta_trace_warning warnings[AORTA_REASON_COUNT];

    struct aorta_texts *texts; /* owned */
};

/* The text of a warning: `words`, else the reason's text. */
const char *aorta_trace_warning_text(const struct aorta_trace *trace, enum aorta_trace_reason reason);

/* The text with this number; "" for NONE. Lives as long as the trace. */
const char *aorta_trace_text(const struct aorta_trace *trace, uint32_t text);
size_t aorta_trace_text_count(const struct aorta_trace *trace);               /* numbers are 0 … count - 1 */
bool aorta_trace_has_text(const struct aorta_trace *trace, const char *part); /* any text contains it */

/* Whether a call launches work: a kernel, a graph, a copy, a fill. */
bool aorta_trace_call_launches(const struct aorta_trace_call *call);
/* The direction in which work moves a page of managed memory that was touched; UNKNOWN for other work. */
enum aorta_copied aorta_trace_page_moved(const struct aorta_trace *trace, const struct aorta_trace_work *work);
/* Whether the launch of a kernel blocked the host: the call lasted a millisecond or more (a kernel's first launch in a
 * short recording: less), and the kernel began in its second half or as it ended. Loading a kernel does this. */
bool aorta_trace_launch_blocks(const struct aorta_trace *trace, const struct aorta_trace_work *work);
/* When work was launched; INT64_MIN: not known. */
int64_t aorta_trace_launched_ns(const struct aorta_trace *trace, const struct aorta_trace_work *work);
/* The kind of a call by its name: cudaLaunchKernel, hipModuleLaunchKernel, cuStreamSynchronize, … False if it is of no
 * such kind. */
bool aorta_trace_call_classify(const char *name, enum aorta_trace_call_kind *kind);
/* "cudaErrorInvalidValue", "error 12345". */
struct aorta_cuda_error {
    char text[40];
};
struct aorta_cuda_error aorta_cuda_error(int64_t number);
/* Whether the call failed, so that its work did not run. Results for unfinished work and at the program's end are no
 * failures. */
bool aorta_cuda_call_failed(int64_t result, enum aorta_trace_call_kind kind);
static inline bool aorta_trace_changes_memory(const char *name) {
    enum aorta_trace_call_kind kind;
    return aorta_trace_call_classify(name, &kind) && kind == AORTA_CALL_MEMORY;
}

bool aorta_trace_has_operations(const struct aorta_trace *trace); /* not only ranges of the program */
/* By thread: whether it launches work, so that the device can wait for it; a watchdog does not. */
bool *aorta_trace_launching_threads(const struct aorta_trace *trace, struct aorta_arena *memory);

/* A copy to the host of at most this many bytes is of a value that the host reads, such as a loss or a flag. */
enum { AORTA_VALUE_BYTES = 256 };
bool aorta_trace_is_value(const struct aorta_trace *trace, const struct aorta_trace_work *work);
/* By call: whether it copies to the host; with `values` only small copies. */
bool *aorta_trace_reading_calls(const struct aorta_trace *trace, bool values, struct aorta_arena *memory);
/* Whether a call waits for the device: it synchronises, copies or frees. */
bool aorta_trace_call_waits(const struct aorta_trace *trace, const struct aorta_trace_call *call);

/* Whether work is a collective kernel, by its name or the file's facts. */
static inline bool aorta_trace_is_collective(const struct aorta_trace_work *work) {
    return work->kind == AORTA_TRACE_KERNEL && work->class == AORTA_KERNEL_COLLECTIVE;
}

/* The kind of a collective kernel, from the file's facts or else its name. */
static inline enum aorta_collective aorta_trace_collective_kind(const struct aorta_trace *trace,
                                                                const struct aorta_trace_work *work) {
    if (work->collective != AORTA_TRACE_NONE && trace->collectives[work->collective].named)
        return trace->collectives[work->collective].kind;
    return work->named ? (enum aorta_collective)work->by_name : AORTA_COLLECTIVE_OTHER;
}

/* Whether a range is gloo's around its part of a collective ("gloo:all_reduce"). */
static inline bool aorta_trace_is_gloo_range(const char *name) {
    return aorta_begins(name, "gloo:");
}

/* "Linear_3" of "nn.Module: Linear_3", PyTorch's name of a module's function; NULL for other functions. */
static inline const char *aorta_module_name(const char *function) {
    return aorta_begins(function, "nn.Module: ") ? function + 11 : NULL;
}

/* The facts about a device by its number in the work. AMD's tools count processors first (2 or 8 is often the first
 * GPU) but list devices from 0. Then the row is used if all shifts that fit the list lead to equal devices. NULL if
 * unknown or ambiguous. */
const struct aorta_trace_device *aorta_trace_device_of(const struct aorta_trace *trace, int32_t device);
/* Prefix of the name of a graph that is recorded as one kernel. */
static const char AORTA_WHOLE_GRAPH[] = "CUDA graph ";
/* The number of the device's multiprocessors; -1 if unknown. */
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

/* Adds the counts of `more`; the first offset stays. Both have AORTA_REASON_COUNT rows. */
void aorta_trace_warnings_add(struct aorta_trace_warning *warnings, const struct aorta_trace_warning *more);

/* Counts a reason that is about another file. */
void aorta_trace_warn_of_file(struct aorta_trace *trace, enum aorta_trace_reason reason, const char *path);

void aorta_trace_free(struct aorta_trace *trace); /* NULL is fine */

/* For traces that do not know their rank: "…/rank_3/x.json", "job-rank3.json.gz": the number after the last "rank", or
 * -1. */
int aorta_trace_rank_in_path(const char *path);

/* Traces of several ranks. Zero-initialise; free with aorta_trace_list_free. */
struct aorta_trace_list {
    struct aorta_trace **items;
    size_t count, capacity;
    struct aorta_temporary *unpacked;        /* folder of unpacked files; removed with the list; or NULL */
    struct aorta_execution_traces *executed; /* that were next to the traces; owned; or NULL */
};

/* Takes ownership of the trace, also on failure. */
AORTA_MUST_USE aorta_status aorta_trace_list_add(struct aorta_trace_list *list, struct aorta_trace *trace);
void aorta_trace_list_free(struct aorta_trace_list *list);

/* ---- how much of the device's work a recording has, by its own launches and dispatch numbers ---- */

/* The larger missing share: of launched kernels, or of numbered dispatches. 0 if none is missing or it is unknown. */
double aorta_trace_missing_share(const struct aorta_trace *trace);

/* Whether too much is missing for a verdict, which is then replaced by advice on recording. */
bool aorta_trace_is_too_thin(const struct aorta_trace *trace);

/* ---- nested ranges of a thread ---- */

struct aorta_nest_range {
    int64_t start_ns, end_ns;
    uint32_t thread;
    uint32_t number; /* the caller's */
    uint32_t parent; /* index of the range around this one; NONE (made by aorta_nest_parents) */
};
enum { AORTA_NEST_NONE = UINT32_MAX };

/* By thread, then start, longer first. Items must begin with the members before `number`. */
int aorta_nest_order(const void *left, const void *right);
/* Sorts the ranges in place (stable) and finds their parents. */
void aorta_nest_make(struct aorta_nest_range *ranges, size_t count);
/* Nests annotations; the number of each range is that of the annotation's name. */
struct aorta_nest_range *aorta_nest_of(const struct aorta_trace_annotation *frames, size_t count,
                                       struct aorta_arena *memory);
/* Finds the parents of items in this order, which have `size` bytes and begin with the members of struct
 * aorta_nest_range. */
void aorta_nest_parents(void *items, size_t count, size_t size);
/* Finds the innermost item on the thread with start <= time <= end; NONE if there is none. */
uint32_t aorta_nest_find(const void *items, size_t count, size_t size, uint32_t thread, int64_t time_ns);

/* ---- the framework of a trace, by the names of its kernels ---- */

enum aorta_framework {
    AORTA_FRAMEWORK_OTHER,      /* C, C++, Fortran, or not known */
    AORTA_FRAMEWORK_DIRECTIVES, /* … with loops of OpenACC or OpenMP */
    AORTA_FRAMEWORK_XLA,        /* JAX: kernels are XLA's own or named after their fused operations */
    AORTA_FRAMEWORK_CUPY,
    AORTA_FRAMEWORK_TRITON,   /* many kernels are functions of @triton.jit: plain names, launched by the driver */
    AORTA_FRAMEWORK_COMPILED, /* PyTorch with torch.compile: kernels are named after what they fuse */
    AORTA_FRAMEWORK_TORCH
};

/* Whether the program uses PyTorch, so that its profiler can record it. */
bool aorta_framework_is_torch(enum aorta_framework framework);
enum aorta_framework aorta_trace_framework(const struct aorta_trace *trace);

#endif
