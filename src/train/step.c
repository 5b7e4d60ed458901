/* One training step: see step.h. */
#include "train/step.h"

/* Summed over the ranks before the optimizer runs. */
struct control {
    float square_sum, stop;
};

struct aorta_step {
    struct aorta_train_context *context;
    struct aorta_strategy *strategy;
    struct aorta_optimizer_memory memory;
    struct aorta_copies *copies;         /* NULL: workload.async_wait is off */
    struct aorta_shampoo_state *shampoo; /* NULL: AdamW */
    struct aorta_stress *stress;         /* NULL: no additional work */
    struct control *control;             /* device memory */
    struct aorta_event *state_updated;   /* on the optimizer's stream: the step's state is final */
    struct aorta_event *root_updated, *layers_updated;
};

static aorta_status build(struct aorta_step *step) {
    struct aorta_owned *owned = &step->context->owned;
    AORTA_TRY(aorta_own_memory(owned, sizeof *step->control, "norm and stop flag", &step->control));
    AORTA_TRY(aorta_copies_create(step->context, &step->copies));
    AORTA_TRY(aorta_stress_create(step->context, &step->stress));
    AORTA_TRY(aorta_shampoo_create(step->context, step->strategy, &step->shampoo));
    AORTA_TRY(aorta_own_event(owned, &step->state_updated));
    AORTA_TRY(aorta_own_event(owned, &step->root_updated));
    return aorta_own_event(owned, &step->layers_updated);
}

aorta_status aorta_step_create(struct aorta_train_context *context, struct aorta_strategy *strategy,
                               struct aorta_step **out) {
    struct aorta_step *step = *out = aorta_arena_alloc(&context->arena, sizeof *step);
    if (!step) return aorta_arena_check(&context->arena, "the training step");
    step->context = context, step->strategy = strategy;
    step->memory = strategy->own;
    return build(step);
}

/* ---- forward and backward ---- */

static aorta_status call_gradient_ready(void *user, int parameter) {
    struct aorta_strategy *strategy = ((struct aorta_step *)user)->strategy;
    return strategy->table->gradient_ready(strategy, parameter);
}

static aorta_status await_copy(void *user, int layer) {
    return aorta_copies_await(((struct aorta_step *)user)->copies, layer);
}

/* On a GPU an operation takes microseconds, as long as a timestamp. So a range covers a unit's pass there, and
 * operations are its inner ranges, which the kernel tracer shows. */
static bool records_operations(const struct aorta_step *step) {
    return aorta_device_get_info(step->context->device)->kind == AORTA_DEVICE_CPU;
}

static struct aorta_pass pass_of(struct aorta_step *step, int64_t micro_batch) {
    const struct aorta_train_context *c = step->context;
    float micro_batches = (float)c->options->training.gradient_accumulation;
    const struct aorta_strategy_table *table = step->strategy->table;
    return (struct aorta_pass){
        .stream = aorta_train_compute(c),
        .recorder = c->recorder,
        .inner = !records_operations(step),
        .role = AORTA_ROLE_COMPUTE,
        .state = c->state,
        .seed = (uint64_t)c->options->training.seed,
        .rank = (uint32_t)c->ranks.rank,
        .micro = (uint32_t)micro_batch,
        .loss_weight = 1 / micro_batches,
        .gradient_weight = 1 / (micro_batches * (float)aorta_comm_size(c->world)),
        .accumulate = table->accumulates && micro_batch > 0,
        .gemm_chunks = (int)c->options->workload.gemm_chunks,
        .gradient_ready = call_gradient_ready,
        .output_needed = step->copies ? await_copy : NULL,
        .user = step,
    };
}

