#include "hwq/operations.h"

#include <math.h>

enum { QKV, KEYS, VALUES, POSITIONS }; /* inputs of attention */
enum { COUNTS = 2, OLD_KEYS, OLD_VALUES };

struct shape {
    struct aorta_cache cache;
    int64_t first, queries;
};

/* ---- attention ---- */

static aorta_status run_attend(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct shape *shape = o->shape;
    return aorta_cache_attend(stream, &(struct aorta_cache_attend_args){.shape = shape->cache,
                                                                        .first = shape->first,
                                                                        .queries = shape->queries,
                                                                        .qkv = hwq_floats(o->in[QKV]),
                                                                        .keys = hwq_floats(o->in[KEYS]),
                                                                        .values = hwq_floats(o->in[VALUES]),
                                                                        .positions = hwq_at_device(o->in[POSITIONS]),
                                                                        .out = hwq_floats(o->out[0])});
}

/* Element `column` of the key (or value) at time t of a sequence: cached, then new ones. */
static struct hwq_value key_at(struct hwq_checker *c, const struct hwq_operation *o, int input, int64_t sequence,
                               int64_t cached, int64_t t, int64_t column) {
    const struct aorta_cache *cache = &((const struct shape *)o->shape)->cache;
    if (t < cached) return hwq_at(c, o, input, sequence * cache->window + t, column);
    return hwq_at(c, o, QKV, (t - cached) * cache->batch + sequence,
                  (input == KEYS ? 1 : 2) * cache->heads * cache->head_dim + column);
}

static struct hwq_value attend_element(struct hwq_checker *c, const struct hwq_operation *o, int output, int64_t row,
                                       int64_t column) {
    const struct shape *shape = o->shape;
    const struct aorta_cache *cache = &shape->cache;
    const int64_t own = shape->first + row / cache->batch, sequence = row % cache->batch;
    const int64_t head = column / cache->head_dim * cache->head_dim;
    const int64_t position = (int64_t)hwq_at(c, o, POSITIONS, 0, sequence).value;
    const int64_t cached = position < cache->window ? position : cache->window;
    double total = 0.0, value = 0.0, reference = 0.0;
    (void)output;
    for (int64_t t = 0; t < cached + own + 1; t++) {
        struct hwq_sum sum = {0};
        for (int64_t d = 0; d < cache->head_dim; d++)
            hwq_sum_product(&sum, hwq_at(c, o, QKV, own * cache->batch + sequence, head + d),
                            key_at(c, o, KEYS, sequence, cached, t, head + d));
        const struct hwq_value v = key_at(c, o, VALUES, sequence, cached, t, column);
        if (sum.unknown || isinf(v.allowed)) return hwq_unknown();
        const double score = sum.value / sqrt((double)cache->head_dim);
        if (t == 0) reference = score;
        total += exp(score - reference);
        value += exp(score - reference) * v.value;
    }
    return (struct hwq_value){value / total, 1e-5 + 1e-4 * fabs(value / total)};
}

static const struct hwq_kind attend = {"cache_attend", AORTA_SPAN_KERNEL, run_attend, attend_element, NULL, 15, false};

struct hwq_tensor hwq_attend(struct hwq_graph *g, int s, const struct aorta_cache *cache, int64_t first,
                             int64_t queries, struct hwq_tensor qkv, struct hwq_tensor keys, struct hwq_tensor values,
                             struct hwq_tensor positions) {
    const struct shape shape = {*cache, first, queries};
    const struct hwq_tensor out = hwq_output(g, queries * cache->batch, cache->heads * cache->head_dim, "context");
    const struct hwq_operation o = {.kind = &attend, .stream = s, .in = {qkv, keys, values, positions}, .out = {out}};
    hwq_append(g, &o, &shape, sizeof shape);
    return out;
}

/* ---- new rows ---- */

static aorta_status run_append(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct shape *shape = o->shape;
    return aorta_cache_append(stream, &shape->cache, hwq_floats(o->in[0]), hwq_floats(o->out[0]), hwq_floats(o->out[1]),
                              hwq_at_device(o->in[1]), hwq_at_device(o->in[COUNTS]));
}

/* Row of the ring [layers · batch · window]: the last new position that fell there, or what was there. */
static struct hwq_value append_element(struct hwq_checker *c, const struct hwq_operation *o, int output, int64_t row,
                                       int64_t column) {
    const struct aorta_cache *cache = &((const struct shape *)o->shape)->cache;
    const int64_t slot = row % cache->window, sequence = row / cache->window % cache->batch;
    const int64_t layer = row / cache->window / cache->batch;
    const int64_t position = (int64_t)hwq_at(c, o, 1, 0, sequence).value;
    const struct hwq_value counted =
        o->in[COUNTS].memory ? hwq_at(c, o, COUNTS, 0, sequence) : hwq_exact((double)cache->fresh);
    if (isinf(counted.allowed)) return counted;
    const int64_t fresh = fmin(counted.value, (double)cache->window);
    for (int64_t i = fresh - 1; i >= 0; i--)
        if ((position + i) % cache->window == slot)
            return hwq_at(c, o, 0, (layer * cache->fresh + i) * cache->batch + sequence,
                          (output + 1) * cache->heads * cache->head_dim + column);
    return hwq_at(c, o, output == 0 ? OLD_KEYS : OLD_VALUES, row, column);
}

static const struct hwq_kind append = {"cache_append", AORTA_SPAN_KERNEL, run_append, append_element, NULL, 0, true};

void hwq_cache_append(struct hwq_graph *g, int s, const struct aorta_cache *cache, struct hwq_tensor qkv,
                      struct hwq_tensor keys, struct hwq_tensor values, struct hwq_tensor positions,
                      struct hwq_tensor counts) {
    const struct shape shape = {.cache = *cache};
    const struct hwq_operation o = {
        .kind = &append, .stream = s, .in = {qkv, positions, counts, keys, values}, .out = {keys, values}};
    hwq_append(g, &o, &shape, sizeof shape);
}

static aorta_status run_advance(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_cache_advance(stream, o->in[0].columns, hwq_at_device(o->out[0]), hwq_at_device(o->in[1]),
                               *(const int64_t *)o->shape);
}

static struct hwq_value advance_element(struct hwq_checker *c, const struct hwq_operation *o, int output, int64_t row,
                                        int64_t column) {
    const struct hwq_value more =
        o->in[1].memory ? hwq_at(c, o, 1, 0, column) : hwq_exact((double)*(const int64_t *)o->shape);
    (void)output;
    return (struct hwq_value){hwq_at(c, o, 0, row, column).value + more.value, more.allowed};
}

static const struct hwq_kind advance = {
    "cache_advance", AORTA_SPAN_KERNEL, run_advance, advance_element, NULL, 0, false};

void hwq_cache_advance(struct hwq_graph *g, int s, struct hwq_tensor positions, struct hwq_tensor counts,
                       int64_t count) {
    const struct hwq_operation o = {.kind = &advance, .stream = s, .in = {positions, counts}, .out = {positions}};
    hwq_append(g, &o, &count, sizeof count);
}
