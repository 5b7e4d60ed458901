/* Attention of a few new positions against a cache of earlier ones, and updates of the cache. */
#include "ops/check.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/workspace.h"

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

/* Enough blocks to keep the device reading, but none with so few keys that joining costs more. */
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

static aorta_status cache_append_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_cache_append_args *a = args;
    const struct aorta_gpu_grid grid = {
        .blocks = {(uint32_t)a->shape.fresh, (uint32_t)a->shape.batch, (uint32_t)a->shape.layers},
        .threads = {AORTA_CACHE_THREADS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_cache_append, grid, a, sizeof *a);
}

aorta_status aorta_ops_gpu_cache_advance(struct aorta_stream *stream, const void *args) {
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_cache_advance, aorta_ops_grid(1, AORTA_CACHE_THREADS), args,
                             sizeof(struct aorta_cache_advance_args));
}

static const struct aorta_kernel attend_kernel = {"cache_attend", attend, cache_attend_gpu};
static const struct aorta_kernel append_kernel = {"cache_append", append, cache_append_gpu};
static const struct aorta_kernel advance_kernel = {"cache_advance", advance, aorta_ops_gpu_cache_advance};

static aorta_status check_cache(const char *operation, const struct aorta_cache *cache) {
    AORTA_TRY(aorta_check_size(operation, "layers", cache->layers, 1));
    AORTA_TRY(aorta_check_size(operation, "batch", cache->batch, 0));
    AORTA_TRY(aorta_check_size(operation, "window", cache->window, 1));
    AORTA_TRY(aorta_check_size(operation, "heads", cache->heads, 1));
    AORTA_TRY(aorta_check_size(operation, "head_dim", cache->head_dim, 1));
    AORTA_TRY(aorta_check_size(operation, "fresh", cache->fresh, 1));
    if (cache->head_dim <= WIDEST_HEAD) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "%s: heads of %lld; they have at most %d elements", operation,
                       (long long)cache->head_dim, WIDEST_HEAD);
}

aorta_status aorta_cache_attend(struct aorta_stream *stream, const struct aorta_cache_attend_args *a) {
    const char *name = attend_kernel.name;
    AORTA_TRY(check_cache(name, &a->shape));
    AORTA_TRY(aorta_check_size(name, "first", a->first, 0));
    AORTA_TRY(aorta_check_size(name, "queries", a->queries, 1));
    AORTA_TRY(aorta_check_size(name, "fresh", a->shape.fresh, a->first + a->queries));
    if (a->shape.batch == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(name, AORTA_POINTERS({"qkv", a->qkv}, {"keys", a->keys}, {"values", a->values},
                                                        {"positions", a->positions}, {"out", a->out})));
    return aorta_launch(stream, &attend_kernel, a, sizeof *a);
}

aorta_status aorta_cache_append(struct aorta_stream *stream, const struct aorta_cache_append_args *a) {
    const char *name = append_kernel.name;
    AORTA_TRY(check_cache(name, &a->shape));
    AORTA_TRY(aorta_check_size(name, "window", a->shape.window, a->shape.fresh));
    if (a->shape.batch == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(
        name, AORTA_POINTERS({"qkv", a->qkv}, {"keys", a->keys}, {"values", a->values}, {"positions", a->positions})));
    return aorta_launch(stream, &append_kernel, a, sizeof *a);
}

aorta_status aorta_cache_advance(struct aorta_stream *stream, const struct aorta_cache_advance_args *a) {
    AORTA_TRY(aorta_check_size(advance_kernel.name, "batch", a->batch, 0));
    if (a->batch == 0) return NULL;
    AORTA_TRY(aorta_check_pointer(advance_kernel.name, "positions", a->positions));
    return aorta_launch(stream, &advance_kernel, a, sizeof *a);
}
