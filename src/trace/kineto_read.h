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

/* Reads the array of events, the next value of the stream. */
AORTA_MUST_USE aorta_status aorta_trace_kineto_events(struct trace_kineto *kineto);
/* Reads any other member of the outermost object, or skips it if it is not needed. */
AORTA_MUST_USE aorta_status aorta_trace_kineto_member(struct trace_kineto *kineto, struct aorta_json_value key);
/* After the end of the file: numbers the ranks of a merged file. They get the devices of `whole`, the trace of events
 * without a rank. */
void aorta_trace_kineto_number_ranks(struct trace_kineto *kineto, const struct aorta_trace *whole);
/* Counts the processes with events in the trace (trace->processes). */
void aorta_trace_kineto_count_processes(struct trace_kineto *kineto, struct aorta_trace *trace);
/* Called before a file of several processes, first read as `whole`, is read again. Each process becomes a rank,
 * recognized by the place of its events in the file or by its launches. */
void aorta_trace_kineto_separate(struct trace_kineto *kineto, const struct aorta_trace *whole, bool by_place);

/* ---- inside the reader: kineto_read*.c ---- */

/* A fast lookup of keys, for inner loops. */
enum { KEY_SLOTS = 256 };

struct key_row {
    const char *name;
    uint8_t number; /* the result; rows of names that changed share it */
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
    CATEGORY_DEVICE_ANNOTATION, /* the last category of the device */
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
    bool own;                            /* merged by us, with devices per rank */
};
struct kineto_process {
    int64_t process;
    size_t rank;
};

/* The device or stream of a process or thread in a file of XLA's profiler. */
struct kineto_place {
    int64_t process, thread; /* thread -1: the process itself */
    int64_t number;          /* of the device, of the stream; -1: the host */
};

struct trace_kineto {
    struct aorta_json_stream *stream;
    struct aorta_trace_builder *builder; /* of the current event: `whole`, or that of a rank */
    struct aorta_trace_builder *whole;
    struct kineto_rank *ranks; /* of a merged file */
    size_t rank_count, rank_capacity;
    struct kineto_process *processes; /* … with process numbers of their own */
    size_t process_count, process_capacity;
    const struct aorta_trace_options *options;
    struct aorta_arena memory; /* of ranks, processes, places; checked when the file has been read */
    struct aorta_text scratch; /* texts with escapes, until the next event */
    struct keys fields, arguments, categories;
    struct kineto_place *places; /* of XLA's profiler; none in other files */
    size_t place_count, place_capacity;
    struct kineto_spans *spans; /* NULL: none were read yet */
    struct kineto_mixed *mixed; /* separates processes without labels; NULL if not needed */
    bool by_place, disordered;  /* separates by place; events of a process are scattered */
    size_t marks;               /* number of ends of recordings so far */
};

/* kineto_read_events.c: for events whose fields, and arguments if the category has them, are filled. */
bool aorta_trace_kineto_times(struct kineto_event *event);        /* false if missing or impossible */
int64_t aorta_trace_kineto_number(struct aorta_json_value value); /* -1: none, as of the process "Spans" */
bool aorta_trace_kineto_is_product(struct aorta_json_value name); /* a range of our own files, with shapes */
void aorta_trace_kineto_add(struct trace_kineto *kineto, const struct kineto_event *event,
                            enum kineto_category category); /* not CATEGORY_IGNORED */
void aorta_trace_kineto_add_allocation(struct trace_kineto *kineto, const struct kineto_event *event);

/* kineto_read_ranks.c: merged files. */
/* Sets the builder of an event and removes a label before its process ("[TP03] 59814"). */
void aorta_trace_kineto_choose_rank(struct trace_kineto *kineto, struct kineto_event *event);
/* Length of the rank's label at the start of a process's text; 0 if there is none. */
size_t aorta_trace_kineto_label(struct aorta_json_value process);
/* `rank` is the event's argument of that name. */
void aorta_trace_kineto_name_process(struct trace_kineto *kineto, int64_t process, const char *name,
                                     struct aorta_json_value rank);

/* kineto_read_ranks.c, where kineto->mixed. */
/* Sets the builder of an event with a duration and filled arguments. */
void aorta_trace_kineto_place(struct trace_kineto *kineto, const struct kineto_event *event, bool of_device);

/* kineto_read_events.c: values of arguments. NONE or -1 if absent; invalid numbers are counted. */
uint32_t aorta_trace_kineto_text(struct trace_kineto *kineto, struct aorta_json_value value);
int64_t aorta_trace_kineto_int(struct trace_kineto *kineto, struct aorta_json_value value, int64_t offset);
int32_t aorta_trace_kineto_small(struct trace_kineto *kineto, struct aorta_json_value value, int64_t offset);

/* kineto_read_events.c: XLA's names of processes and threads, and its events, which have no category. */
void aorta_trace_kineto_xla_process(struct trace_kineto *kineto, int64_t process, struct aorta_json_value name);
void aorta_trace_kineto_xla_thread(struct trace_kineto *kineto, int64_t process, int64_t thread,
                                   struct aorta_json_value name);
void aorta_trace_kineto_xla_event(struct trace_kineto *kineto, const struct kineto_event *event);

#endif
