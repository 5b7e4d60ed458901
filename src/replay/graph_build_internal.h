/* How a recording becomes a graph; for this folder only. */
#ifndef AORTA_REPLAY_GRAPH_BUILD_INTERNAL_H
#define AORTA_REPLAY_GRAPH_BUILD_INTERNAL_H

#include "base/arena.h"
#include "replay/recording.h"
#include "replay/replay.h"

/* Lags that an edge explains; what goes beyond is the residual of the point. */
enum {
    AORTA_LAG_EXPLAINED_NS = 20000, /* from what let a span begin to its beginning, beyond what is usual */
    AORTA_LAG_RETURN_NS = 50000,    /* from the end of a span to the return of the call that waits for it */
    AORTA_USUAL_RETURN_NS = 5000,   /* the same where it did not wait in the recording */
    AORTA_STAGED_NS = 50000,        /* a copy that is only queued takes the host less */
    AORTA_CALL_OWN_NS = 5000,       /* own time of a call that waits, at most */
};

/* Usual lags of one rank, of where nothing else decides. */
struct aorta_usual {
    int64_t stream_ns;     /* from the end of a span to the next one's beginning, on one stream */
    int64_t launch_ns;     /* from the beginning of a launch to that of the span */
    int64_t dependency_ns; /* as `stream_ns`, from another stream */
};

/* How a kernel's run compares with the runs of the other ranks. */
struct aorta_runs {
    int64_t apart_ns; /* time without the concurrent collective that waited; -1: none did, or not known */
    float stays;      /* share of its time that stays if the rank does what the other ranks do */
    bool extra;       /* the other ranks have no such run: the same share of the launch stays */
};

/* A pause of a host: an edge between two calls. Pauses between calls of the same names are at one place. */
struct aorta_pause {
    uint32_t edge, before, after; /* names */
    int64_t lag_ns, left_ns;      /* recorded, and without the pause */
};

struct aorta_graph_builder {
    const struct aorta_recording *recording;
    struct aorta_graph *graph;
    struct aorta_arena memory;
    uint32_t *first_call;   /* of each rank: point of its first call's start; its end is the next one, and so on */
    uint32_t *first_span;   /* likewise */
    uint32_t first_arrival; /* point of the first collective's arrival */
    uint32_t **launched;    /* of each rank: spans in order of their launch, those without one last */
    uint32_t **by_end;      /* of each rank: spans in order of their end */
    struct aorta_usual *usual;
    struct aorta_pause *pauses;
    size_t pause_count, pause_capacity;
    struct aorta_runs **runs; /* of each rank and span */
};

static inline uint32_t aorta_call_start(const struct aorta_graph_builder *builder, uint32_t host, uint32_t call) {
    return builder->first_call[host] + 2 * call;
}
static inline uint32_t aorta_call_end(const struct aorta_graph_builder *builder, uint32_t host, uint32_t call) {
    return builder->first_call[host] + 2 * call + 1;
}
static inline uint32_t aorta_span_start(const struct aorta_graph_builder *builder, uint32_t rank, uint32_t span) {
    return builder->first_span[rank] + 2 * span;
}
static inline uint32_t aorta_span_end(const struct aorta_graph_builder *builder, uint32_t rank, uint32_t span) {
    return builder->first_span[rank] + 2 * span + 1;
}

/* The span of the rank that ended last within (after_ns, until_ns], among those launched before call `before` (NONE:
 * any) and other than `except`; NONE: no such. Looks at the last few only. */
uint32_t aorta_last_ended(const struct aorta_graph_builder *builder, uint32_t rank, int64_t after_ns, int64_t until_ns,
                          uint32_t before, uint32_t except);

/* Edges of the threads of the rank's host and of the calls that wait (graph_build_host.c). */
void aorta_graph_add_host(struct aorta_graph_builder *builder, uint32_t rank);
/* After all hosts: the places of their pauses. */
void aorta_place_pauses(struct aorta_graph_builder *builder);
/* Edges of one rank's spans (graph_build_spans.c), and those that hold only where launches are no limit. */
void aorta_graph_add_spans(struct aorta_graph_builder *builder, uint32_t rank);
/* Where there are several ranks, what runs[] says of them (graph_build_straggler.c); needs the arrivals' points. */
void aorta_compare_runs(struct aorta_graph_builder *builder);
/* Likewise, after all hosts: what a late rank runs more often than the other ranks goes with its launches. */
void aorta_balance_launches(struct aorta_graph_builder *builder);

#endif
