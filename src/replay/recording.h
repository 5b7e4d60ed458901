/* The input of the graph: calls of hosts and spans of devices of all ranks, independent of the recorder.
 *
 * Times are int64 ns on the common clock of the ranks. Rows are referred to by number; AORTA_GRAPH_NONE: no such row.
 * Names are numbers that are equal on all ranks. Arrays belong to the caller. */
#ifndef AORTA_REPLAY_RECORDING_H
#define AORTA_REPLAY_RECORDING_H

#include "analysis/steps.h"
#include "replay/graph.h"

enum aorta_replay_call_kind {
    AORTA_REPLAY_LAUNCH,          /* launches kernels, graphs or fills; or any other call */
    AORTA_REPLAY_COPY,            /* launches a copy, and waits for it if the copy ends within the call */
    AORTA_REPLAY_READ,            /* launches a copy to the host that the thread's next call waits for, as .item() */
    AORTA_REPLAY_VALUE,           /* copies values to the host and returns after that */
    AORTA_REPLAY_SYNC_DEVICE,     /* waits for all launched work */
    AORTA_REPLAY_SYNC,            /* waits for a stream or an event */
    AORTA_REPLAY_MEMORY,          /* allocates */
    AORTA_REPLAY_FREE,            /* frees, which may wait for the device */
    AORTA_REPLAY_DATA,            /* waits for data; other calls may be within */
    AORTA_REPLAY_BATCH,           /* the same of data that other processes or threads load */
    AORTA_REPLAY_HOST_COLLECTIVE, /* carries out a collective on the host */
};

struct aorta_replay_call {
    int64_t start_ns, end_ns;
    uint32_t row;     /* subject of its points; NONE: the mark of the first step */
    uint32_t thread;  /* of its host */
    uint32_t name;    /* of its work, or its own */
    uint8_t kind;     /* enum aorta_replay_call_kind */
    uint32_t awaited; /* 1 + the span that it waits for according to the file, of the host's only rank; 0: not known */
    bool blocked;     /* a long launch whose kernel begins only after its end */
};

enum aorta_replay_span_kind { AORTA_REPLAY_KERNEL, AORTA_REPLAY_TRANSFER, AORTA_REPLAY_COLLECTIVE };

/* The role of a collective for dependent work. */
enum aorta_replay_role {
    AORTA_REPLAY_OTHER,
    AORTA_REPLAY_GATHER, /* brings data for later work: can begin earlier */
    AORTA_REPLAY_REDUCE, /* takes data of earlier work: can end later */
};

struct aorta_replay_span {
    int64_t start_ns, end_ns;
    int64_t alone_ns;      /* time with nothing running concurrently; -1: not known, or not significantly less */
    uint32_t row;          /* the points' subject */
    uint32_t stream;       /* of the rank */
    uint32_t queue;        /* hardware queue; NONE: not known */
    uint32_t communicator; /* collectives; NONE: not known */
    uint32_t launch;       /* call of the host; NONE: not recorded */
    uint32_t name;
    uint32_t sizes;      /* number of its operation's shapes, or of a product's grid; 0: not known */
    uint32_t collective; /* collective, if other ranks recorded it too; NONE */
    uint32_t step;       /* a number that differs between steps */
    uint8_t kind;        /* enum aorta_replay_span_kind */
    uint8_t role;        /* collectives: enum aorta_replay_role */
    uint8_t page;        /* moves a page of managed memory: a number per direction; 0: not */
    bool result;         /* a copy of more than a value to the host, which may compute with it */
    bool fills;          /* a kernel that fills the device, so that no other kernel runs concurrently */
};

struct aorta_replay_rank {
    struct aorta_replay_span *spans; /* ascending start */
    uint32_t span_count, stream_count;
    /* Calls of the host process. Threads without launches only have their waits for data. Ranks of one process share
     * the calls of its first rank, on that rank's clock. */
    struct aorta_replay_call *calls; /* ascending start, then longer first; none where another rank has them */
    uint32_t call_count, thread_count;
    uint32_t host; /* the rank that has the calls */
    /* Spans that span i waits for according to the file: waits[first_wait[i] .. first_wait[i + 1]). NULL if not in the
     * file. */
    const uint32_t *first_wait, *waits;
    /* Times at which the host requested waits for events that the file does not describe; ascending. A span launched
     * after such a time may wait for work launched before it, even if they share a queue. */
    const int64_t *event_waits;
    uint32_t event_wait_count;
    struct aorta_graph_rank bounds;
};

struct aorta_recording {
    const struct aorta_replay_rank *ranks;
    const struct aorta_collective_times *collectives;
    uint32_t rank_count, collective_count, name_count;
    bool shares_work; /* ranks may have unequal parts of one work; false: theirs is equal by design */
    bool native;      /* the host runs no interpreter, so that gaps between launches are shorter */
    bool exchanges;   /* ranks exchange parts of the shared work, as for experts: all_to_all */
};

/* The object of a point, in the graph's column `subject`. */
enum aorta_subject { AORTA_SUBJECT_CALL, AORTA_SUBJECT_SPAN, AORTA_SUBJECT_ARRIVAL, AORTA_SUBJECT_MARK };
static inline uint32_t aorta_subject_make(enum aorta_subject subject, uint32_t row) {
    return row << 2 | (uint32_t)subject;
}
static inline enum aorta_subject aorta_subject_kind(uint32_t subject) {
    return (enum aorta_subject)(subject & 3);
}
static inline uint32_t aorta_subject_row(uint32_t subject) {
    return subject >> 2;
}

/* Makes the graph without aorta_graph_finish, so that a large recording can be freed before that. AORTA_MEMORY;
 * AORTA_UNSUPPORTED: too many rows. */
AORTA_MUST_USE aorta_status aorta_graph_make(const struct aorta_recording *recording, struct aorta_graph *graph);

#endif
