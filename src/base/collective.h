/* The kinds of collectives, their names and their bandwidth convention. */
#ifndef AORTA_BASE_COLLECTIVE_H
#define AORTA_BASE_COLLECTIVE_H

#include <stdbool.h>

enum aorta_collective {
    AORTA_ALL_REDUCE,
    AORTA_REDUCE_SCATTER,
    AORTA_ALL_GATHER,
    AORTA_BROADCAST,
    AORTA_ALL_TO_ALL,
    AORTA_BARRIER,
    AORTA_COLLECTIVE_OTHER, /* of unknown kind, in traces only: `aorta` runs none */
    AORTA_COLLECTIVE_COUNT
};

const char *aorta_collective_name(int kind); /* "all_reduce", "reduce_scatter", …, "collective" */
/* The name for sentences. `sends`: the recording's all_to_alls are sends and receives, and the name shows it. */
const char *aorta_collective_words(enum aorta_collective kind, bool sends);

/* nccl-tests' convention (its PERFORMANCE.md): busbw = algbw × factor, algbw = bytes / time, where bytes is the size
 * of the larger of the two buffers of one rank. Factors: all_reduce 2(n−1)/n; reduce_scatter, all_gather, all_to_all
 * (n−1)/n; broadcast 1; 0 for a barrier and where the kind is not known. */
double aorta_collective_bus_factor(enum aorta_collective kind, int ranks);

#endif
