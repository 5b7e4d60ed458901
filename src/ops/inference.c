/* Operations of inference: attention against a cache and its updates, sampling, largest elements, routing to experts.
 */
#include "base/philox.h"
#include "ops/gpu/gpu.h"
#include "ops/shared.h"

#include <math.h>
#include <string.h>

enum { WIDEST_HEAD = 128 };

/* A running softmax over keys: the weighted sum of values so far, its greatest score and the sum of weights. */
struct running {
    float greatest, sum, value[WIDEST_HEAD];
};

static void take(struct running *r, const float *q, const float *key, const float *value, int64_t dim, float scale) {
    float score = 0.0f;
    for (int64_t i = 0; i < dim; i++) score += q[i] * key[i];
    score *= scale;
    const float greatest = fmaxf(r->greatest, score);
    const float before = expf(r->greatest - greatest), weight = expf(score - greatest);
    r->greatest = greatest;
    r->sum = r->sum * before + weight;
    for (int64_t i = 0; i < dim; i++) r->value[i] = r->value[i] * before + weight * value[i];
}

static aorta_status attend(const void *args) {
    const struct aorta_cache_attend_args *a = args;
    const struct aorta_cache *s = &a->shape;
    const int64_t dim = s->head_dim, width = s->heads * dim;
    const float scale = 1.0f / sqrtf((float)dim);
    for (int64_t query = 0; query < a->queries; query++)
        for (int64_t b = 0; b < s->batch; b++) {
            const int64_t cached = a->positions[b] < s->window ? a->positions[b] : s->window;
            const int64_t own = a->first + query;
            for (int64_t column = 0; column < width; column += dim) {
                const float *q = a->qkv + (own * s->batch + b) * 3 * width + column;
                struct running r = {.greatest = -INFINITY};
                for (int64_t t = 0; t < cached; t++) {
                    const int64_t place = (b * s->window + t) * width + column;
                    take(&r, q, a->keys + place, a->values + place, dim, scale);
                }
                for (int64_t t = 0; t <= own; t++) {
                    const float *row = a->qkv + (t * s->batch + b) * 3 * width + column;
                    take(&r, q, row + width, row + 2 * width, dim, scale);
                }
                float *out = a->out + (query * s->batch + b) * width + column;
                for (int64_t i = 0; i < dim; i++) out[i] = r.value[i] / r.sum;
            }
        }
    return NULL;
}

static aorta_status append(const void *args) {
    const struct aorta_cache_append_args *a = args;
    const struct aorta_cache *s = &a->shape;
    const int64_t width = s->heads * s->head_dim;
    for (int64_t layer = 0; layer < s->layers; layer++)
        for (int64_t b = 0; b < s->batch; b++) {
            const int64_t count = a->counts ? a->counts[b] : s->fresh;
            for (int64_t t = 0; t < count; t++) {
                const float *row = a->qkv + ((layer * s->fresh + t) * s->batch + b) * 3 * width;
                const int64_t place = (layer * s->batch + b) * s->window + (a->positions[b] + t) % s->window;
                memcpy(a->keys + place * width, row + width, (size_t)width * sizeof(float));
                memcpy(a->values + place * width, row + 2 * width, (size_t)width * sizeof(float));
            }
        }
    return NULL;
}

static aorta_status advance(const void *args) {
    const struct aorta_cache_advance_args *a = args;
    for (int64_t b = 0; b < a->batch; b++) a->positions[b] += a->counts ? a->counts[b] : a->count;
    return NULL;
}

/* Enough blocks to use the memory bandwidth, but each with enough keys that joining results takes less time. */
static int64_t splits_of(const struct aorta_gpu_properties *gpu, const struct aorta_cache_attend_args *a,
                         int64_t most_keys) {
    enum { LEAST_KEYS = 64, BLOCKS_EACH = 8 };
    const int64_t pairs = a->shape.heads * a->shape.batch * a->queries;
    const int64_t wanted = (BLOCKS_EACH * gpu->multiprocessors + pairs - 1) / pairs, most = most_keys / LEAST_KEYS;
    const int64_t splits = wanted < most ? wanted : most;
    return splits > 1 ? splits : 1;
}

