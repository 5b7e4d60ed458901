#include "sparse/exchange.h"

#include "ops/jagged.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A batch in flight. */
struct flight {
    int64_t samples;
    int64_t *offsets;                /* of the lists of this rank's samples */
    int32_t *sent_lengths, *lengths; /* [all parts, samples]; [owners, own parts, samples] */
    int64_t *sent_offsets, *own_offsets;
    int64_t *sent_ids, *ids;
    float *sent_weights, *weights;
    struct aorta_pool_order order;
    int64_t *sent_bounds, *bounds; /* [owners + 1]: first id of each rank; pinned */
    /* [6, owners]: lengths sent and received, ids sent and received, elements of pooled rows sent and received */
    size_t *counts;
    struct aorta_event *counted, *arrived;
    bool sorted; /* the ids are, or will be, before the step that updates with them; with a cache, its rows are there */
};

struct aorta_sparse_exchange {
    struct aorta_sparse_exchange_settings s;
    const struct aorta_sparse_group *group;
    struct aorta_sparse_plan plan;
    struct aorta_comm *comm, *id_comm; /* NULL: this rank owns all that it needs */
    int me, owners, parts;             /* this rank among the owners; its parts */
    const struct aorta_sparse_part *own;
    int64_t width, widest; /* columns that it serves; of the widest part */
    const char *tag;
    /* device memory */
    struct aorta_jagged_part *split;
    struct aorta_pool_slot *slots;
    struct aorta_columns_block *blocks;
    struct aorta_columns_piece *pieces;
    unsigned char *table;
    float *state, *gradient;
    int64_t rows, elements, table_bytes; /* of all tables here */
    struct aorta_row_cache cache;        /* sets 0: none */
    int64_t cached_batches;              /* whose rows were brought into it */
    struct flight *cached;               /* the last of them; NULL: none */
    float *pooled, *received;            /* rows as looked up here; as they come from the owners */
    struct aorta_pool_slot *host_slots;
    int block_count;
    int64_t most_sent, most_ids;
    struct aorta_event *looked_up, *collected, *ready, *returned;
    struct flight flights[AORTA_SPARSE_SLOTS];
};

/* ---- memory ---- */

static aorta_status take(struct aorta_sparse_exchange *x, size_t count, size_t each, const char *what, void *place) {
    void *memory;
    AORTA_TRY(aorta_device_alloc(x->s.context->device, (count ? count : 1) * each, what, &memory));
    memcpy(place, &memory, sizeof memory);
    return NULL;
}

static struct aorta_stream *compute_of(const struct aorta_sparse_exchange *x) {
    return aorta_train_compute(x->s.context);
}

static bool is_coded(const struct aorta_sparse_exchange *x) {
    return x->s.options->run.kernel == AORTA_KERNEL_QUANT_UVM;
}

static bool is_cached(const struct aorta_sparse_exchange *x) {
    return x->s.options->run.kernel == AORTA_KERNEL_FUSED_UVM_CACHING || is_coded(x);
}

static bool in_host_memory(const struct aorta_sparse_exchange *x) {
    return x->s.options->run.kernel == AORTA_KERNEL_FUSED_UVM || is_cached(x);
}

/* In pinned host memory kernels of a GPU read and write rows over the link. */
static aorta_status take_rows_of_tables(struct aorta_sparse_exchange *x) {
    const size_t bytes = x->table_bytes ? (size_t)x->table_bytes : 1;
    void *memory;
    if (!in_host_memory(x)) return take(x, bytes, 1, "embedding tables", &x->table);
    AORTA_TRY(aorta_pinned_alloc(x->s.context->device, bytes, "embedding tables", &memory));
    x->table = memory;
    return NULL;
}

static aorta_status take_zeros(struct aorta_sparse_exchange *x, size_t count, const char *what, uint32_t **place) {
    AORTA_TRY(take(x, count, sizeof **place, what, place));
    return aorta_fill_bytes(compute_of(x), *place, 0, count * sizeof **place);
}

static aorta_status no_memory(void) {
    return AORTA_ERROR(AORTA_MEMORY, "the tables of an exchange did not fit in host memory");
}

/* Host memory to new device memory. */
static aorta_status send_table(struct aorta_sparse_exchange *x, const void *from, size_t count, size_t each,
                               const char *what, void *place) {
    void *memory;
    AORTA_TRY(take(x, count, each, what, place));
    memcpy(&memory, place, sizeof memory);
    AORTA_TRY(aorta_copy(compute_of(x), memory, from, count * each));
    return aorta_stream_synchronize(compute_of(x));
}

/* ---- tables ---- */

static bool keeps_gradients(const struct aorta_sparse_exchange *x) {
    return x->s.options->run.kernel == AORTA_KERNEL_DENSE || x->s.options->run.sharding == AORTA_DATA_PARALLEL;
}

/* Features that share a table share its part. */
static int slot_of_table(const struct aorta_sparse_exchange *x, int part) {
    const int table = x->group->features[x->own[part].feature].table;
    for (int p = 0; p < part; p++)
        if (x->group->features[x->own[p].feature].table == table) return p;
    return part;
}

static int64_t aligned(int64_t bytes) {
    return (bytes + 15) / 16 * 16;
}

