/* Kineto's layout of the Chrome trace format: PyTorch's profiler (CUDA and ROCm, old and new), and our own writer.
 * Sources: libkineto's output_json.cpp and collective metadata of torch/csrc/distributed/c10d/ParamCommsUtils.hpp; and
 * files of several versions. */
#ifndef AORTA_TRACE_KINETO_READ_H
#define AORTA_TRACE_KINETO_READ_H

#include "base/arena.h"
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
/* ---- inside the reader: kineto_read*.c ---- */

/* Finds which of the keys a text is; fast, for inner loops. */
enum { KEY_SLOTS = 256 };

struct key_row {
    const char *name;
    uint8_t number; /* what is found; several rows may share one (names that changed) */
};

struct keys {
    const struct key_row *rows;
    uint8_t slots[KEY_SLOTS]; /* row + 1; 0: free */
    uint8_t lengths[KEY_SLOTS / 2];
};

enum kineto_field {
    FIELD_PHASE,
    FIELD_CATEGORY,
    FIELD_NAME,
    FIELD_PROCESS,
    FIELD_THREAD,
    FIELD_START,
    FIELD_DURATION,
    FIELD_ARGS,
    FIELD_COUNT
};

enum kineto_argument {
#define ARGUMENT(id, name) ARGUMENT_##id,
#define ALSO(id, name)
#include "trace/kineto_arguments.def"
#undef ARGUMENT
#undef ALSO
    ARGUMENT_COUNT
};

enum kineto_category {
    CATEGORY_KERNEL = AORTA_TRACE_KERNEL,
    CATEGORY_COPY = AORTA_TRACE_COPY,
    CATEGORY_FILL = AORTA_TRACE_FILL,
    CATEGORY_MTIA,
    CATEGORY_WAIT,
    CATEGORY_DEVICE_ANNOTATION, /* the last of the device */
    CATEGORY_CALL,
    CATEGORY_OPERATION,
    CATEGORY_FUNCTION,
    CATEGORY_ANNOTATION,
    CATEGORY_IGNORED
};

/* A value of length 0 is absent. */
struct kineto_event {
    struct aorta_json_value field[FIELD_COUNT];
    struct aorta_json_value argument[ARGUMENT_COUNT]; /* filled for the categories that need them */
    int64_t start_ns, end_ns, offset;
    const char *text; /* where it begins in memory */
    bool walked;      /* the arguments are filled */
};

/* One rank of a merged file. */
struct kineto_rank {
    const char *label;                   /* "[TP03]", "rank 3" */
    struct aorta_trace_builder *builder; /* owned until it is taken */
    bool own;                            /* of our own merge, which says what the rank's devices are */
};
struct kineto_process {
    int64_t process;
    size_t rank;
};

/* What a process or thread is in a file of XLA's profiler. */
struct kineto_place {
    int64_t process, thread; /* thread -1: the process itself */
    int64_t number;          /* of the device, of the stream; -1: the host */
};

struct trace_kineto {
    struct aorta_json_stream *stream;
    struct aorta_trace_builder *builder; /* of the event at hand: whole, or that of a rank */
    struct aorta_trace_builder *whole;
    struct kineto_rank *ranks; /* of a merged file */
    size_t rank_count, rank_capacity;
    struct kineto_process *processes; /* … that have numbers of their own there */
    size_t process_count, process_capacity;
    const struct aorta_trace_options *options;
    struct aorta_arena memory; /* of ranks, processes, places */
    struct aorta_text scratch; /* texts with escapes, until the next event */
    struct keys fields, arguments, categories;
    struct kineto_place *places; /* of XLA's profiler; count 0: no process of it was named */
    size_t place_count, place_capacity;
    struct kineto_spans *spans; /* NULL: none were read yet */
    struct kineto_mixed *mixed; /* what separates processes without labels; NULL: there are none */
    bool by_place, disordered;  /* it does so by the place of events, which are not together */
    size_t marks;               /* ends of recordings that were passed */
};

/* kineto_read_events.c: an event whose fields, and arguments where its category has them, are filled. */
bool aorta_trace_kineto_times(struct kineto_event *event);        /* false: it has none, or impossible ones */
int64_t aorta_trace_kineto_number(struct aorta_json_value value); /* -1: none, as of the process "Spans" */
bool aorta_trace_kineto_is_product(struct aorta_json_value name); /* a range of our own files, with shapes */
void aorta_trace_kineto_add(struct trace_kineto *kineto, const struct kineto_event *event,
                            enum kineto_category category); /* none that is ignored */
void aorta_trace_kineto_add_allocation(struct trace_kineto *kineto, const struct kineto_event *event);

/* kineto_read_ranks.c: merged files. */
/* Sets the builder of an event; a label before its process ("[TP03] 59814") is cut off. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_kineto_choose_rank(struct trace_kineto *kineto, struct kineto_event *event);
/* Length of the rank's label in the text of a process, without what the rank's own file says; 0: there is no label. */
size_t aorta_trace_kineto_label(struct aorta_json_value process);
/* `rank`: what the event's argument of that name says. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_kineto_name_process(struct trace_kineto *kineto, int64_t process,
                                                            const char *name, struct aorta_json_value rank);

/* kineto_read_ranks.c, where kineto->mixed. */
/* Sets the builder of an event with a duration, whose arguments are filled. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_kineto_place(struct trace_kineto *kineto, const struct kineto_event *event,
                                                     bool of_device);

/* kineto_read_events.c: what arguments say. NONE or -1 where they say nothing; what cannot be understood is counted. */
uint32_t aorta_trace_kineto_text(struct trace_kineto *kineto, struct aorta_json_value value);
int64_t aorta_trace_kineto_int(struct trace_kineto *kineto, struct aorta_json_value value, int64_t offset);
int32_t aorta_trace_kineto_small(struct trace_kineto *kineto, struct aorta_json_value value, int64_t offset);

/* kineto_read_events.c: names of processes and threads, and events without a category where there are places.
 * AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_kineto_xla_process(struct trace_kineto *kineto, int64_t process,
                                                           struct aorta_json_value name);
AORTA_MUST_USE aorta_status aorta_trace_kineto_xla_thread(struct trace_kineto *kineto, int64_t process, int64_t thread,
                                                          struct aorta_json_value name);
void aorta_trace_kineto_xla_event(struct trace_kineto *kineto, const struct kineto_event *event);

#endif
