/* Whether two sides differ: within a run, between runs, and when nothing can be said. */
#include "base/compare.h"
#include "base/random.h"
#include "check.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_close(double value, double expected) {
    if (fabs(value - expected) > 1e-13 * fmax(1, fabs(expected))) fail_msg("%.17g is not %.17g", value, expected);
}

/* One run on each side, equal up to noise. */
static struct aorta_comparison compare(const double *first, size_t first_count, const double *second,
                                       size_t second_count) {
    const struct aorta_samples sides[2] = {{first, first_count, NULL, 1, NULL}, {second, second_count, NULL, 1, NULL}};
    return aorta_compare(&sides[0], &sides[1], AORTA_MEAN, NULL);
}

static double p_of(const double *first, size_t first_count, const double *second, size_t second_count) {
    return compare(first, first_count, second, second_count).p_value;
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
    assert_true(isnan(compare(one, 1, two, 5).low) && isnan(compare(two, 5, one, 1).high));
    assert_true(p_of(same, 3, same, 3) == 1);
    const double other[] = {6, 6, 6};
    assert_true(p_of(same, 3, other, 3) == 0);
    const double later[] = {5, 6, 7, 8}; /* six degrees of freedom: 2.446912 standard errors of 0.912871 */
    const struct aorta_comparison compared = compare(one, 4, later, 4);
    check_close(compared.delta, 4);
    assert_true(fabs(compared.high - 4 - 2.446912 * sqrt(5.0 / 6)) < 1e-5);
    assert_true(fabs(4 - compared.low - 2.446912 * sqrt(5.0 / 6)) < 1e-5);
}

/* The value comes from integrating the t density by Simpson's rule. */
static void test_welch(void **state) {
    (void)state;
    const double a[] = {27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4};
    const double b[] = {27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.0, 23.9};
    assert_true(fabs(p_of(a, 15, b, 15) - 0.008452732437) < 1e-9);
    assert_true(fabs(p_of(a, 15, a, 15) - 1) < 1e-12);
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
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int significant = 0, covered = 0;
        for (uint64_t seed = 0; seed < SERIES; seed++) {
            double first[COUNT], second[COUNT];
            make_series(2 * seed, rows[r].correlation, 10, first);
            make_series(2 * seed + 1, rows[r].correlation, 10 + rows[r].shift, second);
            const struct aorta_comparison compared = compare(first, COUNT, second, COUNT);
            significant += compared.p_value < aorta_significance;
            covered += compared.low <= rows[r].shift && rows[r].shift <= compared.high;
            assert_int_equal(compared.p_value<aorta_significance, compared.low> 0 || compared.high < 0);
        }
        if (significant < rows[r].least || significant > rows[r].most || covered < SERIES * 9 / 10)
            fail_msg("correlation %g, shift %g: %d of %d significant, %d intervals hold the shift", rows[r].correlation,
                     rows[r].shift, significant, SERIES, covered);
    }
}

/* ---- equal runs ---- */

enum { STEPS = 40, MOST_RUNS = 5 };

/* Runs of 40 steps whose iterations vary by `spread` and whose levels vary by `between` from run to run. */
struct machine {
    double spread, between;
};

static void make_side(const struct machine *machine, uint64_t seed, double level, size_t runs, double *values) {
    float normals[MOST_RUNS * (STEPS + 1)];
    const struct aorta_random random = {.seed = seed, .stream = 3, .domain = AORTA_RANDOM_DATA};
    aorta_random_normal(&random, &table, 0, runs * (STEPS + 1), normals);
    for (size_t r = 0; r < runs; r++) {
        const double own = level * (1 + machine->between * (double)normals[r]);
        for (size_t i = 0; i < STEPS; i++)
            values[r * STEPS + i] = own * (1 + machine->spread * (double)normals[runs + r * STEPS + i]);
    }
}

static struct aorta_comparison of_runs(const struct machine *machine, uint64_t seed, double more, size_t runs,
                                       const struct aorta_between_runs *between) {
    static const size_t lengths[MOST_RUNS] = {STEPS, STEPS, STEPS, STEPS, STEPS};
    double first[MOST_RUNS * STEPS], second[MOST_RUNS * STEPS];
    make_side(machine, 2 * seed, 100, runs, first);
    make_side(machine, 2 * seed + 1, 100 * more, runs, second);
    const struct aorta_samples sides[2] = {{first, runs * STEPS, lengths, runs, NULL},
                                           {second, runs * STEPS, lengths, runs, NULL}};
    return aorta_compare(&sides[0], &sides[1], AORTA_MEAN, between);
}

