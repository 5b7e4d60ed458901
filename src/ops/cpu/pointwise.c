/* Conversions between fp32 and the 16-bit types, and the operations that need only these: cast, fill, add. */
#include "base/half.h"
#include "ops/cpu/block.h"

#include <math.h>
#include <string.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

static void from_bf16(float *restrict to, const uint16_t *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = aorta_float_of_bf16(from[i]);
}

static void to_bf16(uint16_t *restrict to, const float *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = aorta_bf16_of_float(from[i]);
}

static void from_f16(float *restrict to, const uint16_t *restrict from, int64_t count) {
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#endif
    for (; i < count; i++) to[i] = aorta_float_of_f16(from[i]);
}

static void to_f16(uint16_t *restrict to, const float *restrict from, int64_t count) {
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < count; i++) to[i] = aorta_f16_of_float(from[i]);
}

void AORTA_ISA_NAME(to_float)(float *to, const void *from, enum aorta_dtype dtype, int64_t count) {
    if (dtype == AORTA_BF16) return from_bf16(to, from, count);
    if (dtype == AORTA_F16) return from_f16(to, from, count);
    memcpy(to, from, (size_t)count * sizeof *to);
}

void AORTA_ISA_NAME(from_float)(void *to, const float *from, enum aorta_dtype dtype, int64_t count) {
    if (dtype == AORTA_BF16) return to_bf16(to, from, count);
    if (dtype == AORTA_F16) return to_f16(to, from, count);
    memcpy(to, from, (size_t)count * sizeof *from);
}

aorta_status AORTA_ISA_NAME(cast)(const void *args) {
    const struct aorta_cast_args *a = args;
    const float scale = a->scale;
    if (a->to_dtype == a->from_dtype && scale == 1.0f) {
        if (a->count > 0) memcpy(a->to, a->from, (size_t)a->count * aorta_dtype_size(a->to_dtype));
        return NULL;
    }
    float in[AORTA_BLOCK], out[AORTA_BLOCK];
    for (int64_t i = 0; i < a->count; i += AORTA_BLOCK) {
        int64_t n = block_length(i, a->count);
        const float *from = block_read(a->from, a->from_dtype, i, n, in);
        float *to = block_target(a->to, a->to_dtype, i, out);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[j] = scale * from[j];
        block_write(a->to, a->to_dtype, i, n, to);
    }
    return NULL;
}

aorta_status AORTA_ISA_NAME(fill)(const void *args) {
    const struct aorta_fill_args *a = args;
    const float value = a->value;
    if (aorta_bits_of_float(value) == 0) { /* the C library clears large memory without reading it first */
        if (a->count > 0) memset(a->to, 0, (size_t)a->count * aorta_dtype_size(a->dtype));
        return NULL;
    }
    float block[AORTA_BLOCK];
    for (int64_t j = 0; j < AORTA_BLOCK; j++) block[j] = value;
    for (int64_t i = 0; i < a->count; i += AORTA_BLOCK) {
        char *to = (char *)a->to + (size_t)i * aorta_dtype_size(a->dtype);
        AORTA_ISA_NAME(from_float)(to, block, a->dtype, block_length(i, a->count));
    }
    return NULL;
}

aorta_status AORTA_ISA_NAME(add)(const void *args) {
    const struct aorta_cast_args *a = args;
    const float scale = a->scale;
    float in[AORTA_BLOCK], sum[AORTA_BLOCK];
    for (int64_t i = 0; i < a->count; i += AORTA_BLOCK) {
        int64_t n = block_length(i, a->count);
        const float *from = block_read(a->from, a->to_dtype, i, n, in);
        float *to = (float *)block_read(a->to, a->to_dtype, i, n, sum);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[j] += scale * from[j];
        block_write(a->to, a->to_dtype, i, n, to);
    }
    return NULL;
}

/* ---- GELU ---- */

aorta_status AORTA_ISA_NAME(gelu_forward)(const void *args) {
    const struct aorta_gelu_args *a = args;
    const struct aorta_dropout dropout = aorta_dropout_begin(a->shape.dropout, &a->shape.rng);
    float in[AORTA_BLOCK], out[AORTA_BLOCK];
    for (int64_t i = 0; i < a->shape.count; i += AORTA_BLOCK) {
        int64_t n = block_length(i, a->shape.count);
        const float *x = block_read(a->x, a->shape.dtype, i, n, in);
        float *y = block_target(a->out, a->shape.dtype, i, out);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float cdf, density;
            normal_distribution(x[j], &cdf, &density);
            y[j] = x[j] * cdf;
        }
        if (dropout.threshold) AORTA_ISA_NAME(drop)(&dropout, i, n, y, y);
        block_write(a->out, a->shape.dtype, i, n, y);
    }
    return NULL;
}

