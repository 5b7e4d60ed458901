#include "base/interval.h"
#include "check.h"

#include <stdbool.h>
#include <stdlib.h>

enum { SPAN = 64, ROUNDS = 3000 };

/* The sets as one flag per nanosecond. */
struct bits {
    bool at[SPAN];
};

static int64_t bits_length(const struct bits *bits) {
    int64_t length = 0;
    for (int i = 0; i < SPAN; i++) length += bits->at[i];
    return length;
}

static void check_same(struct aorta_intervals *set, const struct bits *bits) {
    assert_int_equal(aorta_intervals_length(set), bits_length(bits));
    struct bits seen = {0};
    for (size_t i = 0; i < set->count; i++) {
        assert_true(set->items[i].start_ns < set->items[i].end_ns);
        if (i > 0) assert_true(set->items[i].start_ns > set->items[i - 1].end_ns); /* disjoint, not even touching */
        for (int64_t t = set->items[i].start_ns; t < set->items[i].end_ns; t++) seen.at[t] = true;
    }
    assert_memory_equal(&seen, bits, sizeof seen);
}

static void add_random(struct aorta_intervals *set, struct bits *bits) {
    int count = rand() % 8;
    for (int i = 0; i < count; i++) {
        int start = rand() % SPAN, end = start + rand() % 12 - 2; /* empty and reversed ones too */
        if (end > SPAN) end = SPAN;
        aorta_intervals_add(set, start, end);
        for (int t = start; t < end; t++) bits->at[t] = true;
    }
}

static void test_against_brute_force(void **state) {
    (void)state;
    srand(7);
    struct aorta_intervals out = {0};
    for (int round = 0; round < ROUNDS; round++) {
        struct aorta_intervals a = {0}, b = {0};
        struct bits a_bits = {0}, b_bits = {0}, both = {0}, either = {0}, only_a = {0};
        add_random(&a, &a_bits);
        add_random(&b, &b_bits);
        for (int t = 0; t < SPAN; t++) {
            both.at[t] = a_bits.at[t] && b_bits.at[t];
            either.at[t] = a_bits.at[t] || b_bits.at[t];
            only_a.at[t] = a_bits.at[t] && !b_bits.at[t];
        }
        aorta_intervals_union(&a, &b, &out);
        check_same(&out, &either);
        aorta_intervals_intersect(&a, &b, &out);
        check_same(&out, &both);
        aorta_intervals_subtract(&a, &b, &out);
        check_same(&out, &only_a);
        int64_t from = rand() % SPAN, to = from + rand() % 20, within = 0;
        for (int64_t t = from; t < to && t < SPAN; t++) within += a_bits.at[t];
        assert_int_equal(aorta_intervals_within(&a, from, to), within);
        check_same(&a, &a_bits);
        check_same(&b, &b_bits);
        aorta_intervals_free(&a);
        aorta_intervals_free(&b);
    }
    aorta_intervals_free(&out);
}

static void test_large_times(void **state) {
    (void)state;
    struct aorta_intervals a = {0}, b = {0}, out = {0};
    aorta_intervals_add(&a, INT64_MAX - 10, INT64_MAX);
    aorta_intervals_add(&a, -5, 5);
    aorta_intervals_add(&b, INT64_MAX - 3, INT64_MAX);
    aorta_intervals_subtract(&a, &b, &out);
    assert_int_equal(aorta_intervals_length(&out), 17);
    aorta_intervals_clear(&a);
    assert_int_equal(aorta_intervals_length(&a), 0);
    aorta_intervals_add(&a, 1, 2);
    assert_int_equal(aorta_intervals_length(&a), 1);
    aorta_intervals_free(&a);
    aorta_intervals_free(&b);
    aorta_intervals_free(&out);
}

/* A set inherits the failure of its operands. */
static void test_failure_stays(void **state) {
    (void)state;
    struct aorta_intervals a = {.failed = true}, b = {0}, out = {0}, last = {0};
    aorta_intervals_add(&a, 1, 2);
    assert_int_equal(aorta_intervals_length(&a), 0);
    aorta_intervals_add(&b, 1, 2);
    aorta_intervals_intersect(&b, &a, &out);
    aorta_intervals_union(&b, &out, &last);
    check_ok(aorta_intervals_check(&b));
    check_fails(aorta_intervals_check(&last), AORTA_MEMORY, "no memory");
    aorta_intervals_free(&last);
    check_ok(aorta_intervals_check(&last));
    aorta_intervals_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_brute_force),
        cmocka_unit_test(test_large_times),
        cmocka_unit_test(test_failure_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
