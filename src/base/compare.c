#include "base/compare.h"
#include "base/rows.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double aorta_significance = 0.05;
const double aorta_most_percent = 900;

static double squared(double x) {
    return x * x;
}

/* ---- one series ---- */

struct aorta_summary aorta_summarise(const double *samples, size_t count) {
    struct aorta_summary summary = {0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    double *sorted = malloc((count + 1) * sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; sorted && i < count; i++)
        if (!isnan(samples[i])) sorted[n++] = samples[i];
    summary.count = n;
    if (n > 0) {
        aorta_sort_double(sorted, n);
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

/* ---- the incomplete beta function ---- */

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

/* ---- Student's distribution ---- */

/* The two-sided probability of Student's t beyond `t`. */
static double student_p(double t, double freedom) {
    return aorta_variance_ratio_p(t * t, 1, freedom);
}

/* The t of Student's distribution whose two tails together have the probability `outside`. */
static double student_quantile(double outside, double freedom) {
    double low = 0, high = 2;
    while (student_p(high, freedom) > outside && high < 1e9) high *= 2;
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        *(student_p(middle, freedom) > outside ? &low : &high) = middle;
    }
    return low;
}

struct aorta_chance aorta_chance_of(double difference, const struct aorta_variance *parts, size_t count) {
    double variance = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(parts[i].value > 0)) continue;
        variance += parts[i].value;
        squares += parts[i].value * parts[i].value / parts[i].freedom;
    }
    if (!(variance > 0)) return (struct aorta_chance){difference == 0, 0};
    const double freedom = variance * variance / squares, error = sqrt(variance);
    return (struct aorta_chance){student_p(difference / error, freedom),
                                 student_quantile(aorta_significance, freedom) * error};
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

static size_t block_length_of(const double *centred, size_t count) {
    double n = (double)count, variance = covariance(centred, count, 0);
    size_t most = (size_t)fmin(ceil(3 * sqrt(n)), n / 3), limit = (size_t)ceil(sqrt(n)) + 5;
    if (!(variance > 0) || most < 2) return 1;
    size_t correlated = last_correlated(centred, count, variance, limit);
    size_t width = correlated ? 2 * correlated : 1;
    if (width > 2 * limit) width = 2 * limit;
    double slope = 0, spectrum = variance;
    for (size_t lag = 1; lag <= width && lag < count; lag++) {
        const double t = (double)lag / (double)width, window = t <= 0.5 ? 1 : 2 * (1 - t); /* flat at the top */
        double weighed = window * covariance(centred, count, lag);
        slope += 2 * (double)lag * weighed;
        spectrum += 2 * weighed;
    }
    if (!(spectrum > 0)) return most; /* too strongly correlated to estimate a length */
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
 * "Optimal bandwidth selection in heteroskedasticity-autocorrelation robust testing"). With twice the length, tests at
 * 5% of two series of 200 samples with a correlation of 0.8 find a false difference in 6% of cases
 * (tests/base/test_statistics.c). */
static size_t block_of(const double *samples, size_t count) {
    const size_t length = aorta_block_length(samples, count), most = count / 3;
    return length == 1 || 2 * length <= most ? 2 * length - (length == 1) : most;
}

/* ---- one run ---- */

/* The variance of the mean over all draws of a circular block bootstrap (Politis & Romano 1992). It is the variance of
 * the sums of n blocks of `block` samples, one from each sample on, wrapping at the end. The factor makes it unbiased
 * for independent blocks. Degrees of freedom: the number of blocks less one. */
static struct aorta_variance variance_of(const double *samples, size_t count, double mean, size_t block) {
    const double blocks = (double)count / (double)block;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < block; i++) sum += samples[i] - mean;
    for (size_t i = 0; i < count; i++) {
        squares += sum * sum;
        sum += samples[(i + block) % count] - samples[i];
    }
    return (struct aorta_variance){squares / (double)count / (double)count / (double)block * blocks / (blocks - 1),
                                   blocks - 1};
}

static const struct {
    double share;     /* of the samples that are not larger */
    double bandwidth; /* c of Hall & Sheather's c · n^(-1/3), on each side */
    size_t fewest;
} statistics[] = {[AORTA_MEAN] = {NAN, NAN, 3}, [AORTA_P50] = {0.50, 0.972, 8}, [AORTA_P95] = {0.95, 0.212, 8}};

size_t aorta_compare_fewest(enum aorta_statistic statistic) {
    return statistics[statistic].fewest;
}

