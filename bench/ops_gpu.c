/* Every operation of a training step in bf16, by device timestamps, at the sizes of config/large.yaml or default.yaml:
 *   bench_ops_gpu [large|default] [cuda|hip|cpu] [others]
 * "others": no products. Prints per call: time, and arithmetic or memory traffic per second, the latter also relative
 * to a copy within the device. Then prints the sum of all calls of a step on one device, and the library's choice
 * for each product. */
#include "device/device.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sizes {
    const char *name;
    int64_t batch, positions, dense, features, vocab, embedding, width, heads, layers, mlp, parameters;
};
static const struct sizes all_sizes[] = {
    {"large", 64, 176, 32 * 256, 48, 350000, 256, 1024, 16, 20, 4608, 375900000},
    {"default", 8, 64, 16 * 128, 32, 60000, 192, 768, 12, 8, 2048, 58900000},
};

struct bench {
    struct aorta_device *device;
    struct aorta_stream *stream;
    int64_t *times; /* pinned: start and end */
    struct sizes s;
    int64_t rows;
    int repeats;
    bool products;
    void *x, *y, *z, *dx, *weight, *bias; /* bf16, [rows, greatest width] or a layer's weights */
    float *dweight, *dbias, *mean, *rstd, *master, *gradient, *m, *v, *square;
    void *copy, *table, *saved, *scratch, *order;
    float *dtable;
    int64_t *ids;
    struct aorta_step_state *state;
    double total_ms, copy_gbs; /* GB/s read and written by a copy; 0: not known yet */
};

/* ---- operations ---- */

static struct aorta_rng rng_of(const struct bench *b) {
    return (struct aorta_rng){.seed = 1, .site = 2, .state = b->state};
}
static struct aorta_norm norm_of(const struct bench *b) {
    return (struct aorta_norm){AORTA_BF16, b->rows, b->s.width, 1e-5f, 0.1f, rng_of(b)};
}
static struct aorta_gelu gelu_of(const struct bench *b) {
    return (struct aorta_gelu){AORTA_BF16, b->rows * b->s.mlp, 0.1f, rng_of(b), b->s.mlp};
}
static struct aorta_attention attention_of(const struct bench *b) {
    return (struct aorta_attention){AORTA_BF16, b->s.batch, b->s.positions, b->s.heads, b->s.width / b->s.heads,
                                    0.1f,       rng_of(b)};
}
static struct aorta_embedding embedding_of(const struct bench *b) {
    return (struct aorta_embedding){AORTA_BF16, b->rows, b->s.features, b->s.vocab, b->s.embedding};
}

