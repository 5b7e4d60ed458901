/* A workload as a graph, written once: `build` creates tensors and appends operations in the order of their launches,
 * each on a stream. The graph then does four things:
 *
 *   iterate  replays the operations, with the events that order streams
 *   verify   computes samples of each operation's outputs from its inputs, in double precision (graph_check.c)
 *   order    shows that every pair of operations that need an order has one (graph_check.c)
 *   work     computes FLOP from shapes, unless `build` sets the work
 *
 * When an operation reads or overwrites data of another stream, the graph adds a wait for exactly the operation that
 * made or used that data. hwq_after adds an order that no data needs. A group of ranks counts as data: it runs one
 * collective at a time.
 *
 * Errors stay in the graph: after the first one all calls do nothing, and hwq_graph_create returns it. The harness owns
 * memory, events and prepared launches; everything else is in its arena. One host thread. */
#ifndef AORTA_HWQ_GRAPH_H
#define AORTA_HWQ_GRAPH_H

#include "hwq/workload.h"

enum { HWQ_MOST_IN = 8, HWQ_MOST_OUT = 5 };

struct hwq_graph;
struct hwq_memory; /* graph.c: one allocation */
struct hwq_operation;

/* Rows and columns of an allocation: a view, passed by value. Column c of a row begins (c / width) · period + c mod
 * width elements into the row: where width < period, the view has the same part of every head. */
struct hwq_tensor {
    struct hwq_memory *memory; /* NULL: no tensor */
    enum aorta_dtype dtype;
    int64_t size, offset;          /* of an element, and to the first one, in bytes */
    int64_t rows, columns, stride; /* elements from row to row */
    int64_t width, period;
    bool transposed; /* only products of matrices use it */
};

/* ---- kinds of operations ---- */

/* An expected element, and the allowed error of a result. INFINITY: the value is not known here, as it is another
 * rank's. */
struct hwq_value {
    double value, allowed;
};
struct hwq_checker; /* graph_check.c */
struct hwq_element {
    struct hwq_checker *checker;
    const struct hwq_operation *o;
    int output;
    int64_t row, column;
};

/* `run` queues the operation; `element` computes one element of an output from the inputs (hwq_at). */
struct hwq_kind {
    const char *name;
    enum aorta_span_kind span;
    enum aorta_collective collective;                                                /* of those in operations.h */
    aorta_status (*run)(const struct hwq_operation *o, struct aorta_stream *stream); /* NULL: prepared kernels */
    struct hwq_value (*element)(const struct hwq_element *e);
    double (*flops)(const struct hwq_operation *o); /* NULL if they do not count */
    int samples;                                    /* compared elements per output; 0: 97 */
    bool moves;                                     /* each element is copied from an input or constant */
};

struct hwq_operation {
    const struct hwq_kind *kind;
    const char *name; /* as stamped; NULL: the kind's */
    int stream;
    struct hwq_tensor in[HWQ_MOST_IN], out[HWQ_MOST_OUT]; /* a tensor that is changed is in both */
    unsigned wide; /* bit k: an element reads all rows of in[k]; compared only while all are in memory */
    struct aorta_comm *comm;
    const void *shape; /* of its kind; copied by hwq_append */
    /* A kernel of our own has these instead of `run`. Its shape is its arguments, which begin with the stamp. */
    const struct aorta_kernel *kernel;
    struct aorta_prepared *prepared; /* NULL: none */
    size_t bytes;                    /* of the arguments */

    /* Set by hwq_append. */
    struct hwq_graph *graph;
    int64_t number;                       /* in the order of launches, from 1 */
    int64_t clock[AORTA_HWQ_MAX_STREAMS]; /* operations of each stream that have ended when this one ends */
    struct aorta_event *done;             /* NULL: no wait */
    struct hwq_wait *waits;
    struct hwq_region *region;
    struct hwq_tensor group; /* represents `comm` */
    struct hwq_operation *next;

    /* Set by verification. */
    unsigned overwritten;                 /* bit k: in[k] has been overwritten when the iteration ends */
    struct hwq_value *made[HWQ_MOST_OUT]; /* elements computed so far; allowed 0: not yet */
};

/* ---- the graph ---- */

enum hwq_step_kind { HWQ_NOTHING, HWQ_OPERATION, HWQ_LAUNCHES, HWQ_RECORD, HWQ_WAIT, HWQ_REGION };
struct hwq_step {
    enum hwq_step_kind kind;
    int stream;
    size_t count; /* of launches; of steps of a region */
    union {
        struct hwq_operation *operation;
        struct hwq_operation **launches; /* of prepared kernels */
        struct aorta_event *event;
        struct hwq_region *region;
    };
};