static aorta_status cache_attend_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_cache_attend_args *a = args;
    const int64_t heads = a->shape.heads, rows = a->shape.batch * a->queries;
    const int64_t most_keys = a->shape.window + a->first + a->queries;
    const int64_t splits = splits_of(aorta_gpu_get_properties(aorta_stream_device(stream)), a, most_keys);
    struct aorta_gpu_cache_args gpu = {.op = *a, .splits = splits, .per_split = (most_keys + splits - 1) / splits};
    if (splits > 1) {
        struct aorta_ops_workspace workspace;
        AORTA_TRY(aorta_ops_workspace(stream, (size_t)(rows * heads * splits * (AORTA_CACHE_DIM + 2)) * sizeof(float),
                                      &workspace));
        gpu.partial = workspace.memory;
    }
    const struct aorta_gpu_grid grid = {.blocks = {(uint32_t)splits, (uint32_t)heads, (uint32_t)rows},
                                        .threads = {AORTA_CACHE_THREADS}};
    AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_cache_attend, grid, &gpu, sizeof gpu));
    if (splits == 1) return NULL;
    const struct aorta_gpu_grid joining = {.blocks = {(uint32_t)heads, (uint32_t)rows},
                                           .threads = {AORTA_CACHE_THREADS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_cache_join, joining, &gpu, sizeof gpu);
}

static struct aorta_gpu_grid append_grid(const struct aorta_cache *shape) {
    return (struct aorta_gpu_grid){.blocks = {(uint32_t)shape->fresh, (uint32_t)shape->batch, (uint32_t)shape->layers},
                                   .threads = {AORTA_CACHE_THREADS}};
}

static const struct aorta_kernel attend_kernel = {"cache_attend", attend, cache_attend_gpu};
AORTA_PLAIN_KERNEL(cache_append, append, aorta_cache_append_args, append_grid(&a->shape));
AORTA_PLAIN_KERNEL(cache_advance, advance, aorta_cache_advance_args, aorta_ops_grid(1, AORTA_CACHE_THREADS));

static aorta_status check_cache(const char *operation, const struct aorta_cache *cache) {
    AORTA_TRY(aorta_check_sizes(operation, AORTA_SIZES({"layers", cache->layers, 1}, {"batch", cache->batch, 0},
                                                       {"window", cache->window, 1}, {"heads", cache->heads, 1},
                                                       {"head_dim", cache->head_dim, 1}, {"fresh", cache->fresh, 1})));
    if (cache->head_dim <= WIDEST_HEAD) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "%s: heads of %lld; they have at most %d elements", operation,
                       (long long)cache->head_dim, WIDEST_HEAD);
}

aorta_status aorta_cache_attend(struct aorta_stream *stream, const struct aorta_cache_attend_args *a) {
    const char *name = attend_kernel.name;
    AORTA_TRY(check_cache(name, &a->shape));
    AORTA_TRY(aorta_check_sizes(name, AORTA_SIZES({"first", a->first, 0}, {"queries", a->queries, 1},
                                                  {"fresh", a->shape.fresh, a->first + a->queries})));
    return aorta_ops_launch(stream, &attend_kernel, a->shape.batch, a, sizeof *a,
                            AORTA_POINTERS(a->qkv, a->keys, a->values, a->positions, a->out));
}

aorta_status aorta_cache_append(struct aorta_stream *stream, const struct aorta_cache_append_args *a) {
    const char *name = cache_append_kernel.name;
    AORTA_TRY(check_cache(name, &a->shape));
    AORTA_TRY(aorta_check_size(name, "window", a->shape.window, a->shape.fresh));
    return aorta_ops_launch(stream, &cache_append_kernel, a->shape.batch, a, sizeof *a,
                            AORTA_POINTERS(a->qkv, a->keys, a->values, a->positions));
}