static aorta_status norm_forward(struct bench *b) {
    return aorta_norm_forward(b->stream, &(struct aorta_norm_args){.shape = norm_of(b),
                                                                   .x = b->x,
                                                                   .residual = b->y,
                                                                   .gamma = b->weight,
                                                                   .beta = b->bias,
                                                                   .sum = b->z,
                                                                   .y = b->dx,
                                                                   .mean = b->mean,
                                                                   .rstd = b->rstd});
}
static aorta_status norm_backward(struct bench *b) {
    return aorta_norm_backward(b->stream, &(struct aorta_norm_backward_args){.shape = norm_of(b),
                                                                             .dy = b->x,
                                                                             .sum = b->y,
                                                                             .gamma = b->weight,
                                                                             .mean = b->mean,
                                                                             .rstd = b->rstd,
                                                                             .dsum = b->z,
                                                                             .dx = b->dx,
                                                                             .dgamma = b->dweight,
                                                                             .dbeta = b->dbias,
                                                                             .dbias = b->mean});
}
static aorta_status gelu_forward(struct bench *b) {
    return aorta_gelu_forward(b->stream, &(struct aorta_gelu_args){.shape = gelu_of(b), .x = b->x, .out = b->y});
}
static aorta_status gelu_backward(struct bench *b) {
    return aorta_gelu_backward(
        b->stream,
        &(struct aorta_gelu_args){.shape = gelu_of(b), .x = b->x, .dy = b->y, .out = b->z, .dbias = b->dbias});
}
static aorta_status attention_forward(struct bench *b) {
    return aorta_attention_forward(
        b->stream, &(struct aorta_attention_args){
                       .shape = attention_of(b), .qkv = b->x, .out = b->y, .saved = b->saved, .scratch = b->scratch});
}
static aorta_status attention_backward(struct bench *b) {
    return aorta_attention_backward(b->stream, &(struct aorta_attention_args){.shape = attention_of(b),
                                                                              .qkv = b->x,
                                                                              .out_in = b->y,
                                                                              .saved_in = b->saved,
                                                                              .dout = b->z,
                                                                              .dqkv = b->dx,
                                                                              .scratch = b->scratch,
                                                                              .dbias = b->dbias});
}
static aorta_status embedding_forward(struct bench *b) {
    return aorta_embedding_forward(
        b->stream,
        &(struct aorta_embedding_args){.shape = embedding_of(b), .ids = b->ids, .table = b->table, .y = b->x});
}
static aorta_status embedding_backward(struct bench *b) {
    return aorta_embedding_backward(b->stream, &(struct aorta_embedding_args){.shape = embedding_of(b),
                                                                              .ids = b->ids,
                                                                              .order = b->order,
                                                                              .dy = b->x,
                                                                              .dtable = b->dtable,
                                                                              .zeros = true});
}
static aorta_status embedding_order(struct bench *b) {
    return aorta_embedding_order(
        b->stream, &(struct aorta_embedding_args){.shape = embedding_of(b), .ids = b->ids, .order = b->order});
}
static aorta_status clear_table(struct bench *b) {
    return aorta_fill_bytes(b->stream, b->dtable, 0, (size_t)(b->s.vocab * b->s.embedding) * sizeof(float));
}
static aorta_status square_sum(struct bench *b) {
    return aorta_square_sum(b->stream, b->gradient, b->s.parameters, b->square);
}
static aorta_status adamw(struct bench *b) {
    const struct aorta_adamw_args args = {b->s.parameters,
                                          0.9f,
                                          0.98f,
                                          1e-8f,
                                          0.01f,
                                          b->state,
                                          AORTA_BF16,
                                          .parameter = b->master,
                                          .gradient = b->gradient,
                                          .m = b->m,
                                          .v = b->v,
                                          .copy = b->copy};
    return aorta_adamw_step(b->stream, &args);
}
static aorta_status step_update(struct bench *b) {
    const struct aorta_step_update_args args = {
        .state = b->state, .square_sum = b->square, .max_norm = 1.0f, .beta1 = 0.9f, .beta2 = 0.98f};
    return aorta_step_update(b->stream, &args);
}
static aorta_status loss(struct bench *b) {
    return aorta_bce_with_logits(b->stream, &(struct aorta_bce_args){AORTA_BF16, b->rows, 1.0f, 1.0f, .scores = b->x,
                                                                     .target = b->mean, .importance = b->rstd,
                                                                     .state = b->state, .dscores = b->y});
}

/* ---- measuring ---- */

static aorta_status time_calls(struct bench *b, aorta_status (*run)(struct bench *b), int calls, int64_t *ns) {
    AORTA_TRY(aorta_timestamp(b->stream, &b->times[0]));
    for (int i = 0; i < calls; i++) AORTA_TRY(run(b));
    AORTA_TRY(aorta_timestamp(b->stream, &b->times[1]));
    AORTA_TRY(aorta_stream_synchronize(b->stream));
    *ns = b->times[1] - b->times[0];
    return NULL;
}

/* The least of five runs of a few calls. `work`: flop or bytes of one call. */
static aorta_status report(struct bench *b, const char *name, aorta_status (*run)(struct bench *b), double work,
                           const char *unit, double calls) {
    int64_t least = INT64_MAX, ns;
    AORTA_TRY(time_calls(b, run, 1, &ns));
    for (int i = 0; i < 5; i++) {
        AORTA_TRY(time_calls(b, run, b->repeats, &ns));
        if (ns < least) least = ns;
    }
    const double us = (double)least * 1e-3 / b->repeats, ms = us * calls * 1e-3;
    const double scale = strcmp(unit, "TFLOP/s") == 0 ? 1e-6 : 1e-3;
    b->total_ms += ms;
    char share[32] = "";
    if (scale > 1e-6 && b->copy_gbs > 0.0)
        snprintf(share, sizeof share, "  %4.0f%% of a copy", 100.0 * work / us * scale / b->copy_gbs);
    printf("%-34s %10.1f us %10.1f %-8s x %4.0f = %8.3f ms%s\n", name, us, work / us * scale, unit, calls, ms, share);
    fflush(stdout);
    return NULL;
}

static aorta_status copy(struct bench *b) {
    return aorta_copy(b->stream, b->m, b->gradient, (size_t)b->s.parameters * sizeof(float));
}

/* The best rate of memory: the first line, to which the following ones refer. */
static aorta_status report_copy(struct bench *b) {
    const double bytes = 2.0 * 4.0 * (double)b->s.parameters;
    int64_t ns;
    AORTA_TRY(report(b, "a copy", copy, bytes, "GB/s", 0));
    AORTA_TRY(time_calls(b, copy, b->repeats, &ns));
    b->copy_gbs = bytes * b->repeats / (double)ns;
    return NULL;
}

