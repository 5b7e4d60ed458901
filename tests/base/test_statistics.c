#include "base/statistics.h"
#include "check.h"

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

/* Numbers worked out apart, by integrating the density of Student's distribution. */
static void test_welch(void **state) {
    (void)state;
    const double one[] = {1, 2, 3, 4}, two[] = {2, 4, 6, 9, 11}, same[] = {5, 5, 5};
    assert_true(fabs(aorta_welch_p(one, 4, two, 5) - 0.074912745057) < 1e-9);
    assert_true(fabs(aorta_welch_p(two, 5, one, 4) - 0.074912745057) < 1e-9);
    const double near[] = {10.1, 10.2, 9.9, 10.0, 10.05}, far[] = {11.1, 11.3, 10.9, 11.0};
    assert_true(fabs(aorta_welch_p(near, 5, far, 4) - 0.000149224936330) < 1e-9);
    assert_true(fabs(aorta_welch_p(one, 4, one, 4) - 1) < 1e-12);
    assert_true(isnan(aorta_welch_p(one, 1, two, 5)));
    assert_true(aorta_welch_p(same, 3, same, 2) == 1);
    const double other[] = {6, 6};
    assert_true(aorta_welch_p(same, 3, other, 2) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_numpy),
        cmocka_unit_test(test_nothing_to_measure),
        cmocka_unit_test(test_nans_are_left_out),
        cmocka_unit_test(test_percentile_ends),
        cmocka_unit_test(test_welch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
