/* Attention, one head of one sequence at a time: its T×T tile stays in the L2 cache between the products. The
 * probabilities are saved before dropout, and backward generates the mask again. */
#include "ops/cpu/block.h"
#include "ops/gemm.h"

#include <math.h>

/* A T×D piece of one head, rows `stride` elements apart. */
struct tile {
    float *data;
    int64_t stride;
};

/* One head's share of the work. `next` walks through the scratch memory. */
struct head {
    const struct aorta_attention *shape;
    int64_t row, column; /* of the head's first element in [batch·positions, E] */
    int64_t weights;     /* index of its first attention weight */
    float *next;
};

static struct head head_begin(const struct aorta_attention *shape, int64_t index, void *scratch) {
    const int64_t positions = shape->positions;
    return (struct head){.shape = shape,
                         .row = index / shape->heads * positions,
                         .column = index % shape->heads * shape->head_dim,
                         .weights = index * positions * positions,
                         .next = scratch};
}

static float *take(struct head *head, int64_t count) {
    float *memory = head->next;
    head->next += count;
    return memory;
}

/* fp32 tensors are processed in place, 16-bit ones in scratch memory. */
static struct tile tile_target(struct head *head, void *base, int64_t width, int64_t column) {
    const int64_t dim = head->shape->head_dim;
    if (head->shape->dtype != AORTA_F32) return (struct tile){take(head, head->shape->positions * dim), dim};
    return (struct tile){(float *)base + head->row * width + head->column + column, width};
}

static struct tile tile_read(struct head *head, const void *base, int64_t width, int64_t column) {
    struct tile tile = tile_target(head, (void *)base, width, column);
    if (head->shape->dtype == AORTA_F32) return tile;
    for (int64_t t = 0; t < head->shape->positions; t++) {
        int64_t first = (head->row + t) * width + head->column + column;
        block_read(base, head->shape->dtype, first, head->shape->head_dim, tile.data + t * tile.stride);
    }
    return tile;
}

static void tile_write(const struct head *head, struct tile tile, void *base, int64_t width, int64_t column) {
    if (head->shape->dtype == AORTA_F32) return;
    for (int64_t t = 0; t < head->shape->positions; t++) {
        int64_t first = (head->row + t) * width + head->column + column;
        block_write(base, head->shape->dtype, first, head->shape->head_dim, tile.data + t * tile.stride);
    }
}

static aorta_status multiply(struct tile a, bool transpose_a, struct tile b, bool transpose_b, struct tile c, int64_t m,
                             int64_t n, int64_t k) {
    const struct aorta_products gemm = {.m = m,
                                        .n = n,
                                        .k = k,
                                        .transpose_a = transpose_a,
                                        .transpose_b = transpose_b,
                                        .lda = a.stride,
                                        .ldb = b.stride,
                                        .ldc = c.stride};
    return aorta_gemm_f32(&gemm, a.data, b.data, c.data);
}

static void softmax_row(float *row, int64_t count, float scale) {
    float greatest = row[0], sum = 0.0f;
#pragma omp simd reduction(max : greatest)
    for (int64_t j = 0; j < count; j++) greatest = row[j] > greatest ? row[j] : greatest;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < count; j++) {
        float e = exp_of_negative((row[j] - greatest) * scale);
        row[j] = e;
        sum += e;
    }
    const float inverse = 1.0f / sum;
#pragma omp simd
    for (int64_t j = 0; j < count; j++) row[j] *= inverse;
}

/* dropped = dropout(weights); `gradient` is multiplied by the mask too, in place. */
static void drop_weights(const struct aorta_dropout *dropout, int64_t first, int64_t count, const float *weights,
                         float *dropped, float *gradient) {
    const int32_t threshold = dropout->threshold;
    const float scale = dropout->scale;
    uint16_t buffer[AORTA_BITS_BUFFER];
    for (int64_t i = 0; i < count; i += AORTA_BLOCK) {
        int64_t n = block_length(i, count);
        const uint16_t *bits = AORTA_ISA_NAME(dropout_bits)(dropout, first + i, n, buffer);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) dropped[i + j] = weights[i + j] * dropout_factor(bits[j], threshold, scale);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) gradient[i + j] *= dropout_factor(bits[j], threshold, scale);
    }
}