/* How much each sample moves the percentile, whose value is returned. */
static double influences_of(const double *samples, const double *sorted, size_t count, enum aorta_statistic statistic,
                            double *influences) {
    const double share = statistics[statistic].share, value = aorta_percentile_sorted(sorted, count, 100 * share);
    const double reach = fmin(fmin(share, 1 - share), statistics[statistic].bandwidth * pow((double)count, -1.0 / 3));
    const double sparsity = (aorta_percentile_sorted(sorted, count, 100 * (share + reach)) -
                             aorta_percentile_sorted(sorted, count, 100 * (share - reach))) /
                            (2 * reach);
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += influences[i] = (share - (samples[i] <= value)) * sparsity;
    for (size_t i = 0; i < count; i++) influences[i] += value - sum / (double)count;
    return value;
}

struct run {
    double value, steady; /* steady: the standard deviation of its iterations without outliers */
    struct aorta_variance within;
};

/* False: no memory. `series` is not empty. */
static bool measure_run(const double *series, size_t count, enum aorta_statistic statistic, struct run *run) {
    double *sorted = malloc(2 * count * sizeof *sorted), *influences = sorted + count, sum = 0;
    if (!sorted) return false;
    memcpy(sorted, series, count * sizeof *sorted);
    aorta_sort_double(sorted, count);
    const double *moved = series;
    for (size_t i = 0; i < count; i++) sum += sorted[i];
    run->value = sum / (double)count;
    run->steady = (aorta_percentile_sorted(sorted, count, 75) - aorta_percentile_sorted(sorted, count, 25)) / 1.349;
    if (statistic != AORTA_MEAN) {
        run->value = influences_of(series, sorted, count, statistic, influences);
        moved = influences;
    }
    run->within = (struct aorta_variance){NAN, NAN};
    if (count > 1) run->within = variance_of(moved, count, run->value, block_of(series, count));
    free(sorted);
    return true;
}

/* ---- one side ---- */

struct side {
    double value, steady;
    double pressure, pressures; /* mean over runs, and of the squares */
    size_t runs, fewest;
    struct aorta_variance within; /* of value */
    double single, among;         /* variance of one run's value due to its iterations; variance of the runs' values */
};

static bool measure_side(const struct aorta_samples *samples, enum aorta_statistic statistic, struct side *side) {
    double squares = 0, variances = 0, quarters = 0, steady = 0;
    *side = (struct side){.fewest = SIZE_MAX};
    const double *at = samples->values;
    const size_t runs = samples->lengths ? samples->runs : 1;
    for (size_t i = 0; i < runs; i++) {
        const size_t length = samples->lengths ? samples->lengths[i] : samples->count;
        struct run run;
        if (!length) continue;
        if (!measure_run(at, length, statistic, &run)) return false;
        at += length;
        /* Welford's mean and sum of squares. */
        const double before = run.value - side->value;
        side->value += before / (double)++side->runs;
        squares += before * (run.value - side->value);
        steady += run.steady;
        variances += run.within.value;
        if (run.within.value > 0) quarters += squared(run.within.value) / run.within.freedom;
        if (length < side->fewest) side->fewest = length;
        double pressure = samples->pressures ? samples->pressures[i] : 0;
        if (!(pressure > 0)) pressure = 0; /* it is not known */
        side->pressure += (pressure - side->pressure) / (double)side->runs;
        side->pressures += (pressure * pressure - side->pressures) / (double)side->runs;
    }
    const double count = (double)side->runs;
    if (!side->runs) side->fewest = 0;
    side->steady = steady / count;
    side->single = variances / count;
    side->within = (struct aorta_variance){variances / count / count, variances * variances / quarters};
    if (side->runs > 1) side->among = squares / (count - 1);
    return true;
}

/* ---- two sides ---- */

double aorta_between_share(const struct aorta_between_runs *between, double pressure) {
    static const double unlike = 0.1; /* share of the effect of load that differs between runs */
    return hypot(between->share, unlike * between->load * pressure);
}

double aorta_between_loads(const struct aorta_between_runs *between, double first, double second) {
    return between->load * fabs(second - first);
}

