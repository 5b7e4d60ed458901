#include "base/philox.h"
#include "hwq/operations.h"
#include "ops/shared.h"

#include <math.h>

/* ---- LayerNorm ---- */

#define EPSILON 1e-5f

enum { X, RESIDUAL, GAMMA, BETA };           /* inputs of the forward pass */
enum { SUM, Y, MEAN, RSTD };                 /* and its outputs */
enum { DY, EXTRA, OF, SCALE, MEANS, RSTDS }; /* inputs of the backward pass */

struct hwq_norm hwq_norm(struct hwq_graph *g, uint64_t id, int64_t width) {
    return (struct hwq_norm){.gamma = hwq_input(g, id, 1, width, 1.0f, "scales of a norm"),
                             .beta = hwq_input(g, id + 1, 1, width, 0.1f, "shifts of a norm")};
}

static struct aorta_norm norm_shape(const struct hwq_tensor *x) {
    return (struct aorta_norm){.dtype = AORTA_F32, .rows = x->rows, .width = x->columns, .eps = EPSILON};
}

static aorta_status run_norm(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_norm_forward(stream, &(struct aorta_norm_args){.shape = norm_shape(&o->in[X]),
                                                                .x = hwq_floats(o->in[X]),
                                                                .residual = hwq_floats(o->in[RESIDUAL]),
                                                                .gamma = hwq_floats(o->in[GAMMA]),
                                                                .beta = hwq_floats(o->in[BETA]),
                                                                .sum = hwq_floats(o->out[SUM]),
                                                                .y = hwq_floats(o->out[Y]),
                                                                .mean = hwq_floats(o->out[MEAN]),
                                                                .rstd = hwq_floats(o->out[RSTD])});
}

static struct hwq_value sum_element(const struct hwq_element *e, int64_t row, int64_t column) {
    struct hwq_sum sum = {0};
    hwq_sum_add(&sum, hwq_at(e, X, row, column));
    if (e->o->in[RESIDUAL].memory) hwq_sum_add(&sum, hwq_at(e, RESIDUAL, row, column));
    return hwq_sum_end(&sum, 1e-6);
}

/* Uses the sums that the operation stored, which are compared on their own. */
static struct hwq_value norm_element(const struct hwq_element *e) {
    const int64_t row = e->row, column = e->column, width = e->o->out[SUM].columns;
    double mean = 0.0, square = 0.0, off = 0.0;
    if (e->output == SUM) return sum_element(e, row, column);
    for (int64_t j = 0; j < width; j++) {
        const struct hwq_value x = hwq_written(e, SUM, row, j);
        if (isinf(x.allowed)) return x;
        mean += x.value / (double)width;
        off = fmax(off, x.allowed);
    }
    for (int64_t j = 0; j < width; j++) {
        const double distance = hwq_written(e, SUM, row, j).value - mean;
        square += distance * distance;
    }
    const double rstd = 1.0 / sqrt(square / (double)width + (double)EPSILON);
    if (e->output == MEAN) return (struct hwq_value){mean, 1e-5 + off};
    if (e->output == RSTD) return (struct hwq_value){rstd, 1e-5 * rstd + off * rstd * rstd};
    const double normal = (hwq_written(e, SUM, row, column).value - mean) * rstd;
    const double gamma = hwq_at(e, GAMMA, 0, column).value;
    const double y = normal * gamma + hwq_at(e, BETA, 0, column).value;
    return (struct hwq_value){y, 1e-5 + 1e-5 * fabs(y) + 3.0 * off * rstd * fabs(gamma)};
}

static const struct hwq_kind norm_forward = {.name = "norm", .run = run_norm, .element = norm_element};

struct hwq_tensor hwq_norm_forward(struct hwq_graph *g, int s, const struct hwq_norm *norm, struct hwq_tensor x,
                                   struct hwq_tensor residual, struct hwq_norm_saved *saved) {
    const struct hwq_tensor y = hwq_output(g, x.rows, x.columns, "output of a norm");
    if (!saved->sum.memory) {
        saved->sum = hwq_result(g, AORTA_F32, x.rows, x.columns, "residual sum");
        saved->mean = hwq_result(g, AORTA_F32, x.rows, 1, "means");
        saved->rstd = hwq_result(g, AORTA_F32, x.rows, 1, "deviations");
    }
    const struct hwq_operation o = {.kind = &norm_forward,
                                    .stream = s,
                                    .in = {x, residual, norm->gamma, norm->beta},
                                    .out = {saved->sum, y, saved->mean, saved->rstd}};
    hwq_append(g, &o, NULL, 0);
    return y;
}

