/* Internals of the builder: rows in order of arrival, before they are sorted and linked. */
#ifndef AORTA_TRACE_BUILDER_INTERNAL_H
#define AORTA_TRACE_BUILDER_INTERNAL_H

#include "base/intern.h"
#include "trace/builder.h"

/* A growing array of rows of one size. */
struct trace_rows {
    void *items;
    size_t count, capacity;
};

struct trace_pending { /* device work, and the numbers by which it is linked */
    struct aorta_trace_work work;
    int64_t operation, offset;
};
struct trace_operation { /* an operation whose shape is stored */
    int64_t number;
    uint32_t run; /* row of runs */
    uint32_t shape;
    bool seen; /* its first kernel is linked */
};

/* Kinds of calls that exist only until launches are linked. */
enum {
    TRACE_CALL_UNNAMED = AORTA_CALL_KIND_COUNT, /* dropped unless it launched something */
    TRACE_CALL_EVENT_WAIT                       /* of a stream for an event */
};
static inline bool aorta_trace_call_is_known(const struct aorta_trace_call *call) {
    return call->kind < AORTA_CALL_KIND_COUNT;
}

/* Marks a correlation that is Kineto's "External id": see builder_link.c. */
#define TRACE_EXTERNAL (UINT64_C(1) << 63)

struct trace_launch { /* what the file says of a launch besides its call */
    uint64_t correlation;
    int64_t operation; /* the file's number; -1: not known */
    uint32_t kernel;   /* text; NONE: not known */
};
struct trace_capture_mark {
    int64_t start_ns, end_ns; /* of the call */
    uint32_t thread;
    bool begins;
};

/* The meaning of a text as the name of a kernel, of a call and of an operation, determined once per text. */
struct trace_meaning {
    bool kernel_known, product, call_known;
    bool capture_begins, capture_ends;
    bool operation_known, counted, reads_values, keeps_values;
    uint8_t work_class; /* enum aorta_work_class */
    uint8_t call_kind;  /* enum aorta_trace_call_kind, or TRACE_CALL_… */
    struct aorta_kernel_kind kernel;
};

/* Kinds of numbers that differ between a part and the whole (builder_link.c). */
enum trace_map {
    TRACE_MAP_NONE,
    TRACE_MAP_TEXT,
    TRACE_MAP_STREAM,
    TRACE_MAP_QUEUE,
    TRACE_MAP_THREAD,
    TRACE_MAP_GROUP,
    TRACE_MAP_INPUTS,
    TRACE_MAP_SHAPE,
    TRACE_MAP_COUNT
};

struct aorta_trace_builder {
    struct aorta_trace *trace;
    const struct aorta_kernel_patterns *patterns;
    struct aorta_arena memory; /* `failed` is set when memory runs out */
    bool keeps_functions;
    struct trace_rows pending, calls, annotations, steps, operations;
    struct trace_rows requests;    /* struct aorta_trace_annotation: `name` is the row of request_facts */
    struct trace_rows runs;        /* struct aorta_trace_operation: of all operations */
    struct trace_rows functions;   /* struct aorta_trace_annotation: with options->functions also modules */
    struct trace_rows frames;      /* struct aorta_trace_frame */
    struct trace_rows allocations; /* struct aorta_trace_allocation */
    struct trace_rows wait_facts;
    struct trace_rows capture_marks; /* struct trace_capture_mark */
    struct trace_rows launches;      /* struct trace_launch; from the first mark on */
    struct trace_rows graphs;        /* struct aorta_captured_graph */
    struct trace_rows captured;      /* struct trace_pending */
    struct trace_rows collectives;   /* of the work, in order of arrival */
    struct trace_rows request_facts; /* struct aorta_trace_collective of the requests */
    struct trace_rows shapes, inputs, groups, devices, thread_names;
    struct aorta_keys streams, queues, threads, shape_keys, input_keys, step_keys, group_keys;
    struct aorta_keys rank_lists;   /* of groups: a key is a shorter list and one more rank */
    struct trace_meaning *meanings; /* by text */
    size_t meaning_count;
    bool captures_before;                    /* of a part: a graph was captured before it */
    struct trace_rows maps[TRACE_MAP_COUNT]; /* of a part: uint32_t, from its numbers to those of the whole */
};

/* A copy of the row becomes the last one, unless the builder has failed. */
void aorta_trace_rows_put(struct aorta_trace_builder *builder, struct trace_rows *rows, const void *row,
                          size_t row_bytes);
