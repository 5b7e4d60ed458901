/* Dropout masks, as src/ops/cpu/cpu.h defines them; Philox4x32-10 as in src/base/philox.h. */
#ifndef AORTA_KERNELS_DROPOUT_H
#define AORTA_KERNELS_DROPOUT_H

#include "ops/kernels/portable.h"
#include "ops/types.h"

struct philox {
    uint32_t word[4];
};

DEVICE philox philox4x32_10(philox c, uint32_t key0, uint32_t key1) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t left = (uint64_t)c.word[0] * 0xD2511F53u, right = (uint64_t)c.word[2] * 0xCD9E8D57u;
        c = philox{{(uint32_t)(right >> 32) ^ c.word[1] ^ key0, (uint32_t)right,
                    (uint32_t)(left >> 32) ^ c.word[3] ^ key1, (uint32_t)left}};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

struct dropout {
    uint32_t key0, key1;
    uint64_t step;
    uint32_t threshold; /* samples below it are dropped; 0: no dropout */
    float scale;        /* of elements that are not dropped */
};

/* The host has put the key in the place of the seed (aorta_ops_gpu_key): it is the same for all threads. */
DEVICE dropout dropout_begin(float probability, const aorta_rng &rng) {
    dropout d = {0, 0, 0, (uint32_t)(probability * 65536.0f + 0.5f), 1.0f};
    if (d.threshold == 0) return d;
    d.key0 = (uint32_t)rng.seed;
    d.key1 = (uint32_t)(rng.seed >> 32);
    d.step = rng.state ? (uint64_t)rng.state->step : 0;
    d.scale = d.threshold < 65536u ? 65536.0f / (float)(65536u - d.threshold) : 0.0f;
    return d;
}

/* Eight samples: those of elements 8·block … 8·block + 7. */
DEVICE philox dropout_block(const dropout &d, uint64_t block) {
    const philox counter = {{(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)d.step, (uint32_t)(d.step >> 32)}};
    return philox4x32_10(counter, d.key0, d.key1);
}

/* Compares upper halves, with the sample there. A threshold of 1 overflows, and then `scale` is 0. */
DEVICE bool dropout_keeps(const dropout &d, const philox &samples, int i) {
    const uint32_t word = samples.word[i / 2];
    return (i % 2 ? word : word << 16) >= d.threshold << 16;
}

/* The eight elements of one block. */
DEVICE void dropout_apply_block(const dropout &d, const philox &samples, float value[8]) {
#pragma unroll
    for (int i = 0; i < 8; i++) value[i] *= dropout_keeps(d, samples, i) ? d.scale : 0.0f;
}

/* value[i] = dropout of element first + i. */
DEVICE void dropout_apply(const dropout &d, int64_t first, float value[8]) {
    if (d.threshold == 0) return;
    const int skip = (int)(first & 7);
    const philox samples = dropout_block(d, (uint64_t)first / 8);
    if (skip == 0) return dropout_apply_block(d, samples, value);
    const philox more = dropout_block(d, (uint64_t)first / 8 + 1); /* eight elements that straddle two blocks */
    for (int i = 0; i < 8; i++) {
        const bool keeps = i + skip < 8 ? dropout_keeps(d, samples, i + skip) : dropout_keeps(d, more, i + skip - 8);
        value[i] *= keeps ? d.scale : 0.0f;
    }
}

#endif
