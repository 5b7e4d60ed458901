/* Tests whether two sides differ. All commands use this comparison of samples: `aorta report`, `trace compare`, `hwq
 * compare`, `sweep --compare`.
 *
 * A side is one run or several equal runs. A run is a series of iterations. A difference has three sources of chance:
 *
 * - Within a run. Iterations are autocorrelated (clocks, temperature, other work), so that neighbours contain less
 *   information than independent samples would. So blocks are drawn instead of single samples: the circular block
 *   bootstrap (Politis & Romano 1992), whose variance over all possible draws has a closed form. A block has twice the
 *   length that is best for the series (aorta_block_length), or one sample if the series is not correlated.
 *   Percentiles are means of their influence (Hampel 1974), with the density of Siddiqui (1960) and the bandwidth of
 *   Hall & Sheather (1988).
 * - Between runs. Equal runs differ in ways that no iteration of one of them shows: placement of memory and threads,
 *   clocks, temperature, what else the machine does. Repeated runs measure this. For single runs a prior assumes it,
 *   and counts as much as `freedom` repeats in addition to those that there are (the moderated variance of Smyth 2004).
 * - Load. Other programs make a run longer by an unknown share of the processor time they took (the pressure of a
 *   run). This widens the term between runs. If the mean pressures of the sides differ, a further term is added.
 *
 * The variances are added. Intervals and p values are those of Student's t with the degrees of freedom of Satterthwaite
 * (1946). With one run each, no correlation and no prior the test of means is Welch's. */
#ifndef AORTA_BASE_COMPARE_H
#define AORTA_BASE_COMPARE_H

#include "base/json.h"
#include "base/statistics.h"

/* ---- chance ---- */

/* p values below it are significant: 0.05. */
extern const double aorta_significance;
extern const double aorta_most_percent; /* larger changes are factors, "12x" */

/* An estimate of a variance, and its degrees of freedom. */
struct aorta_variance {
    double value, freedom;
};

/* The chance of a difference whose variance is the sum of these. */
struct aorta_chance {
    double p;     /* two-sided p value; if the variance is 0: 1 for a difference of 0, else 0 */
    double reach; /* half of its 95% interval */
};
struct aorta_chance aorta_chance_of(double difference, const struct aorta_variance *parts, size_t count);

/* The block length that is best for the variance of a mean, 1 (as good as independent) … count / 3 (Politis & White
 * 2004, corrected by Patton, Politis & White 2009). Values are clipped to the 5th to 95th percentile first, so that
 * single outliers do not hide the correlation. */
size_t aorta_block_length(const double *samples, size_t count);

/* ---- equal runs ---- */

/* The assumed difference between equal runs if none was repeated. The standard deviation of a figure is `share` of its
 * value and `spread` of the standard deviation of its iterations, added as squares. The assumption counts as `freedom`
 * repeats. Each unit of pressure changes a figure by up to `load` of its value; a tenth of this differs between equal
 * runs. */
struct aorta_between_runs {
    double share, spread, freedom, load;
};

/* Pressure of a machine: the logarithm of the factor by which a program that can use all processors is slowed. `taken`:
 * the share of the busy processor time that other programs took. */
double aorta_pressure_of(double taken);

/* Standard deviation between equal runs, as a share of the figure: at this pressure, and from a difference in pressure
 * between the sides. */
double aorta_between_share(const struct aorta_between_runs *between, double pressure);
double aorta_between_loads(const struct aorta_between_runs *between, double first, double second);

/* The assumption for runs on a GPU, or on a CPU (docs/metrics.md, Comparison). */
struct aorta_between_runs aorta_between_runs_on(bool gpu);

/* ---- two sides ---- */

enum aorta_statistic { AORTA_MEAN, AORTA_P50, AORTA_P95 };

struct aorta_samples {
    const double *values; /* run after run, each in the order of its iterations; none is NaN */
    size_t count;
    const size_t *lengths; /* iterations of each run; NULL: one run */
    size_t runs;
    const double *pressures; /* of each run; NaN: unknown. NULL: all unknown */
};

struct aorta_comparison {
    struct aorta_summary reference, candidate; /* over the iterations of all runs */
    double value[2];                           /* the statistic of a run, the mean over the side's runs */
    double delta, low, high;                   /* candidate - reference, and its 95% interval */
    double p_value;
    double between; /* how equal runs differ: standard deviation, as a share of the reference's value */
    size_t repeats; /* runs after the first of each side, which give `between`; 0: assumed, or parts of one run */
    bool assumed;
    double pressure; /* of the machine, the mean over all runs; 0: not known */
    /* If the difference is not significant: iterations of each run, or else runs of each side, that would decide. 0:
     * unknown, or too many. */
    size_t wanted_iterations, wanted_runs;
    struct aorta_variance within[2], among[2]; /* of value[] by iterations, by runs */
    struct aorta_variance loads;               /* of delta by sides whose machines were not equally busy */
    size_t fewest, fewest_runs;                /* iterations of the shortest run; runs of the side that has fewer */
};