static struct aorta_linear linear_now;
static aorta_status linear_forward(struct bench *b) {
    return aorta_linear_forward(
        b->stream,
        &(struct aorta_linear_args){.shape = linear_now, .x = b->x, .weight = b->weight, .bias = b->bias, .y = b->y});
}
static aorta_status linear_input(struct bench *b) {
    return aorta_linear_backward_input(
        b->stream, &(struct aorta_linear_args){.shape = linear_now, .dy = b->y, .weight = b->weight, .dx = b->dx});
}
static aorta_status linear_input_added(struct bench *b) {
    return aorta_linear_backward_input(
        b->stream, &(struct aorta_linear_args){
                       .shape = linear_now, .dy = b->y, .weight = b->weight, .dx = b->dx, .accumulate = true});
}
static aorta_status linear_weight(struct bench *b) {
    return aorta_linear_backward_weight(
        b->stream, &(struct aorta_linear_args){
                       .shape = linear_now, .x = b->x, .dy = b->y, .dweight = b->dweight, .dbias = b->dbias});
}
static aorta_status linear_weight_alone(struct bench *b) {
    return aorta_linear_backward_weight(
        b->stream, &(struct aorta_linear_args){.shape = linear_now, .x = b->x, .dy = b->y, .dweight = b->dweight});
}

static aorta_status report_linear(struct bench *b, const char *name, int64_t in, int64_t out, double calls) {
    char label[64];
    linear_now = (struct aorta_linear){AORTA_BF16, b->rows, in, out};
    const double flop = 2.0 * (double)b->rows * (double)in * (double)out;
    const struct {
        const char *what;
        aorta_status (*run)(struct bench *b);
        bool counts; /* part of the step; false: for comparison */
    } rows[] = {{"forward", linear_forward, true},
                {"dx", linear_input, true},
                {"dx, added", linear_input_added, false},
                {"dweight", linear_weight_alone, true},
                {"dweight, dbias", linear_weight, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(label, sizeof label, "%s, %s", name, rows[i].what);
        AORTA_TRY(report(b, label, rows[i].run, flop, "TFLOP/s", rows[i].counts ? calls : 0.0));
    }
    return NULL;
}

static aorta_status report_linears(struct bench *b) {
    const struct sizes *s = &b->s;
    const double layers = (double)s->layers;
    AORTA_TRY(report_linear(b, "in_proj", s->width, 3 * s->width, layers));
    AORTA_TRY(report_linear(b, "out_proj", s->width, s->width, layers));
    AORTA_TRY(report_linear(b, "linear1", s->width, s->mlp, layers));
    AORTA_TRY(report_linear(b, "linear2", s->mlp, s->width, layers));
    AORTA_TRY(report_linear(b, "dense", s->dense, s->width, 1));
    AORTA_TRY(report_linear(b, "projection", s->embedding, s->width, 1));
    AORTA_TRY(report_linear(b, "scorer.0", s->width, s->mlp, 1));
    return report_linear(b, "scorer.3", s->mlp, 1, 1);
}

static aorta_status report_others(struct bench *b) {
    const struct sizes *s = &b->s;
    const double layers = (double)s->layers, activations = (double)(b->rows * s->width);
    const double hidden = (double)(b->rows * s->mlp), parameters = (double)s->parameters;
    const double gathered = (double)(b->rows * s->features * s->embedding);
    const double saved = (double)aorta_attention_saved_bytes(b->device, attention_of(b));
    AORTA_TRY(report(b, "attention forward", attention_forward, 8.0 * activations + saved, "GB/s", layers));
    AORTA_TRY(report(b, "attention backward, dbias", attention_backward, 16.0 * activations + saved, "GB/s", layers));
    AORTA_TRY(report(b, "norm forward", norm_forward, 8.0 * activations, "GB/s", 2.0 * layers + 1.0));
    AORTA_TRY(report(b, "norm backward", norm_backward, 8.0 * activations, "GB/s", 2.0 * layers + 1.0));
    AORTA_TRY(report(b, "gelu forward", gelu_forward, 4.0 * hidden, "GB/s", layers + 1.0));
    AORTA_TRY(report(b, "gelu backward", gelu_backward, 6.0 * hidden, "GB/s", layers + 1.0));
    AORTA_TRY(report(b, "embedding forward", embedding_forward, 2.0 * gathered, "GB/s", 1.0));
    AORTA_TRY(
        report(b, "order for the embedding", embedding_order, 16.0 * (double)(b->rows * s->features), "GB/s", 1.0));
    AORTA_TRY(report(b, "embedding backward, ordered", embedding_backward, 2.0 * gathered, "GB/s", 1.0));
    AORTA_TRY(report(b, "embedding gradient to zero", clear_table, 4.0 * (double)(s->vocab * s->embedding), "GB/s", 1));
    AORTA_TRY(report(b, "loss", loss, 12.0 * (double)b->rows, "GB/s", 1.0));
    AORTA_TRY(report(b, "square sum", square_sum, 4.0 * parameters, "GB/s", 1.0));
    AORTA_TRY(report(b, "step update", step_update, 0.0, "GB/s", 1.0));
    return report(b, "adamw", adamw, 30.0 * parameters, "GB/s", 1.0);
}

/* ---- memory ---- */

static aorta_status take(struct bench *b, int64_t bytes, void *memory) {
    return aorta_device_alloc(b->device, (size_t)bytes, "benchmark", memory);
}

/* Random bits give the clocks that real data give: arithmetic on zeros takes less power. fp32 in [-1, 1), cast. */
static aorta_status randomise(struct bench *b, void *to, enum aorta_dtype dtype, int64_t count) {
    enum { BLOCK = 1 << 20 };
    float *host = malloc(BLOCK * sizeof *host);
    if (!host) return AORTA_ERROR(AORTA_MEMORY, "no memory for random numbers");
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < BLOCK; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17; /* Marsaglia's xorshift64 */
        host[i] = (float)(random >> 40) * 0x1p-23f - 1.0f;
    }
    void *block = NULL;
    aorta_status status = take(b, BLOCK * (int64_t)sizeof *host, (void *)&block);
    if (!status) status = aorta_copy(b->stream, block, host, BLOCK * sizeof *host);
    for (int64_t i = 0; i < count && !status; i += BLOCK)
        status = aorta_cast(b->stream, (char *)to + (size_t)i * aorta_dtype_size(dtype), dtype, block, AORTA_F32,
                            count - i < BLOCK ? count - i : BLOCK, 1.0f);
    if (!status) status = aorta_stream_synchronize(b->stream);
    aorta_device_free(b->device, block);
    free(host);
    return status;
}

