#include "ops/cpu/cpu.h"
#include "rig.h"

#include <math.h>
#include <stdlib.h>

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16 by its definition. */
static double half_value(uint32_t half) {
    int exponent = (int)(half >> 10 & 31), fraction = (int)(half & 1023);
    double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return half & 0x8000u ? -magnitude : magnitude;
}

enum { HALVES = 65536 };

/* All halves become the fp32 of the same value and come back; on every level, alone and in long runs. */
static void every_half(void **state) {
    (void)state;
    static uint16_t half[HALVES], back[HALVES];
    static float wide[HALVES];
    for (int i = 0; i < HALVES; i++) half[i] = (uint16_t)i;
    int levels;
    const struct aorta_cpu_ops *const *ops = aorta_cpu_ops_list(&levels);
    for (int level = 0; level < levels; level++)
        for (int run = HALVES; run > 0; run = run == HALVES ? 7 : 0) {
            for (int i = 0; i < HALVES; i += run) {
                int count = run < HALVES - i ? run : HALVES - i;
                ops[level]->to_float(wide + i, half + i, AORTA_F16, count);
                ops[level]->from_float(back + i, wide + i, AORTA_F16, count);
            }
            for (int i = 0; i < HALVES; i++) {
                bool special = (i >> 10 & 31) == 31, nan = special && (i & 1023);
                if (nan) {
                    assert_true(isnan(wide[i]));
                    assert_true((back[i] >> 10 & 31) == 31 && (back[i] & 1023));
                    continue;
                }
                if (special)
                    assert_true(isinf(wide[i]) && !signbit(wide[i]) == !(i >> 15));
                else
                    assert_true((double)wide[i] == half_value((uint32_t)i) && !signbit(wide[i]) == !(i >> 15));
                assert_int_equal(back[i], i);
            }
        }
}

/* Between two neighbouring halves: the middle goes to the even one, its fp32 neighbours to the nearer one. */
static void halves_round_to_nearest_even(void **state) {
    (void)state;
    int levels;
    const struct aorta_cpu_ops *const *ops = aorta_cpu_ops_list(&levels);
    for (int level = 0; level < levels; level++)
        for (uint32_t i = 0; i < 0x7C00; i++) {
            double above = i == 0x7BFF ? 65536.0 : half_value(i + 1); /* beyond the greatest: infinity's place */
            float middle = (float)(0.5 * (half_value(i) + above));
            const float in[16] = {middle,  nextafterf(middle, 0.0f),  nextafterf(middle, INFINITY),
                                  -middle, -nextafterf(middle, 0.0f), -nextafterf(middle, INFINITY)};
            const uint16_t even = (uint16_t)(i + (i & 1));
            const uint16_t want[3] = {even, (uint16_t)i, (uint16_t)(i + 1)};
            uint16_t out[16], tail[3];
            ops[level]->from_float(out, in, AORTA_F16, 16); /* whole vectors */
            ops[level]->from_float(tail, in, AORTA_F16, 3); /* the last of a block */
            for (int j = 0; j < 3; j++) {
                assert_int_equal(out[j], want[j]);
                assert_int_equal(tail[j], want[j]);
                assert_int_equal(out[j + 3], want[j] | 0x8000);
            }
        }
}

static uint16_t bf16_by_value(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t down = bits & 0xFFFF0000u;
    uint32_t rest = bits & 0xFFFFu;
    bool up = rest > 0x8000u || (rest == 0x8000u && down >> 16 & 1);
    return (uint16_t)((down >> 16) + up);
}

static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    static const uint32_t low[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
    int levels;
    const struct aorta_cpu_ops *const *ops = aorta_cpu_ops_list(&levels);
    for (int level = 0; level < levels; level++)
        for (uint32_t high = 0; high < 0x10000; high++) {
            float in[6], wide[6];
            uint16_t out[6];
            for (int j = 0; j < 6; j++) in[j] = from_bits(high << 16 | low[j]);
            ops[level]->from_float(out, in, AORTA_BF16, 6);
            ops[level]->to_float(wide, out, AORTA_BF16, 6);
            for (int j = 0; j < 6; j++) {
                if (isnan(in[j])) {
                    assert_true(isnan(wide[j]) && signbit(wide[j]) == signbit(in[j]));
                    continue;
                }
                assert_int_equal(out[j], bf16_by_value(in[j]));
            }
        }
}

