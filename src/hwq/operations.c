#include "hwq/operations.h"

#include <math.h>

/* A function cannot do this: what is stamped has to be queued between begin and end. */
#define STEP(kind, name, call)                                                                                         \
    do {                                                                                                               \
        AORTA_TRY(aorta_hwq_begin(hwq, s, kind, name));                                                                \
        AORTA_TRY(call);                                                                                               \
        return aorta_hwq_end(hwq, s);                                                                                  \
    } while (0)

const struct aorta_range_limits aorta_hwq_sizes = {.min = 1, .max = 1 << 20};

aorta_status aorta_hwq_state(struct aorta_hwq *hwq, size_t bytes, void **memory) {
    *memory = aorta_arena_alloc(hwq->arena, bytes);
    return *memory ? NULL : AORTA_ERROR(AORTA_MEMORY, "no host memory for a workload's state");
}

static aorta_status floats(struct aorta_hwq *hwq, int64_t count, const char *what, float **memory) {
    void *made;
    AORTA_TRY(aorta_hwq_alloc(hwq, (size_t)count * sizeof(float), what, &made));
    *memory = made;
    return NULL;
}

aorta_status aorta_hwq_input(struct aorta_hwq *hwq, uint64_t id, int64_t count, float scale, const char *what,
                             float **memory) {
    AORTA_TRY(floats(hwq, count, what, memory));
    return aorta_hwq_fill(hwq, 0, id, AORTA_F32, count, scale, *memory);
}

aorta_status aorta_hwq_layer_make(struct aorta_hwq *hwq, uint64_t id, int64_t in, int64_t out, bool trained,
                                  struct aorta_hwq_layer *layer) {
    *layer = (struct aorta_hwq_layer){.in = in, .out = out};
    AORTA_TRY(aorta_hwq_input(hwq, id, in * out, 1.0f / sqrtf((float)in), "weights", &layer->weight));
    AORTA_TRY(aorta_hwq_input(hwq, id + 1, out, 0.1f, "biases", &layer->bias));
    if (!trained) return NULL;
    AORTA_TRY(floats(hwq, in * out, "gradients", &layer->dweight));
    return floats(hwq, out, "gradients", &layer->dbias);
}

static struct aorta_linear shape_of(const struct aorta_hwq_layer *layer, int64_t rows) {
    return (struct aorta_linear){AORTA_F32, rows, layer->in, layer->out};
}

aorta_status aorta_hwq_linear(struct aorta_hwq *hwq, int s, const struct aorta_hwq_layer *layer, int64_t rows,
                              const float *x, float *y) {
    STEP(AORTA_SPAN_GEMM, "linear",
         aorta_linear_forward(hwq->streams[s], shape_of(layer, rows), x, layer->weight, layer->bias, y));
}

aorta_status aorta_hwq_linear_relu(struct aorta_hwq *hwq, int s, const struct aorta_hwq_layer *layer, int64_t rows,
                                   const float *x, float *y, bool tf32) {
    STEP(AORTA_SPAN_GEMM, "linear_relu",
         aorta_linear_relu_forward(hwq->streams[s], shape_of(layer, rows), x, layer->weight, layer->bias, y, tf32));
}

aorta_status aorta_hwq_linear_input(struct aorta_hwq *hwq, int s, const struct aorta_hwq_layer *layer, int64_t rows,
                                    const float *dy, float *dx, bool accumulate) {
    STEP(AORTA_SPAN_GEMM, "linear_input",
         aorta_linear_backward_input(hwq->streams[s], shape_of(layer, rows), dy, layer->weight, dx, accumulate));
}

aorta_status aorta_hwq_linear_weight(struct aorta_hwq *hwq, int s, const struct aorta_hwq_layer *layer, int64_t rows,
                                     const float *x, const float *dy, bool accumulate) {
    STEP(AORTA_SPAN_GEMM, "linear_weight",
         aorta_linear_backward_weight(hwq->streams[s], shape_of(layer, rows), x, dy, layer->dweight, layer->dbias,
                                      accumulate));
}

aorta_status aorta_hwq_products(struct aorta_hwq *hwq, int s, const struct aorta_products *products, const float *a,
                                const float *b, float *c) {
    STEP(AORTA_SPAN_GEMM, "products", aorta_products_run(hwq->streams[s], products, a, b, c));
}