/* Repeated runs scale the assumed variance between runs by one factor, the same for both sides. */
static void add_between(const struct side sides[2], const struct aorta_between_runs *assumed,
                        struct aorta_comparison *result) {
    double scale[2], weighed = assumed->freedom, freedom = assumed->freedom;
    for (int i = 0; i < 2; i++) {
        scale[i] = squared(aorta_between_share(assumed, sqrt(sides[i].pressures)) * sides[i].value) +
                   squared(assumed->spread * sides[i].steady);
        const double repeats = (double)sides[i].runs - 1;
        if (!(repeats > 0) || !(scale[i] > 0)) continue;
        weighed += repeats * fmax(0, sides[i].among - sides[i].single) / scale[i];
        freedom += repeats;
        result->repeats += sides[i].runs - 1;
    }
    for (int i = 0; i < 2; i++)
        result->among[i] = (struct aorta_variance){weighed / freedom * scale[i] / (double)sides[i].runs, freedom};
    const double loads = aorta_between_loads(assumed, sides[0].pressure, sides[1].pressure);
    result->loads = (struct aorta_variance){squared(loads) * fabs(sides[0].value * sides[1].value), freedom};
    result->pressure = (sides[0].pressure + sides[1].pressure) / 2;
    result->assumed = !result->repeats;
    result->between = sqrt(weighed / freedom * scale[0]) / fabs(sides[0].value);
}

void aorta_compare_wanted(const struct aorta_comparison *c, double distance, size_t *iterations, size_t *runs) {
    enum { MOST_TIMES = 50 };
    static const double reach = 2.23; /* Student's t of ten degrees of freedom */
    const double target = squared(distance / reach) - c->loads.value, within = c->within[0].value + c->within[1].value,
                 among = c->among[0].value + c->among[1].value;
    const double longer = within / (target - among), more = (within + among) / target;
    *iterations = *runs = 0;
    if (longer > 0 && longer <= MOST_TIMES)
        *iterations = (size_t)ceil(longer * (double)c->fewest);
    else if (more > 0 && more <= MOST_TIMES)
        *runs = (size_t)fmax(2, ceil(more * (double)c->fewest_runs));
}

/* For a difference that is large enough to matter. */
static void set_wanted(struct aorta_comparison *c) {
    enum { SHORT = 20 };
    static const double matters = 0.01; /* of the reference */
    const double distance = fabs(c->delta), least = matters * fabs(c->value[0]);
    if (c->p_value < aorta_significance) return;
    if (distance > least || isnan(c->p_value))
        aorta_compare_wanted(c, fmax(distance, least), &c->wanted_iterations, &c->wanted_runs);
    if (isnan(c->p_value) && c->wanted_iterations < SHORT) c->wanted_iterations = SHORT;
}

struct aorta_comparison aorta_compare(const struct aorta_samples *reference, const struct aorta_samples *candidate,
                                      enum aorta_statistic statistic, const struct aorta_between_runs *between) {
    struct aorta_comparison result = {.reference = aorta_summarise(reference->values, reference->count),
                                      .candidate = aorta_summarise(candidate->values, candidate->count),
                                      .value = {NAN, NAN},
                                      .delta = NAN,
                                      .low = NAN,
                                      .high = NAN,
                                      .p_value = NAN};
    struct side sides[2];
    if (!reference->count || !candidate->count) return result;
    if (!measure_side(reference, statistic, &sides[0]) || !measure_side(candidate, statistic, &sides[1])) return result;
    for (int i = 0; i < 2; i++) {
        result.value[i] = sides[i].value;
        result.within[i] = sides[i].within;
    }
    result.delta = sides[1].value - sides[0].value;
    result.fewest = sides[0].fewest < sides[1].fewest ? sides[0].fewest : sides[1].fewest;
    result.fewest_runs = sides[0].runs < sides[1].runs ? sides[0].runs : sides[1].runs;
    if (between) add_between(sides, between, &result);
    if (result.fewest >= aorta_compare_fewest(statistic)) {
        const struct aorta_variance parts[] = {result.within[0],
                                               result.within[1],
                                               {result.among[0].value + result.among[1].value, result.among[0].freedom},
                                               result.loads};
        const struct aorta_chance chance = aorta_chance_of(result.delta, parts, sizeof parts / sizeof *parts);
        result.p_value = chance.p;
        result.low = result.delta - chance.reach;
        result.high = result.delta + chance.reach;
        const bool positive = result.reference.min >= 0 && result.candidate.min >= 0;
        if (positive) result.low = fmax(result.low, -result.value[0]); /* no figure falls below 0 */
    }
    set_wanted(&result);
    return result;
}

/* ---- equal runs ---- */

struct aorta_between_runs aorta_between_runs_on(bool gpu) {
    return gpu ? (struct aorta_between_runs){.share = 0.005, .spread = 0.3, .freedom = 6, .load = 0.2}
               : (struct aorta_between_runs){.share = 0.04, .spread = 0.5, .freedom = 6, .load = 1};
}

double aorta_pressure_of(double taken) {
    static const double most = 0.95; /* ticks are coarse */
    return taken > 0 ? -log(1 - fmin(taken, most)) : 0;
}

/* ---- words ---- */

