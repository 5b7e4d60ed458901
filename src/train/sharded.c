/* Ranks, layouts and memory of the sharded strategy, and export of full parameters. */
#include "train/sharded_internal.h"

#include <stdlib.h>
#include <string.h>

static struct sharded *self(struct aorta_strategy *strategy) {
    return (struct sharded *)strategy;
}

static void *table(struct sharded *s, size_t count, size_t size) {
    return aorta_arena_alloc(&s->context->arena, count * size);
}

static int largest(const int64_t *rows, const int64_t *columns, int count) {
    int found = 0;
    for (int i = 1; i < count; i++)
        if (rows[i] * columns[i] > rows[found] * columns[found]) found = i;
    return found;
}

/* Whether the root unit is reduced in two parts, the first during the products that end the backward pass. On a GPU one
 * more collective costs some 20 us, as much as products of this size (two H200). These products are as much work as
 * those of the input's forward pass. */
static bool worth_parts(const struct sharded *s) {
    const double cost_flops = 1e10;
    const struct aorta_train_context *c = s->context;
    if (s->layouts[s->layers].piece_count == 1 || !c->options->distributed.enable_overlap) return false;
    return aorta_device_get_info(c->device)->kind == AORTA_DEVICE_CPU ||
           aorta_model_input_work(c->model, false).flops > cost_flops;
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
        s->bases[unit] = s->base.own.count;
        s->base.own.count += s->layouts[unit].shard;
    }
    s->base.own.layers = s->bases[s->layers];
}

/* ---- memory ----
 * The memory of the sharded strategy: its parts, and which of them share a place at different times of a step.
 *
 * place                              first                                   then
 * ---------------------------------  --------------------------------------  ---------------------------------------
 * a layer's gradient shard           its activations, from its forward to    its reduced gradients, until AdamW has
 *                                    the end of its backward pass            run
 * the root unit's gradient shard     gradients of layers in full, and        its reduced gradients, until AdamW has
 *                                    scratch memory of the layers' passes    run
 * the gathered embedding             the embedding, read by the input's      gradients of layers in full
 *                                    forward pass only
 * 16-bit shards and gathered layers  weights of the layers, until their      gradients in full of the root unit's
 *                                    last backward pass                      parameters before the layers; after
 *                                                                            AdamW 16-bit shards again, and where the
 *                                                                            gathered layers were, the root unit's
 *
 * No use overlaps the previous one: a unit's reduction waits for its backward pass; reductions run one after the other,
 * the root unit's last; AdamW waits for all of them, and the next step for AdamW, which writes every 16-bit shard
 * again. When micro-batches are added up, gradients and weights stay from one to the next and nothing is shared.
 * Activations that workload.async_wait copies later are not shared either. A shared place is written as a whole, but
 * padding must stay zero, so a unit or parameter with padding is not shared. */

/* The unused part of the shared places. */
struct places {
    struct aorta_place root_shard, gathered, weights;
};

/* `shared`: collectives read or write it. */
static aorta_status take(struct sharded *s, bool shared, const char *name, size_t bytes, void **memory) {
    struct aorta_comm *const comms[] = {s->gather_comm, s->reduce_comm};
    if (!bytes) return NULL;
    if (!shared || s->ranks == 1 || !s->context->options->fsdp.symmetric_memory)
        return aorta_own_memory(&s->context->owned, bytes, name, memory);
    AORTA_TRY(aorta_annotate(aorta_comm_alloc(comms, 2, bytes, name, memory), "fsdp.symmetric_memory"));
    return aorta_own_given(&s->context->owned, *memory);
}

/* Padding is summed and updated with the parameters and must stay zero. */
static aorta_status take_zeros(struct sharded *s, bool shared, const char *name, int64_t count, float **memory) {
    void *any = NULL;
    AORTA_TRY(take(s, shared, name, (size_t)count * sizeof(float), &any));
    *memory = any;
    return aorta_fill_bytes(aorta_train_compute(s->context), any, 0, (size_t)count * sizeof(float));
}

