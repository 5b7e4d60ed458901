/* Lists of ids, pooled rows and their updates, against plain loops in double precision. */
#include "rig.h"

#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

/* Lists [features, batch] of ids below `rows`; some are empty. */
struct lists {
    int64_t features, batch, count, rows;
    int32_t *lengths;
    int64_t *offsets, *ids;
    double *weights;
    /* on the device */
    const int32_t *device_lengths;
    int64_t *device_offsets;
    const int64_t *device_ids;
    const float *device_weights;
};

static void *take(struct rig *rig, int64_t count, size_t each) {
    return rig_values(rig, (int64_t)((size_t)(count + 1) * each / sizeof(double)) + 1);
}

static int64_t below(struct rig *rig, int64_t bound) {
    const double *value = rig_random(rig, AORTA_F32, 1, 1);
    return (int64_t)((*value + 1) / 2 * (double)bound) % bound;
}

static struct lists make_lists(struct rig *rig, int64_t features, int64_t batch, int64_t rows) {
    struct lists l = {.features = features, .batch = batch, .rows = rows};
    const int64_t cells = features * batch;
    l.lengths = take(rig, cells, sizeof *l.lengths);
    l.offsets = take(rig, cells, sizeof *l.offsets);
    double *random = rig_random(rig, AORTA_F32, cells, 1);
    for (int64_t i = 0; i < cells; i++) {
        l.lengths[i] = random[i] < 0 ? 0 : (int32_t)(random[i] * 5);
        l.offsets[i + 1] = l.offsets[i] + l.lengths[i];
    }
    l.count = l.offsets[cells];
    l.ids = take(rig, l.count, sizeof *l.ids);
    random = rig_random(rig, AORTA_F32, l.count + 1, 1);
    for (int64_t i = 0; i < l.count; i++) l.ids[i] = (int64_t)((random[i] + 1) / 2 * (double)rows) % rows;
    l.weights = rig_random(rig, AORTA_F32, l.count + 1, 1);
    l.device_lengths = rig_put_bytes(rig, l.lengths, (size_t)cells * sizeof *l.lengths);
    l.device_offsets = rig_alloc(rig, (size_t)(cells + 1) * sizeof *l.offsets);
    l.device_ids = rig_put_bytes(rig, l.ids, (size_t)(l.count + 1) * sizeof *l.ids);
    l.device_weights = rig_put(rig, AORTA_F32, l.weights, l.count + 1);
    check_ok(aorta_jagged_offsets(rig->stream, cells, l.device_lengths, l.device_offsets));
    return l;
}

static void same_ids(struct rig *rig, const char *what, const int64_t *device, const int64_t *expected, int64_t count) {
    int64_t *got = take(rig, count, sizeof *got);
    rig_get_bytes(rig, got, device, (size_t)count * sizeof *got);
    for (int64_t i = 0; i < count; i++)
        if (got[i] != expected[i])
            fail_msg("%s[%lld] is %lld, not %lld", what, (long long)i, (long long)got[i], (long long)expected[i]);
}

static void test_offsets(void **state) {
    static const int64_t sizes[][2] = {{0, 1}, {1, 1}, {3, 7}, {1, 4096}, {5, 4099}};
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct lists l = make_lists(rig, sizes[i][0], sizes[i][1], 10);
        same_ids(rig, "offsets", l.device_offsets, l.offsets, l.features * l.batch + 1);
    }
}

