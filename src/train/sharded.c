/* Ranks and layouts of the sharded strategy, and import and export of full parameters. */
#include "train/sharded_internal.h"

#include <stdlib.h>
#include <string.h>

static struct sharded *self(struct aorta_strategy *strategy) {
    return (struct sharded *)strategy;
}

enum { MOST_ALLOCATIONS = 16 };

static void *table(struct sharded *s, size_t count, size_t size) {
    return aorta_arena_alloc(&s->arena, count * size);
}

static int largest(const int64_t *rows, const int64_t *columns, int count) {
    int found = 0;
    for (int i = 1; i < count; i++)
        if (rows[i] * columns[i] > rows[found] * columns[found]) found = i;
    return found;
}

/* Whether the root unit is reduced in two parts, the first during the products that end the backward pass. On a GPU one
 * more collective costs some 20 us, as long as products below this size. */
static bool worth_parts(const struct sharded *s) {
    const double cost_flops = 1e10;
    const struct aorta_train_context *c = s->context;
    if (s->layouts[s->layers].piece_count == 1 || !c->options->distributed.enable_overlap) return false;
    return aorta_device_get_info(c->device)->kind == AORTA_DEVICE_CPU || aorta_model_last_flops(c->model) > cost_flops;
}

static void make_layouts(struct sharded *s) {
    const struct aorta_model *model = s->context->model;
    for (int unit = 0; unit < s->units; unit++) {
        int64_t rows[AORTA_UNIT_MAX_PARAMETERS], columns[AORTA_UNIT_MAX_PARAMETERS];
        int count = 0;
        for (int i = 0; i < aorta_model_parameter_count(model); i++) {
            const struct aorta_parameter *p = aorta_model_parameter(model, i);
            if (p->unit != unit) continue;
            rows[p->slot] = p->rows, columns[p->slot] = p->columns;
            count++;
        }
        bool flat = !s->context->options->fsdp.use_orig_params;
        s->layouts[unit] = aorta_layout_make(rows, columns, count, s->ranks, flat);
        if (unit == s->layers) s->root_largest = worth_parts(s) ? largest(rows, columns, count) : -1;
        s->bases[unit] = s->total;
        s->total += s->layouts[unit].shard;
    }
}

/* ---- groups ---- */

static aorta_status make_groups(struct sharded *s) {
    const struct aorta_train_context *c = s->context;
    int world = aorta_comm_size(c->world), rank = aorta_comm_rank(c->world);
    int *list = table(s, (size_t)world, sizeof *list);
    if (!list) return AORTA_ERROR(AORTA_MEMORY, "a list of %d ranks did not fit in memory", world);
    s->group = rank / s->ranks * s->ranks;
    for (int i = 0; i < s->ranks; i++) list[i] = s->group + i;
    AORTA_TRY(aorta_comm_split(c->world, list, s->ranks, &s->gather_comm));
    AORTA_TRY(aorta_comm_split(c->world, list, s->ranks, &s->reduce_comm));
    if (s->ranks > 1) AORTA_TRY(aorta_comm_split(c->world, list, s->ranks, &s->norm_comm));
    if (s->ranks == world) return NULL;
    s->replicate_group = rank % s->ranks;
    int groups = world / s->ranks;
    for (int i = 0; i < groups; i++) list[i] = s->replicate_group + i * s->ranks;
    return aorta_comm_split(c->world, list, groups, &s->replicate_comm);
}

/* ---- schedule ---- */

static aorta_status make_gather(struct sharded *s, struct gather *gather, int unit, int slot) {
    gather->unit = unit, gather->slot = slot;
    AORTA_TRY(aorta_event_create_untimed(s->context->device, &gather->gathered));
    return aorta_event_create_untimed(s->context->device, &gather->used);
}

static aorta_status make_schedule(struct sharded *s) {
    bool keep = s->context->options->fsdp.sharding_strategy == AORTA_SHARD_GRAD_OP;
    int count = keep ? s->layers : 2 * s->layers;
    for (s->gather_count = 0; s->gather_count < count; s->gather_count++) {
        int number = s->gather_count, slot = number % s->slot_count;
        int unit = number < s->layers ? number : 2 * s->layers - 1 - number;
        AORTA_TRY(make_gather(s, &s->gathers[number], unit, slot));
    }
    AORTA_TRY(make_gather(s, &s->root, s->layers, -1));
    struct aorta_event **events[] = {
        &s->made, &s->reduced, &s->layers_reduced, &s->now, &s->layer_gradients_free[0], &s->layer_gradients_free[1]};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        AORTA_TRY(aorta_event_create_untimed(s->context->device, events[i]));
    return NULL;
}

/* ---- import and export ---- */