/* Elements [first, first + n) of dx, into `dx_block` or the caller's memory. */
static const float *backward_block(const struct aorta_gelu_args *a, const struct aorta_dropout *dropout, int64_t first,
                                   int64_t n, float *dx_block) {
    float x_block[AORTA_BLOCK], dy_block[AORTA_BLOCK];
    const float *x = block_read(a->x, a->shape.dtype, first, n, x_block);
    const float *dy = block_read(a->dy, a->shape.dtype, first, n, dy_block);
    float *dx = block_target(a->out, a->shape.dtype, first, dx_block);
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        float cdf, density;
        normal_distribution(x[j], &cdf, &density);
        dx[j] = dy[j] * (cdf + x[j] * density);
    }
    if (dropout->threshold) AORTA_ISA_NAME(drop)(dropout, first, n, dx, dx);
    block_write(a->out, a->shape.dtype, first, n, dx);
    return dx;
}

aorta_status AORTA_ISA_NAME(gelu_backward)(const void *args) {
    const struct aorta_gelu_args *a = args;
    const struct aorta_dropout dropout = aorta_dropout_begin(a->shape.dropout, &a->shape.rng);
    const int64_t count = a->shape.count, width = a->dbias ? a->shape.width : count;
    float dx_block[AORTA_BLOCK];
    for (int64_t j = 0; j < width && a->dbias && !a->accumulate; j++) a->dbias[j] = 0.0f;
    for (int64_t row = 0; row < count; row += width) {
        for (int64_t column = 0; column < width; column += AORTA_BLOCK) {
            const int64_t n = block_length(column, width);
            const float *dx = backward_block(a, &dropout, row + column, n, dx_block);
            if (!a->dbias) continue;
#pragma omp simd
            for (int64_t j = 0; j < n; j++) a->dbias[column + j] += dx[j];
        }
    }
    return NULL;
}

/* ---- linear layers ---- */

void AORTA_ISA_NAME(column_sums)(const struct aorta_linear *shape, const void *dy, float *dbias, bool accumulate) {
    float in[AORTA_BLOCK], total[AORTA_BLOCK];
    for (int64_t column = 0; column < shape->out; column += AORTA_BLOCK) {
        const int64_t n = block_length(column, shape->out);
        for (int64_t j = 0; j < n; j++) total[j] = accumulate ? dbias[column + j] : 0.0f;
        for (int64_t row = 0; row < shape->rows; row++) {
            const float *from = block_read(dy, shape->dtype, row * shape->out + column, n, in);
#pragma omp simd
            for (int64_t j = 0; j < n; j++) total[j] += from[j];
        }
        memcpy(dbias + column, total, (size_t)n * sizeof *total);
    }
}

void AORTA_ISA_NAME(relu)(void *y, enum aorta_dtype dtype, int64_t count) {
    float buffer[AORTA_BLOCK];
    for (int64_t i = 0; i < count; i += AORTA_BLOCK) {
        const int64_t n = block_length(i, count);
        const float *from = block_read(y, dtype, i, n, buffer);
        float *to = block_target(y, dtype, i, buffer);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[j] = from[j] > 0.0f ? from[j] : 0.0f;
        block_write(y, dtype, i, n, to);
    }
}

/* ---- embedding ---- */

static aorta_status check_ids(const struct aorta_embedding_args *a, int64_t row) {
    const int64_t features = a->shape.features;
    for (int64_t i = row * features; i < (row + 1) * features; i++)
        if (a->ids[i] < 0 || a->ids[i] >= a->shape.vocab)
            return AORTA_ERROR(AORTA_DEVICE, "embedding: id %lld of row %lld, feature %lld is outside [0, %lld)",
                               (long long)a->ids[i], (long long)row, (long long)(i - row * features),
                               (long long)a->shape.vocab);
    return NULL;
}