static aorta_status place_tables(struct aorta_sparse_exchange *x) {
    x->host_slots = calloc((size_t)x->parts + 1, sizeof *x->host_slots);
    if (!x->host_slots) return no_memory();
    int64_t column = 0;
    for (int p = 0; p < x->parts; p++) {
        const struct aorta_sparse_part *part = &x->own[p];
        const int first = slot_of_table(x, p);
        struct aorta_pool_slot *slot = &x->host_slots[p];
        *slot = (struct aorta_pool_slot){.rows = part->rows,
                                         .columns = part->columns,
                                         .row_bytes = aorta_row_bytes(part->columns, is_coded(x)),
                                         .coded = is_coded(x),
                                         .column = column};
        column += part->columns;
        if (first != p) {
            slot->base = x->host_slots[first].base;
            continue;
        }
        slot->base = x->rows;
        x->rows += part->rows;
        if (part->columns > x->widest) x->widest = part->columns;
        x->elements += part->rows * ((part->columns + 3) / 4 * 4);
        x->table_bytes += aligned(part->rows * slot->row_bytes);
        if (slot->row_bytes > x->cache.row_bytes) x->cache.row_bytes = slot->row_bytes;
    }
    if (x->rows > UINT32_MAX)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%lld rows on one rank are more than 2^32; use more ranks",
                           (long long)x->rows);
    return NULL;
}

/* Places for cache_load_factor of the rows. */
static aorta_status take_cache(struct aorta_sparse_exchange *x) {
    struct aorta_row_cache *c = &x->cache;
    const double places = (double)x->rows * x->s.options->run.cache_load_factor;
    if (!x->rows) return NULL;
    c->sets = (int64_t)ceil(places / AORTA_ROW_WAYS);
    c->per_set = (x->rows + c->sets - 1) / c->sets;
    const size_t count = (size_t)(c->sets * AORTA_ROW_WAYS);
    AORTA_TRY(take(x, count, (size_t)c->row_bytes, "cached rows of tables", &c->values));
    AORTA_TRY(take_zeros(x, count, "cached rows of tables", &c->rows));
    AORTA_TRY(take_zeros(x, count, "cached rows of tables", &c->slots));
    AORTA_TRY(take_zeros(x, count, "cached rows of tables", &c->used));
    AORTA_TRY(take(x, AORTA_ROW_COUNTS, sizeof *c->counts, "counts of cached rows", &c->counts));
    return aorta_fill_bytes(compute_of(x), c->counts, 0, AORTA_ROW_COUNTS * sizeof *c->counts);
}

static aorta_status take_tables(struct aorta_sparse_exchange *x) {
    AORTA_TRY(place_tables(x));
    AORTA_TRY(take_rows_of_tables(x));
    if (is_cached(x)) AORTA_TRY(take_cache(x));
    if (x->s.options->run.optimizer == AORTA_SPARSE_ROWWISE_ADAGRAD) {
        AORTA_TRY(take(x, (size_t)x->rows, sizeof(float), "sums of squares of table rows", &x->state));
        AORTA_TRY(aorta_fill(compute_of(x), x->state, AORTA_F32, x->rows, 0));
    }
    if (keeps_gradients(x))
        AORTA_TRY(take(x, (size_t)x->elements, sizeof(float), "gradients of embedding tables", &x->gradient));
    int64_t element = 0, byte = 0;
    for (int p = 0; p < x->parts; p++) {
        const int first = slot_of_table(x, p);
        struct aorta_pool_slot *slot = &x->host_slots[p], *owner = &x->host_slots[first];
        if (first == p) {
            slot->table = x->table + byte;
            slot->gradient = x->gradient ? x->gradient + element : NULL;
            slot->state = x->state ? x->state + slot->base : NULL;
            element += slot->rows * ((slot->columns + 3) / 4 * 4);
            byte += aligned(slot->rows * slot->row_bytes);
        } else {
            slot->table = owner->table, slot->gradient = owner->gradient, slot->state = owner->state;
        }
    }
    return send_table(x, x->host_slots, (size_t)x->parts, sizeof *x->slots, "places of tables", &x->slots);
}

