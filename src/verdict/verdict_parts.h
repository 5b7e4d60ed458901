/* The steps behind aorta_verdict_make; for this folder only. */
#ifndef AORTA_VERDICT_VERDICT_PARTS_H
#define AORTA_VERDICT_VERDICT_PARTS_H

#include "verdict/verdict.h"

/* How long a rank waited in one collective for the last rank to arrive. */
struct aorta_wait {
    int64_t until_ns; /* own clock; the range's start when it did not wait */
    int late_rank;    /* who came last; -1: not known */
    bool late_device; /* its device was still busy; else its device was idle: its host came late */
    bool complete;    /* all ranks of the group were seen */
};

/* One measured iteration with what the other ranks say about it. */
struct aorta_judged {
    struct aorta_iteration iteration;
    struct aorta_wait *waits;  /* owned; one per range */
    struct aorta_order *order; /* owned */
};

/* An iteration's ranges sorted, so that questions about neighbours take a search. (verdict_order.c) */
AORTA_MUST_USE aorta_status aorta_order_make(const struct aorta_iteration *iteration, struct aorta_order **order);
void aorta_order_free(struct aorta_order *order); /* NULL is fine */
/* The first range, in order of enqueueing, that starts at this time; NULL: none. */
const struct aorta_range *aorta_order_starting(const struct aorta_order *order, int64_t time_ns);
/* The first compute of the compute role on this stream that starts at or after this time; NULL: none. */
const struct aorta_range *aorta_order_next_compute(const struct aorta_order *order, int stream, int64_t from_ns);
/* Idle time between two times; before the iteration's first operation the device was idle. */
int64_t aorta_order_idle(const struct aorta_order *order, int64_t start_ns, int64_t end_ns);

/* Pairs the ranks' collectives. Sets whether their clocks are one. (verdict_pairs.c) */
AORTA_MUST_USE aorta_status aorta_pair_collectives(struct aorta_judged *items, size_t count, bool *common_clock);

/* Times one sort of collective takes without the waiting. (verdict_transfers.c) */
struct aorta_transfer_group;
struct aorta_transfers {
    struct aorta_transfer_group *groups;
    size_t count;
};
AORTA_MUST_USE aorta_status aorta_transfers_collect(const struct aorta_judged *items, size_t count,
                                                    struct aorta_transfers *transfers);
void aorta_transfers_free(struct aorta_transfers *transfers);
/* What the best tenth of this sort takes, if this one took far longer; 0 if not, or if it cannot be said. */
int64_t aorta_transfers_best_if_slow(const struct aorta_transfers *transfers, const struct aorta_range *range,
                                     const struct aorta_wait *wait);

/* GEMM shapes and how much longer they take beside collectives. (verdict_slowdown.c) */
struct aorta_shape;
struct aorta_shapes {
    struct aorta_shape *items;
    size_t count, capacity;
};
AORTA_MUST_USE aorta_status aorta_shapes_measure(const struct aorta_judged *items, size_t count,
                                                 struct aorta_shapes *shapes, struct aorta_slowdown *slowdown);
void aorta_shapes_free(struct aorta_shapes *shapes);
/* Time of the iteration's compute that the collectives beside it cost; at most overlap_ns. */
AORTA_MUST_USE aorta_status aorta_shapes_contention(const struct aorta_shapes *shapes, const struct aorta_judged *item,
                                                    int64_t *contention_ns);

/* What is summed to put a cause into words. */
enum { AORTA_TALLY_ROWS = 64 };
struct aorta_tally { /* zero-initialise; names are borrowed */
    struct {
        const char *name;
        int layer; /* -1: none */
        int64_t ns;
    } rows[AORTA_TALLY_ROWS];
    size_t count;
};
void aorta_tally_add(struct aorta_tally *tally, const char *name, int layer, int64_t ns);

struct aorta_grounds {
    int64_t unknown_idle_ns, lead_ns;
    int64_t graph_latency_ns;                                 /* idle between operations of graphs */
    struct aorta_tally late_before, latency_before;           /* operations that ended an idle gap, by its cause */
    struct aorta_tally exposed_where[AORTA_COLLECTIVE_COUNT]; /* layers of exposed collectives */
    int64_t *late_device_ns, *late_host_ns;                   /* waits caused by each rank (index in ranks) */
    int64_t slow_time_ns[AORTA_COLLECTIVE_COUNT];             /* transfers judged slow: their time, */
    int64_t slow_best_ns[AORTA_COLLECTIVE_COUNT];             /* what it would be at the best decile, */
    int64_t slow_bytes[AORTA_COLLECTIVE_COUNT];               /* and their bytes */
    int64_t rank_iterations;                                  /* sum over ranks */
};

/* Makes the findings from the ranks' costs. (verdict_words.c) */
AORTA_MUST_USE aorta_status aorta_verdict_word(struct aorta_verdict *verdict, const struct aorta_grounds *grounds);

/* What to try in a program that is not ours. (verdict_general.c) */
const char *aorta_verdict_general_advice(enum aorta_cause cause, enum aorta_collective kind);

#endif
