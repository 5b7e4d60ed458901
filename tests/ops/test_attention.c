#include "device/gpu.h"
#include "rig.h"

#include <math.h>

struct example {
    struct aorta_attention shape;
    double *qkv, *weight, *out;
    double *seen, *parts; /* of the last loss: its qkv, and the terms of each head; both zeros at first */
    double *mask;         /* what dropout makes of each weight, (batch, head, position, position); NULL without */
};

static double *dropout(struct rig *rig, const struct aorta_attention *shape, int64_t step) {
    const int64_t count = shape->batch * shape->heads * shape->positions * shape->positions;
    if (shape->dropout <= 0.0f) return NULL;
    double *mask = rig_values(rig, count);
    for (int64_t i = 0; i < count; i++) mask[i] = rig_dropout((double)shape->dropout, &shape->rng, step, i);
    return mask;
}

/* One head of one sequence, in double; `p` holds positions values. */
static void head(const struct example *e, int64_t b, int64_t h, double *p) {
    const int64_t T = e->shape.positions, D = e->shape.head_dim, H = e->shape.heads, E = H * D;
    for (int64_t i = 0; i < T; i++) {
        const double *q = e->qkv + (b * T + i) * 3 * E + h * D;
        double sum = 0.0;
        for (int64_t j = 0; j < T; j++) {
            const double *k = e->qkv + (b * T + j) * 3 * E + E + h * D;
            double score = 0.0;
            for (int64_t d = 0; d < D; d++) score += q[d] * k[d];
            p[j] = exp(score / sqrt((double)D));
            sum += p[j];
        }
        double *out = e->out + (b * T + i) * E + h * D;
        for (int64_t d = 0; d < D; d++) out[d] = 0.0;
        for (int64_t j = 0; j < T; j++) {
            const double *v = e->qkv + (b * T + j) * 3 * E + 2 * E + h * D;
            int64_t index = ((b * H + h) * T + i) * T + j;
            const double weight = p[j] / sum * (e->mask ? e->mask[index] : 1.0);
            for (int64_t d = 0; d < D; d++) out[d] += weight * v[d];
        }
    }
}

static void reference(const struct example *e) {
    double p[256];
    for (int64_t b = 0; b < e->shape.batch; b++)
        for (int64_t h = 0; h < e->shape.heads; h++) head(e, b, h, p);
}

/* Whether the head's part of qkv is another than at the last call; takes note of it. */
static bool changed(const struct example *e, int64_t b, int64_t h) {
    const int64_t T = e->shape.positions, D = e->shape.head_dim, E = e->shape.heads * D;
    bool any = false;
    for (int64_t row = 3 * b * T; row < 3 * (b + 1) * T; row++) { /* of queries, keys and values in turn */
        const int64_t at = row * E + h * D;
        if (memcmp(e->seen + at, e->qkv + at, (size_t)D * sizeof *e->qkv) == 0) continue;
        memcpy(e->seen + at, e->qkv + at, (size_t)D * sizeof *e->qkv);
        any = true;
    }
    return any;
}

static double loss_of_head(const struct example *e, int64_t b, int64_t h) {
    const int64_t T = e->shape.positions, D = e->shape.head_dim, E = e->shape.heads * D;
    double p[256], total = 0.0;
    head(e, b, h, p);
    for (int64_t i = 0; i < T; i++) {
        const int64_t at = (b * T + i) * E + h * D;
        for (int64_t d = 0; d < D; d++) total += e->weight[at + d] * e->out[at + d];
    }
    return total;
}

static double loss(void *context) {
    const struct example *e = context;
    double total = 0.0;
    for (int64_t b = 0; b < e->shape.batch; b++)
        for (int64_t h = 0; h < e->shape.heads; h++) {
            double *part = &e->parts[b * e->shape.heads + h];
            if (changed(e, b, h)) *part = loss_of_head(e, b, h);
            total += *part;
        }
    return total;
}

