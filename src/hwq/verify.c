#include "hwq/verify.h"
#include "hwq/iterations.h"

#include <math.h>
#include <stdlib.h>

struct aorta_hwq_result_buffer {
    struct aorta_hwq_result_buffer *before;
    void *memory;
    size_t bytes;
};

struct aorta_hwq_fetched {
    struct aorta_hwq_fetched *before;
    _Alignas(16) unsigned char copy[];
};

/* ---- results ---- */

aorta_status aorta_hwq_output_bytes(struct aorta_hwq *hwq, struct aorta_hwq_results *results, size_t bytes,
                                    const char *what, void **memory) {
    struct aorta_hwq_result_buffer *buffer;
    void *made;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof *buffer, &made));
    buffer = made;
    AORTA_TRY(aorta_hwq_alloc(hwq, bytes, what, memory));
    *buffer = (struct aorta_hwq_result_buffer){results->last, *memory, bytes};
    results->last = buffer;
    return NULL;
}

aorta_status aorta_hwq_output(struct aorta_hwq *hwq, struct aorta_hwq_results *results, int64_t count, const char *what,
                              float **memory) {
    void *made;
    AORTA_TRY(aorta_hwq_output_bytes(hwq, results, (size_t)count * sizeof(float), what, &made));
    *memory = made;
    return NULL;
}

static aorta_status wait_for_all(const struct aorta_hwq *hwq) {
    aorta_status status = NULL;
    for (int s = 0; s < hwq->stream_count; s++)
        status = aorta_status_join(status, aorta_stream_synchronize(hwq->streams[s]));
    return status;
}

/* Waits first: a replay follows work on the first stream only, and workloads may have overwritten results on others. */
static aorta_status iterate_again(struct aorta_hwq *hwq, const struct aorta_hwq_results *results, void *state,
                                  aorta_status (*iterate)(struct aorta_hwq *hwq, void *state)) {
    for (const struct aorta_hwq_result_buffer *b = results->last; b; b = b->before)
        AORTA_TRY(aorta_fill_bytes(hwq->streams[0], b->memory, 0xFF, b->bytes));
    AORTA_TRY(wait_for_all(hwq));
    int64_t host_ns;
    aorta_status status = hwq->replay ? aorta_hwq_runner_run(hwq->replay, -1, &host_ns) : iterate(hwq, state);
    return aorta_status_join(status, wait_for_all(hwq));
}

/* ---- copies ---- */

aorta_status aorta_hwq_fetch_bytes(struct aorta_hwq_verifier *verifier, const void *memory, size_t bytes,
                                   const void **copy) {
    struct aorta_hwq_fetched *made = malloc(sizeof *made + bytes);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %zu bytes to verify", bytes);
    made->before = verifier->last;
    verifier->last = made;
    *copy = made->copy;
    return aorta_hwq_download(verifier->hwq, made->copy, memory, bytes);
}

aorta_status aorta_hwq_fetch(struct aorta_hwq_verifier *verifier, const float *memory, int64_t count,
                             const float **copy) {
    const void *made = NULL;
    AORTA_TRY(aorta_hwq_fetch_bytes(verifier, memory, (size_t)count * sizeof(float), &made));
    *copy = made;
    return NULL;
}

void aorta_hwq_verifier_end(struct aorta_hwq_verifier *verifier) {
    while (verifier->last) {
        struct aorta_hwq_fetched *fetched = verifier->last;
        verifier->last = fetched->before;
        free(fetched);
    }
}

aorta_status aorta_hwq_verify_iteration(struct aorta_hwq *hwq, struct aorta_hwq_check *check,
                                        const struct aorta_hwq_results *results, void *state,
                                        aorta_status (*iterate)(struct aorta_hwq *hwq, void *state),
                                        aorta_status (*compare)(struct aorta_hwq_verifier *verifier, void *state)) {
    struct aorta_hwq_verifier verifier = {.hwq = hwq, .check = check};
    aorta_status status = iterate_again(hwq, results, state, iterate);
    if (!status) status = compare(&verifier, state);
    aorta_hwq_verifier_end(&verifier);
    return status;
}

int64_t aorta_hwq_sample_count(int64_t count) {
    return count < AORTA_HWQ_SAMPLES ? count : AORTA_HWQ_SAMPLES;
}

