/* Writes a trace in the layout of PyTorch's profiler (Kineto's output_json.cpp, schemaVersion 1), which TensorBoard's
 * plugin, Perfetto, chrome://tracing and `aorta trace` read. What each event holds: docs/trace-formats.md.
 *
 * Steps are written as they are added, under a temporary name. The complete file is renamed. Memory does not grow with
 * the number of steps. Times go into the file exact to the nanosecond. One thread at a time. */
#ifndef AORTA_MEASURE_KINETO_WRITE_H
#define AORTA_MEASURE_KINETO_WRITE_H

#include "base/files.h"
#include "base/json.h"
#include "measure/metrics.h"

#include <sys/types.h>

/* A process group: `size` ranks from `first` on, `stride` apart. The first of the file is the default group. */
struct aorta_kineto_group {
    int first, size, stride;
};
enum { AORTA_KINETO_GROUPS = 8 };

/* What a stream is called, in addition to its number: a profile's, or the library's where records are written alone. */
struct aorta_kineto_name {
    int64_t stream;
    const char *name;
};

/* Facts for the whole file. All strings are borrowed until the file is closed. */
struct aorta_kineto_about {
    int rank, world_size;
    const char *backend; /* of the collectives: "nccl", "mpi", "local"; NULL: there are none */
    bool simulated;      /* collectives are local copies */
    struct aorta_kineto_group groups[AORTA_KINETO_GROUPS];
    int group_count;
    struct aorta_device_info device;
    const struct aorta_kineto_name *names; /* of streams; missing streams have no name */
    size_t name_count;
    const char *tracer;         /* "CUPTI 13.0.1"; NULL: no kernel was traced */
    pid_t thread;               /* that launched the work; 0: the calling one */
    int64_t clock_offset_ns;    /* added to the device clock gives ns since 1970 (aorta_kineto_clock_offset) */
    bool shapes, memory, flops; /* record_shapes, profile_memory, with_flops */
    struct aorta_device
        *allocations; /* device whose allocations are written, with `memory`; borrowed until close; NULL: none */
    bool steps_apart; /* steps are measured separately, so the time between them belongs to the recording */
};

/* The difference of the device clock (CLOCK_MONOTONIC) and the time of day, to some ten nanoseconds. Take it once for
 * all files of a run. */
int64_t aorta_kineto_clock_offset(void);

/* One step, or any period of work. The device's work is taken from the first of these that is present: `kernels` with
 * their `records` (kernels.c), `records` alone, or `ranges` (without a kernel tracer). */
struct aorta_kineto_step {
    int64_t number;                              /* ProfilerStep#number; -1: no step is marked */
    int64_t host_start_ns, host_end_ns;          /* the host's part; both 0: taken from the ranges */
    const struct aorta_profile *ranges;          /* NULL: not recorded */
    const struct aorta_profile *kernels;         /* NULL: not attributed to ranges */
    const struct aorta_activity_record *records; /* NULL: not traced */
    size_t record_count;
    const struct aorta_memory_info *memory;    /* at the end of the step; NULL: not measured */
    const struct aorta_device_reading *device; /* NULL: not measured */
};

struct aorta_kineto;

/* Begins `path` (copied), in a folder that exists. AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_kineto_open(const char *path, const struct aorta_kineto_about *about,
                                              struct aorta_kineto **kineto);
/* Nothing is borrowed after it returns. */
AORTA_MUST_USE aorta_status aorta_kineto_add(struct aorta_kineto *kineto, const struct aorta_kineto_step *step);
/* Ends the file and puts it in its place; on failure it is removed. NULL is fine. */
AORTA_MUST_USE aorta_status aorta_kineto_close(struct aorta_kineto *kineto);
/* Removes what was written. NULL is fine. */
void aorta_kineto_abandon(struct aorta_kineto *kineto);

/* "<directory>/rank<R>/<host>_<pid>.<time in ns>.pt.trace.json", as TensorBoard's plugin looks for it; makes the
 * folders. */
AORTA_MUST_USE aorta_status aorta_kineto_path(const char *directory, int rank, struct aorta_file_path *path);

/* ---- state of an open file, shared by kineto_write.c and kineto_write_*.c ---- */

enum { AORTA_KINETO_GRAPH_STREAMS = 1000 }; /* added to the number of a stream whose work a graph launched */

struct aorta_kineto_stream {
    int64_t id;
    unsigned roles; /* bit r: enum aorta_role r */
};

struct aorta_kineto {
    struct aorta_kineto_about about;
    struct aorta_file_path path;
    struct aorta_file_writer *file;
    struct aorta_text text;                /* what is not in the file yet */
    struct aorta_json json;                /* the event being written */
    bool begun;                            /* an event is in the file */
    int64_t base_ns;                       /* ns since 1970 at which its times begin to count */
    int64_t ranges;                        /* written so far: their numbers are the external ids */
    int64_t launches;                      /* number of launches so far, used without a tracer */
    int64_t sequence[AORTA_KINETO_GROUPS]; /* collectives of each group so far */
    struct aorta_kineto_stream *streams;   /* seen so far */
    size_t stream_count, stream_capacity;
    int64_t first_ns, last_ns; /* of all events; first > last: there are none */
    uint64_t allocated;        /* memory at the step before */
    size_t allocations;        /* events of memory written so far */
    /* The host's part of the last step, which lasts until the next step begins. */
    struct {
        bool open;
        int64_t number, start_ns, end_ns, external;
    } step;
};

/* ---- events: begin, then args by aorta_json_key_… on kineto->json, then end ---- */

struct aorta_kineto_event {
    const char *phase; /* "X": with a duration */
    const char *category, *name;
    int64_t process, thread;
    int64_t start_ns, end_ns; /* device clock; end only for "X" */
};
/* The args are open when it returns. */
void aorta_kineto_begin(struct aorta_kineto *kineto, const struct aorta_kineto_event *event);
/* With a duration, on the thread that launched the work. */
void aorta_kineto_begin_host(struct aorta_kineto *kineto, const char *category, const char *name, int64_t start_ns,
                             int64_t end_ns);
void aorta_kineto_end(struct aorta_kineto *kineto);
/* An arrow from the host's launch ("s") to the device's work ("f"). */
void aorta_kineto_flow(struct aorta_kineto *kineto, bool at_launch, int64_t id, int64_t process, int64_t thread,
                       int64_t time_ns);
/* Writes the gathered text to the file if it is long, or if at_once. */
AORTA_MUST_USE aorta_status aorta_kineto_flush(struct aorta_kineto *kineto, bool at_once);
/* The stream exists, and serves this role (AORTA_ROLE_COUNT: not known). */
AORTA_MUST_USE aorta_status aorta_kineto_use_stream(struct aorta_kineto *kineto, int64_t id, enum aorta_role role);
/* The step's memory and sensors, at its end. */
AORTA_MUST_USE aorta_status aorta_kineto_counters(struct aorta_kineto *kineto, const struct aorta_kineto_step *step,
                                                  int64_t at_ns);
/* Ends the host's part of the last step, at the latest at until_ns. */
void aorta_kineto_end_step(struct aorta_kineto *kineto, int64_t until_ns);

#endif
