/* Drawing tokens; a block works on a row of logits. src/ops/inference.c does the same in a few lines. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/dropout.h"
#include "ops/kernels/reduce.h"

#define AORTA_DRAW_FUNCTION DEVICE
#define aorta_draw_log natural_log
#include "ops/draw.h"

enum { ACCEPT_SITE = 0xACCE, REST_SITE = 0x4E57 };

/* The four words of numbers 4·group … 4·group + 3. */
DEVICE philox words_of(uint64_t seed, int64_t group, int64_t row, uint32_t site, int64_t step) {
    return philox4x32_10(philox{{(uint32_t)group, (uint32_t)row, site, (uint32_t)step}}, (uint32_t)seed, (uint32_t)(seed >> 32));
}

DEVICE float row_logsum(const float *x, int64_t count) {
    float most = AORTA_LOWEST, sum = 0.0f;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) most = greater(most, x[i]);
    most = block_greatest(most);
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += natural_exp(x[i] - most);
    return natural_log(block_total(sum)) + most;
}

KERNEL(AORTA_SAMPLE_THREADS, sample_rows, aorta_sample_args) {
    const int64_t row = blockIdx.x, step = a.step ? *a.step : 0;
    const float *x = a.x + row * a.vocab;
    const float logsum = row_logsum(x, a.vocab);
    if (threadIdx.x == 0) a.logsums[row] = logsum;
    if (!a.tokens) return;
    placed best = {AORTA_LOWEST, UINT32_MAX};
    for (int64_t group = threadIdx.x; group * 4 < a.vocab; group += blockDim.x) {
        const philox words = words_of(a.seed, group, row, a.site, step);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t at = group * 4 + i;
            if (at >= a.vocab) continue;
            const float score = x[at] - natural_log(aorta_draw_exponential(words.word[i]));
            best = better(best, placed{score, (uint32_t)at});
        }
    }
    best = block_best(best);
    if (threadIdx.x == 0) a.tokens[row] = best.place;
}

/* How many of the proposed tokens are accepted. */
DEVICE int64_t accepted_of(const aorta_accept_args &a, int64_t b, int64_t step) {
    int64_t at = 0;
    for (; at < a.shape.drafted; at++) {
        const int64_t row = at * a.shape.batch + b, token = a.tokens[row];
        const float p = a.p[row * a.shape.vocab + token] - a.p_logsums[row];
        const float q = a.q[row * a.shape.vocab + token] - a.q_logsums[row];
        const uint32_t word = words_of(a.shape.seed, at / 4, b, ACCEPT_SITE, step).word[at % 4];
        if (aorta_draw_uniform(word) >= natural_exp(p - q)) break;
    }
    return at;
}

DEVICE int64_t draw_rest(const aorta_accept_args &a, int64_t b, int64_t at, int64_t step) {
    const int64_t vocab = a.shape.vocab, row = at * a.shape.batch + b;
    const bool all = at == a.shape.drafted;
    const float *p = a.p + row * vocab, *q = a.q + (all ? 0 : row * vocab);
    const float p_logsum = a.p_logsums[row], q_logsum = all ? 0.0f : a.q_logsums[row];
    placed best = {AORTA_LOWEST, UINT32_MAX};
    for (int64_t group = threadIdx.x; group * 4 < vocab; group += blockDim.x) {
        const philox words = words_of(a.shape.seed, group, b, REST_SITE, step);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t token = group * 4 + i;
            if (token >= vocab) continue;
            const float rest = natural_exp(p[token] - p_logsum) - (all ? 0.0f : natural_exp(q[token] - q_logsum));
            if (rest <= 0.0f) continue;
            const float score = natural_log(rest) - natural_log(aorta_draw_exponential(words.word[i]));
            best = better(best, placed{score, (uint32_t)token});
        }
    }
    best = block_best(best);
    return best.place == UINT32_MAX ? 0 : best.place;
}

/* A block takes a sequence; the step is advanced after all of them. */
KERNEL(AORTA_SAMPLE_THREADS, accept_tokens, aorta_accept_args) {
    const int64_t step = *a.step, b = blockIdx.x, at = accepted_of(a, b, step), next = draw_rest(a, b, at, step);
    if (threadIdx.x > 0) return;
    a.next[b] = next;
    a.accepted[b] = (int32_t)at;
    a.counts[b] = (int32_t)at + 1;
    a.totals[b] += at;
}