/* Three parts of two features: all rows, and the two halves of the rows; the third has none of some lists. */
static void test_split(void **state) {
    struct rig *rig = *state;
    const struct lists l = make_lists(rig, 2, 300, 11);
    const struct aorta_jagged_part parts[] = {{0, 11, 1, 1}, {0, 4, 0, 0}, {4, 7, 0, 0}};
    const int64_t cells = 3 * l.batch;
    int64_t *offsets = take(rig, cells, sizeof *offsets), *ids = take(rig, 2 * l.count, sizeof *ids), at = 0;
    double *weights = rig_values(rig, 2 * l.count);
    for (int64_t c = 0; c < cells; c++) {
        const struct aorta_jagged_part *part = &parts[c / l.batch];
        const int64_t list = part->feature * l.batch + c % l.batch;
        offsets[c] = at;
        for (int64_t i = l.offsets[list]; i < l.offsets[list + 1]; i++) {
            if (l.ids[i] < part->first_row || l.ids[i] >= part->first_row + part->rows) continue;
            weights[at] = l.weights[i];
            ids[at++] = l.ids[i] - part->first_row;
        }
    }
    offsets[cells] = at;
    struct aorta_jagged_split_args split = {.batch = l.batch,
                                            .parts = 3,
                                            .part = rig_put_bytes(rig, parts, sizeof parts),
                                            .offsets = l.device_offsets,
                                            .ids = l.device_ids,
                                            .weights = l.device_weights,
                                            .lengths = rig_alloc(rig, (size_t)cells * sizeof(int32_t))};
    int64_t *part_offsets = rig_alloc(rig, (size_t)(cells + 1) * sizeof *part_offsets);
    check_ok(aorta_jagged_count(rig->stream, &split));
    check_ok(aorta_jagged_offsets(rig->stream, cells, split.lengths, part_offsets));
    same_ids(rig, "offsets of parts", part_offsets, offsets, cells + 1);
    split.part_offsets = part_offsets;
    split.part_ids = rig_alloc(rig, (size_t)(at + 1) * sizeof(int64_t));
    split.part_weights = rig_alloc(rig, (size_t)(at + 1) * sizeof(float));
    check_ok(aorta_jagged_split(rig->stream, &split));
    same_ids(rig, "ids of parts", split.part_ids, ids, at);
    rig_close_to("weights of parts", rig_get(rig, AORTA_F32, split.part_weights, at), weights, at, 0, 0);
}

/* ---- pooled rows ---- */

/* Two sources, three slots: the first two share a table. */
enum { SOURCES = 2, SLOTS = 3, BATCH = 9 };

struct pools {
    struct lists lists;
    int64_t rows[2], columns[2], width;
    double *table[2], *state[2];
    struct aorta_pool_slot slot[SLOTS];
    struct aorta_pool_args args;
    struct aorta_pool_order order;
};

static int table_of(int64_t slot) {
    return slot == 2;
}

static void *words(struct rig *rig, int64_t count) {
    return rig_alloc(rig, (size_t)(count + 1) * sizeof(uint32_t));
}

static void make_pools(struct rig *rig, struct pools *p, int64_t first, int64_t second, bool weighted, bool adagrad,
                       bool gradients) {
    *p = (struct pools){.rows = {5, 7}, .columns = {first, second}, .width = 2 * first + second};
    p->lists = make_lists(rig, SOURCES * SLOTS, BATCH, 5);
    float *tables[2], *states[2], *made[2];
    for (int t = 0; t < 2; t++) {
        p->table[t] = rig_random(rig, AORTA_F32, p->rows[t] * p->columns[t], 1);
        p->state[t] = rig_random(rig, AORTA_F32, p->rows[t], 1);
        for (int64_t i = 0; i < p->rows[t]; i++) p->state[t][i] = fabs(p->state[t][i]);
        tables[t] = rig_put(rig, AORTA_F32, p->table[t], p->rows[t] * p->columns[t]);
        states[t] = rig_put(rig, AORTA_F32, p->state[t], p->rows[t]);
        double *zeros = rig_values(rig, p->rows[t] * p->columns[t]);
        made[t] = rig_put(rig, AORTA_F32, zeros, p->rows[t] * p->columns[t]);
    }
    for (int s = 0; s < SLOTS; s++) {
        const int t = table_of(s);
        p->slot[s] = (struct aorta_pool_slot){.table = tables[t],
                                              .state = adagrad ? states[t] : NULL,
                                              .gradient = gradients ? made[t] : NULL,
                                              .rows = p->rows[t],
                                              .columns = p->columns[t],
                                              .row_bytes = aorta_row_bytes(p->columns[t], false),
                                              .base = t ? 300 : 0, /* more than a byte */
                                              .column = s * first};
    }
    const int64_t count = p->lists.count;
    p->order = (struct aorta_pool_order){.capacity = count,
                                         .passes = 2,
                                         .rows = {words(rig, count), words(rig, count)},
                                         .places = {words(rig, count), words(rig, count)},
                                         .cells = words(rig, count)};
    p->args = (struct aorta_pool_args){.shape = {SOURCES, SLOTS, BATCH, p->width, first > second ? first : second},
                                       .slot = rig_put_bytes(rig, p->slot, sizeof p->slot),
                                       .offsets = p->lists.device_offsets,
                                       .ids = p->lists.device_ids,
                                       .weights = weighted ? p->lists.device_weights : NULL,
                                       .pooled = rig_alloc(rig, (size_t)(SOURCES * BATCH * p->width) * sizeof(float)),
                                       .order = &p->order,
                                       .lr = 0.25f,
                                       .eps = 0.01f};
}

