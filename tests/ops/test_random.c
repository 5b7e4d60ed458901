#include "ops/cpu/cpu.h"
#include "rig.h"

#include <math.h>

/* Random123's kat_vectors, philox4x32 with 10 rounds. */
static void known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    int levels;
    const struct aorta_cpu_ops *const *ops = aorta_cpu_ops_list(&levels);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct aorta_philox c;
        memcpy(c.word, known[i].counter, sizeof c.word);
        c = aorta_philox4x32_10(c, known[i].key[0], known[i].key[1]);
        assert_memory_equal(c.word, known[i].answer, sizeof c.word);
        uint64_t first = (uint64_t)known[i].counter[1] << 32 | known[i].counter[0];
        uint64_t step = (uint64_t)known[i].counter[3] << 32 | known[i].counter[2];
        for (int level = 0; level < levels; level++) {
            uint32_t words[64];
            ops[level]->philox(known[i].key, step, first, 16, words);
            assert_memory_equal(words, known[i].answer, sizeof c.word);
        }
    }
}

/* Blocks around a carry into the high word of the counter, in every lane. */
static void lanes_count_on(void **state) {
    (void)state;
    int levels;
    const struct aorta_cpu_ops *const *ops = aorta_cpu_ops_list(&levels);
    const uint32_t key[2] = {11, 22};
    const uint64_t first = 0xFFFFFFFFull - 20;
    for (int level = 0; level < levels; level++) {
        uint32_t words[48 * 4];
        ops[level]->philox(key, 5, first, 48, words);
        for (uint64_t lane = 0; lane < 48; lane++) {
            uint64_t block = first + lane;
            struct aorta_philox c = {{(uint32_t)block, (uint32_t)(block >> 32), 5, 0}};
            c = aorta_philox4x32_10(c, key[0], key[1]);
            assert_memory_equal(words + lane * 4, c.word, sizeof c.word);
        }
    }
}

enum { COUNT = 40003 };
static const struct aorta_rng base = {.seed = 0x123456789abcdefull, .site = 3, .rank = 1, .micro = 2};

/* The mask as the operation applies it: gelu of a large value is the value. */
static double *mask(struct rig *rig, struct aorta_rng rng, float p, int64_t step) {
    double *x = rig_values(rig, COUNT);
    for (int i = 0; i < COUNT; i++) x[i] = 64.0;
    rng.state = rig_step_state(rig, (struct aorta_step_state){.step = step});
    void *y = rig_alloc(rig, COUNT * sizeof(float));
    struct aorta_gelu shape = {AORTA_F32, COUNT, p, rng, 0};
    check_ok(aorta_gelu_forward(
        rig->stream, &(struct aorta_gelu_args){.shape = shape, .x = rig_put(rig, AORTA_F32, x, COUNT), .out = y}));
    double *out = rig_get(rig, AORTA_F32, y, COUNT);
    for (int i = 0; i < COUNT; i++) out[i] /= 64.0;
    return out;
}

static void masks_follow_the_definition(void **state) {
    const float rates[] = {0.1f, 0.5f, 0.0f, 1.0f, 0.9999f};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        double *got = mask(*state, base, rates[r], 7), passed = 0.0, sum = 0.0;
        for (int i = 0; i < COUNT; i++) {
            double expected = rates[r] == 0.0f   ? 1.0
                              : rates[r] == 1.0f ? 0.0
                                                 : rig_dropout((double)rates[r], &base, 7, i);
            assert_float_equal(got[i], expected, 1e-6 * expected);
            passed += got[i] != 0.0;
            sum += got[i];
        }
        double p = (double)rates[r], deviation = sqrt(COUNT * p * (1.0 - p));
        assert_true(fabs(passed - COUNT * (1.0 - p)) <= 4.0 * deviation + 1.0);
        if (p < 0.9) assert_true(fabs(sum / COUNT - 1.0) < 0.03);
    }
}

static int differing(const double *a, const double *b) {
    int count = 0;
    for (int i = 0; i < COUNT; i++) count += a[i] != b[i];
    return count;
}

static void masks_depend_on_all_of_their_names(void **state) {
    const double *first = mask(*state, base, 0.5f, 7);
    assert_int_equal(differing(first, mask(*state, base, 0.5f, 7)), 0);
    struct aorta_rng other[6];
    for (int i = 0; i < 6; i++) other[i] = base;
    other[0].seed ^= 1;
    other[1].seed ^= (uint64_t)1 << 40;
    other[2].site++;
    other[3].rank++;
    other[4].micro++;
    /* other[5]: the step */
    for (int i = 0; i < 6; i++) {
        int count = differing(first, mask(*state, other[i], 0.5f, i == 5 ? 8 : 7));
        assert_in_range(count, COUNT / 2 - 500, COUNT / 2 + 500); /* half agree by chance: deviation 100 */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_answers), cmocka_unit_test(lanes_count_on),
                                       rig_test(masks_follow_the_definition),
                                       rig_test(masks_depend_on_all_of_their_names)};
    return rig_run_tests("ops: random numbers", tests);
}