void aorta_compare_chance(const struct aorta_comparison *c, const char *unit, struct aorta_text *out) {
    if (isnan(c->p_value)) {
        if (c->fewest)
            aorta_text_printf(out, "%s %s too few; about %zu are enough",
                              aorta_counted((long long)c->fewest, unit).text, c->fewest == 1 ? "is" : "are",
                              c->wanted_iterations);
        else
            aorta_text_puts(out, "not measured on a side");
        return;
    }
    const bool significant = c->p_value < aorta_significance;
    aorta_text_printf(out, "%s (p = %.2g", significant ? "significant" : "within the noise", c->p_value);
    if (c->wanted_iterations)
        aorta_text_printf(out, "; about %s would be enough", aorta_counted((long long)c->wanted_iterations, unit).text);
    else if (c->wanted_runs)
        aorta_text_printf(out, "; about %zu runs of each would be enough", c->wanted_runs);
    aorta_text_puts(out, ")");
}

void aorta_compare_between(const struct aorta_comparison *c, const char *how, struct aorta_text *out) {
    if (!(c->between > 0)) return;
    static const double busy = 0.1;
    const struct aorta_brief share = aorta_brief(100 * c->between);
    if (c->assumed)
        aorta_text_printf(out,
                          "No run was repeated: equal runs are assumed to differ by %s%%%s; several %s measure it.",
                          share.text, c->pressure > busy ? " on a machine as busy as this one was" : "", how);
    else
        aorta_text_printf(out, "Equal runs differ by %s%% (%s).", share.text,
                          aorta_counted((long long)c->repeats, "repeat").text);
}

static int64_t known_count(size_t count) {
    return count ? (int64_t)count : AORTA_ROW_UNKNOWN;
}

struct between_values {
    double percent;
    int64_t repeats, iterations, runs;
};

#define AT(member) offsetof(struct between_values, member)
static const struct aorta_row between_rows[] = {
    {"between_runs_percent", AORTA_ROW_NUMBER, AT(percent), .help = "how much equal runs differ"},
    {"repeats", AORTA_ROW_INT, AT(repeats), .help = "that show it; 0: assumed"},
    {"wanted_iterations", AORTA_ROW_INT, AT(iterations), .help = "of each run, which would decide"},
    {"wanted_runs", AORTA_ROW_INT, AT(runs), .help = "of each side, which would decide"},
    {0}};
#undef AT

void aorta_compare_between_json(const struct aorta_comparison *c, struct aorta_json *json) {
    const struct between_values values = {c->fewest ? 100 * c->between : NAN, (int64_t)c->repeats,
                                          known_count(c->wanted_iterations), known_count(c->wanted_runs)};
    aorta_rows_json(between_rows, &values, 0, json);
}

/* ---- rows ---- */

void aorta_compared_correct(struct aorta_compared *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t larger = 0; /* of the family, itself among them */
        for (size_t j = 0; j < count; j++)
            larger += rows[j].family == rows[i].family && rows[j].of.p_value >= rows[i].of.p_value;
        rows[i].p = fmin(1, (double)larger * rows[i].of.p_value);
        if (isnan(rows[i].of.p_value)) rows[i].p = NAN;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++)
            if (rows[j].family == rows[i].family && rows[j].of.p_value <= rows[i].of.p_value)
                rows[i].p = fmax(rows[i].p, rows[j].p);
        rows[i].counts = rows[i].p < aorta_significance && !rows[i].too_small;
    }
}

const struct aorta_compared *aorta_compared_largest(const struct aorta_compared *rows, size_t count) {
    const struct aorta_compared *largest = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].counts) continue;
        if (rows[i].family == 0) return &rows[i];
        if (!largest || rows[i].far > largest->far) largest = &rows[i];
    }
    return largest;
}

double aorta_compared_ratio(const struct aorta_comparison *comparison) {
    const double before = comparison->value[0], after = comparison->value[1];
    return before > 0 && after > 0 ? fabs(log(after / before)) : 0;
}

double aorta_compared_percent(const struct aorta_comparison *comparison) {
    return 100 * comparison->delta / fabs(comparison->value[0]);
}

const char *aorta_compared_word(const struct aorta_compared *row, double p) {
    const bool more = row->of.delta > 0;
    if (isnan(p)) return "not known";
    if (p >= aorta_significance) return "within the noise";
    if (row->good == AORTA_GOOD_NEITHER) return more ? "longer" : "shorter";
    return more == (row->good == AORTA_GOOD_HIGH) ? "better" : "worse";
}

static void put_percent(double percent, const char *before, struct aorta_text *out) {
    aorta_text_printf(out, "%s%+.*f", before, fabs(percent) < 10, percent);
}