/* The pooled columns of a list in [SOURCES, BATCH, width]. */
static int64_t place_of(const struct pools *p, int64_t cell) {
    const int64_t source = cell / (SLOTS * BATCH), slot = cell / BATCH % SLOTS;
    return (source * BATCH + cell % BATCH) * p->width + p->slot[slot].column;
}

static void check_forward(struct rig *rig, struct pools *p) {
    double *expected = rig_values(rig, SOURCES * BATCH * p->width);
    for (int64_t cell = 0; cell < SOURCES * SLOTS * BATCH; cell++) {
        const int t = table_of(cell / BATCH % SLOTS);
        for (int64_t i = p->lists.offsets[cell]; i < p->lists.offsets[cell + 1]; i++)
            for (int64_t c = 0; c < p->columns[t]; c++)
                expected[place_of(p, cell) + c] +=
                    (p->args.weights ? p->lists.weights[i] : 1) * p->table[t][p->lists.ids[i] * p->columns[t] + c];
    }
    check_ok(aorta_pool_forward(rig->stream, &p->args));
    rig_close_to("pooled", rig_get(rig, AORTA_F32, p->args.pooled, SOURCES * BATCH * p->width), expected,
                 SOURCES * BATCH * p->width, 1e-6, 1e-6);
}

/* Returns the gradients of both tables. */
static void sum_gradients(struct rig *rig, struct pools *p, const double *pooled, double *gradient[2]) {
    for (int t = 0; t < 2; t++) gradient[t] = rig_values(rig, p->rows[t] * p->columns[t]);
    for (int64_t cell = 0; cell < SOURCES * SLOTS * BATCH; cell++) {
        const int t = table_of(cell / BATCH % SLOTS);
        for (int64_t i = p->lists.offsets[cell]; i < p->lists.offsets[cell + 1]; i++)
            for (int64_t c = 0; c < p->columns[t]; c++)
                gradient[t][p->lists.ids[i] * p->columns[t] + c] +=
                    (p->args.weights ? p->lists.weights[i] : 1) * pooled[place_of(p, cell) + c];
    }
}

/* The update of rows that have a gradient. */
static void apply(const struct pools *p, int t, const double *gradient) {
    for (int64_t row = 0; row < p->rows[t]; row++) {
        double squares = 0, factor = 0.25;
        for (int64_t c = 0; c < p->columns[t]; c++) squares += pow(gradient[row * p->columns[t] + c], 2);
        if (p->slot[0].state) {
            p->state[t][row] += squares / (double)p->columns[t];
            factor /= sqrt(p->state[t][row]) + (double)0.01f;
        }
        for (int64_t c = 0; c < p->columns[t]; c++)
            p->table[t][row * p->columns[t] + c] -= factor * gradient[row * p->columns[t] + c];
    }
}

static void check_update(struct rig *rig, struct pools *p) {
    const int64_t pooled_count = SOURCES * BATCH * p->width;
    double *pooled = rig_random(rig, AORTA_F32, pooled_count, 1), *gradient[2];
    p->args.pooled = rig_put(rig, AORTA_F32, pooled, pooled_count);
    sum_gradients(rig, p, pooled, gradient);
    check_ok(aorta_pool_sort(rig->stream, &p->args, p->lists.count));
    check_ok(aorta_pool_update(rig->stream, &p->args, p->lists.count));
    for (int t = 0; t < 2; t++) {
        const struct aorta_pool_slot *slot = &p->slot[t ? 2 : 0];
        const int64_t count = p->rows[t] * p->columns[t];
        if (slot->gradient) {
            rig_close_to("gradient", rig_get(rig, AORTA_F32, slot->gradient, count), gradient[t], count, 1e-5, 1e-6);
            const struct aorta_rows_args rows = {p->rows[t],     p->columns[t], slot->table, slot->state,
                                                 slot->gradient, p->args.lr,    p->args.eps};
            check_ok(aorta_rows_update(rig->stream, &rows));
        }
        apply(p, t, gradient[t]);
        rig_close_to("table", rig_get(rig, AORTA_F32, slot->table, count), p->table[t], count, 1e-5, 2e-6);
        if (slot->state)
            rig_close_to("state", rig_get(rig, AORTA_F32, slot->state, p->rows[t]), p->state[t], p->rows[t], 1e-5, 0);
    }
}

