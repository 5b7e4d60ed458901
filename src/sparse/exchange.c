/* An exchange from begin to end: lengths, ids, lookups and updates. */
#include "sparse/exchange.h"

#include <string.h>

/* ---- memory ---- */

aorta_status exchange_take(struct aorta_sparse_exchange *x, size_t count, size_t each, const char *what, void *place) {
    return aorta_own_memory(&x->s.context->owned, count * each, what, place);
}

aorta_status exchange_list(struct aorta_sparse_exchange *x, size_t count, size_t each, void *place) {
    void *memory = aorta_arena_alloc(&x->s.context->arena, count * each);
    memcpy(place, &memory, sizeof memory);
    return aorta_arena_check(&x->s.context->arena, "the tables of an exchange");
}

struct aorta_stream *exchange_compute(const struct aorta_sparse_exchange *x) {
    return aorta_train_compute(x->s.context);
}

bool exchange_coded(const struct aorta_sparse_exchange *x) {
    return x->s.options->run.kernel == AORTA_KERNEL_QUANT_UVM;
}

bool exchange_in_host_memory(const struct aorta_sparse_exchange *x) {
    return x->s.options->run.kernel == AORTA_KERNEL_FUSED_UVM || aorta_sparse_has_cache(x->s.options);
}

/* ---- ranges and collectives ---- */

static aorta_status begin_range(const struct aorta_sparse_exchange *x, enum aorta_role role, const char *function,
                                int64_t bytes) {
    return aorta_train_begin_on(x->s.context, role, AORTA_RANGE_COMPUTE, x->tag, function, bytes);
}

/* All-to-all of unequal parts. A single owner copies the data instead. */
static aorta_status send_parts(const struct aorta_sparse_exchange *x, struct aorta_comm *comm, enum aorta_flow flow,
                               const char *tag, const struct aorta_comm_call *call) {
    const struct aorta_train_collective collective = {
        .flow = flow, .comm = comm, .tag = tag, .layer = -1, .call = *call};
    if (comm) return aorta_train_collect(x->s.context, &collective);
    const size_t bytes = call->send_counts[0] * aorta_dtype_size(call->dtype);
    return bytes ? aorta_copy(aorta_train_stream(x->s.context, flow), call->pieces->receive, call->pieces->send, bytes)
                 : NULL;
}

/* Row `which` of a batch's `counts`, with `owners` elements. */
static size_t *counts_of(const struct aorta_sparse_exchange *x, const struct exchange_flight *f, int which) {
    return f->counts + which * x->owners;
}

/* `sent` and `received`: rows of `counts`. */
static struct aorta_comm_call parts_call(const struct aorta_sparse_exchange *x, const struct exchange_flight *f,
                                         enum aorta_dtype dtype, const void *send, int sent, void *receive,
                                         int received) {
    return (struct aorta_comm_call){.kind = AORTA_ALL_TO_ALL,
                                    .dtype = dtype,
                                    .send_counts = counts_of(x, f, sent),
                                    .receive_counts = counts_of(x, f, received),
                                    .piece_count = 1,
                                    .pieces = {{send, receive, 0}}};
}

/* ---- batches in flight ---- */

static aorta_status take_flight(struct aorta_sparse_exchange *x, struct exchange_flight *f) {
    const size_t samples = (size_t)x->s.samples, owners = (size_t)x->owners;
    const size_t lists = (size_t)x->group->feature_count * samples, sent = (size_t)x->plan.part_count * samples;
    const size_t own = owners * (size_t)x->parts * samples;
    struct aorta_owned *owned = &x->s.context->owned;
    if (own > UINT32_MAX)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%zu lists of ids on one rank are more than 2^32; use smaller batches",
                           own);
    AORTA_TRY(exchange_take(x, lists + 1, sizeof *f->offsets, "offsets of lists", &f->offsets));
    AORTA_TRY(exchange_take(x, sent, sizeof *f->sent_lengths, "lengths of lists to send", &f->sent_lengths));
    AORTA_TRY(exchange_take(x, sent + 1, sizeof *f->sent_offsets, "offsets of lists to send", &f->sent_offsets));
    AORTA_TRY(exchange_take(x, own, sizeof *f->lengths, "lengths of lists", &f->lengths));
    AORTA_TRY(exchange_take(x, own + 1, sizeof *f->own_offsets, "offsets of lists", &f->own_offsets));
    AORTA_TRY(aorta_own_pinned(owned, (owners + 1) * sizeof *f->bounds, "numbers of ids", &f->bounds));
    AORTA_TRY(aorta_own_pinned(owned, (owners + 1) * sizeof *f->bounds, "numbers of ids", &f->sent_bounds));
    AORTA_TRY(exchange_list(x, 6 * owners, sizeof *f->counts, &f->counts));
    AORTA_TRY(aorta_own_event(owned, &f->counted));
    return aorta_own_event(owned, &f->arrived);
}

