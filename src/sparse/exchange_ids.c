/* Ids: how many go where, to the owners of their rows, sorted there, and with a cache their rows in it. */
#include "sparse/exchange_internal.h"

static enum aorta_role id_role(const struct aorta_sparse_exchange *x) {
    return x->s.context->flows[AORTA_FLOW_REDUCE_SCATTER];
}

/* ---- to the owners ---- */

static void count_lists(struct aorta_sparse_exchange *x, struct exchange_flight *f) {
    size_t *sent = exchange_counts(x, f, 0), *received = exchange_counts(x, f, 1);
    for (int o = 0; o < x->owners; o++) {
        sent[o] = (size_t)(x->plan.first[o + 1] - x->plan.first[o]) * (size_t)f->samples;
        received[o] = (size_t)x->parts * (size_t)f->samples;
    }
}

/* The first id of each rank, to the host. */
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
    int range;
    f->samples = input->samples, f->sorted = false;
    count_lists(x, f);
    const struct aorta_jagged_split_args split = split_of(x, f, input);
    AORTA_TRY(exchange_begin(x, id_role(x), "count_ids", 0, &range));
    AORTA_TRY(aorta_jagged_offsets(stream, x->group->feature_count * f->samples, input->lengths, f->offsets));
    AORTA_TRY(aorta_jagged_count(stream, &split));
    AORTA_TRY(aorta_jagged_offsets(stream, x->plan.part_count * f->samples, f->sent_lengths, f->sent_offsets));
    AORTA_TRY(exchange_finish(x, id_role(x), range));
    const struct exchange_transfer lengths = {x->id_comm,
                                              AORTA_FLOW_REDUCE_SCATTER,
                                              "lengths",
                                              f->sent_lengths,
                                              f->lengths,
                                              exchange_counts(x, f, 0),
                                              exchange_counts(x, f, 1),
                                              AORTA_I32};
    AORTA_TRY(exchange_transfer(x, &lengths));
    AORTA_TRY(aorta_jagged_offsets(stream, (int64_t)x->owners * x->parts * f->samples, f->lengths, f->own_offsets));
    AORTA_TRY(report_bounds(x, f));
    return aorta_event_record(f->counted, stream);
}

aorta_status aorta_sparse_exchange_await(struct aorta_sparse_exchange *x, int slot) {
    struct exchange_flight *f = &x->flights[slot];
    size_t *sent = exchange_counts(x, f, 2), *received = exchange_counts(x, f, 3);
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
    int range;
    AORTA_TRY(exchange_begin(x, id_role(x), "split_ids", 2 * f->sent_bounds[x->owners] * each, &range));
    AORTA_TRY(aorta_jagged_split(stream, &split));
    AORTA_TRY(exchange_finish(x, id_role(x), range));
    const struct exchange_transfer ids = {x->id_comm,
                                          AORTA_FLOW_REDUCE_SCATTER,
                                          "ids",
                                          f->sent_ids,
                                          f->ids,
                                          exchange_counts(x, f, 2),
                                          exchange_counts(x, f, 3),
                                          AORTA_I64};
    AORTA_TRY(exchange_transfer(x, &ids));
    struct exchange_transfer weights = ids;
    weights.tag = "weights", weights.send = f->sent_weights, weights.receive = f->weights, weights.dtype = AORTA_F32;
    if (x->group->weighted) AORTA_TRY(exchange_transfer(x, &weights));
    return aorta_event_record(f->arrived, stream);
}

/* ---- before lookups and updates ---- */

aorta_status exchange_sort_ids(struct aorta_sparse_exchange *x, struct exchange_flight *f, enum aorta_role role) {
    const struct aorta_pool_args pool = exchange_pool(x, f);
    const int64_t ids = f->bounds[x->owners];
    int range;
    AORTA_TRY(exchange_begin(x, role, "sort_ids", ids * 4 * (int64_t)sizeof(uint32_t), &range));
    AORTA_TRY(aorta_pool_sort(x->s.context->streams[role], &pool, ids));
    f->sorted = true;
    return exchange_finish(x, role, range);
}

/* How much is brought only the device knows. */
static aorta_status fill_cache(struct aorta_sparse_exchange *x, struct exchange_flight *f, enum aorta_role role) {
    const struct aorta_pool_args pool = exchange_pool(x, f);
    const struct exchange_flight *before = x->cached ? x->cached : f;
    struct aorta_stream *stream = x->s.context->streams[role];
    int range;
    if (x->cached) AORTA_TRY(aorta_stream_wait(stream, x->filled));
    AORTA_TRY(exchange_begin(x, role, "cache_rows", 0, &range));
    AORTA_TRY(aorta_pool_cache(stream, &pool, f->bounds[x->owners], &before->order,
                               x->cached ? before->bounds[x->owners] : 0, x->cached_batches + 2));
    AORTA_TRY(aorta_event_record(x->filled, stream));
    x->cached = f, x->cached_batches++;
    return exchange_finish(x, role, range);
}

aorta_status aorta_sparse_exchange_prefetch(struct aorta_sparse_exchange *x, int slot, enum aorta_role role) {
    struct exchange_flight *f = &x->flights[slot];
    AORTA_TRY(aorta_stream_wait(x->s.context->streams[role], f->arrived));
    AORTA_TRY(exchange_sort_ids(x, f, role));
    return x->cache.sets ? fill_cache(x, f, role) : NULL;
}