/* A part of the step as one range, where operations have none of their own. */
static aorta_status begin_part(struct aorta_step *step, const char *tag, const char *function, int layer,
                               struct aorta_range_info info) {
    if (records_operations(step)) return NULL;
    const struct aorta_train_options *o = step->context->options;
    info.tag = tag;
    info.function = function;
    info.role = AORTA_ROLE_COMPUTE;
    info.kind = AORTA_RANGE_COMPUTE;
    info.layer = layer;
    info.dtype = step->context->dtype;
    info.dims[0][0] = (int32_t)o->training.batch_size;
    info.dims[0][1] = (int32_t)o->dataset.sequence_length;
    info.dims[0][2] = (int32_t)o->model.model_dim;
    return aorta_range_begin(step->context->recorder, aorta_train_compute(step->context), &info);
}

static aorta_status end_part(struct aorta_step *step) {
    return records_operations(step) ? NULL : aorta_train_end(step->context);
}

static aorta_status release(struct aorta_strategy *strategy, int unit, enum aorta_phase phase) {
    return strategy->table->release ? strategy->table->release(strategy, unit, phase) : NULL;
}

static aorta_status pass_layer(struct aorta_step *step, const struct aorta_pass *pass, int layer,
                               enum aorta_phase phase) {
    struct aorta_model *model = step->context->model;
    struct aorta_strategy *s = step->strategy;
    const bool backward = phase == AORTA_BACKWARD;
    struct aorta_unit_view view;
    AORTA_TRY(s->table->acquire(s, layer, phase, &view));
    AORTA_TRY(begin_part(step, aorta_model_unit_name(model, layer), backward ? "layer_backward" : "layer_forward",
                         layer, aorta_model_layer_work(model, backward)));
    AORTA_TRY(backward ? aorta_model_layer_backward(model, pass, layer, &view)
                       : aorta_model_layer_forward(model, pass, layer, &view));
    AORTA_TRY(end_part(step));
    if (step->copies && !backward) AORTA_TRY(aorta_copies_begin(step->copies, layer));
    AORTA_TRY(aorta_inject_after_layer(step->context));
    return release(s, layer, phase);
}

static aorta_status forward(struct aorta_step *step, const struct aorta_pass *pass, const struct aorta_batch *batch,
                            struct aorta_unit_view *root) {
    struct aorta_model *model = step->context->model;
    struct aorta_strategy *s = step->strategy;
    int layers = aorta_model_unit_count(model) - 1;
    AORTA_TRY(s->table->acquire(s, layers, AORTA_FORWARD, root));
    aorta_recorder_begins(step->context->recorder, "forward");
    AORTA_TRY(begin_part(step, "root", "input_forward", -1, aorta_model_input_work(model, false)));
    AORTA_TRY(aorta_model_input_forward(model, pass, batch, root));
    AORTA_TRY(end_part(step));
    for (int layer = 0; layer < layers; layer++) AORTA_TRY(pass_layer(step, pass, layer, AORTA_FORWARD));
    return NULL;
}

static aorta_status backward(struct aorta_step *step, const struct aorta_pass *pass, const struct aorta_batch *batch,
                             const struct aorta_unit_view *root) {
    struct aorta_model *model = step->context->model;
    struct aorta_strategy *s = step->strategy;
    int layers = aorta_model_unit_count(model) - 1;
    aorta_recorder_begins(step->context->recorder, "backward");
    AORTA_TRY(begin_part(step, "root", "head", -1, aorta_model_head_work(model)));
    AORTA_TRY(aorta_model_head(model, pass, batch, root));
    AORTA_TRY(end_part(step));
    for (int layer = layers - 1; layer >= 0; layer--) AORTA_TRY(pass_layer(step, pass, layer, AORTA_BACKWARD));
    AORTA_TRY(begin_part(step, "root", "input_backward", -1, aorta_model_input_work(model, true)));
    AORTA_TRY(aorta_model_input_backward(model, pass, batch, root));
    AORTA_TRY(end_part(step));
    return release(s, layers, AORTA_BACKWARD);
}

/* ---- norm ---- */