void aorta_compared_values(const struct aorta_compared *row, bool interval, struct aorta_text *out) {
    const struct aorta_comparison *of = &row->of;
    const double whole = fabs(of->value[0]) / 100;
    aorta_text_printf(out, "%s %s", row->figure, aorta_measured(of->value[0]).text);
    aorta_text_printf(out, " -> %s%s%s", aorta_measured(of->value[1]).text, *row->unit ? " " : "", row->unit);
    if (!(whole > 0)) return;
    if (!interval && of->value[0] > 0 && of->delta / whole >= aorta_most_percent) {
        aorta_text_printf(out, " (%sx)", aorta_brief(of->value[1] / of->value[0]).text);
        return;
    }
    put_percent(of->delta / whole, " (", out);
    if (interval && !isnan(of->low)) {
        put_percent(of->low / whole, "%, 95%: ", out);
        put_percent(of->high / whole, " to ", out);
    }
    aorta_text_puts(out, "%)");
}

void aorta_compared_headline(const struct aorta_compared *row, const char *reference, const char *candidate,
                             bool interval, struct aorta_text *out) {
    const char *unit = row->unit, *per = strchr(unit, '/');
    const bool time = strcmp(unit, "ms") == 0 || (per && strcmp(per, "/s") == 0);
    const bool better = (row->of.delta > 0) == (row->good == AORTA_GOOD_HIGH);
    if (!row->counts && !isnan(row->p))
        aorta_text_printf(out, "%s is within the noise of %s: ", candidate, reference);
    else if (row->of.delta == 0)
        aorta_text_printf(out, "%s equals %s: ", candidate, reference);
    else if (time)
        aorta_text_printf(out, "%s is %s than %s: ", candidate, better ? "faster" : "slower", reference);
    else
        aorta_text_printf(out, "%s is %s than %s: ", candidate, better ? "better" : "worse", reference);
    aorta_compared_values(row, interval, out);
}

void aorta_compared_text(const struct aorta_compared *row, struct aorta_text *out) {
    if (!row) {
        aorta_text_puts(out, "no figure differs beyond the noise");
        return;
    }
    aorta_compared_values(row, false, out);
    aorta_text_printf(out, ", %s", aorta_compared_word(row, row->p));
}

#define AT(member) offsetof(struct aorta_comparison, member)
static const struct aorta_row value_rows[] = {
    {"reference", AORTA_ROW_NUMBER, AT(value[0]), .help = "value of the first side"},
    {"candidate", AORTA_ROW_NUMBER, AT(value[1]), .help = "value of the other side"},
    {"delta", AORTA_ROW_NUMBER, AT(delta), .help = "candidate - reference"},
    {"p_value", AORTA_ROW_NUMBER, AT(p_value), .help = "not corrected"},
    {0}};
#undef AT

void aorta_compared_json(const struct aorta_compared *row, struct aorta_json *json) {
    const struct aorta_comparison *of = &row->of;
    const bool known = !isnan(of->p_value);
    aorta_rows_json(value_rows, of, 0, json);
    aorta_json_key_double(json, "delta_percent", aorta_compared_percent(of));
    aorta_json_key_range(json, "ci", of->low, of->high);
    aorta_json_key(json, "significant");
    if (known)
        aorta_json_bool(json, of->p_value < aorta_significance);
    else
        aorta_json_null(json);
    aorta_json_key_bool(json, "higher_is_better", row->good == AORTA_GOOD_HIGH);
    aorta_json_key_string(json, "change", aorta_compared_word(row, of->p_value));
    aorta_compare_between_json(of, json);
    if (!known)
        aorta_json_key_string(json, "reason",
                              of->fewest ? "fewer than three samples on a side" : "not measured on a side");
}

void aorta_compared_schema(struct aorta_json *json) {
    static const char *const texts[][2] = {
        {"ci",
         "{\"type\": \"array\", \"items\": {\"type\": [\"number\", \"null\"]}, \"minItems\": 2, \"maxItems\": 2}"},
        {"delta_percent", "{\"type\": [\"number\", \"null\"]}"},
        {"significant", "{\"type\": [\"boolean\", \"null\"]}"},
        {"higher_is_better", "{\"type\": \"boolean\"}"},
        {"change", "{\"type\": \"string\"}"},
        {"reason", "{\"type\": \"string\"}"}};
    aorta_rows_schema(value_rows, json);
    aorta_rows_schema(between_rows, json);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        aorta_json_key(json, texts[i][0]);
        aorta_json_text(json, texts[i][1]);
    }
}