aorta_status aorta_sparse_exchange_reserve(struct aorta_sparse_exchange *x) {
    const size_t sent = (size_t)x->most_sent, ids = (size_t)x->most_ids;
    if (ids > UINT32_MAX)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%zu ids on one rank are more than 2^32; use smaller batches", ids);
    for (int i = 0; i < AORTA_SPARSE_SLOTS; i++) {
        struct exchange_flight *f = &x->flights[i];
        AORTA_TRY(exchange_take(x, sent, sizeof *f->sent_ids, "ids to send", &f->sent_ids));
        AORTA_TRY(exchange_take(x, ids, sizeof *f->ids, "ids", &f->ids));
        for (int half = 0; half < 2; half++) {
            AORTA_TRY(exchange_take(x, ids, sizeof *f->order.rows[half], "sorted rows", &f->order.rows[half]));
            AORTA_TRY(exchange_take(x, ids, sizeof *f->order.places[half], "sorted places", &f->order.places[half]));
        }
        AORTA_TRY(exchange_take(x, ids, sizeof *f->order.cells, "lists of ids", &f->order.cells));
        f->order.capacity = (int64_t)ids;
        while (f->order.passes < 4 && x->rows >> (8 * f->order.passes)) f->order.passes++;
        if (!x->group->weighted) continue;
        AORTA_TRY(exchange_take(x, sent, sizeof *f->sent_weights, "weights to send", &f->sent_weights));
        AORTA_TRY(exchange_take(x, ids, sizeof *f->weights, "weights", &f->weights));
    }
    return NULL;
}

/* ---- all ---- */

static aorta_status take_rows(struct aorta_sparse_exchange *x) {
    for (int o = 0; o < x->owners; o++) x->received_columns += x->plan.widths[o];
    AORTA_TRY(
        exchange_take(x, (size_t)(x->owners * x->s.samples * x->width), sizeof(float), "pooled rows", &x->pooled));
    return exchange_take(x, (size_t)(x->s.samples * x->received_columns), sizeof(float), "received pooled rows",
                         &x->received);
}

static aorta_status build(struct aorta_sparse_exchange *x) {
    const struct aorta_sparse_run *run = &x->s.options->run;
    const struct aorta_ranks *ranks = &x->s.context->ranks;
    struct aorta_event **events[] = {&x->looked_up, &x->filled, &x->collected, &x->ready, &x->returned};
    const int local = run->local_world_size ? (int)run->local_world_size : ranks->local_world_size;
    AORTA_TRY(
        aorta_sparse_plan_make(x->group, run->sharding, ranks->world_size, local, &x->s.context->arena, &x->plan));
    const bool alone = run->sharding == AORTA_DATA_PARALLEL;
    x->comm = alone ? NULL : x->s.context->world, x->id_comm = alone ? NULL : x->s.id;
    x->owners = x->plan.owners, x->me = alone ? 0 : ranks->rank;
    x->own = x->plan.parts + x->plan.first[x->me];
    x->parts = x->plan.first[x->me + 1] - x->plan.first[x->me];
    x->width = x->plan.widths[x->me];
    AORTA_TRY(exchange_take_tables(x));
    AORTA_TRY(exchange_start_tables(x));
    AORTA_TRY(exchange_make_split(x));
    AORTA_TRY(exchange_make_blocks(x));
    AORTA_TRY(take_rows(x));
    for (int i = 0; i < AORTA_SPARSE_SLOTS; i++) AORTA_TRY(take_flight(x, &x->flights[i]));
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        AORTA_TRY(aorta_own_event(&x->s.context->owned, events[i]));
    return NULL;
}

aorta_status aorta_sparse_exchange_create(const struct aorta_sparse_exchange_settings *settings,
                                          struct aorta_sparse_exchange **out) {
    struct aorta_sparse_exchange *x = *out = aorta_arena_alloc(&settings->context->arena, sizeof *x);
    if (!x) return aorta_arena_check(&settings->context->arena, "an exchange");
    x->s = *settings;
    x->group = &settings->tables->groups[settings->group];
    x->tag = x->group->weighted ? "weighted" : "unweighted";
    return build(x);
}

