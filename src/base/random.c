#include "base/random.h"

#include "base/philox.h"

#include <math.h>

enum { CHUNK_BLOCKS = 64, WORDS_PER_BLOCK = 4, CHUNK_WORDS = CHUNK_BLOCKS * WORDS_PER_BLOCK };

/* Blocks are independent of each other, so that the compiler can use vector lanes. */
static void philox_chunk(const struct aorta_random *random, uint64_t first_block, uint32_t words[CHUNK_WORDS]) {
    uint32_t key0 = (uint32_t)random->seed, key1 = (uint32_t)(random->seed >> 32);
    uint32_t stream_low = (uint32_t)random->stream, stream_high = (uint32_t)(random->stream >> 32);
    for (uint32_t i = 0; i < CHUNK_BLOCKS; i++) {
        struct aorta_philox c = {{(uint32_t)first_block + i, stream_low, stream_high, (uint32_t)random->domain}};
        c = aorta_philox4x32_10(c, key0, key1);
        for (int w = 0; w < WORDS_PER_BLOCK; w++) words[WORDS_PER_BLOCK * i + (uint32_t)w] = c.word[w];
    }
}

/* Calls `use` with consecutive pieces of the sequence. */
static void for_each_chunk(const struct aorta_random *random, uint64_t first, size_t count,
                           void (*use)(const uint32_t *words, size_t count, size_t done, const void *with, void *out),
                           const void *with, void *out) {
    uint32_t words[CHUNK_WORDS];
    for (size_t done = 0; done < count;) {
        uint64_t position = first + done, skip = position % CHUNK_WORDS;
        philox_chunk(random, (position - skip) / WORDS_PER_BLOCK, words);
        size_t usable = CHUNK_WORDS - (size_t)skip, piece = usable < count - done ? usable : count - done;
        use(words + skip, piece, done, with, out);
        done += piece;
    }
}

static void use_words(const uint32_t *words, size_t count, size_t done, const void *with, void *out) {
    (void)with;
    uint32_t *values = (uint32_t *)out + done;
    for (size_t i = 0; i < count; i++) values[i] = words[i];
}

void aorta_random_words(const struct aorta_random *random, uint64_t first, size_t count, uint32_t *words) {
    for_each_chunk(random, first, count, use_words, NULL, words);
}

struct bounds {
    float low, width;
};

static void use_uniform(const uint32_t *words, size_t count, size_t done, const void *with, void *out) {
    struct bounds bounds = *(const struct bounds *)with;
    float *values = (float *)out + done;
    /* 24 bits: every multiple of 2^-24 in [0, 1), exact in a float. */
    for (size_t i = 0; i < count; i++) values[i] = bounds.low + bounds.width * ((float)(words[i] >> 8) * 0x1p-24f);
}

void aorta_random_uniform(const struct aorta_random *random, uint64_t first, size_t count, float low, float high,
                          float *values) {
    struct bounds bounds = {low, high - low};
    for_each_chunk(random, first, count, use_uniform, &bounds, values);
}

/* Each word gives two values, its low half first. */
static void use_normal(const uint32_t *words, size_t count, size_t done, const void *with, void *out) {
    const struct aorta_normal_table *table = with;
    float *values = (float *)out + 2 * done;
    for (size_t i = 0; i < count; i++) {
        values[2 * i] = table->quantile[words[i] & 0xffff];
        values[2 * i + 1] = table->quantile[words[i] >> 16];
    }
}

void aorta_random_normal(const struct aorta_random *random, const struct aorta_normal_table *table, uint64_t first,
                         size_t count, float *values) {
    float pair[2];
    if (count && first % 2) {
        for_each_chunk(random, first / 2, 1, use_normal, table, pair);
        *values++ = pair[1];
        first++, count--;
    }
    for_each_chunk(random, first / 2, count / 2, use_normal, table, values);
    if (count % 2 == 0) return;
    for_each_chunk(random, (first + count) / 2, 1, use_normal, table, pair);
    values[count - 1] = pair[0];
}

static void use_below(const uint32_t *words, size_t count, size_t done, const void *with, void *out) {
    uint64_t bound = *(const uint32_t *)with;
    int64_t *values = (int64_t *)out + done;
    for (size_t i = 0; i < count; i++) values[i] = (int64_t)(words[i] * bound >> 32);
}

void aorta_random_below(const struct aorta_random *random, uint64_t first, size_t count, uint32_t bound,
                        int64_t *values) {
    for_each_chunk(random, first, count, use_below, &bound, values);
}

void aorta_normal_table_fill(struct aorta_normal_table *table) {
    const int half = AORTA_NORMAL_LEVELS / 2;
    double x = 0;
    /* From the middle outward each quantile is near the last one, so Newton's method on the distribution function
     * settles in a few steps; the lower half is the mirror image. */
    for (int i = half; i < AORTA_NORMAL_LEVELS; i++) {
        double tail = 1.0 - (i + 0.5) / AORTA_NORMAL_LEVELS;
        for (int step = 0; step < 8; step++) {
            double density = exp(-0.5 * x * x) / sqrt(2.0 * M_PI);
            double move = (0.5 * erfc(x / M_SQRT2) - tail) / density;
            x += move;
            if (fabs(move) < 1e-10) break;
        }
        table->quantile[i] = (float)x;
        table->quantile[AORTA_NORMAL_LEVELS - 1 - i] = (float)-x;
    }
}
