#include "rig.h"

#include <math.h>
#include <stdlib.h>

const enum aorta_dtype rig_dtypes[3] = {AORTA_F32, AORTA_BF16, AORTA_F16};

/* Opened once for all tests: on a GPU that takes a second, and loading its kernels another. */
static struct aorta_device *opened;

/* AORTA_TEST_DEVICE names the kind of device. */
static aorta_status open_device(void) {
    const char *wanted = getenv("AORTA_TEST_DEVICE");
    enum aorta_device_kind kind = AORTA_DEVICE_CPU;
    while (wanted && kind <= AORTA_DEVICE_HIP && strcmp(wanted, aorta_device_kind_name(kind)) != 0) kind++;
    if (kind <= AORTA_DEVICE_HIP) return aorta_device_open(kind, 0, &opened);
    return AORTA_ERROR(AORTA_USAGE, "AORTA_TEST_DEVICE is %s; it can be cpu, cuda or hip", wanted);
}

static void skip_test(void **state) {
    (void)state;
    skip();
}

int rig_run(const char *name, const struct CMUnitTest *tests, size_t count) {
    struct CMUnitTest own[16];
    if (count > sizeof own / sizeof *own) return 1;
    memcpy(own, tests, count * sizeof *own);
    aorta_status status = open_device();
    if (status) print_message("%s: %s\n", name, aorta_status_message(status));
    const bool absent = aorta_status_code(status) == AORTA_UNSUPPORTED;
    const bool broken = status && !absent;
    aorta_status_free(status);
    if (broken) return 1;
    for (size_t i = 0; i < count && absent; i++)
        if (own[i].setup_func == rig_open) own[i] = (struct CMUnitTest){.name = own[i].name, .test_func = skip_test};
    int failed = _cmocka_run_group_tests(name, own, count, NULL, NULL);
    aorta_device_close(opened);
    opened = NULL;
    return failed;
}

int rig_open(void **state) {
    struct rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    rig->random = 88172645463325252u;
    rig->device = opened;
    check_ok(aorta_stream_create(rig->device, "test", AORTA_PRIORITY_NORMAL, &rig->stream));
    *state = rig;
    return 0;
}

int rig_close(void **state) {
    struct rig *rig = *state;
    aorta_stream_destroy(rig->stream);
    for (int i = 0; i < rig->device_count; i++) aorta_device_free(rig->device, rig->device_memory[i]);
    for (int i = 0; i < rig->host_count; i++) free(rig->host_memory[i]);
    free(rig);
    return 0;
}

void rig_reset(void **state) {
    rig_close(state);
    rig_open(state);
}

double rig_unit(enum aorta_dtype dtype) {
    return ldexp(1.0, dtype == AORTA_F32 ? -24 : dtype == AORTA_BF16 ? -8 : -11);
}

static double *keep(struct rig *rig, size_t bytes) {
    assert_in_range(rig->host_count, 0, 255);
    void *memory = calloc(bytes ? bytes : 1, 1);
    assert_non_null(memory);
    return rig->host_memory[rig->host_count++] = memory;
}

double *rig_values(struct rig *rig, int64_t count) {
    return keep(rig, (size_t)count * sizeof(double));
}

/* Rounds to nearest even at the place that the type keeps; subnormals of fp16 have a fixed place. */
double rig_round(double value, enum aorta_dtype dtype) {
    if (dtype == AORTA_F32) return (double)(float)value;
    if (value == 0.0 || !isfinite(value)) return value;
    int exponent;
    frexp(value, &exponent);
    int place = exponent - (dtype == AORTA_BF16 ? 8 : 11);
    if (dtype == AORTA_F16 && place < -24) place = -24;
    double rounded = ldexp(nearbyint(ldexp(value, -place)), place);
    return dtype == AORTA_F16 && fabs(rounded) >= 65536.0 ? copysign(INFINITY, value) : rounded;
}

double *rig_random(struct rig *rig, enum aorta_dtype dtype, int64_t count, double scale) {
    double *values = rig_values(rig, count);
    for (int64_t i = 0; i < count; i++) { /* Marsaglia's xorshift64 */
        rig->random ^= rig->random << 13;
        rig->random ^= rig->random >> 7;
        rig->random ^= rig->random << 17;
        values[i] = rig_round(scale * ((double)(rig->random >> 11) * 0x1p-52 - 1.0), dtype);
    }
    return values;
}

void *rig_alloc(struct rig *rig, size_t bytes) {
    assert_in_range(rig->device_count, 0, 255);
    void *memory;
    check_ok(aorta_device_alloc(rig->device, bytes ? bytes : 1, "test", &memory));
    check_ok(aorta_fill_bytes(rig->stream, memory, 0xFF, bytes ? bytes : 1));
    return rig->device_memory[rig->device_count++] = memory;
}

void *rig_put_bytes(struct rig *rig, const void *data, size_t bytes) {
    void *memory = rig_alloc(rig, bytes);
    if (bytes) check_ok(aorta_copy(rig->stream, memory, data, bytes));
    check_ok(aorta_stream_synchronize(rig->stream));
    return memory;
}

void rig_get_bytes(struct rig *rig, void *to, const void *device, size_t bytes) {
    if (bytes) check_ok(aorta_copy(rig->stream, to, device, bytes));
    check_ok(aorta_stream_synchronize(rig->stream));
}