static void owned(struct aorta_strategy *strategy, int parameter, int64_t *first, int64_t *count, int64_t *place) {
    struct sharded *s = self(strategy);
    const struct aorta_parameter *p = aorta_model_parameter(s->context->model, parameter);
    const struct aorta_layout *layout = &s->layouts[p->unit];
    struct aorta_layout_run run;
    *first = *count = *place = 0;
    if (!aorta_layout_run_of(layout, p->slot, aorta_comm_rank(s->gather_comm), &run)) return;
    *first = run.full_offset - layout->parameters[p->slot].full_offset;
    *count = run.count;
    *place = s->bases[p->unit] + run.shard_offset;
}

/* The unit's shard as it is gathered, in the context's dtype. */
static char *weights_of(const struct sharded *s, int unit) {
    const size_t base = (size_t)s->bases[unit];
    if (!s->copy) return (char *)(s->parameters + base);
    if (unit == s->layers) return s->root_copy;
    return (char *)s->copy + base * aorta_dtype_size(s->context->dtype);
}

static aorta_status import(struct aorta_strategy *strategy, int parameter, int64_t first, int64_t count,
                           const float *values) {
    struct sharded *s = self(strategy);
    const struct aorta_parameter *p = aorta_model_parameter(s->context->model, parameter);
    struct aorta_stream *stream = aorta_train_compute(s->context);
    const struct aorta_layout *layout = &s->layouts[p->unit];
    struct aorta_layout_run run;
    if (!aorta_layout_run_of(layout, p->slot, aorta_comm_rank(s->gather_comm), &run)) return NULL;
    const int64_t owned_first = run.full_offset - layout->parameters[p->slot].full_offset;
    const int64_t at = run.shard_offset + (first - owned_first);
    AORTA_TRY(aorta_copy(stream, s->parameters + s->bases[p->unit] + at, values, (size_t)count * sizeof(float)));
    if (!s->copy) return NULL;
    char *copy = weights_of(s, p->unit) + (size_t)at * aorta_dtype_size(s->context->dtype);
    return aorta_cast(stream, copy, s->context->dtype, values, AORTA_F32, count, 1);
}

/* The pieces that gather shards of elements of `size` bytes; returns their number. */
static int lay_out(const struct aorta_layout *layout, const void *shard, void *full, size_t size,
                   struct aorta_comm_piece pieces[AORTA_LAYOUT_MAX_PARAMETERS]) {
    for (int i = 0; i < layout->piece_count; i++) {
        const struct aorta_layout_piece *piece = &layout->pieces[i];
        pieces[i] = (struct aorta_comm_piece){(const char *)shard + (size_t)piece->shard_offset * size,
                                              (char *)full + (size_t)piece->full_offset * size, (size_t)piece->count};
    }
    return layout->piece_count;
}

int aorta_sharded_gather_pieces(const struct sharded *s, int unit, void *full,
                                struct aorta_comm_piece pieces[AORTA_LAYOUT_MAX_PARAMETERS]) {
    return lay_out(&s->layouts[unit], weights_of(s, unit), full, aorta_dtype_size(s->context->dtype), pieces);
}

static aorta_status gather_to_host(struct sharded *s, const struct aorta_layout *layout, const float *shard,
                                   float *device, float *host) {
    struct aorta_stream *stream = aorta_train_compute(s->context);
    struct aorta_comm_piece pieces[AORTA_LAYOUT_MAX_PARAMETERS];
    int count = lay_out(layout, shard, device, sizeof *shard, pieces);
    AORTA_TRY(aorta_all_gather_pieces(s->gather_comm, stream, pieces, count, AORTA_F32));
    AORTA_TRY(aorta_copy(stream, host, device, (size_t)layout->full * sizeof *host));
    return aorta_stream_synchronize(stream);
}

static aorta_status export(struct aorta_strategy *strategy, enum aorta_export what, int unit, float *const *full) {
    struct sharded *s = self(strategy);
    const float *shard = (what == AORTA_EXPORT_PARAMETERS ? s->parameters : s->gradients) + s->bases[unit];
    const struct aorta_layout *layout = &s->layouts[unit];
    size_t bytes = (size_t)layout->full * sizeof(float);
    void *device = NULL;
    AORTA_TRY(aorta_device_alloc(s->context->device, bytes, "unit gathered for a dump", &device));
    float *host = malloc(bytes);
    aorta_status status = host ? gather_to_host(s, layout, shard, device, host)
                               : AORTA_ERROR(AORTA_MEMORY, "%zu bytes for a dump did not fit in memory", bytes);
    for (int i = 0; i < layout->count && !status; i++) {
        const struct aorta_layout_parameter *p = &layout->parameters[i];
        memcpy(full[i], host + p->full_offset, (size_t)(p->rows * p->columns) * sizeof *host);
    }
    free(host);
    aorta_device_free(s->context->device, device);
    return status;
}