static void check_example(struct rig *rig, struct aorta_attention shape) {
    const enum aorta_dtype dtype = shape.dtype;
    const double unit = rig_unit(dtype);
    const int64_t count = shape.batch * shape.positions * shape.heads * shape.head_dim;
    const size_t bytes = (size_t)count * aorta_dtype_size(dtype);
    shape.rng.state = rig_step_state(rig, (struct aorta_step_state){.step = 3});
    struct example e = {shape,
                        rig_random(rig, dtype, 3 * count, 1.5),
                        rig_random(rig, dtype, count, 1),
                        rig_values(rig, count),
                        rig_values(rig, 3 * count),
                        rig_values(rig, shape.batch * shape.heads),
                        dropout(rig, &shape, 3)};
    void *qkv = rig_put(rig, dtype, e.qkv, 3 * count), *out = rig_alloc(rig, bytes), *dqkv = rig_alloc(rig, 3 * bytes);
    void *saved = rig_alloc(rig, aorta_attention_saved_bytes(rig->device, shape));
    void *scratch = rig_alloc(rig, aorta_attention_scratch_bytes(rig->device, shape));
    check_ok(aorta_attention_forward(
        rig->stream,
        &(struct aorta_attention_args){.shape = shape, .qkv = qkv, .out = out, .saved = saved, .scratch = scratch}));
    reference(&e);
    /* Tensor cores take weights that are rounded to the type; values are at most 1.5, weights sum up to 1 or so. */
    const double weights = aorta_device_is_gpu(rig->device) && dtype != AORTA_F32 ? 1.5 * unit : 0.0;
    rig_close_to("out", rig_get(rig, dtype, out, count), e.out, count, 1.01 * unit, 3e-6 + weights);
    const int64_t width = 3 * shape.heads * shape.head_dim, rows = shape.batch * shape.positions;
    double *start = rig_random(rig, AORTA_F32, width, 1);
    float *dbias = rig_put(rig, AORTA_F32, start, width);
    check_ok(aorta_attention_backward(rig->stream,
                                      &(struct aorta_attention_args){.shape = shape,
                                                                     .qkv = qkv,
                                                                     .out_in = out,
                                                                     .saved_in = saved,
                                                                     .dout = rig_put(rig, dtype, e.weight, count),
                                                                     .dqkv = dqkv,
                                                                     .scratch = scratch,
                                                                     .dbias = dbias,
                                                                     .accumulate = true}));
    double *gradient = rig_get(rig, dtype, dqkv, 3 * count);
    for (int64_t i = 0; i < 3 * count; i++)
        if (i % width / (width / 3) == 1) gradient[i] = 0.0; /* the keys' bias has no gradient */
    rig_sums_of_rows(rig, "dbias", dtype, gradient, rows, width, start, dbias);
    rig_gradient("dqkv", loss, &e, e.qkv, 3 * count, rig_get(rig, dtype, dqkv, 3 * count), 4.0 * unit + 1e-5,
                 4.0 * unit + 1e-5);
}

static void conformance(void **state) {
    static const struct {
        int64_t batch, positions, heads, dim;
    } shapes[] = {{1, 1, 1, 1},   {2, 3, 2, 5},    {1, 33, 3, 7},   {2, 40, 2, 32}, {1, 72, 1, 64}, {1, 40, 1, 96},
                  {1, 16, 2, 16}, {1, 176, 1, 64}, {1, 200, 1, 24}, {3, 88, 3, 8},  {1, 168, 4, 40}};
    for (int t = 0; t < 3; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int drop = 0; drop < 2; drop++) {
                check_example(*state, (struct aorta_attention){rig_dtypes[t],
                                                               shapes[s].batch,
                                                               shapes[s].positions,
                                                               shapes[s].heads,
                                                               shapes[s].dim,
                                                               drop ? 0.2f : 0.0f,
                                                               {.seed = 1, .site = 2}});
                rig_reset(state);
            }
}

/* Scores far beyond what exp can take leave the softmax finite. */
static void large_scores(void **state) {
    struct rig *rig = *state;
    const struct aorta_attention shape = {AORTA_F32, 1, 4, 1, 8, 0.0f, {0}};
    double *qkv = rig_random(rig, AORTA_F32, 4 * 24, 1000.0);
    float *in = rig_put(rig, AORTA_F32, qkv, 4 * 24), *out = rig_alloc(rig, 4 * 8 * sizeof(float));
    void *saved = rig_alloc(rig, aorta_attention_saved_bytes(rig->device, shape)),
         *scratch = rig_alloc(rig, aorta_attention_scratch_bytes(rig->device, shape));
    check_ok(aorta_attention_forward(
        rig->stream,
        &(struct aorta_attention_args){.shape = shape, .qkv = in, .out = out, .saved = saved, .scratch = scratch}));
    double *got = rig_get(rig, AORTA_F32, out, 32);
    for (int i = 0; i < 32; i++) assert_true(isfinite(got[i]) && fabs(got[i]) <= 1000.0);
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[8] = {0};
    struct aorta_attention shape = {AORTA_F32, 1, 2, 1, 0, 0.0f, {0}};
    check_fails(aorta_attention_forward(rig->stream,
                                        &(struct aorta_attention_args){
                                            .shape = shape, .qkv = some, .out = some, .saved = some, .scratch = some}),
                AORTA_INTERNAL, "head_dim is 0");
    shape.head_dim = 1;
    check_fails(
        aorta_attention_forward(
            rig->stream, &(struct aorta_attention_args){.shape = shape, .qkv = some, .out = some, .scratch = some}),
        AORTA_INTERNAL, "saved is NULL");
    check_fails(aorta_attention_backward(
                    rig->stream,
                    &(struct aorta_attention_args){
                        .shape = shape, .qkv = some, .out_in = some, .saved_in = some, .dqkv = some, .scratch = some}),
                AORTA_INTERNAL, "dout is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(conformance), rig_test(large_scores), rig_test(wrong_arguments)};
    return rig_run_tests("ops: attention", tests);
}
