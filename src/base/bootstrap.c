#include "base/bootstrap.h"
#include "base/random.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIGURES = 3,  /* p50, mean, p95 */
    STARTS = 256, /* of blocks, made at once */
};

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
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
    double *values = malloc(2 * count * sizeof *values), *sorted = values + count;
    if (!values) return count / 3; /* the careful choice */
    memcpy(sorted, samples, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, ascending);
    double low = aorta_percentile_sorted(sorted, count, 5), high = aorta_percentile_sorted(sorted, count, 95), sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i] = fmin(fmax(samples[i], low), high);
    for (size_t i = 0; i < count; i++) values[i] -= sum / (double)count;
    size_t length = block_length_of(values, count);
    free(values);
    return length;
}

/* ---- drawing again ---- */

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
    return ascending(&((const struct ranked *)left)->value, &((const struct ranked *)right)->value);
}

static void series_free(struct series *series) {
    free(series->sorted);
    free(series->rank);
    free(series->drawn);
}

static aorta_status series_make(struct series *series, const double *samples, size_t count) {
    struct ranked *order = malloc(count * sizeof *order);
    series->count = count;
    series->block = aorta_block_length(samples, count);
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

static void take_interval(const struct aorta_bootstrap *bootstrap, double *drawn, struct aorta_ratio *ratio) {
    size_t count = (size_t)bootstrap->resamples;
    double outside = 50 * (1 - bootstrap->confidence); /* percent, on either side */
    qsort(drawn, count, sizeof *drawn, ascending);
    ratio->low = aorta_percentile_sorted(drawn, count, outside);
    ratio->high = aorta_percentile_sorted(drawn, count, 100 - outside);
}

static aorta_status compare(const struct aorta_bootstrap *bootstrap, struct series series[2],
                            struct aorta_ratios *ratios) {
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
        take_interval(bootstrap, drawn + (size_t)k * (size_t)bootstrap->resamples, figures[k]);
    free(drawn);
    return NULL;
}

aorta_status aorta_bootstrap_ratios(const struct aorta_bootstrap *bootstrap, const double *first, size_t first_count,
                                    const double *second, size_t second_count, struct aorta_ratios *ratios) {
    struct series series[2] = {{.count = 0}, {.count = 0}};
    aorta_status status = series_make(&series[0], first, first_count);
    if (!status) status = series_make(&series[1], second, second_count);
    if (!status) status = compare(bootstrap, series, ratios);
    series_free(&series[0]);
    series_free(&series[1]);
    return status;
}
