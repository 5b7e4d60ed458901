/* Everything on every rank, gradients all-reduced in buckets: DistributedDataParallel, and FSDP's no_shard.
 *
 * DDP: parameters fill buckets of bucket_cap_mb in reverse order, the first one of at most 1 MiB so that communication
 * starts early (torch.nn.parallel.DistributedDataParallel). no_shard: a bucket per unit. A bucket is all-reduced on the
 * all-reduce stream once its last gradient is made and all buckets before it are queued, so that every rank sends them
 * in one order. Gradients, parameters and optimizer state are stored in bucket order. */
#include "train/strategy.h"

struct bucket {
    const char *tag, *scatter_tag; /* the second of the additional reduce-scatter */
    int layer;                     /* -1: more than one unit, or the root */
    int64_t first, count;          /* elements */
    int parameters;                /* whose gradients it holds */
    int missing;                   /* of them in this step */
};

struct replicated {
    struct aorta_strategy base;
    struct aorta_train_context *context;
    int parameter_count;
    int *order;       /* parameters in the order of their gradients in memory */
    int64_t *offsets; /* by parameter */
    int *bucket_of;   /* by parameter */
    struct bucket *buckets;
    int bucket_count, bucket_next;
    bool last_micro_batch;
    float *bucket_memory;  /* sent memory: the gradients themselves, or copies of them */
    float *clone, *stress; /* of the additional reduce-scatter; NULL without */
    struct aorta_comm *stress_comm;
    float *used_map; /* find_unused_parameters: which parameters have gradients; NULL without */
    bool used_map_sent;
    struct aorta_event *made, *cloned, *reduced, *now;
};

static struct replicated *self(struct aorta_strategy *strategy) {
    return (struct replicated *)strategy;
}

static const struct aorta_distributed_options *distributed(const struct replicated *r) {
    return &r->context->options->distributed;
}

static bool is_ddp(const struct replicated *r) {
    return distributed(r)->mode == AORTA_MODE_DDP;
}

/* ---- order and buckets ---- */

/* DDP: the reverse of model.parameters(). no_shard: unit by unit as backward finishes them, the root last. */
static void make_order(struct replicated *r) {
    const struct aorta_model *model = r->context->model;
    int next = 0, units = aorta_model_unit_count(model);
    if (is_ddp(r)) {
        for (int i = r->parameter_count - 1; i >= 0; i--) r->order[next++] = i;
        return;
    }
    for (int turn = 0; turn < units; turn++) {
        int unit = turn < units - 1 ? units - 2 - turn : units - 1;
        for (int i = r->parameter_count - 1; i >= 0; i--)
            if (aorta_model_parameter(model, i)->unit == unit) r->order[next++] = i;
    }
}

static bool starts_bucket(const struct replicated *r, const struct bucket *open, int previous, int parameter) {
    const struct aorta_model *model = r->context->model;
    if (!open) return true;
    if (!is_ddp(r))
        return aorta_model_parameter(model, previous)->unit != aorta_model_parameter(model, parameter)->unit;
    double mib = 1 << 20, cap = distributed(r)->bucket_cap_mb * mib, first_cap = cap < mib ? cap : mib;
    return (double)(open->count * (int64_t)sizeof(float)) >= (r->bucket_count == 1 ? first_cap : cap);
}

static aorta_status name_buckets(struct replicated *r) {
    struct aorta_arena *arena = &r->context->arena;
    for (int i = 0; i < r->bucket_count; i++) {
        struct bucket *bucket = &r->buckets[i];
        bucket->tag = is_ddp(r) ? aorta_arena_printf(arena, "bucket %d", i)
                                : aorta_model_unit_name(r->context->model, bucket->layer);
        bucket->scatter_tag = aorta_arena_printf(arena, "bucket %d, overlap_reduce_scatter", i);
        if (is_ddp(r) || bucket->layer == aorta_model_unit_count(r->context->model) - 1) bucket->layer = -1;
    }
    return aorta_arena_check(arena, "the names of buckets");
}

static aorta_status make_buckets(struct replicated *r) {
    const struct aorta_model *model = r->context->model;
    struct bucket *open = NULL;
    for (int i = 0; i < r->parameter_count; i++) {
        int parameter = r->order[i];
        const struct aorta_parameter *p = aorta_model_parameter(model, parameter);
        if (starts_bucket(r, open, i ? r->order[i - 1] : -1, parameter)) {
            open = &r->buckets[r->bucket_count++];
            *open = (struct bucket){.first = r->base.own.count, .layer = p->unit};
        }
        r->offsets[parameter] = r->base.own.count;
        r->bucket_of[parameter] = r->bucket_count - 1;
        r->base.own.count += aorta_layout_align(p->rows * p->columns);
        open->count = r->base.own.count - open->first;
        open->parameters++;
    }
    return name_buckets(r);
}

