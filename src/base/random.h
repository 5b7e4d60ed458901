/* Counter-based random numbers for start values and synthetic data: a value depends on seed, domain, stream and its
 * index alone, so any piece can be made by any thread, in any order.
 *
 * Generator: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11). */
#ifndef AORTA_BASE_RANDOM_H
#define AORTA_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* The use of the numbers: separates the sequences of different uses under one seed. */
enum aorta_random_domain {
    AORTA_RANDOM_PARAMETERS = 1,
    AORTA_RANDOM_DATA,
    AORTA_RANDOM_SHUFFLE,
    AORTA_RANDOM_SEARCH = 5
};

struct aorta_random {
    uint64_t seed;
    uint64_t stream; /* e.g. the parameter's or the sample's number; 32 bits are used with 2^34 values each */
    enum aorta_random_domain domain;
};

/* Quantiles of N(0, 1) at (i + 1/2) / 2^16: a normal value for the price of a look-up. Largest magnitude 4.3. */
enum { AORTA_NORMAL_LEVELS = 65536 };
struct aorta_normal_table {
    float quantile[AORTA_NORMAL_LEVELS];
};
void aorta_normal_table_fill(struct aorta_normal_table *table);

/* Values [first, first + count) of the sequence. */
void aorta_random_words(const struct aorta_random *random, uint64_t first, size_t count, uint32_t *words);
void aorta_random_uniform(const struct aorta_random *random, uint64_t first, size_t count, float low, float high,
                          float *values); /* in [low, high) */
void aorta_random_normal(const struct aorta_random *random, const struct aorta_normal_table *table, uint64_t first,
                         size_t count, float *values);
void aorta_random_below(const struct aorta_random *random, uint64_t first, size_t count, uint32_t bound,
                        int64_t *values); /* in [0, bound) */

#endif