static aorta_status run_norm_backward(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_norm_backward(stream, &(struct aorta_norm_backward_args){.shape = norm_shape(&o->in[OF]),
                                                                          .dy = hwq_floats(o->in[DY]),
                                                                          .dy_extra = hwq_floats(o->in[EXTRA]),
                                                                          .sum = hwq_floats(o->in[OF]),
                                                                          .gamma = hwq_floats(o->in[SCALE]),
                                                                          .mean = hwq_floats(o->in[MEANS]),
                                                                          .rstd = hwq_floats(o->in[RSTDS]),
                                                                          .dsum = hwq_floats(o->out[0]),
                                                                          .dgamma = hwq_floats(o->out[1]),
                                                                          .dbeta = hwq_floats(o->out[2])});
}

static struct hwq_value slope(const struct hwq_element *e, int64_t row, int64_t column) {
    struct hwq_sum sum = {0};
    hwq_sum_add(&sum, hwq_at(e, DY, row, column));
    if (e->o->in[EXTRA].memory) hwq_sum_add(&sum, hwq_at(e, EXTRA, row, column));
    return hwq_sum_end(&sum, 1e-7);
}

/* dgamma and dbeta: sums over the rows of dy·n and dy. */
static struct hwq_value norm_parameter(const struct hwq_element *e, int output, int64_t column) {
    struct hwq_sum sum = {0};
    for (int64_t row = 0; row < e->o->in[OF].rows; row++) {
        const struct hwq_value dy = slope(e, row, column);
        struct hwq_value factor = {1.0, 0.0};
        if (output == 1) factor = hwq_at(e, OF, row, column);
        if (output == 1)
            factor.value = (factor.value - hwq_at(e, MEANS, row, 0).value) * hwq_at(e, RSTDS, row, 0).value;
        hwq_sum_product(&sum, dy, factor);
    }
    return hwq_sum_end(&sum, 1e-5);
}

/* With n = (sum − mean)·rstd and g = (dy + extra)·gamma: dsum = rstd·(g − mean(g) − n·mean(g·n)). */
static struct hwq_value norm_backward_element(const struct hwq_element *e) {
    const int64_t row = e->row, width = e->o->in[OF].columns;
    double mean = 0.0, square = 0.0, total = 0.0, along = 0.0, own = 0.0, magnitude = 0.0, off = 0.0;
    if (e->output > 0) return norm_parameter(e, e->output, e->column);
    for (int64_t j = 0; j < width; j++) mean += hwq_at(e, OF, row, j).value / (double)width;
    for (int64_t j = 0; j < width; j++) square += pow(hwq_at(e, OF, row, j).value - mean, 2.0);
    const double rstd = 1.0 / sqrt(square / (double)width + (double)EPSILON);
    for (int64_t j = 0; j < width; j++) {
        const struct hwq_value dy = slope(e, row, j);
        const double gamma = hwq_at(e, SCALE, 0, j).value, one = dy.value * gamma;
        if (isinf(dy.allowed)) return dy;
        total += one / (double)width;
        along += one * (hwq_at(e, OF, row, j).value - mean) * rstd / (double)width;
        magnitude = fmax(magnitude, fabs(one));
        off = fmax(off, dy.allowed * fabs(gamma));
        if (j == e->column) own = one;
    }
    const double normal = (hwq_at(e, OF, row, e->column).value - mean) * rstd;
    return (struct hwq_value){rstd * (own - total - normal * along), rstd * (1e-5 * magnitude + 3.0 * off) + 1e-30};
}

static const struct hwq_kind norm_backward = {
    .name = "norm_backward", .run = run_norm_backward, .element = norm_backward_element};

struct hwq_tensor hwq_norm_backward(struct hwq_graph *g, int s, const struct hwq_norm *norm, struct hwq_tensor dy,
                                    struct hwq_tensor extra, const struct hwq_norm_saved *saved) {
    const struct hwq_tensor dsum = hwq_output(g, dy.rows, dy.columns, "gradient of a residual sum");
    const struct hwq_operation o = {.kind = &norm_backward,
                                    .stream = s,
                                    .in = {dy, extra, saved->sum, norm->gamma, saved->mean, saved->rstd},
                                    .out = {dsum, norm->dgamma, norm->dbeta}};
    hwq_append(g, &o, NULL, 0);
    return dsum;
}

