/* A trace file while it is written: what kineto_write.c and kineto_write_*.c share. */
#ifndef AORTA_MEASURE_KINETO_WRITE_INTERNAL_H
#define AORTA_MEASURE_KINETO_WRITE_INTERNAL_H

#include "base/files.h"
#include "base/json.h"
#include "measure/kineto_write.h"

enum { AORTA_KINETO_GRAPH_STREAMS = 1000 }; /* added to the number of a stream whose work a graph launched */

struct aorta_kineto_stream {
    int64_t id;
    unsigned roles; /* bit r: enum aorta_role r */
};

struct aorta_kineto {
    struct aorta_kineto_about about;
    char *path;
    struct aorta_file_writer *file;
    struct aorta_text text;                /* what is not in the file yet */
    struct aorta_json json;                /* the event being written */
    bool begun;                            /* an event is in the file */
    int64_t base_ns;                       /* ns since 1970 at which its times begin to count */
    int64_t ranges;                        /* written so far: their numbers are the external ids */
    int64_t launches;                      /* numbered here, where no tracer numbers them */
    int64_t sequence[AORTA_KINETO_GROUPS]; /* collectives of each group so far */
    struct aorta_kineto_stream *streams;   /* seen so far */
    size_t stream_count, stream_capacity;
    int64_t first_ns, last_ns; /* of all events; first > last: there are none */
    uint64_t allocated;        /* memory at the step before */
    size_t allocations;        /* events of memory written so far */
    /* The host's part of the last step: it ends where the next one begins. */
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
void aorta_kineto_end(struct aorta_kineto *kineto);
/* An arrow from the host's launch ("s") to the device's work ("f"). */
void aorta_kineto_flow(struct aorta_kineto *kineto, bool at_launch, int64_t id, int64_t process, int64_t thread,
                       int64_t time_ns);
/* Moves what has gathered into the file, when it is much (or at_once). */
AORTA_MUST_USE aorta_status aorta_kineto_flush(struct aorta_kineto *kineto, bool at_once);
/* The stream exists, and serves this role (AORTA_ROLE_COUNT: not known). */
AORTA_MUST_USE aorta_status aorta_kineto_use_stream(struct aorta_kineto *kineto, int64_t id, enum aorta_role role);
/* The step's memory and sensors, at its end. */
AORTA_MUST_USE aorta_status aorta_kineto_counters(struct aorta_kineto *kineto, const struct aorta_kineto_step *step,
                                                  int64_t at_ns);
/* Ends the host's part of the last step, at the latest at until_ns. */
void aorta_kineto_end_step(struct aorta_kineto *kineto, int64_t until_ns);

#endif