/* No micro-batches are added up. */
static bool shares(const struct sharded *s) {
    return s->context->options->training.gradient_accumulation == 1;
}

/* ---- padding ---- */

/* No padding in full memory. */
static bool full_is_whole(const struct aorta_layout *layout) {
    int64_t elements = 0;
    for (int i = 0; i < layout->count; i++) elements += layout->parameters[i].rows * layout->parameters[i].columns;
    return elements == layout->full;
}

/* A reduction writes all of the shard. */
static bool shard_is_whole(const struct aorta_layout *layout) {
    int64_t elements = 0;
    for (int i = 0; i < layout->piece_count; i++) elements += layout->pieces[i].count;
    return elements == layout->shard;
}

/* ---- weights ---- */

/* shard_grad_op keeps every layer gathered from forward to backward. Otherwise there
 * are two slots, one in use and one being filled, or one per layer if gathers run ahead without a limit. */
static int slots_needed(const struct sharded *s) {
    const struct aorta_fsdp_options *fsdp = &s->context->options->fsdp;
    bool keep = fsdp->sharding_strategy == AORTA_SHARD_GRAD_OP;
    bool unlimited = !fsdp->limit_all_gathers && aorta_train_gathers_ahead(s->context->options);
    if (keep || unlimited || s->layers < 2) return s->layers;
    return 2;
}

static const struct aorta_parameter *root_parameter(const struct sharded *s, int slot) {
    const struct aorta_model *model = s->context->model;
    return aorta_model_parameter(model, aorta_model_parameter_index(model, s->layers, slot));
}

/* A piece of the root unit has a parameter used before the layers, or one used after them. */
static bool reaches(const struct sharded *s, int piece, bool before_layers) {
    const struct aorta_layout *root = &s->layouts[s->layers];
    for (int i = 0; i < root->count; i++)
        if (root->parameters[i].piece == piece && root_parameter(s, i)->before_layers == before_layers) return true;
    return false;
}

static bool made_after_layers(const struct sharded *s, int piece) {
    return shares(s) && s->layouts[s->layers].pieces[piece].whole && !reaches(s, piece, false);
}

static size_t gradient_bytes(const struct sharded *s, int piece) {
    const struct aorta_layout *root = &s->layouts[s->layers];
    return (size_t)(root->pieces[piece].count * root->ranks) * sizeof(float);
}

static size_t bytes_after_layers(const struct sharded *s) {
    size_t bytes = 0;
    for (int i = 0; i < s->layouts[s->layers].piece_count; i++)
        if (made_after_layers(s, i)) bytes += aorta_place_round(gradient_bytes(s, i));
    return bytes;
}

static size_t weight_bytes(const struct sharded *s, int64_t elements) {
    return (size_t)elements * aorta_dtype_size(s->context->dtype);
}

static size_t slot_bytes(const struct sharded *s) {
    return aorta_place_round(weight_bytes(s, s->layouts[0].full)); /* all layers have one size */
}

/* Whether the root unit's 16-bit shard is in the layers' slots from AdamW to the next gather. */
static bool root_copy_in_slots(const struct sharded *s) {
    const int64_t shard = s->layouts[s->layers].shard;
    return shares(s) && s->root_ahead && weight_bytes(s, shard) <= (size_t)s->slot_count * slot_bytes(s);
}

/* Bytes of 16-bit shards; 0 in fp32. */
static size_t copy_bytes(const struct sharded *s) {
    if (s->context->dtype == AORTA_F32) return 0;
    return weight_bytes(s, root_copy_in_slots(s) ? s->bases[s->layers] : s->base.own.count);
}

/* 16-bit shards and the slots of gathered layers are one allocation, so that all of it is free after the layers.
 */
