#include "train/step.h"

#include "ops/ops.h"

/* This rank's part of a parameter, as a matrix; a vector has one column. */
struct matrix {
    int64_t rows, columns;
    int64_t place;     /* in the optimizer's memory */
    int64_t direction; /* in `directions` */
    int owner;         /* rank of the group that computes it */
    double *factors;   /* the owner's */
    float *roots;
};

struct aorta_shampoo_state {
    struct aorta_train_context *context;
    struct aorta_optimizer_memory memory;
    struct matrix *matrices;
    size_t count;
    int ranks;         /* that share the work; 1: each has its own */
    int64_t share;     /* elements of `directions` for each */
    float *directions; /* [ranks, share] */
    double *factors;
    float *roots;
};

/* ---- which matrices ---- */

static void add_matrix(struct aorta_shampoo_state *s, int64_t place, int64_t rows, int64_t columns) {
    if (!rows || !columns) return;
    const bool row = rows == 1; /* one row is a vector */
    s->matrices[s->count++] =
        (struct matrix){.rows = row ? columns : rows, .columns = row ? 1 : columns, .place = place};
}

/* Elements [first, first + count) of a parameter: a part of a row, whole rows, a part of a row. */
static void add_parameter(struct aorta_shampoo_state *s, const struct aorta_parameter *p, int64_t place, int64_t first,
                          int64_t count) {
    const int64_t columns = p->columns, into = first % columns;
    int64_t head = into ? columns - into : 0;
    if (head > count) head = count;
    const int64_t rows = (count - head) / columns, tail = count - head - rows * columns;
    add_matrix(s, place, 1, head);
    add_matrix(s, place + head, rows, columns);
    add_matrix(s, place + head + rows * columns, 1, tail);
}

static aorta_status find_matrices(struct aorta_shampoo_state *s, struct aorta_strategy *strategy) {
    const struct aorta_model *model = s->context->model;
    const int parameters = aorta_model_parameter_count(model);
    s->matrices = aorta_arena_alloc(&s->context->arena, ((size_t)parameters * 3 + 1) * sizeof *s->matrices);
    AORTA_TRY(aorta_arena_check(&s->context->arena, "the matrices of parameters"));
    for (int i = 0; i < parameters; i++) {
        int64_t first, count, place;
        strategy->table->owned(strategy, i, &first, &count, &place);
        add_parameter(s, aorta_model_parameter(model, i), place, first, count);
    }
    return NULL;
}

/* Assigns each matrix to the rank with the fewest elements so far. All ranks compute the same assignment. */
static aorta_status deal(struct aorta_shampoo_state *s) {
    int64_t *loads = aorta_arena_alloc(&s->context->arena, (size_t)s->ranks * sizeof *loads);
    if (!loads) return aorta_arena_check(&s->context->arena, "the loads of ranks");
    for (size_t i = 0; i < s->count; i++) {
        struct matrix *matrix = &s->matrices[i];
        for (int rank = 1; rank < s->ranks; rank++)
            if (loads[rank] < loads[matrix->owner]) matrix->owner = rank;
        matrix->direction = loads[matrix->owner];
        loads[matrix->owner] += aorta_layout_align(matrix->rows * matrix->columns);
    }
    for (int rank = 0; rank < s->ranks; rank++)
        if (loads[rank] > s->share) s->share = loads[rank];
    for (size_t i = 0; i < s->count; i++) s->matrices[i].direction += s->matrices[i].owner * s->share;
    return NULL;
}

/* ---- memory ---- */

static int own_rank(const struct aorta_shampoo_state *s) {
    return s->ranks > 1 ? aorta_comm_rank(s->context->control) : 0;
}