/* ---- the loss ---- */

static aorta_status run_cross_entropy(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_cross_entropy(stream, &(struct aorta_cross_entropy_args){.rows = o->in[0].rows,
                                                                          .classes = o->in[0].columns,
                                                                          .x = hwq_floats(o->in[0]),
                                                                          .labels = hwq_at_device(o->in[1]),
                                                                          .weight = *(const float *)o->shape,
                                                                          .losses = hwq_floats(o->out[0]),
                                                                          .dx = hwq_floats(o->out[1])});
}

/* log Σ exp of a row. */
static struct hwq_value logsum_of(const struct hwq_element *e, int64_t row) {
    double sum = 0.0;
    for (int64_t i = 0; i < e->o->in[0].columns; i++) {
        const struct hwq_value x = hwq_at(e, 0, row, i);
        if (isinf(x.allowed)) return x;
        sum += exp(x.value);
    }
    return (struct hwq_value){log(sum), 1e-5 + 1e-5 * fabs(log(sum))};
}

static struct hwq_value cross_entropy_element(const struct hwq_element *e) {
    const int64_t row = e->row;
    const double weight = (double)*(const float *)e->o->shape;
    const int64_t label = (int64_t)hwq_at(e, 1, 0, row).value;
    const struct hwq_value logsum = logsum_of(e, row);
    if (isinf(logsum.allowed)) return logsum;
    if (e->output == 0) return (struct hwq_value){logsum.value - hwq_at(e, 0, row, label).value, logsum.allowed};
    const double slope = weight * (exp(hwq_at(e, 0, row, e->column).value - logsum.value) - (e->column == label));
    return (struct hwq_value){slope, 1e-6 * weight + 1e-5 * fabs(slope)};
}

static const struct hwq_kind cross_entropy = {
    .name = "cross_entropy", .run = run_cross_entropy, .element = cross_entropy_element};

struct hwq_tensor hwq_cross_entropy(struct hwq_graph *g, int s, struct hwq_tensor x, struct hwq_tensor labels,
                                    float weight) {
    const struct hwq_tensor dx = hwq_output(g, x.rows, x.columns, "gradient of the loss");
    const struct hwq_tensor losses = hwq_result(g, AORTA_F32, x.rows, 1, "losses");
    const struct hwq_operation o = {.kind = &cross_entropy, .stream = s, .in = {x, labels}, .out = {losses, dx}};
    hwq_append(g, &o, &weight, sizeof weight);
    return dx;
}

/* ---- length one, and the largest ---- */

static aorta_status run_normalise(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_normalise_rows(stream, &(struct aorta_normalise_args){.rows = o->in[0].rows,
                                                                       .width = o->in[0].columns,
                                                                       .x = hwq_floats(o->in[0]),
                                                                       .y = hwq_floats(o->out[0])});
}

static struct hwq_value normalise_element(const struct hwq_element *e) {
    double square = 0.0, off = 0.0;
    for (int64_t j = 0; j < e->o->in[0].columns; j++) {
        const struct hwq_value x = hwq_at(e, 0, e->row, j);
        square += x.value * x.value;
        off = fmax(off, x.allowed);
    }
    const double length = fmax(sqrt(square), 1e-8);
    return (struct hwq_value){hwq_at(e, 0, e->row, e->column).value / length, 1e-5 + off / length};
}

static const struct hwq_kind normalise = {.name = "normalise", .run = run_normalise, .element = normalise_element};

void hwq_normalise(struct hwq_graph *g, int s, struct hwq_tensor x) {
    hwq_append(g, &(struct hwq_operation){.kind = &normalise, .stream = s, .in = {x}, .out = {x}}, NULL, 0);
}

static aorta_status run_top(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_top(stream, &(struct aorta_top_args){.rows = o->in[0].rows,
                                                      .width = o->in[0].columns,
                                                      .top = o->out[0].columns,
                                                      .x = hwq_floats(o->in[0]),
                                                      .places = hwq_at_device(o->out[0]),
                                                      .values = hwq_floats(o->out[1])});
}