static aorta_status take_weights(struct sharded *s, struct places *places) {
    s->slot_count = slots_needed(s);
    const size_t copies = copy_bytes(s), needed = aorta_place_round(copies) + (size_t)s->slot_count * slot_bytes(s);
    const size_t bytes = needed > bytes_after_layers(s) ? needed : bytes_after_layers(s);
    void *memory = NULL;
    AORTA_TRY(
        take(s, true, copies ? "parameter shards in 16 bits and gathered layers" : "gathered layers", bytes, &memory));
    places->weights = (struct aorta_place){memory, bytes};
    struct aorta_place rest = places->weights;
    if (copies) s->base.own.copy = aorta_place_take(&rest, aorta_place_round(copies));
    for (int i = 0; i < s->slot_count; i++) s->slots[i] = aorta_place_take(&rest, slot_bytes(s));
    AORTA_TRY(take(s, true, "gathered root unit", weight_bytes(s, s->layouts[s->layers].full), &s->root_slot));
    if (!copies) return NULL;
    s->base.own.root_copy =
        root_copy_in_slots(s) ? s->slots[0] : (char *)s->base.own.copy + weight_bytes(s, s->bases[s->layers]);
    return aorta_fill_bytes(aorta_train_compute(s->context), memory, 0, bytes);
}

/* ---- gradients ---- */

/* The largest piece of the root unit's shard that is reduced after the layers, because it has
 * a parameter that is used before them. Other pieces may be reduced earlier (gradient_ready). */
static struct aorta_place root_shard(const struct sharded *s) {
    const struct aorta_layout *root = &s->layouts[s->layers];
    float *shard = s->base.own.gradients + s->bases[s->layers];
    struct aorta_place found = {0};
    for (int i = 0; i < root->piece_count; i++) {
        const size_t bytes = (size_t)root->pieces[i].count * sizeof *shard;
        if (!reaches(s, i, true) || bytes <= found.bytes) continue;
        found = (struct aorta_place){shard + root->pieces[i].shard_offset, bytes};
    }
    return found;
}

/* The largest parameter of the gathered root unit that no backward pass reads. */
static struct aorta_place gathered_forward_only(const struct sharded *s) {
    const struct aorta_layout *root = &s->layouts[s->layers];
    struct aorta_place found = {0};
    for (int i = 0; i < root->count; i++) {
        const struct aorta_layout_parameter *p = &root->parameters[i];
        const size_t bytes = weight_bytes(s, p->rows * p->columns);
        if (!root_parameter(s, i)->forward_only || bytes <= found.bytes) continue;
        found = (struct aorta_place){(char *)s->root_slot + weight_bytes(s, p->full_offset), bytes};
    }
    return found;
}

static float *shared_layer_gradients(const struct sharded *s, struct places *places) {
    const struct aorta_layout *layer = &s->layouts[0];
    if (!full_is_whole(layer)) return NULL;
    const size_t bytes = (size_t)layer->full * sizeof(float);
    void *memory = aorta_place_take(&places->gathered, bytes);
    return memory ? memory : aorta_place_take(&places->root_shard, bytes);
}

static aorta_status take_layer_gradients(struct sharded *s, struct places *places) {
    for (int i = 0; i < 2; i++) {
        s->layer_gradients[i] = shared_layer_gradients(s, places);
        if (!s->layer_gradients[i])
            AORTA_TRY(take_zeros(s, true, "gradients of a layer", s->layouts[0].full, &s->layer_gradients[i]));
    }
    return NULL;
}

static aorta_status take_root_gradients(struct sharded *s, struct places *places) {
    const struct aorta_layout *root = &s->layouts[s->layers];
    size_t bytes = 0;
    for (int i = 0; i < root->piece_count; i++)
        if (made_after_layers(s, i))
            s->root_gradients[i] = aorta_place_take(&places->weights, gradient_bytes(s, i));
        else
            bytes += aorta_place_round(gradient_bytes(s, i));
    float *own = NULL;
    AORTA_TRY(take_zeros(s, true, "gradients of the root unit", (int64_t)(bytes / sizeof *own), &own));
    struct aorta_place place = {own, bytes};
    for (int i = 0; i < root->piece_count; i++)
        if (!s->root_gradients[i]) s->root_gradients[i] = aorta_place_take(&place, gradient_bytes(s, i));
    return NULL;
}

