/* Verification of fsdp_tp: every stage of every block from its input on the device. Sums over ranks are compared where
 * this rank is alone in its group. */
#include "hwq/workloads/fsdp_tp.h"

#include <math.h>

/* One block's part: where it is, and its memory. */
struct place {
    struct aorta_hwq_verifier *verifier;
    const struct fsdp_options *o;
    const struct fsdp_state *state;
    const struct fsdp_part *part;
    const struct fsdp_saved *k;
    struct fsdp_block b; /* start values, gradients of all parts */
    const float *x;
    int64_t l, p, rows;
};

static aorta_status linear(const struct place *at, const char *what, const struct aorta_hwq_layer *layer,
                           const float *x, const float *y) {
    return aorta_hwq_verify_linear(at->verifier, what, layer, at->rows, x, y, AORTA_HWQ_PLAIN, AORTA_HWQ_FP32);
}

/* Weights of the last sequence's sampled rows from queries and keys. */
static aorta_status verify_weights(const struct place *at) {
    const struct fsdp_options *o = at->o;
    const int64_t t = o->positions, heads = o->heads / o->tensor, dim = o->width / o->heads;
    const int64_t last = at->part->sequences - 1, row = at->part->sequences * 3 * heads * dim;
    const float *qkv, *weights;
    AORTA_TRY(aorta_hwq_fetch(at->verifier, at->k->qkv, t * row, &qkv));
    AORTA_TRY(aorta_hwq_fetch(at->verifier, at->k->weights + last * heads * t * t, heads * t * t, &weights));
    const double scale = 1.0 / sqrt((double)dim);
    for (int64_t i = 0; i < aorta_hwq_sample_count(heads * t * t); i++) {
        const int64_t place = aorta_hwq_sample(i, heads * t * t), head = last * heads + place / (t * t);
        const float *q = qkv + place / t % t * row + head * 3 * dim, *k = qkv + head * 3 * dim + dim;
        double own_score = 0.0, sum = 0.0;
        for (int64_t d = 0; d < dim; d++) own_score += (double)q[d] * (double)k[place % t * row + d];
        for (int64_t key = 0; key < t; key++) {
            double score = 0.0;
            for (int64_t d = 0; d < dim; d++) score += (double)q[d] * (double)k[key * row + d];
            sum += exp(scale * (score - own_score));
        }
        aorta_hwq_compare(at->verifier->check, (double)weights[place], 1.0 / sum, 1e-7, 3e-5,
                          "attention weight %lld of block %lld", (long long)place, (long long)at->l);
    }
    return NULL;
}

/* Of one sequence: the others' are as large, and their strides the same. */
static aorta_status verify_product(const struct place *at, const char *what, enum fsdp_product which, int64_t sequence,
                                   const float *a, const float *b, const float *c) {
    struct aorta_products p = aorta_hwq_fsdp_products(at->o, at->part->sequences, which);
    p.batch /= at->part->sequences;
    const int64_t first = sequence * p.batch;
    return aorta_hwq_verify_products(at->verifier, what, &p, a + first * p.a_batch, b + first * p.b_batch,
                                     c + first * p.c_batch);
}

/* to = from where this rank is alone. */
static aorta_status verify_exchange(const struct place *at, const float *from, const float *to) {
    const int64_t count = at->rows * at->o->width;
    const float *before, *after;
    if (at->o->tensor > 1) return NULL;
    AORTA_TRY(aorta_hwq_fetch(at->verifier, from, count, &before));
    AORTA_TRY(aorta_hwq_fetch(at->verifier, to, count, &after));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t place = aorta_hwq_sample(i, count);
        aorta_hwq_compare(at->verifier->check, (double)after[place], (double)before[place], 1e-30, 0,
                          "exchanged element %lld of block %lld", (long long)place, (long long)at->l);
    }
    return NULL;
}

