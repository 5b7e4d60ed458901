/* A transformer block of `aorta hwq run fsdp_tp` in fp32, operation by operation, by device timestamps:
 *   bench_ops_block [cuda|hip|cpu] [SEQUENCES]
 * SEQUENCES (4: a part of the batch on 8 streams) of 512 positions, 512 wide, 8 heads. Attention is shown in four
 * ways: products of all sequences at once, those of the scores with their softmax (what the workload does), the same
 * with the softmax apart, products of one sequence after the other, and the kernels of aorta_attention, which keep no
 * weights. The sums are of the first way. At the end: how the library makes each product. */
#include "device/gpu.h"
#include "hwq/workloads/fsdp_tp.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 20, RUNS = 5 };
enum { IN_ONE, AT_ONCE, EACH, TILED, WAYS }; /* how attention is made */

struct bench {
    struct aorta_device *device;
    struct aorta_stream *stream;
    struct aorta_event *start, *end;
    struct fsdp_options o;
    int64_t sequences, rows;
    struct aorta_linear linear;
    enum fsdp_product which;
    bool at_once;
    int64_t slices;
    float *x, *y, *z, *w; /* as large as the widest activation */
    float *weight, *gradient, *bias, *mean, *rstd, *p, *dp, *ds;
    void *saved, *scratch;
    float *host; /* random numbers */
    double sum_us, attention_us[WAYS];
};

typedef aorta_status (*operation)(struct bench *b);

enum { BLOCK = 1 << 20 };

/* Random bits give the clocks that real data give: arithmetic on zeros takes less power. In [-1, 1). */
static void randomise(float *host) {
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < BLOCK; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17; /* Marsaglia's xorshift64 */
        host[i] = (float)(random >> 40) * 0x1p-23f - 1.0f;
    }
}

static aorta_status take(struct bench *b, int64_t count, float **memory) {
    AORTA_TRY(aorta_device_alloc(b->device, (size_t)count * sizeof(float), "benchmark", (void **)memory));
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t piece = count - i < BLOCK ? count - i : BLOCK;
        AORTA_TRY(aorta_copy(b->stream, *memory + i, b->host, (size_t)piece * sizeof(float)));
    }
    return aorta_stream_synchronize(b->stream);
}

/* ---- operations ---- */

static aorta_status linear_forward(struct bench *b) {
    return aorta_linear_forward(b->stream, b->linear, b->x, b->weight, b->bias, b->y);
}
static aorta_status linear_input(struct bench *b) {
    return aorta_linear_backward_input(b->stream, b->linear, b->x, b->weight, b->y, false);
}
static aorta_status linear_weight(struct bench *b) {
    return aorta_linear_backward_weight(b->stream, b->linear, b->x, b->y, b->gradient, NULL, false);
}

/* The same as products of slices of the rows, all at once, and their sum: for weights of few tiles. */
static aorta_status linear_weight_sliced(struct bench *b) {
    const struct aorta_linear *l = &b->linear;
    const int64_t k = l->rows / b->slices;
    const struct aorta_products p = {.batch = b->slices,
                                     .m = l->out,
                                     .n = l->in,
                                     .k = k,
                                     .lda = l->out,
                                     .ldb = l->in,
                                     .ldc = l->in,
                                     .a_batch = k * l->out,
                                     .b_batch = k * l->in,
                                     .c_batch = l->out * l->in,
                                     .transpose_a = true};
    AORTA_TRY(aorta_products_run(b->stream, &p, b->y, b->x, b->dp));
    return aorta_sum_pieces(b->stream, b->gradient, b->dp, b->slices, l->out * l->in, 1.0f);
}

/* Operands as large as the product wants them, wherever they come from in the workload. */
static aorta_status product(struct bench *b) {
    const bool weights = b->which == FSDP_SCORES || b->which == FSDP_DWEIGHTS;
    const int64_t times = b->at_once ? 1 : b->sequences, apart = b->rows / b->sequences * 3 * b->o.width;
    const int64_t squares = b->o.heads * b->o.positions * b->o.positions;
    const struct aorta_products p = aorta_hwq_fsdp_products(&b->o, b->at_once ? b->sequences : 1, b->which);
    for (int64_t i = 0; i < times; i++)
        AORTA_TRY(aorta_products_run(b->stream, &p, weights ? b->x + i * apart : b->p + i * squares, b->y + i * apart,
                                     weights ? b->dp + i * squares : b->z + i * apart));
    return NULL;
}

static struct aorta_softmax softmax_of(const struct bench *b) {
    return (struct aorta_softmax){
        .rows = b->rows * b->o.heads, .width = b->o.positions, .scale = aorta_hwq_fsdp_scale(&b->o)};
}
static aorta_status softmax_forward(struct bench *b) {
    return aorta_softmax_forward(b->stream, softmax_of(b), b->p, b->p);
}
static aorta_status softmax_backward(struct bench *b) {
    return aorta_softmax_backward(b->stream, softmax_of(b), b->p, b->dp, b->ds);
}

