/* Number formats, exhaustively: a block alone must come back as it was, pairs must add as the formats say. */
#include "check.h"

#include "comm/backend.h"

#include <math.h>
#include <stdlib.h>

static uint16_t all[65536], out[65536];

static bool is_nan(uint16_t half, int fraction_bits) {
    uint16_t exponent = (uint16_t)(0x7fff >> fraction_bits << fraction_bits);
    return (half & exponent) == exponent && (half & (uint16_t)(~exponent & 0x7fff));
}

/* Every number of both 16-bit formats survives the way through fp32. */
static void test_identity(void **state) {
    (void)state;
    for (int i = 0; i < 65536; i++) all[i] = (uint16_t)i;
    const void *block[] = {all};
    for (int format = 0; format < 2; format++) {
        int fraction_bits = format ? 7 : 10;
        aorta_reduce_blocks(out, block, 1, 65536, format ? AORTA_BF16 : AORTA_F16, AORTA_SUM);
        for (int i = 0; i < 65536; i++)
            if (is_nan((uint16_t)i, fraction_bits))
                assert_true(is_nan(out[i], fraction_bits));
            else
                assert_int_equal(out[i], i);
    }
}

struct sum {
    uint16_t a, b, result;
};

static void check_sums(const struct sum *sums, size_t count, enum aorta_dtype dtype) {
    for (size_t i = 0; i < count; i++) {
        const void *blocks[] = {&sums[i].a, &sums[i].b};
        uint16_t result;
        aorta_reduce_blocks(&result, blocks, 2, 1, dtype, AORTA_SUM);
        assert_int_equal(result, sums[i].result);
    }
}

static void test_fp16_rounding(void **state) {
    (void)state;
    static const struct sum sums[] = {
        {0x6800, 0x3c00, 0x6800}, /* 2048 + 1: the tie goes to the even 2048 */
        {0x6801, 0x3c00, 0x6802}, /* 2050 + 1: to the even 2052 */
        {0x7bff, 0x7bff, 0x7c00}, /* beyond 65504: infinity */
        {0x7bff, 0x4b80, 0x7bff}, /* 65504 + 15: stays below 65520 */
        {0x7bff, 0x4c00, 0x7c00}, /* 65504 + 16: the tie with the next power rounds up */
        {0x0001, 0x0001, 0x0002}, /* subnormals */
        {0x03ff, 0x0001, 0x0400}, /* into the normals */
        {0x8001, 0x0001, 0x0000},
    };
    check_sums(sums, sizeof sums / sizeof *sums, AORTA_F16);
}

static void test_bf16_rounding(void **state) {
    (void)state;
    static const struct sum sums[] = {
        {0x4380, 0x3f80, 0x4380}, /* 256 + 1: the tie goes to the even 256 */
        {0x4381, 0x3f80, 0x4382}, /* 258 + 1: to the even 260 */
        {0x7f7f, 0x7f7f, 0x7f80}, /* infinity */
        {0x0001, 0x0001, 0x0002}, {0x3f80, 0xbf80, 0x0000},
    };
    check_sums(sums, sizeof sums / sizeof *sums, AORTA_BF16);
}

/* Halves between two neighbours: nearest, and even on ties, by the numbers' own distance. */
static void test_fp16_nearest(void **state) {
    (void)state;
    for (uint16_t half = 1; half < 0x7bff; half += 7) {
        /* x + x/2 in fp32 is exact for an 11-bit number */
        const void *one[] = {&half};
        uint16_t same;
        aorta_reduce_blocks(&same, one, 1, 1, AORTA_F16, AORTA_MAX);
        assert_int_equal(same, half);
        const void *three[] = {&half, &half, &half};
        uint16_t tripled;
        aorta_reduce_blocks(&tripled, three, 3, 1, AORTA_F16, AORTA_SUM);
        double exact = half < 0x400 ? half : ldexp(1024 + (half & 1023), (half >> 10) - 1);
        double got = tripled < 0x400 ? tripled : ldexp(1024 + (tripled & 1023), (tripled >> 10) - 1);
        double unit = tripled < 0x800 ? 1 : ldexp(1, (tripled >> 10) - 1);
        if (tripled < 0x7c00)
            assert_true(fabs(got - 3 * exact) <= unit / 2);
        else
            assert_true(3 * exact >= ldexp(65520, 24));
    }
}

static void test_long_blocks(void **state) {
    (void)state;
    const size_t count = 5001; /* no multiple of anything inside */
    float *blocks[3];
    for (int b = 0; b < 3; b++) {
        blocks[b] = malloc(count * sizeof(float));
        for (size_t i = 0; i < count; i++) blocks[b][i] = (float)(i * (size_t)(b + 1));
    }
    const void *inputs[] = {blocks[0], blocks[1], blocks[2]};
    aorta_reduce_blocks(blocks[1], inputs, 3, count, AORTA_F32, AORTA_SUM); /* into one of its own inputs */
    for (size_t i = 0; i < count; i++) assert_true(blocks[1][i] == (float)(6 * i));
    for (int b = 0; b < 3; b++) free(blocks[b]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),     cmocka_unit_test(test_fp16_rounding), cmocka_unit_test(test_bf16_rounding),
        cmocka_unit_test(test_fp16_nearest), cmocka_unit_test(test_long_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
