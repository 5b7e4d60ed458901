/* Builds the graph of a recording; only for this folder. */
#ifndef AORTA_REPLAY_GRAPH_BUILD_INTERNAL_H
#define AORTA_REPLAY_GRAPH_BUILD_INTERNAL_H

#include "base/arena.h"
#include "replay/recording.h"
#include "replay/replay.h"

/* Limits of the lags that edges explain; longer delays are residuals of points. */
enum {
    AORTA_LAG_EXPLAINED_NS = 20000, /* beyond the usual lag, from the reason of a span's start to the start */
    AORTA_LAG_RETURN_NS = 50000,    /* from the end of a span to the return of the call that waits for it */
    AORTA_USUAL_RETURN_NS = 5000,   /* the return lag if the call did not wait in the recording */
    AORTA_STAGED_NS = 50000,        /* a copy that takes the host longer is made by the host */
    AORTA_CALL_OWN_NS = 5000,       /* maximum own time of a call that waits */
};

/* Usual lags of one rank. */
struct aorta_usual {
    int64_t stream_ns;     /* from the end of a span to the next one's beginning, on one stream */
    int64_t launch_ns;     /* from the beginning of a launch to that of the span */
    int64_t dependency_ns; /* as `stream_ns`, from another stream */
};

/* Comparison of a kernel's run with those of the other ranks. */
struct aorta_runs {
    int64_t apart_ns; /* time without a waiting concurrent collective; -1: none, or not known */
    float stays;      /* share of its time that remains if the rank works like the other ranks */
    bool extra;       /* other ranks have no such run, so the same share of its launch remains */
};

/* A pause of a host: an edge between two calls. Pauses with equal names of calls are at the same place. */
struct aorta_pause {
    uint32_t edge, before, after; /* names */
    int64_t lag_ns, left_ns;      /* recorded, and without the pause */
};

struct aorta_graph_builder {
    const struct aorta_recording *recording;
    struct aorta_graph *graph;
    struct aorta_arena memory;
    uint32_t *first_call;   /* by rank: point of its first call's start, followed by the call's end, the next call's
                             * start, … */
    uint32_t *first_span;   /* by rank: the same for spans */
    uint32_t first_arrival; /* point of the first collective's arrival */
    uint32_t **launched;    /* by rank: spans in order of launch, those without a launch last */
    uint32_t **by_end;      /* by rank: spans in order of end */
    struct aorta_usual *usual;
    struct aorta_pause *pauses;
    size_t pause_count, pause_capacity;
    struct aorta_runs **runs; /* by rank and span */
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

/* The rank's span that ended last within (after_ns, until_ns], was launched before call `before` (NONE: any) and is not
 * `except`. NONE if there is none among the last few. */
uint32_t aorta_last_ended(const struct aorta_graph_builder *builder, uint32_t rank, int64_t after_ns, int64_t until_ns,
                          uint32_t before, uint32_t except);

/* Adds the edges of the threads of the rank's host, and of waits (graph_build_host.c). */
void aorta_graph_add_host(struct aorta_graph_builder *builder, uint32_t rank);
/* Called after all hosts: finds the places of pauses. */
void aorta_place_pauses(struct aorta_graph_builder *builder);
/* Adds the edges of one rank's spans (graph_build_spans.c). */
void aorta_graph_add_spans(struct aorta_graph_builder *builder, uint32_t rank);
/* For several ranks: fills runs[] (graph_build_straggler.c). Needs the points of arrivals. */
void aorta_compare_runs(struct aorta_graph_builder *builder);
/* For several ranks, after all hosts: without the straggler, extra runs of a late rank are removed together with their
 * launches. */
void aorta_balance_launches(struct aorta_graph_builder *builder);

#endif
