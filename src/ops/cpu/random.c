#include "ops/random.h"
#include "ops/cpu/block.h"

static void make_blocks(const uint32_t key[2], uint64_t step, uint64_t first, int64_t count, uint32_t *words) {
    const uint32_t key0 = key[0], key1 = key[1];
    const uint32_t low = (uint32_t)first, high = (uint32_t)(first >> 32);
    const uint32_t step_low = (uint32_t)step, step_high = (uint32_t)(step >> 32);
    for (int64_t group = 0; group < count; group += AORTA_PHILOX_LANES) {
        uint32_t *out = words + group * 4;
#pragma omp simd
        for (uint32_t lane = 0; lane < AORTA_PHILOX_LANES; lane++) {
            uint32_t block = low + (uint32_t)group + lane;
            uint32_t block_high = high + (block < low ? 1 : 0);
            struct aorta_philox c = {{block, block_high, step_low, step_high}};
            c = aorta_philox4x32_10(c, key0, key1);
            out[lane * 4 + 0] = c.word[0];
            out[lane * 4 + 1] = c.word[1];
            out[lane * 4 + 2] = c.word[2];
            out[lane * 4 + 3] = c.word[3];
        }
    }
}

void AORTA_ISA_NAME(philox)(const uint32_t key[2], uint64_t step, uint64_t first, int64_t count, uint32_t *words) {
    make_blocks(key, step, first, count, words);
}

const uint16_t *AORTA_ISA_NAME(dropout_bits)(const struct aorta_dropout *dropout, int64_t first, int64_t count,
                                             uint16_t *buffer) {
    int64_t skip = first % AORTA_PHILOX_SAMPLES;
    int64_t groups = (skip + count + AORTA_PHILOX_GROUP - 1) / AORTA_PHILOX_GROUP;
    uint32_t words[AORTA_BITS_BUFFER / 2];
    make_blocks(dropout->key, dropout->step, (uint64_t)(first / AORTA_PHILOX_SAMPLES), groups * AORTA_PHILOX_LANES,
                words);
    for (int64_t i = 0; i < groups * AORTA_PHILOX_GROUP / 2; i++) { /* low half first, on any byte order */
        /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): it does not count the lanes of make_blocks */
        buffer[2 * i] = (uint16_t)words[i];
        buffer[2 * i + 1] = (uint16_t)(words[i] >> 16);
    }
    return buffer + skip;
}