/* ---- memory ---- */

/* Padding is summed and updated with the parameters and must stay zero. */
static aorta_status take(struct replicated *r, const char *name, int64_t count, size_t size, void *place) {
    return aorta_own_zeros(&r->context->owned, aorta_train_compute(r->context), (size_t)count * size, name, place);
}

static int64_t largest_bucket(const struct replicated *r) {
    int64_t largest = 0;
    for (int i = 0; i < r->bucket_count; i++)
        if (r->buckets[i].count > largest) largest = r->buckets[i].count;
    return largest;
}

static aorta_status take_memory(struct replicated *r) {
    const struct aorta_distributed_options *d = distributed(r);
    AORTA_TRY(take(r, "parameters", r->base.own.count, sizeof(float), &r->base.own.parameters));
    AORTA_TRY(take(r, "gradients", r->base.own.count, sizeof(float), &r->base.own.gradients));
    AORTA_TRY(take(r, "first moments of AdamW", r->base.own.count, sizeof(float), &r->base.own.m));
    AORTA_TRY(take(r, "second moments of AdamW", r->base.own.count, sizeof(float), &r->base.own.v));
    if (r->context->dtype != AORTA_F32)
        AORTA_TRY(take(r, "parameters in 16 bits", r->base.own.count, aorta_dtype_size(r->context->dtype),
                       &r->base.own.copy));
    r->bucket_memory = r->base.own.gradients;
    if (!is_ddp(r)) return NULL;
    if (!d->gradient_as_bucket_view)
        AORTA_TRY(take(r, "gradient buckets", r->base.own.count, sizeof(float), &r->bucket_memory));
    if (d->overlap_reduce_scatter) {
        AORTA_TRY(aorta_train_duplicate_world(r->context, &r->stress_comm));
        AORTA_TRY(take(r, "result of the additional reduce-scatter", largest_bucket(r), sizeof(float), &r->stress));
        if (d->overlap_clone_for_reduce_scatter)
            AORTA_TRY(take(r, "clone for the additional reduce-scatter", largest_bucket(r), sizeof(float), &r->clone));
    }
    if (!d->find_unused_parameters) return NULL;
    return take(r, "map of used parameters", r->parameter_count, sizeof(float), &r->used_map);
}

/* ---- export ---- */

static int64_t size_of(const struct replicated *r, int parameter) {
    const struct aorta_parameter *p = aorta_model_parameter(r->context->model, parameter);
    return p->rows * p->columns;
}

static void owned(struct aorta_strategy *strategy, int parameter, int64_t *first, int64_t *count, int64_t *place) {
    *first = 0;
    *count = size_of(self(strategy), parameter);
    *place = self(strategy)->offsets[parameter];
}

static aorta_status export(struct aorta_strategy *strategy, enum aorta_export what, int unit, float *const *full) {
    struct replicated *r = self(strategy);
    struct aorta_stream *stream = aorta_train_compute(r->context);
    const float *source = what == AORTA_EXPORT_PARAMETERS ? r->base.own.parameters : r->base.own.gradients;
    for (int i = 0; i < r->parameter_count; i++) {
        const struct aorta_parameter *p = aorta_model_parameter(r->context->model, i);
        if (p->unit != unit) continue;
        AORTA_TRY(aorta_copy(stream, full[p->slot], source + r->offsets[i], (size_t)size_of(r, i) * sizeof(float)));
    }
    return aorta_stream_synchronize(stream);
}

/* ---- the step ---- */

static aorta_status micro_begin(struct aorta_strategy *strategy, int64_t micro_batch) {
    struct replicated *r = self(strategy);
    r->last_micro_batch = micro_batch == r->context->options->training.gradient_accumulation - 1;
    r->bucket_next = 0;
    for (int i = 0; i < r->bucket_count; i++) r->buckets[i].missing = r->buckets[i].parameters;
    return NULL;
}

