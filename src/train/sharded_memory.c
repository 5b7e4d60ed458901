/* The memory of the sharded strategy: its parts, and which of them share a place at different times of a step.
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
 * the root unit's last; AdamW waits for all of them, and the next step for AdamW, which writes every 16-bit shard again.
 * When micro-batches are added up, gradients and weights stay from one to the next and nothing is shared. Activations
 * that workload.async_wait copies later are not shared either. A shared place is written as a whole, but padding must
 * stay zero, so a unit or parameter with padding is not shared. */
#include "train/sharded_internal.h"

/* The unused part of the shared places. */
struct places {
    struct aorta_place root_shard, gathered, weights;
};

/* `shared`: collectives read or write it. */
static aorta_status take(struct sharded *s, bool shared, const char *name, size_t bytes, void **memory) {
    struct aorta_comm *const comms[] = {s->gather_comm, s->reduce_comm};
    if (!bytes) return NULL;
    if (shared && s->ranks > 1 && s->context->options->fsdp.symmetric_memory)
        AORTA_TRY(aorta_annotate(aorta_comm_alloc(comms, 2, bytes, name, memory), "fsdp.symmetric_memory"));
    else
        AORTA_TRY(aorta_device_alloc(s->context->device, bytes, name, memory));
    s->allocations[s->allocation_count++] = *memory;
    return NULL;
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

/* shard_grad_op keeps every layer gathered from forward to backward. Else two slots, one in use and one being filled,
 * or, when gathers are not limited, one for each layer. */
static int slots_needed(const struct sharded *s) {
    const struct aorta_fsdp_options *fsdp = &s->context->options->fsdp;
    bool keep = fsdp->sharding_strategy == AORTA_SHARD_GRAD_OP;
    if (keep || !fsdp->limit_all_gathers || s->layers < 2) return s->layers;
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

/* The piece's gradients are made after those of all layers. */
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

/* From AdamW to the gather after it, if it fits. */
static bool root_copy_in_slots(const struct sharded *s) {
    const int64_t shard = s->layouts[s->layers].shard;
    return shares(s) && s->root_ahead && weight_bytes(s, shard) <= (size_t)s->slot_count * slot_bytes(s);
}

/* Bytes of 16-bit shards; 0 in fp32. */
static size_t copy_bytes(const struct sharded *s) {
    if (s->context->dtype == AORTA_F32) return 0;
    return weight_bytes(s, root_copy_in_slots(s) ? s->bases[s->layers] : s->total);
}

/* One piece of memory, so that all of it is free after the layers: 16-bit shards, and then the
 * slots of gathered layers. */
static aorta_status take_weights(struct sharded *s, struct places *places) {
    s->slot_count = slots_needed(s);
    const size_t copies = copy_bytes(s), needed = aorta_place_round(copies) + (size_t)s->slot_count * slot_bytes(s);
    const size_t bytes = needed > bytes_after_layers(s) ? needed : bytes_after_layers(s);
    void *memory = NULL;
    AORTA_TRY(
        take(s, true, copies ? "parameter shards in 16 bits and gathered layers" : "gathered layers", bytes, &memory));
    places->weights = (struct aorta_place){memory, bytes};
    struct aorta_place rest = places->weights;
    if (copies) s->copy = aorta_place_take(&rest, aorta_place_round(copies));
    for (int i = 0; i < s->slot_count; i++) s->slots[i] = aorta_place_take(&rest, slot_bytes(s));
    AORTA_TRY(take(s, true, "gathered root unit", weight_bytes(s, s->layouts[s->layers].full), &s->root_slot));
    if (!copies) return NULL;
    s->root_copy = root_copy_in_slots(s) ? s->slots[0] : (char *)s->copy + weight_bytes(s, s->bases[s->layers]);
    return aorta_fill_bytes(aorta_train_compute(s->context), memory, 0, bytes);
}

/* ---- gradients ---- */

/* The largest piece of the root unit's shard that is reduced after the layers, as a parameter used before them is part
 * of it. Other pieces may be reduced earlier (gradient_ready). */
static struct aorta_place root_shard(const struct sharded *s) {
    const struct aorta_layout *root = &s->layouts[s->layers];
    float *shard = s->gradients + s->bases[s->layers];
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
    for (int i = 0; i < root->piece_count; i++) {
        if (made_after_layers(s, i))
            s->root_gradients[i] = aorta_place_take(&places->weights, gradient_bytes(s, i));
        else
            bytes += aorta_place_round(gradient_bytes(s, i));
    }
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
        s->reuse[unit] = (struct aorta_place){s->gradients + s->bases[unit], (size_t)layout->shard * sizeof(float)};
    }
    s->reuse[s->layers] = places->root_shard;
}

aorta_status aorta_sharded_take_memory(struct sharded *s) {
    struct places places = {0};
    AORTA_TRY(take_zeros(s, true, "parameter shards", s->total, &s->parameters));
    AORTA_TRY(take_zeros(s, true, "gradient shards", s->total, &s->gradients));
    AORTA_TRY(take_zeros(s, false, "first moments of AdamW", s->total, &s->m));
    AORTA_TRY(take_zeros(s, false, "second moments of AdamW", s->total, &s->v));
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
