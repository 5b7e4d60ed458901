/* Steps of all ranks together: pairs collectives, finds the last rank and slow transfers, and how much
 * matrix products lose during collectives. Times are int64 ns. One thread. */
#ifndef AORTA_ANALYSIS_STEPS_H
#define AORTA_ANALYSIS_STEPS_H

#include "analysis/overlap.h"

/* A step of a rank. Borrowed. */
struct aorta_iteration {
    int rank;
    int64_t step;                        /* global step: pairs ranks */
    const struct aorta_profile *profile; /* with its overlap */
    bool on_gpu;                         /* a range may hold many kernels */
};

/* For one rank: when all ranks of a collective had arrived. */
struct aorta_arrival {
    int64_t until_ns; /* own clock; the range's start when this rank did not wait */
    int late_rank;    /* the last rank; -1: this rank, or not known */
    bool late_device; /* its device was still busy; else its host was late */
    bool complete;    /* all ranks of the group recorded it */
};

struct aorta_order; /* an iteration's ranges, sorted for searches */

/* A step of a rank with arrivals found from other ranks. */
struct aorta_rank_step {
    struct aorta_iteration iteration;
    struct aorta_arrival *arrivals; /* one per range; zero except for collectives */
    struct aorta_order *order;
};
struct aorta_rank_step aorta_rank_step_make(const struct aorta_iteration *iteration, struct aorta_arena *memory);

/* The first range, in order of enqueueing, that starts at this time; NULL: none. */
const struct aorta_range *aorta_order_starting(const struct aorta_order *order, int64_t time_ns);
/* The first compute of the compute role on this stream that starts at or after this time; NULL: none. */
const struct aorta_range *aorta_order_next_compute(const struct aorta_order *order, int stream, int64_t from_ns);

/* Whether the ranks share one clock. Not if iterations count from their own start, or if steps of ranks never overlap
 * in time. Sorts the iterations. */
bool aorta_clocks_are_one(struct aorta_iteration *iterations, size_t count);
/* Pairs the ranks' collectives step by step and fills the arrivals. Returns whether the ranks share one clock; if not,
 * each step is aligned by the ends of its collectives (align.h). */
bool aorta_pair_collectives(struct aorta_rank_step *steps, size_t count, struct aorta_arena *memory);

/* A recorded collective, measured from the arrival of its last rank. */
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

/* A collective is slow if it takes this many times the best tenth of its kind, which needs at least this many
 * samples. */
enum { AORTA_TRANSFER_SLOWER = 4, AORTA_TRANSFER_SAMPLES = 20 };

/* Kinds of collectives, each with the time of its best tenth without waiting; 0: too few samples. */
struct aorta_transfers {
    struct aorta_collective_sample *groups;
    size_t count;
};
struct aorta_transfers aorta_transfers_collect(const struct aorta_rank_step *steps, size_t count,
                                               struct aorta_arena *memory);
/* The time of the best tenth of this kind if this collective was far slower; 0 if not, or if unknown. */
int64_t aorta_transfers_best_if_slow(const struct aorta_transfers *transfers, const struct aorta_range *range,
                                     const struct aorta_arrival *arrival);

/* A collective of several ranks; times begin when all ranks have arrived. */
struct aorta_collective_times {
    uint32_t parts;   /* number of ranks that recorded it */
    int64_t best_ns;  /* at the bandwidth reached for its size; -1: not known, or not far less */
    int64_t piece_ns; /* time of a reduction's last piece if it were split; -1: too small to split */
};

/* Whether a matrix product ran alone or during a collective. NEITHER: overlapped by less than half. */
enum aorta_beside { AORTA_BESIDE_ALONE, AORTA_BESIDE_COLLECTIVE, AORTA_BESIDE_NEITHER };
enum aorta_beside aorta_beside_of(const struct aorta_intervals *comm, int64_t start_ns, int64_t end_ns);

/* The same product alone and during collectives. Times ascending, ns. */
struct aorta_product_slowdown {
    double alone_p50_ns, beside_p50_ns; /* NaN: no such runs */
    double ratio; /* median during collectives / median alone; NaN: fewer than 8 runs of a kind, the median alone is 0,
                   * or not one product */
    double lost;  /* share of its time during collectives that they cost: 1 - 1 / ratio where three quarters of the runs
                     during collectives are  slower than half of those alone, else 0 */
};
/* `counted`: the runs' FLOP are known and equal. Else they have equal dims or grid; as persistent kernels have one grid
 * for all sizes, runs whose times alone differ by more than half are not one product. */
struct aorta_product_slowdown aorta_product_slowdown_of(const double *alone_ns, size_t alone, const double *beside_ns,
                                                        size_t beside, bool counted);

/* How much longer the same matrix product takes during a collective, over all products. */
struct aorta_slowdown {
    double ratio; /* mean over shapes, weighted by their time during collectives; NaN: see reason */
    size_t shapes, samples_alone, samples_beside;
    size_t by_grid; /* shapes that are only known by kernel and grid */
    /* Compute time lost per ns of a concurrent collective, counted from when all its ranks have arrived, 0 to 1: the
     * loss of products, times their share of compute. 0: not significant. NaN: fewer than 8 runs, of shapes with 8 runs
     * alone, are covered by such collectives for half of their time. */
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
/* The compute time of the step that is lost to concurrent collectives; at most overlap_ns. */
int64_t aorta_shapes_contention(const struct aorta_shapes *shapes, const struct aorta_rank_step *step,
                                struct aorta_arena *memory);

#endif