/* Steps of the golden ratio, which spread evenly; the first and the last are always included. */
int64_t aorta_hwq_sample(int64_t i, int64_t count) {
    if (count <= AORTA_HWQ_SAMPLES) return i;
    if (i == 1) return count - 1;
    const double place = (double)i * 0.61803398874989485;
    return (int64_t)((place - floor(place)) * (double)count);
}

/* ---- stages ---- */

/* Σ a·b with its magnitude. */
struct sum {
    double value, magnitude;
};

static struct sum dot(const float *a, int64_t a_step, const float *b, int64_t b_step, int64_t count) {
    struct sum sum = {0};
    for (int64_t i = 0; i < count; i++) {
        const double product = (double)a[i * a_step] * (double)b[i * b_step];
        sum.value += product;
        sum.magnitude += fabs(product);
    }
    return sum;
}

aorta_status aorta_hwq_verify_linear(struct aorta_hwq_verifier *verifier, const char *what,
                                     const struct aorta_hwq_layer *layer, int64_t rows, const float *x, const float *y,
                                     enum aorta_hwq_activation activation, double tolerance) {
    const float *in, *weight, *bias = NULL, *out;
    const int64_t count = rows * layer->out;
    AORTA_TRY(aorta_hwq_fetch(verifier, x, rows * layer->in, &in));
    AORTA_TRY(aorta_hwq_fetch(verifier, layer->weight, layer->in * layer->out, &weight));
    if (layer->bias) AORTA_TRY(aorta_hwq_fetch(verifier, layer->bias, layer->out, &bias));
    AORTA_TRY(aorta_hwq_fetch(verifier, y, count, &out));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), row = at / layer->out, column = at % layer->out;
        struct sum sum = dot(in + row * layer->in, 1, weight + column * layer->in, 1, layer->in);
        if (bias) sum.value += (double)bias[column];
        if (bias) sum.magnitude += fabs((double)bias[column]);
        if (activation == AORTA_HWQ_RELU) sum.value = fmax(sum.value, 0.0);
        aorta_hwq_compare(verifier->check, (double)out[at], sum.value, tolerance * sum.magnitude, 0, "%s[%lld, %lld]",
                          what, (long long)row, (long long)column);
    }
    return NULL;
}

aorta_status aorta_hwq_verify_input(struct aorta_hwq_verifier *verifier, const char *what,
                                    const struct aorta_hwq_layer *layer, int64_t rows, const float *dy, const float *dx,
                                    const float *added) {
    const float *slope, *weight, *out, *more = NULL;
    const int64_t count = rows * layer->in;
    AORTA_TRY(aorta_hwq_fetch(verifier, dy, rows * layer->out, &slope));
    AORTA_TRY(aorta_hwq_fetch(verifier, layer->weight, layer->in * layer->out, &weight));
    AORTA_TRY(aorta_hwq_fetch(verifier, dx, count, &out));
    if (added) AORTA_TRY(aorta_hwq_fetch(verifier, added, count, &more));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), row = at / layer->in, column = at % layer->in;
        struct sum sum = dot(slope + row * layer->out, 1, weight + column, layer->in, layer->out);
        if (more) sum.value += (double)more[at];
        if (more) sum.magnitude += fabs((double)more[at]);
        aorta_hwq_compare(verifier->check, (double)out[at], sum.value, AORTA_HWQ_FP32 * sum.magnitude, 0,
                          "%s[%lld, %lld]", what, (long long)row, (long long)column);
    }
    return NULL;
}

