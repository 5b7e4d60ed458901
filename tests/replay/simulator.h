/* Hosts, streams and collectives of several ranks, simulated: a program is run with a cause and without it, so that the
 * truth of every removal is known. It shares no code with src/replay: a program runs to the end by looking, again and
 * again, for what can begin. */
#ifndef AORTA_TESTS_REPLAY_SIMULATOR_H
#define AORTA_TESTS_REPLAY_SIMULATOR_H

#include "replay/recording.h"

/* Costs, in ns. */
enum {
    SIM_LAUNCH = 4000,  /* of the call */
    SIM_LATENCY = 5000, /* from a launch to the span on an idle stream */
    SIM_GAP = 1000,     /* between spans that follow each other */
    SIM_RETURN = 5000,  /* from the end of a span to the return of the call that waits for it */
    SIM_WAIT = 5000,    /* of a call that waits, without the waiting */
    SIM_QUEUE = 1024,   /* launches not yet begun, beyond which a launch blocks */
    SIM_RANKS = 4,
    SIM_STREAMS = 4
};

enum sim_kind {
    SIM_OWN,   /* the host's own time */
    SIM_PAUSE, /* the same, where it is planted */
    SIM_KERNEL,
    SIM_EXTRA,      /* a kernel that is planted on one rank */
    SIM_COPY,       /* asynchronous */
    SIM_COPY_SYNC,  /* the call returns when the copy is done */
    SIM_COLLECTIVE, /* of all ranks: the n-th collectives of all ranks meet */
    SIM_SYNC,       /* waits for the device */
    SIM_ALLOCATE,
    SIM_DATA
};

enum { SIM_NONE = -1 };

struct sim_op {
    enum sim_kind kind;
    int64_t ns;      /* of the host, or of the span; collectives: once all have arrived */
    int64_t best_ns; /* collectives: at the bandwidth of their size; kernels: alone; 0: as `ns` */
    int stream;
    int after;  /* op whose span this one waits for; SIM_NONE */
    int name;   /* of kernels */
    int place;  /* of the call in the program */
    int thread; /* of the host; all of them run one after the other */
    int role;   /* collectives: enum aorta_replay_role */
    int step;
    bool gone; /* removed: costs nothing */
};

struct sim_program {
    struct sim_op *ops;
    int count, capacity;
};

struct sim {
    struct sim_program ranks[SIM_RANKS];
    int rank_count;
    bool one_queue; /* all streams of a rank share one hardware queue */
    bool recorded;  /* dependencies are part of the recording */
    bool native;    /* hosts run no interpreter */
    /* What a run gives: */
    int64_t end_ns[SIM_RANKS];                            /* of the last span */
    int64_t *start[SIM_RANKS], *end[SIM_RANKS];           /* of each op's span; -1: the op has no span */
    int64_t *call_start[SIM_RANKS], *call_end[SIM_RANKS]; /* of each op's call */
};

/* Adds an op to a rank and returns its number. */
int sim_add(struct sim *sim, int rank, struct sim_op op);
void sim_run(struct sim *sim);
void sim_free(struct sim *sim);
/* The same programs, not yet run. */
void sim_copy(const struct sim *from, struct sim *to);
/* Takes the cause out of the programs, as the removal's description says. */
void sim_remove(struct sim *sim, uint32_t removal, int64_t pause_becomes_ns);

/* What a tracer would have written down; ends with sim_recording_free. Only the times that it took are in it. */
struct sim_recording {
    struct aorta_recording recording;
    struct aorta_replay_rank ranks[SIM_RANKS];
    struct aorta_collective_times *collectives;
};
void sim_record(const struct sim *sim, struct sim_recording *recording);
void sim_recording_free(struct sim_recording *recording);

#endif
