/* The schedule of FSDP: when each unit's parameters are gathered, and where its gradients go.
 *
 * Layers' gathers are numbered in the order of use: forward 0 … L−1, then (unless parameters stay gathered) backward L
 * … 2L−1. A gather may start as soon as its slot is free; options can make it wait longer. */
#include "train/sharded_internal.h"
#include "train/strategy.h"

#include <string.h>

static struct sharded *self(struct aorta_strategy *strategy) {
    return (struct sharded *)strategy;
}

static const struct aorta_fsdp_options *fsdp(const struct sharded *s) {
    return &s->context->options->fsdp;
}

static struct aorta_stream *compute(const struct sharded *s) {
    return aorta_train_compute(s->context);
}

static bool overlapping(const struct sharded *s) {
    return s->context->options->distributed.enable_overlap;
}

static struct aorta_stream *stream_of(const struct sharded *s, enum aorta_flow flow) {
    return aorta_train_stream(s->context, flow);
}

/* A collective of a unit on the group of the flow: all-reduces are those of ranks that hold the same shard. */
static aorta_status collect(const struct sharded *s, enum aorta_flow flow, int unit, struct aorta_comm_call call) {
    const bool gather = flow == AORTA_FLOW_ALL_GATHER, sum = flow == AORTA_FLOW_ALL_REDUCE;
    const struct aorta_train_collective collective = {
        .flow = flow,
        .comm = gather ? s->gather_comm
                : sum  ? s->replicate_comm
                       : s->reduce_comm,
        .group = sum ? s->replicate_group : s->group,
        .group_stride = sum ? s->ranks : 0,
        .tag = aorta_model_unit_name(s->context->model, unit),
        .layer = unit < s->layers ? unit : -1,
        .call = call,
    };
    return aorta_train_collect(s->context, &collective);
}

/* Queues the all-gather of a unit into `slot` and records `gathered`. */
static aorta_status run_gather(struct sharded *s, const struct gather *gather, void *slot) {
    struct aorta_stream *stream = stream_of(s, AORTA_FLOW_ALL_GATHER);
    if (!overlapping(s)) AORTA_TRY(aorta_train_follow(stream, compute(s), s->now));
    AORTA_TRY(collect(s, AORTA_FLOW_ALL_GATHER, gather->unit, aorta_sharded_gather(s, gather->unit, slot)));
    return aorta_event_record(gather->gathered, stream);
}

/* Makes gather `number` wait, beyond its slot, as the options require; no wait if it is prefetched freely. */
static aorta_status wait_for_policy(struct sharded *s, int number) {
    struct aorta_stream *stream = stream_of(s, AORTA_FLOW_ALL_GATHER);
    if (number == 0) return NULL;
    if (number < s->layers)
        return fsdp(s)->forward_prefetch ? NULL : aorta_stream_wait(stream, s->gathers[number - 1].used);
    if (fsdp(s)->backward_prefetch == AORTA_BACKWARD_PRE) return NULL;
    if (number == s->layers) return aorta_train_follow(stream, compute(s), s->now);
    AORTA_TRY(aorta_stream_wait(stream, s->gathers[number - 1].used));
    /* Without prefetch the gather comes after the reduction of the unit before it, as on one communicator. */
    return fsdp(s)->backward_prefetch == AORTA_BACKWARD_NONE ? aorta_stream_wait(stream, s->reduced) : NULL;
}

static aorta_status issue_gather(struct sharded *s, int number) {
    const struct gather *gather = &s->gathers[number];
    int user = s->slot_users[gather->slot];
    if (user >= 0) AORTA_TRY(aorta_stream_wait(stream_of(s, AORTA_FLOW_ALL_GATHER), s->gathers[user].used));
    AORTA_TRY(wait_for_policy(s, number));
    AORTA_TRY(run_gather(s, gather, s->slots[gather->slot]));
    s->slot_users[gather->slot] = number;
    return NULL;
}

static aorta_status issue_gathers_through(struct sharded *s, int last) {
    if (last >= s->gather_count) last = s->gather_count - 1;
    while (s->gather_issued <= last) AORTA_TRY(issue_gather(s, s->gather_issued++));
    return NULL;
}

/* How many gathers beyond the one needed are queued before the pass that needs it. */
static int lookahead(const struct sharded *s, enum aorta_phase phase) {
    bool prefetch =
        phase == AORTA_FORWARD ? fsdp(s)->forward_prefetch : fsdp(s)->backward_prefetch == AORTA_BACKWARD_PRE;
    if (!prefetch || !overlapping(s)) return 0;
    return fsdp(s)->limit_all_gathers ? 1 : s->layers;
}