aorta_status AORTA_ISA_NAME(embedding_forward)(const void *args) {
    const struct aorta_embedding_args *a = args;
    const enum aorta_dtype dtype = a->shape.dtype;
    const int64_t features = a->shape.features, dim = a->shape.dim;
    const float scale = 1.0f / (float)features;
    float in[AORTA_BLOCK], total[AORTA_BLOCK];
    for (int64_t row = 0; row < a->shape.rows; row++) {
        AORTA_TRY(check_ids(a, row));
        for (int64_t d = 0; d < dim; d += AORTA_BLOCK) {
            int64_t n = block_length(d, dim);
            for (int64_t j = 0; j < n; j++) total[j] = 0.0f;
            for (int64_t f = 0; f < features; f++) {
                const float *from = block_read(a->table, dtype, a->ids[row * features + f] * dim + d, n, in);
#pragma omp simd
                for (int64_t j = 0; j < n; j++) total[j] += from[j];
            }
            float *y = block_target(a->y, dtype, row * dim + d, total);
#pragma omp simd
            for (int64_t j = 0; j < n; j++) y[j] = total[j] * scale;
            block_write(a->y, dtype, row * dim + d, n, y);
        }
    }
    return NULL;
}

/* One thread adds in the order of the rows, so that the same ids give the same bits. */
aorta_status AORTA_ISA_NAME(embedding_backward)(const void *args) {
    const struct aorta_embedding_args *a = args;
    const int64_t features = a->shape.features, dim = a->shape.dim;
    const float scale = 1.0f / (float)features;
    float in[AORTA_BLOCK], share[AORTA_BLOCK];
    for (int64_t row = 0; row < a->shape.rows; row++) {
        AORTA_TRY(check_ids(a, row));
        for (int64_t d = 0; d < dim; d += AORTA_BLOCK) {
            int64_t n = block_length(d, dim);
            const float *dy = block_read(a->dy, a->shape.dtype, row * dim + d, n, in);
#pragma omp simd
            for (int64_t j = 0; j < n; j++) share[j] = dy[j] * scale;
            for (int64_t f = 0; f < features; f++) {
                float *to = a->dtable + a->ids[row * features + f] * dim + d;
#pragma omp simd
                for (int64_t j = 0; j < n; j++) to[j] += share[j];
            }
        }
    }
    return NULL;
}

/* ---- AdamW ---- */

/* 32 sums side by side, so that an addition need not wait for the one before it. */
aorta_status AORTA_ISA_NAME(square_sum)(const void *args) {
    enum { SUMS = 32 };
    const struct aorta_square_sum_args *a = args;
    double sums[SUMS] = {0.0}, total = (double)*a->square_sum;
    int64_t i = 0;
    for (; i + SUMS <= a->count; i += SUMS) {
        const float *gradient = a->gradient + i;
#pragma omp simd
        for (int j = 0; j < SUMS; j++) sums[j] += (double)gradient[j] * (double)gradient[j];
    }
    for (; i < a->count; i++) total += (double)a->gradient[i] * (double)a->gradient[i];
    for (int j = 0; j < SUMS; j++) total += sums[j];
    *a->square_sum = (float)total;
    return NULL;
}

static void copy_parameters(const struct aorta_adamw_args *a, int64_t first, int64_t count) {
    if (!a->copy) return;
    char *copy = (char *)a->copy + (size_t)first * aorta_dtype_size(a->copy_dtype);
    AORTA_ISA_NAME(from_float)(copy, a->parameter + first, a->copy_dtype, count);
}

/* The order of operations is torch.optim.AdamW's: decay, moments, then
 * p −= lr/(1 − β1^t) · m / (√v / √(1 − β2^t) + eps). */
aorta_status AORTA_ISA_NAME(adamw)(const void *args) {
    const struct aorta_adamw_args *a = args;
    const struct aorta_step_state *state = a->state;
    if (!state->finite) {
        copy_parameters(a, 0, a->count);
        return NULL;
    }
    const float factor = state->grad_factor, keep = 1.0f - state->lr * a->weight_decay;
    const float beta1 = a->beta1, beta2 = a->beta2, eps = a->eps;
    const float rest1 = (float)(1.0 - (double)beta1), rest2 = (float)(1.0 - (double)beta2);
    const float rate = state->lr / state->bias_correction1;
    const float root = 1.0f / sqrtf(state->bias_correction2);
    for (int64_t i = 0; i < a->count; i += AORTA_BLOCK) {
        const int64_t n = block_length(i, a->count);
        const float *gradient = a->gradient + i;
        float *parameter = a->parameter + i, *m = a->m + i, *v = a->v + i;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float g = gradient[j] * factor;
            float mean = beta1 * m[j] + rest1 * g;
            float square = beta2 * v[j] + rest2 * g * g;
            m[j] = mean;
            v[j] = square;
            parameter[j] = parameter[j] * keep - rate * mean / (sqrtf(square) * root + eps);
        }
        copy_parameters(a, i, n);
    }
    return NULL;
}