/* The first step starts in the state that root_updated leaves at the end of a step. */
static aorta_status ready(struct aorta_strategy *strategy) {
    struct sharded *s = self(strategy);
    if (!s->root_ahead) return NULL;
    struct aorta_stream *stream = aorta_train_compute(s->context);
    struct aorta_comm_piece pieces[AORTA_LAYOUT_MAX_PARAMETERS];
    int count = aorta_sharded_gather_pieces(s, s->layers, s->root_slot, pieces);
    AORTA_TRY(aorta_all_gather_pieces(s->gather_comm, stream, pieces, count, s->context->dtype));
    return aorta_stream_synchronize(stream);
}

static const struct aorta_place *reuse(struct aorta_strategy *strategy) {
    return self(strategy)->reuse;
}

static struct aorta_optimizer_memory memory(struct aorta_strategy *strategy) {
    struct sharded *s = self(strategy);
    return (struct aorta_optimizer_memory){.count = s->total,
                                           .layers = s->bases[s->layers],
                                           .root_first = s->root_ahead,
                                           .parameters = s->parameters,
                                           .gradients = s->gradients,
                                           .m = s->m,
                                           .v = s->v,
                                           .copy = s->copy,
                                           .root_copy = s->root_copy,
                                           .norm = s->norm_comm,
                                           .norm_group = s->group};
}

/* ---- life ---- */

static void destroy(struct aorta_strategy *strategy) {
    struct sharded *s = self(strategy);
    struct aorta_event *events[] = {s->made,
                                    s->reduced,
                                    s->layers_reduced,
                                    s->now,
                                    s->layer_gradients_free[0],
                                    s->layer_gradients_free[1],
                                    s->root.gathered,
                                    s->root.used};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i]) aorta_event_destroy(events[i]);
    for (int i = 0; s->gathers && i < 2 * s->layers; i++) {
        if (s->gathers[i].gathered) aorta_event_destroy(s->gathers[i].gathered);
        if (s->gathers[i].used) aorta_event_destroy(s->gathers[i].used);
    }
    for (int i = 0; i < s->allocation_count; i++) aorta_device_free(s->context->device, s->allocations[i]);
    aorta_comm_close(s->replicate_comm);
    aorta_comm_close(s->norm_comm);
    aorta_comm_close(s->reduce_comm);
    aorta_comm_close(s->gather_comm);
    aorta_arena_free(&s->arena);
    free(s);
}

static const struct aorta_strategy_table sharded_table = {
    .name = "sharded",
    .destroy = destroy,
    .memory = memory,
    .reuse = reuse,
    .owned = owned,
    .import = import,
    .export = export,
    .micro_begin = aorta_sharded_micro_begin,
    .acquire = aorta_sharded_acquire,
    .release = aorta_sharded_release,
    .gradient_ready = aorta_sharded_gradient_ready,
    .reduce = aorta_sharded_reduce,
    .finish_layers = aorta_sharded_finish_layers,
    .finish = aorta_sharded_finish,
    .ready = ready,
    .root_updated = aorta_sharded_root_updated,
    .accumulates = false,
};

static aorta_status build(struct sharded *s) {
    size_t units = (size_t)s->units, layers = (size_t)s->layers;
    s->layouts = table(s, units, sizeof *s->layouts);
    s->bases = table(s, units, sizeof *s->bases);
    s->slots = table(s, layers, sizeof *s->slots);
    s->slot_users = table(s, layers, sizeof *s->slot_users);
    s->gathers = table(s, 2 * layers, sizeof *s->gathers);
    s->reuse = table(s, units, sizeof *s->reuse);
    s->allocations = table(s, MOST_ALLOCATIONS, sizeof *s->allocations);
    if (!s->layouts || !s->bases || !s->slots || !s->slot_users || !s->gathers || !s->reuse || !s->allocations)
        return AORTA_ERROR(AORTA_MEMORY, "the tables of sharding did not fit in memory");
    const struct aorta_train_options *o = s->context->options;
    s->root_ahead = o->distributed.enable_overlap && o->fsdp.forward_prefetch;
    make_layouts(s);
    AORTA_TRY(make_groups(s));
    AORTA_TRY(aorta_sharded_take_memory(s));
    AORTA_TRY(make_schedule(s));
    return aorta_stream_synchronize(aorta_train_compute(s->context));
}

aorta_status aorta_sharded_create(const struct aorta_train_context *context, struct aorta_strategy **strategy) {
    *strategy = NULL;
    struct sharded *s = calloc(1, sizeof *s);
    if (!s) return AORTA_ERROR(AORTA_MEMORY, "the sharded strategy did not fit in memory");
    s->base.table = &sharded_table;
    s->context = context;
    s->units = aorta_model_unit_count(context->model);
    s->layers = s->units - 1;
    int ranks = s->ranks = aorta_train_shard_degree(context->options, aorta_comm_size(context->world));
    aorta_status status = build(s);
    if (status) {
        aorta_status_free(aorta_stream_synchronize(aorta_train_compute(context))); /* fills may be running */
        destroy(&s->base);
        return aorta_annotate(status, "sharding over %d ranks", ranks);
    }
    *strategy = &s->base;
    return NULL;
}