static void test_pool(void **state) {
    static const struct {
        int64_t first, second;
        bool weighted, adagrad, gradients;
    } examples[] = {{4, 6, false, true, false},   {1, 33, true, true, false},  {130, 40, true, false, false},
                    {12, 300, false, true, true}, {5, 128, true, true, false}, {8, 7, true, false, true}};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct pools pools;
        rig_reset(state);
        struct rig *rig = *state;
        make_pools(rig, &pools, examples[i].first, examples[i].second, examples[i].weighted, examples[i].adagrad,
                   examples[i].gradients);
        check_forward(rig, &pools);
        check_update(rig, &pools);
    }
}

static void test_wrong_id(void **state) {
    struct rig *rig = *state;
    struct pools pools;
    make_pools(rig, &pools, 4, 4, false, true, false);
    int64_t *ids = pools.lists.ids;
    ids[below(rig, pools.lists.count)] = 9;
    pools.args.ids = rig_put_bytes(rig, ids, (size_t)pools.lists.count * sizeof *ids);
    aorta_status status = aorta_pool_forward(rig->stream, &pools.args);
    if (!status) status = aorta_stream_synchronize(rig->stream);
    check_fails(status, AORTA_DEVICE, "id 9 of slot");
}

/* ---- cached rows ---- */

/* Two tables of 200 and 150 rows in host memory, three sets of places, and a plain list of places to compare with. */
enum {
    CACHED_ROWS = 350,
    FIRST_ROWS = 200,
    SETS = 3,
    PER_SET = 117,
    CACHED_BATCH = 12,
    CACHED_WIDEST = 40,
    PLACES = SETS * AORTA_ROW_WAYS
};

struct plain_place {
    int64_t row, used; /* -1: free */
};

struct cached {
    struct lists lists;
    bool coded;
    int64_t columns[2], row_bytes[2];
    double *values[CACHED_ROWS]; /* the current value of each row */
    unsigned char *table;        /* host memory */
    struct aorta_pool_slot slot[2];
    struct aorta_pool_args args;
    struct aorta_pool_order order[2];
    struct aorta_row_cache cache;
    struct plain_place places[PLACES];
    bool named[2][CACHED_ROWS]; /* by the last two batches */
    uint64_t counts[AORTA_ROW_COUNTS];
};

static int table_of_row(int64_t row) {
    return row >= FIRST_ROWS;
}

/* The nearest code, in double precision. */
static void encode(double *values, int64_t columns) {
    double least = values[0], most = values[0];
    for (int64_t c = 1; c < columns; c++) least = fmin(least, values[c]), most = fmax(most, values[c]);
    const double scale = (most - least) / 255;
    for (int64_t c = 0; c < columns; c++)
        values[c] = scale > 0 ? least + scale * rint((values[c] - least) / scale) : least;
}

