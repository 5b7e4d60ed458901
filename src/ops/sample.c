/* Drawing tokens, and accepting or rejecting the tokens of a draft model. */
#include "base/philox.h"
#include "ops/check.h"
#include "ops/gpu/gpu.h"

#include <math.h>

#define AORTA_DRAW_FUNCTION static inline
#define aorta_draw_log logf
#include "ops/draw.h"

enum { ACCEPT_SITE = 0xACCE, REST_SITE = 0x4E57, MOST_DRAFTED = 32 };

static uint32_t word_of(uint64_t seed, int64_t index, int64_t row, uint32_t site, int64_t step) {
    const struct aorta_philox counter = {{(uint32_t)(index / 4), (uint32_t)row, site, (uint32_t)step}};
    return aorta_philox4x32_10(counter, (uint32_t)seed, (uint32_t)(seed >> 32)).word[index % 4];
}

static float logsum(const float *x, int64_t count) {
    float greatest = x[0];
    double sum = 0.0;
    for (int64_t i = 1; i < count; i++) greatest = fmaxf(greatest, x[i]);
    for (int64_t i = 0; i < count; i++) sum += (double)expf(x[i] - greatest);
    return greatest + (float)log(sum);
}

static aorta_status sample(const void *args) {
    const struct aorta_sample_args *a = args;
    const int64_t step = a->step ? *a->step : 0;
    for (int64_t row = 0; row < a->rows; row++) {
        const float *x = a->x + row * a->vocab;
        a->logsums[row] = logsum(x, a->vocab);
        float best = -INFINITY;
        for (int64_t i = 0; a->tokens && i < a->vocab; i++) {
            const float score = x[i] - logf(aorta_draw_exponential(word_of(a->seed, i, row, a->site, step)));
            if (score <= best) continue;
            best = score;
            a->tokens[row] = i;
        }
    }
    return NULL;
}

/* One token from what p has more than q; q NULL: from p. */
static int64_t draw_rest(const struct aorta_accept_args *a, int64_t sequence, int64_t at, bool all) {
    const int64_t vocab = a->shape.vocab, row = at * a->shape.batch + sequence;
    const float *p = a->p + row * vocab, *q = a->q + (all ? 0 : row * vocab);
    float best = -INFINITY;
    int64_t token = 0;
    for (int64_t i = 0; i < vocab; i++) {
        const float likely = expf(p[i] - a->p_logsums[row]);
        const float rest = all ? likely : likely - expf(q[i] - a->q_logsums[row]);
        if (rest <= 0.0f) continue;
        const uint32_t word = word_of(a->shape.seed, i, sequence, REST_SITE, *a->step);
        const float score = logf(rest) - logf(aorta_draw_exponential(word));
        if (score <= best) continue;
        best = score;
        token = i;
    }
    return token;
}

static aorta_status accept(const void *args) {
    const struct aorta_accept_args *a = args;
    const struct aorta_acceptance *s = &a->shape;
    for (int64_t b = 0; b < s->batch; b++) {
        int64_t at = 0;
        for (; at < s->drafted; at++) {
            const int64_t row = at * s->batch + b, token = a->tokens[row];
            const float p = a->p[row * s->vocab + token] - a->p_logsums[row];
            const float q = a->q[row * s->vocab + token] - a->q_logsums[row];
            if (aorta_draw_uniform(word_of(s->seed, at, b, ACCEPT_SITE, *a->step)) >= expf(p - q)) break;
        }
        a->next[b] = draw_rest(a, b, at, at == s->drafted);
        a->accepted[b] = (int32_t)at;
        a->counts[b] = (int32_t)at + 1;
        a->totals[b] += at;
    }
    ++*a->step;
    return NULL;
}

static aorta_status sample_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_sample_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_sample_rows, aorta_ops_grid(a->rows, AORTA_SAMPLE_THREADS), a,
                             sizeof *a);
}

static aorta_status accept_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_accept_args *a = args;
    AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_accept_tokens, aorta_ops_grid(a->shape.batch, AORTA_SAMPLE_THREADS),
                                a, sizeof *a));
    const struct aorta_cache_advance_args step = {.batch = 1, .count = 1, .positions = a->step};
    return aorta_ops_gpu_cache_advance(stream, &step);
}

static const struct aorta_kernel sample_kernel = {"sample", sample, sample_gpu};
static const struct aorta_kernel accept_kernel = {"accept", accept, accept_gpu};

aorta_status aorta_sample(struct aorta_stream *stream, const struct aorta_sample_args *a) {
    AORTA_TRY(aorta_check_size(sample_kernel.name, "rows", a->rows, 0));
    AORTA_TRY(aorta_check_size(sample_kernel.name, "vocab", a->vocab, 1));
    if (a->rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(sample_kernel.name, AORTA_POINTERS({"x", a->x}, {"logsums", a->logsums})));
    return aorta_launch(stream, &sample_kernel, a, sizeof *a);
}

aorta_status aorta_accept(struct aorta_stream *stream, const struct aorta_accept_args *a) {
    const struct aorta_acceptance *s = &a->shape;
    AORTA_TRY(aorta_check_size(accept_kernel.name, "batch", s->batch, 1));
    AORTA_TRY(aorta_check_size(accept_kernel.name, "drafted", s->drafted, 1));
    AORTA_TRY(aorta_check_size(accept_kernel.name, "vocab", s->vocab, 1));
    if (s->drafted > MOST_DRAFTED)
        return AORTA_ERROR(AORTA_INTERNAL, "accept: drafted is %lld, at most %d", (long long)s->drafted, MOST_DRAFTED);
    AORTA_TRY(aorta_check_pointers(
        accept_kernel.name, AORTA_POINTERS({"tokens", a->tokens}, {"q", a->q}, {"q_logsums", a->q_logsums}, {"p", a->p},
                                           {"p_logsums", a->p_logsums}, {"step", a->step}, {"next", a->next},
                                           {"totals", a->totals}, {"accepted", a->accepted}, {"counts", a->counts})));
    return aorta_launch(stream, &accept_kernel, a, sizeof *a);
}