struct hwq_graph {
    struct aorta_hwq *hwq;
    const void *options; /* of the workload */
    double work;         /* of one iteration, in the workload's unit times seconds; 0: FLOP of all operations */
    void *state;         /* the workload's own, for its report and the like */
    bool independent;    /* streams exchange nothing and have no order */
    unsigned without;    /* bit of a span kind: iterate skips these operations */
    aorta_status status; /* the first error */

    struct hwq_operation *first, *last, *last_on[AORTA_HWQ_MAX_STREAMS];
    struct hwq_memory *memories;
    struct hwq_tensor into;
    struct hwq_region *region, *regions;
    struct hwq_operation **launches; /* in their order */
    size_t launch_count, launch_capacity;
    struct hwq_owned *owned;
    int64_t known[AORTA_HWQ_MAX_STREAMS]
                 [AORTA_HWQ_MAX_STREAMS]; /* operations that end before the next one of a stream begins */
    /* [stream][other]: the latest operation of `other` that must end before the next operation of `stream`. */
    struct hwq_operation *needs[AORTA_HWQ_MAX_STREAMS][AORTA_HWQ_MAX_STREAMS];
    struct hwq_step *steps;
    size_t step_count, step_capacity;
};

/* Calls the workload's `build`, then prepares the steps of iterate. Without a workload (NULL) the caller fills the
 * graph and calls hwq_graph_finish. */
AORTA_MUST_USE aorta_status hwq_graph_create(struct aorta_hwq *hwq, const struct aorta_hwq_workload *workload,
                                             struct hwq_graph **graph);
AORTA_MUST_USE aorta_status hwq_graph_finish(struct hwq_graph *g);
void hwq_graph_destroy(struct hwq_graph *g); /* streams idle; NULL is fine */
/* Queues one iteration. */
AORTA_MUST_USE aorta_status hwq_graph_iterate(struct hwq_graph *g);
/* AORTA_INTERNAL names two operations that need an order and have none, their streams and the tensor. */
AORTA_MUST_USE aorta_status hwq_graph_check_order(const struct hwq_graph *g);
/* Runs one more iteration and compares its results. */
AORTA_MUST_USE aorta_status hwq_graph_verify(struct hwq_graph *g, struct aorta_hwq_check *check);

/* Calls the workload's function. Without one: does nothing, computes the graph's work, calls hwq_graph_verify. */
AORTA_MUST_USE aorta_status hwq_graph_start(struct hwq_graph *g);
AORTA_MUST_USE aorta_status hwq_graph_amount(struct hwq_graph *g, int64_t iterations, double *amount);
AORTA_MUST_USE aorta_status hwq_graph_check(struct hwq_graph *g, struct aorta_hwq_check *check);

/* ---- tensors ---- */

/* Memory of a result. Its contents are undefined; before a verified iteration they are NaN (64-bit integers, which are
 * ids: 0). */
struct hwq_tensor hwq_result(struct hwq_graph *g, enum aorta_dtype dtype, int64_t rows, int64_t columns,
                             const char *name);
/* Memory that keeps its contents: pseudo-random (aorta_hwq_fill), or copied from `values`, or zeros if it is NULL. */
struct hwq_tensor hwq_input(struct hwq_graph *g, uint64_t id, int64_t rows, int64_t columns, float scale,
                            const char *name);
struct hwq_tensor hwq_typed_input(struct hwq_graph *g, uint64_t id, enum aorta_dtype dtype, int64_t rows,
                                  int64_t columns, float scale, const char *name);
struct hwq_tensor hwq_constant(struct hwq_graph *g, enum aorta_dtype dtype, int64_t count, const void *values,
                               const char *name);
/* One row in pinned host memory: zeros, or with `result` as for a result. */
struct hwq_tensor hwq_pinned(struct hwq_graph *g, enum aorta_dtype dtype, int64_t count, bool result, const char *name);