static int significant(const struct machine *machine, double more, size_t runs,
                       const struct aorta_between_runs *between) {
    int found = 0;
    for (uint64_t seed = 0; seed < 200; seed++)
        found += of_runs(machine, seed, more, runs, between).p_value < aorta_significance;
    return found;
}

/* Two runs of a machine whose runs differ by 4%, each of 40 steps that vary by 2%:
 *
 *      run 1  ~~~~~~~~~~~~~~~~  103 ± 0.3
 *      run 2  ________________   98 ± 0.3     of 200 such pairs of equal runs
 *
 * the steps alone call nearly all of them different; with the difference assumed for a CPU's runs some 5% are. A fifth
 * more work is found. */
static void test_equal_runs_are_alike(void **state) {
    (void)state;
    const struct machine machine = {.spread = 0.02, .between = 0.04};
    const struct aorta_between_runs cpu = aorta_between_runs_on(false);
    assert_true(significant(&machine, 1, 1, NULL) > 140);
    const int equal = significant(&machine, 1, 1, &cpu), more = significant(&machine, 1.2, 1, &cpu);
    if (equal > 16 || more < 150) fail_msg("of 200 pairs: %d of equal runs, %d with a fifth more work", equal, more);
}

/* Repeats correct the assumed difference of this machine: one that is ten times as steady finds 2%, and one that is
 * three times as unsteady gives no false alarm. */
static void test_repeats_correct_what_is_assumed(void **state) {
    (void)state;
    const struct aorta_between_runs cpu = aorta_between_runs_on(false);
    const struct machine steady = {.spread = 0.002, .between = 0.004}, unsteady = {.spread = 0.02, .between = 0.12};
    const int single = significant(&steady, 1.04, 1, &cpu), repeated = significant(&steady, 1.04, 5, &cpu),
              wolf = significant(&unsteady, 1, 5, &cpu);
    if (single > 0 || repeated < 150 || wolf > 24)
        fail_msg("4%% found %d and %d times of 200, equal ones %d times", single, repeated, wolf);
    const struct aorta_comparison one = of_runs(&steady, 7, 1, 1, &cpu), five = of_runs(&steady, 7, 1, 5, &cpu);
    assert_true(one.assumed && !one.repeats && !five.assumed && five.repeats == 8);
    assert_true(one.between > 0.039 && five.between < 0.03);
    struct aorta_text text = {0};
    aorta_compare_between(&one, "runs", &text);
    aorta_compare_between(&five, "runs", &text);
    assert_non_null(strstr(text.data, "No run was repeated: equal runs are assumed to differ by 4"));
    assert_non_null(strstr(text.data, "several runs measure it"));
    assert_non_null(strstr(text.data, "(8 repeats)"));
    aorta_text_free(&text);
}

/* By hand: values 10 and 12 of two runs each, none of which varies within itself. Each side's variance between runs is
 * (0.5 · √2)² = 0.5, that of the prior (1%) 0.01 and 0.0144. With two repeats and four of the prior:
 * r = (4 + 0.5/0.01 + 0.5/0.0144) / 6 = 14.787; variance r · (0.01 + 0.0144) / 2 = 0.18040; t = 2 / 0.42474. */
static void test_variance_between_runs(void **state) {
    (void)state;
    const double first[] = {9.5, 9.5, 9.5, 10.5, 10.5, 10.5}, second[] = {11.5, 11.5, 11.5, 12.5, 12.5, 12.5};
    const size_t lengths[] = {3, 3};
    const struct aorta_samples sides[2] = {{first, 6, lengths, 2, NULL}, {second, 6, lengths, 2, NULL}};
    const struct aorta_between_runs between = {.share = 0.01, .freedom = 4};
    const struct aorta_comparison c = aorta_compare(&sides[0], &sides[1], AORTA_MEAN, &between);
    assert_true(c.value[0] == 10 && c.value[1] == 12 && c.repeats == 2);
    assert_true(fabs(c.among[0].value + c.among[1].value - 0.180402) < 1e-5);
    assert_true(fabs(c.high - 2 - 2.446912 * 0.424738) < 1e-4); /* six degrees of freedom */
}