static aorta_status create_ids(struct bench *b) {
    const int64_t count = b->rows * b->s.features;
    int64_t *ids = malloc((size_t)count * sizeof *ids);
    if (!ids) return AORTA_ERROR(AORTA_MEMORY, "no memory for ids");
    uint64_t random = 1;
    for (int64_t i = 0; i < count; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
        ids[i] = (int64_t)((random >> 33) % (uint64_t)b->s.vocab);
    }
    aorta_status status = take(b, count * (int64_t)sizeof *ids, (void *)&b->ids);
    if (!status) status = aorta_copy(b->stream, b->ids, ids, (size_t)count * sizeof *ids);
    if (!status) status = aorta_stream_synchronize(b->stream);
    free(ids);
    return status;
}

static aorta_status create(struct bench *b) {
    const struct sizes *s = &b->s;
    int64_t widest = s->mlp > 3 * s->width ? s->mlp : 3 * s->width;
    if (s->dense > widest) widest = s->dense;
    const int64_t activations = b->rows * widest,
                  layer = widest * s->width > s->width * s->mlp ? widest * s->width : s->width * s->mlp;
    void **const sixteen[] = {&b->x, &b->y, &b->z, &b->dx};
    for (int i = 0; i < 4; i++) {
        AORTA_TRY(take(b, 2 * activations, sixteen[i]));
        AORTA_TRY(randomise(b, *sixteen[i], AORTA_BF16, activations));
    }
    float **const long_ones[] = {&b->master, &b->gradient, &b->m, &b->v};
    for (int i = 0; i < 4; i++) {
        AORTA_TRY(take(b, 4 * s->parameters, (void *)long_ones[i]));
        AORTA_TRY(randomise(b, *long_ones[i], AORTA_F32, s->parameters));
    }
    AORTA_TRY(aorta_fill(b->stream, b->v, AORTA_F32, s->parameters, 0.5f));
    AORTA_TRY(take(b, 2 * layer, &b->weight));
    AORTA_TRY(randomise(b, b->weight, AORTA_BF16, layer));
    AORTA_TRY(take(b, 2 * widest, &b->bias));
    AORTA_TRY(randomise(b, b->bias, AORTA_BF16, widest));
    AORTA_TRY(take(b, 4 * layer, (void *)&b->dweight));
    AORTA_TRY(take(b, 4 * widest, (void *)&b->dbias));
    AORTA_TRY(take(b, 4 * b->rows, (void *)&b->mean));
    AORTA_TRY(take(b, 4 * b->rows, (void *)&b->rstd));
    AORTA_TRY(aorta_fill(b->stream, b->mean, AORTA_F32, b->rows, 0.5f));
    AORTA_TRY(aorta_fill(b->stream, b->rstd, AORTA_F32, b->rows, 0.5f));
    AORTA_TRY(take(b, 2 * s->parameters, &b->copy));
    AORTA_TRY(take(b, 2 * s->vocab * s->embedding, &b->table));
    AORTA_TRY(randomise(b, b->table, AORTA_BF16, s->vocab * s->embedding));
    AORTA_TRY(take(b, 4 * s->vocab * s->embedding, (void *)&b->dtable));
    AORTA_TRY(take(b, (int64_t)aorta_embedding_order_bytes(b->device, embedding_of(b)), &b->order));
    AORTA_TRY(clear_table(b));
    AORTA_TRY(take(b, (int64_t)aorta_attention_saved_bytes(b->device, attention_of(b)), &b->saved));
    AORTA_TRY(take(b, (int64_t)aorta_attention_scratch_bytes(b->device, attention_of(b)), &b->scratch));
    AORTA_TRY(take(b, 256, (void *)&b->square));
    const struct aorta_step_state state = {.lr = 1e-4f,
                                           .loss_scale = 1.0f,
                                           .finite = 1,
                                           .grad_factor = 1.0f,
                                           .bias_correction1 = 0.1f,
                                           .bias_correction2 = 0.02f};
    AORTA_TRY(take(b, sizeof state, (void *)&b->state));
    AORTA_TRY(aorta_copy(b->stream, b->state, &state, sizeof state));
    AORTA_TRY(aorta_fill(b->stream, b->square, AORTA_F32, 1, 1.0f));
    return create_ids(b);
}