/* Rows [first, first + count) of a part, uniform in the table's bounds. */
static void make_rows(const struct aorta_sparse_exchange *x, const struct aorta_sparse_part *part, int64_t first,
                      int64_t count, float *values) {
    const struct aorta_sparse_table *table = &x->group->tables[x->group->features[part->feature].table];
    const struct aorta_random random = {.seed = (uint64_t)x->s.options->train.training.seed,
                                        .domain = AORTA_RANDOM_PARAMETERS,
                                        .stream = 2 * (uint64_t)table->number};
    const int64_t row = part->first_row + first;
    if (part->columns == table->columns) {
        aorta_random_uniform(&random, (uint64_t)(row * table->columns), (size_t)(count * part->columns), table->low,
                             table->high, values);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        aorta_random_uniform(&random, (uint64_t)((row + i) * table->columns + part->first_column),
                             (size_t)part->columns, table->low, table->high, values + i * part->columns);
}

enum { PIECE = 1 << 22 }; /* values made on the host at a time */

/* Rows as they lie in the table; `rows` has memory for them. */
static const void *rows_as_stored(const struct aorta_pool_slot *slot, const float *values, int64_t count,
                                  unsigned char *rows) {
    if (!slot->coded) return values;
    for (int64_t i = 0; i < count; i++)
        aorta_row_encode(values + i * slot->columns, slot->columns, rows + i * slot->row_bytes);
    return rows;
}

static aorta_status start_part(struct aorta_sparse_exchange *x, int number, float *values, unsigned char *rows) {
    const struct aorta_sparse_part *part = &x->own[number];
    const struct aorta_pool_slot *slot = &x->host_slots[number];
    const int64_t each = PIECE / part->columns;
    for (int64_t at = 0; at < part->rows; at += each) {
        const int64_t count = part->rows - at < each ? part->rows - at : each;
        make_rows(x, part, at, count, values);
        AORTA_TRY(aorta_copy(compute_of(x), (char *)slot->table + at * slot->row_bytes,
                             rows_as_stored(slot, values, count, rows), (size_t)(count * slot->row_bytes)));
        AORTA_TRY(aorta_stream_synchronize(compute_of(x)));
    }
    return NULL;
}

static aorta_status start_tables(struct aorta_sparse_exchange *x) {
    float *values = malloc(PIECE * sizeof *values);
    unsigned char *rows = malloc((size_t)PIECE * 12); /* rows of one column take most */
    aorta_status status = values && rows ? NULL : no_memory();
    for (int p = 0; p < x->parts && !status; p++)
        if (slot_of_table(x, p) == p) status = start_part(x, p, values, rows);
    free(values);
    free(rows);
    return status;
}

/* ---- the lists that kernels read ---- */

static aorta_status make_split(struct aorta_sparse_exchange *x) {
    struct aorta_jagged_part *split = calloc((size_t)x->plan.part_count + 1, sizeof *split);
    if (!split) return no_memory();
    for (int p = 0; p < x->plan.part_count; p++) {
        const struct aorta_sparse_part *part = &x->plan.parts[p];
        const struct aorta_sparse_table *table = &x->group->tables[x->group->features[part->feature].table];
        split[p] = (struct aorta_jagged_part){part->first_row, part->rows, part->feature, part->rows == table->rows};
    }
    aorta_status status =
        send_table(x, split, (size_t)x->plan.part_count, sizeof *split, "parts of features", &x->split);
    free(split);
    return status;
}

/* Pieces of one block are those of the same columns, by owner. */
struct block_maker {
    struct aorta_columns_block *blocks;
    struct aorta_columns_piece *pieces;
    int64_t *before, *column; /* by part: columns of owners before; place in the owner's row */
    int block_count, piece_count;
};

static void place_parts(const struct aorta_sparse_plan *plan, struct block_maker *m) {
    int64_t before = 0;
    for (int o = 0; o < plan->owners; o++) {
        int64_t column = 0;
        for (int p = plan->first[o]; p < plan->first[o + 1]; p++) {
            m->before[p] = before, m->column[p] = column;
            column += plan->parts[p].columns;
        }
        before += plan->widths[o];
    }
}

static void add_block(const struct aorta_sparse_exchange *x, struct block_maker *m, int first) {
    const struct aorta_sparse_part *part = &x->plan.parts[first];
    struct aorta_columns_block *block = &m->blocks[m->block_count++];
    *block = (struct aorta_columns_block){x->group->features[part->feature].column + part->first_column, part->columns,
                                          m->piece_count, 0};
    for (int p = first; p < x->plan.part_count; p++) {
        const struct aorta_sparse_part *other = &x->plan.parts[p];
        if (other->feature != part->feature || other->first_column != part->first_column) continue;
        m->pieces[m->piece_count++] =
            (struct aorta_columns_piece){m->before[p], x->plan.widths[other->owner], m->column[p]};
        block->pieces++;
    }
}

/* Whether an owner before serves the same columns: its block has the part. */
static bool is_covered(const struct aorta_sparse_plan *plan, int part) {
    const struct aorta_sparse_part *own = &plan->parts[part];
    for (int p = 0; p < plan->first[own->owner]; p++)
        if (plan->parts[p].feature == own->feature && plan->parts[p].first_column == own->first_column) return true;
    return false;
}

static aorta_status make_blocks(struct aorta_sparse_exchange *x) {
    const size_t parts = (size_t)x->plan.part_count + 1;
    struct block_maker m = {.blocks = calloc(parts, sizeof *m.blocks),
                            .pieces = calloc(parts, sizeof *m.pieces),
                            .before = calloc(parts, sizeof *m.before),
                            .column = calloc(parts, sizeof *m.column)};
    aorta_status status = m.blocks && m.pieces && m.before && m.column ? NULL : no_memory();
    if (!status) {
        place_parts(&x->plan, &m);
        for (int p = 0; p < x->plan.part_count; p++)
            if (!is_covered(&x->plan, p)) add_block(x, &m, p);
        x->block_count = m.block_count;
        status = send_table(x, m.blocks, (size_t)m.block_count, sizeof *m.blocks, "columns", &x->blocks);
    }
    if (!status) status = send_table(x, m.pieces, (size_t)m.piece_count, sizeof *m.pieces, "columns", &x->pieces);
    free(m.blocks), free(m.pieces), free(m.before), free(m.column);
    return status;
}

/* ---- batches in flight ---- */

static aorta_status take_flight(struct aorta_sparse_exchange *x, struct flight *f) {
    struct aorta_device *device = x->s.context->device;
    const size_t samples = (size_t)x->s.samples, owners = (size_t)x->owners;
    const size_t lists = (size_t)x->group->feature_count * samples, sent = (size_t)x->plan.part_count * samples;
    const size_t own = owners * (size_t)x->parts * samples;
    void *pinned;
    if (own > UINT32_MAX)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%zu lists of ids on one rank are more than 2^32; use smaller batches",
                           own);
    AORTA_TRY(take(x, lists + 1, sizeof *f->offsets, "offsets of lists", &f->offsets));
    AORTA_TRY(take(x, sent, sizeof *f->sent_lengths, "lengths of lists to send", &f->sent_lengths));
    AORTA_TRY(take(x, sent + 1, sizeof *f->sent_offsets, "offsets of lists to send", &f->sent_offsets));
    AORTA_TRY(take(x, own, sizeof *f->lengths, "lengths of lists", &f->lengths));
    AORTA_TRY(take(x, own + 1, sizeof *f->own_offsets, "offsets of lists", &f->own_offsets));
    AORTA_TRY(aorta_pinned_alloc(device, (owners + 1) * sizeof *f->bounds, "numbers of ids", &pinned));
    f->bounds = pinned;
    AORTA_TRY(aorta_pinned_alloc(device, (owners + 1) * sizeof *f->bounds, "numbers of ids", &pinned));
    f->sent_bounds = pinned;
    f->counts = calloc(6 * owners, sizeof *f->counts);
    if (!f->counts) return no_memory();
    AORTA_TRY(aorta_event_create_untimed(device, &f->counted));
    return aorta_event_create_untimed(device, &f->arrived);
}