/* Product and softmax in one. */
static aorta_status scores_forward(struct bench *b) {
    const struct aorta_products p = aorta_hwq_fsdp_products(&b->o, b->sequences, FSDP_SCORES);
    return aorta_scores_forward(b->stream, &p, aorta_hwq_fsdp_scale(&b->o), b->x, b->y, b->dp);
}
static aorta_status scores_backward(struct bench *b) {
    const struct aorta_products p = aorta_hwq_fsdp_products(&b->o, b->sequences, FSDP_DWEIGHTS);
    return aorta_scores_backward(b->stream, &p, aorta_hwq_fsdp_scale(&b->o), b->x, b->y, b->p, b->ds);
}

static struct aorta_attention attention_of(const struct bench *b) {
    return (struct aorta_attention){.dtype = AORTA_F32,
                                    .batch = b->sequences,
                                    .positions = b->o.positions,
                                    .heads = b->o.heads,
                                    .head_dim = b->o.width / b->o.heads};
}
static aorta_status attention_forward(struct bench *b) {
    return aorta_attention_forward(b->stream, attention_of(b), b->x, b->y, b->saved, b->scratch);
}
static aorta_status attention_backward(struct bench *b) {
    return aorta_attention_backward(b->stream, attention_of(b), b->x, b->y, b->saved, b->z, b->w, b->scratch, NULL,
                                    false);
}

static aorta_status norm_forward(struct bench *b) {
    const struct aorta_norm shape = {.dtype = AORTA_F32, .rows = b->rows, .width = b->o.width, .eps = 1e-5f};
    return aorta_norm_forward(b->stream, shape, b->x, b->y, b->weight, b->bias, b->z, b->w, b->mean, b->rstd);
}
static aorta_status norm_backward(struct bench *b) {
    const struct aorta_norm shape = {.dtype = AORTA_F32, .rows = b->rows, .width = b->o.width, .eps = 1e-5f};
    return aorta_norm_backward(b->stream, shape, b->x, b->w, b->z, b->weight, b->mean, b->rstd, b->y, NULL, b->gradient,
                               b->gradient + b->o.width, NULL, false);
}

static struct aorta_gelu gelu_of(const struct bench *b) {
    const int64_t hidden = b->o.width * b->o.mlp;
    return (struct aorta_gelu){.dtype = AORTA_F32, .count = b->rows * hidden, .width = hidden};
}
static aorta_status gelu_forward(struct bench *b) {
    return aorta_gelu_forward(b->stream, gelu_of(b), b->x, b->y);
}
static aorta_status gelu_backward(struct bench *b) {
    return aorta_gelu_backward(b->stream, gelu_of(b), b->x, b->y, b->z, b->bias, false);
}
static aorta_status exchange(struct bench *b) {
    return aorta_copy(b->stream, b->y, b->x, (size_t)(b->rows * b->o.width) * sizeof(float));
}

/* ---- measuring ---- */

static aorta_status time_calls(struct bench *b, operation run, int calls, int64_t *ns) {
    int64_t start, end;
    AORTA_TRY(aorta_event_record(b->start, b->stream));
    for (int i = 0; i < calls; i++) AORTA_TRY(run(b));
    AORTA_TRY(aorta_event_record(b->end, b->stream));
    AORTA_TRY(aorta_stream_synchronize(b->stream));
    AORTA_TRY(aorta_event_time(b->start, &start));
    AORTA_TRY(aorta_event_time(b->end, &end));
    *ns = end - start;
    return NULL;
}

/* The least of some runs of a few calls. `work`: flop, or bytes where it says so, of one call. `calls`: in a block. */
static aorta_status report(struct bench *b, const char *name, operation run, double work, const char *unit,
                           double calls, double *us) {
    const int repeats = aorta_device_is_gpu(b->device) ? REPEATS : 1;
    int64_t least = INT64_MAX, ns;
    AORTA_TRY(time_calls(b, run, 1, &ns));
    for (int i = 0; i < RUNS; i++) {
        AORTA_TRY(time_calls(b, run, repeats, &ns));
        if (ns < least) least = ns;
    }
    const double each = (double)least * 1e-3 / repeats;
    *us += calls * each;
    printf("%-44s %10.1f us %8.1f %-8s x %2.0f = %8.1f us\n", name, each,
           work / each * (strcmp(unit, "TFLOP/s") == 0 ? 1e-6 : 1e-3), unit, calls, calls * each);
    fflush(stdout);
    return NULL;
}