/* sum = x + residual. */
static aorta_status verify_sum(const struct place *at, const float *x, const float *residual, const float *sum) {
    const int64_t count = at->rows * at->o->width;
    const float *a, *b, *c;
    AORTA_TRY(aorta_hwq_fetch(at->verifier, x, count, &a));
    AORTA_TRY(aorta_hwq_fetch(at->verifier, residual, count, &b));
    AORTA_TRY(aorta_hwq_fetch(at->verifier, sum, count, &c));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t place = aorta_hwq_sample(i, count);
        aorta_hwq_compare(at->verifier->check, (double)c[place], (double)a[place] + (double)b[place], 1e-7, 1e-6,
                          "residual sum %lld of block %lld", (long long)place, (long long)at->l);
    }
    return NULL;
}

static aorta_status verify_forward(const struct place *at) {
    const struct fsdp_saved *k = at->k;
    const int64_t dim = at->o->width / at->o->heads;
    AORTA_TRY(linear(at, "qkv", &at->b.qkv, at->x, k->qkv));
    AORTA_TRY(verify_weights(at));
    AORTA_TRY(
        verify_product(at, "context", FSDP_CONTEXT, at->part->sequences - 1, k->weights, k->qkv + 2 * dim, k->context));
    AORTA_TRY(linear(at, "attention", &at->b.out, k->context, k->attended));
    AORTA_TRY(verify_exchange(at, k->attended, k->attended_all));
    AORTA_TRY(verify_sum(at, k->attended_all, at->x, k->norm1.sum));
    AORTA_TRY(aorta_hwq_verify_norm(at->verifier, "first norm", &at->b.norm1, at->rows, k->norm1.sum, k->y1));
    AORTA_TRY(linear(at, "inside the MLP", &at->b.up, k->y1, k->inner));
    AORTA_TRY(aorta_hwq_verify_gelu(at->verifier, "GELU", at->rows * at->b.up.out, k->inner, k->active));
    AORTA_TRY(linear(at, "MLP", &at->b.down, k->active, k->mlp));
    AORTA_TRY(verify_exchange(at, k->mlp, k->mlp_all));
    AORTA_TRY(verify_sum(at, k->mlp_all, k->y1, k->norm2.sum));
    return aorta_hwq_verify_norm(at->verifier, "second norm", &at->b.norm2, at->rows, k->norm2.sum, k->y);
}

/* One head's: ds = scale · p∘(dp − Σ dp∘p), where dp are products of a gradient of the context with values. */
static void verify_score(const struct place *at, int64_t head, int64_t row, int64_t key, const float *dcontext,
                         const float *values, const float *weights, const float *dscores) {
    const struct aorta_products s = aorta_hwq_fsdp_products(at->o, at->part->sequences, FSDP_DWEIGHTS);
    const float *left = dcontext + head * s.a_batch + row * s.lda, *p = weights + head * s.c_batch + row * s.ldc;
    const double scale = (double)aorta_hwq_fsdp_scale(at->o);
    double along = 0.0, most = 0.0, own = 0.0;
    for (int64_t j = 0; j < s.n; j++) {
        const float *right = values + head * s.b_batch + j * s.ldb;
        double dp = 0.0, magnitude = 0.0;
        for (int64_t d = 0; d < s.k; d++) {
            dp += (double)left[d] * (double)right[d];
            magnitude += fabs((double)left[d] * (double)right[d]);
        }
        along += (double)p[j] * dp;
        most = fmax(most, magnitude);
        if (j == key) own = dp;
    }
    aorta_hwq_compare(at->verifier->check, (double)dscores[head * s.c_batch + row * s.ldc + key],
                      scale * (double)p[key] * (own - along), 1e-5 * scale * (double)p[key] * most + 1e-30, 0,
                      "gradient of score %lld, %lld of head %lld", (long long)row, (long long)key, (long long)head);
}

