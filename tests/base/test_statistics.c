#include "base/statistics.h"
#include "check.h"
#include "random.h"

#include <math.h>

/* numpy.mean, std, min, max, percentile(…, [50, 90, 95, 99]) of NumPy 1.24 */
static const struct {
    double samples[8];
    size_t count;
    struct aorta_summary expected;
} cases[] = {
    {{3.5, -1.25, 8, 2, 2, 10.75, 0.5},
     7,
     {7, 3.642857142857143, 3.941213425495519, -1.25, 10.75, 2.0, 9.100000000000001, 9.924999999999997,
      10.584999999999999}},
    {{1}, 1, {1, 1, 0, 1, 1, 1, 1, 1, 1}},
    {{1, 2}, 2, {2, 1.5, 0.5, 1, 2, 1.5, 1.9, 1.95, 1.99}},
    {{5, 4, 3, 2, 1, 0, -7, 1e9},
     8,
     {8, 125000001.0, 330718913.50510937, -7, 1e9, 2.5, 300000003.4999998, 650000001.7499995, 930000000.3499997}},
};

static void check_close(double value, double expected) {
    if (fabs(value - expected) > 1e-13 * fmax(1, fabs(expected))) fail_msg("%.17g is not %.17g", value, expected);
}

static void test_against_numpy(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aorta_summary summary = aorta_summarise(cases[i].samples, cases[i].count);
        const struct aorta_summary *expected = &cases[i].expected;
        assert_int_equal(summary.count, expected->count);
        check_close(summary.mean, expected->mean);
        check_close(summary.std, expected->std);
        check_close(summary.min, expected->min);
        check_close(summary.max, expected->max);
        check_close(summary.p50, expected->p50);
        check_close(summary.p90, expected->p90);
        check_close(summary.p95, expected->p95);
        check_close(summary.p99, expected->p99);
    }
}

static void test_nothing_to_measure(void **state) {
    (void)state;
    const double nans[] = {NAN, NAN};
    struct aorta_summary summary = aorta_summarise(nans, 2);
    assert_int_equal(summary.count, 0);
    assert_true(isnan(summary.mean) && isnan(summary.std) && isnan(summary.min) && isnan(summary.p99));
    assert_true(isnan(aorta_summarise(NULL, 0).p50));
    assert_true(isnan(aorta_percentile_sorted(NULL, 0, 50)));
}

static void test_nans_are_left_out(void **state) {
    (void)state;
    const double samples[] = {3, NAN, 1};
    struct aorta_summary summary = aorta_summarise(samples, 3);
    assert_int_equal(summary.count, 2);
    check_close(summary.p50, 2);
    assert_true(isnan(samples[1])); /* the caller's array is left alone */
}

static void test_percentile_ends(void **state) {
    (void)state;
    const double sorted[] = {1, 2, 4};
    check_close(aorta_percentile_sorted(sorted, 3, 0), 1);
    check_close(aorta_percentile_sorted(sorted, 3, 100), 4);
    check_close(aorta_percentile_sorted(sorted, 3, 75), 3);
    const double infinite[] = {INFINITY, INFINITY};
    assert_true(isinf(aorta_percentile_sorted(infinite, 2, 50)));
}

/* By the definition: between the samples on both sides of rank p / 100 (n - 1), found by counting smaller ones. */
static double counted_percentile(const double *samples, size_t count, double percent) {
    const double rank = percent / 100 * (double)(count - 1);
    const size_t below = (size_t)rank;
    double found[2] = {0, 0};
    for (int side = 0; side < 2; side++) {
        const size_t wanted = below + (size_t)side < count ? below + (size_t)side : count - 1;
        for (size_t i = 0; i < count; i++) {
            size_t smaller = 0, equal = 0;
            for (size_t j = 0; j < count; j++) {
                smaller += samples[j] < samples[i];
                equal += samples[j] == samples[i];
            }
            if (smaller <= wanted && wanted < smaller + equal) found[side] = samples[i];
        }
    }
    return found[0] + (found[1] - found[0]) * (rank - (double)below);
}

static void test_random_samples_agree_with_counting(void **state) {
    (void)state;
    random_state = 5;
    for (int round = 0; round < 300; round++) {
        double samples[40], all[41];
        const size_t count = (size_t)random_between(1, 40);
        long double sum = 0, squares = 0;
        for (size_t i = 0; i < count; i++) {
            samples[i] = (double)random_between(-20, 20) / 4; /* with ties, and exact */
            all[i] = samples[i];
            sum += (long double)samples[i];
        }
        for (size_t i = 0; i < count; i++)
            squares += ((long double)samples[i] - sum / count) * ((long double)samples[i] - sum / count);
        all[count] = NAN;
        const struct aorta_summary summary = aorta_summarise(all, count + 1);
        assert_int_equal(summary.count, count);
        check_close(summary.mean, (double)(sum / count));
        check_close(summary.std, (double)sqrtl(squares / count));
        check_close(summary.min, counted_percentile(samples, count, 0));
        check_close(summary.p50, counted_percentile(samples, count, 50));
        check_close(summary.p90, counted_percentile(samples, count, 90));
        check_close(summary.p95, counted_percentile(samples, count, 95));
        check_close(summary.p99, counted_percentile(samples, count, 99));
        check_close(summary.max, counted_percentile(samples, count, 100));
    }
}

/* In 10, 20, 40, 80: place 1.5 is half-way from 20 to 40, place 2.85 is 0.85 of the way from 40 to 80. */
static void test_whole_numbers(void **state) {
    (void)state;
    const int64_t sorted[] = {10, 20, 40, 80};
    check_close(aorta_percentile_int64(sorted, 4, 50), 30);
    check_close(aorta_percentile_int64(sorted, 4, 95), 74);
    check_close(aorta_percentile_int64(sorted, 1, 95), 10);
    assert_true(isnan(aorta_percentile_int64(NULL, 0, 50)));
    int64_t unsorted[] = {80, 10, 41, 20}, negative[] = {-3, -2};
    assert_int_equal(aorta_median_int64(unsorted, 4), 30); /* 30.5 */
    assert_int_equal(aorta_median_int64(negative, 2), -3); /* -2.5 */
    assert_int_equal(aorta_median_int64(NULL, 0), 0);
    const double half[] = {0, 2, 5}, most[] = {0, 5, 6, 7}, equal[] = {4, 4};
    check_close(aorta_lower_median_without(half, 3, 2), 0);
    check_close(aorta_lower_median_without(half, 3, 0), 2);
    check_close(aorta_lower_median_without(most, 4, 6), 5);
    check_close(aorta_lower_median_without(most, 4, 0), 6);
    check_close(aorta_lower_median_without(equal, 2, 4), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_numpy),     cmocka_unit_test(test_nothing_to_measure),
        cmocka_unit_test(test_nans_are_left_out), cmocka_unit_test(test_percentile_ends),
        cmocka_unit_test(test_whole_numbers),     cmocka_unit_test(test_random_samples_agree_with_counting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