static int gather_number(const struct sharded *s, int unit, enum aorta_phase phase) {
    bool again = phase == AORTA_BACKWARD && s->gather_count > s->layers;
    return again ? 2 * s->layers - 1 - unit : unit;
}

aorta_status aorta_sharded_micro_begin(struct aorta_strategy *strategy, int64_t micro_batch) {
    struct sharded *s = self(strategy);
    s->micro_batch = micro_batch;
    s->gather_issued = 0;
    memset(s->root_made, 0, sizeof s->root_made);
    memset(s->root_reduced, 0, sizeof s->root_reduced);
    if (micro_batch == 0) {
        for (int i = 0; i < s->slot_count; i++) s->slot_users[i] = -1;
        s->layer_gradients_used[0] = s->layer_gradients_used[1] = false;
    } else if (!s->root_ahead) { /* its slot is free after its backward pass */
        AORTA_TRY(aorta_stream_wait(stream_of(s, AORTA_FLOW_ALL_GATHER), s->root.used));
    }
    return s->root_ahead ? NULL : run_gather(s, &s->root, s->root_slot);
}

static void view_weights(const struct sharded *s, int unit, const void *weights, struct aorta_unit_view *view) {
    const struct aorta_layout *layout = &s->layouts[unit];
    const size_t size = aorta_dtype_size(s->context->dtype);
    *view = (struct aorta_unit_view){0};
    for (int i = 0; i < layout->count; i++)
        view->weights[i] = (const char *)weights + (size_t)layout->parameters[i].full_offset * size;
}

static int gradient_buffer(const struct sharded *s, int unit) {
    return (s->layers - 1 - unit) % 2;
}

static float *full_gradients(const struct sharded *s, int unit, int piece) {
    if (unit == s->layers) return s->root_gradients[piece];
    return s->layer_gradients[gradient_buffer(s, unit)] + s->layouts[unit].pieces[piece].full_offset;
}

static void view_gradients(const struct sharded *s, int unit, struct aorta_unit_view *view) {
    const struct aorta_layout *layout = &s->layouts[unit];
    for (int i = 0; i < layout->count; i++) {
        const struct aorta_layout_parameter *p = &layout->parameters[i];
        view->gradients[i] = full_gradients(s, unit, p->piece) + p->full_offset - layout->pieces[p->piece].full_offset;
    }
}

/* If gathered ahead, the gather is part of the previous step, which compute has waited for as a whole. */
static aorta_status acquire_root(struct sharded *s, struct aorta_unit_view *view) {
    if (!s->root_ahead) AORTA_TRY(aorta_stream_wait(compute(s), s->root.gathered));
    view_weights(s, s->layers, s->root_slot, view);
    view_gradients(s, s->layers, view);
    return NULL;
}

aorta_status aorta_sharded_acquire(struct aorta_strategy *strategy, int unit, enum aorta_phase phase,
                                   struct aorta_unit_view *view) {
    struct sharded *s = self(strategy);
    if (unit == s->layers) return acquire_root(s, view);
    int number = gather_number(s, unit, phase);
    int last = number + lookahead(s, phase);
    /* Backward gathers do not begin before backward does. */
    if (phase == AORTA_FORWARD && last >= s->layers) last = s->layers - 1;
    AORTA_TRY(issue_gathers_through(s, last));
    AORTA_TRY(aorta_stream_wait(compute(s), s->gathers[number].gathered));
    view_weights(s, unit, s->slots[s->gathers[number].slot], view);
    if (phase == AORTA_FORWARD) return NULL;
    int buffer = gradient_buffer(s, unit);
    if (s->layer_gradients_used[buffer]) AORTA_TRY(aorta_stream_wait(compute(s), s->layer_gradients_free[buffer]));
    s->layer_gradients_used[buffer] = true;
    view_gradients(s, unit, view);
    return NULL;
}

static aorta_status mark_used(struct sharded *s, int unit, enum aorta_phase phase) {
    if (unit == s->layers) return aorta_event_record(s->root.used, compute(s));
    int number = gather_number(s, unit, phase);
    AORTA_TRY(aorta_event_record(s->gathers[number].used, compute(s)));
    bool post = phase == AORTA_BACKWARD && fsdp(s)->backward_prefetch == AORTA_BACKWARD_POST && overlapping(s);
    return post ? issue_gathers_through(s, number + 1) : NULL;
}