aorta_status aorta_sparse_exchange_reserve(struct aorta_sparse_exchange *x) {
    const size_t sent = (size_t)x->most_sent, ids = (size_t)x->most_ids;
    if (ids > UINT32_MAX)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%zu ids on one rank are more than 2^32; use smaller batches", ids);
    for (int i = 0; i < AORTA_SPARSE_SLOTS; i++) {
        struct flight *f = &x->flights[i];
        AORTA_TRY(take(x, sent, sizeof *f->sent_ids, "ids to send", &f->sent_ids));
        AORTA_TRY(take(x, ids, sizeof *f->ids, "ids", &f->ids));
        for (int half = 0; half < 2; half++) {
            AORTA_TRY(take(x, ids, sizeof *f->order.rows[half], "sorted rows", &f->order.rows[half]));
            AORTA_TRY(take(x, ids, sizeof *f->order.places[half], "sorted places", &f->order.places[half]));
        }
        AORTA_TRY(take(x, ids, sizeof *f->order.cells, "lists of ids", &f->order.cells));
        f->order.capacity = (int64_t)ids;
        while (f->order.passes < 4 && x->rows >> (8 * f->order.passes)) f->order.passes++;
        if (!x->group->weighted) continue;
        AORTA_TRY(take(x, sent, sizeof *f->sent_weights, "weights to send", &f->sent_weights));
        AORTA_TRY(take(x, ids, sizeof *f->weights, "weights", &f->weights));
    }
    return NULL;
}

static void free_flight(struct aorta_sparse_exchange *x, struct flight *f) {
    struct aorta_device *device = x->s.context->device;
    void *memory[] = {f->offsets,         f->sent_lengths,  f->lengths,       f->sent_offsets,
                      f->own_offsets,     f->sent_ids,      f->ids,           f->sent_weights,
                      f->weights,         f->order.rows[0], f->order.rows[1], f->order.places[0],
                      f->order.places[1], f->order.cells};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) aorta_device_free(device, memory[i]);
    aorta_pinned_free(device, f->bounds);
    aorta_pinned_free(device, f->sent_bounds);
    free(f->counts);
    if (f->counted) aorta_event_destroy(f->counted);
    if (f->arrived) aorta_event_destroy(f->arrived);
}

/* ---- all ---- */

static aorta_status take_rows(struct aorta_sparse_exchange *x) {
    int64_t columns = 0;
    for (int o = 0; o < x->owners; o++) columns += x->plan.widths[o];
    AORTA_TRY(take(x, (size_t)(x->owners * x->s.samples * x->width), sizeof(float), "pooled rows", &x->pooled));
    return take(x, (size_t)(x->s.samples * columns), sizeof(float), "received pooled rows", &x->received);
}