/* ---- questions ---- */

int64_t aorta_sparse_exchange_bytes(const struct aorta_sparse_exchange *x) {
    const int64_t more = (x->gradient ? x->elements : 0) + (x->state ? x->rows : 0);
    return x->table_bytes + more * (int64_t)sizeof(float);
}

aorta_status aorta_sparse_exchange_cached(struct aorta_sparse_exchange *x, uint64_t counts[AORTA_ROW_COUNTS]) {
    memset(counts, 0, AORTA_ROW_COUNTS * sizeof *counts);
    if (!x->cache.sets) return NULL;
    AORTA_TRY(aorta_copy(exchange_compute(x), counts, x->cache.counts, AORTA_ROW_COUNTS * sizeof *counts));
    return aorta_stream_synchronize(exchange_compute(x));
}

/* ---- ids to the owners ---- */

static enum aorta_role id_role(const struct aorta_sparse_exchange *x) {
    return aorta_train_role(x->s.context, AORTA_FLOW_REDUCE_SCATTER);
}

static void count_lists(struct aorta_sparse_exchange *x, struct exchange_flight *f) {
    size_t *sent = counts_of(x, f, 0), *received = counts_of(x, f, 1);
    for (int o = 0; o < x->owners; o++) {
        sent[o] = (size_t)(x->plan.first[o + 1] - x->plan.first[o]) * (size_t)f->samples;
        received[o] = (size_t)x->parts * (size_t)f->samples;
    }
}

/* Copies the index of each rank's first id to the host. */
static aorta_status report_bounds(struct aorta_sparse_exchange *x, struct exchange_flight *f) {
    struct aorta_stream *stream = aorta_train_stream(x->s.context, AORTA_FLOW_REDUCE_SCATTER);
    for (int o = 0; o <= x->owners; o++) {
        AORTA_TRY(aorta_copy(stream, &f->sent_bounds[o], f->sent_offsets + x->plan.first[o] * f->samples,
                             sizeof *f->sent_bounds));
        AORTA_TRY(
            aorta_copy(stream, &f->bounds[o], f->own_offsets + (int64_t)o * x->parts * f->samples, sizeof *f->bounds));
    }
    return NULL;
}

static struct aorta_jagged_split_args split_of(const struct aorta_sparse_exchange *x, const struct exchange_flight *f,
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
    struct exchange_flight *f = &x->flights[slot];
    struct aorta_stream *stream = aorta_train_stream(x->s.context, AORTA_FLOW_REDUCE_SCATTER);
    f->samples = input->samples, f->sorted = false;
    count_lists(x, f);
    const struct aorta_jagged_split_args split = split_of(x, f, input);
    AORTA_TRY(begin_range(x, id_role(x), "count_ids", 0));
    AORTA_TRY(aorta_jagged_offsets(stream, x->group->feature_count * f->samples, input->lengths, f->offsets));
    AORTA_TRY(aorta_jagged_count(stream, &split));
    AORTA_TRY(aorta_jagged_offsets(stream, x->plan.part_count * f->samples, f->sent_lengths, f->sent_offsets));
    AORTA_TRY(aorta_train_end(x->s.context));
    const struct aorta_comm_call lengths = parts_call(x, f, AORTA_I32, f->sent_lengths, 0, f->lengths, 1);
    AORTA_TRY(send_parts(x, x->id_comm, AORTA_FLOW_REDUCE_SCATTER, "lengths", &lengths));
    AORTA_TRY(aorta_jagged_offsets(stream, (int64_t)x->owners * x->parts * f->samples, f->lengths, f->own_offsets));
    AORTA_TRY(report_bounds(x, f));
    return aorta_event_record(f->counted, stream);
}