/* Two steps:  |--100--|--110--|   against   |--120--|--130--|   are too few, three of each may do. */
static void test_too_few_steps(void **state) {
    (void)state;
    const double first[] = {100, 110, 105}, second[] = {120, 130, 125};
    const struct aorta_between_runs gpu = aorta_between_runs_on(true);
    struct aorta_samples a = {first, 2, NULL, 1, NULL}, b = {second, 3, NULL, 1, NULL};
    struct aorta_comparison c = aorta_compare(&a, &b, AORTA_MEAN, &gpu);
    struct aorta_text text = {0};
    assert_true(isnan(c.p_value) && c.wanted_iterations >= 20);
    aorta_compare_chance(&c, "step", &text);
    assert_non_null(strstr(text.data, "2 steps are too few; about "));
    aorta_text_free(&text);
    a.count = 3;
    c = aorta_compare(&a, &b, AORTA_MEAN, &gpu);
    assert_true(c.p_value < aorta_significance);
    b.count = 0;
    c = aorta_compare(&a, &b, AORTA_MEAN, &gpu);
    assert_true(isnan(c.p_value) && isnan(c.delta));
}

/* A difference of 3% in steps that vary by 20%: more steps would be enough if the machine's runs are equal; else more
 * runs. */
static void test_what_would_decide(void **state) {
    (void)state;
    double first[STEPS], second[STEPS];
    const struct machine machine = {.spread = 0.2};
    make_side(&machine, 4, 100, 1, first);
    for (size_t i = 0; i < STEPS; i++) second[i] = first[i] + 3;
    const struct aorta_samples sides[2] = {{first, STEPS, NULL, 1, NULL}, {second, STEPS, NULL, 1, NULL}};
    const struct aorta_between_runs alike = {.share = 0.001, .freedom = 6}, other = {.share = 0.04, .freedom = 6};
    struct aorta_comparison c = aorta_compare(&sides[0], &sides[1], AORTA_MEAN, &alike);
    assert_true(c.p_value > aorta_significance && c.wanted_iterations > 4 * STEPS && !c.wanted_runs);
    c = aorta_compare(&sides[0], &sides[1], AORTA_MEAN, &other);
    assert_true(c.p_value > aorta_significance && !c.wanted_iterations && c.wanted_runs > 4);
}

/* Two equal runs of a machine whose other programs took more of it in the second:
 *
 *      run 1  ____________  100 ± 0.3    pressure 0
 *      run 2  ~~~~~~~~~~~~  150 ± 0.3    pressure 0.4: it may take e^0.4 = 1.5 times as long
 *
 * are not called different, whatever their order; without the load they are, and so is a run of three times the time.
 * No interval reaches below no time at all. */
static void test_load(void **state) {
    (void)state;
    static const struct machine machine = {.spread = 0.02};
    static const double quiet[] = {0}, busy[] = {0.4}, unknown[] = {NAN};
    const struct aorta_between_runs cpu = aorta_between_runs_on(false);
    double first[STEPS], second[STEPS], third[STEPS];
    make_side(&machine, 1, 100, 1, first);
    make_side(&machine, 2, 150, 1, second);
    make_side(&machine, 3, 450, 1, third);
    struct aorta_samples a = {first, STEPS, NULL, 1, quiet}, b = {second, STEPS, NULL, 1, busy},
                         c = {third, STEPS, NULL, 1, busy};
    struct aorta_comparison found = aorta_compare(&a, &b, AORTA_MEAN, &cpu);
    assert_true(found.p_value > aorta_significance && found.loads.value > 0 && found.pressure == 0.2);
    struct aorta_text text = {0};
    aorta_compare_between(&found, "runs", &text);
    assert_non_null(strstr(text.data, "on a machine as busy as this one was"));
    aorta_text_free(&text);
    assert_true(aorta_compare(&b, &a, AORTA_MEAN, &cpu).p_value > aorta_significance);
    found = aorta_compare(&b, &a, AORTA_MEAN, &cpu);
    assert_true(found.low >= -found.value[0]);
    assert_true(aorta_compare(&a, &c, AORTA_MEAN, &cpu).p_value < aorta_significance);
    a.pressures = NULL, b.pressures = unknown;
    assert_true(aorta_compare(&a, &b, AORTA_MEAN, &cpu).p_value < aorta_significance);
    assert_true(aorta_pressure_of(0) == 0 && aorta_pressure_of(0.5) == log(2) && isfinite(aorta_pressure_of(1)));
}

/* ---- percentiles ---- */

/* The value is the percentile of all samples; the interval holds the true difference about as often as it says, also
 * of correlated series. True differences of normal samples of variance 1: 0.5 everywhere. */
