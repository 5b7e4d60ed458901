/* The dependency graph of what all ranks did.
 *
 * A point is a moment: a call of the host begins or ends, a span of the device begins or ends, the last rank of a
 * collective has arrived. An edge says that a point comes at least `lag` after another. A point's time is the latest
 * that its edges ask for, plus its residual: the lag that no edge explains, which stays as it was recorded. So the
 * graph, evaluated as it is, gives the recorded times to the nanosecond, and other times once edges are changed
 * (replay.h).
 *
 * Times are int64 ns on the common clock of the ranks. One thread. */
#ifndef AORTA_REPLAY_GRAPH_H
#define AORTA_REPLAY_GRAPH_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AORTA_GRAPH_NONE = UINT32_MAX };

/* Why a point comes after another. The order counts (verdict/gains_origin.c): first what a host does, then what starts
 * the device's work, then that work. */
enum aorta_edge_kind {
    AORTA_EDGE_GAP,         /* the host's own time between two calls */
    AORTA_EDGE_PAUSE,       /* the same, as long as a pause */
    AORTA_EDGE_DATA,        /* the host waits for data */
    AORTA_EDGE_BATCH,       /* the next batch of a loader that works beside the host is ready this long after one */
    AORTA_EDGE_COLLECTIVE,  /* a collective on the host */
    AORTA_EDGE_HANDOVER,    /* a thread goes on after the last call of another */
    AORTA_EDGE_CALL,        /* a call's own time */
    AORTA_EDGE_CALL_SYNC,   /* the same of a call that waits for the device */
    AORTA_EDGE_CALL_MEMORY, /* the same of one that allocates or frees */
    AORTA_EDGE_CALL_COPY,   /* the same of a copy that the host makes itself, as from pageable memory */
    AORTA_EDGE_WAIT,        /* a call returns after the span that it waits for */
    AORTA_EDGE_WAIT_COPY,   /* the same of a copy that waits for itself */
    AORTA_EDGE_WAIT_MEMORY, /* the same of one that frees */
    AORTA_EDGE_WAIT_QUEUE,  /* a launch returns once the full queue has moved on */
    AORTA_EDGE_LAUNCH,      /* a span begins after its launch */
    AORTA_EDGE_STREAM,      /* … after the span before it on its stream */
    AORTA_EDGE_DEPENDENCY,  /* … after a span of another stream */
    AORTA_EDGE_QUEUE,       /* … after a span that shares nothing but its queue or communicator */
    AORTA_EDGE_ORDER,       /* … after the span launched before it, if launches were no limit */
    AORTA_EDGE_READY,       /* a gather begins when it is ready: launched, and its dependencies done */
    AORTA_EDGE_EARLIER,     /* … when the one before it was ready (prefetch); and what waits for a reduction, after
                             * the one before that */
    AORTA_EDGE_CONSUME,     /* compute begins after a reduction that it waits for */
    AORTA_EDGE_ARRIVAL,     /* a collective moves when this rank has arrived */
    AORTA_EDGE_TRANSFER,    /* … and takes this long from then on */
    AORTA_EDGE_KERNEL,      /* a kernel's own time */
    AORTA_EDGE_COPY,        /* the same of a copy */
    AORTA_EDGE_KIND_COUNT
};

/* Kinds that hold only where something is removed: the recording has them as lower bounds that bind nothing. */
static inline bool aorta_edge_is_alternative(enum aorta_edge_kind kind) {
    return kind == AORTA_EDGE_ORDER || kind == AORTA_EDGE_EARLIER;
}

/* What an edge would be without one cause. */
struct aorta_graph_change {
    uint32_t edge;
    uint32_t cause; /* enum aorta_removal */
    int64_t lag_ns; /* replaces the edge's, if smaller */
};

struct aorta_graph_rank {
    int64_t start_ns, end_ns; /* the replayed part: points at or before the start stay where they are */
    int64_t from_ns; /* end of the first step's last span, where measuring begins, as the first step still profits from
                      * the lead that the host had before the recording; start_ns: all is measured */
    uint32_t steps;  /* in the measured part */
    uint32_t mark;   /* point of that end; NONE: none */
    bool more_work;  /* it computes longer because it has more of the work that the ranks share */
};

struct aorta_graph {
    struct aorta_graph_rank *ranks; /* owned */
    uint32_t rank_count;
    double longer; /* a step of all that were measured, to one of those that are replayed; a replay's step is of all */

    /* Points, after aorta_graph_finish so that edges lead from lower numbers to higher ones. */
    uint32_t point_count, point_capacity;
    int64_t *time_ns, *residual_ns;
    uint32_t *rank;
    uint32_t *subject;    /* the caller's: what this is a moment of */
    bool *ends;           /* end of a span: a rank's step is over when the last of them is */
    uint32_t *first_edge; /* of edges to this point; one more than there are points */

    /* Edges, by the point that they lead to. */
    uint32_t edge_count, edge_capacity;
    uint32_t *from, *to; /* `to` only until the graph is finished */
    int64_t *lag_ns;
    uint8_t *kind;  /* enum aorta_edge_kind */
    bool *inferred; /* not recorded as such, but concluded from times */

    struct aorta_graph_change *changes; /* ascending edge */
    uint32_t change_count, change_capacity;

    uint32_t dropped; /* edges that closed a circle and were dropped; clocks that differ can cause circles */
    bool failed;      /* memory ran out; aorta_graph_finish says so */
};

/* Ends with aorta_graph_free. `ranks` are copied, without their marks. */
void aorta_graph_begin(struct aorta_graph *graph, const struct aorta_graph_rank *ranks, uint32_t rank_count);
/* Returns the point's number until the graph is finished. */
uint32_t aorta_graph_point(struct aorta_graph *graph, int64_t time_ns, uint32_t rank, uint32_t subject, bool ends);
/* A lag larger than the recorded distance is cut to it. Returns the edge's number until the graph is finished. */
uint32_t aorta_graph_edge(struct aorta_graph *graph, uint32_t from, uint32_t to, int64_t lag_ns,
                          enum aorta_edge_kind kind, bool inferred);
void aorta_graph_change(struct aorta_graph *graph, uint32_t edge, uint32_t cause, int64_t lag_ns);
/* Orders points and edges, and sets the residuals. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_graph_finish(struct aorta_graph *graph);
void aorta_graph_free(struct aorta_graph *graph);

/* The point stays where it is in a replay: at or before the rank's start. */
static inline bool aorta_graph_pinned(const struct aorta_graph *graph, uint32_t point) {
    return graph->time_ns[point] <= graph->ranks[graph->rank[point]].start_ns;
}

/* The point is the end of a span that the recording has within the rank's time. */
static inline bool aorta_graph_measured(const struct aorta_graph *graph, uint32_t point) {
    const struct aorta_graph_rank *rank = &graph->ranks[graph->rank[point]];
    return graph->ends[point] && graph->time_ns[point] > rank->start_ns && graph->time_ns[point] <= rank->end_ns;
}

#endif
