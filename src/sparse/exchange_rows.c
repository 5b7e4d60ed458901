/* Rows: looked up, to the ranks of their samples and back as gradients, and the update of the tables. */
#include "sparse/exchange_internal.h"

struct aorta_pool_args exchange_pool(struct aorta_sparse_exchange *x, struct exchange_flight *f) {
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

/* ---- there and back ---- */

/* Pooled rows that this rank looked up for `owners` ranks; and those that it gets for its own samples. */
static void count_rows(struct aorta_sparse_exchange *x, struct exchange_flight *f) {
    size_t *sent = exchange_counts(x, f, 4), *received = exchange_counts(x, f, 5);
    for (int o = 0; o < x->owners; o++) {
        sent[o] = (size_t)(f->samples * x->width);
        received[o] = (size_t)(f->samples * x->plan.widths[o]);
    }
}

/* Ids, the rows they name, and pooled rows, are read or written once. */
static int64_t lookup_bytes(const struct aorta_sparse_exchange *x, const struct exchange_flight *f) {
    const int64_t ids = f->bounds[x->owners], lists = x->owners * (int64_t)x->parts * f->samples;
    const int64_t columns = x->parts ? x->width / x->parts : 0;
    return ids * ((int64_t)sizeof(int64_t) + aorta_row_bytes(columns, exchange_coded(x))) +
           lists * (columns * (int64_t)sizeof(float) + (int64_t)sizeof(int64_t));
}

aorta_status aorta_sparse_exchange_lookup(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct exchange_flight *f = &x->flights[slot];
    const struct aorta_pool_args pool = exchange_pool(x, f);
    int range;
    AORTA_TRY(aorta_stream_wait(x->s.context->streams[role], f->arrived));
    if (x->cache.sets && !f->sorted) AORTA_TRY(aorta_sparse_exchange_prefetch(x, slot, role));
    AORTA_TRY(exchange_begin(x, role, "embedding_lookup", lookup_bytes(x, f), &range));
    AORTA_TRY(aorta_pool_forward(x->s.context->streams[role], &pool));
    return exchange_finish(x, role, range);
}

static struct aorta_columns_args columns_of(const struct aorta_sparse_exchange *x, const struct exchange_flight *f,
                                            float *row) {
    return (struct aorta_columns_args){.shape = {f->samples, x->s.tables->columns, x->block_count},
                                       .block = x->blocks,
                                       .piece = x->pieces,
                                       .row = row,
                                       .buffer = x->received};
}

static int64_t row_bytes(const struct aorta_sparse_exchange *x, const struct exchange_flight *f) {
    int64_t columns = 0;
    for (int o = 0; o < x->owners; o++) columns += x->plan.widths[o];
    return 2 * columns * f->samples * (int64_t)sizeof(float);
}

aorta_status aorta_sparse_exchange_rows(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct exchange_flight *f = &x->flights[slot];
    struct aorta_stream *rows = aorta_train_stream(x->s.context, AORTA_FLOW_ALL_REDUCE);
    count_rows(x, f);
    const struct exchange_transfer transfer = {x->comm,
                                               AORTA_FLOW_ALL_REDUCE,
                                               "pooled rows",
                                               x->pooled,
                                               x->received,
                                               exchange_counts(x, f, 4),
                                               exchange_counts(x, f, 5),
                                               AORTA_F32};
    AORTA_TRY(aorta_train_follow(rows, x->s.context->streams[role], x->looked_up));
    AORTA_TRY(exchange_transfer(x, &transfer));
    return aorta_event_record(x->collected, rows);
}

aorta_status aorta_sparse_exchange_gather(struct aorta_sparse_exchange *x, int slot, float *pooled) {
    struct exchange_flight *f = &x->flights[slot];
    const struct aorta_columns_args columns = columns_of(x, f, pooled);
    int range;
    AORTA_TRY(aorta_stream_wait(exchange_compute(x), x->collected));
    AORTA_TRY(exchange_begin(x, AORTA_ROLE_COMPUTE, "gather_columns", row_bytes(x, f), &range));
    AORTA_TRY(aorta_columns_gather(exchange_compute(x), &columns));
    return exchange_finish(x, AORTA_ROLE_COMPUTE, range);
}

aorta_status aorta_sparse_exchange_return(struct aorta_sparse_exchange *x, int slot, const float *pooled_gradient) {
    struct exchange_flight *f = &x->flights[slot];
    struct aorta_stream *rows = aorta_train_stream(x->s.context, AORTA_FLOW_ALL_REDUCE);
    const struct aorta_columns_args columns = columns_of(x, f, (float *)pooled_gradient);
    int range;
    const struct exchange_transfer transfer = {
        x->comm,   AORTA_FLOW_ALL_REDUCE,    "gradients of pooled rows", x->received,
        x->pooled, exchange_counts(x, f, 5), exchange_counts(x, f, 4),   AORTA_F32};
    AORTA_TRY(exchange_begin(x, AORTA_ROLE_COMPUTE, "scatter_columns", row_bytes(x, f), &range));
    AORTA_TRY(aorta_columns_scatter(exchange_compute(x), &columns));
    AORTA_TRY(exchange_finish(x, AORTA_ROLE_COMPUTE, range));
    AORTA_TRY(aorta_train_follow(rows, exchange_compute(x), x->ready));
    AORTA_TRY(exchange_transfer(x, &transfer));
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
    AORTA_TRY(exchange_begin(x, role, "update_tables", 3 * x->elements * (int64_t)sizeof(float), &range));
    for (int p = 0; p < x->parts; p++) {
        const struct aorta_pool_slot *slot = &x->host_slots[p];
        if (exchange_owner_of_table(x, p) != p) continue;
        const struct aorta_rows_args rows = {.rows = slot->rows,
                                             .columns = slot->columns,
                                             .table = slot->table,
                                             .state = slot->state,
                                             .gradient = slot->gradient,
                                             .lr = (float)x->s.options->run.sparse_lr,
                                             .eps = (float)x->s.options->run.sparse_eps};
        AORTA_TRY(aorta_rows_update(x->s.context->streams[role], &rows));
    }
    return exchange_finish(x, role, range);
}

aorta_status aorta_sparse_exchange_update(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct exchange_flight *f = &x->flights[slot];
    struct aorta_stream *stream = x->s.context->streams[role];
    const struct aorta_pool_args pool = exchange_pool(x, f);
    int range;
    AORTA_TRY(aorta_stream_wait(stream, x->returned));
    if (!f->sorted) AORTA_TRY(exchange_sort_ids(x, f, role));
    AORTA_TRY(exchange_begin(x, role, "embedding_update", 3 * lookup_bytes(x, f), &range));
    if (x->gradient) AORTA_TRY(aorta_fill_bytes(stream, x->gradient, 0, (size_t)x->elements * sizeof *x->gradient));
    AORTA_TRY(aorta_pool_update(stream, &pool, f->bounds[x->owners]));
    AORTA_TRY(exchange_finish(x, role, range));
    if (!x->gradient) return NULL;
    AORTA_TRY(sum_gradients(x, stream));
    return update_rows(x, role);
}