aorta_status aorta_hwq_verify_weight(struct aorta_hwq_verifier *verifier, const char *what,
                                     const struct aorta_hwq_layer *layer, int64_t rows, const float *x, const float *dy,
                                     double factor) {
    static const float one = 1.0f;
    const float *in, *slope, *dweight, *dbias = NULL;
    const int64_t count = layer->in * layer->out;
    AORTA_TRY(aorta_hwq_fetch(verifier, x, rows * layer->in, &in));
    AORTA_TRY(aorta_hwq_fetch(verifier, dy, rows * layer->out, &slope));
    AORTA_TRY(aorta_hwq_fetch(verifier, layer->dweight, count, &dweight));
    if (layer->dbias) AORTA_TRY(aorta_hwq_fetch(verifier, layer->dbias, layer->out, &dbias));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), row = at / layer->in, column = at % layer->in;
        const struct sum sum = dot(slope + row, layer->out, in + column, layer->in, rows);
        aorta_hwq_compare(verifier->check, (double)dweight[at], factor * sum.value,
                          factor * AORTA_HWQ_FP32 * sum.magnitude + 1e-30, 0, "%s, dweight[%lld, %lld]", what,
                          (long long)row, (long long)column);
    }
    for (int64_t i = 0; dbias && i < aorta_hwq_sample_count(layer->out); i++) {
        const int64_t at = aorta_hwq_sample(i, layer->out);
        const struct sum sum = dot(slope + at, layer->out, &one, 0, rows);
        aorta_hwq_compare(verifier->check, (double)dbias[at], factor * sum.value,
                          factor * AORTA_HWQ_FP32 * sum.magnitude + 1e-30, 0, "%s, dbias[%lld]", what, (long long)at);
    }
    return NULL;
}

aorta_status aorta_hwq_verify_products(struct aorta_hwq_verifier *verifier, const char *what,
                                       const struct aorta_products *p, const float *a, const float *b, const float *c) {
    const int64_t a_rows = p->transpose_a ? p->k : p->m, b_rows = p->transpose_b ? p->n : p->k;
    const int64_t a_columns = p->transpose_a ? p->m : p->k, b_columns = p->transpose_b ? p->k : p->n;
    const int64_t count = p->batch * p->m * p->n, last = p->batch - 1;
    const float *left, *right, *out;
    AORTA_TRY(aorta_hwq_fetch(verifier, a, last * p->a_batch + (a_rows - 1) * p->lda + a_columns, &left));
    AORTA_TRY(aorta_hwq_fetch(verifier, b, last * p->b_batch + (b_rows - 1) * p->ldb + b_columns, &right));
    AORTA_TRY(aorta_hwq_fetch(verifier, c, last * p->c_batch + (p->m - 1) * p->ldc + p->n, &out));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), number = at / (p->m * p->n);
        const int64_t row = at / p->n % p->m, column = at % p->n;
        const struct sum sum =
            dot(left + number * p->a_batch + (p->transpose_a ? row : row * p->lda), p->transpose_a ? p->lda : 1,
                right + number * p->b_batch + (p->transpose_b ? column * p->ldb : column), p->transpose_b ? 1 : p->ldb,
                p->k);
        aorta_hwq_compare(verifier->check, (double)out[number * p->c_batch + row * p->ldc + column], sum.value,
                          AORTA_HWQ_FP32 * sum.magnitude + 1e-30, 0, "%s %lld[%lld, %lld]", what, (long long)number,
                          (long long)row, (long long)column);
    }
    return NULL;
}

aorta_status aorta_hwq_verify_gelu(struct aorta_hwq_verifier *verifier, const char *what, int64_t count, const float *x,
                                   const float *y) {
    const float *in, *out;
    AORTA_TRY(aorta_hwq_fetch(verifier, x, count, &in));
    AORTA_TRY(aorta_hwq_fetch(verifier, y, count, &out));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count);
        const double value = (double)in[at];
        aorta_hwq_compare(verifier->check, (double)out[at], 0.5 * value * erfc(-value / sqrt(2.0)), 1e-6, 1e-6,
                          "%s[%lld]", what, (long long)at);
    }
    return NULL;
}

aorta_status aorta_hwq_verify_gelu_backward(struct aorta_hwq_verifier *verifier, const char *what, int64_t count,
                                            const float *x, const float *dy, const float *dx) {
    const float *in, *slope, *out;
    AORTA_TRY(aorta_hwq_fetch(verifier, x, count, &in));
    AORTA_TRY(aorta_hwq_fetch(verifier, dy, count, &slope));
    AORTA_TRY(aorta_hwq_fetch(verifier, dx, count, &out));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count);
        const double v = (double)in[at];
        const double rate = 0.5 * erfc(-v / sqrt(2.0)) + v * exp(-0.5 * v * v) / sqrt(2.0 * acos(-1.0));
        aorta_hwq_compare(verifier->check, (double)out[at], (double)slope[at] * rate, 1e-6 * fabs((double)slope[at]),
                          1e-6, "%s[%lld]", what, (long long)at);
    }
    return NULL;
}

