/* The CPU device from inside: a stream is a worker thread that runs commands from a queue.
 *
 * Files: device.c (this machine, opening, memory, the table), stream.c (commands in flight, the worker, events),
 * graph.c (recording and replay). */
#ifndef AORTA_DEVICE_CPU_CPU_H
#define AORTA_DEVICE_CPU_CPU_H

#include "device/backend.h"

#include <pthread.h>
#include <stdatomic.h>

struct cpu_event;
struct cpu_graph;

/* ---- gates: something that happens once, and threads that wait for it ---- */

struct gate {
    _Atomic uint32_t state;
};
void aorta_cpu_gate_shut(struct gate *gate); /* only while nobody waits */
void aorta_cpu_gate_open(struct gate *gate);
void aorta_cpu_gate_wait(struct gate *gate);

/* ---- marks: one record of an event ----
 * An event may be recorded anew while older waits are pending, so each record is an object of its own: the event, the
 * queued record and the queued waits hold references. The failure is written before the gate opens. */

struct mark {
    struct gate reached;
    _Atomic int references;
    aorta_status failure; /* owned: a copy of the stream's when the mark was reached */
};

struct mark *aorta_cpu_mark_make(void); /* with one reference; NULL when memory is exhausted */
struct mark *aorta_cpu_mark_retain(struct mark *mark);
void aorta_cpu_mark_release(struct mark *mark); /* NULL is fine */

/* ---- commands ---- */

enum command_kind {
    COMMAND_KERNEL,
    COMMAND_HOST_CALL,
    COMMAND_COPY,
    COMMAND_FILL,
    COMMAND_TIMESTAMP,
    COMMAND_RECORD,
    COMMAND_WAIT,
    COMMAND_REPLAY, /* one run of a graph */
    COMMAND_KIND_COUNT
};

/* Can be moved in memory, as arguments follow the struct. So queue and graph store it in the same form. */
struct command {
    uint32_t bytes; /* with the arguments after it; a multiple of 16 */
    enum command_kind kind;
    union {
        const struct aorta_kernel *kernel;
        struct {
            void (*function)(void *user);
            void *user;
        } host_call;
        struct {
            void *to;
            const void *from;
            size_t bytes;
        } copy;
        struct {
            void *to;
            size_t bytes;
            int value;
        } fill;
        int64_t *timestamp;
        struct mark *mark; /* record and wait */
        struct {
            struct cpu_graph *graph;
            struct mark *before, *after; /* end of the graph's run before this one (may be NULL), and of this one */
        } replay;
    } as;
} __attribute__((aligned(16)));

/* Commands one after the other. Zero-initialise, free `commands`. */
struct program {
    char *commands;
    size_t length, capacity;
};
/* False: no memory. */
bool aorta_cpu_program_append(struct program *program, const struct command *command, const void *arguments,
                              size_t bytes);

/* Runs commands: a stream, or a graph's branch. Used by one thread at a time. */
struct runner {
    const char *name;
    aorta_status failure; /* sticky; owned */
};
void aorta_cpu_run_command(struct runner *runner, const struct command *command);

/* ---- commands on their way from one producer to one consumer, which takes all that is queued at once ---- */

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct program queued;
    bool busy; /* the consumer has not run all of it */
    bool closed;
    struct program running; /* the consumer's */
    size_t read;            /* offset of the next command in it */
};
void aorta_cpu_queue_create(struct queue *queue);
void aorta_cpu_queue_destroy(struct queue *queue);
aorta_status aorta_cpu_queue_push(struct queue *queue, const struct command *command, const void *arguments,
                                  size_t bytes);
void aorta_cpu_queue_close(struct queue *queue); /* by the producer: nothing more will come */
/* Called when the consumer has run the previous command. Sleeps until the next one comes. Returns NULL if closed. */
const struct command *aorta_cpu_queue_next(struct queue *queue);
void aorta_cpu_queue_wait(struct queue *queue); /* by the producer, until the consumer has run all of it */

/* ---- threads ---- */

/* Starts a thread that no signal interrupts. `what` names it in the message. */
aorta_status aorta_cpu_thread_start(pthread_t *thread, void *(*function)(void *), void *user, const char *what);
void aorta_cpu_thread_configure(const char *name, enum aorta_priority priority); /* called first by the new thread */
/* Binds a thread to part `part` of the process's processors, of which a share makes one. */
aorta_status aorta_cpu_thread_bind(pthread_t thread, double share, int part);

/* ---- graph.c: recording commands instead of running them, and replay ---- */

struct branch { /* one stream's part of a graph */
    struct capture_branch base;
    struct program program;
    /* replay */
    struct runner runner;
    pthread_t thread; /* of every branch but the first */
    enum aorta_priority priority;
    bool started; /* the thread exists */
    bool stop;    /* the thread is to end; written before `start` opens */
    struct gate start, finished;
};

struct capture {
    struct capture_state state;
    struct mark **marks; /* records inside */
    size_t mark_count, mark_capacity, node_count;
};

/* For captured streams. The event is locked. */
aorta_status aorta_cpu_capture_append(struct aorta_stream *stream, const struct command *command, const void *args,
                                      size_t bytes);
aorta_status aorta_cpu_capture_record(struct aorta_stream *stream, struct cpu_event *event);

void aorta_cpu_graph_run(struct cpu_graph *graph, struct runner *runner); /* on the launching stream's thread */

/* ---- the objects ---- */

struct cpu_stream {
    struct aorta_stream base;
    pthread_t thread;
    struct queue queue;
    struct runner runner; /* the worker's */
};

struct cpu_event {
    struct aorta_event base;
    struct mark *latest; /* last record; NULL: never recorded */
};

static inline struct cpu_stream *cpu_stream(struct aorta_stream *stream) {
    return (struct cpu_stream *)stream;
}
static inline struct cpu_event *cpu_event(struct aorta_event *event) {
    return (struct cpu_event *)event;
}

/* ---- members of the table ---- */

aorta_status aorta_cpu_stream_create(struct aorta_device *device, const char *name, enum aorta_priority priority,
                                     struct aorta_stream **stream);
aorta_status aorta_cpu_stream_limit(struct aorta_stream *stream, double share, int part);
void aorta_cpu_stream_destroy(struct aorta_stream *stream);
aorta_status aorta_cpu_stream_synchronize(struct aorta_stream *stream);
aorta_status aorta_cpu_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                              size_t bytes);
aorta_status aorta_cpu_host_call(struct aorta_stream *stream, void (*function)(void *user), void *user);
aorta_status aorta_cpu_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes);
aorta_status aorta_cpu_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes);
aorta_status aorta_cpu_timestamp(struct aorta_stream *stream, int64_t *slot);

void aorta_cpu_event_end(struct aorta_event *event);
aorta_status aorta_cpu_event_record(struct aorta_event *event, struct aorta_stream *stream);
aorta_status aorta_cpu_stream_wait(struct aorta_stream *stream, struct aorta_event *event);
aorta_status aorta_cpu_event_synchronize(struct aorta_event *event);
bool aorta_cpu_event_done(struct aorta_event *event);

aorta_status aorta_cpu_capture_end(struct aorta_stream *stream, aorta_status failure, struct aorta_graph **graph);
void aorta_cpu_capture_free(struct capture_state *capture);
aorta_status aorta_cpu_graph_launch(struct aorta_graph *graph, struct aorta_stream *stream);
void aorta_cpu_graph_destroy(struct aorta_graph *graph);

#endif