static aorta_status build(struct aorta_sparse_exchange *x) {
    struct aorta_device *device = x->s.context->device;
    const struct aorta_sparse_run *run = &x->s.options->run;
    const struct aorta_ranks *ranks = &x->s.context->ranks;
    const int local = run->local_world_size ? (int)run->local_world_size : ranks->local_world_size;
    AORTA_TRY(aorta_sparse_plan_make(x->group, run->sharding, ranks->world_size, local, &x->plan));
    const bool alone = run->sharding == AORTA_DATA_PARALLEL;
    x->comm = alone ? NULL : x->s.context->world, x->id_comm = alone ? NULL : x->s.id;
    x->owners = x->plan.owners, x->me = alone ? 0 : ranks->rank;
    x->own = x->plan.parts + x->plan.first[x->me];
    x->parts = x->plan.first[x->me + 1] - x->plan.first[x->me];
    x->width = x->plan.widths[x->me];
    AORTA_TRY(take_tables(x));
    AORTA_TRY(start_tables(x));
    AORTA_TRY(make_split(x));
    AORTA_TRY(make_blocks(x));
    AORTA_TRY(take_rows(x));
    for (int i = 0; i < AORTA_SPARSE_SLOTS; i++) AORTA_TRY(take_flight(x, &x->flights[i]));
    AORTA_TRY(aorta_event_create_untimed(device, &x->looked_up));
    AORTA_TRY(aorta_event_create_untimed(device, &x->collected));
    AORTA_TRY(aorta_event_create_untimed(device, &x->ready));
    return aorta_event_create_untimed(device, &x->returned);
}

aorta_status aorta_sparse_exchange_create(const struct aorta_sparse_exchange_settings *settings,
                                          struct aorta_sparse_exchange **out) {
    struct aorta_sparse_exchange *x = calloc(1, sizeof *x);
    *out = x;
    if (!x) return no_memory();
    x->s = *settings;
    x->group = &settings->tables->groups[settings->group];
    x->tag = x->group->weighted ? "weighted" : "unweighted";
    return build(x);
}

void aorta_sparse_exchange_destroy(struct aorta_sparse_exchange *x) {
    if (!x) return;
    struct aorta_device *device = x->s.context->device;
    for (int i = 0; i < AORTA_SPARSE_SLOTS; i++) free_flight(x, &x->flights[i]);
    void *memory[] = {x->split,        x->slots,
                      x->blocks,       x->pieces,
                      x->state,        x->gradient,
                      x->pooled,       x->received,
                      x->cache.values, x->cache.rows,
                      x->cache.slots,  x->cache.used,
                      x->cache.counts, in_host_memory(x) ? NULL : x->table};
    if (in_host_memory(x)) aorta_pinned_free(device, x->table);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) aorta_device_free(device, memory[i]);
    struct aorta_event *events[] = {x->looked_up, x->collected, x->ready, x->returned};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i]) aorta_event_destroy(events[i]);
    aorta_sparse_plan_free(&x->plan);
    free(x->host_slots);
    free(x);
}

/* ---- ranges and collectives ---- */

static aorta_status begin(const struct aorta_sparse_exchange *x, enum aorta_role role, const char *function,
                          int64_t bytes, int *range) {
    struct aorta_range_info info = {.tag = x->tag,
                                    .function = function,
                                    .role = role,
                                    .kind = AORTA_RANGE_COMPUTE,
                                    .layer = -1,
                                    .bytes = bytes,
                                    .dtype = AORTA_F32};
    return aorta_range_begin(x->s.context->recorder, x->s.context->streams[role], &info, range);
}

static aorta_status finish(const struct aorta_sparse_exchange *x, enum aorta_role role, int range) {
    return aorta_range_end(x->s.context->recorder, x->s.context->streams[role], range);
}

static enum aorta_role id_role(const struct aorta_sparse_exchange *x) {
    return x->s.context->flows[AORTA_FLOW_REDUCE_SCATTER];
}

/* What an exchange moves. */
struct parcel {
    struct aorta_comm *comm;
    enum aorta_flow flow;
    const char *tag;
    const void *send;
    void *receive;
    const size_t *sent, *received;
    enum aorta_dtype dtype;
};

/* The only owner copies what it would send itself. */
static aorta_status deliver(const struct aorta_sparse_exchange *x, const struct parcel *p) {
    if (!p->comm) {
        const size_t bytes = p->sent[0] * aorta_dtype_size(p->dtype);
        return bytes ? aorta_copy(aorta_train_stream(x->s.context, p->flow), p->receive, p->send, bytes) : NULL;
    }
    const struct aorta_train_collective collective = {.kind = AORTA_ALL_TO_ALL,
                                                      .flow = p->flow,
                                                      .comm = p->comm,
                                                      .tag = p->tag,
                                                      .layer = -1,
                                                      .send = p->send,
                                                      .receive = p->receive,
                                                      .send_counts = p->sent,
                                                      .receive_counts = p->received,
                                                      .dtype = p->dtype};
    return aorta_train_collect(x->s.context, &collective);
}

/* ---- ids ---- */

static size_t *counts_of(const struct aorta_sparse_exchange *x, struct flight *f, int which) {
    return f->counts + which * x->owners;
}

static void count_lists(struct aorta_sparse_exchange *x, struct flight *f) {
    size_t *sent = counts_of(x, f, 0), *received = counts_of(x, f, 1);
    for (int o = 0; o < x->owners; o++) {
        sent[o] = (size_t)(x->plan.first[o + 1] - x->plan.first[o]) * (size_t)f->samples;
        received[o] = (size_t)x->parts * (size_t)f->samples;
    }
}

