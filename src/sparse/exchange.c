/* An exchange from begin to end, and what all of its files call. */
#include "sparse/exchange_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

aorta_status exchange_take(struct aorta_sparse_exchange *x, size_t count, size_t each, const char *what, void *place) {
    void *memory;
    AORTA_TRY(aorta_device_alloc(x->s.context->device, (count ? count : 1) * each, what, &memory));
    memcpy(place, &memory, sizeof memory);
    return NULL;
}

struct aorta_stream *exchange_compute(const struct aorta_sparse_exchange *x) {
    return aorta_train_compute(x->s.context);
}

bool exchange_coded(const struct aorta_sparse_exchange *x) {
    return x->s.options->run.kernel == AORTA_KERNEL_QUANT_UVM;
}

bool exchange_has_cache(const struct aorta_sparse_exchange *x) {
    return x->s.options->run.kernel == AORTA_KERNEL_FUSED_UVM_CACHING || exchange_coded(x);
}

bool exchange_in_host_memory(const struct aorta_sparse_exchange *x) {
    return x->s.options->run.kernel == AORTA_KERNEL_FUSED_UVM || exchange_has_cache(x);
}

/* ---- ranges and collectives ---- */

aorta_status exchange_begin(const struct aorta_sparse_exchange *x, enum aorta_role role, const char *function,
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

aorta_status exchange_finish(const struct aorta_sparse_exchange *x, enum aorta_role role, int range) {
    return aorta_range_end(x->s.context->recorder, x->s.context->streams[role], range);
}

aorta_status exchange_transfer(const struct aorta_sparse_exchange *x, const struct exchange_transfer *p) {
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

size_t *exchange_counts(const struct aorta_sparse_exchange *x, struct exchange_flight *f, int which) {
    return f->counts + which * x->owners;
}

/* ---- batches in flight ---- */

static aorta_status take_flight(struct aorta_sparse_exchange *x, struct exchange_flight *f) {
    struct aorta_device *device = x->s.context->device;
    const size_t samples = (size_t)x->s.samples, owners = (size_t)x->owners;
    const size_t lists = (size_t)x->group->feature_count * samples, sent = (size_t)x->plan.part_count * samples;
    const size_t own = owners * (size_t)x->parts * samples;
    void *pinned;
    if (own > UINT32_MAX)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%zu lists of ids on one rank are more than 2^32; use smaller batches",
                           own);
    AORTA_TRY(exchange_take(x, lists + 1, sizeof *f->offsets, "offsets of lists", &f->offsets));
    AORTA_TRY(exchange_take(x, sent, sizeof *f->sent_lengths, "lengths of lists to send", &f->sent_lengths));
    AORTA_TRY(exchange_take(x, sent + 1, sizeof *f->sent_offsets, "offsets of lists to send", &f->sent_offsets));
    AORTA_TRY(exchange_take(x, own, sizeof *f->lengths, "lengths of lists", &f->lengths));
    AORTA_TRY(exchange_take(x, own + 1, sizeof *f->own_offsets, "offsets of lists", &f->own_offsets));
    AORTA_TRY(aorta_pinned_alloc(device, (owners + 1) * sizeof *f->bounds, "numbers of ids", &pinned));
    f->bounds = pinned;
    AORTA_TRY(aorta_pinned_alloc(device, (owners + 1) * sizeof *f->bounds, "numbers of ids", &pinned));
    f->sent_bounds = pinned;
    f->counts = calloc(6 * owners, sizeof *f->counts);
    if (!f->counts) return exchange_no_memory();
    AORTA_TRY(aorta_event_create_untimed(device, &f->counted));
    return aorta_event_create_untimed(device, &f->arrived);
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

static void free_flight(struct aorta_sparse_exchange *x, struct exchange_flight *f) {
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
    AORTA_TRY(
        exchange_take(x, (size_t)(x->owners * x->s.samples * x->width), sizeof(float), "pooled rows", &x->pooled));
    return exchange_take(x, (size_t)(x->s.samples * columns), sizeof(float), "received pooled rows", &x->received);
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
    AORTA_TRY(exchange_take_tables(x));
    AORTA_TRY(exchange_start_tables(x));
    AORTA_TRY(exchange_make_split(x));
    AORTA_TRY(exchange_make_blocks(x));
    AORTA_TRY(take_rows(x));
    for (int i = 0; i < AORTA_SPARSE_SLOTS; i++) AORTA_TRY(take_flight(x, &x->flights[i]));
    AORTA_TRY(aorta_event_create_untimed(device, &x->looked_up));
    AORTA_TRY(aorta_event_create_untimed(device, &x->filled));
    AORTA_TRY(aorta_event_create_untimed(device, &x->collected));
    AORTA_TRY(aorta_event_create_untimed(device, &x->ready));
    return aorta_event_create_untimed(device, &x->returned);
}

aorta_status aorta_sparse_exchange_create(const struct aorta_sparse_exchange_settings *settings,
                                          struct aorta_sparse_exchange **out) {
    struct aorta_sparse_exchange *x = calloc(1, sizeof *x);
    *out = x;
    if (!x) return exchange_no_memory();
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
                      x->cache.counts, exchange_in_host_memory(x) ? NULL : x->table};
    if (exchange_in_host_memory(x)) aorta_pinned_free(device, x->table);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) aorta_device_free(device, memory[i]);
    struct aorta_event *events[] = {x->looked_up, x->filled, x->collected, x->ready, x->returned};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i]) aorta_event_destroy(events[i]);
    aorta_sparse_plan_free(&x->plan);
    free(x->host_slots);
    free(x);
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
