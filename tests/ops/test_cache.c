/* Attention against a cache, and what keeps the cache. */
#include "rig.h"

#include <math.h>

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

struct tensors {
    double *qkv, *keys, *values;
    int64_t positions[4];
};

/* One head of one query, by the definition. */
static void attend_naive(const struct aorta_cache *c, const struct tensors *t, int64_t own, int64_t b, int64_t head,
                         double *out) {
    const int64_t dim = c->head_dim, width = c->heads * dim, column = head * dim;
    const int64_t cached = t->positions[b] < c->window ? t->positions[b] : c->window;
    const double *q = t->qkv + (own * c->batch + b) * 3 * width + column;
    double total = 0.0;
    for (int64_t i = 0; i < dim; i++) out[i] = 0.0;
    for (int64_t k = 0; k < cached + own + 1; k++) {
        const int64_t place = (b * c->window + k) * width + column;
        const double *fresh = t->qkv + ((k - cached) * c->batch + b) * 3 * width + column;
        const double *key = k < cached ? t->keys + place : fresh + width;
        const double *value = k < cached ? t->values + place : fresh + 2 * width;
        const double weight = exp(dot(q, key, dim) / sqrt((double)dim));
        total += weight;
        for (int64_t i = 0; i < dim; i++) out[i] += weight * value[i];
    }
    for (int64_t i = 0; i < dim; i++) out[i] /= total;
}

static void check_attention(struct rig *rig, struct aorta_cache c, int64_t first, int64_t queries) {
    const int64_t width = c.heads * c.head_dim, cached = c.batch * c.window * width;
    struct tensors t = {rig_random(rig, AORTA_F32, c.fresh * c.batch * 3 * width, 2),
                        rig_random(rig, AORTA_F32, cached, 2),
                        rig_random(rig, AORTA_F32, cached, 2),
                        {0, c.window / 2, 3 * c.window, c.window}};
    double *expected = rig_values(rig, queries * c.batch * width);
    for (int64_t row = 0; row < queries * c.batch; row++)
        for (int64_t head = 0; head < c.heads; head++)
            attend_naive(&c, &t, first + row / c.batch, row % c.batch, head,
                         expected + row * width + head * c.head_dim);
    float *out = rig_alloc(rig, (size_t)(queries * c.batch * width) * sizeof(float));
    check_ok(aorta_cache_attend(rig->stream, &(struct aorta_cache_attend_args){
                                                 .shape = c,
                                                 .first = first,
                                                 .queries = queries,
                                                 .qkv = rig_put(rig, AORTA_F32, t.qkv, c.fresh * c.batch * 3 * width),
                                                 .keys = rig_put(rig, AORTA_F32, t.keys, cached),
                                                 .values = rig_put(rig, AORTA_F32, t.values, cached),
                                                 .positions = rig_put_bytes(rig, t.positions, sizeof t.positions),
                                                 .out = out}));
    rig_close_to("out", rig_get(rig, AORTA_F32, out, queries * c.batch * width), expected, queries * c.batch * width,
                 3e-6, 2e-6);
}