aorta_status aorta_cache_advance(struct aorta_stream *stream, const struct aorta_cache_advance_args *a) {
    AORTA_TRY(aorta_check_size(cache_advance_kernel.name, "batch", a->batch, 0));
    return aorta_ops_launch(stream, &cache_advance_kernel, a->batch, a, sizeof *a, AORTA_POINTERS(a->positions));
}

/* ---- sampling ---- */

enum { ACCEPT_SITE = 0xACCE, REST_SITE = 0x4E57, MOST_DRAFTED = 32 };

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
            const float score = x[i] - logf(aorta_draw_exponential(aorta_philox_word(a->seed, i, row, a->site, step)));
            if (score <= best) continue;
            best = score;
            a->tokens[row] = i;
        }
    }
    return NULL;
}

/* Draws one token from the excess of p over q, or from p if `all`. */
static int64_t draw_rest(const struct aorta_accept_args *a, int64_t sequence, int64_t at, bool all) {
    const int64_t vocab = a->shape.vocab, row = at * a->shape.batch + sequence;
    const float *p = a->p + row * vocab, *q = a->q + (all ? 0 : row * vocab);
    float best = -INFINITY;
    int64_t token = 0;
    for (int64_t i = 0; i < vocab; i++) {
        const float likely = expf(p[i] - a->p_logsums[row]);
        const float rest = all ? likely : likely - expf(q[i] - a->q_logsums[row]);
        if (rest <= 0.0f) continue;
        const uint32_t word = aorta_philox_word(a->shape.seed, i, sequence, REST_SITE, *a->step);
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
            if (aorta_draw_uniform(aorta_philox_word(s->seed, at, b, ACCEPT_SITE, *a->step)) >= expf(p - q)) break;
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
    return cache_advance_gpu(stream, &step);
}

static const struct aorta_kernel sample_kernel = {"sample", sample, sample_gpu};
static const struct aorta_kernel accept_kernel = {"accept", accept, accept_gpu};

aorta_status aorta_sample(struct aorta_stream *stream, const struct aorta_sample_args *a) {
    AORTA_TRY(aorta_check_sizes(sample_kernel.name, AORTA_SIZES({"rows", a->rows, 0}, {"vocab", a->vocab, 1})));
    return aorta_ops_launch(stream, &sample_kernel, a->rows, a, sizeof *a, AORTA_POINTERS(a->x, a->logsums));
}

aorta_status aorta_accept(struct aorta_stream *stream, const struct aorta_accept_args *a) {
    const struct aorta_acceptance *s = &a->shape;
    AORTA_TRY(aorta_check_sizes(
        accept_kernel.name, AORTA_SIZES({"batch", s->batch, 1}, {"drafted", s->drafted, 1}, {"vocab", s->vocab, 1})));
    if (s->drafted > MOST_DRAFTED)
        return AORTA_ERROR(AORTA_INTERNAL, "accept: drafted is %lld, at most %d", (long long)s->drafted, MOST_DRAFTED);
    AORTA_TRY(
        aorta_check_pointers(accept_kernel.name, AORTA_POINTERS(a->tokens, a->q, a->q_logsums, a->p, a->p_logsums,
                                                                a->step, a->next, a->totals, a->accepted, a->counts)));
    return aorta_launch(stream, &accept_kernel, a, sizeof *a);
}

/* ---- the largest elements, and rows of length one ---- */

static bool among(const int64_t *places, int64_t count, int64_t place) {
    for (int64_t i = 0; i < count; i++)
        if (places[i] == place) return true;
    return false;
}

static aorta_status top(const void *args) {
    const struct aorta_top_args *a = args;
    for (int64_t row = 0; row < a->rows; row++) {
        const float *x = a->x + row * a->width;
        int64_t *places = a->places + row * a->top;
        for (int64_t k = 0; k < a->top; k++) {
            int64_t best = -1;
            for (int64_t i = 0; i < a->width; i++)
                if (!among(places, k, i) && (best < 0 || x[i] > x[best])) best = i;
            places[k] = best;
            a->values[row * a->top + k] = x[best];
        }
    }
    return NULL;
}

static aorta_status normalise(const void *args) {
    const struct aorta_normalise_args *a = args;
    for (int64_t row = 0; row < a->rows; row++) {
        const float *x = a->x + row * a->width;
        float *y = a->y + row * a->width, square = 0.0f;
        for (int64_t i = 0; i < a->width; i++) square += x[i] * x[i];
        const float inverse = 1.0f / fmaxf(sqrtf(square), 1e-8f);
        for (int64_t i = 0; i < a->width; i++) y[i] = x[i] * inverse;
    }
    return NULL;
}

static aorta_status top_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_top_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_top_places, aorta_ops_grid(a->rows, AORTA_ROW_THREADS), a, sizeof *a);
}