static aorta_status take_memory(struct aorta_shampoo_state *s) {
    size_t floats = 0, at = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->matrices[i].owner == own_rank(s))
            floats +=
                2 * AORTA_SHAMPOO_FACTOR * (size_t)aorta_shampoo_blocks(s->matrices[i].rows, s->matrices[i].columns);
    struct aorta_owned *owned = &s->context->owned;
    struct aorta_stream *compute = aorta_train_compute(s->context);
    const size_t directions = (size_t)(s->ranks * s->share) * sizeof *s->directions;
    AORTA_TRY(aorta_own_zeros(owned, compute, floats * sizeof *s->factors, "shampoo's factors", &s->factors));
    AORTA_TRY(aorta_own_zeros(owned, compute, floats * sizeof *s->roots, "shampoo's roots", &s->roots));
    AORTA_TRY(aorta_own_zeros(owned, compute, directions, "shampoo's directions", &s->directions));
    for (size_t i = 0; i < s->count; i++) {
        struct matrix *matrix = &s->matrices[i];
        if (matrix->owner != own_rank(s)) continue;
        matrix->factors = s->factors + at;
        matrix->roots = s->roots + at;
        at += 2 * AORTA_SHAMPOO_FACTOR * (size_t)aorta_shampoo_blocks(matrix->rows, matrix->columns);
    }
    return aorta_stream_synchronize(compute);
}

/* ---- life ---- */

aorta_status aorta_shampoo_create(struct aorta_train_context *context, struct aorta_strategy *strategy,
                                  struct aorta_shampoo_state **out) {
    if (context->options->optimizer.name != AORTA_OPTIMIZER_SHAMPOO) return NULL;
    struct aorta_shampoo_state *s = *out = aorta_arena_alloc(&context->arena, sizeof *s);
    if (!s) return aorta_arena_check(&context->arena, "shampoo");
    s->context = context;
    s->memory = strategy->own;
    s->ranks = s->memory.norm ? 1 : aorta_comm_size(context->control);
    AORTA_TRY(find_matrices(s, strategy));
    AORTA_TRY(deal(s));
    return take_memory(s);
}

/* ---- a step ---- */

static aorta_status compute(const struct aorta_shampoo_state *s, const struct matrix *matrix) {
    const struct aorta_optimizer_options *o = &s->context->options->optimizer;
    return aorta_shampoo_direction(aorta_train_stream(s->context, AORTA_FLOW_OPTIMIZER),
                                   &(struct aorta_shampoo_args){.rows = matrix->rows,
                                                                .columns = matrix->columns,
                                                                .beta1 = (float)o->betas[0],
                                                                .beta2 = (float)o->betas[1],
                                                                .eps = (float)o->eps,
                                                                .frequency = o->precondition_frequency,
                                                                .state = s->context->state,
                                                                .gradient = s->memory.gradients + matrix->place,
                                                                .m = s->memory.m + matrix->place,
                                                                .v = s->memory.v + matrix->place,
                                                                .factors = matrix->factors,
                                                                .roots = matrix->roots,
                                                                .direction = s->directions + matrix->direction});
}

aorta_status aorta_shampoo_compute(struct aorta_shampoo_state *s) {
    for (size_t i = 0; i < s->count; i++)
        if (s->matrices[i].owner == own_rank(s)) AORTA_TRY(compute(s, &s->matrices[i]));
    return NULL;
}

aorta_status aorta_shampoo_gather(struct aorta_shampoo_state *s) {
    if (s->ranks == 1) return NULL;
    const float *own = s->directions + own_rank(s) * s->share;
    const struct aorta_train_collective collective = {
        .flow = AORTA_FLOW_OPTIMIZER,
        .comm = s->context->control,
        .tag = "shampoo",
        .layer = -1,
        .call = aorta_train_call(AORTA_ALL_GATHER, own, s->directions, (size_t)s->share)};
    return aorta_train_collect(s->context, &collective);
}

aorta_status aorta_shampoo_apply(struct aorta_shampoo_state *s, struct aorta_stream *stream, int64_t first,
                                 int64_t count, void *copy) {
    const enum aorta_dtype dtype = s->context->dtype;
    for (size_t i = 0; i < s->count; i++) {
        const struct matrix *matrix = &s->matrices[i];
        if (matrix->place < first || matrix->place >= first + count) continue;
        const size_t before = (size_t)(matrix->place - first) * aorta_dtype_size(dtype);
        const struct aorta_descent_args args = {
            .count = matrix->rows * matrix->columns,
            .weight_decay = (float)s->context->options->optimizer.weight_decay,
            .state = s->context->state,
            .copy_dtype = dtype,
            .parameter = s->memory.parameters + matrix->place,
            .direction = s->directions + matrix->direction,
            .copy = copy ? (char *)copy + before : NULL,
        };
        AORTA_TRY(aorta_descent_step(stream, &args));
    }
    return NULL;
}