/* Larger elements come first, and of equal ones the one further left. */
static struct hwq_value top_element(const struct hwq_element *e) {
    for (int64_t place = 0; place < e->o->in[0].columns; place++) {
        const struct hwq_value own = hwq_at(e, 0, e->row, place);
        int64_t before = 0;
        if (own.allowed > 0.0) return hwq_unknown(); /* rounding can change the order */
        for (int64_t i = 0; i < e->o->in[0].columns && before <= e->column; i++) {
            const double other = hwq_at(e, 0, e->row, i).value;
            before += other > own.value || (other == own.value && i < place);
        }
        if (before == e->column) return hwq_exact(e->output == 0 ? (double)place : own.value);
    }
    return hwq_exact(NAN);
}

static const struct hwq_kind top = {.name = "top", .run = run_top, .element = top_element};

struct hwq_tensor hwq_top(struct hwq_graph *g, int s, struct hwq_tensor x, int64_t count) {
    const struct hwq_tensor places = hwq_result(g, AORTA_I64, x.rows, count, "places of the largest");
    const struct hwq_tensor values = hwq_result(g, AORTA_F32, x.rows, count, "the largest");
    hwq_append(g, &(struct hwq_operation){.kind = &top, .stream = s, .in = {x}, .out = {places, values}}, NULL, 0);
    return places;
}

/* ---- sampling ---- */

struct draw {
    uint64_t seed;
    uint32_t site;
};

/* Without tokens: only the logarithms of sums. */
static aorta_status run_sample(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct draw *draw = o->shape;
    return aorta_sample(stream, &(struct aorta_sample_args){.rows = o->in[0].rows,
                                                            .vocab = o->in[0].columns,
                                                            .x = hwq_floats(o->in[0]),
                                                            .seed = draw->seed,
                                                            .site = draw->site,
                                                            .step = hwq_at_device(o->in[1]),
                                                            .tokens = hwq_at_device(o->out[0]),
                                                            .logsums = hwq_floats(o->out[1])});
}

/* Any token whose score equals the best one up to rounding is right. */
static struct hwq_value sample_element(const struct hwq_element *e) {
    const struct draw *draw = e->o->shape;
    const uint32_t step = e->o->in[1].memory ? (uint32_t)hwq_at(e, 1, 0, 0).value : 0;
    if (e->output == 1) return logsum_of(e, e->row);
    const int64_t row = e->column; /* tokens [1, rows] */
    const int64_t token = (int64_t)hwq_written(e, 0, 0, e->column).value;
    double best = -INFINITY, own = -INFINITY, most = 0.0;
    for (int64_t i = 0; i < e->o->in[0].columns; i++) {
        const struct aorta_philox counter = {{(uint32_t)(i / 4), (uint32_t)row, draw->site, step}};
        const struct aorta_philox words =
            aorta_philox4x32_10(counter, (uint32_t)draw->seed, (uint32_t)(draw->seed >> 32));
        const struct hwq_value x = hwq_at(e, 0, row, i);
        if (isinf(x.allowed)) return x;
        const double score = x.value - log((double)aorta_draw_exponential(words.word[i % 4]));
        if (score > best) most = (double)i;
        best = fmax(best, score);
        if (i == token) own = score;
    }
    return hwq_exact(best - own <= 1e-4 ? (double)token : most);
}

static const struct hwq_kind sample = {.name = "sample", .run = run_sample, .element = sample_element, .samples = 8};

struct hwq_tensor hwq_sample(struct hwq_graph *g, int s, struct hwq_tensor x, uint32_t site, struct hwq_tensor step,
                             struct hwq_tensor tokens, struct hwq_tensor *logsums) {
    const struct draw draw = {g->hwq->seed, site};
    if (!logsums->memory) *logsums = hwq_result(g, AORTA_F32, x.rows, 1, "logarithms of sums");
    const struct hwq_operation o = {.kind = &sample, .stream = s, .in = {x, step}, .out = {tokens, *logsums}};
    hwq_append(g, &o, &draw, sizeof draw);
    return tokens;
}

static const struct hwq_kind logsum = {.name = "logsum", .run = run_sample, .element = sample_element, .samples = 8};

struct hwq_tensor hwq_logsum(struct hwq_graph *g, int s, struct hwq_tensor x) {
    const struct hwq_tensor sums = hwq_output(g, x.rows, 1, "logarithms of sums");
    const struct hwq_operation o = {.kind = &logsum, .stream = s, .in = {x}, .out = {[1] = sums}};
    hwq_append(g, &o, &(struct draw){0}, sizeof(struct draw));
    return sums;
}

static int64_t count_of(const struct hwq_tensor *t) {
    return t->rows * t->columns;
}