static aorta_status take_micro_gradients(struct sharded *s) {
    const struct aorta_layout *layer = &s->layouts[0], *root = &s->layouts[s->layers];
    if (shares(s)) return NULL;
    AORTA_TRY(take_zeros(s, true, "gradient shard of a layer's micro-batch", layer->shard, &s->layer_micro_gradients));
    return take_zeros(s, true, "gradient shard of the root unit's micro-batch", root->shard, &s->root_micro_gradients);
}

/* ---- all ---- */

static void offer_reuse(struct sharded *s, const struct places *places) {
    if (!shares(s) || s->context->options->workload.async_wait) return;
    for (int unit = 0; unit < s->layers; unit++) {
        const struct aorta_layout *layout = &s->layouts[unit];
        if (!shard_is_whole(layout)) continue;
        s->reuse[unit] =
            (struct aorta_place){s->base.own.gradients + s->bases[unit], (size_t)layout->shard * sizeof(float)};
    }
    s->reuse[s->layers] = places->root_shard;
}

/* All device memory; layouts, bases and total are set. */
static aorta_status take_memory(struct sharded *s) {
    struct places places = {0};
    AORTA_TRY(take_zeros(s, true, "parameter shards", s->base.own.count, &s->base.own.parameters));
    AORTA_TRY(take_zeros(s, true, "gradient shards", s->base.own.count, &s->base.own.gradients));
    AORTA_TRY(take_zeros(s, false, "first moments of AdamW", s->base.own.count, &s->base.own.m));
    AORTA_TRY(take_zeros(s, false, "second moments of AdamW", s->base.own.count, &s->base.own.v));
    AORTA_TRY(take_weights(s, &places));
    if (shares(s)) {
        places.root_shard = root_shard(s);
        places.gathered = gathered_forward_only(s);
    }
    AORTA_TRY(take_layer_gradients(s, &places));
    AORTA_TRY(take_root_gradients(s, &places));
    AORTA_TRY(take_micro_gradients(s));
    offer_reuse(s, &places);
    return NULL;
}

/* ---- groups ---- */

static aorta_status make_groups(struct sharded *s) {
    struct aorta_train_context *c = s->context;
    int world = aorta_comm_size(c->world), rank = aorta_comm_rank(c->world);
    int *list = table(s, (size_t)world, sizeof *list);
    if (!list) return aorta_arena_check(&c->arena, "a list of the ranks");
    s->group = s->base.own.norm_group = rank / s->ranks * s->ranks;
    for (int i = 0; i < s->ranks; i++) list[i] = s->group + i;
    AORTA_TRY(aorta_train_split(c, list, s->ranks, &s->gather_comm));
    AORTA_TRY(aorta_train_split(c, list, s->ranks, &s->reduce_comm));
    if (s->ranks > 1) AORTA_TRY(aorta_train_split(c, list, s->ranks, &s->base.own.norm));
    if (s->ranks == world) return NULL;
    s->replicate_group = rank % s->ranks;
    int groups = world / s->ranks;
    for (int i = 0; i < groups; i++) list[i] = s->replicate_group + i * s->ranks;
    return aorta_train_split(c, list, groups, &s->replicate_comm);
}

/* ---- schedule ---- */

static aorta_status make_gather(struct sharded *s, struct gather *gather, int unit, int slot) {
    gather->unit = unit, gather->slot = slot;
    AORTA_TRY(aorta_own_event(&s->context->owned, &gather->gathered));
    return aorta_own_event(&s->context->owned, &gather->used);
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
        AORTA_TRY(aorta_own_event(&s->context->owned, events[i]));
    return NULL;
}

/* ---- shards and full parameters ---- */

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
    if (!s->base.own.copy) return (char *)(s->base.own.parameters + base);
    if (unit == s->layers) return s->base.own.root_copy;
    return (char *)s->base.own.copy + base * aorta_dtype_size(s->context->dtype);
}