static void destroy(struct bench *b) {
    void *const all[] = {b->x,     b->y,     b->z,       b->dx,       b->weight, b->bias,  b->dweight, b->dbias,
                         b->mean,  b->rstd,  b->master,  b->gradient, b->m,      b->v,     b->square,  b->copy,
                         b->table, b->saved, b->scratch, b->dtable,   b->ids,    b->order, b->state};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) aorta_device_free(b->device, all[i]);
}

static void print_line(void *user, const char *line) {
    (void)user;
    puts(line);
}

static aorta_status run(struct bench *b) {
    AORTA_TRY(create(b));
    printf("%s on %s, %s, bf16\n", b->s.name, aorta_device_kind_name(aorta_device_get_info(b->device)->kind),
           aorta_device_get_info(b->device)->name);
    AORTA_TRY(report_copy(b));
    AORTA_TRY(report_others(b));
    if (b->products) AORTA_TRY(report_linears(b));
    printf("%-34s %56.3f ms\n", "all of them in one step", b->total_ms);
    return aorta_ops_report_products(b->device, print_line, NULL);
}

int main(int argc, char **argv) {
    struct bench bench = {.s = all_sizes[0], .repeats = 20, .products = true};
    enum aorta_device_kind kind = AORTA_DEVICE_CUDA;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "others") == 0) bench.products = false;
        for (size_t j = 0; j < sizeof all_sizes / sizeof *all_sizes; j++)
            if (strcmp(argv[i], all_sizes[j].name) == 0) bench.s = all_sizes[j];
        for (enum aorta_device_kind k = AORTA_DEVICE_CPU; k <= AORTA_DEVICE_HIP; k++)
            if (strcmp(argv[i], aorta_device_kind_name(k)) == 0) kind = k;
    }
    if (kind == AORTA_DEVICE_CPU) bench.repeats = 1;
    bench.rows = bench.s.batch * bench.s.positions;
    aorta_status status = aorta_device_open(kind, 0, &bench.device);
    if (!status) status = aorta_stream_create(bench.device, "compute", AORTA_PRIORITY_NORMAL, &bench.stream);
    void *times = NULL;
    if (!status) status = aorta_pinned_alloc(bench.device, 2 * sizeof *bench.times, "times", &times);
    bench.times = times;
    if (!status) status = run(&bench);
    if (bench.stream) {
        aorta_status_free(aorta_stream_synchronize(bench.stream));
        destroy(&bench);
        aorta_pinned_free(bench.device, bench.times);
        aorta_stream_destroy(bench.stream);
    }
    if (bench.device) aorta_device_close(bench.device);
    if (!status) return 0;
    fprintf(stderr, "bench_ops_gpu: %s\n", aorta_status_message(status));
    aorta_status_free(status);
    return 1;
}