static aorta_status report_linear(struct bench *b, const char *name, int64_t in, int64_t out) {
    const struct {
        const char *what;
        operation run;
    } rows[] = {{"forward", linear_forward}, {"dx", linear_input}, {"dweight", linear_weight}};
    b->linear = (struct aorta_linear){AORTA_F32, b->rows, in, out};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char label[64];
        snprintf(label, sizeof label, "%s, %s", name, rows[i].what);
        AORTA_TRY(report(b, label, rows[i].run, 2.0 * (double)b->rows * (double)(in * out), "TFLOP/s", 1, &b->sum_us));
    }
    const int64_t room = b->rows * b->o.heads * b->o.positions;
    for (b->slices = 2; b->slices <= 8 && b->slices * in * out <= room; b->slices *= 2) {
        char label[64];
        double aside = 0.0;
        snprintf(label, sizeof label, "%s, dweight of %d slices and their sum", name, (int)b->slices);
        AORTA_TRY(
            report(b, label, linear_weight_sliced, 2.0 * (double)b->rows * (double)(in * out), "TFLOP/s", 0, &aside));
    }
    return NULL;
}

/* Those that make scores or their gradient into scores_us, the others into others_us. */
static aorta_status report_products(struct bench *b, bool at_once, double *scores_us, double *others_us) {
    static const char *const names[] = {
        [FSDP_SCORES] = "scores",   [FSDP_CONTEXT] = "context",   [FSDP_DWEIGHTS] = "dweights",
        [FSDP_DVALUES] = "dvalues", [FSDP_DQUERIES] = "dqueries", [FSDP_DKEYS] = "dkeys"};
    const double flop = 2.0 * (double)b->rows * (double)(b->o.positions * b->o.width);
    b->at_once = at_once;
    for (int which = FSDP_SCORES; which <= FSDP_DKEYS; which++) {
        const bool scores = which == FSDP_SCORES || which == FSDP_DWEIGHTS;
        char label[64];
        b->which = (enum fsdp_product)which;
        snprintf(label, sizeof label, "%s, %s", names[which], at_once ? "all at once" : "one sequence each");
        AORTA_TRY(report(b, label, product, flop, "TFLOP/s", 1, scores ? scores_us : others_us));
    }
    return NULL;
}

static aorta_status report_attention(struct bench *b) {
    const double weights = 4.0 * (double)(b->rows * b->o.heads * b->o.positions);
    const double flop = 2.0 * (double)b->rows * (double)(b->o.positions * b->o.width);
    double softmax_us = 0.0, in_one_us = 0.0, scores_us[2] = {0}, others_us[2] = {0};
    AORTA_TRY(report(b, "scores and softmax in one, forward", scores_forward, flop, "TFLOP/s", 1, &in_one_us));
    AORTA_TRY(report(b, "scores and softmax in one, backward", scores_backward, flop, "TFLOP/s", 1, &in_one_us));
    AORTA_TRY(report(b, "softmax forward", softmax_forward, 2.0 * weights, "GB/s", 1, &softmax_us));
    AORTA_TRY(report(b, "softmax backward", softmax_backward, 3.0 * weights, "GB/s", 1, &softmax_us));
    for (int i = 0; i < 2; i++) AORTA_TRY(report_products(b, i == 0, &scores_us[i], &others_us[i]));
    b->attention_us[IN_ONE] = in_one_us + others_us[0];
    b->attention_us[AT_ONCE] = softmax_us + scores_us[0] + others_us[0];
    b->attention_us[EACH] = softmax_us + scores_us[1] + others_us[1];
    AORTA_TRY(
        report(b, "aorta_attention forward", attention_forward, 2.0 * flop, "TFLOP/s", 1, &b->attention_us[TILED]));
    return report(b, "aorta_attention backward (7 products)", attention_backward, 7.0 * flop, "TFLOP/s", 1,
                  &b->attention_us[TILED]);
}