/* ---- GELU ---- */

/* With dy: the gradient. */
static aorta_status run_gelu(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct aorta_gelu_args args = {
        .shape = {.dtype = AORTA_F32, .count = count_of(&o->in[0]), .width = o->in[0].columns},
        .x = hwq_floats(o->in[0]),
        .dy = hwq_floats(o->in[1]),
        .out = hwq_floats(o->out[0])};
    return args.dy ? aorta_gelu_backward(stream, &args) : aorta_gelu_forward(stream, &args);
}

static struct hwq_value gelu_element(const struct hwq_element *e) {
    const struct hwq_value x = hwq_at(e, 0, e->row, e->column);
    const double y = 0.5 * x.value * erfc(-x.value / sqrt(2.0));
    return (struct hwq_value){y, 1e-6 + 1e-6 * fabs(y) + 1.2 * x.allowed};
}

static const struct hwq_kind gelu = {.name = "gelu", .run = run_gelu, .element = gelu_element};

struct hwq_tensor hwq_gelu(struct hwq_graph *g, int s, struct hwq_tensor x) {
    const struct hwq_tensor y = hwq_output(g, x.rows, x.columns, "GELU");
    hwq_append(g, &(struct hwq_operation){.kind = &gelu, .stream = s, .in = {x}, .out = {y}}, NULL, 0);
    return y;
}

static struct hwq_value gelu_backward_element(const struct hwq_element *e) {
    const struct hwq_value x = hwq_at(e, 0, e->row, e->column), dy = hwq_at(e, 1, e->row, e->column);
    if (isinf(x.allowed) || isinf(dy.allowed)) return hwq_unknown();
    const double v = x.value, rate = 0.5 * erfc(-v / sqrt(2.0)) + v * exp(-0.5 * v * v) / sqrt(2.0 * acos(-1.0));
    const double dx = dy.value * rate;
    return (struct hwq_value){dx, 1e-6 * (fabs(dx) + fabs(dy.value)) + 1.2 * dy.allowed + fabs(dy.value) * x.allowed +
                                      1e-30};
}

static const struct hwq_kind gelu_backward = {
    .name = "gelu_backward", .run = run_gelu, .element = gelu_backward_element};

struct hwq_tensor hwq_gelu_backward(struct hwq_graph *g, int s, struct hwq_tensor x, struct hwq_tensor dy) {
    const struct hwq_tensor dx = hwq_output(g, x.rows, x.columns, "gradient before GELU");
    hwq_append(g, &(struct hwq_operation){.kind = &gelu_backward, .stream = s, .in = {x, dy}, .out = {dx}}, NULL, 0);
    return dx;
}

/* ---- ReLU ---- */

static aorta_status run_relu_backward(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_relu_backward(stream, &(struct aorta_relu_args){.count = count_of(&o->in[0]),
                                                                 .y = hwq_floats(o->in[0]),
                                                                 .dy = hwq_floats(o->in[1]),
                                                                 .dx = hwq_floats(o->out[0])});
}

static struct hwq_value relu_backward_element(const struct hwq_element *e) {
    return hwq_at(e, 0, e->row, e->column).value > 0.0 ? hwq_at(e, 1, e->row, e->column) : hwq_exact(0.0);
}

static const struct hwq_kind relu_backward = {
    .name = "relu_backward", .run = run_relu_backward, .element = relu_backward_element};

void hwq_relu_backward(struct hwq_graph *g, int s, struct hwq_tensor y, struct hwq_tensor dy) {
    hwq_append(g, &(struct hwq_operation){.kind = &relu_backward, .stream = s, .in = {y, dy}, .out = {dy}}, NULL, 0);
}

/* ---- sums ---- */

static aorta_status run_add(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_add(stream, hwq_floats(o->out[0]), hwq_floats(o->in[1]), AORTA_F32, count_of(&o->in[1]),
                     *(const float *)o->shape);
}

static struct hwq_value add_element(const struct hwq_element *e) {
    const struct hwq_value old = hwq_at(e, 0, e->row, e->column), more = hwq_at(e, 1, e->row, e->column);
    const double scale = (double)*(const float *)e->o->shape;
    if (isinf(old.allowed) || isinf(more.allowed)) return hwq_unknown();
    return (struct hwq_value){old.value + scale * more.value, 2e-7 * (fabs(old.value) + fabs(scale * more.value)) +
                                                                  old.allowed + fabs(scale) * more.allowed + 1e-30};
}