/* Adds the square sum of elements [first, first + count) of this rank's gradients. */
static aorta_status square_sum(struct aorta_step *step, const char *tag, int64_t first, int64_t count) {
    const struct aorta_train_context *c = step->context;
    struct aorta_stream *stream = aorta_train_stream(c, AORTA_FLOW_OPTIMIZER);
    AORTA_TRY(aorta_train_begin(c, AORTA_FLOW_OPTIMIZER, AORTA_RANGE_COMPUTE, tag, "square_sum",
                                count * (int64_t)sizeof(float)));
    if (first == 0) AORTA_TRY(aorta_fill(stream, &step->control->square_sum, AORTA_F32, 1, 0));
    AORTA_TRY(aorta_square_sum(stream, step->memory.gradients + first, count, &step->control->square_sum));
    return aorta_train_end(c);
}

/* The layers' sums run while the root unit is still being reduced, and so does the copy of the stop flag, which needs a
 * copy engine and takes longer than a kernel. */
static aorta_status square_sums(struct aorta_step *step, const float *stop) {
    struct aorta_strategy *s = step->strategy;
    struct aorta_stream *stream = aorta_train_stream(step->context, AORTA_FLOW_OPTIMIZER);
    const int64_t layers = step->memory.layers, count = step->memory.count;
    if (layers) {
        AORTA_TRY(s->table->finish_layers(s));
        AORTA_TRY(square_sum(step, "layers", 0, layers));
    }
    AORTA_TRY(aorta_copy(stream, &step->control->stop, stop, sizeof *stop));
    AORTA_TRY(s->table->finish(s));
    return square_sum(step, layers ? "root" : "optimizer", layers, count - layers);
}

/* ---- gradients ---- */

aorta_status aorta_step_gradients(struct aorta_step *step, const struct aorta_batch_layout *layout, const void *input,
                                  const float *stop, const struct aorta_step_hook *hook) {
    struct aorta_strategy *s = step->strategy;
    const struct aorta_train_options *o = step->context->options;
    const struct aorta_schedule schedule = {.lr = (float)o->optimizer.lr,
                                            .warmup_steps = o->scheduler.warmup_steps,
                                            .total_steps = o->scheduler.total_steps};
    AORTA_TRY(aorta_train_begin_step(step->context, schedule));
    AORTA_TRY(aorta_inject_before_forward(step->context));
    for (int64_t micro = 0; micro < layout->micro_batches; micro++) {
        struct aorta_pass pass = pass_of(step, micro);
        struct aorta_batch batch = aorta_batch_at(layout, input, micro);
        struct aorta_unit_view root;
        const int64_t dense = layout->rows * layout->dense_columns;
        AORTA_TRY(s->table->micro_begin(s, micro));
        AORTA_TRY(aorta_stress_launch(step->stress, AORTA_WAVE_FORWARD, &batch, dense));
        AORTA_TRY(forward(step, &pass, &batch, &root));
        if (micro == 0) AORTA_TRY(aorta_inject_after_forward(step->context));
        if (hook && micro == layout->micro_batches - 1) AORTA_TRY(hook->call(hook->user));
        AORTA_TRY(aorta_stress_launch(step->stress, AORTA_WAVE_BACKWARD, &batch, dense));
        AORTA_TRY(backward(step, &pass, &batch, &root));
        AORTA_TRY(aorta_stress_launch(step->stress, AORTA_WAVE_REDUCE, &batch, dense));
    }
    return square_sums(step, stop);
}

/* ---- optimizer ---- */

/* If the shard group is the world, one all-reduce sums norm and stop flag. Else each has its own group. */
static aorta_status sum_control(struct aorta_step *step) {
    struct aorta_comm *norm = step->memory.norm, *world = step->context->control;
    if (aorta_comm_size(world) == 1) return NULL;
    const bool together = norm && aorta_comm_size(norm) == aorta_comm_size(world);
    if (norm)
        AORTA_TRY(aorta_train_sum(step->context, AORTA_FLOW_OPTIMIZER, norm, step->memory.norm_group, "gradient norm",
                                  &step->control->square_sum, together ? 2 : 1));
    if (together) return NULL;
    return aorta_train_sum(step->context, AORTA_FLOW_OPTIMIZER, world, 0, "stop flag", &step->control->stop, 1);
}

