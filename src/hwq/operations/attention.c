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
static struct hwq_value key_at(const struct hwq_element *e, int input, int64_t sequence, int64_t cached, int64_t t,
                               int64_t column) {
    const struct aorta_cache *cache = &((const struct shape *)e->o->shape)->cache;
    if (t < cached) return hwq_at(e, input, sequence * cache->window + t, column);
    return hwq_at(e, QKV, (t - cached) * cache->batch + sequence,
                  (input == KEYS ? 1 : 2) * cache->heads * cache->head_dim + column);
}

static struct hwq_value attend_element(const struct hwq_element *e) {
    const struct shape *shape = e->o->shape;
    const struct aorta_cache *cache = &shape->cache;
    const int64_t own = shape->first + e->row / cache->batch, sequence = e->row % cache->batch;
    const int64_t head = e->column / cache->head_dim * cache->head_dim;
    const int64_t position = (int64_t)hwq_at(e, POSITIONS, 0, sequence).value;
    const int64_t cached = position < cache->window ? position : cache->window;
    double total = 0.0, value = 0.0, reference = 0.0;
    for (int64_t t = 0; t < cached + own + 1; t++) {
        struct hwq_sum sum = {0};
        for (int64_t d = 0; d < cache->head_dim; d++)
            hwq_sum_product(&sum, hwq_at(e, QKV, own * cache->batch + sequence, head + d),
                            key_at(e, KEYS, sequence, cached, t, head + d));
        const struct hwq_value v = key_at(e, VALUES, sequence, cached, t, e->column);
        if (sum.unknown || isinf(v.allowed)) return hwq_unknown();
        const double score = sum.value / sqrt((double)cache->head_dim);
        if (t == 0) reference = score;
        total += exp(score - reference);
        value += exp(score - reference) * v.value;
    }
    return (struct hwq_value){value / total, 1e-5 + 1e-4 * fabs(value / total)};
}

static const struct hwq_kind attend = {
    .name = "cache_attend", .run = run_attend, .element = attend_element, .samples = 8};

struct hwq_cache hwq_cache(struct hwq_graph *g, uint64_t id, struct aorta_cache shape, struct hwq_tensor positions) {
    const int64_t rows = shape.layers * shape.batch * shape.window, width = shape.heads * shape.head_dim;
    return (struct hwq_cache){shape, hwq_input(g, id, rows, width, 1.0f, "keys"),
                              hwq_input(g, id + 1, rows, width, 1.0f, "values"), positions};
}

struct hwq_tensor hwq_attend(struct hwq_graph *g, int s, const struct hwq_cache *cache, int64_t layer, int64_t first,
                             int64_t queries, struct hwq_tensor qkv) {
    const struct aorta_cache *c = &cache->shape;
    const struct shape shape = {*c, first, queries};
    const int64_t rows = c->batch * c->window;
    const struct hwq_tensor out = hwq_output(g, queries * c->batch, c->heads * c->head_dim, "context");
    const struct hwq_operation o = {.kind = &attend,
                                    .stream = s,
                                    .in = {qkv, hwq_rows(cache->keys, layer * rows, rows),
                                           hwq_rows(cache->values, layer * rows, rows), cache->positions},
                                    .out = {out}};
    hwq_append(g, &o, &shape, sizeof shape);
    return out;
}

/* ---- new rows ---- */

static aorta_status run_append(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct shape *shape = o->shape;
    return aorta_cache_append(stream, &(struct aorta_cache_append_args){.shape = shape->cache,
                                                                        .qkv = hwq_floats(o->in[0]),
                                                                        .keys = hwq_floats(o->out[0]),
                                                                        .values = hwq_floats(o->out[1]),
                                                                        .positions = hwq_at_device(o->in[1]),
                                                                        .counts = hwq_at_device(o->in[COUNTS])});
}