static aorta_status report_all(struct bench *b) {
    const int64_t width = b->o.width, hidden = width * b->o.mlp;
    const double activations = 4.0 * (double)(b->rows * width), inner = 4.0 * (double)(b->rows * hidden);
    AORTA_TRY(report_attention(b));
    AORTA_TRY(report_linear(b, "qkv", width, 3 * width));
    AORTA_TRY(report_linear(b, "out", width, width));
    AORTA_TRY(report_linear(b, "up", width, hidden));
    AORTA_TRY(report_linear(b, "down", hidden, width));
    AORTA_TRY(report(b, "norm forward", norm_forward, 4.0 * activations, "GB/s", 2, &b->sum_us));
    AORTA_TRY(report(b, "norm backward", norm_backward, 4.0 * activations, "GB/s", 2, &b->sum_us));
    AORTA_TRY(report(b, "gelu forward", gelu_forward, 2.0 * inner, "GB/s", 1, &b->sum_us));
    AORTA_TRY(report(b, "gelu backward, dbias", gelu_backward, 3.0 * inner, "GB/s", 1, &b->sum_us));
    AORTA_TRY(report(b, "exchange (a copy)", exchange, 2.0 * activations, "GB/s", 4, &b->sum_us));
    b->sum_us += b->attention_us[IN_ONE];
    printf(
        "attention, forward and backward: %.1f us with scores and softmax in one, %.1f us apart, %.1f us one sequence "
        "each, %.1f us by aorta_attention\n",
        b->attention_us[IN_ONE], b->attention_us[AT_ONCE], b->attention_us[EACH], b->attention_us[TILED]);
    printf("a block, one after the other: %.1f us; 4 blocks of 8 sequences: %.3f ms\n", b->sum_us,
           b->sum_us * 4.0 * 8.0 / (double)b->sequences * 1e-3);
    return NULL;
}

static void print_line(void *user, const char *line) {
    (void)user;
    puts(line);
}

/* ---- memory ---- */

static aorta_status create(struct bench *b) {
    b->host = malloc(BLOCK * sizeof *b->host);
    if (!b->host) return AORTA_ERROR(AORTA_MEMORY, "no memory for random numbers");
    randomise(b->host);
    const int64_t widest = b->rows * b->o.width * (b->o.mlp > 3 ? b->o.mlp : 3);
    const int64_t square = b->rows * b->o.heads * b->o.positions, layer = b->o.width * b->o.width * (b->o.mlp + 3);
    float **const wide[] = {&b->x, &b->y, &b->z, &b->w}, **const squares[] = {&b->p, &b->dp, &b->ds};
    for (int i = 0; i < 4; i++) AORTA_TRY(take(b, widest, wide[i]));
    for (int i = 0; i < 3; i++) AORTA_TRY(take(b, square, squares[i]));
    AORTA_TRY(take(b, layer, &b->weight));
    AORTA_TRY(take(b, layer, &b->gradient));
    AORTA_TRY(take(b, 3 * b->o.width * b->o.mlp, &b->bias));
    AORTA_TRY(take(b, b->rows, &b->mean));
    AORTA_TRY(take(b, b->rows, &b->rstd));
    const struct aorta_attention shape = attention_of(b);
    AORTA_TRY(aorta_device_alloc(b->device, aorta_attention_saved_bytes(b->device, shape) + 1, "saved", &b->saved));
    return aorta_device_alloc(b->device, aorta_attention_scratch_bytes(b->device, shape) + 1, "scratch", &b->scratch);
}

static void destroy(struct bench *b) {
    void *const all[] = {b->x,    b->y,    b->z, b->w,  b->weight, b->gradient, b->bias,
                         b->mean, b->rstd, b->p, b->dp, b->ds,     b->saved,    b->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) aorta_device_free(b->device, all[i]);
    free(b->host);
}

int main(int argc, char **argv) {
    struct bench bench = {.sequences = 4, .o = {.width = 512, .heads = 8, .mlp = 4, .positions = 512, .tensor = 1}};
    enum aorta_device_kind kind = AORTA_DEVICE_CUDA;
    for (int i = 1; i < argc; i++) {
        if (atoi(argv[i]) > 0) bench.sequences = atoi(argv[i]);
        for (enum aorta_device_kind k = AORTA_DEVICE_CPU; k <= AORTA_DEVICE_HIP; k++)
            if (strcmp(argv[i], aorta_device_kind_name(k)) == 0) kind = k;
    }
    bench.rows = bench.sequences * bench.o.positions;
    aorta_status status = aorta_device_open(kind, 0, &bench.device);
    if (!status) status = aorta_stream_create(bench.device, "compute", AORTA_PRIORITY_NORMAL, &bench.stream);
    if (!status) status = aorta_event_create(bench.device, &bench.start);
    if (!status) status = aorta_event_create(bench.device, &bench.end);
    if (!status) status = create(&bench);
    if (!status) printf("%s, fp32, %d sequences\n", aorta_device_get_info(bench.device)->name, (int)bench.sequences);
    if (!status) status = report_all(&bench);
    if (!status) status = aorta_ops_tell_products(bench.device, print_line, NULL);
    if (bench.stream) {
        aorta_status_free(aorta_stream_synchronize(bench.stream));
        destroy(&bench);
        aorta_event_destroy(bench.start);
        aorta_event_destroy(bench.end);
        aorta_stream_destroy(bench.stream);
    }
    if (bench.device) aorta_device_close(bench.device);
    if (!status) return 0;
    fprintf(stderr, "bench_ops_block: %s\n", aorta_status_message(status));
    aorta_status_free(status);
    return 1;
}