static void make_cached(struct rig *rig, struct cached *c) {
    void *pinned;
    for (int t = 0; t < 2; t++) c->row_bytes[t] = aorta_row_bytes(c->columns[t], c->coded);
    const int64_t first_bytes = FIRST_ROWS * c->row_bytes[0];
    const int64_t bytes = first_bytes + (CACHED_ROWS - FIRST_ROWS) * c->row_bytes[1];
    check_ok(aorta_pinned_alloc(rig->device, (size_t)bytes, "tables", &pinned));
    c->table = pinned;
    double *values_of_rows = rig_random(rig, AORTA_F32, CACHED_ROWS * CACHED_WIDEST, 1);
    for (int64_t row = 0; row < CACHED_ROWS; row++) {
        const int t = table_of_row(row);
        float values[CACHED_WIDEST];
        unsigned char *at = c->table + (t ? first_bytes + (row - FIRST_ROWS) * c->row_bytes[1] : row * c->row_bytes[0]);
        c->values[row] = values_of_rows + row * CACHED_WIDEST;
        for (int64_t i = 0; i < c->columns[t]; i++) values[i] = (float)c->values[row][i];
        if (c->coded) {
            aorta_row_encode(values, c->columns[t], at);
            encode(c->values[row], c->columns[t]);
        } else {
            memcpy(at, values, (size_t)c->row_bytes[t]);
        }
    }
    for (int t = 0; t < 2; t++)
        c->slot[t] = (struct aorta_pool_slot){.table = c->table + (t ? first_bytes : 0),
                                              .rows = t ? CACHED_ROWS - FIRST_ROWS : FIRST_ROWS,
                                              .columns = c->columns[t],
                                              .row_bytes = c->row_bytes[t],
                                              .coded = c->coded,
                                              .base = t ? FIRST_ROWS : 0,
                                              .column = t ? c->columns[0] : 0};
    const uint32_t zeros[2 * PLACES] = {0};
    c->cache = (struct aorta_row_cache){
        .sets = SETS, .per_set = PER_SET, .row_bytes = c->row_bytes[c->row_bytes[1] > c->row_bytes[0]]};
    c->cache.rows = rig_put_bytes(rig, zeros, PLACES * sizeof *zeros);
    c->cache.slots = rig_put_bytes(rig, zeros, PLACES * sizeof *zeros);
    c->cache.used = rig_put_bytes(rig, zeros, PLACES * sizeof *zeros);
    c->cache.counts = rig_put_bytes(rig, zeros, sizeof c->counts);
    c->cache.values = rig_alloc(rig, (size_t)(PLACES * c->cache.row_bytes));
    for (int i = 0; i < PLACES; i++) c->places[i] = (struct plain_place){-1, 0};
}

static void take_batch(struct rig *rig, struct cached *c, int64_t batch) {
    const int64_t width = c->columns[0] + c->columns[1];
    c->lists =
        make_lists(rig, 2, CACHED_BATCH * (1 + batch % 3), CACHED_ROWS - FIRST_ROWS); /* ids of the smaller table */
    const int64_t count = c->lists.count;
    c->order[batch % 2] = (struct aorta_pool_order){.capacity = count,
                                                    .passes = 2,
                                                    .rows = {words(rig, count), words(rig, count)},
                                                    .places = {words(rig, count), words(rig, count)},
                                                    .cells = words(rig, count)};
    c->args =
        (struct aorta_pool_args){.shape = {1, 2, c->lists.batch, width, c->columns[c->columns[1] > c->columns[0]]},
                                 .slot = rig_put_bytes(rig, c->slot, sizeof c->slot),
                                 .offsets = c->lists.device_offsets,
                                 .ids = c->lists.device_ids,
                                 .pooled = rig_alloc(rig, (size_t)(c->lists.batch * width) * sizeof(float)),
                                 .order = &c->order[batch % 2],
                                 .lr = 0.25f,
                                 .cache = c->cache};
}

static int64_t row_of(const struct cached *c, int64_t cell, int64_t i) {
    return (cell >= c->lists.batch ? FIRST_ROWS : 0) + c->lists.ids[i];
}

/* The place that the row gets; NULL: none. */
static struct plain_place *plain_bring(struct cached *c, int64_t row, int64_t batch) {
    struct plain_place *set = c->places + row / PER_SET * AORTA_ROW_WAYS, *oldest = set;
    if (c->named[(batch + 1) % 2][row]) return NULL; /* it had no place in the batch before either */
    for (int i = 1; i < AORTA_ROW_WAYS; i++)
        if (set[i].used < oldest->used) oldest = &set[i];
    return oldest->used + 1 < batch ? oldest : NULL;
}

static struct plain_place *plain_find(struct cached *c, int64_t row) {
    struct plain_place *set = c->places + row / PER_SET * AORTA_ROW_WAYS;
    for (int i = 0; i < AORTA_ROW_WAYS; i++)
        if (set[i].row == row) return &set[i];
    return NULL;
}