/* The first id of each rank, to the host. */
static aorta_status report_bounds(struct aorta_sparse_exchange *x, struct flight *f) {
    struct aorta_stream *stream = aorta_train_stream(x->s.context, AORTA_FLOW_REDUCE_SCATTER);
    for (int o = 0; o <= x->owners; o++) {
        AORTA_TRY(aorta_copy(stream, &f->sent_bounds[o], f->sent_offsets + x->plan.first[o] * f->samples,
                             sizeof *f->sent_bounds));
        AORTA_TRY(
            aorta_copy(stream, &f->bounds[o], f->own_offsets + (int64_t)o * x->parts * f->samples, sizeof *f->bounds));
    }
    return NULL;
}

static struct aorta_jagged_split_args split_of(const struct aorta_sparse_exchange *x, const struct flight *f,
                                               const struct aorta_sparse_input *input) {
    return (struct aorta_jagged_split_args){.batch = f->samples,
                                            .parts = x->plan.part_count,
                                            .part = x->split,
                                            .offsets = f->offsets,
                                            .ids = input->ids,
                                            .weights = x->group->weighted ? input->weights : NULL,
                                            .lengths = f->sent_lengths,
                                            .part_offsets = f->sent_offsets,
                                            .part_ids = f->sent_ids,
                                            .part_weights = f->sent_weights};
}

aorta_status aorta_sparse_exchange_count(struct aorta_sparse_exchange *x, int slot,
                                         const struct aorta_sparse_input *input) {
    struct flight *f = &x->flights[slot];
    struct aorta_stream *stream = aorta_train_stream(x->s.context, AORTA_FLOW_REDUCE_SCATTER);
    int range;
    f->samples = input->samples, f->sorted = false;
    count_lists(x, f);
    const struct aorta_jagged_split_args split = split_of(x, f, input);
    AORTA_TRY(begin(x, id_role(x), "count_ids", 0, &range));
    AORTA_TRY(aorta_jagged_offsets(stream, x->group->feature_count * f->samples, input->lengths, f->offsets));
    AORTA_TRY(aorta_jagged_count(stream, &split));
    AORTA_TRY(aorta_jagged_offsets(stream, x->plan.part_count * f->samples, f->sent_lengths, f->sent_offsets));
    AORTA_TRY(finish(x, id_role(x), range));
    const struct parcel lengths = {x->id_comm, AORTA_FLOW_REDUCE_SCATTER, "lengths",          f->sent_lengths,
                                   f->lengths, counts_of(x, f, 0),        counts_of(x, f, 1), AORTA_I32};
    AORTA_TRY(deliver(x, &lengths));
    AORTA_TRY(aorta_jagged_offsets(stream, (int64_t)x->owners * x->parts * f->samples, f->lengths, f->own_offsets));
    AORTA_TRY(report_bounds(x, f));
    return aorta_event_record(f->counted, stream);
}

aorta_status aorta_sparse_exchange_await(struct aorta_sparse_exchange *x, int slot) {
    struct flight *f = &x->flights[slot];
    size_t *sent = counts_of(x, f, 2), *received = counts_of(x, f, 3);
    AORTA_TRY(aorta_event_synchronize(f->counted));
    for (int o = 0; o < x->owners; o++) {
        sent[o] = (size_t)(f->sent_bounds[o + 1] - f->sent_bounds[o]);
        received[o] = (size_t)(f->bounds[o + 1] - f->bounds[o]);
    }
    if (f->sent_bounds[x->owners] > x->most_sent) x->most_sent = f->sent_bounds[x->owners];
    if (f->bounds[x->owners] > x->most_ids) x->most_ids = f->bounds[x->owners];
    return NULL;
}

aorta_status aorta_sparse_exchange_ids(struct aorta_sparse_exchange *x, int slot,
                                       const struct aorta_sparse_input *input) {
    struct flight *f = &x->flights[slot];
    struct aorta_stream *stream = aorta_train_stream(x->s.context, AORTA_FLOW_REDUCE_SCATTER);
    const struct aorta_jagged_split_args split = split_of(x, f, input);
    const int64_t each = (int64_t)sizeof(int64_t) + (x->group->weighted ? (int64_t)sizeof(float) : 0);
    int range;
    AORTA_TRY(begin(x, id_role(x), "split_ids", 2 * f->sent_bounds[x->owners] * each, &range));
    AORTA_TRY(aorta_jagged_split(stream, &split));
    AORTA_TRY(finish(x, id_role(x), range));
    const struct parcel ids = {x->id_comm,         AORTA_FLOW_REDUCE_SCATTER, "ids",    f->sent_ids, f->ids,
                               counts_of(x, f, 2), counts_of(x, f, 3),        AORTA_I64};
    AORTA_TRY(deliver(x, &ids));
    struct parcel weights = ids;
    weights.tag = "weights", weights.send = f->sent_weights, weights.receive = f->weights, weights.dtype = AORTA_F32;
    if (x->group->weighted) AORTA_TRY(deliver(x, &weights));
    return aorta_event_record(f->arrived, stream);
}

static struct aorta_pool_args pool_of(struct aorta_sparse_exchange *x, struct flight *f) {
    const struct aorta_sparse_run *run = &x->s.options->run;
    return (struct aorta_pool_args){.shape = {x->owners, x->parts, f->samples, x->width, x->widest},
                                    .slot = x->slots,
                                    .offsets = f->own_offsets,
                                    .ids = f->ids,
                                    .weights = x->group->weighted ? f->weights : NULL,
                                    .pooled = x->pooled,
                                    .order = &f->order,
                                    .lr = (float)run->sparse_lr,
                                    .eps = (float)run->sparse_eps,
                                    .cache = x->cache};
}