/* Interval and p value are NaN if a run has fewer iterations than aorta_compare_fewest. `between`: NULL for parts of
 * one run, as they have no variance between runs. */
struct aorta_comparison aorta_compare(const struct aorta_samples *reference, const struct aorta_samples *candidate,
                                      enum aorta_statistic statistic, const struct aorta_between_runs *between);
size_t aorta_compare_fewest(enum aorta_statistic statistic);

/* How many iterations of each run, or runs of each side, would show a difference of `distance`: as the members of
 * aorta_comparison. */
void aorta_compare_wanted(const struct aorta_comparison *comparison, double distance, size_t *iterations, size_t *runs);

/* "significant (p = 0.012)", "within the noise (p = 0.4; about 60 steps would be enough)", "2 steps are too few;
 * about 20 are enough". `unit`: the name of an iteration, "step". */
void aorta_compare_chance(const struct aorta_comparison *comparison, const char *unit, struct aorta_text *out);
/* Writes how much equal runs differ: "Equal runs differ by 1.2% (4 repeats).", or that this is assumed and that
 * "several HOW" measure it. Nothing if there is no such term. */
void aorta_compare_between(const struct aorta_comparison *comparison, const char *how, struct aorta_text *out);
/* Keys and values: between_runs_percent, repeats, wanted_iterations, wanted_runs. */
void aorta_compare_between_json(const struct aorta_comparison *comparison, struct aorta_json *json);

/* ---- rows ---- */

enum aorta_good { AORTA_GOOD_LOW, AORTA_GOOD_HIGH, AORTA_GOOD_NEITHER };

/* One figure of one labeled set of samples against the same figure of the first set. Every comparison makes such rows,
 * and its text, JSON and page show them. */
struct aorta_compared {
    const char *group; /* where it was measured: a configuration; NULL: everywhere */
    const char *figure, *unit;
    const void *source; /* object that the row belongs to; NULL: none */
    enum aorta_good good;
    int family;     /* p values are corrected within a family; 0: rows that the user asked for */
    bool too_small; /* the change does not count, whatever its p */
    double far;     /* how large the change is among the rows */
    double p;       /* of.p_value, corrected; NaN: not known */
    bool counts;    /* more than chance, and not too small */
    struct aorta_comparison of;
};

/* Sets p and counts: within each family the p values are corrected for their number (Holm 1979). */
void aorta_compared_correct(struct aorta_compared *rows, size_t count);
/* The first row of family 0 that counts, else the row with the largest `far` that counts. NULL if none counts. */
const struct aorta_compared *aorta_compared_largest(const struct aorta_compared *rows, size_t count);
/* Absolute logarithm of the ratio, equal for twice and half. 0 if a value is not above 0. */
double aorta_compared_ratio(const struct aorta_comparison *comparison);
double aorta_compared_percent(const struct aorta_comparison *comparison);
/* The verdict by a p value, corrected or not: "better", "worse", "within the noise", "not known"; "longer" or
 * "shorter" for figures that are neither good nor bad. */
const char *aorta_compared_word(const struct aorta_compared *row, double p);
/* "step_ms 22.1 -> 30.3 ms (+37%, 95%: +24 to +52%)" */
void aorta_compared_values(const struct aorta_compared *row, bool interval, struct aorta_text *out);
/* Values after "B is slower than A: ". Also written if the p value is unknown. */
void aorta_compared_headline(const struct aorta_compared *row, const char *reference, const char *candidate,
                             bool interval, struct aorta_text *out);
/* Values and word: "step_ms 10 -> 12 ms (+20%), worse". With a NULL `row`: "no figure differs beyond the noise". */
void aorta_compared_text(const struct aorta_compared *row, struct aorta_text *out);
/* Keys and values: reference, candidate, delta, delta_percent, ci, p_value, significant, higher_is_better, change,
 * those of aorta_compare_between_json, reason. */
void aorta_compared_json(const struct aorta_compared *row, struct aorta_json *json);
/* Those keys in a JSON Schema, as members of "properties". */
void aorta_compared_schema(struct aorta_json *json);

#endif
