/* The dependency graph of all ranks' work.
 *
 * A point is a time: start or end of a call of the host or of a span of the device, or the arrival of a collective's
 * last rank. An edge means that a point comes at least `lag` after another point. A point's time is the maximum over
 * its edges, plus its residual: the recorded delay that no edge explains, which is constant. So the unchanged graph
 * reproduces the recorded times to the nanosecond, and a changed graph gives other times (replay.h).
 *
 * Times are int64 ns on the common clock of the ranks. A graph is used by one thread. */
#ifndef AORTA_REPLAY_GRAPH_H
#define AORTA_REPLAY_GRAPH_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AORTA_GRAPH_NONE = UINT32_MAX };

/* Why a point comes after another. The order matters (verdict/gains_origin.c): first the host, then what starts the
 * device's work, then this work. */
enum aorta_edge_kind {
    AORTA_EDGE_GAP,         /* the host's own time between two calls */
    AORTA_EDGE_PAUSE,       /* the host's own time, if long enough to be a pause */
    AORTA_EDGE_DATA,        /* the host waits for data */
    AORTA_EDGE_BATCH,       /* the next batch of a loader in other threads is ready this long after one */
    AORTA_EDGE_COLLECTIVE,  /* a collective on the host */
    AORTA_EDGE_HANDOVER,    /* a thread continues after the last call of another thread */
    AORTA_EDGE_CALL,        /* a call's own time */
    AORTA_EDGE_CALL_SYNC,   /* own time of a call that waits for the device */
    AORTA_EDGE_CALL_MEMORY, /* own time of a call that allocates or frees */
    AORTA_EDGE_CALL_COPY,   /* time of a copy that the host makes itself, as from pageable memory */
    AORTA_EDGE_WAIT,        /* a call returns after the span that it waits for */
    AORTA_EDGE_WAIT_COPY,   /* a copy returns after itself */
    AORTA_EDGE_WAIT_MEMORY, /* a free returns after a span */
    AORTA_EDGE_WAIT_QUEUE,  /* a launch returns when the full queue has advanced */
    AORTA_EDGE_LAUNCH,      /* a span begins after its launch */
    AORTA_EDGE_STREAM,      /* … after the span before it on its stream */
    AORTA_EDGE_DEPENDENCY,  /* … after a span of another stream */
    AORTA_EDGE_QUEUE,       /* … after a span that only shares its queue or communicator */
    AORTA_EDGE_ORDER,       /* … after the span launched before it, if launches were no limit */
    AORTA_EDGE_READY,       /* a gather begins when it is ready: launched, and its dependencies done */
    AORTA_EDGE_EARLIER,     /* … when the previous gather was ready (prefetch); compute that waits for a reduction
                             * begins after the previous reduction */
    AORTA_EDGE_CONSUME,     /* compute begins after a reduction that it waits for */
    AORTA_EDGE_ARRIVAL,     /* a collective moves data after this rank has arrived */
    AORTA_EDGE_TRANSFER,    /* … and takes this long from then on */
    AORTA_EDGE_KERNEL,      /* a kernel's own time */
    AORTA_EDGE_COPY,        /* a copy's own time */
    AORTA_EDGE_KIND_COUNT
};

/* Kinds that apply only if a removal enables them. In the recording they have no effect. */
static inline bool aorta_edge_is_alternative(enum aorta_edge_kind kind) {
    return kind == AORTA_EDGE_ORDER || kind == AORTA_EDGE_EARLIER;
}

/* The lag of an edge without one cause. */
struct aorta_graph_change {
    uint32_t edge;
    uint32_t cause; /* enum aorta_removal */
    int64_t lag_ns; /* replaces the edge's, if smaller */
};

struct aorta_graph_rank {
    int64_t start_ns, end_ns; /* the replayed part: points at or before the start are fixed */
    int64_t from_ns; /* start of measuring: the end of the first step's last span, as the first step still profits from
                      * the host's lead before the recording; start_ns: everything is measured */
    uint32_t steps;  /* in the measured part */
    uint32_t mark;   /* point of that end; NONE: none */
    bool more_work;  /* it computes longer because it has more of the shared work */
};

struct aorta_graph {
    struct aorta_graph_rank *ranks; /* owned */
    uint32_t rank_count;
    double longer; /* ratio of the mean step of all measured steps to that of the replayed ones; applied to a replay's
                    * step */

    /* Points. After aorta_graph_finish edges lead from lower to higher numbers. */
    uint32_t point_count, point_capacity;
    int64_t *time_ns, *residual_ns;
    uint32_t *rank;
    uint32_t *subject;    /* the caller's object of this point */
    bool *ends;           /* end of a span; a rank's step ends with the last one */
    uint32_t *first_edge; /* of the edges to a point; ends with the total */

    /* Edges, by the point that they lead to. */
    uint32_t edge_count, edge_capacity;
    uint32_t *from, *to; /* `to` only until the graph is finished */
    int64_t *lag_ns;
    uint8_t *kind;  /* enum aorta_edge_kind */
    bool *inferred; /* not recorded, but inferred from times */

    struct aorta_graph_change *changes; /* ascending edge */
    uint32_t change_count, change_capacity;

    uint32_t dropped; /* edges that were dropped as they closed a cycle; different clocks can cause cycles */
    bool failed;      /* memory ran out; aorta_graph_finish returns the error */
};

/* Free with aorta_graph_free. `ranks` are copied without their marks. */
void aorta_graph_begin(struct aorta_graph *graph, const struct aorta_graph_rank *ranks, uint32_t rank_count);
/* Returns the point's number until the graph is finished. */
uint32_t aorta_graph_point(struct aorta_graph *graph, int64_t time_ns, uint32_t rank, uint32_t subject, bool ends);
/* The lag is limited to the recorded distance. Returns the edge's number until the graph is finished. */
uint32_t aorta_graph_edge(struct aorta_graph *graph, uint32_t from, uint32_t to, int64_t lag_ns,
                          enum aorta_edge_kind kind, bool inferred);
void aorta_graph_change(struct aorta_graph *graph, uint32_t edge, uint32_t cause, int64_t lag_ns);
/* Orders points and edges, and sets the residuals. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_graph_finish(struct aorta_graph *graph);
void aorta_graph_free(struct aorta_graph *graph);

/* Whether the point is fixed in a replay: it is at or before the rank's start. */
static inline bool aorta_graph_pinned(const struct aorta_graph *graph, uint32_t point) {
    return graph->time_ns[point] <= graph->ranks[graph->rank[point]].start_ns;
}

/* Whether the point is the end of a span within the rank's replayed part. */
static inline bool aorta_graph_measured(const struct aorta_graph *graph, uint32_t point) {
    const struct aorta_graph_rank *rank = &graph->ranks[graph->rank[point]];
    return graph->ends[point] && graph->time_ns[point] > rank->start_ns && graph->time_ns[point] <= rank->end_ns;
}

#endif