aorta_status aorta_hwq_scores(struct aorta_hwq *hwq, int s, const struct aorta_products *products, float scale,
                              const float *a, const float *b, float *p) {
    STEP(AORTA_SPAN_GEMM, "scores", aorta_scores_forward(hwq->streams[s], products, scale, a, b, p));
}

aorta_status aorta_hwq_scores_backward(struct aorta_hwq *hwq, int s, const struct aorta_products *products, float scale,
                                       const float *a, const float *b, const float *p, float *dx) {
    STEP(AORTA_SPAN_GEMM, "scores_backward", aorta_scores_backward(hwq->streams[s], products, scale, a, b, p, dx));
}

aorta_status aorta_hwq_relu_backward(struct aorta_hwq *hwq, int s, int64_t count, const float *y, const float *dy,
                                     float *dx) {
    STEP(AORTA_SPAN_KERNEL, "relu_backward", aorta_relu_backward(hwq->streams[s], count, y, dy, dx));
}

aorta_status aorta_hwq_gelu(struct aorta_hwq *hwq, int s, int64_t count, const float *x, float *y) {
    const struct aorta_gelu shape = {.dtype = AORTA_F32, .count = count};
    STEP(AORTA_SPAN_KERNEL, "gelu", aorta_gelu_forward(hwq->streams[s], shape, x, y));
}

aorta_status aorta_hwq_gelu_backward(struct aorta_hwq *hwq, int s, int64_t rows, int64_t width, const float *x,
                                     const float *dy, float *dx, float *dbias) {
    const struct aorta_gelu shape = {.dtype = AORTA_F32, .count = rows * width, .width = width};
    STEP(AORTA_SPAN_KERNEL, "gelu_backward", aorta_gelu_backward(hwq->streams[s], shape, x, dy, dx, dbias, false));
}

aorta_status aorta_hwq_add(struct aorta_hwq *hwq, int s, float *to, const float *from, int64_t count, float scale) {
    STEP(AORTA_SPAN_KERNEL, "add", aorta_add(hwq->streams[s], to, from, AORTA_F32, count, scale));
}

aorta_status aorta_hwq_sum_pieces(struct aorta_hwq *hwq, int s, float *to, const float *from, int64_t pieces,
                                  int64_t count, float scale) {
    STEP(AORTA_SPAN_KERNEL, "sum_pieces", aorta_sum_pieces(hwq->streams[s], to, from, pieces, count, scale));
}

aorta_status aorta_hwq_softmax(struct aorta_hwq *hwq, int s, struct aorta_softmax shape, const float *x, float *p) {
    STEP(AORTA_SPAN_KERNEL, "softmax", aorta_softmax_forward(hwq->streams[s], shape, x, p));
}

aorta_status aorta_hwq_cross_entropy(struct aorta_hwq *hwq, int s, int64_t rows, int64_t classes, const float *x,
                                     const int64_t *labels, float weight, float *losses, float *dx) {
    STEP(AORTA_SPAN_KERNEL, "cross_entropy",
         aorta_cross_entropy(hwq->streams[s], rows, classes, x, labels, weight, losses, dx));
}

aorta_status aorta_hwq_norm_make(struct aorta_hwq *hwq, uint64_t id, int64_t width, bool trained,
                                 struct aorta_hwq_norm *norm) {
    *norm = (struct aorta_hwq_norm){.width = width};
    AORTA_TRY(aorta_hwq_input(hwq, id, width, 1.0f, "scales of a norm", &norm->gamma));
    AORTA_TRY(aorta_hwq_input(hwq, id + 1, width, 0.1f, "shifts of a norm", &norm->beta));
    if (!trained) return NULL;
    AORTA_TRY(floats(hwq, width, "gradients", &norm->dgamma));
    return floats(hwq, width, "gradients", &norm->dbeta);
}

static struct aorta_norm norm_shape(const struct aorta_hwq_norm *norm, int64_t rows) {
    return (struct aorta_norm){.dtype = AORTA_F32, .rows = rows, .width = norm->width, .eps = 1e-5f};
}

aorta_status aorta_hwq_norm_forward(struct aorta_hwq *hwq, int s, const struct aorta_hwq_norm *norm, int64_t rows,
                                    const float *x, const float *residual, const struct aorta_hwq_norm_saved *saved,
                                    float *y) {
    STEP(AORTA_SPAN_KERNEL, "norm",
         aorta_norm_forward(hwq->streams[s], &(struct aorta_norm_args){.shape = norm_shape(norm, rows),
                                                                       .x = x,
                                                                       .residual = residual,
                                                                       .gamma = norm->gamma,
                                                                       .beta = norm->beta,
                                                                       .sum = saved->sum,
                                                                       .y = y,
                                                                       .mean = saved->mean,
                                                                       .rstd = saved->rstd}));
}

