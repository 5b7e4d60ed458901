/* The memory of the sharded strategy, and the way of full parameters in and out of it. */
#include "train/sharded.h"

#include <stdlib.h>
#include <string.h>

static struct sharded *self(struct aorta_strategy *strategy) {
    return (struct sharded *)strategy;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static aorta_status take(struct sharded *s, const char *name, size_t bytes, void **memory) {
    if (!bytes) return NULL;
    AORTA_TRY(aorta_device_alloc(s->context->device, bytes, name, memory));
    s->allocations[s->allocation_count++] = *memory;
    return NULL;
}

static aorta_status take_floats(struct sharded *s, const char *name, int64_t count, float **memory) {
    void *any = NULL;
    AORTA_TRY(take(s, name, (size_t)count * sizeof(float), &any));
    *memory = any;
    return NULL;
}

/* As take_floats, and zeroed: padding is summed and stepped over and must stay zero. */
static aorta_status take_zeros(struct sharded *s, const char *name, int64_t count, float **memory) {
    AORTA_TRY(take_floats(s, name, count, memory));
    return aorta_fill_bytes(aorta_train_compute(s->context), *memory, 0, (size_t)count * sizeof(float));
}

static void *table(struct sharded *s, size_t count, size_t size) {
    return aorta_arena_alloc(&s->arena, count * size);
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

/* ---- memory ---- */

static aorta_status take_state(struct sharded *s) {
    AORTA_TRY(take_zeros(s, "parameter shards", s->total, &s->parameters));
    AORTA_TRY(take_zeros(s, "gradient shards", s->total, &s->gradients));
    AORTA_TRY(take_zeros(s, "first moments of AdamW", s->total, &s->m));
    AORTA_TRY(take_zeros(s, "second moments of AdamW", s->total, &s->v));
    if (s->context->dtype == AORTA_F32) return NULL;
    size_t bytes = (size_t)s->total * aorta_dtype_size(s->context->dtype);
    AORTA_TRY(take(s, "parameter shards in 16 bits", bytes, &s->copy));
    return aorta_fill_bytes(aorta_train_compute(s->context), s->copy, 0, bytes);
}

struct largest {
    int64_t layer_full, shard, staging, padding;
};

static int64_t largest_padding(const struct aorta_layout *layout) {
    int64_t largest = 0;
    for (int parameter = 0; parameter < layout->count; parameter++)
        for (int rank = 0; rank < layout->ranks; rank++)
            largest = larger(largest, aorta_layout_padding_of(layout, parameter, rank).count);
    return largest;
}

static struct largest largest_of(const struct sharded *s) {
    struct largest largest = {0};
    for (int unit = 0; unit < s->units; unit++) {
        const struct aorta_layout *layout = &s->layouts[unit];
        if (unit < s->layers) largest.layer_full = larger(largest.layer_full, layout->full);
        largest.shard = larger(largest.shard, layout->shard);
        if (!layout->flat) largest.staging = larger(largest.staging, layout->shard * s->ranks);
    }
    if (!s->layouts[s->layers].flat) largest.padding = largest_padding(&s->layouts[s->layers]);
    return largest;
}

/* shard_grad_op keeps every layer gathered from forward to backward. Else two slots, one in use and one being filled,
 * or, when gathers are not limited, one for each layer. */
static int slots_needed(const struct sharded *s) {
    const struct aorta_fsdp_options *fsdp = &s->context->options->fsdp;
    bool keep = fsdp->sharding_strategy == AORTA_SHARD_GRAD_OP;
    if (keep || !fsdp->limit_all_gathers || s->layers < 2) return s->layers;
    return 2;
}

static aorta_status take_buffers(struct sharded *s) {
    struct largest largest = largest_of(s);
    const struct aorta_layout *root = &s->layouts[s->layers];
    size_t size = aorta_dtype_size(s->context->dtype);
    s->slot_count = slots_needed(s);
    for (int i = 0; i < s->slot_count; i++)
        AORTA_TRY(take(s, "gathered layer", (size_t)largest.layer_full * size, &s->slots[i]));
    AORTA_TRY(take(s, "gathered root unit", (size_t)root->full * size, &s->root_slot));
    int64_t root_bytes = root->flat ? 0 : root->shard * s->ranks * (int64_t)sizeof(float);
    int64_t staging_bytes = larger(largest.staging * (int64_t)size, root_bytes);
    AORTA_TRY(take(s, "staging of gathers and of the root unit's reduction", (size_t)staging_bytes, &s->staging));
    if (largest.padding) AORTA_TRY(take_zeros(s, "zeros for padding", largest.padding, &s->zeros));
    for (int i = 0; i < 2; i++)
        AORTA_TRY(take_zeros(s, "gradients of a layer", largest.layer_full, &s->layer_gradients[i]));
    AORTA_TRY(take_zeros(s, "gradients of the root unit", root->full, &s->root_gradients));
    if (!s->layouts[0].flat)
        AORTA_TRY(
            take_zeros(s, "reduce-scatter staging of a layer", s->layouts[0].shard * s->ranks, &s->layer_staging));
    if (s->context->options->training.gradient_accumulation == 1) return NULL;
    return take_zeros(s, "gradient shard of a micro-batch", largest.shard, &s->micro_gradients);
}

/* ---- packing ---- */

enum direction { UNPACK, PACK };

static void add_padding(const struct sharded *s, const struct aorta_layout *layout, int parameter, int rank,
                        struct aorta_piece *pieces, int64_t *count) {
    struct aorta_layout_padding padding = aorta_layout_padding_of(layout, parameter, rank);
    float *to = (float *)s->staging + rank * layout->shard + padding.shard_offset;
    if (padding.count) pieces[(*count)++] = (struct aorta_piece){s->zeros, to, padding.count};
}

/* The pieces that carry a unit between the staging buffer (shards of all ranks) and its full memory, as a table in
 * device memory. Nothing for flat layouts. */
static aorta_status make_pieces(struct sharded *s, int unit, enum direction direction, void *staging, void *full,
                                size_t size, struct aorta_piece **pieces, int64_t *count) {
    const struct aorta_layout *layout = &s->layouts[unit];
    *pieces = NULL, *count = 0;
    if (layout->flat) return NULL;
    size_t capacity = 2 * (size_t)layout->count * (size_t)s->ranks;
    struct aorta_piece *host = table(s, capacity, sizeof *host);
    if (!host) return AORTA_ERROR(AORTA_MEMORY, "a table of %zu pieces did not fit in memory", capacity);
    for (int parameter = 0; parameter < layout->count; parameter++) {
        for (int rank = 0; rank < s->ranks; rank++) {
            struct aorta_layout_run run;
            if (direction == PACK && unit == s->layers) add_padding(s, layout, parameter, rank, host, count);
            if (!aorta_layout_run_of(layout, parameter, rank, &run)) continue;
            char *split = (char *)staging + (size_t)(rank * layout->shard + run.shard_offset) * size;
            char *whole = (char *)full + (size_t)run.full_offset * size;
            host[(*count)++] = direction == UNPACK ? (struct aorta_piece){split, whole, run.count}
                                                   : (struct aorta_piece){whole, split, run.count};
        }
    }
    void *device = NULL;
    size_t bytes = (size_t)*count * sizeof *host;
    AORTA_TRY(take(s, "table of pieces", bytes, &device));
    *pieces = device;
    return aorta_copy(aorta_train_compute(s->context), device, host, bytes);
}

static aorta_status make_gather(struct sharded *s, struct gather *gather, int unit, int slot, void *memory) {
    gather->unit = unit, gather->slot = slot;
    AORTA_TRY(aorta_event_create_untimed(s->context->device, &gather->gathered));
    AORTA_TRY(aorta_event_create_untimed(s->context->device, &gather->used));
    return make_pieces(s, unit, UNPACK, s->staging, memory, aorta_dtype_size(s->context->dtype), &gather->unpack,
                       &gather->unpack_count);
}

static aorta_status make_schedule(struct sharded *s) {
    bool keep = s->context->options->fsdp.sharding_strategy == AORTA_SHARD_GRAD_OP;
    int count = keep ? s->layers : 2 * s->layers;
    for (s->gather_count = 0; s->gather_count < count; s->gather_count++) {
        int number = s->gather_count, slot = number % s->slot_count;
        int unit = number < s->layers ? number : 2 * s->layers - 1 - number;
        AORTA_TRY(make_gather(s, &s->gathers[number], unit, slot, s->slots[slot]));
    }
    AORTA_TRY(make_gather(s, &s->root, s->layers, -1, s->root_slot));
    for (int unit = 0; unit < s->units; unit++) {
        struct reduction *r = &s->reductions[unit];
        r->full = unit < s->layers ? s->layer_gradients[(s->layers - 1 - unit) % 2] : s->root_gradients;
        r->packed = unit < s->layers ? s->layer_staging : s->staging;
        AORTA_TRY(make_pieces(s, unit, PACK, r->packed, r->full, sizeof(float), &r->pack, &r->pack_count));
        if (s->layouts[unit].flat) r->packed = r->full;
    }
    struct aorta_event **events[] = {&s->made, &s->reduced, &s->now, &s->layer_gradients_free[0],
                                     &s->layer_gradients_free[1]};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        AORTA_TRY(aorta_event_create_untimed(s->context->device, events[i]));
    return NULL;
}

/* ---- import and export ---- */

static void held(struct aorta_strategy *strategy, int parameter, int64_t *first, int64_t *count) {
    struct sharded *s = self(strategy);
    const struct aorta_parameter *p = aorta_model_parameter(s->context->model, parameter);
    const struct aorta_layout *layout = &s->layouts[p->unit];
    struct aorta_layout_run run;
    *first = *count = 0;
    if (!aorta_layout_run_of(layout, p->slot, aorta_comm_rank(s->gather_comm), &run)) return;
    *first = run.full_offset - layout->parameters[p->slot].full_offset;
    *count = run.count;
}

static aorta_status import(struct aorta_strategy *strategy, int parameter, int64_t first, int64_t count,
                           const float *values) {
    struct sharded *s = self(strategy);
    const struct aorta_parameter *p = aorta_model_parameter(s->context->model, parameter);
    struct aorta_stream *stream = aorta_train_compute(s->context);
    const struct aorta_layout *layout = &s->layouts[p->unit];
    struct aorta_layout_run run;
    if (!aorta_layout_run_of(layout, p->slot, aorta_comm_rank(s->gather_comm), &run)) return NULL;
    const int64_t held_first = run.full_offset - layout->parameters[p->slot].full_offset;
    int64_t at = s->bases[p->unit] + run.shard_offset + (first - held_first);
    AORTA_TRY(aorta_copy(stream, s->parameters + at, values, (size_t)count * sizeof(float)));
    if (!s->copy) return NULL;
    char *copy = (char *)s->copy + (size_t)at * aorta_dtype_size(s->context->dtype);
    return aorta_cast(stream, copy, s->context->dtype, values, AORTA_F32, count, 1);
}

/* Cuts gathered shards (host memory) into the full parameters of a unit. */
static void cut(const struct sharded *s, int unit, const float *gathered, float *const *full) {
    const struct aorta_layout *layout = &s->layouts[unit];
    for (int parameter = 0; parameter < layout->count; parameter++) {
        for (int rank = 0; rank < s->ranks; rank++) {
            struct aorta_layout_run run;
            if (!aorta_layout_run_of(layout, parameter, rank, &run)) continue;
            int64_t offset = run.full_offset - layout->parameters[parameter].full_offset;
            memcpy(full[parameter] + offset, gathered + rank * layout->shard + run.shard_offset,
                   (size_t)run.count * sizeof(float));
        }
    }
}

static aorta_status gather_to_host(struct sharded *s, const float *shard, int64_t count, float *device, float *host) {
    struct aorta_stream *stream = aorta_train_compute(s->context);
    AORTA_TRY(aorta_all_gather(s->gather_comm, stream, shard, device, (size_t)count, AORTA_F32));
    AORTA_TRY(aorta_copy(stream, host, device, (size_t)(count * s->ranks) * sizeof(float)));
    return aorta_stream_synchronize(stream);
}

static aorta_status export(struct aorta_strategy *strategy, enum aorta_export what, int unit, float *const *full) {
    struct sharded *s = self(strategy);
    const float *shard = (what == AORTA_EXPORT_PARAMETERS ? s->parameters : s->gradients) + s->bases[unit];
    int64_t count = s->layouts[unit].shard;
    size_t bytes = (size_t)(count * s->ranks) * sizeof(float);
    void *device = NULL;
    AORTA_TRY(aorta_device_alloc(s->context->device, bytes, "unit gathered for a dump", &device));
    float *host = malloc(bytes);
    aorta_status status = host ? gather_to_host(s, shard, count, device, host)
                               : AORTA_ERROR(AORTA_MEMORY, "%zu bytes for a dump did not fit in memory", bytes);
    if (!status) cut(s, unit, host, full);
    free(host);
    aorta_device_free(s->context->device, device);
    return status;
}

static struct aorta_optimizer_memory memory(struct aorta_strategy *strategy) {
    struct sharded *s = self(strategy);
    return (struct aorta_optimizer_memory){.count = s->total,
                                           .parameters = s->parameters,
                                           .gradients = s->gradients,
                                           .m = s->m,
                                           .v = s->v,
                                           .copy = s->copy,
                                           .norm = s->norm_comm,
                                           .norm_group = s->group};
}

/* ---- life ---- */

static void destroy(struct aorta_strategy *strategy) {
    struct sharded *s = self(strategy);
    struct aorta_event *events[] = {
        s->made,          s->reduced,  s->now, s->layer_gradients_free[0], s->layer_gradients_free[1],
        s->root.gathered, s->root.used};
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
    .held = held,
    .import = import,
    .export = export,
    .micro_begin = aorta_sharded_micro_begin,
    .acquire = aorta_sharded_acquire,
    .release = aorta_sharded_release,
    .gradient_ready = NULL,
    .reduce = aorta_sharded_reduce,
    .finish = aorta_sharded_finish,
    .accumulates = false,
};

static aorta_status build(struct sharded *s) {
    size_t units = (size_t)s->units, layers = (size_t)s->layers;
    s->layouts = table(s, units, sizeof *s->layouts);
    s->bases = table(s, units, sizeof *s->bases);
    s->slots = table(s, layers, sizeof *s->slots);
    s->slot_users = table(s, layers, sizeof *s->slot_users);
    s->gathers = table(s, 2 * layers, sizeof *s->gathers);
    s->reductions = table(s, units, sizeof *s->reductions);
    s->allocations = table(s, 4 * units + 24, sizeof *s->allocations);
    if (!s->layouts || !s->bases || !s->slots || !s->slot_users || !s->gathers || !s->reductions || !s->allocations)
        return AORTA_ERROR(AORTA_MEMORY, "the tables of sharding did not fit in memory");
    make_layouts(s);
    AORTA_TRY(make_groups(s));
    AORTA_TRY(take_state(s));
    AORTA_TRY(take_buffers(s));
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
        aorta_status_free(aorta_stream_synchronize(aorta_train_compute(context))); /* fills may be on their way */
        destroy(&s->base);
        return aorta_annotate(status, "sharding over %d ranks", ranks);
    }
    *strategy = &s->base;
    return NULL;
}
