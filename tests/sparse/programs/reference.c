#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct table {
    const struct aorta_sparse_table *about;
    double *rows, *gradient, *state; /* state: [row][shard] */
    const int64_t *cuts;
    int shards;
};

struct reference {
    const struct aorta_sparse_options *options;
    const struct aorta_sparse_tables *tables;
    int ranks;
    struct aorta_sparse_maker maker;
    struct aorta_arena arena;
    struct aorta_sparse_shape shape;
    struct table *groups[AORTA_SPARSE_GROUPS];
    double *parameters, *gradient;
};

static double *zeros(int64_t count) {
    return calloc((size_t)count + 1, sizeof(double));
}

/* quant_uvm: the nearest of 256 values between the least and the most of a row's shard. */
static void quantise(const struct reference *r, struct table *t, int64_t row, int shard) {
    const int64_t begin = shard ? t->cuts[shard - 1] : 0;
    double *values = t->rows + row * t->about->columns + begin, least = values[0], most = values[0];
    if (r->options->run.kernel != AORTA_KERNEL_QUANT_UVM) return;
    for (int64_t c = 1; c < t->cuts[shard] - begin; c++) least = fmin(least, values[c]), most = fmax(most, values[c]);
    const double scale = (most - least) / 255;
    for (int64_t c = 0; c < t->cuts[shard] - begin; c++)
        values[c] = scale > 0 ? least + scale * rint((values[c] - least) / scale) : least;
}

static void make_table(struct reference *r, struct table *t, const struct aorta_sparse_table *about,
                       const int64_t *cuts) {
    const int64_t count = about->rows * about->columns;
    float *values = malloc((size_t)count * sizeof *values);
    const struct aorta_random random = {.seed = (uint64_t)r->options->train.training.seed,
                                        .domain = AORTA_RANDOM_PARAMETERS,
                                        .stream = 2 * (uint64_t)about->number};
    aorta_random_uniform(&random, 0, (size_t)count, about->low, about->high, values);
    *t = (struct table){.about = about, .rows = zeros(count), .gradient = zeros(count), .cuts = cuts};
    for (int64_t i = 0; i < count; i++) t->rows[i] = (double)values[i];
    while (cuts[t->shards] < about->columns) t->shards++;
    t->shards++;
    t->state = zeros(about->rows * t->shards);
    for (int64_t row = 0; row < about->rows; row++)
        for (int shard = 0; shard < t->shards; shard++) quantise(r, t, row, shard);
    free(values);
}

struct reference *reference_make(const struct aorta_sparse_options *options, const struct aorta_sparse_tables *tables,
                                 int ranks, const int64_t *const *cuts) {
    struct reference *r = calloc(1, sizeof *r);
    r->options = options, r->tables = tables, r->ranks = ranks;
    aorta_sparse_maker_begin(&r->maker, options, tables, ranks);
    aorta_status_free(aorta_sparse_shape_make(options, tables->columns, &r->arena, &r->shape));
    r->parameters = zeros(r->shape.parameters), r->gradient = zeros(r->shape.parameters);
    float *values = malloc((size_t)r->shape.parameters * sizeof *values);
    aorta_sparse_shape_initialise(&r->shape, (uint64_t)options->train.training.seed, values);
    for (int64_t i = 0; i < r->shape.parameters; i++) r->parameters[i] = (double)values[i];
    free(values);
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) {
        const struct aorta_sparse_group *group = &tables->groups[g];
        r->groups[g] = calloc((size_t)group->table_count + 1, sizeof *r->groups[g]);
        for (int t = 0; t < group->table_count; t++)
            make_table(r, &r->groups[g][t], &group->tables[t], cuts[group->tables[t].number]);
    }
    return r;
}

void reference_free(struct reference *r) {
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) {
        for (int t = 0; t < r->tables->groups[g].table_count; t++) {
            struct table *table = &r->groups[g][t];
            free(table->rows), free(table->gradient), free(table->state);
        }
        free(r->groups[g]);
    }
    aorta_arena_free(&r->arena);
    free(r->parameters), free(r->gradient);
    free(r);
}

/* ---- dense layers, one sample at a time ---- */

