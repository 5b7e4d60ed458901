/* The tables on this rank: their memory, their start values, and the lists by which kernels find them. */
#include "sparse/exchange.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

/* GPU kernels read and write rows in pinned host memory over the bus. */
static aorta_status take_rows_of_tables(struct aorta_sparse_exchange *x) {
    const size_t bytes = (size_t)x->table_bytes;
    return exchange_in_host_memory(x) ? aorta_own_pinned(&x->s.context->owned, bytes, "embedding tables", &x->table)
                                      : exchange_take(x, bytes, 1, "embedding tables", &x->table);
}

static aorta_status take_zeros(struct aorta_sparse_exchange *x, size_t count, size_t each, const char *what,
                               void *place) {
    return aorta_own_zeros(&x->s.context->owned, exchange_compute(x), count * each, what, place);
}

/* Host memory to new device memory. */
static aorta_status send_table(struct aorta_sparse_exchange *x, const void *from, size_t count, size_t each,
                               const char *what, void *place) {
    void *memory;
    AORTA_TRY(exchange_take(x, count, each, what, place));
    memcpy(&memory, place, sizeof memory);
    AORTA_TRY(aorta_copy(exchange_compute(x), memory, from, count * each));
    return aorta_stream_synchronize(exchange_compute(x));
}

/* ---- tables ---- */

static bool keeps_gradients(const struct aorta_sparse_exchange *x) {
    return x->s.options->run.kernel == AORTA_KERNEL_DENSE || x->s.options->run.sharding == AORTA_DATA_PARALLEL;
}

int exchange_owner_of_table(const struct aorta_sparse_exchange *x, int part) {
    const int table = x->group->features[x->own[part].feature].table;
    for (int p = 0; p < part; p++)
        if (x->group->features[x->own[p].feature].table == table) return p;
    return part;
}

static int64_t aligned(int64_t bytes) {
    return (bytes + 15) / 16 * 16;
}

static aorta_status place_tables(struct aorta_sparse_exchange *x) {
    AORTA_TRY(exchange_list(x, (size_t)x->parts, sizeof *x->host_slots, &x->host_slots));
    int64_t column = 0;
    for (int p = 0; p < x->parts; p++) {
        const struct aorta_sparse_part *part = &x->own[p];
        const int first = exchange_owner_of_table(x, p);
        struct aorta_pool_slot *slot = &x->host_slots[p];
        *slot = (struct aorta_pool_slot){.rows = part->rows,
                                         .columns = part->columns,
                                         .row_bytes = aorta_row_bytes(part->columns, exchange_coded(x)),
                                         .coded = exchange_coded(x),
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
    AORTA_TRY(exchange_take(x, count, (size_t)c->row_bytes, "cached rows of tables", &c->values));
    AORTA_TRY(take_zeros(x, count, sizeof *c->rows, "cached rows of tables", &c->rows));
    AORTA_TRY(take_zeros(x, count, sizeof *c->slots, "cached rows of tables", &c->slots));
    AORTA_TRY(take_zeros(x, count, sizeof *c->used, "cached rows of tables", &c->used));
    return take_zeros(x, AORTA_ROW_COUNTS, sizeof *c->counts, "counts of cached rows", &c->counts);
}

aorta_status exchange_take_tables(struct aorta_sparse_exchange *x) {
    AORTA_TRY(place_tables(x));
    AORTA_TRY(take_rows_of_tables(x));
    if (aorta_sparse_has_cache(x->s.options)) AORTA_TRY(take_cache(x));
    if (x->s.options->run.optimizer == AORTA_SPARSE_ROWWISE_ADAGRAD)
        AORTA_TRY(take_zeros(x, (size_t)x->rows, sizeof *x->state, "sums of squares of table rows", &x->state));
    if (keeps_gradients(x))
        AORTA_TRY(exchange_take(x, (size_t)x->elements, sizeof(float), "gradients of embedding tables", &x->gradient));
    int64_t element = 0, byte = 0;
    for (int p = 0; p < x->parts; p++) {
        const int first = exchange_owner_of_table(x, p);
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

/* Rows in the table's format; `rows` has memory for them. */
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
        AORTA_TRY(aorta_copy(exchange_compute(x), (char *)slot->table + at * slot->row_bytes,
                             rows_as_stored(slot, values, count, rows), (size_t)(count * slot->row_bytes)));
        AORTA_TRY(aorta_stream_synchronize(exchange_compute(x)));
    }
    return NULL;
}

aorta_status exchange_start_tables(struct aorta_sparse_exchange *x) {
    float *values = malloc(PIECE * sizeof *values);
    unsigned char *rows = malloc((size_t)PIECE * 12); /* rows of one column take most */
    aorta_status status = NULL;
    if (!values || !rows) status = AORTA_ERROR(AORTA_MEMORY, "start values of tables did not fit in host memory");
    for (int p = 0; p < x->parts && !status; p++)
        if (exchange_owner_of_table(x, p) == p) status = start_part(x, p, values, rows);
    free(values);
    free(rows);
    return status;
}

/* ---- the lists that kernels read ---- */

aorta_status exchange_make_split(struct aorta_sparse_exchange *x) {
    struct aorta_jagged_part *split;
    AORTA_TRY(exchange_list(x, (size_t)x->plan.part_count, sizeof *split, &split));
    for (int p = 0; p < x->plan.part_count; p++) {
        const struct aorta_sparse_part *part = &x->plan.parts[p];
        const struct aorta_sparse_table *table = &x->group->tables[x->group->features[part->feature].table];
        split[p] = (struct aorta_jagged_part){part->first_row, part->rows, part->feature, part->rows == table->rows};
    }
    return send_table(x, split, (size_t)x->plan.part_count, sizeof *split, "parts of features", &x->split);
}

/* The pieces of a block have the same columns, one piece per owner. */
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

/* Whether an earlier owner serves the same columns, so that its block already has the part. */
static bool is_covered(const struct aorta_sparse_plan *plan, int part) {
    const struct aorta_sparse_part *own = &plan->parts[part];
    for (int p = 0; p < plan->first[own->owner]; p++)
        if (plan->parts[p].feature == own->feature && plan->parts[p].first_column == own->first_column) return true;
    return false;
}

aorta_status exchange_make_blocks(struct aorta_sparse_exchange *x) {
    const size_t parts = (size_t)x->plan.part_count;
    struct block_maker m = {0};
    AORTA_TRY(exchange_list(x, parts, sizeof *m.blocks, &m.blocks));
    AORTA_TRY(exchange_list(x, parts, sizeof *m.pieces, &m.pieces));
    AORTA_TRY(exchange_list(x, parts, sizeof *m.before, &m.before));
    AORTA_TRY(exchange_list(x, parts, sizeof *m.column, &m.column));
    place_parts(&x->plan, &m);
    for (int p = 0; p < x->plan.part_count; p++)
        if (!is_covered(&x->plan, p)) add_block(x, &m, p);
    x->block_count = m.block_count;
    AORTA_TRY(send_table(x, m.blocks, (size_t)m.block_count, sizeof *m.blocks, "columns", &x->blocks));
    return send_table(x, m.pieces, (size_t)m.piece_count, sizeof *m.pieces, "columns", &x->pieces);
}