/* Where the sums of this micro-batch go. */
static float *reduced_gradients(const struct sharded *s, int unit) {
    if (!s->micro_batch) return s->base.own.gradients + s->bases[unit];
    return unit < s->layers ? s->layer_micro_gradients : s->root_micro_gradients;
}

/* The pieces of the unit whose reduction is not queued yet; `made`: only pieces whose gradients are made. */
static struct aorta_comm_call reduction(struct sharded *s, int unit, bool made) {
    const struct aorta_layout *layout = &s->layouts[unit];
    struct aorta_comm_call call = {.kind = AORTA_REDUCE_SCATTER, .dtype = AORTA_F32};
    float *shard = reduced_gradients(s, unit);
    for (int i = 0; i < layout->piece_count; i++) {
        if (unit == s->layers && (s->root_reduced[i] || (made && !s->root_made[i]))) continue;
        const struct aorta_layout_piece *piece = &layout->pieces[i];
        call.pieces[call.piece_count++] =
            (struct aorta_comm_piece){full_gradients(s, unit, i), shard + piece->shard_offset, (size_t)piece->count};
        if (unit == s->layers) s->root_reduced[i] = true;
    }
    return call;
}

static aorta_status scatter(struct sharded *s, int unit, bool made) {
    AORTA_TRY(aorta_train_follow(stream_of(s, AORTA_FLOW_REDUCE_SCATTER), compute(s), s->made));
    const struct aorta_comm_call call = reduction(s, unit, made);
    return call.piece_count ? collect(s, AORTA_FLOW_REDUCE_SCATTER, unit, call) : NULL;
}

/* With a reduction in two parts, the first part starts when the root unit's largest gradient (the embedding's) is made:
 * it reduces all gradients made by then, during the last products. The second part follows these. */
aorta_status aorta_sharded_gradient_ready(struct aorta_strategy *strategy, int parameter) {
    struct sharded *s = self(strategy);
    const struct aorta_parameter *p = aorta_model_parameter(s->context->model, parameter);
    if (p->unit != s->layers || s->root_largest < 0) return NULL;
    s->root_made[s->layouts[p->unit].parameters[p->slot].piece] = true;
    return p->slot == s->root_largest ? scatter(s, p->unit, true) : NULL;
}

static aorta_status add_to_earlier(struct sharded *s, int unit, const float *shard) {
    int64_t count = s->layouts[unit].shard;
    AORTA_TRY(aorta_train_begin(s->context, AORTA_FLOW_REDUCE_SCATTER, AORTA_RANGE_COMPUTE,
                                aorta_model_unit_name(s->context->model, unit), "accumulate_gradients", 0));
    AORTA_TRY(aorta_add(stream_of(s, AORTA_FLOW_REDUCE_SCATTER), s->base.own.gradients + s->bases[unit], shard,
                        AORTA_F32, count, 1));
    return aorta_train_end(s->context);
}

/* Hybrid: the shard is summed over the ranks that hold the same one, at the end of `last`. When micro-batches are added
 * up, all use one memory, and the next reduction must not write it before that. */
static aorta_status sum_over_groups(struct sharded *s, int unit, struct aorta_stream **last) {
    struct aorta_stream *scattering = *last, *summing = stream_of(s, AORTA_FLOW_ALL_REDUCE);
    float *shard = reduced_gradients(s, unit);
    if (!s->replicate_comm) return NULL;
    AORTA_TRY(aorta_train_follow(summing, scattering, s->now));
    AORTA_TRY(collect(s, AORTA_FLOW_ALL_REDUCE, unit,
                      aorta_train_call(AORTA_ALL_REDUCE, shard, shard, (size_t)s->layouts[unit].shard)));
    if (s->layer_micro_gradients) return aorta_train_follow(scattering, summing, s->now);
    *last = summing;
    return NULL;
}

static aorta_status reduce(struct sharded *s, int unit) {
    struct aorta_stream *last = stream_of(s, AORTA_FLOW_REDUCE_SCATTER);
    AORTA_TRY(scatter(s, unit, false));
    if (unit < s->layers) AORTA_TRY(aorta_event_record(s->layer_gradients_free[gradient_buffer(s, unit)], last));
    AORTA_TRY(sum_over_groups(s, unit, &last));
    if (s->micro_batch) AORTA_TRY(add_to_earlier(s, unit, reduced_gradients(s, unit)));
    if (unit == 0) AORTA_TRY(aorta_event_record(s->layers_reduced, last)); /* backward ends with it */
    AORTA_TRY(aorta_event_record(s->reduced, last));
    /* The root's gradients have one buffer: the next micro-batch must not write it before it is read. */
    bool hold = !overlapping(s) || unit == s->layers;
    return hold ? aorta_stream_wait(compute(s), s->reduced) : NULL;
}