static aorta_status verify_scores_backward(const struct place *at) {
    const struct aorta_products s = aorta_hwq_fsdp_products(at->o, at->part->sequences, FSDP_DWEIGHTS);
    const int64_t dim = at->o->width / at->o->heads, count = s.batch * s.m * s.n;
    const float *dcontext, *values, *weights, *dscores;
    AORTA_TRY(aorta_hwq_fetch(at->verifier, at->k->dcontext, s.m * s.lda, &dcontext));
    AORTA_TRY(aorta_hwq_fetch(at->verifier, at->k->qkv, s.n * s.ldb, &values));
    AORTA_TRY(aorta_hwq_fetch(at->verifier, at->k->weights, count, &weights));
    AORTA_TRY(aorta_hwq_fetch(at->verifier, at->part->dscores, count, &dscores));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t place = aorta_hwq_sample(i, count);
        verify_score(at, place / (s.m * s.n), place / s.n % s.m, place % s.n, dcontext, values + 2 * dim, weights,
                     dscores);
    }
    return NULL;
}

/* Of the block that used the shared buffers last. */
static aorta_status verify_attention_backward(const struct place *at) {
    const struct fsdp_options *o = at->o;
    const struct fsdp_saved *k = at->k;
    const int64_t dim = o->width / o->heads;
    const struct {
        enum fsdp_product which;
        const char *what;
        const float *a, *b, *c;
    } products[] = {
        {FSDP_DVALUES, "gradient of the values", k->weights, k->dcontext, k->dqkv + 2 * dim},
        {FSDP_DQUERIES, "gradient of the queries", at->part->dscores, k->qkv + dim, k->dqkv},
        {FSDP_DKEYS, "gradient of the keys", at->part->dscores, k->qkv, k->dqkv + dim},
    };
    AORTA_TRY(verify_scores_backward(at));
    for (size_t i = 0; i < 2 * sizeof products / sizeof *products; i++) { /* of the first sequence and the last */
        const int64_t sequence = (int64_t)(i % 2) * (at->part->sequences - 1);
        AORTA_TRY(verify_product(at, products[i / 2].what, products[i / 2].which, sequence, products[i / 2].a,
                                 products[i / 2].b, products[i / 2].c));
    }
    return NULL;
}

static aorta_status verify_backward(const struct place *at) {
    const struct fsdp_saved *k = at->k, *above = at->l + 1 < at->o->blocks ? &at->state->saved[at->l + 1][at->p] : NULL;
    struct aorta_hwq_verifier *verifier = at->verifier;
    AORTA_TRY(aorta_hwq_verify_norm_backward(verifier, "gradient before the second norm", &at->b.norm2, at->rows,
                                             k->norm2.sum, above ? above->dx_all : k->y, above ? above->dsum1 : NULL,
                                             k->dsum2));
    AORTA_TRY(
        aorta_hwq_verify_input(verifier, "gradient inside the MLP", &at->b.down, at->rows, k->dsum2, k->dactive, NULL));
    AORTA_TRY(aorta_hwq_verify_gelu_backward(verifier, "gradient before GELU", at->rows * at->b.up.out, k->inner,
                                             k->dactive, k->dinner));
    AORTA_TRY(
        aorta_hwq_verify_input(verifier, "gradient before the MLP", &at->b.up, at->rows, k->dinner, k->dy1, NULL));
    AORTA_TRY(verify_exchange(at, k->dy1, k->dy1_all));
    AORTA_TRY(aorta_hwq_verify_norm_backward(verifier, "gradient before the first norm", &at->b.norm1, at->rows,
                                             k->norm1.sum, k->dy1_all, k->dsum2, k->dsum1));
    AORTA_TRY(
        aorta_hwq_verify_input(verifier, "gradient of the context", &at->b.out, at->rows, k->dsum1, k->dcontext, NULL));
    if (at->l == 0) AORTA_TRY(verify_attention_backward(at));
    if (at->l > 0) {
        AORTA_TRY(
            aorta_hwq_verify_input(verifier, "gradient before the block", &at->b.qkv, at->rows, k->dqkv, k->dx, NULL));
        AORTA_TRY(verify_exchange(at, k->dx, k->dx_all));
    }
    return NULL;
}