static aorta_status acquire(struct aorta_strategy *strategy, int unit, enum aorta_phase phase,
                            struct aorta_unit_view *view) {
    struct replicated *r = self(strategy);
    size_t size = aorta_dtype_size(r->context->dtype);
    const char *weights = r->base.own.copy ? r->base.own.copy : (void *)r->base.own.parameters;
    *view = (struct aorta_unit_view){0};
    for (int i = 0; i < r->parameter_count; i++) {
        const struct aorta_parameter *p = aorta_model_parameter(r->context->model, i);
        if (p->unit != unit) continue;
        view->weights[p->slot] = weights + (size_t)r->offsets[i] * size;
        bool root = unit == aorta_model_unit_count(r->context->model) - 1;
        if (phase == AORTA_BACKWARD || root) view->gradients[p->slot] = r->base.own.gradients + r->offsets[i];
    }
    return NULL;
}

/* Copies between a bucket and the gradients, unless the bucket is the gradients' own memory. */
static aorta_status copy_bucket(struct replicated *r, const struct bucket *bucket, const char *function, float *to,
                                const float *from) {
    if (r->bucket_memory == r->base.own.gradients) return NULL;
    size_t bytes = (size_t)bucket->count * sizeof(float);
    AORTA_TRY(
        aorta_train_begin(r->context, AORTA_FLOW_ALL_REDUCE, AORTA_RANGE_COPY, bucket->tag, function, (int64_t)bytes));
    AORTA_TRY(aorta_copy(aorta_train_stream(r->context, AORTA_FLOW_ALL_REDUCE), to + bucket->first,
                         from + bucket->first, bytes));
    return aorta_train_end(r->context);
}

/* Stress: a clone is taken on the reduce-scatter stream before the all-reduce changes the bucket. */
static aorta_status clone_bucket(struct replicated *r, const struct bucket *bucket) {
    const struct aorta_train_context *c = r->context;
    struct aorta_stream *reduce = aorta_train_stream(c, AORTA_FLOW_ALL_REDUCE);
    struct aorta_stream *scatter = aorta_train_stream(c, AORTA_FLOW_REDUCE_SCATTER);
    size_t bytes = (size_t)bucket->count * sizeof(float);
    AORTA_TRY(aorta_train_follow(scatter, reduce, r->now));
    AORTA_TRY(
        aorta_train_begin(c, AORTA_FLOW_REDUCE_SCATTER, AORTA_RANGE_COPY, bucket->tag, "clone_bucket", (int64_t)bytes));
    AORTA_TRY(aorta_copy(scatter, r->clone, r->bucket_memory + bucket->first, bytes));
    AORTA_TRY(aorta_train_end(c));
    return aorta_train_follow(reduce, scatter, r->cloned);
}

/* Stress: the additional reduce-scatter; its result is not used. On a clone it runs during the all-reduce. Without
 * a clone it runs afterwards, as it reads memory that the all-reduce writes. Elements after the last multiple of the
 * ranks are not sent. */
static aorta_status scatter_bucket(struct replicated *r, const struct bucket *bucket) {
    const struct aorta_train_context *c = r->context;
    if (!r->clone)
        AORTA_TRY(aorta_train_follow(aorta_train_stream(c, AORTA_FLOW_REDUCE_SCATTER),
                                     aorta_train_stream(c, AORTA_FLOW_ALL_REDUCE), r->now));
    const size_t count = (size_t)(bucket->count / aorta_comm_size(r->stress_comm));
    const float *send = r->clone ? r->clone : r->bucket_memory + bucket->first;
    const struct aorta_train_collective collective = {
        .flow = AORTA_FLOW_REDUCE_SCATTER,
        .comm = r->stress_comm,
        .tag = bucket->scatter_tag,
        .layer = bucket->layer,
        .call = aorta_train_call(AORTA_REDUCE_SCATTER, send, r->stress, count)};
    return aorta_train_collect(c, &collective);
}

static aorta_status reduce_bucket(struct replicated *r, const struct bucket *bucket) {
    const struct aorta_train_context *c = r->context;
    struct aorta_stream *stream = aorta_train_stream(c, AORTA_FLOW_ALL_REDUCE);
    AORTA_TRY(aorta_train_follow(stream, aorta_train_compute(c), r->made));
    AORTA_TRY(copy_bucket(r, bucket, "copy_into_bucket", r->bucket_memory, r->base.own.gradients));
    if (r->clone) AORTA_TRY(clone_bucket(r, bucket));
    float *memory = r->bucket_memory + bucket->first;
    const struct aorta_train_collective collective = {
        .flow = AORTA_FLOW_ALL_REDUCE,
        .comm = c->world,
        .tag = bucket->tag,
        .layer = bucket->layer,
        .call = aorta_train_call(AORTA_ALL_REDUCE, memory, memory, (size_t)bucket->count)};
    if (r->clone) AORTA_TRY(scatter_bucket(r, bucket));
    AORTA_TRY(aorta_train_collect(c, &collective));
    if (r->stress && !r->clone) AORTA_TRY(scatter_bucket(r, bucket));
    return copy_bucket(r, bucket, "copy_from_bucket", r->base.own.gradients, r->bucket_memory);
}