/* The number of a new row of collectives. NONE (and failed): memory is exhausted. */
uint32_t aorta_trace_add_facts(struct aorta_trace_builder *builder, const struct aorta_trace_collective *facts);
/* Hands over the memory of the rows and empties them. */
void *aorta_trace_rows_take(struct trace_rows *rows, size_t *count, size_t size);
/* Fast if the rows are nearly in order, as in most files. */
void aorta_trace_rows_sort(struct trace_rows *rows, size_t size, int (*order)(const void *, const void *));
struct aorta_kernel_kind aorta_trace_kernel_kind(struct aorta_trace_builder *builder, uint32_t name);
/* The meaning of a name as that of an operation. NULL (and failed) if memory is exhausted. Valid until the next text is
 * added. */
struct trace_meaning *aorta_trace_operation_meaning(struct aorta_trace_builder *builder, uint32_t name,
                                                    const struct aorta_operation *operation);
enum aorta_work_class aorta_trace_work_class(struct aorta_trace_builder *builder, uint32_t name);

/* Adds the row unless an equal one exists, and returns its number. NONE (and failed): memory is exhausted. */
uint32_t aorta_trace_add_inputs_row(struct aorta_trace_builder *builder, const struct aorta_trace_inputs *inputs);
uint32_t aorta_trace_add_shape_row(struct aorta_trace_builder *builder, const struct aorta_trace_shape *shape,
                                   uint32_t values);
void aorta_trace_add_step(struct aorta_trace_builder *builder, const struct aorta_trace_step *step);

/* builder_link.c: sorts and links all rows of a builder that has not failed. */
void aorta_trace_builder_link(struct aorta_trace_builder *builder);
/* Adds the rows of the part and empties it for reuse. False, with nothing added, if the part was read without knowing
 * of a graph capture before it. */
bool aorta_trace_builder_append(struct aorta_trace_builder *whole, struct aorta_trace_builder *part);

int64_t *aorta_trace_times_new(size_t count, int64_t value, struct aorta_arena *memory);

/* builder_operations.c: the shapes of launched kernels, and the callers of calls that wait; after launches are linked.
 */
void aorta_trace_link_shapes(struct aorta_trace_builder *builder);
void aorta_trace_link_callers(struct aorta_trace_builder *builder);

/* builder_operations.c; after launches are linked. */
void aorta_trace_link_operations(struct aorta_trace_builder *builder);

/* By start, then end, stream and place in the file. */
void aorta_trace_sort_work(struct aorta_trace_builder *builder);

/* builder_launches.c; after launches are linked: moves the work of devices whose clock is ahead. */
void aorta_trace_set_clocks(struct aorta_trace_builder *builder);

/* builder_launches.c: adds calls for collectives on the host, before launches are linked. */
void aorta_trace_add_host_collectives(struct aorta_trace_builder *builder);

/* builder_launches.c; after launches are linked: fills `graphs` and `captured`, and counts launches without work. */
void aorta_trace_find_captures(struct aorta_trace_builder *builder);

/* builder_launches.c: whether a call has work, or was captured and runs nothing. */
enum { TRACE_UNANSWERED, TRACE_ANSWERED, TRACE_CAPTURED };
/* Ends work where later work of its stream shows that its length is impossible. Needs sorted work, and may leave it
 * unsorted. */
void aorta_trace_cut_impossible(struct aorta_trace_builder *builder);

/* What contains launches, nested: requests of collectives, ranges of the backend ("nccl:…"), other annotations;
 * `number` is the row of request_facts, or of annotations. */
struct trace_surroundings {
    struct aorta_nest_range *requests, *annotations, *backend;
    size_t annotation_count, backend_count;
};
/* builder_launches.c; after operations are linked. */
void aorta_trace_take_copies(struct aorta_trace_builder *builder, const struct trace_surroundings *around);

/* builder_operations.c; after operations are linked: if nothing ran on a device, adds the host's operations as work. */
void aorta_trace_add_host_work(struct aorta_trace_builder *builder);

/* builder_operations.c: sizes and type of a collective that the file does not describe, from the largest input of the
 * operation that launched it. False if inputs were not recorded. */
bool aorta_trace_collective_of_operation(struct aorta_trace_builder *builder, uint32_t operation,
                                         struct aorta_trace_collective *facts);
/* builder_operations.c: derives kind and bytes of a collective from its name and sizes, where possible. */
void aorta_trace_collective_complete(const struct aorta_trace *trace, struct aorta_trace_collective *collective);

#endif