static void plain_fill(struct cached *c, int64_t batch) {
    bool *named = c->named[batch % 2];
    memset(named, 0, sizeof c->named[0]);
    for (int64_t cell = 0; cell < 2 * c->lists.batch; cell++)
        for (int64_t i = c->lists.offsets[cell]; i < c->lists.offsets[cell + 1]; i++) named[row_of(c, cell, i)] = true;
    for (int64_t row = 0; row < CACHED_ROWS; row++)
        if (named[row] && plain_find(c, row)) plain_find(c, row)->used = batch;
    for (int64_t row = 0; row < CACHED_ROWS; row++) {
        if (!named[row]) continue;
        if (plain_find(c, row)) {
            c->counts[AORTA_ROWS_CACHED]++;
            continue;
        }
        struct plain_place *place = plain_bring(c, row, batch);
        c->counts[place ? AORTA_ROWS_BROUGHT : AORTA_ROWS_WITHOUT_PLACE]++;
        if (!place) continue;
        c->counts[AORTA_ROWS_WRITTEN_BACK] += place->row >= 0;
        *place = (struct plain_place){row, batch};
    }
}

static void check_cached_forward(struct rig *rig, struct cached *c) {
    const int64_t width = c->args.shape.width, count = c->lists.batch * width;
    double *expected = rig_values(rig, count);
    for (int64_t cell = 0; cell < 2 * c->lists.batch; cell++) {
        const int t = cell >= c->lists.batch;
        for (int64_t i = c->lists.offsets[cell]; i < c->lists.offsets[cell + 1]; i++)
            for (int64_t k = 0; k < c->columns[t]; k++)
                expected[cell % c->lists.batch * width + c->slot[t].column + k] += c->values[row_of(c, cell, i)][k];
    }
    check_ok(aorta_pool_forward(rig->stream, &c->args));
    /* a value near the middle of two codes may get either: a 255th of some 3 */
    rig_close_to("pooled", rig_get(rig, AORTA_F32, c->args.pooled, count), expected, count, 1e-5,
                 c->coded ? 0.03 : 1e-5);
}

static void update_cached(struct rig *rig, struct cached *c, int64_t batch) {
    const int64_t width = c->args.shape.width, count = c->lists.batch * width;
    double *gradient = rig_random(rig, AORTA_F32, count, 0.5);
    c->args.pooled = rig_put(rig, AORTA_F32, gradient, count);
    check_ok(aorta_pool_update(rig->stream, &c->args, c->lists.count));
    for (int64_t cell = 0; cell < 2 * c->lists.batch; cell++) {
        const int t = cell >= c->lists.batch;
        for (int64_t i = c->lists.offsets[cell]; i < c->lists.offsets[cell + 1]; i++)
            for (int64_t k = 0; k < c->columns[t]; k++)
                c->values[row_of(c, cell, i)][k] -=
                    0.25 * gradient[cell % c->lists.batch * width + c->slot[t].column + k];
    }
    for (int64_t row = 0; row < CACHED_ROWS && c->coded; row++)
        if (c->named[batch % 2][row]) encode(c->values[row], c->columns[table_of_row(row)]);
}

/* Lookups see what updates wrote, wherever the row is; and the rows that the cache has are those of the plain list. */
static void test_cache(void **state) {
    static const int64_t columns[][2] = {{6, 33}, {4, 5}, {40, 1}};
    enum { BATCHES = 9 };
    for (int example = 0; example < 6; example++) {
        struct cached c = {.coded = example % 2, .columns = {columns[example / 2][0], columns[example / 2][1]}};
        rig_reset(state);
        struct rig *rig = *state;
        make_cached(rig, &c);
        for (int64_t batch = 2; batch < 2 + BATCHES; batch++) {
            take_batch(rig, &c, batch);
            plain_fill(&c, batch);
            check_ok(aorta_pool_sort(rig->stream, &c.args, c.lists.count));
            check_ok(aorta_pool_cache(rig->stream, &c.args, c.lists.count, &c.order[(batch + 1) % 2],
                                      batch == 2 ? 0 : c.order[(batch + 1) % 2].capacity, batch));
            check_cached_forward(rig, &c);
            update_cached(rig, &c, batch);
        }
        uint64_t counts[AORTA_ROW_COUNTS];
        rig_get_bytes(rig, counts, c.cache.counts, sizeof counts);
        for (int i = 0; i < AORTA_ROW_COUNTS; i++)
            if (counts[i] != c.counts[i] || !counts[i])
                fail_msg("count %d is %llu, expected %llu", i, (unsigned long long)counts[i],
                         (unsigned long long)c.counts[i]);
        aorta_pinned_free(rig->device, c.table);
    }
}