aorta_status aorta_sparse_exchange_await(struct aorta_sparse_exchange *x, int slot) {
    struct exchange_flight *f = &x->flights[slot];
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
    struct exchange_flight *f = &x->flights[slot];
    struct aorta_stream *stream = aorta_train_stream(x->s.context, AORTA_FLOW_REDUCE_SCATTER);
    const struct aorta_jagged_split_args split = split_of(x, f, input);
    const int64_t each = (int64_t)sizeof(int64_t) + (x->group->weighted ? (int64_t)sizeof(float) : 0);
    AORTA_TRY(begin_range(x, id_role(x), "split_ids", 2 * f->sent_bounds[x->owners] * each));
    AORTA_TRY(aorta_jagged_split(stream, &split));
    AORTA_TRY(aorta_train_end(x->s.context));
    const struct aorta_comm_call ids = parts_call(x, f, AORTA_I64, f->sent_ids, 2, f->ids, 3);
    const struct aorta_comm_call weights = parts_call(x, f, AORTA_F32, f->sent_weights, 2, f->weights, 3);
    AORTA_TRY(send_parts(x, x->id_comm, AORTA_FLOW_REDUCE_SCATTER, "ids", &ids));
    if (x->group->weighted) AORTA_TRY(send_parts(x, x->id_comm, AORTA_FLOW_REDUCE_SCATTER, "weights", &weights));
    return aorta_event_record(f->arrived, stream);
}

/* ---- before lookups and updates ---- */