static struct aorta_comm_call gather_call(const struct aorta_layout *layout, const void *shard, void *full,
                                          enum aorta_dtype dtype) {
    const size_t size = aorta_dtype_size(dtype);
    struct aorta_comm_call call = {.kind = AORTA_ALL_GATHER, .dtype = dtype, .piece_count = layout->piece_count};
    for (int i = 0; i < layout->piece_count; i++) {
        const struct aorta_layout_piece *piece = &layout->pieces[i];
        call.pieces[i] =
            (struct aorta_comm_piece){(const char *)shard + (size_t)piece->shard_offset * size,
                                      (char *)full + (size_t)piece->full_offset * size, (size_t)piece->count};
    }
    return call;
}

struct aorta_comm_call aorta_sharded_gather(const struct sharded *s, int unit, void *full) {
    return gather_call(&s->layouts[unit], weights_of(s, unit), full, s->context->dtype);
}

static aorta_status gather_to_host(struct sharded *s, const struct aorta_layout *layout, const float *shard,
                                   float *device, float *host) {
    struct aorta_stream *stream = aorta_train_compute(s->context);
    const struct aorta_comm_call call = gather_call(layout, shard, device, AORTA_F32);
    AORTA_TRY(aorta_collective(s->gather_comm, stream, &call));
    AORTA_TRY(aorta_copy(stream, host, device, (size_t)layout->full * sizeof *host));
    return aorta_stream_synchronize(stream);
}

static aorta_status export(struct aorta_strategy *strategy, enum aorta_export what, int unit, float *const *full) {
    struct sharded *s = self(strategy);
    const float *shard =
        (what == AORTA_EXPORT_PARAMETERS ? s->base.own.parameters : s->base.own.gradients) + s->bases[unit];
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

/* Gathers the root unit for the first step, as root_updated does at the end of each step. */
static aorta_status ready(struct aorta_strategy *strategy) {
    struct sharded *s = self(strategy);
    if (!s->root_ahead) return NULL;
    struct aorta_stream *stream = aorta_train_compute(s->context);
    const struct aorta_comm_call call = aorta_sharded_gather(s, s->layers, s->root_slot);
    AORTA_TRY(aorta_collective(s->gather_comm, stream, &call));
    return aorta_stream_synchronize(stream);
}

/* ---- life ---- */

static const struct aorta_strategy_table sharded_table = {
    .owned = owned,
    .export = export,
    .micro_begin = aorta_sharded_micro_begin,
    .acquire = aorta_sharded_acquire,
    .release = aorta_sharded_release,
    .gradient_ready = aorta_sharded_gradient_ready,
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
    s->base.reuse = s->reuse = table(s, units, sizeof *s->reuse);
    AORTA_TRY(aorta_arena_check(&s->context->arena, "the tables of sharding"));
    const struct aorta_train_options *o = s->context->options;
    s->root_ahead = s->base.own.root_first = o->distributed.enable_overlap && o->fsdp.forward_prefetch;
    make_layouts(s);
    AORTA_TRY(make_groups(s));
    AORTA_TRY(take_memory(s));
    AORTA_TRY(make_schedule(s));
    aorta_train_explain(s->context,
                        "sharding: %d layers and the root unit over %d ranks, %.2f M parameters on each; %d slots for "
                        "gathered layers of %.1f MiB, %s",
                        s->layers, s->ranks, (double)s->base.own.count / 1e6, s->slot_count,
                        (double)s->layouts[0].full * (double)aorta_dtype_size(s->context->dtype) / 1048576,
                        s->slot_count < s->layers ? "so a gather waits for the layer before the last"
                                                  : "so no gather waits for one");
    return aorta_stream_synchronize(aorta_train_compute(s->context));
}

aorta_status aorta_sharded_create(struct aorta_train_context *context, struct aorta_strategy **strategy) {
    struct sharded *s = aorta_arena_alloc(&context->arena, sizeof *s);
    if (!s) return aorta_arena_check(&context->arena, "the sharded strategy");
    s->base.table = &sharded_table;
    s->context = context;
    s->units = aorta_model_unit_count(context->model);
    s->layers = s->units - 1;
    s->ranks = aorta_train_shard_degree(context->options, aorta_comm_size(context->world));
    *strategy = &s->base;
    return aorta_annotate(build(s), "sharding over %d ranks", s->ranks);
}