aorta_status aorta_hwq_verify_norm(struct aorta_hwq_verifier *verifier, const char *what,
                                   const struct aorta_hwq_norm *norm, int64_t rows, const float *sum, const float *y) {
    const int64_t width = norm->width, count = rows * width;
    const float *in, *gamma, *beta, *out;
    AORTA_TRY(aorta_hwq_fetch(verifier, sum, count, &in));
    AORTA_TRY(aorta_hwq_fetch(verifier, norm->gamma, width, &gamma));
    AORTA_TRY(aorta_hwq_fetch(verifier, norm->beta, width, &beta));
    AORTA_TRY(aorta_hwq_fetch(verifier, y, count, &out));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), column = at % width;
        const float *row = in + at / width * width;
        double mean = 0.0, square = 0.0;
        for (int64_t j = 0; j < width; j++) mean += (double)row[j] / (double)width;
        for (int64_t j = 0; j < width; j++) square += ((double)row[j] - mean) * ((double)row[j] - mean);
        const double normal = ((double)in[at] - mean) / sqrt(square / (double)width + 1e-5);
        aorta_hwq_compare(verifier->check, (double)out[at], normal * (double)gamma[column] + (double)beta[column], 1e-5,
                          1e-5, "%s[%lld, %lld]", what, (long long)(at / width), (long long)column);
    }
    return NULL;
}

/* With n = (sum − mean)·rstd and g = (dy + extra)·gamma: dsum = rstd·(g − mean(g) − n·mean(g·n)). */
aorta_status aorta_hwq_verify_norm_backward(struct aorta_hwq_verifier *verifier, const char *what,
                                            const struct aorta_hwq_norm *norm, int64_t rows, const float *sum,
                                            const float *dy, const float *extra, const float *dsum) {
    const int64_t width = norm->width, count = rows * width;
    const float *in, *gamma, *slope, *more = NULL, *out;
    AORTA_TRY(aorta_hwq_fetch(verifier, sum, count, &in));
    AORTA_TRY(aorta_hwq_fetch(verifier, norm->gamma, width, &gamma));
    AORTA_TRY(aorta_hwq_fetch(verifier, dy, count, &slope));
    if (extra) AORTA_TRY(aorta_hwq_fetch(verifier, extra, count, &more));
    AORTA_TRY(aorta_hwq_fetch(verifier, dsum, count, &out));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), first = at / width * width;
        double mean = 0.0, square = 0.0, total = 0.0, along = 0.0, own = 0.0, magnitude = 0.0;
        for (int64_t j = 0; j < width; j++) mean += (double)in[first + j] / (double)width;
        for (int64_t j = 0; j < width; j++) square += ((double)in[first + j] - mean) * ((double)in[first + j] - mean);
        const double rstd = 1.0 / sqrt(square / (double)width + 1e-5);
        for (int64_t j = 0; j < width; j++) {
            const double all = (double)slope[first + j] + (more ? (double)more[first + j] : 0.0);
            const double g = all * (double)gamma[j];
            total += g / (double)width;
            along += g * ((double)in[first + j] - mean) * rstd / (double)width;
            magnitude = fmax(magnitude, fabs(g));
            if (first + j == at) own = g;
        }
        const double expected = rstd * (own - total - ((double)in[at] - mean) * rstd * along);
        aorta_hwq_compare(verifier->check, (double)out[at], expected, 1e-5 * rstd * magnitude + 1e-30, 0, "%s[%lld]",
                          what, (long long)at);
    }
    return NULL;
}

/* ---- caches ---- */

aorta_status aorta_hwq_sequence_fetch(struct aorta_hwq *hwq, const struct aorta_cache *cache, int64_t layer,
                                      int64_t sequence, const float *keys, const float *values,
                                      const int64_t *positions, struct aorta_hwq_sequence *copy) {
    const int64_t count = cache->window * cache->heads * cache->head_dim;
    const int64_t first = (layer * cache->batch + sequence) * count;
    const size_t bytes = (size_t)count * sizeof(float);
    void *memory = NULL;
    AORTA_TRY(aorta_hwq_state(hwq, 2 * bytes, &memory));
    copy->keys = memory;
    copy->values = copy->keys + count;
    AORTA_TRY(aorta_hwq_download(hwq, copy->keys, keys + first, bytes));
    AORTA_TRY(aorta_hwq_download(hwq, copy->values, values + first, bytes));
    return aorta_hwq_download(hwq, &copy->position, positions + sequence, sizeof copy->position);
}