/* Gradients of the layers, from the rows of all parts: `at` is the first. */
static aorta_status verify_weights_of_layers(const struct place *at) {
    const struct fsdp_saved *k = at->k;
    const int64_t rows = at->o->batch * at->o->positions;
    AORTA_TRY(aorta_hwq_verify_weight(at->verifier, "MLP, second", &at->b.down, rows, k->active, k->dsum2, 1.0));
    AORTA_TRY(aorta_hwq_verify_weight(at->verifier, "MLP, first", &at->b.up, rows, k->y1, k->dinner, 1.0));
    AORTA_TRY(aorta_hwq_verify_weight(at->verifier, "attention", &at->b.out, rows, k->context, k->dsum1, 1.0));
    return aorta_hwq_verify_weight(at->verifier, "qkv", &at->b.qkv, rows, at->x, k->dqkv, 1.0);
}

/* Gradients of the norms, summed over the parts. */
static aorta_status verify_norms(const struct place *at) {
    struct fsdp_block unused;
    const int64_t width = at->o->width, count = aorta_hwq_fsdp_norms(at->o, NULL, &unused), each = count / 4;
    const float *sums, *parts;
    AORTA_TRY(aorta_hwq_fetch(at->verifier, at->b.norm1.dgamma, count, &sums));
    AORTA_TRY(aorta_hwq_fetch(at->verifier, at->k->norms, at->state->part_count * count, &parts));
    for (int64_t i = 0; i < aorta_hwq_sample_count(4 * width); i++) {
        const int64_t number = aorta_hwq_sample(i, 4 * width), place = number / width * each + number % width;
        double sum = 0.0, magnitude = 0.0;
        for (int64_t p = 0; p < at->state->part_count; p++) {
            sum += (double)parts[p * count + place];
            magnitude += fabs((double)parts[p * count + place]);
        }
        aorta_hwq_compare(at->verifier->check, (double)sums[place], sum, 1e-6 * magnitude + 1e-30, 0,
                          "norms' gradient %lld of block %lld", (long long)place, (long long)at->l);
    }
    return NULL;
}

/* The reduced gradients are this rank's, where it is alone. */
static aorta_status verify_reduction(const struct place *at) {
    const int64_t count = at->b.qkv.in * at->b.qkv.out;
    const float *own, *all;
    if (at->state->shards > 1) return NULL;
    AORTA_TRY(aorta_hwq_fetch(at->verifier, at->state->gradients[at->l], count, &own));
    AORTA_TRY(aorta_hwq_fetch(at->verifier, at->state->reduced[at->l], count, &all));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t place = aorta_hwq_sample(i, count);
        aorta_hwq_compare(at->verifier->check, (double)all[place], (double)own[place], 1e-30, 0,
                          "reduced gradient %lld of block %lld", (long long)place, (long long)at->l);
    }
    return NULL;
}

static aorta_status verify_block(const struct place *first) {
    AORTA_TRY(verify_weights_of_layers(first));
    AORTA_TRY(verify_norms(first));
    return verify_reduction(first);
}

aorta_status aorta_hwq_fsdp_verify(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct fsdp_state *state = opaque;
    const struct fsdp_options *o = verifier->hwq->options;
    for (int64_t l = 0; l < o->blocks; l++) {
        for (int64_t p = 0; p < state->part_count; p++) {
            struct place at = {.verifier = verifier, .o = o, .state = state, .l = l, .p = p};
            at.part = &state->parts[p];
            at.k = &state->saved[l][p];
            at.x = l == 0 ? at.part->x : state->saved[l - 1][p].y;
            at.rows = at.part->sequences * o->positions;
            aorta_hwq_fsdp_block(o, state->full[l], state->gradients[l], &at.b);
            AORTA_TRY(verify_forward(&at));
            AORTA_TRY(verify_backward(&at));
            if (p == 0) AORTA_TRY(verify_block(&at));
        }
    }
    return NULL;
}
