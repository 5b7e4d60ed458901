#include "base/statistics.h"

#include "base/random.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where a percentile of so many samples lies: `fraction` of the way from one to the next. */
struct place {
    size_t at, next;
    double fraction;
};

static struct place place_of(size_t count, double percent) {
    if (percent <= 0) return (struct place){0};
    const double position = percent / 100 * (double)(count - 1);
    const size_t at = (size_t)position;
    if (percent >= 100 || at + 1 >= count) return (struct place){count - 1, count - 1, 0};
    return (struct place){at, at + 1, position - (double)at};
}

static double between(double low, double high, double fraction) {
    if (low == high) return low; /* also keeps two infinities from making a NaN */
    /* from the nearer side, so that the result never leaves [low, high] */
    return fraction < 0.5 ? low + (high - low) * fraction : high - (high - low) * (1 - fraction);
}

double aorta_percentile_sorted(const double *sorted, size_t count, double percent) {
    if (count == 0 || isnan(percent)) return NAN;
    const struct place place = place_of(count, percent);
    return between(sorted[place.at], sorted[place.next], place.fraction);
}

double aorta_percentile_int64(const int64_t *sorted, size_t count, double percent) {
    if (count == 0 || isnan(percent)) return NAN;
    const struct place place = place_of(count, percent);
    return between((double)sorted[place.at], (double)sorted[place.next], place.fraction);
}

int64_t aorta_median_int64(int64_t *values, size_t count) {
    if (count == 0) return 0;
    aorta_sort_int64(values, count);
    const int64_t low = values[(count - 1) / 2], high = values[count / 2];
    return low + (high - low) / 2;
}

double aorta_lower_median(double *values, size_t count) {
    aorta_sort_double(values, count);
    return values[(count - 1) / 2];
}

const double aorta_significance = 0.05;

/* The samples that are numbers, sorted; the caller frees them. NULL when memory is exhausted or there are none. */
static double *sorted_copy(const double *samples, size_t count, size_t *numbers) {
    *numbers = 0;
    double *copy = count ? malloc(count * sizeof *copy) : NULL;
    if (!copy) return NULL;
    for (size_t i = 0; i < count; i++) {
        if (!isnan(samples[i])) copy[(*numbers)++] = samples[i];
    }
    aorta_sort_double(copy, *numbers);
    return copy;
}

struct aorta_summary aorta_summarise(const double *samples, size_t count) {
    struct aorta_summary summary = {0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    double *sorted = sorted_copy(samples, count, &summary.count);
    size_t n = summary.count;
    if (n > 0) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < n; i++) sum += sorted[i];
        summary.mean = sum / (double)n;
        for (size_t i = 0; i < n; i++) squares += (sorted[i] - summary.mean) * (sorted[i] - summary.mean);
        summary.std = sqrt(squares / (double)n);
        summary.min = sorted[0];
        summary.max = sorted[n - 1];
        summary.p50 = aorta_percentile_sorted(sorted, n, 50);
        summary.p90 = aorta_percentile_sorted(sorted, n, 90);
        summary.p95 = aorta_percentile_sorted(sorted, n, 95);
        summary.p99 = aorta_percentile_sorted(sorted, n, 99);
    }
    free(sorted);
    return summary;
}

/* ---- Student's distribution ---- */

/* The continued fraction of the incomplete beta function, by Lentz's method (DLMF 8.17.22). */
static double beta_fraction(double x, double a, double b) {
    enum { TERMS = 500 };
    const double tiny = 1e-300, enough = 1e-15;
    double c = 1, d = 1 - (a + b) * x / (a + 1), result;
    d = 1 / (fabs(d) < tiny ? tiny : d);
    result = d;
    for (int m = 1; m <= TERMS; m++) {
        double terms[2] = {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                           -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))};
        double change = 1;
        for (int i = 0; i < 2; i++) {
            d = 1 + terms[i] * d;
            c = 1 + terms[i] / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change = c * d;
            result *= change;
        }
        if (fabs(change - 1) < enough) break;
    }
    return result;
}

/* The regularised incomplete beta function I_x(a, b). */
static double beta_regularised(double x, double a, double b) {
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
    return 1 - front * beta_fraction(1 - x, b, a) / b;
}

double aorta_variance_ratio_p(double ratio, double freedom_above, double freedom_below) {
    return beta_regularised(freedom_below / (freedom_below + freedom_above * ratio), freedom_below / 2,
                            freedom_above / 2);
}

