/* Steps of all ranks beside each other: which collectives are one, who arrived last, which transfers are slow, and what
 * matrix products lose beside collectives. Times are int64 ns. One thread. */
#ifndef AORTA_ANALYSIS_STEPS_H
#define AORTA_ANALYSIS_STEPS_H

#include "analysis/overlap.h"

/* One step of one rank. Borrowed. */
struct aorta_iteration {
    int rank;
    int64_t step;                        /* global step: pairs ranks */
    const struct aorta_profile *profile; /* with its overlap */
    bool on_gpu;                         /* a range may hold many kernels */
};

/* When all ranks of a collective had arrived, as one of them sees it. */
struct aorta_arrival {
    int64_t until_ns; /* own clock; the range's start when this rank did not wait */
    int late_rank;    /* who arrived last; -1: this one, or not known */
    bool late_device; /* its device was still busy; else its device was idle: its host came late */
    bool complete;    /* all ranks of the group were seen */
};

struct aorta_order; /* an iteration's ranges sorted, so that questions about neighbours take a search */

/* One step of one rank with what the other ranks say about it. */
struct aorta_rank_step {
    struct aorta_iteration iteration;
    struct aorta_arrival *arrivals; /* one per range, zero but for collectives */
    struct aorta_order *order;
};
struct aorta_rank_step aorta_rank_step_make(const struct aorta_iteration *iteration, struct aorta_arena *memory);

/* The first range, in order of enqueueing, that starts at this time; NULL: none. */
const struct aorta_range *aorta_order_starting(const struct aorta_order *order, int64_t time_ns);
/* The first compute of the compute role on this stream that starts at or after this time; NULL: none. */
const struct aorta_range *aorta_order_next_compute(const struct aorta_order *order, int stream, int64_t from_ns);

/* Whether the ranks' clocks are one: those of iterations that count from their own start are not, nor of ranks whose
 * steps never meet in time. Sorts the iterations. */
bool aorta_clocks_are_one(struct aorta_iteration *iterations, size_t count);
/* Pairs the ranks' collectives, step by step, and fills the arrivals. Returns whether the ranks' clocks are one; where
 * they are not, each rank's step is shifted by the ends of its collectives (align.h). */
bool aorta_pair_collectives(struct aorta_rank_step *steps, size_t count, struct aorta_arena *memory);

/* One recorded collective, from when its last rank had arrived. */
struct aorta_collective_sample {
    enum aorta_collective kind;
    int ranks;
    int64_t bytes;
    double time_ns;
    size_t of; /* the caller's */
};
int aorta_by_collective(const void *left, const void *right); /* kind, ranks and bytes */
int aorta_by_collective_and_time(const void *left,
                                 const void *right); /* samples of one kind, ranks and bytes by time */

/* A collective is slow when it takes so many times what the best tenth of its sort takes, of so many at least. */
enum { AORTA_TRANSFER_SLOWER = 4, AORTA_TRANSFER_SAMPLES = 20 };

/* The sorts of collectives, with what the best tenth of each takes without the waiting; 0: too few samples. */
struct aorta_transfers {
    struct aorta_collective_sample *groups;
    size_t count;
};
struct aorta_transfers aorta_transfers_collect(const struct aorta_rank_step *steps, size_t count,
                                               struct aorta_arena *memory);
/* What the best tenth of this sort takes, if this one took far longer; 0 if not, or if it cannot be said. */
int64_t aorta_transfers_best_if_slow(const struct aorta_transfers *transfers, const struct aorta_range *range,
                                     const struct aorta_arrival *arrival);

/* A collective of several ranks; times are from when all have arrived. */
struct aorta_collective_times {
    uint32_t parts;   /* how many ranks recorded it */
    int64_t best_ns;  /* at the bandwidth that its size reaches; -1: not known, or not far less */
    int64_t piece_ns; /* of a reduction's last piece, were it made in pieces; -1: it is no larger than one */
};

/* Whether a matrix product ran alone or during a collective; NEITHER: during one for less than half of its time. */
enum aorta_beside { AORTA_BESIDE_ALONE, AORTA_BESIDE_COLLECTIVE, AORTA_BESIDE_NEITHER };
enum aorta_beside aorta_beside_of(const struct aorta_intervals *comm, int64_t start_ns, int64_t end_ns);

/* The same product alone and beside collectives. Times ascending, ns. */
struct aorta_product_slowdown {
    double alone_p50_ns, beside_p50_ns; /* NaN: no such runs */
    double ratio; /* median beside / median alone; NaN: fewer than 8 runs of a kind, the median alone is 0, or these
                   * are no one product */
    double lost;  /* share of its time beside that they cost: 1 - 1 / ratio where three quarters of the runs beside are
                     slower than half of those alone, else 0 */
};
/* `counted`: their FLOP are known and equal. Else they are alike by dims or grid, which kernels that stay on the device
 * and take tile after tile share for all sizes: runs that differ by more than half alone are no one product. */
struct aorta_product_slowdown aorta_product_slowdown_of(const double *alone_ns, size_t alone, const double *beside_ns,
                                                        size_t beside, bool counted);

/* How much longer the same matrix product takes during a collective, over all products. */
struct aorta_slowdown {
    double ratio; /* mean over shapes, weighted by their time during collectives; NaN: see reason */
    size_t shapes, samples_alone, samples_beside;
    size_t by_grid; /* how many of the shapes are only known as a kernel and its grid */
    /* Compute time lost per ns of a concurrent collective, counted from when all its ranks have arrived, 0 to 1: the
     * loss of products, times their share of compute. 0: not significant. NaN: there are fewer than 8 runs that such
     * collectives cover for half of their time, of shapes that ran 8 times alone. */
    double lost_per_ns;
    const char *reason; /* static; NULL when there is a ratio */
};

/* Products by shape. */
struct aorta_shape;
struct aorta_shapes {
    struct aorta_shape *items;
    size_t count;
};
void aorta_shapes_measure(const struct aorta_rank_step *steps, size_t count, struct aorta_arena *memory,
                          struct aorta_shapes *shapes, struct aorta_slowdown *slowdown);
/* The part of the step's compute time that concurrent collectives cost; at most overlap_ns. */
int64_t aorta_shapes_contention(const struct aorta_shapes *shapes, const struct aorta_rank_step *step,
                                struct aorta_arena *memory);

#endif