static void layer_forward(const struct reference *r, int layer, const double *x, double *y, bool relu) {
    const struct aorta_sparse_layer *l = &r->shape.layers[layer];
    for (int64_t o = 0; o < l->out; o++) {
        y[o] = r->parameters[l->bias + o];
        for (int64_t i = 0; i < l->in; i++) y[o] += r->parameters[l->weight + o * l->in + i] * x[i];
        if (relu && y[o] < 0) y[o] = 0;
    }
}

/* dy of a ReLU's output becomes that of its input. */
static void layer_backward(struct reference *r, int layer, const double *x, const double *y, double *dy, double *dx,
                           bool relu) {
    const struct aorta_sparse_layer *l = &r->shape.layers[layer];
    memset(dx, 0, (size_t)l->in * sizeof *dx);
    for (int64_t o = 0; o < l->out; o++) {
        if (relu && y[o] <= 0) dy[o] = 0;
        r->gradient[l->bias + o] += dy[o];
        for (int64_t i = 0; i < l->in; i++) {
            r->gradient[l->weight + o * l->in + i] += dy[o] * x[i];
            dx[i] += dy[o] * r->parameters[l->weight + o * l->in + i];
        }
    }
}

enum { LAYERS = 16, WIDEST = 512 };

struct sample {
    double features[WIDEST], pooled[WIDEST], y[LAYERS][WIDEST], gated[WIDEST];
    double label, weight; /* weight: of its gradient */
};

static double loss_of(double score, double label) {
    return fmax(score, 0) - score * label + log1p(exp(-fabs(score)));
}

/* Returns the loss; dpooled gets the gradient of the pooled features. */
static double run_sample(struct reference *r, struct sample *s, double *dpooled) {
    const int projection = r->shape.bottom, score = r->shape.count - 1;
    const int64_t width = r->shape.width;
    static double dy[WIDEST], dx[WIDEST], dgate[WIDEST];
    for (int l = 0; l < projection; l++) layer_forward(r, l, l ? s->y[l - 1] : s->features, s->y[l], true);
    layer_forward(r, projection, s->pooled, s->y[projection], false);
    for (int64_t i = 0; i < width; i++) s->gated[i] = s->y[projection][i] * (1 + s->y[projection - 1][i]);
    for (int l = projection + 1; l <= score; l++)
        layer_forward(r, l, l == projection + 1 ? s->gated : s->y[l - 1], s->y[l], l != score);
    const double value = s->y[score][0];
    dy[0] = (1 / (1 + exp(-value)) - s->label) * s->weight;
    for (int l = score; l > projection; l--) {
        layer_backward(r, l, l == projection + 1 ? s->gated : s->y[l - 1], s->y[l], dy, dx, l != score);
        memcpy(dy, dx, sizeof dy);
    }
    for (int64_t i = 0; i < width; i++) {
        dgate[i] = dy[i] * s->y[projection][i];
        dy[i] *= 1 + s->y[projection - 1][i];
    }
    layer_backward(r, projection, s->pooled, s->y[projection], dy, dpooled, false);
    memcpy(dy, dgate, sizeof dy);
    for (int l = projection - 1; l >= 0; l--) {
        layer_backward(r, l, l ? s->y[l - 1] : s->features, s->y[l], dy, dx, true);
        memcpy(dy, dx, sizeof dy);
    }
    return loss_of(value, s->label);
}

/* ---- batches ---- */

struct batch {
    struct aorta_sparse_layout layout;
    char *memory;
    int64_t *first[AORTA_SPARSE_GROUPS]; /* [features][samples]: where each list begins */
};

static void open_batch(struct reference *r, int64_t number, int rank, struct batch *b) {
    aorta_status_free(aorta_sparse_batch_layout(&r->maker, number, rank, &b->layout));
    b->memory = malloc(b->layout.bytes);
    aorta_status_free(aorta_sparse_batch_fill(&r->maker, number, rank, &b->layout, b->memory));
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) {
        const int64_t lists = r->tables->groups[g].feature_count * b->layout.samples;
        const int32_t *lengths = (const int32_t *)(b->memory + b->layout.groups[g].lengths_at);
        b->first[g] = calloc((size_t)lists + 1, sizeof *b->first[g]);
        for (int64_t i = 0; i < lists; i++) b->first[g][i + 1] = b->first[g][i] + lengths[i];
    }
}