static aorta_status reduce_complete_buckets(struct replicated *r) {
    while (r->bucket_next < r->bucket_count && r->buckets[r->bucket_next].missing == 0)
        AORTA_TRY(reduce_bucket(r, &r->buckets[r->bucket_next++]));
    return NULL;
}

static aorta_status gradient_ready(struct aorta_strategy *strategy, int parameter) {
    struct replicated *r = self(strategy);
    if (!r->last_micro_batch) return NULL;
    r->buckets[r->bucket_of[parameter]].missing--;
    return distributed(r)->enable_overlap ? reduce_complete_buckets(r) : NULL;
}

/* find_unused_parameters: the ranks agree which parameters were used, as DDP does after every backward pass; with a
 * static graph once is enough. */
static aorta_status reduce_used_map(struct replicated *r) {
    if (!r->used_map || (r->used_map_sent && distributed(r)->static_graph)) return NULL;
    r->used_map_sent = true;
    struct aorta_stream *stream = aorta_train_stream(r->context, AORTA_FLOW_ALL_REDUCE);
    AORTA_TRY(aorta_fill(stream, r->used_map, AORTA_F32, r->parameter_count, 1));
    return aorta_train_sum(r->context, AORTA_FLOW_ALL_REDUCE, r->context->world, 0, "used parameters", r->used_map,
                           r->parameter_count);
}

static aorta_status finish(struct aorta_strategy *strategy) {
    struct replicated *r = self(strategy);
    AORTA_TRY(reduce_complete_buckets(r));
    AORTA_TRY(reduce_used_map(r));
    struct aorta_stream *optimizer = aorta_train_stream(r->context, AORTA_FLOW_OPTIMIZER);
    AORTA_TRY(aorta_train_follow(optimizer, aorta_train_stream(r->context, AORTA_FLOW_ALL_REDUCE), r->reduced));
    return aorta_train_follow(optimizer, aorta_train_compute(r->context), r->now);
}

/* ---- life ---- */

static const struct aorta_strategy_table replicated_table = {
    .owned = owned,
    .export = export,
    .micro_begin = micro_begin,
    .acquire = acquire,
    .gradient_ready = gradient_ready,
    .finish = finish,
    .accumulates = true,
};

static aorta_status build(struct replicated *r) {
    struct aorta_arena *arena = &r->context->arena;
    size_t count = (size_t)r->parameter_count;
    r->order = aorta_arena_alloc(arena, count * sizeof *r->order);
    r->offsets = aorta_arena_alloc(arena, count * sizeof *r->offsets);
    r->bucket_of = aorta_arena_alloc(arena, count * sizeof *r->bucket_of);
    r->buckets = aorta_arena_alloc(arena, count * sizeof *r->buckets);
    AORTA_TRY(aorta_arena_check(arena, "the tables of gradient buckets"));
    make_order(r);
    AORTA_TRY(make_buckets(r));
    AORTA_TRY(take_memory(r));
    struct aorta_event **events[] = {&r->made, &r->cloned, &r->reduced, &r->now};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        AORTA_TRY(aorta_own_event(&r->context->owned, events[i]));
    for (int i = 0; i < r->bucket_count; i++)
        aorta_train_explain(r->context, "%s: gradients of %s, %.2f MiB", r->buckets[i].tag,
                            aorta_counted(r->buckets[i].parameters, "parameter").text,
                            (double)r->buckets[i].count * sizeof(float) / 1048576);
    return aorta_stream_synchronize(aorta_train_compute(r->context));
}

aorta_status aorta_replicated_create(struct aorta_train_context *context, struct aorta_strategy **strategy) {
    struct replicated *r = aorta_arena_alloc(&context->arena, sizeof *r);
    if (!r) return aorta_arena_check(&context->arena, "the replicated strategy");
    r->base.table = &replicated_table;
    r->context = context;
    r->parameter_count = aorta_model_parameter_count(context->model);
    *strategy = &r->base;
    return aorta_annotate(build(r), "replicated parameters");
}