static void attention(void **state) {
    static const struct {
        struct aorta_cache cache;
        int64_t first, queries;
    } cases[] = {
        {{.layers = 1, .batch = 1, .window = 8, .heads = 1, .head_dim = 4, .fresh = 1}, 0, 1},
        {{.layers = 1, .batch = 4, .window = 40, .heads = 2, .head_dim = 32, .fresh = 5}, 0, 5},
        {{.layers = 1, .batch = 3, .window = 33, .heads = 3, .head_dim = 50, .fresh = 5}, 2, 2},
        {{.layers = 1, .batch = 4, .window = 300, .heads = 1, .head_dim = 128, .fresh = 1}, 0, 1}, /* several blocks */
        {{.layers = 1, .batch = 2, .window = 200, .heads = 2, .head_dim = 64, .fresh = 3}, 1, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_attention(*state, cases[i].cache, cases[i].first, cases[i].queries);
        rig_reset(state);
    }
}

static void append(void **state) {
    for (int with_counts = 0; with_counts < 2; with_counts++) {
        struct rig *rig = *state;
        const struct aorta_cache c = {.layers = 2, .batch = 3, .window = 7, .heads = 2, .head_dim = 5, .fresh = 4};
        const int64_t width = c.heads * c.head_dim, fresh = c.layers * c.fresh * c.batch * 3 * width;
        const int64_t cached = c.layers * c.batch * c.window * width, positions[] = {0, 5, 13};
        const int32_t counts[] = {4, 0, 2};
        double *qkv = rig_random(rig, AORTA_F32, fresh, 1), *keys = rig_random(rig, AORTA_F32, cached, 1);
        double *values = rig_random(rig, AORTA_F32, cached, 1);
        float *k = rig_put(rig, AORTA_F32, keys, cached), *v = rig_put(rig, AORTA_F32, values, cached);
        int64_t *at = rig_put_bytes(rig, positions, sizeof positions), moved[3];
        const int32_t *n = with_counts ? rig_put_bytes(rig, counts, sizeof counts) : NULL;
        check_ok(aorta_cache_append(rig->stream,
                                    &(struct aorta_cache_append_args){.shape = c,
                                                                      .qkv = rig_put(rig, AORTA_F32, qkv, fresh),
                                                                      .keys = k,
                                                                      .values = v,
                                                                      .positions = at,
                                                                      .counts = n}));
        check_ok(aorta_cache_advance(
            rig->stream,
            &(struct aorta_cache_advance_args){.batch = c.batch, .positions = at, .counts = n, .count = c.fresh}));
        for (int64_t i = 0; i < c.layers * c.fresh * c.batch * width; i++) {
            const int64_t column = i % width, b = i / width % c.batch, t = i / width / c.batch % c.fresh;
            const int64_t layer = i / width / c.batch / c.fresh;
            if (with_counts && t >= counts[b]) continue;
            const int64_t place = ((layer * c.batch + b) * c.window + (positions[b] + t) % c.window) * width + column;
            keys[place] = qkv[i / width * 3 * width + width + column];
            values[place] = qkv[i / width * 3 * width + 2 * width + column];
        }
        rig_close_to("keys", rig_get(rig, AORTA_F32, k, cached), keys, cached, 0, 0);
        rig_close_to("values", rig_get(rig, AORTA_F32, v, cached), values, cached, 0, 0);
        rig_get_bytes(rig, moved, at, sizeof moved);
        for (int b = 0; b < 3; b++) assert_int_equal(moved[b], positions[b] + (with_counts ? counts[b] : c.fresh));
        rig_reset(state);
    }
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[4] = {0};
    int64_t positions[1] = {0};
    struct aorta_cache c = {.layers = 1, .batch = 1, .window = 4, .heads = 1, .head_dim = 129, .fresh = 2};
    check_fails(aorta_cache_attend(rig->stream, &(struct aorta_cache_attend_args){.shape = c,
                                                                                  .queries = 1,
                                                                                  .qkv = some,
                                                                                  .keys = some,
                                                                                  .values = some,
                                                                                  .positions = positions,
                                                                                  .out = some}),
                AORTA_UNSUPPORTED, "heads of 129; they have at most 128");
    c.head_dim = 4;
    check_fails(aorta_cache_attend(rig->stream, &(struct aorta_cache_attend_args){.shape = c,
                                                                                  .first = 1,
                                                                                  .queries = 2,
                                                                                  .qkv = some,
                                                                                  .keys = some,
                                                                                  .values = some,
                                                                                  .positions = positions,
                                                                                  .out = some}),
                AORTA_INTERNAL, "fresh is 2, must be at least 3");
    c.fresh = 5;
    check_fails(aorta_cache_append(rig->stream,
                                   &(struct aorta_cache_append_args){
                                       .shape = c, .qkv = some, .keys = some, .values = some, .positions = positions}),
                AORTA_INTERNAL, "window is 4, must be at least 5");
    check_fails(aorta_cache_advance(rig->stream, &(struct aorta_cache_advance_args){.batch = 1, .count = 1}),
                AORTA_INTERNAL, "positions is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(attention), rig_test(append), rig_test(wrong_arguments)};
    return rig_run_tests("ops: cache", tests);
}