/* The two-sided probability of Student's t beyond `t`. */
static double student_p(double t, double freedom) {
    return beta_regularised(freedom / (freedom + t * t), freedom / 2, 0.5);
}

/* The t beyond which, on both sides together, this share of Student's distribution lies. */
static double student_quantile(double outside, double freedom) {
    double low = 0, high = 2;
    while (student_p(high, freedom) > outside && high < 1e9) high *= 2;
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        *(student_p(middle, freedom) > outside ? &low : &high) = middle;
    }
    return low;
}

/* ---- length of a block ---- */

static double covariance(const double *centred, size_t count, size_t lag) {
    double sum = 0;
    for (size_t i = 0; i + lag < count; i++) sum += centred[i] * centred[i + lag];
    return sum / (double)count;
}

/* The first lag from which on `quiet` correlations in a row are as small as those of independent values. */
static size_t last_correlated(const double *centred, size_t count, double variance, size_t most) {
    size_t quiet = (size_t)ceil(fmax(5, sqrt(log10((double)count)))), run = 0;
    double bound = 2 * sqrt(log10((double)count) / (double)count);
    for (size_t lag = 1; lag <= most + quiet && lag < count; lag++) {
        run = fabs(covariance(centred, count, lag) / variance) < bound ? run + 1 : 0;
        if (run == quiet) return lag - quiet;
    }
    return most;
}

/* A flat top and slopes beside it. */
static double window(double t) {
    return t <= 0.5 ? 1 : fmax(0, 2 * (1 - t));
}

static size_t block_length_of(const double *centred, size_t count) {
    double n = (double)count, variance = covariance(centred, count, 0);
    size_t most = (size_t)fmin(ceil(3 * sqrt(n)), n / 3), limit = (size_t)ceil(sqrt(n)) + 5;
    if (!(variance > 0) || most < 2) return 1;
    size_t correlated = last_correlated(centred, count, variance, limit);
    size_t width = correlated ? 2 * correlated : 1;
    if (width > 2 * limit) width = 2 * limit;
    double slope = 0, spectrum = variance;
    for (size_t lag = 1; lag <= width && lag < count; lag++) {
        double weighed = window((double)lag / (double)width) * covariance(centred, count, lag);
        slope += 2 * (double)lag * weighed;
        spectrum += 2 * weighed;
    }
    if (!(spectrum > 0)) return most; /* so strongly correlated that nothing can be said */
    double best = cbrt(2 * slope * slope / (4.0 / 3.0 * spectrum * spectrum) * n);
    return (size_t)fmin(fmax(1, round(best)), (double)most);
}

size_t aorta_block_length(const double *samples, size_t count) {
    if (count < 9) return 1;
    double *values = malloc(2 * count * sizeof *values);
    if (!values) return count / 3; /* the careful choice */
    double *sorted = values + count;
    memcpy(sorted, samples, count * sizeof *sorted);
    aorta_sort_double(sorted, count);
    double low = aorta_percentile_sorted(sorted, count, 5), high = aorta_percentile_sorted(sorted, count, 95), sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i] = fmin(fmax(samples[i], low), high);
    for (size_t i = 0; i < count; i++) values[i] -= sum / (double)count;
    size_t length = block_length_of(values, count);
    free(values);
    return length;
}

/* Blocks of the best length for a variance make intervals too narrow: tests need longer ones (Sun, Phillips & Jin 2008,
 * "Optimal bandwidth selection in heteroskedasticity-autocorrelation robust testing"). With twice the length a
 * correlation of 0.8 is taken for a difference in 6% of tests at 5%, of series of 200; tests/base/test_statistics.c. */
static size_t block_of(const double *samples, size_t count) {
    const size_t length = aorta_block_length(samples, count), most = count / 3;
    return length == 1 || 2 * length <= most ? 2 * length - (length == 1) : most;
}

/* ---- two means ---- */

/* What a series says about its mean. */
struct spread {
    double variance; /* of the mean */
    double freedom;  /* as many degrees as there are blocks, less one */
    size_t block;
};

/* Over all draws of a circular block bootstrap the variance of the mean is known (Politis & Romano 1992): that of the
 * sums of the n blocks, each from one sample to `block` further, round the end. The factor makes it unbiased for blocks
 * that are independent of each other. */
