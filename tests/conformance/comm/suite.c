#include "suite.h"

#include <math.h>
#include <stdlib.h>

/* ---- formats, written naively and apart from the code under test ---- */

/* `bits` of mantissa after the leading one, lowest normal exponent `low`: rounds to nearest, ties to even. */
static double round_to(double value, int bits, int low) {
    if (value == 0 || !isfinite(value)) return value;
    int exponent = ilogb(value);
    if (exponent < low) exponent = low;
    double unit = ldexp(1, exponent - bits);
    return nearbyint(value / unit) * unit;
}

static uint16_t encode_bf16(double value) {
    float rounded = (float)round_to(value, 7, -126);
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static double decode_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double decode_f16(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double sign = half & 0x8000 ? -1 : 1;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, -24);
    return sign * ldexp(1024 + fraction, exponent - 25);
}

static uint16_t encode_f16(double value) {
    if (isnan(value)) return 0x7e00;
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double rounded = fabs(round_to(value, 10, -14));
    if (rounded >= 65536) return sign | 0x7c00;
    if (rounded < ldexp(1, -14)) return sign | (uint16_t)ldexp(rounded, 24);
    int exponent = ilogb(rounded);
    return sign | (uint16_t)(((exponent + 15) << 10) + (int)ldexp(rounded, 10 - exponent) - 1024);
}

void suite_write(void *buffer, size_t index, enum aorta_dtype dtype, double value) {
    if (dtype == AORTA_F32)
        ((float *)buffer)[index] = (float)value;
    else if (dtype == AORTA_F16)
        ((uint16_t *)buffer)[index] = encode_f16(value);
    else if (dtype == AORTA_BF16)
        ((uint16_t *)buffer)[index] = encode_bf16(value);
    else if (dtype == AORTA_I64)
        ((int64_t *)buffer)[index] = (int64_t)value;
    else if (dtype == AORTA_I32)
        ((int32_t *)buffer)[index] = (int32_t)value;
    else
        ((uint8_t *)buffer)[index] = (uint8_t)value;
}

double suite_read(const void *buffer, size_t index, enum aorta_dtype dtype) {
    if (dtype == AORTA_F32) return (double)((const float *)buffer)[index];
    if (dtype == AORTA_F16) return decode_f16(((const uint16_t *)buffer)[index]);
    if (dtype == AORTA_BF16) return decode_bf16(((const uint16_t *)buffer)[index]);
    if (dtype == AORTA_I64) return (double)((const int64_t *)buffer)[index];
    if (dtype == AORTA_I32) return ((const int32_t *)buffer)[index];
    return ((const uint8_t *)buffer)[index];
}

/* ---- contents ---- */

double suite_value(int rank, size_t index, enum aorta_dtype dtype) {
    int base = (int)((index * 7 + (size_t)rank * 13) % 61) - 30;
    if (dtype == AORTA_U8) return base + 30;
    return dtype == AORTA_I32 || dtype == AORTA_I64 ? base : base / 4.0;
}

void *suite_buffer(struct suite *suite, size_t count, enum aorta_dtype dtype) {
    void *buffer;
    check_ok(aorta_device_alloc(suite->device, (count + 1) * aorta_dtype_size(dtype), "test buffer", &buffer));
    for (size_t i = 0; i < count + 1; i++) suite_write(buffer, i, dtype, 111);
    return buffer;
}

void suite_free(struct suite *suite, void *buffer) {
    aorta_device_free(suite->device, buffer);
}

void suite_fill(void *buffer, size_t at, size_t count, enum aorta_dtype dtype, int rank) {
    for (size_t i = 0; i < count; i++) suite_write(buffer, at + i, dtype, suite_value(rank, i, dtype));
}

void suite_expect(const void *buffer, size_t index, enum aorta_dtype dtype, double expected, const char *what) {
    double value = suite_read(buffer, index, dtype);
    if (value == expected || (isnan(value) && isnan(expected))) return;
    fail_msg("%s: %s element %zu is %.9g, expected %.9g", what, aorta_dtype_name(dtype), index, value, expected);
}

double suite_reduced(const int *ranks, int count, size_t index, enum aorta_dtype dtype,
                     enum aorta_reduction reduction) {
    double result = suite_value(ranks[0], index, dtype);
    for (int i = 1; i < count; i++) {
        double value = suite_value(ranks[i], index, dtype);
        result = reduction == AORTA_SUM ? result + value : fmax(result, value);
    }
    return result;
}

/* ---- fixtures ---- */

int suite_setup(void **state) {
    struct suite *suite = calloc(1, sizeof *suite);
    assert_non_null(suite);
    suite->timeout_s = 60;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &suite->device));
    struct aorta_comm_options options = {.device = suite->device, .backend = "auto", .timeout_s = suite->timeout_s};
    check_ok(aorta_ranks_detect(&options.ranks));
    check_ok(aorta_comm_open(&options, &suite->world));
    suite->rank = aorta_comm_rank(suite->world);
    suite->size = aorta_comm_size(suite->world);
    check_ok(aorta_stream_create(suite->device, "first", AORTA_PRIORITY_NORMAL, &suite->stream));
    check_ok(aorta_stream_create(suite->device, "second", AORTA_PRIORITY_HIGH, &suite->other));
    *state = suite;
    return 0;
}

int suite_teardown(void **state) {
    struct suite *suite = *state;
    aorta_stream_destroy(suite->stream);
    aorta_stream_destroy(suite->other);
    aorta_comm_close(suite->world);
    aorta_device_close(suite->device);
    free(suite);
    aorta_comm_shutdown();
    return 0;
}