static const struct hwq_kind add = {.name = "add", .run = run_add, .element = add_element};

void hwq_add(struct hwq_graph *g, int s, struct hwq_tensor to, struct hwq_tensor from, float scale) {
    const struct hwq_operation o = {.kind = &add, .stream = s, .in = {to, from}, .out = {to}};
    hwq_append(g, &o, &scale, sizeof scale);
}

struct pieces {
    int64_t count;
    float scale;
};

static aorta_status run_sum_pieces(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct pieces *pieces = o->shape;
    return aorta_sum_pieces(stream, &(struct aorta_sum_pieces_args){.to = hwq_floats(o->out[0]),
                                                                    .from = hwq_floats(o->in[0]),
                                                                    .pieces = pieces->count,
                                                                    .count = count_of(&o->out[0]),
                                                                    .scale = pieces->scale});
}

static struct hwq_value sum_pieces_element(const struct hwq_element *e) {
    const struct pieces *pieces = e->o->shape;
    const double scale = (double)pieces->scale;
    struct hwq_sum sum = {0};
    for (int64_t p = 0; p < pieces->count; p++)
        hwq_sum_add(&sum, hwq_at(e, 0, p * e->o->out[e->output].rows + e->row, e->column));
    const struct hwq_value all = hwq_sum_end(&sum, 1e-6);
    return (struct hwq_value){scale * all.value, scale * all.allowed};
}

static const struct hwq_kind sum_pieces = {.name = "sum_pieces", .run = run_sum_pieces, .element = sum_pieces_element};

struct hwq_tensor hwq_sum_pieces(struct hwq_graph *g, int s, struct hwq_tensor from, int64_t pieces, float scale) {
    const struct pieces shape = {pieces, scale};
    const struct hwq_tensor to = hwq_output(g, from.rows / pieces, from.columns, "sum of pieces");
    hwq_append(g, &(struct hwq_operation){.kind = &sum_pieces, .stream = s, .in = {from}, .out = {to}}, &shape,
               sizeof shape);
    return to;
}

/* ---- moves ---- */

static aorta_status run_copy(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_copy(stream, hwq_at_device(o->out[0]), hwq_at_device(o->in[0]), hwq_bytes(o->in[0]));
}

static struct hwq_value copy_element(const struct hwq_element *e) {
    return hwq_at(e, 0, e->row, e->column);
}

static const struct hwq_kind copy = {
    .name = "copy", .span = AORTA_SPAN_COPY, .run = run_copy, .element = copy_element, .moves = true};

struct hwq_tensor hwq_copy(struct hwq_graph *g, int s, struct hwq_tensor from) {
    const struct hwq_tensor to = hwq_output(g, from.rows, from.columns, "copy");
    hwq_append(g, &(struct hwq_operation){.kind = &copy, .stream = s, .in = {from}, .out = {to}}, NULL, 0);
    return to;
}

static aorta_status run_embed(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct aorta_embedding shape = {
        .dtype = AORTA_F32, .rows = o->out[0].rows, .features = 1, .vocab = o->in[1].rows, .dim = o->in[1].columns};
    return aorta_embedding_forward(stream, &(struct aorta_embedding_args){.shape = shape,
                                                                          .ids = hwq_at_device(o->in[0]),
                                                                          .table = hwq_floats(o->in[1]),
                                                                          .y = hwq_floats(o->out[0])});
}

static struct hwq_value embed_element(const struct hwq_element *e) {
    const struct hwq_value id = hwq_at(e, 0, 0, e->row);
    if (isinf(id.allowed)) return id;
    if (id.value < 0.0 || id.value >= (double)e->o->in[1].rows) return hwq_exact(NAN);
    return hwq_at(e, 1, (int64_t)id.value, e->column);
}

static const struct hwq_kind embed = {.name = "embed", .run = run_embed, .element = embed_element, .moves = true};

struct hwq_tensor hwq_embed(struct hwq_graph *g, int s, struct hwq_tensor ids, struct hwq_tensor table) {
    const struct hwq_tensor y = hwq_output(g, ids.rows * ids.columns, table.columns, "rows of a table");
    const struct hwq_tensor flat = hwq_shaped(ids, 1, ids.rows * ids.columns);
    hwq_append(g, &(struct hwq_operation){.kind = &embed, .stream = s, .in = {flat, table}, .out = {y}}, NULL, 0);
    return y;
}