static struct spread spread_of(const double *samples, size_t count, double mean) {
    struct spread spread = {0, NAN, block_of(samples, count)};
    const double blocks = (double)count / (double)spread.block;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < spread.block; i++) sum += samples[i] - mean;
    for (size_t i = 0; i < count; i++) {
        squares += sum * sum;
        sum += samples[(i + spread.block) % count] - samples[i];
    }
    spread.freedom = blocks - 1;
    spread.variance = squares / (double)count / (double)count / (double)spread.block * blocks / (blocks - 1);
    return spread;
}

/* Of the sum of both variances (Welch 1947, Satterthwaite 1946). */
static double joint_freedom(const struct spread *a, const struct spread *b) {
    const double sum = a->variance + b->variance;
    return sum * sum / (a->variance * a->variance / a->freedom + b->variance * b->variance / b->freedom);
}

struct aorta_comparison aorta_compare(const double *reference, size_t reference_count, const double *candidate,
                                      size_t candidate_count) {
    struct aorta_comparison result = {.reference = aorta_summarise(reference, reference_count),
                                      .candidate = aorta_summarise(candidate, candidate_count),
                                      .low = NAN,
                                      .high = NAN,
                                      .p_value = NAN};
    result.delta = result.candidate.mean - result.reference.mean;
    if (reference_count < 2 || candidate_count < 2) return result;
    const struct spread a = spread_of(reference, reference_count, result.reference.mean),
                        b = spread_of(candidate, candidate_count, result.candidate.mean);
    const double error = sqrt(a.variance + b.variance);
    result.low = result.high = result.delta;
    result.p_value = result.delta == 0;
    if (!(error > 0)) return result;
    const double freedom = joint_freedom(&a, &b), reach = student_quantile(aorta_significance, freedom) * error;
    result.low -= reach;
    result.high += reach;
    result.p_value = student_p(result.delta / error, freedom);
    return result;
}

/* ---- ratios, drawn ---- */

enum {
    FIGURES = 3,  /* p50, mean, p95 */
    STARTS = 256, /* of blocks, made at once */
};

/* A series, with each value's place in order, so that what is drawn needs to be counted and not sorted. */
struct series {
    size_t count, block;
    double *sorted;
    uint32_t *rank, *drawn; /* drawn: how often each place was */
    double figures[FIGURES];
    struct aorta_random random;
    int64_t starts[STARTS];
    uint64_t used; /* starts */
};

struct ranked {
    double value;
    uint32_t index;
};

static int by_value(const void *left, const void *right) {
    return aorta_order_double(((const struct ranked *)left)->value, ((const struct ranked *)right)->value);
}

static void series_free(struct series *series) {
    free(series->sorted);
    free(series->rank);
    free(series->drawn);
}

static aorta_status series_make(struct series *series, const double *samples, size_t count) {
    struct ranked *order = malloc(count * sizeof *order);
    series->count = count;
    series->block = block_of(samples, count);
    series->sorted = malloc(count * sizeof *series->sorted);
    series->rank = malloc(count * sizeof *series->rank);
    series->drawn = calloc(count, sizeof *series->drawn);
    if (!order || !series->sorted || !series->rank || !series->drawn) {
        free(order);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to draw %zu samples again", count);
    }
    for (size_t i = 0; i < count; i++) order[i] = (struct ranked){samples[i], (uint32_t)i};
    qsort(order, count, sizeof *order, by_value);
    for (size_t i = 0; i < count; i++) {
        series->sorted[i] = order[i].value;
        series->rank[order[i].index] = (uint32_t)i;
        series->drawn[i] = 1;
    }
    free(order);
    return NULL;
}

/* The value at place `at` of what was drawn, in order; *place and *before walk on from call to call. */
static double value_at(const struct series *series, size_t at, size_t *place, size_t *before) {
    while (*before + series->drawn[*place] <= at) *before += series->drawn[(*place)++];
    return series->sorted[*place];
}

static double percentile(const struct series *series, double share, size_t *place, size_t *before) {
    double position = share * (double)(series->count - 1);
    size_t at = (size_t)position;
    double low = value_at(series, at, place, before);
    if (at + 1 >= series->count) return low;
    return low + (position - (double)at) * (value_at(series, at + 1, place, before) - low);
}

/* The place may have passed what the next percentile begins with only if that lies further on, as 95 does from 50. */
static void compute(struct series *series) {
    size_t place = 0, before = 0;
    double sum = 0;
    for (size_t i = 0; i < series->count; i++) sum += series->drawn[i] * series->sorted[i];
    series->figures[0] = percentile(series, 0.5, &place, &before);
    series->figures[1] = sum / (double)series->count;
    place = before = 0;
    series->figures[2] = percentile(series, 0.95, &place, &before);
}