/* ---- columns ---- */

/* A row of 10 columns: [0, 3) from one piece, [3, 10) the sum of two. */
static void test_columns(void **state) {
    enum { ROWS = 13, WIDTH = 10 };
    struct rig *rig = *state;
    const struct aorta_columns_block blocks[] = {{0, 3, 0, 1}, {3, 7, 1, 2}};
    const struct aorta_columns_piece pieces[] = {{0, 3, 0}, {3, 8, 1}, {11, 7, 0}};
    const int64_t count = ROWS * (3 + 8 + 7);
    double *buffer = rig_random(rig, AORTA_F32, count, 1), *row = rig_values(rig, ROWS * WIDTH);
    for (int b = 0; b < ROWS; b++) {
        for (int c = 0; c < 3; c++) row[b * WIDTH + c] = buffer[b * 3 + c];
        for (int c = 0; c < 7; c++)
            row[b * WIDTH + 3 + c] = buffer[3 * ROWS + b * 8 + 1 + c] + buffer[11 * ROWS + b * 7 + c];
    }
    const struct aorta_columns_args args = {.shape = {ROWS, WIDTH, 2},
                                            .block = rig_put_bytes(rig, blocks, sizeof blocks),
                                            .piece = rig_put_bytes(rig, pieces, sizeof pieces),
                                            .row = rig_alloc(rig, ROWS * WIDTH * sizeof(float)),
                                            .buffer = rig_put(rig, AORTA_F32, buffer, count)};
    check_ok(aorta_columns_gather(rig->stream, &args));
    rig_close_to("gathered", rig_get(rig, AORTA_F32, args.row, ROWS * WIDTH), row, ROWS * WIDTH, 1e-6, 1e-6);
    for (int b = 0; b < ROWS; b++) {
        for (int c = 0; c < 3; c++) buffer[b * 3 + c] = row[b * WIDTH + c];
        for (int c = 0; c < 7; c++)
            buffer[3 * ROWS + b * 8 + 1 + c] = buffer[11 * ROWS + b * 7 + c] = row[b * WIDTH + 3 + c];
    }
    check_ok(aorta_columns_scatter(rig->stream, &args));
    rig_close_to("scattered", rig_get(rig, AORTA_F32, args.buffer, count), buffer, count, 1e-6, 1e-6);
}

static void test_gate(void **state) {
    enum { COUNT = 1000 };
    struct rig *rig = *state;
    double *z = rig_random(rig, AORTA_F32, COUNT, 1), *d = rig_random(rig, AORTA_F32, COUNT, 1);
    double *dy = rig_random(rig, AORTA_F32, COUNT, 1), *expected = rig_values(rig, 3 * COUNT);
    for (int i = 0; i < COUNT; i++) {
        expected[i] = z[i] * (1 + d[i]);
        expected[COUNT + i] = dy[i] * (1 + d[i]);
        expected[2 * COUNT + i] = dy[i] * z[i];
    }
    const float *z_device = rig_put(rig, AORTA_F32, z, COUNT), *d_device = rig_put(rig, AORTA_F32, d, COUNT);
    float *out = rig_alloc(rig, 3 * COUNT * sizeof(float));
    check_ok(aorta_gate_forward(rig->stream,
                                &(struct aorta_gate_args){.count = COUNT, .z = z_device, .d = d_device, .y = out}));
    check_ok(aorta_gate_backward(rig->stream, &(struct aorta_gate_args){.count = COUNT,
                                                                        .z = z_device,
                                                                        .d = d_device,
                                                                        .dy = rig_put(rig, AORTA_F32, dy, COUNT),
                                                                        .dz = out + COUNT,
                                                                        .dd = out + 2 * COUNT}));
    rig_close_to("gate", rig_get(rig, AORTA_F32, out, 3 * COUNT), expected, 3 * COUNT, 1e-6, 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(test_offsets),  rig_test(test_split), rig_test(test_pool),
                                       rig_test(test_wrong_id), rig_test(test_cache), rig_test(test_columns),
                                       rig_test(test_gate)};
    return rig_run_tests("jagged", tests);
}