aorta_status aorta_sharded_release(struct aorta_strategy *strategy, int unit, enum aorta_phase phase) {
    struct sharded *s = self(strategy);
    AORTA_TRY(mark_used(s, unit, phase));
    return phase == AORTA_BACKWARD ? reduce(s, unit) : NULL;
}

aorta_status aorta_sharded_finish_layers(struct aorta_strategy *strategy) {
    struct sharded *s = self(strategy);
    return aorta_stream_wait(stream_of(s, AORTA_FLOW_OPTIMIZER), s->layers_reduced);
}

aorta_status aorta_sharded_finish(struct aorta_strategy *strategy) {
    struct sharded *s = self(strategy);
    struct aorta_stream *optimizer = stream_of(s, AORTA_FLOW_OPTIMIZER);
    AORTA_TRY(aorta_train_follow(optimizer, stream_of(s, AORTA_FLOW_REDUCE_SCATTER), s->now));
    if (!s->replicate_comm) return NULL;
    return aorta_train_follow(optimizer, stream_of(s, AORTA_FLOW_ALL_REDUCE), s->now);
}

/* The root's slot is free: the optimizer has waited for the reduction of the root's gradients. */
aorta_status aorta_sharded_root_updated(struct aorta_strategy *strategy) {
    struct sharded *s = self(strategy);
    struct aorta_stream *stream = stream_of(s, AORTA_FLOW_ALL_GATHER);
    AORTA_TRY(aorta_train_follow(stream, stream_of(s, AORTA_FLOW_OPTIMIZER), s->now));
    return run_gather(s, &s->root, s->root_slot);
}

/* ---- the layout of a unit ---- */

static int64_t ceil_divide(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* `count`: elements of a rank's share of the piece. */
static int add_piece(struct aorta_layout *layout, int64_t count, int64_t elements) {
    layout->pieces[layout->piece_count] =
        (struct aorta_layout_piece){layout->shard, layout->full, count, elements == count * layout->ranks};
    layout->full += aorta_layout_align(count * layout->ranks);
    layout->shard += aorta_layout_align(count);
    return layout->piece_count++;
}

static void add_rows(struct aorta_layout *layout, int parameter) {
    struct aorta_layout_parameter *p = &layout->parameters[parameter];
    p->full_offset = layout->full;
    p->piece = add_piece(layout, ceil_divide(p->rows, layout->ranks) * p->columns, p->rows * p->columns);
}

static void add_all(struct aorta_layout *layout) {
    int64_t end = 0, elements = 0;
    for (int i = 0; i < layout->count; i++) {
        struct aorta_layout_parameter *p = &layout->parameters[i];
        p->full_offset = end;
        elements += p->rows * p->columns;
        end += aorta_layout_align(p->rows * p->columns);
    }
    add_piece(layout, aorta_layout_align(ceil_divide(end, layout->ranks)), elements);
}

struct aorta_layout aorta_layout_make(const int64_t *rows, const int64_t *columns, int count, int ranks, bool flat) {
    struct aorta_layout layout = {.ranks = ranks, .count = count};
    const bool by_rows = !flat && ranks > 1;
    for (int i = 0; i < count; i++) {
        layout.parameters[i] = (struct aorta_layout_parameter){.rows = rows[i], .columns = columns[i]};
        if (by_rows) add_rows(&layout, i);
    }
    if (!by_rows) add_all(&layout);
    return layout;
}

/* A chunk of rows may end after the parameter. An even share may also start before it. */
bool aorta_layout_run_of(const struct aorta_layout *layout, int parameter, int rank, struct aorta_layout_run *run) {
    const struct aorta_layout_parameter *p = &layout->parameters[parameter];
    const struct aorta_layout_piece *piece = &layout->pieces[p->piece];
    const int64_t share = piece->full_offset + rank * piece->count;
    const int64_t first = larger(p->full_offset, share);
    const int64_t end = smaller(p->full_offset + p->rows * p->columns, share + piece->count);
    *run = (struct aorta_layout_run){piece->shard_offset + (first - share), first, end - first};
    return run->count > 0;
}