struct aorta_step_state *rig_step_state(struct rig *rig, struct aorta_step_state state) {
    return rig_put_bytes(rig, &state, sizeof state);
}

static uint16_t encode(double value, enum aorta_dtype dtype) {
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (dtype == AORTA_BF16) return (uint16_t)(bits >> 16);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    double magnitude = fabs(value);
    if (isinf(value)) return sign | 0x7C00u;
    if (magnitude < 0x1p-14) return (uint16_t)(sign | (uint16_t)ldexp(magnitude, 24));
    int exponent;
    double fraction = frexp(magnitude, &exponent);
    return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)((uint16_t)ldexp(fraction, 11) & 0x3FFu));
}

static double decode(uint16_t bits, enum aorta_dtype dtype) {
    if (dtype == AORTA_BF16) {
        uint32_t wide = (uint32_t)bits << 16;
        float single;
        memcpy(&single, &wide, sizeof single);
        return (double)single;
    }
    int exponent = bits >> 10 & 31, fraction = bits & 0x3FF;
    double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexp(fraction, -24)
                                       : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000u ? -magnitude : magnitude;
}

void *rig_put(struct rig *rig, enum aorta_dtype dtype, const double *values, int64_t count) {
    void *stored = keep(rig, (size_t)count * aorta_dtype_size(dtype));
    for (int64_t i = 0; i < count; i++)
        if (dtype == AORTA_F32)
            ((float *)stored)[i] = (float)values[i];
        else
            ((uint16_t *)stored)[i] = encode(values[i], dtype);
    return rig_put_bytes(rig, stored, (size_t)count * aorta_dtype_size(dtype));
}

double *rig_get(struct rig *rig, enum aorta_dtype dtype, const void *device, int64_t count) {
    void *stored = keep(rig, (size_t)count * aorta_dtype_size(dtype));
    double *values = rig_values(rig, count);
    rig_get_bytes(rig, stored, device, (size_t)count * aorta_dtype_size(dtype));
    for (int64_t i = 0; i < count; i++)
        values[i] = dtype == AORTA_F32 ? (double)((float *)stored)[i] : decode(((uint16_t *)stored)[i], dtype);
    return values;
}

void rig_close_to(const char *what, const double *got, const double *expected, int64_t count, double relative,
                  double absolute) {
    for (int64_t i = 0; i < count; i++) {
        double allowed = relative * fabs(expected[i]) + absolute;
        if (fabs(got[i] - expected[i]) <= allowed) continue;
        fail_msg("%s[%lld of %lld]: got %.9g, expected %.9g, off by %.3g where %.3g is allowed", what, (long long)i,
                 (long long)count, got[i], expected[i], fabs(got[i] - expected[i]), allowed);
    }
}

void rig_gradient(const char *what, double (*loss)(void *context), void *context, double *values, int64_t count,
                  const double *gradient, double relative, double absolute) {
    const double h = 1e-5;
    for (int64_t i = 0; i < count; i += 1 + count / RIG_PROBES) {
        double value = values[i];
        values[i] = value + h;
        double above = loss(context);
        values[i] = value - h;
        double below = loss(context);
        values[i] = value;
        double expected = (above - below) / (2.0 * h);
        char name[128];
        snprintf(name, sizeof name, "%s, element %lld", what, (long long)i);
        rig_close_to(name, &gradient[i], &expected, 1, relative, absolute);
    }
}

/* Philox4x32-10 as in the paper: multiply, swap, mix in the key, advance the key. */
static void philox(uint32_t c[4], uint32_t key0, uint32_t key1) {
    for (int round = 0; round < 10; round++) {
        uint64_t left = 0xD2511F53ull * c[0], right = 0xCD9E8D57ull * c[2];
        uint32_t next[4] = {(uint32_t)(right >> 32) ^ c[1] ^ key0, (uint32_t)right,
                            (uint32_t)(left >> 32) ^ c[3] ^ key1, (uint32_t)left};
        memcpy(c, next, sizeof next);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

double rig_dropout(double probability, const struct aorta_rng *rng, int64_t step, int64_t index) {
    uint32_t key[4] = {rng->site, rng->rank, rng->micro, 0};
    philox(key, (uint32_t)rng->seed, (uint32_t)(rng->seed >> 32));
    uint64_t block = (uint64_t)index / 8;
    uint32_t words[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)step, (uint32_t)((uint64_t)step >> 32)};
    philox(words, key[0], key[1]);
    unsigned sample = words[index % 8 / 2] >> (index % 2 ? 16 : 0) & 0xFFFFu;
    unsigned threshold = (unsigned)floor(probability * 65536.0 + 0.5);
    return sample < threshold ? 0.0 : 65536.0 / (65536.0 - threshold);
}

void rig_sums_of_rows(struct rig *rig, const char *name, enum aorta_dtype dtype, const double *values, int64_t rows,
                      int64_t width, const double *start, const float *sums) {
    const double *found = rig_get(rig, AORTA_F32, sums, width);
    for (int64_t j = 0; j < width; j++) {
        double expected = start ? start[j] : 0.0, size = 1.0;
        for (int64_t row = 0; row < rows; row++) {
            expected += values[row * width + j];
            size += fabs(values[row * width + j]);
        }
        if (fabs(found[j] - expected) <= (rig_unit(dtype) + 1e-6) * size) continue;
        fail_msg("%s[%lld] is %.9g, the rows add up to %.9g", name, (long long)j, found[j], expected);
    }
}