static const struct aorta_kernel top_kernel = {"top", top, top_gpu};
AORTA_PLAIN_KERNEL(normalise_rows, normalise, aorta_normalise_args, aorta_ops_grid(a->rows, AORTA_ROW_THREADS));

aorta_status aorta_top(struct aorta_stream *stream, const struct aorta_top_args *a) {
    AORTA_TRY(aorta_check_sizes(top_kernel.name,
                                AORTA_SIZES({"rows", a->rows, 0}, {"top", a->top, 1}, {"width", a->width, a->top})));
    if (a->width > AORTA_TOP_WIDTH)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "top: rows of %lld; they have at most %d elements", (long long)a->width,
                           AORTA_TOP_WIDTH);
    return aorta_ops_launch(stream, &top_kernel, a->rows, a, sizeof *a, AORTA_POINTERS(a->x, a->places, a->values));
}

aorta_status aorta_normalise_rows(struct aorta_stream *stream, const struct aorta_normalise_args *a) {
    AORTA_TRY(aorta_check_sizes(normalise_rows_kernel.name, AORTA_SIZES({"rows", a->rows, 0}, {"width", a->width, 1})));
    return aorta_ops_launch(stream, &normalise_rows_kernel, a->rows, a, sizeof *a, AORTA_POINTERS(a->x, a->y));
}

/* ---- routing to experts ---- */

enum { MOST_CHOICES = 8 };

static void choose(const struct aorta_route_args *a, int64_t token) {
    const int64_t experts = a->shape.experts, top = a->shape.top;
    const float *logits = a->logits + token * experts;
    int32_t *choices = a->choices + token * top;
    float *weights = a->weights + token * top, sum = 0.0f;
    for (int64_t k = 0; k < top; k++) {
        int32_t best = -1;
        for (int32_t e = 0; e < experts; e++) {
            bool taken = false;
            for (int64_t i = 0; i < k; i++) taken = taken || choices[i] == e;
            if (!taken && (best < 0 || logits[e] > logits[best])) best = e;
        }
        choices[k] = best;
        sum += weights[k] = expf(logits[best] - logits[choices[0]]);
    }
    for (int64_t k = 0; k < top; k++) weights[k] /= sum;
}

static aorta_status plan(const void *args) {
    const struct aorta_route_args *a = args;
    const struct aorta_route *s = &a->shape;
    for (int64_t token = 0; token < s->tokens; token++) choose(a, token);
    for (int64_t e = 0; e < s->experts; e++) a->loads[e] = 0;
    for (int64_t slot = 0; slot < s->experts * s->capacity; slot++) a->owners[slot] = -1;
    for (int64_t i = 0; i < s->tokens * s->top; i++) {
        const int64_t expert = a->choices[i], row = a->loads[expert]++;
        a->slots[i] = row < s->capacity ? (int32_t)(expert * s->capacity + row) : -1;
        if (a->slots[i] >= 0) a->owners[a->slots[i]] = (int32_t)(i / s->top);
    }
    return NULL;
}