/* ---- dropout's random bits ---- */

static void make_blocks(const uint32_t key[2], uint64_t step, uint64_t first, int64_t count, uint32_t *words) {
    const uint32_t key0 = key[0], key1 = key[1];
    const uint32_t low = (uint32_t)first, high = (uint32_t)(first >> 32);
    const uint32_t step_low = (uint32_t)step, step_high = (uint32_t)(step >> 32);
    for (int64_t group = 0; group < count; group += AORTA_PHILOX_LANES) {
        uint32_t *out = words + group * 4;
#pragma omp simd
        for (uint32_t lane = 0; lane < AORTA_PHILOX_LANES; lane++) {
            uint32_t block = low + (uint32_t)group + lane;
            uint32_t block_high = high + (block < low ? 1 : 0);
            struct aorta_philox c = {{block, block_high, step_low, step_high}};
            c = aorta_philox4x32_10(c, key0, key1);
            out[lane * 4 + 0] = c.word[0];
            out[lane * 4 + 1] = c.word[1];
            out[lane * 4 + 2] = c.word[2];
            out[lane * 4 + 3] = c.word[3];
        }
    }
}

void AORTA_ISA_NAME(philox)(const uint32_t key[2], uint64_t step, uint64_t first, int64_t count, uint32_t *words) {
    make_blocks(key, step, first, count, words);
}

const uint16_t *AORTA_ISA_NAME(dropout_bits)(const struct aorta_dropout *dropout, int64_t first, int64_t count,
                                             uint16_t *buffer) {
    int64_t skip = first % AORTA_PHILOX_SAMPLES;
    int64_t groups = (skip + count + AORTA_PHILOX_GROUP - 1) / AORTA_PHILOX_GROUP;
    uint32_t words[AORTA_BITS_BUFFER / 2];
    make_blocks(dropout->key, dropout->step, (uint64_t)(first / AORTA_PHILOX_SAMPLES), groups * AORTA_PHILOX_LANES,
                words);
    for (int64_t i = 0; i < groups * AORTA_PHILOX_GROUP / 2; i++) { /* low half first, on any byte order */
        /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): it does not count the lanes of make_blocks */
        buffer[2 * i] = (uint16_t)words[i];
        buffer[2 * i + 1] = (uint16_t)(words[i] >> 16);
    }
    return buffer + skip;
}

void AORTA_ISA_NAME(drop)(const struct aorta_dropout *dropout, int64_t first, int64_t count, const float *x, float *y) {
    const int32_t threshold = dropout->threshold;
    const float scale = dropout->scale;
    uint16_t buffer[AORTA_BITS_BUFFER];
    for (int64_t i = 0; i < count; i += AORTA_BLOCK) {
        int64_t n = block_length(i, count);
        const uint16_t *bits = AORTA_ISA_NAME(dropout_bits)(dropout, first + i, n, buffer);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) y[i + j] = x[i + j] * dropout_factor(bits[j], threshold, scale);
    }
}

/* ---- one instruction set's functions as a table ---- */

#define AORTA_ISA_STRING(isa) #isa
#define AORTA_ISA_TEXT(isa) AORTA_ISA_STRING(isa)

const struct aorta_cpu_ops AORTA_ISA_NAME(cpu_ops) = {
    .isa = AORTA_ISA_TEXT(AORTA_ISA),
#define LOOP(name) .name = AORTA_ISA_NAME(name),
#include "ops/kernels.def"
    .column_sums = AORTA_ISA_NAME(column_sums),
    .relu = AORTA_ISA_NAME(relu),
    .to_float = AORTA_ISA_NAME(to_float),
    .from_float = AORTA_ISA_NAME(from_float),
    .philox = AORTA_ISA_NAME(philox),
};
