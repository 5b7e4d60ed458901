#include "base/random.h"
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

/* By the definition: between the samples on both sides of rank p / 100 (n - 1), found by counting what is smaller. */
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

static double p_of(const double *first, size_t first_count, const double *second, size_t second_count) {
    return aorta_compare(first, first_count, second, second_count).p_value;
}

/* Samples that are not correlated are blocks of their own: Welch's test. Numbers worked out apart, by integrating the
 * density of Student's distribution; the quantiles of the intervals are those of printed tables. */
static void test_independent_samples(void **state) {
    (void)state;
    const double one[] = {1, 2, 3, 4}, two[] = {2, 4, 6, 9, 11}, same[] = {5, 5, 5};
    assert_true(fabs(p_of(one, 4, two, 5) - 0.074912745057) < 1e-9);
    assert_true(fabs(p_of(two, 5, one, 4) - 0.074912745057) < 1e-9);
    const double near[] = {10.1, 10.2, 9.9, 10.0, 10.05}, far[] = {11.1, 11.3, 10.9, 11.0};
    assert_true(fabs(p_of(near, 5, far, 4) - 0.000149224936330) < 1e-9);
    assert_true(fabs(p_of(one, 4, one, 4) - 1) < 1e-12);
    assert_true(isnan(p_of(one, 1, two, 5)));
    assert_true(isnan(aorta_compare(one, 1, two, 5).low) && isnan(aorta_compare(two, 5, one, 1).high));
    assert_true(p_of(same, 3, same, 2) == 1);
    const double other[] = {6, 6};
    assert_true(p_of(same, 3, other, 2) == 0);
    const double later[] = {5, 6, 7, 8}; /* six degrees of freedom: 2.446912 standard errors of 0.912871 */
    const struct aorta_comparison compared = aorta_compare(one, 4, later, 4);
    check_close(compared.delta, 4);
    assert_true(fabs(compared.high - 4 - 2.446912 * sqrt(5.0 / 6)) < 1e-5);
    assert_true(fabs(4 - compared.low - 2.446912 * sqrt(5.0 / 6)) < 1e-5);
}

/* ---- series that are correlated ---- */

enum { COUNT = 200, SERIES = 600 };

static struct aorta_normal_table table;

/* AR(1) of variance 1 around `level`. */
static void make_series(uint64_t seed, double correlation, double level, double *series) {
    float normals[COUNT];
    const struct aorta_random random = {.seed = seed, .stream = 1, .domain = AORTA_RANDOM_DATA};
    aorta_random_normal(&random, &table, 0, COUNT, normals);
    double state = (double)normals[0];
    for (size_t i = 0; i < COUNT; i++) {
        if (i) state = correlation * state + sqrt(1 - correlation * correlation) * (double)normals[i];
        series[i] = level + state;
    }
}

/* Series of the same level differ significantly about as often as the level of significance says; those that differ by
 * four standard errors nearly always, and the interval holds the true difference. */
static void test_correlated_series(void **state) {
    (void)state;
    static const struct {
        double correlation, shift;
        int least, most; /* of 600: how often p is below 0.05 */
    } rows[] = {{0, 0, 15, 48}, {0.5, 0, 15, 54}, {0.8, 0, 15, 60}, {0, 0.4, 570, 600}, {0.8, 1.2, 540, 600}};
    aorta_normal_table_fill(&table);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int significant = 0, covered = 0;
        for (uint64_t seed = 0; seed < SERIES; seed++) {
            double first[COUNT], second[COUNT];
            make_series(2 * seed, rows[r].correlation, 10, first);
            make_series(2 * seed + 1, rows[r].correlation, 10 + rows[r].shift, second);
            const struct aorta_comparison compared = aorta_compare(first, COUNT, second, COUNT);
            significant += compared.p_value < aorta_significance;
            covered += compared.low <= rows[r].shift && rows[r].shift <= compared.high;
            assert_int_equal(compared.p_value<aorta_significance, compared.low> 0 || compared.high < 0);
        }
        if (significant < rows[r].least || significant > rows[r].most || covered < SERIES * 9 / 10)
            fail_msg("correlation %g, shift %g: %d of %d significant, %d intervals hold the shift", rows[r].correlation,
                     rows[r].shift, significant, SERIES, covered);
    }
}

/* Of 10, 20, 40, 80: place 1.5 is half-way from 20 to 40, place 2.85 is 0.85 of the way from 40 to 80. */
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
    double half[] = {5, 0}, most[] = {5, 0, 7};
    check_close(aorta_lower_median(half, 2), 0);
    check_close(aorta_lower_median(most, 3), 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_numpy),       cmocka_unit_test(test_nothing_to_measure),
        cmocka_unit_test(test_nans_are_left_out),   cmocka_unit_test(test_percentile_ends),
        cmocka_unit_test(test_whole_numbers),       cmocka_unit_test(test_random_samples_agree_with_counting),
        cmocka_unit_test(test_independent_samples), cmocka_unit_test(test_correlated_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