/* Clipping, loss scale and whether the step is skipped, from the norm. */
static aorta_status update_state(struct aorta_step *step, struct aorta_stream *stream) {
    const struct aorta_train_options *o = step->context->options;
    struct aorta_step_update_args args = {
        .state = step->context->state,
        .square_sum = &step->control->square_sum,
        .max_norm = (float)o->training.grad_clip_norm,
        .beta1 = (float)o->optimizer.betas[0],
        .beta2 = (float)o->optimizer.betas[1],
        .dynamic_scale = o->training.mixed_precision == AORTA_PRECISION_FP16,
        .growth_interval = 2000,
    };
    return aorta_step_update(stream, &args);
}

static aorta_status descend(struct aorta_step *step, struct aorta_stream *stream, int64_t first, int64_t count) {
    const struct aorta_train_context *c = step->context;
    const struct aorta_optimizer_options *o = &c->options->optimizer;
    const struct aorta_optimizer_memory *m = &step->memory;
    void *copy = first ? m->root_copy : m->copy; /* an update starts at the first layer or at the root unit */
    if (step->shampoo) return aorta_shampoo_apply(step->shampoo, stream, first, count, copy);
    return aorta_adamw_step(stream, &(struct aorta_adamw_args){.count = count,
                                                               .beta1 = (float)o->betas[0],
                                                               .beta2 = (float)o->betas[1],
                                                               .eps = (float)o->eps,
                                                               .weight_decay = (float)o->weight_decay,
                                                               .state = c->state,
                                                               .copy_dtype = c->dtype,
                                                               .parameter = m->parameters + first,
                                                               .gradient = m->gradients + first,
                                                               .m = m->m + first,
                                                               .v = m->v + first,
                                                               .copy = copy});
}

/* Reads parameter, both averages and gradient. Writes all except the gradient, and the copy in the type in use. */
static int64_t adamw_bytes(const struct aorta_train_context *context, int64_t count) {
    const int64_t copy = context->dtype == AORTA_F32 ? 0 : (int64_t)aorta_dtype_size(context->dtype);
    return count * (7 * (int64_t)sizeof(float) + copy);
}

static const char *update_name(const struct aorta_step *step) {
    return step->shampoo ? "shampoo_step" : "adamw_step";
}

/* Clipping and the loss scale, then Shampoo's directions, which all parameters need. */
static aorta_status shampoo(struct aorta_step *step) {
    const struct aorta_train_context *c = step->context;
    const int64_t bytes = step->memory.count * 6 * (int64_t)sizeof(float); /* gradient, moments, direction */
    AORTA_TRY(aorta_train_begin(c, AORTA_FLOW_OPTIMIZER, AORTA_RANGE_COMPUTE, "optimizer", "shampoo_direction", bytes));
    AORTA_TRY(aorta_shampoo_compute(step->shampoo));
    AORTA_TRY(aorta_train_end(c));
    return aorta_shampoo_gather(step->shampoo);
}

/* On the optimizer's stream. */
static aorta_status clip_and_update(struct aorta_step *step, const char *tag, int64_t first, int64_t count) {
    const struct aorta_train_context *c = step->context;
    struct aorta_stream *stream = aorta_train_stream(c, AORTA_FLOW_OPTIMIZER);
    aorta_recorder_begins(c->recorder, "optimizer");
    if (step->shampoo) {
        AORTA_TRY(update_state(step, stream));
        AORTA_TRY(shampoo(step));
    }
    AORTA_TRY(
        aorta_train_begin(c, AORTA_FLOW_OPTIMIZER, AORTA_RANGE_COMPUTE, tag, update_name(step), adamw_bytes(c, count)));
    if (!step->shampoo) AORTA_TRY(update_state(step, stream));
    AORTA_TRY(aorta_event_record(step->state_updated, stream));
    AORTA_TRY(descend(step, stream, first, count));
    return aorta_train_end(c);
}