static void casts_and_scales(void **state) {
    const int64_t counts[] = {1, 31, 1024, 2049};
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++)
            for (int c = 0; c < 4; c++)
                for (int scaled = 0; scaled < 2; scaled++) {
                    struct rig *rig = *state;
                    const int64_t count = counts[c];
                    const double scale = scaled ? 0.75 : 1.0;
                    double *values = rig_random(rig, rig_dtypes[from], count, 100), *expected = rig_values(rig, count);
                    for (int64_t i = 0; i < count; i++) expected[i] = rig_round(scale * values[i], rig_dtypes[to]);
                    void *out = rig_alloc(rig, (size_t)count * aorta_dtype_size(rig_dtypes[to]));
                    check_ok(aorta_cast(rig->stream, out, rig_dtypes[to], rig_put(rig, rig_dtypes[from], values, count),
                                        rig_dtypes[from], count, (float)scale));
                    rig_close_to("cast", rig_get(rig, rig_dtypes[to], out, count), expected, count, 0.0, 0.0);
                    rig_reset(state);
                }
}

static void fills_and_adds(void **state) {
    for (int t = 0; t < 3; t++) {
        struct rig *rig = *state;
        const enum aorta_dtype dtype = rig_dtypes[t];
        enum { COUNT = 1500 };
        double *a = rig_random(rig, dtype, COUNT, 2), *b = rig_random(rig, dtype, COUNT, 2),
               *sum = rig_values(rig, COUNT);
        void *to = rig_put(rig, dtype, a, COUNT);
        check_ok(aorta_add(rig->stream, to, rig_put(rig, dtype, b, COUNT), dtype, COUNT, -0.5f));
        for (int i = 0; i < COUNT; i++) sum[i] = a[i] - 0.5 * b[i];
        rig_close_to("add", rig_get(rig, dtype, to, COUNT), sum, COUNT, 1.01 * rig_unit(dtype), 1e-6);
        check_ok(aorta_fill(rig->stream, to, dtype, COUNT - 1, -1.5f));
        double *filled = rig_get(rig, dtype, to, COUNT);
        for (int i = 0; i < COUNT - 1; i++) assert_true(filled[i] == -1.5);
        rig_close_to("after the end", filled + COUNT - 1, sum + COUNT - 1, 1, 1.01 * rig_unit(dtype), 1e-6);
        rig_reset(state);
    }
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[8] = {0};
    check_fails(aorta_cast(rig->stream, some, AORTA_U8, some, AORTA_F32, 1, 1.0f), AORTA_INTERNAL,
                "cast: element type uint8");
    check_fails(aorta_cast(rig->stream, some, (enum aorta_dtype)99, some, AORTA_F32, 1, 1.0f), AORTA_INTERNAL,
                "99 is no element type");
    check_fails(aorta_cast(rig->stream, some, AORTA_F32, NULL, AORTA_F32, 1, 1.0f), AORTA_INTERNAL, "from is NULL");
    check_fails(aorta_fill(rig->stream, some, AORTA_F32, -5, 1.0f), AORTA_INTERNAL, "count is -5");
    check_fails(aorta_add(rig->stream, NULL, some, AORTA_F32, 5, 1.0f), AORTA_INTERNAL, "to is NULL");
    check_ok(aorta_cast(rig->stream, NULL, AORTA_F32, NULL, AORTA_F16, 0, 1.0f));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_half),
                                       cmocka_unit_test(halves_round_to_nearest_even),
                                       cmocka_unit_test(bf16_rounds_to_nearest_even),
                                       rig_test(casts_and_scales),
                                       rig_test(fills_and_adds),
                                       rig_test(wrong_arguments)};
    return rig_run_tests("ops: cast", tests);
}