/* A row of the ring [layers · batch · window] has the last new position that maps to it, or its old contents. */
static struct hwq_value append_element(const struct hwq_element *e) {
    const int64_t row = e->row;
    const struct aorta_cache *cache = &((const struct shape *)e->o->shape)->cache;
    const int64_t slot = row % cache->window, sequence = row / cache->window % cache->batch;
    const int64_t layer = row / cache->window / cache->batch;
    const int64_t position = (int64_t)hwq_at(e, 1, 0, sequence).value;
    const struct hwq_value counted =
        e->o->in[COUNTS].memory ? hwq_at(e, COUNTS, 0, sequence) : hwq_exact((double)cache->fresh);
    if (isinf(counted.allowed)) return counted;
    const int64_t fresh = fmin(counted.value, (double)cache->window);
    for (int64_t i = fresh - 1; i >= 0; i--)
        if ((position + i) % cache->window == slot)
            return hwq_at(e, 0, (layer * cache->fresh + i) * cache->batch + sequence,
                          (e->output + 1) * cache->heads * cache->head_dim + e->column);
    return hwq_at(e, e->output == 0 ? OLD_KEYS : OLD_VALUES, row, e->column);
}

static const struct hwq_kind append = {
    .name = "cache_append", .run = run_append, .element = append_element, .moves = true};

void hwq_cache_append(struct hwq_graph *g, int s, const struct hwq_cache *cache, struct hwq_tensor qkv,
                      struct hwq_tensor counts) {
    const struct shape shape = {.cache = cache->shape};
    const struct hwq_operation o = {.kind = &append,
                                    .stream = s,
                                    .in = {qkv, cache->positions, counts, cache->keys, cache->values},
                                    .out = {cache->keys, cache->values}};
    hwq_append(g, &o, &shape, sizeof shape);
}

static aorta_status run_advance(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_cache_advance(stream, &(struct aorta_cache_advance_args){.batch = o->in[0].columns,
                                                                          .positions = hwq_at_device(o->out[0]),
                                                                          .counts = hwq_at_device(o->in[1]),
                                                                          .count = *(const int64_t *)o->shape});
}

static struct hwq_value advance_element(const struct hwq_element *e) {
    const struct hwq_value more =
        e->o->in[1].memory ? hwq_at(e, 1, 0, e->column) : hwq_exact((double)*(const int64_t *)e->o->shape);
    return (struct hwq_value){hwq_at(e, 0, e->row, e->column).value + more.value, more.allowed};
}

static const struct hwq_kind advance = {.name = "cache_advance", .run = run_advance, .element = advance_element};

void hwq_cache_advance(struct hwq_graph *g, int s, struct hwq_tensor positions, struct hwq_tensor counts,
                       int64_t count) {
    const struct hwq_operation o = {.kind = &advance, .stream = s, .in = {positions, counts}, .out = {positions}};
    hwq_append(g, &o, &count, sizeof count);
}

/* ---- block ---- */

struct hwq_block hwq_block(struct hwq_graph *g, uint64_t id, int64_t width) {
    return (struct hwq_block){.qkv = hwq_layer(g, id, width, 3 * width, false),
                              .out = hwq_layer(g, id + 2, width, width, false),
                              .up = hwq_layer(g, id + 4, width, 4 * width, false),
                              .down = hwq_layer(g, id + 6, 4 * width, width, false),
                              .norm1 = hwq_norm(g, id + 8, width, false),
                              .norm2 = hwq_norm(g, id + 10, width, false)};
}

struct hwq_tensor hwq_block_rest(struct hwq_graph *g, int s, const struct hwq_block *block, struct hwq_tensor context,
                                 struct hwq_tensor x) {
    struct hwq_norm_saved saved1 = {0}, saved2 = {0};
    const struct hwq_tensor out = hwq_linear(g, s, &block->out, context);
    const struct hwq_tensor y1 = hwq_norm_forward(g, s, &block->norm1, out, x, &saved1);
    const struct hwq_tensor inner = hwq_linear(g, s, &block->up, y1);
    const struct hwq_tensor active = hwq_gelu(g, s, inner);
    const struct hwq_tensor mlp = hwq_linear(g, s, &block->down, active);
    return hwq_norm_forward(g, s, &block->norm2, mlp, y1, &saved2);
}

aorta_status hwq_check_heads(const struct aorta_hwq *hwq, int64_t heads, int64_t width) {
    if (width % heads == 0 && width / heads <= 128) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s: %lld heads of a width of %lld; heads must divide it, into 128 at most",
                       hwq->workload->name, (long long)heads, (long long)width);
}