static struct aorta_pool_args pool_args(struct aorta_sparse_exchange *x, struct exchange_flight *f) {
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

static aorta_status sort_ids(struct aorta_sparse_exchange *x, struct exchange_flight *f, enum aorta_role role) {
    const struct aorta_pool_args pool = pool_args(x, f);
    const int64_t ids = f->bounds[x->owners];
    AORTA_TRY(begin_range(x, role, "sort_ids", ids * 4 * (int64_t)sizeof(uint32_t)));
    AORTA_TRY(aorta_pool_sort(x->s.context->streams[role], &pool, ids));
    f->sorted = true;
    return aorta_train_end(x->s.context);
}

/* The range has no bytes, as only the device knows how many rows are copied. */
static aorta_status fill_cache(struct aorta_sparse_exchange *x, struct exchange_flight *f, enum aorta_role role) {
    const struct aorta_pool_args pool = pool_args(x, f);
    const struct exchange_flight *before = x->cached ? x->cached : f;
    struct aorta_stream *stream = x->s.context->streams[role];
    if (x->cached) AORTA_TRY(aorta_stream_wait(stream, x->filled));
    AORTA_TRY(begin_range(x, role, "cache_rows", 0));
    AORTA_TRY(aorta_pool_cache(stream, &pool, f->bounds[x->owners], &before->order,
                               x->cached ? before->bounds[x->owners] : 0, x->cached_batches + 2));
    AORTA_TRY(aorta_event_record(x->filled, stream));
    x->cached = f, x->cached_batches++;
    return aorta_train_end(x->s.context);
}

aorta_status aorta_sparse_exchange_prefetch(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct exchange_flight *f = &x->flights[slot];
    AORTA_TRY(aorta_stream_wait(x->s.context->streams[role], f->arrived));
    AORTA_TRY(sort_ids(x, f, role));
    return x->cache.sets ? fill_cache(x, f, role) : NULL;
}

/* ---- lookups ---- */

/* Counts the pooled rows that this rank looked up for all ranks, and those that it receives for its own samples. */
static void count_rows(struct aorta_sparse_exchange *x, struct exchange_flight *f) {
    size_t *sent = counts_of(x, f, 4), *received = counts_of(x, f, 5);
    for (int o = 0; o < x->owners; o++) {
        sent[o] = (size_t)(f->samples * x->width);
        received[o] = (size_t)(f->samples * x->plan.widths[o]);
    }
}

/* Each id, each row that an id names and each pooled row is counted once. */
static int64_t lookup_bytes(const struct aorta_sparse_exchange *x, const struct exchange_flight *f) {
    const int64_t ids = f->bounds[x->owners], lists = x->owners * (int64_t)x->parts * f->samples;
    const int64_t columns = x->parts ? x->width / x->parts : 0;
    return ids * ((int64_t)sizeof(int64_t) + aorta_row_bytes(columns, exchange_coded(x))) +
           lists * (columns * (int64_t)sizeof(float) + (int64_t)sizeof(int64_t));
}

aorta_status aorta_sparse_exchange_lookup(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct exchange_flight *f = &x->flights[slot];
    const struct aorta_pool_args pool = pool_args(x, f);
    AORTA_TRY(aorta_stream_wait(x->s.context->streams[role], f->arrived));
    if (x->cache.sets && !f->sorted) AORTA_TRY(aorta_sparse_exchange_prefetch(x, slot, role));
    AORTA_TRY(begin_range(x, role, "embedding_lookup", lookup_bytes(x, f)));
    AORTA_TRY(aorta_pool_forward(x->s.context->streams[role], &pool));
    return aorta_train_end(x->s.context);
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
    return 2 * x->received_columns * f->samples * (int64_t)sizeof(float);
}

aorta_status aorta_sparse_exchange_rows(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct exchange_flight *f = &x->flights[slot];
    struct aorta_stream *rows = aorta_train_stream(x->s.context, AORTA_FLOW_ALL_REDUCE);
    count_rows(x, f);
    const struct aorta_comm_call call = parts_call(x, f, AORTA_F32, x->pooled, 4, x->received, 5);
    AORTA_TRY(aorta_train_follow(rows, x->s.context->streams[role], x->looked_up));
    AORTA_TRY(send_parts(x, x->comm, AORTA_FLOW_ALL_REDUCE, "pooled rows", &call));
    return aorta_event_record(x->collected, rows);
}

aorta_status aorta_sparse_exchange_gather(struct aorta_sparse_exchange *x, int slot, float *pooled) {
    struct exchange_flight *f = &x->flights[slot];
    const struct aorta_columns_args columns = columns_of(x, f, pooled);
    AORTA_TRY(aorta_stream_wait(exchange_compute(x), x->collected));
    AORTA_TRY(begin_range(x, AORTA_ROLE_COMPUTE, "gather_columns", row_bytes(x, f)));
    AORTA_TRY(aorta_columns_gather(exchange_compute(x), &columns));
    return aorta_train_end(x->s.context);
}

aorta_status aorta_sparse_exchange_return(struct aorta_sparse_exchange *x, int slot, const float *pooled_gradient) {
    struct exchange_flight *f = &x->flights[slot];
    struct aorta_stream *rows = aorta_train_stream(x->s.context, AORTA_FLOW_ALL_REDUCE);
    const struct aorta_columns_args columns = columns_of(x, f, (float *)pooled_gradient);
    const struct aorta_comm_call call = parts_call(x, f, AORTA_F32, x->received, 5, x->pooled, 4);
    AORTA_TRY(begin_range(x, AORTA_ROLE_COMPUTE, "scatter_columns", row_bytes(x, f)));
    AORTA_TRY(aorta_columns_scatter(exchange_compute(x), &columns));
    AORTA_TRY(aorta_train_end(x->s.context));
    AORTA_TRY(aorta_train_follow(rows, exchange_compute(x), x->ready));
    AORTA_TRY(send_parts(x, x->comm, AORTA_FLOW_ALL_REDUCE, "gradients of pooled rows", &call));
    return aorta_event_record(x->returned, rows);
}

/* ---- updates ---- */

/* With data_parallel every rank has all tables, so their gradients are summed over the ranks. */
static aorta_status sum_gradients(struct aorta_sparse_exchange *x, struct aorta_stream *stream) {
    if (x->s.options->run.sharding != AORTA_DATA_PARALLEL || aorta_comm_size(x->s.context->world) == 1) return NULL;
    struct aorta_stream *rows = aorta_train_stream(x->s.context, AORTA_FLOW_ALL_REDUCE);
    AORTA_TRY(aorta_train_follow(rows, stream, x->ready));
    AORTA_TRY(aorta_train_sum(x->s.context, AORTA_FLOW_ALL_REDUCE, x->s.context->world, 0, "gradients of tables",
                              x->gradient, x->elements));
    return aorta_train_follow(stream, rows, x->returned);
}

static aorta_status update_rows(struct aorta_sparse_exchange *x, enum aorta_role role) {
    AORTA_TRY(begin_range(x, role, "update_tables", 3 * x->elements * (int64_t)sizeof(float)));
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
    return aorta_train_end(x->s.context);
}

aorta_status aorta_sparse_exchange_update(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct exchange_flight *f = &x->flights[slot];
    struct aorta_stream *stream = x->s.context->streams[role];
    const struct aorta_pool_args pool = pool_args(x, f);
    AORTA_TRY(aorta_stream_wait(stream, x->returned));
    if (!f->sorted) AORTA_TRY(sort_ids(x, f, role));
    AORTA_TRY(begin_range(x, role, "embedding_update", 3 * lookup_bytes(x, f)));
    if (x->gradient) AORTA_TRY(aorta_fill_bytes(stream, x->gradient, 0, (size_t)x->elements * sizeof *x->gradient));
    AORTA_TRY(aorta_pool_update(stream, &pool, f->bounds[x->owners]));
    AORTA_TRY(aorta_train_end(x->s.context));
    if (!x->gradient) return NULL;
    AORTA_TRY(sum_gradients(x, stream));
    return update_rows(x, role);
}