aorta_status aorta_hwq_norm_backward(struct aorta_hwq *hwq, int s, const struct aorta_hwq_norm *norm, int64_t rows,
                                     const float *dy, const float *extra, const struct aorta_hwq_norm_saved *saved,
                                     float *dsum, float *dbias) {
    STEP(AORTA_SPAN_KERNEL, "norm_backward",
         aorta_norm_backward(hwq->streams[s], &(struct aorta_norm_backward_args){.shape = norm_shape(norm, rows),
                                                                                 .dy = dy,
                                                                                 .dy_extra = extra,
                                                                                 .sum = saved->sum,
                                                                                 .gamma = norm->gamma,
                                                                                 .mean = saved->mean,
                                                                                 .rstd = saved->rstd,
                                                                                 .dsum = dsum,
                                                                                 .dgamma = norm->dgamma,
                                                                                 .dbeta = norm->dbeta,
                                                                                 .dbias = dbias}));
}

aorta_status aorta_hwq_all_reduce(struct aorta_hwq *hwq, int s, struct aorta_comm *comm, float *buffer, int64_t count) {
    STEP(AORTA_SPAN_COLLECTIVE, "all_reduce",
         aorta_all_reduce(comm, hwq->streams[s], buffer, buffer, (size_t)count, AORTA_F32, AORTA_SUM));
}

aorta_status aorta_hwq_all_gather(struct aorta_hwq *hwq, int s, struct aorta_comm *comm, const float *send,
                                  float *receive, int64_t count) {
    STEP(AORTA_SPAN_COLLECTIVE, "all_gather",
         aorta_all_gather(comm, hwq->streams[s], send, receive, (size_t)count, AORTA_F32));
}

aorta_status aorta_hwq_all_to_all(struct aorta_hwq *hwq, int s, struct aorta_comm *comm, const float *send,
                                  float *receive, int64_t count) {
    STEP(AORTA_SPAN_COLLECTIVE, "all_to_all",
         aorta_all_to_all(comm, hwq->streams[s], send, receive, (size_t)count, AORTA_F32));
}

aorta_status aorta_hwq_copy(struct aorta_hwq *hwq, int s, void *to, const void *from, size_t bytes) {
    STEP(AORTA_SPAN_COPY, "copy", aorta_copy(hwq->streams[s], to, from, bytes));
}

aorta_status aorta_hwq_embed(struct aorta_hwq *hwq, int s, int64_t rows, int64_t vocab, int64_t width,
                             const int64_t *ids, const float *table, float *y) {
    const struct aorta_embedding shape = {
        .dtype = AORTA_F32, .rows = rows, .features = 1, .vocab = vocab, .dim = width};
    STEP(AORTA_SPAN_KERNEL, "embed", aorta_embedding_forward(hwq->streams[s], shape, ids, table, y));
}

aorta_status aorta_hwq_attend(struct aorta_hwq *hwq, int s, const struct aorta_cache *cache, int64_t first,
                              int64_t queries, const float *qkv, const float *keys, const float *values,
                              const int64_t *positions, float *out) {
    STEP(AORTA_SPAN_KERNEL, "cache_attend",
         aorta_cache_attend(hwq->streams[s], &(struct aorta_cache_attend_args){.shape = *cache,
                                                                               .first = first,
                                                                               .queries = queries,
                                                                               .qkv = qkv,
                                                                               .keys = keys,
                                                                               .values = values,
                                                                               .positions = positions,
                                                                               .out = out}));
}

aorta_status aorta_hwq_append(struct aorta_hwq *hwq, int s, const struct aorta_cache *cache, const float *qkv,
                              float *keys, float *values, const int64_t *positions, const int32_t *counts) {
    STEP(AORTA_SPAN_KERNEL, "cache_append",
         aorta_cache_append(hwq->streams[s], cache, qkv, keys, values, positions, counts));
}

aorta_status aorta_hwq_advance(struct aorta_hwq *hwq, int s, int64_t batch, int64_t *positions, const int32_t *counts,
                               int64_t count) {
    STEP(AORTA_SPAN_KERNEL, "cache_advance", aorta_cache_advance(hwq->streams[s], batch, positions, counts, count));
}