static aorta_status update_layers(struct aorta_step *step, enum aorta_role role) {
    const struct aorta_train_context *c = step->context;
    AORTA_TRY(aorta_train_begin_on(c, role, AORTA_RANGE_COMPUTE, "layers", update_name(step),
                                   adamw_bytes(c, step->memory.layers)));
    AORTA_TRY(descend(step, c->streams[role], 0, step->memory.layers));
    return aorta_train_end(c);
}

/* On a GPU two concurrent updates are no faster than sequential ones, and the root unit is needed first. On a CPU one
 * update does not use the whole memory bandwidth, so the layers start together with the root unit. */
static aorta_status begin_layers(struct aorta_step *step, enum aorta_role role) {
    const struct aorta_train_context *c = step->context;
    if (aorta_device_get_info(c->device)->kind == AORTA_DEVICE_CPU)
        return aorta_stream_wait(c->streams[role], step->state_updated);
    return aorta_train_follow(c->streams[role], aorta_train_stream(c, AORTA_FLOW_OPTIMIZER), step->root_updated);
}

/* Updates the root unit first, so that it can be gathered for the next step while the layers are updated. If the
 * optimizer and the gathers share a stream, the layers are updated on compute's. */
static aorta_status update(struct aorta_step *step) {
    const struct aorta_train_context *c = step->context;
    const struct aorta_optimizer_memory *m = &step->memory;
    if (!m->root_first) return clip_and_update(step, "optimizer", 0, m->count);
    struct aorta_stream *optimizer = aorta_train_stream(c, AORTA_FLOW_OPTIMIZER);
    bool shared = optimizer == aorta_train_stream(c, AORTA_FLOW_ALL_GATHER);
    enum aorta_role role = shared ? AORTA_ROLE_COMPUTE : aorta_train_role(c, AORTA_FLOW_OPTIMIZER);
    AORTA_TRY(clip_and_update(step, "root", m->layers, m->count - m->layers));
    AORTA_TRY(begin_layers(step, role));
    AORTA_TRY(step->strategy->table->root_updated(step->strategy));
    AORTA_TRY(update_layers(step, role));
    return aorta_train_follow(optimizer, c->streams[role], step->layers_updated);
}

/* The report is copied during the updates if a stream has no more work in this step, else after them. */
static struct aorta_stream *report_stream(const struct aorta_train_context *c) {
    struct aorta_stream *spare = aorta_train_stream(c, AORTA_FLOW_ALL_REDUCE);
    bool busy = spare == aorta_train_compute(c) || spare == aorta_train_stream(c, AORTA_FLOW_ALL_GATHER);
    return busy ? aorta_train_stream(c, AORTA_FLOW_OPTIMIZER) : spare;
}

static aorta_status report(struct aorta_step *step, struct aorta_step_result *result) {
    struct aorta_stream *stream = report_stream(step->context);
    if (stream != aorta_train_stream(step->context, AORTA_FLOW_OPTIMIZER))
        AORTA_TRY(aorta_stream_wait(stream, step->state_updated));
    AORTA_TRY(aorta_copy(stream, &result->state, step->context->state, sizeof result->state));
    AORTA_TRY(aorta_copy(stream, &result->stop, &step->control->stop, sizeof result->stop));
    return aorta_step_end(stream, step->context->state);
}

aorta_status aorta_step_optimize(struct aorta_step *step, struct aorta_step_result *result) {
    AORTA_TRY(sum_control(step));
    AORTA_TRY(update(step));
    AORTA_TRY(aorta_stress_reduce(step->stress));
    AORTA_TRY(report(step, result));
    AORTA_TRY(aorta_train_join_streams(step->context));
    return aorta_stress_join(step->stress);
}