/* ---- before lookups and updates ---- */

static aorta_status sort_ids(struct aorta_sparse_exchange *x, struct flight *f, enum aorta_role role) {
    const struct aorta_pool_args pool = pool_of(x, f);
    const int64_t ids = f->bounds[x->owners];
    int range;
    AORTA_TRY(begin(x, role, "sort_ids", ids * 4 * (int64_t)sizeof(uint32_t), &range));
    AORTA_TRY(aorta_pool_sort(x->s.context->streams[role], &pool, ids));
    f->sorted = true;
    return finish(x, role, range);
}

/* How much is brought only the device knows. */
static aorta_status fill_cache(struct aorta_sparse_exchange *x, struct flight *f, enum aorta_role role) {
    const struct aorta_pool_args pool = pool_of(x, f);
    const struct flight *before = x->cached ? x->cached : f;
    int range;
    AORTA_TRY(begin(x, role, "cache_rows", 0, &range));
    AORTA_TRY(aorta_pool_cache(x->s.context->streams[role], &pool, f->bounds[x->owners], &before->order,
                               x->cached ? before->bounds[x->owners] : 0, x->cached_batches + 2));
    x->cached = f, x->cached_batches++;
    return finish(x, role, range);
}

aorta_status aorta_sparse_exchange_prefetch(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct flight *f = &x->flights[slot];
    AORTA_TRY(aorta_stream_wait(x->s.context->streams[role], f->arrived));
    AORTA_TRY(sort_ids(x, f, role));
    return x->cache.sets ? fill_cache(x, f, role) : NULL;
}

/* ---- rows ---- */

/* Pooled rows that this rank looked up for `owners` ranks; and those that it gets for its own samples. */
static void count_rows(struct aorta_sparse_exchange *x, struct flight *f) {
    size_t *sent = counts_of(x, f, 4), *received = counts_of(x, f, 5);
    for (int o = 0; o < x->owners; o++) {
        sent[o] = (size_t)(f->samples * x->width);
        received[o] = (size_t)(f->samples * x->plan.widths[o]);
    }
}

/* Ids, the rows they name, and pooled rows, are read or written once. */
static int64_t lookup_bytes(const struct aorta_sparse_exchange *x, const struct flight *f) {
    const int64_t ids = f->bounds[x->owners], lists = x->owners * (int64_t)x->parts * f->samples;
    const int64_t columns = x->parts ? x->width / x->parts : 0;
    return ids * ((int64_t)sizeof(int64_t) + aorta_row_bytes(columns, is_coded(x))) +
           lists * (columns * (int64_t)sizeof(float) + (int64_t)sizeof(int64_t));
}

aorta_status aorta_sparse_exchange_lookup(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct flight *f = &x->flights[slot];
    const struct aorta_pool_args pool = pool_of(x, f);
    int range;
    AORTA_TRY(aorta_stream_wait(x->s.context->streams[role], f->arrived));
    if (x->cache.sets && !f->sorted) AORTA_TRY(aorta_sparse_exchange_prefetch(x, slot, role));
    AORTA_TRY(begin(x, role, "embedding_lookup", lookup_bytes(x, f), &range));
    AORTA_TRY(aorta_pool_forward(x->s.context->streams[role], &pool));
    return finish(x, role, range);
}

static struct aorta_columns_args columns_of(const struct aorta_sparse_exchange *x, const struct flight *f, float *row) {
    return (struct aorta_columns_args){.shape = {f->samples, x->s.tables->columns, x->block_count},
                                       .block = x->blocks,
                                       .piece = x->pieces,
                                       .row = row,
                                       .buffer = x->received};
}

static int64_t row_bytes(const struct aorta_sparse_exchange *x, const struct flight *f) {
    int64_t columns = 0;
    for (int o = 0; o < x->owners; o++) columns += x->plan.widths[o];
    return 2 * columns * f->samples * (int64_t)sizeof(float);
}

aorta_status aorta_sparse_exchange_rows(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct flight *f = &x->flights[slot];
    struct aorta_stream *rows = aorta_train_stream(x->s.context, AORTA_FLOW_ALL_REDUCE);
    count_rows(x, f);
    const struct parcel parcel = {x->comm,     AORTA_FLOW_ALL_REDUCE, "pooled rows",      x->pooled,
                                  x->received, counts_of(x, f, 4),    counts_of(x, f, 5), AORTA_F32};
    AORTA_TRY(aorta_train_follow(rows, x->s.context->streams[role], x->looked_up));
    AORTA_TRY(deliver(x, &parcel));
    return aorta_event_record(x->collected, rows);
}

aorta_status aorta_sparse_exchange_gather(struct aorta_sparse_exchange *x, int slot, float *pooled) {
    struct flight *f = &x->flights[slot];
    const struct aorta_columns_args columns = columns_of(x, f, pooled);
    int range;
    AORTA_TRY(aorta_stream_wait(compute_of(x), x->collected));
    AORTA_TRY(begin(x, AORTA_ROLE_COMPUTE, "gather_columns", row_bytes(x, f), &range));
    AORTA_TRY(aorta_columns_gather(compute_of(x), &columns));
    return finish(x, AORTA_ROLE_COMPUTE, range);
}