static void close_batch(struct batch *b) {
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) free(b->first[g]);
    free(b->memory);
}

/* Pools a sample's lists, or (`back`) adds its gradient to that of the rows. */
static void visit_lists(struct reference *r, const struct batch *b, int64_t sample, double *pooled, bool back) {
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) {
        const struct aorta_sparse_group *group = &r->tables->groups[g];
        const struct aorta_sparse_lists *lists = &b->layout.groups[g];
        const int32_t *lengths = (const int32_t *)(b->memory + lists->lengths_at);
        const int64_t *ids = (const int64_t *)(b->memory + lists->ids_at);
        const float *weights = (const float *)(b->memory + lists->weights_at);
        for (int f = 0; f < group->feature_count; f++) {
            struct table *table = &r->groups[g][group->features[f].table];
            double *columns = pooled + group->features[f].column;
            const int64_t list = f * b->layout.samples + sample, first = b->first[g][list],
                          width = table->about->columns;
            if (!back) memset(columns, 0, (size_t)width * sizeof *columns);
            for (int64_t i = first; i < first + lengths[list]; i++) {
                const double weight = group->weighted ? (double)weights[i] : 1;
                for (int64_t c = 0; c < width; c++)
                    if (back)
                        table->gradient[ids[i] * width + c] += weight * columns[c];
                    else
                        columns[c] += weight * table->rows[ids[i] * width + c];
            }
        }
    }
}

static double run_rank(struct reference *r, int64_t step, int rank) {
    static struct sample s;
    static double dpooled[WIDEST];
    struct batch b;
    double loss = 0;
    open_batch(r, step % r->options->run.num_batches, rank, &b);
    const int64_t features = r->options->model.num_float_features, samples = b.layout.samples;
    for (int64_t i = 0; i < samples; i++) {
        const float *dense = (const float *)(b.memory + b.layout.dense) + i * features;
        for (int64_t f = 0; f < features; f++) s.features[f] = (double)dense[f];
        s.label = (double)((const float *)(b.memory + b.layout.labels))[i];
        s.weight = 1.0 / ((double)samples * r->ranks);
        visit_lists(r, &b, i, s.pooled, false);
        loss += run_sample(r, &s, dpooled) / (double)samples;
        visit_lists(r, &b, i, dpooled, true);
    }
    close_batch(&b);
    return loss;
}

/* ---- updates ---- */

static void update_shard(const struct reference *r, struct table *t, int64_t row, int shard) {
    const int64_t width = t->about->columns, first = row * width + (shard ? t->cuts[shard - 1] : 0);
    const int64_t columns = t->cuts[shard] - (shard ? t->cuts[shard - 1] : 0);
    double factor = r->options->run.sparse_lr, squares = 0;
    for (int64_t c = 0; c < columns; c++) squares += t->gradient[first + c] * t->gradient[first + c];
    if (r->options->run.optimizer == AORTA_SPARSE_ROWWISE_ADAGRAD) {
        double *state = &t->state[row * t->shards + shard];
        *state += squares / (double)columns;
        factor /= sqrt(*state) + r->options->run.sparse_eps;
    }
    for (int64_t c = 0; c < columns; c++) t->rows[first + c] -= factor * t->gradient[first + c];
    if (squares > 0) quantise(r, t, row, shard);
}

static void update_tables(struct reference *r) {
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) {
        for (int number = 0; number < r->tables->groups[g].table_count; number++) {
            struct table *t = &r->groups[g][number];
            for (int64_t row = 0; row < t->about->rows; row++)
                for (int shard = 0; shard < t->shards; shard++) update_shard(r, t, row, shard);
            memset(t->gradient, 0, (size_t)(t->about->rows * t->about->columns) * sizeof *t->gradient);
        }
    }
}

double reference_step(struct reference *r, int64_t step, double *losses) {
    double squares = 0;
    memset(r->gradient, 0, (size_t)r->shape.parameters * sizeof *r->gradient);
    for (int rank = 0; rank < r->ranks; rank++) losses[rank] = run_rank(r, step, rank);
    for (int64_t i = 0; i < r->shape.parameters; i++) {
        squares += r->gradient[i] * r->gradient[i];
        r->parameters[i] -= r->options->run.dense_lr * r->gradient[i];
    }
    update_tables(r);
    return sqrt(squares);
}