aorta_status AORTA_ISA_NAME(attention_forward)(const void *args) {
    const struct aorta_attention_args *a = args;
    const struct aorta_attention *shape = &a->shape;
    const int64_t positions = shape->positions, dim = shape->head_dim, width = shape->heads * dim;
    const int64_t weights = positions * positions;
    const struct aorta_dropout dropout = aorta_dropout_begin(shape->dropout, &shape->rng);
    const float scale = 1.0f / sqrtf((float)dim);
    for (int64_t index = 0; index < shape->batch * shape->heads; index++) {
        struct head head = head_begin(shape, index, a->scratch);
        struct tile q = tile_read(&head, a->qkv, 3 * width, 0);
        struct tile k = tile_read(&head, a->qkv, 3 * width, width);
        struct tile v = tile_read(&head, a->qkv, 3 * width, 2 * width);
        struct tile out = tile_target(&head, a->out, width, 0);
        struct tile p = {block_target(a->saved, shape->dtype, head.weights, take(&head, weights)), positions};
        AORTA_TRY(multiply(q, false, k, true, p, positions, positions, dim));
        for (int64_t t = 0; t < positions; t++) softmax_row(p.data + t * positions, positions, scale);
        block_write(a->saved, shape->dtype, head.weights, weights, p.data);
        if (dropout.threshold) {
            struct tile dropped = {take(&head, weights), positions};
            AORTA_ISA_NAME(drop)(&dropout, head.weights, weights, p.data, dropped.data);
            p = dropped;
        }
        AORTA_TRY(multiply(p, false, v, false, out, positions, dim, positions));
        tile_write(&head, out, a->out, width, 0);
    }
    return NULL;
}

/* dS = P∘(dP − Σ dP∘P)·scale, row by row; dp becomes dS. */
static void softmax_backward_row(const float *p, float *dp, int64_t count, float scale) {
    float along = 0.0f;
#pragma omp simd reduction(+ : along)
    for (int64_t j = 0; j < count; j++) along += p[j] * dp[j];
#pragma omp simd
    for (int64_t j = 0; j < count; j++) dp[j] = p[j] * (dp[j] - along) * scale;
}

static aorta_status head_backward(const struct aorta_attention_args *a, const struct aorta_dropout *dropout,
                                  struct head head) {
    const struct aorta_attention *shape = &a->shape;
    const int64_t positions = shape->positions, dim = shape->head_dim, width = shape->heads * dim;
    const int64_t weights = positions * positions;
    const float scale = 1.0f / sqrtf((float)dim);
    struct tile q = tile_read(&head, a->qkv, 3 * width, 0);
    struct tile k = tile_read(&head, a->qkv, 3 * width, width);
    struct tile v = tile_read(&head, a->qkv, 3 * width, 2 * width);
    struct tile dout = tile_read(&head, a->dout, width, 0);
    struct tile dq = tile_target(&head, a->dqkv, 3 * width, 0);
    struct tile dk = tile_target(&head, a->dqkv, 3 * width, width);
    struct tile dv = tile_target(&head, a->dqkv, 3 * width, 2 * width);
    struct tile dp = {take(&head, weights), positions};
    const float *p = block_read(a->saved_in, shape->dtype, head.weights, weights, take(&head, weights));
    struct tile dropped = {(float *)p, positions};

    AORTA_TRY(multiply(dout, false, v, true, dp, positions, positions, dim));
    if (dropout->threshold) {
        dropped.data = take(&head, weights);
        drop_weights(dropout, head.weights, weights, p, dropped.data, dp.data);
    }
    AORTA_TRY(multiply(dropped, true, dout, false, dv, positions, dim, positions));
    for (int64_t t = 0; t < positions; t++)
        softmax_backward_row(p + t * positions, dp.data + t * positions, positions, scale);
    AORTA_TRY(multiply(dp, false, k, false, dq, positions, dim, positions));
    AORTA_TRY(multiply(dp, true, q, false, dk, positions, dim, positions));
    tile_write(&head, dq, a->dqkv, 3 * width, 0);
    tile_write(&head, dk, a->dqkv, 3 * width, width);
    tile_write(&head, dv, a->dqkv, 3 * width, 2 * width);
    return NULL;
}

/* The gradient of the keys' bias is zero and needs no sum. */
static void bias_gradient(const struct aorta_attention_args *a) {
    const int64_t width = a->shape.heads * a->shape.head_dim, rows = a->shape.batch * a->shape.positions;
    float block[AORTA_BLOCK];
    for (int64_t j = 0; j < 3 * width && !a->accumulate; j++) a->dbias[j] = 0.0f;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t column = 0; column < 3 * width; column += column == 0 ? 2 * width : width) {
            for (int64_t i = 0; i < width; i += AORTA_BLOCK) {
                const int64_t n = block_length(i, width);
                const float *from = block_read(a->dqkv, a->shape.dtype, row * 3 * width + column + i, n, block);
#pragma omp simd
                for (int64_t j = 0; j < n; j++) a->dbias[column + i + j] += from[j];
            }
        }
    }
}

aorta_status AORTA_ISA_NAME(attention_backward)(const void *args) {
    const struct aorta_attention_args *a = args;
    const struct aorta_dropout dropout = aorta_dropout_begin(a->shape.dropout, &a->shape.rng);
    for (int64_t index = 0; index < a->shape.batch * a->shape.heads; index++)
        AORTA_TRY(head_backward(a, &dropout, head_begin(&a->shape, index, a->scratch)));
    if (a->dbias) bias_gradient(a);
    return NULL;
}