static void test_percentiles(void **state) {
    (void)state;
    static const struct {
        enum aorta_statistic statistic;
        double correlation;
        int least; /* of 600 intervals, where 570 are expected */
    } rows[] = {{AORTA_P50, 0, 545}, {AORTA_P50, 0.5, 540}, {AORTA_P95, 0, 530}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int covered = 0;
        for (uint64_t seed = 0; seed < SERIES; seed++) {
            double first[COUNT], second[COUNT];
            make_series(5000 + 2 * seed, rows[r].correlation, 10, first);
            make_series(5001 + 2 * seed, rows[r].correlation, 10.5, second);
            const struct aorta_samples sides[2] = {{first, COUNT, NULL, 1, NULL}, {second, COUNT, NULL, 1, NULL}};
            const struct aorta_comparison c = aorta_compare(&sides[0], &sides[1], rows[r].statistic, NULL);
            const struct aorta_summary whole = aorta_summarise(first, COUNT);
            check_close(c.value[0], rows[r].statistic == AORTA_P50 ? whole.p50 : whole.p95);
            covered += c.low <= 0.5 && 0.5 <= c.high;
        }
        if (covered < rows[r].least || covered == SERIES)
            fail_msg("row %zu: %d of %d intervals hold the difference", r, covered, SERIES);
    }
}

/* ---- words ---- */

static void test_sentence(void **state) {
    (void)state;
    struct aorta_text text = {0};
    struct aorta_compared row = {.figure = "step_ms",
                                 .unit = "ms",
                                 .p = 0.01,
                                 .counts = true,
                                 .of = {.value = {100, 138}, .delta = 38, .low = 2.5, .high = 61}};
    aorta_compared_text(&row, &text);
    assert_string_equal(text.data, "step_ms 100 -> 138 ms (+38%), worse");
    aorta_text_clear(&text);
    aorta_compared_headline(&row, "a", "b", true, &text);
    assert_string_equal(text.data, "b is slower than a: step_ms 100 -> 138 ms (+38%, 95%: +2.5 to +61%)");
    aorta_text_clear(&text);
    row.unit = "samples/s";
    row.good = AORTA_GOOD_HIGH;
    aorta_compared_headline(&row, "a", "b", false, &text);
    assert_string_equal(text.data, "b is faster than a: step_ms 100 -> 138 samples/s (+38%)");
    aorta_text_clear(&text);
    row.counts = false;
    aorta_compared_headline(&row, "a", "b", false, &text);
    assert_string_equal(text.data, "b is within the noise of a: step_ms 100 -> 138 samples/s (+38%)");
    aorta_text_clear(&text);
    aorta_compared_text(NULL, &text);
    assert_string_equal(text.data, "no figure differs beyond the noise");
    aorta_text_free(&text);
}

/* ---- rows ---- */

/* Holm: of three p values the smallest counts three times, the next twice, and none less than the one before it. A row
 * of family 0 is asked for alone. */
static void test_correction(void **state) {
    (void)state;
    struct aorta_compared rows[] = {{.family = 1, .far = 3, .of = {.p_value = 0.04}},
                                    {.family = 1, .far = 1, .of = {.p_value = 0.01}},
                                    {.family = 1, .far = 9, .of = {.p_value = NAN}},
                                    {.family = 1, .far = 2, .of = {.p_value = 0.021}},
                                    {.family = 0, .far = 1, .of = {.p_value = 0.049}}};
    static const double expected[] = {0.042, 0.03, NAN, 0.042, 0.049};
    const size_t count = sizeof rows / sizeof *rows;
    aorta_compared_correct(rows, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(isnan(rows[i].p), isnan(expected[i]));
        if (!isnan(expected[i])) assert_true(fabs(rows[i].p - expected[i]) < 1e-12);
        assert_int_equal(rows[i].counts, !isnan(expected[i]));
    }
    assert_ptr_equal(aorta_compared_largest(rows, count), &rows[4]);
    assert_ptr_equal(aorta_compared_largest(rows, count - 1), &rows[0]);
    rows[0].too_small = true;
    aorta_compared_correct(rows, count - 1);
    assert_ptr_equal(aorta_compared_largest(rows, count - 1), &rows[3]);
    for (size_t i = 0; i < count; i++) rows[i].of.p_value *= 4;
    aorta_compared_correct(rows, count);
    assert_ptr_equal(aorta_compared_largest(rows, count), NULL);
}

static int fill_table(void **state) {
    (void)state;
    aorta_normal_table_fill(&table);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_independent_samples),
        cmocka_unit_test(test_welch),
        cmocka_unit_test(test_correlated_series),
        cmocka_unit_test(test_equal_runs_are_alike),
        cmocka_unit_test(test_repeats_correct_what_is_assumed),
        cmocka_unit_test(test_variance_between_runs),
        cmocka_unit_test(test_too_few_steps),
        cmocka_unit_test(test_what_would_decide),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_percentiles),
        cmocka_unit_test(test_sentence),
        cmocka_unit_test(test_correction),
    };
    return cmocka_run_group_tests(tests, fill_table, NULL);
}