static size_t next_start(struct series *series) {
    size_t at = series->used % STARTS;
    if (at == 0) aorta_random_below(&series->random, series->used, STARTS, (uint32_t)series->count, series->starts);
    series->used++;
    return (size_t)series->starts[at];
}

static void draw(struct series *series) {
    memset(series->drawn, 0, series->count * sizeof *series->drawn);
    for (size_t left = series->count; left > 0;) {
        size_t at = next_start(series), length = series->block < left ? series->block : left;
        for (size_t i = 0; i < length; i++) {
            series->drawn[series->rank[at]]++;
            at = at + 1 < series->count ? at + 1 : 0;
        }
        left -= length;
    }
    compute(series);
}

static void resample(const struct aorta_bootstrap *bootstrap, struct series series[2], double *ratios) {
    size_t resamples = (size_t)bootstrap->resamples;
    for (size_t i = 0; i < resamples; i++) {
        draw(&series[0]);
        draw(&series[1]);
        for (int k = 0; k < FIGURES; k++)
            ratios[(size_t)k * resamples + i] = series[1].figures[k] / series[0].figures[k];
    }
}

/* Percent of the draws on either side that the interval leaves out. As draws of few blocks vary too little, these are
 * fewer than the confidence says: percentiles as far out as Student's t is (Hesterberg 2015, "What teachers should know
 * about the bootstrap", expanded percentile interval). */
static double left_out(const struct aorta_bootstrap *bootstrap, double freedom) {
    if (!(freedom > 0)) return 50 * (1 - bootstrap->confidence); /* one sample, or none differ */
    const double t = student_quantile(1 - bootstrap->confidence, freedom);
    return 50 * erfc(t * sqrt((freedom + 1) / freedom) / M_SQRT2);
}

static void take_interval(const struct aorta_bootstrap *bootstrap, double outside, double *drawn,
                          struct aorta_ratio *ratio) {
    size_t count = (size_t)bootstrap->resamples;
    aorta_sort_double(drawn, count);
    ratio->low = aorta_percentile_sorted(drawn, count, outside);
    ratio->high = aorta_percentile_sorted(drawn, count, 100 - outside);
}

static aorta_status compare_drawn(const struct aorta_bootstrap *bootstrap, struct series series[2], double freedom,
                                  struct aorta_ratios *ratios) {
    const double outside = left_out(bootstrap, freedom);
    struct aorta_ratio *figures[FIGURES] = {&ratios->p50, &ratios->mean, &ratios->p95};
    double *drawn = malloc(FIGURES * (size_t)bootstrap->resamples * sizeof *drawn);
    if (!drawn) return AORTA_ERROR(AORTA_MEMORY, "no memory for %d resamples", bootstrap->resamples);
    for (int i = 0; i < 2; i++) {
        compute(&series[i]);
        series[i].random = (struct aorta_random){
            .seed = bootstrap->seed, .stream = 2 * bootstrap->stream + (uint64_t)i, .domain = AORTA_RANDOM_RESAMPLE};
        ratios->blocks[i] = series[i].block;
    }
    for (int k = 0; k < FIGURES; k++) figures[k]->value = series[1].figures[k] / series[0].figures[k];
    resample(bootstrap, series, drawn);
    for (int k = 0; k < FIGURES; k++)
        take_interval(bootstrap, outside, drawn + (size_t)k * (size_t)bootstrap->resamples, figures[k]);
    free(drawn);
    return NULL;
}

/* Of the ratio of means. */
static double relative_freedom(const double *first, size_t first_count, const double *second, size_t second_count) {
    const double means[2] = {aorta_summarise(first, first_count).mean, aorta_summarise(second, second_count).mean};
    struct spread a = spread_of(first, first_count, means[0]), b = spread_of(second, second_count, means[1]);
    a.variance /= means[0] * means[0];
    b.variance /= means[1] * means[1];
    return joint_freedom(&a, &b);
}

aorta_status aorta_bootstrap_ratios(const struct aorta_bootstrap *bootstrap, const double *first, size_t first_count,
                                    const double *second, size_t second_count, struct aorta_ratios *ratios) {
    struct series series[2] = {{.count = 0}, {.count = 0}};
    aorta_status status = series_make(&series[0], first, first_count);
    if (!status) status = series_make(&series[1], second, second_count);
    if (!status)
        status = compare_drawn(bootstrap, series, relative_freedom(first, first_count, second, second_count), ratios);
    series_free(&series[0]);
    series_free(&series[1]);
    return status;
}