aorta_status aorta_sparse_exchange_return(struct aorta_sparse_exchange *x, int slot, const float *pooled_gradient) {
    struct flight *f = &x->flights[slot];
    struct aorta_stream *rows = aorta_train_stream(x->s.context, AORTA_FLOW_ALL_REDUCE);
    const struct aorta_columns_args columns = columns_of(x, f, (float *)pooled_gradient);
    int range;
    const struct parcel parcel = {x->comm,   AORTA_FLOW_ALL_REDUCE, "gradients of pooled rows", x->received,
                                  x->pooled, counts_of(x, f, 5),    counts_of(x, f, 4),         AORTA_F32};
    AORTA_TRY(begin(x, AORTA_ROLE_COMPUTE, "scatter_columns", row_bytes(x, f), &range));
    AORTA_TRY(aorta_columns_scatter(compute_of(x), &columns));
    AORTA_TRY(finish(x, AORTA_ROLE_COMPUTE, range));
    AORTA_TRY(aorta_train_follow(rows, compute_of(x), x->ready));
    AORTA_TRY(deliver(x, &parcel));
    return aorta_event_record(x->returned, rows);
}

/* ---- updates ---- */

/* The same table on every rank: its gradient is the sum of theirs. */
static aorta_status sum_gradients(struct aorta_sparse_exchange *x, struct aorta_stream *stream) {
    if (x->s.options->run.sharding != AORTA_DATA_PARALLEL || aorta_comm_size(x->s.context->world) == 1) return NULL;
    struct aorta_stream *rows = aorta_train_stream(x->s.context, AORTA_FLOW_ALL_REDUCE);
    const struct aorta_train_collective collective = {.kind = AORTA_ALL_REDUCE,
                                                      .flow = AORTA_FLOW_ALL_REDUCE,
                                                      .comm = x->s.context->world,
                                                      .tag = "gradients of tables",
                                                      .layer = -1,
                                                      .send = x->gradient,
                                                      .receive = x->gradient,
                                                      .count = (size_t)x->elements,
                                                      .dtype = AORTA_F32};
    AORTA_TRY(aorta_train_follow(rows, stream, x->ready));
    AORTA_TRY(aorta_train_collect(x->s.context, &collective));
    return aorta_train_follow(stream, rows, x->returned);
}

static aorta_status update_rows(struct aorta_sparse_exchange *x, enum aorta_role role) {
    int range;
    AORTA_TRY(begin(x, role, "update_tables", 3 * x->elements * (int64_t)sizeof(float), &range));
    for (int p = 0; p < x->parts; p++) {
        const struct aorta_pool_slot *slot = &x->host_slots[p];
        if (slot_of_table(x, p) != p) continue;
        const struct aorta_rows_args rows = {.rows = slot->rows,
                                             .columns = slot->columns,
                                             .table = slot->table,
                                             .state = slot->state,
                                             .gradient = slot->gradient,
                                             .lr = (float)x->s.options->run.sparse_lr,
                                             .eps = (float)x->s.options->run.sparse_eps};
        AORTA_TRY(aorta_rows_update(x->s.context->streams[role], &rows));
    }
    return finish(x, role, range);
}

aorta_status aorta_sparse_exchange_update(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct flight *f = &x->flights[slot];
    struct aorta_stream *stream = x->s.context->streams[role];
    const struct aorta_pool_args pool = pool_of(x, f);
    int range;
    AORTA_TRY(aorta_stream_wait(stream, x->returned));
    if (!f->sorted) AORTA_TRY(sort_ids(x, f, role));
    AORTA_TRY(begin(x, role, "embedding_update", 3 * lookup_bytes(x, f), &range));
    if (x->gradient) AORTA_TRY(aorta_fill_bytes(stream, x->gradient, 0, (size_t)x->elements * sizeof *x->gradient));
    AORTA_TRY(aorta_pool_update(stream, &pool, f->bounds[x->owners]));
    AORTA_TRY(finish(x, role, range));
    if (!x->gradient) return NULL;
    AORTA_TRY(sum_gradients(x, stream));
    return update_rows(x, role);
}

/* ---- questions ---- */

int64_t aorta_sparse_exchange_bytes(const struct aorta_sparse_exchange *x) {
    const int64_t more = (x->gradient ? x->elements : 0) + (x->state ? x->rows : 0);
    return x->table_bytes + more * (int64_t)sizeof(float);
}

aorta_status aorta_sparse_exchange_cached(struct aorta_sparse_exchange *x, uint64_t counts[AORTA_ROW_COUNTS]) {
    memset(counts, 0, AORTA_ROW_COUNTS * sizeof *counts);
    if (!x->cache.sets) return NULL;
    AORTA_TRY(aorta_copy(compute_of(x), counts, x->cache.counts, AORTA_ROW_COUNTS * sizeof *counts));
    return aorta_stream_synchronize(compute_of(x));
}

const struct aorta_sparse_plan *aorta_sparse_exchange_plan(const struct aorta_sparse_exchange *x) {
    return &x->plan;
}