static aorta_status dispatch(const void *args) {
    const struct aorta_route_args *a = args;
    const size_t bytes = (size_t)a->shape.width * sizeof(float);
    for (int64_t slot = 0; slot < a->shape.experts * a->shape.capacity; slot++) {
        float *to = a->y + slot * a->shape.width;
        if (a->owners[slot] >= 0)
            memcpy(to, a->x + a->owners[slot] * a->shape.width, bytes);
        else
            memset(to, 0, bytes);
    }
    return NULL;
}

static aorta_status combine(const void *args) {
    const struct aorta_route_args *a = args;
    const int64_t top = a->shape.top, width = a->shape.width;
    for (int64_t token = 0; token < a->shape.tokens; token++) {
        float *y = a->y + token * width;
        memset(y, 0, (size_t)width * sizeof(float));
        for (int64_t k = 0; k < top; k++) {
            const int32_t slot = a->slots[token * top + k];
            if (slot < 0) continue;
            const float weight = a->weights[token * top + k], *row = a->x + slot * width;
            for (int64_t i = 0; i < width; i++) y[i] += weight * row[i];
        }
    }
    return NULL;
}

static aorta_status route_plan_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_route_args *a = args;
    AORTA_TRY(aorta_ops_gpu_run(
        stream, AORTA_ENTRY_route_choose,
        aorta_ops_grid(aorta_ops_blocks(a->shape.tokens, AORTA_ROUTE_THREADS), AORTA_ROUTE_THREADS), a, sizeof *a));
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_route_place, aorta_ops_grid(a->shape.experts, AORTA_ROUTE_THREADS), a,
                             sizeof *a);
}

static const struct aorta_kernel plan_kernel = {"route_plan", plan, route_plan_gpu};
AORTA_PLAIN_KERNEL(route_dispatch, dispatch, aorta_route_args,
                   aorta_ops_grid(a->shape.experts * a->shape.capacity, AORTA_ROUTE_THREADS));
AORTA_PLAIN_KERNEL(route_combine, combine, aorta_route_args, aorta_ops_grid(a->shape.tokens, AORTA_ROUTE_THREADS));

static aorta_status check_route(const char *operation, const struct aorta_route *shape) {
    AORTA_TRY(aorta_check_sizes(operation, AORTA_SIZES({"tokens", shape->tokens, 0}, {"top", shape->top, 1},
                                                       {"experts", shape->experts, shape->top},
                                                       {"capacity", shape->capacity, 1}, {"width", shape->width, 1})));
    if (shape->top <= MOST_CHOICES && shape->tokens * shape->top < INT32_MAX &&
        shape->experts * shape->capacity < INT32_MAX)
        return NULL;
    return AORTA_ERROR(AORTA_INTERNAL,
                       "%s: %lld tokens, %lld experts of %lld rows, %lld choices (at most %d): too many", operation,
                       (long long)shape->tokens, (long long)shape->experts, (long long)shape->capacity,
                       (long long)shape->top, MOST_CHOICES);
}

aorta_status aorta_route_plan(struct aorta_stream *stream, const struct aorta_route_args *a) {
    AORTA_TRY(check_route(plan_kernel.name, &a->shape));
    return aorta_ops_launch(stream, &plan_kernel, a->shape.experts, a, sizeof *a,
                            AORTA_POINTERS(a->logits, a->choices, a->slots, a->owners, a->loads, a->weights));
}

aorta_status aorta_route_dispatch(struct aorta_stream *stream, const struct aorta_route_args *a) {
    AORTA_TRY(check_route(route_dispatch_kernel.name, &a->shape));
    return aorta_ops_launch(stream, &route_dispatch_kernel, a->shape.experts, a, sizeof *a,
                            AORTA_POINTERS(a->owners, a->x, a->y));
}

aorta_status aorta_route_combine(struct aorta_stream *stream, const struct aorta_route_args *a) {
    AORTA_TRY(check_route(route_combine_kernel.name, &a->shape));
    return aorta_ops_launch(stream, &route_combine_kernel, a->shape.tokens, a, sizeof *a,
                            AORTA_POINTERS(a->slots, a->weights, a->x, a->y));
}
