/* Random numbers that are the same on every machine: splitmix64 (Steele, Lea, Flood 2014). */
#ifndef AORTA_TESTS_RANDOM_H
#define AORTA_TESTS_RANDOM_H

#include <stdint.h>

static uint64_t random_state; /* the seed of a series */

static inline uint64_t random_next(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* From `low` to `high`, both included. */
static inline int64_t random_between(int64_t low, int64_t high) {
    return low + (int64_t)(random_next() % (uint64_t)(high - low + 1));
}

#endif