/* Keys and values of one sequence, cached and new. */
struct attention {
    const struct aorta_cache *cache;
    const struct aorta_hwq_sequence *copy;
    const float *qkv; /* on the host */
    int64_t sequence, cached;
};

static const float *row_of(const struct attention *attention, int64_t t, int64_t part) {
    const struct aorta_cache *c = attention->cache;
    const int64_t width = c->heads * c->head_dim;
    if (t < attention->cached) return (part == 1 ? attention->copy->keys : attention->copy->values) + t * width;
    return attention->qkv + ((t - attention->cached) * c->batch + attention->sequence) * 3 * width + part * width;
}

/* One element of the output of new position `own`. */
static double attended(const struct attention *attention, int64_t own, int64_t column) {
    const struct aorta_cache *c = attention->cache;
    const int64_t head = column / c->head_dim * c->head_dim;
    const float *q = attention->qkv + (own * c->batch + attention->sequence) * 3 * c->heads * c->head_dim + head;
    double total = 0.0, value = 0.0, reference = 0.0;
    for (int64_t t = 0; t < attention->cached + own + 1; t++) {
        const double score =
            dot(q, 1, row_of(attention, t, 1) + head, 1, c->head_dim).value / sqrt((double)c->head_dim);
        if (t == 0) reference = score;
        total += exp(score - reference);
        value += exp(score - reference) * (double)row_of(attention, t, 2)[column];
    }
    return value / total;
}

aorta_status aorta_hwq_verify_attend(struct aorta_hwq_verifier *verifier, const char *what,
                                     const struct aorta_cache *cache, int64_t first, int64_t queries, int64_t sequence,
                                     const struct aorta_hwq_sequence *copy, const float *qkv, const float *out) {
    enum { FEW = 5 }; /* each reads all keys */
    const int64_t width = cache->heads * cache->head_dim;
    const int64_t cached = copy->position < cache->window ? copy->position : cache->window;
    struct attention attention = {.cache = cache, .copy = copy, .sequence = sequence, .cached = cached};
    const float *got;
    AORTA_TRY(aorta_hwq_fetch(verifier, qkv, (first + queries) * cache->batch * 3 * width, &attention.qkv));
    AORTA_TRY(aorta_hwq_fetch(verifier, out, queries * cache->batch * width, &got));
    for (int64_t query = 0; query < queries; query++)
        for (int64_t i = 0; i < FEW; i++) {
            const int64_t column = (width - 1) * i / (FEW - 1);
            aorta_hwq_compare(verifier->check, (double)got[(query * cache->batch + sequence) * width + column],
                              attended(&attention, first + query, column), 1e-5, 1e-4, "%s, query %lld, column %lld",
                              what, (long long)query, (long long)column);
        }
    return NULL;
}

aorta_status aorta_hwq_verify_append(struct aorta_hwq_verifier *verifier, const struct aorta_cache *cache,
                                     int64_t layer, int64_t sequence, int64_t fresh, int64_t position, const float *qkv,
                                     const float *keys, const float *values) {
    const int64_t width = cache->heads * cache->head_dim;
    const int64_t row = (layer * cache->fresh + fresh) * cache->batch + sequence;
    const int64_t place = (layer * cache->batch + sequence) * cache->window + position % cache->window;
    const float *from, *key, *value;
    AORTA_TRY(aorta_hwq_fetch(verifier, qkv + row * 3 * width, 3 * width, &from));
    AORTA_TRY(aorta_hwq_fetch(verifier, keys + place * width, width, &key));
    AORTA_TRY(aorta_hwq_fetch(verifier, values + place * width, width, &value));
    for (int64_t i = 0; i < width; i++) {
        aorta_hwq_compare(verifier->check, (double)key[i], (double)from[width + i], 1e-30, 0,
                          "cached key %lld of layer %lld", (long long)i, (long long)layer);
        aorta_hwq_compare(verifier->check, (double)value[i], (double)from[2 * width + i], 1e-30, 0,
                          "cached value %lld of layer %lld", (long long)i, (long long)layer);
    }
    return NULL;
}