struct hwq_tensor hwq_rows(struct hwq_tensor t, int64_t first, int64_t count);
struct hwq_tensor hwq_columns(struct hwq_tensor t, int64_t first, int64_t count);
struct hwq_tensor hwq_transposed(struct hwq_tensor t);
/* Columns first … first + width − 1 of every `period`. */
struct hwq_tensor hwq_comb(struct hwq_tensor t, int64_t first, int64_t width, int64_t period);
struct hwq_tensor hwq_shaped(struct hwq_tensor t, int64_t rows, int64_t columns); /* of dense rows */
/* rows · columns dense elements from number `first` on. Without a tensor the result is none. */
struct hwq_tensor hwq_piece(struct hwq_tensor t, int64_t first, int64_t rows, int64_t columns);
/* Row i begins `stride` elements after row i − 1. */
struct hwq_tensor hwq_strided(struct hwq_tensor t, int64_t first, int64_t rows, int64_t columns, int64_t stride);
/* The next rows · columns dense elements, from a multiple of `unit` on; *used: elements cut so far. */
struct hwq_tensor hwq_cut(struct hwq_tensor t, int64_t *used, int64_t rows, int64_t columns, int64_t unit);
/* `count` elements of another type from byte `offset` on. */
struct hwq_tensor hwq_retyped(struct hwq_tensor t, int64_t offset, enum aorta_dtype dtype, int64_t count);

void *hwq_at_device(struct hwq_tensor t); /* the address of the first element; NULL: no tensor */
float *hwq_floats(struct hwq_tensor t);
size_t hwq_bytes(struct hwq_tensor t); /* rows · columns elements */
bool hwq_same(const struct hwq_tensor *a, const struct hwq_tensor *b);

/* ---- appending operations: the basis of operations.h ---- */

/* The next output goes to `output` instead of into new memory: hwq_gelu(hwq_into(g, y), s, x). No other argument of
 * that call may append an operation. */
struct hwq_graph *hwq_into(struct hwq_graph *g, struct hwq_tensor output);
/* The place given to hwq_into, or a new result. */
struct hwq_tensor hwq_output(struct hwq_graph *g, int64_t rows, int64_t columns, const char *name);
struct hwq_operation *hwq_append(struct hwq_graph *g, const struct hwq_operation *operation, const void *shape,
                                 size_t bytes);
/* A kernel of our own with `bytes` of *args, whose first member is its stamp. */
struct hwq_operation *hwq_append_kernel(struct hwq_graph *g, const struct hwq_operation *operation,
                                        const struct aorta_kernel *kernel, const void *args, size_t bytes);
/* Calls `end` with the object when the graph is destroyed, the last one first. */
void hwq_owns(struct hwq_graph *g, void (*end)(void *object), void *object);
/* A group of ranks for one stream: a group is used from one stream at a time. */
struct aorta_comm *hwq_split(struct hwq_graph *g, const int *ranks, int count);
/* Stream number `index` with role `role`, where stream s has role s modulo `roles`. */
int hwq_stream(const struct hwq_graph *g, int role, int roles, int64_t index);
/* Part number `index` of `all`, cut into `parts` whose counts differ by at most one. */
struct hwq_part {
    int64_t first, count;
};
struct hwq_part hwq_part(int64_t all, int64_t parts, int64_t index);
void *hwq_state(struct hwq_graph *g, size_t bytes); /* zeroed host memory; NULL if exhausted, and the graph fails */
void hwq_fail(struct hwq_graph *g, aorta_status status);

/* The next operation of `stream` waits for all operations appended to stream `before` so far. */
void hwq_after(struct hwq_graph *g, int stream, int before);
/* Repeats a launch. No other stream may use what it reads or writes. */
void hwq_again(struct hwq_graph *g, struct hwq_operation *operation);
/* Operations of one stream until hwq_region_end are captured. Outside a capture of the whole iteration they are
 * replayed with one launch, whose stamp is `name`. */
void hwq_region_begin(struct hwq_graph *g, int stream, const char *name);
void hwq_region_end(struct hwq_graph *g);

/* ---- elements ---- */

/* An element of an input, as the operation read it. */
struct hwq_value hwq_at(const struct hwq_element *e, int input, int64_t row, int64_t column);
/* An element that the operation wrote to another output, which is compared on its own. */
struct hwq_value hwq_written(const struct hwq_element *e, int output, int64_t row, int64_t column);
static inline struct hwq_value hwq_exact(double value) {
    return (struct hwq_value){value, 1e-30};
}
struct hwq_value hwq_unknown(void);

/* Σ a·b. Allowed is `tolerance` times the sum of magnitudes, plus the errors of a and b. */
struct hwq_sum {
    double value, magnitude, square; /* of the errors of a and b */
    bool unknown;
};
void hwq_sum_product(struct hwq_sum *sum, struct hwq_value a, struct hwq_value b);
void hwq_sum_add(struct hwq_sum *sum, struct hwq_value a);
struct hwq_value hwq_sum_end(const struct hwq_sum *sum, double tolerance);

#endif
