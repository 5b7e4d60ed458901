/* Compares the results of two runs (`aorta hwq compare`) and shows what became slower or faster.
 *
 * Results pair by workload and number of streams. The change is that of the median of the raw iteration times, with the
 * confidence interval of base/compare.h. An interval beyond the threshold is a regression or an improvement, one within
 * the threshold means unchanged. If it crosses the threshold, more iterations are needed to be sure. */
#ifndef AORTA_HWQ_COMPARE_H
#define AORTA_HWQ_COMPARE_H

#include "base/compare.h"
#include "base/settings.h"
#include "hwq/findings.h"

struct aorta_hwq_measurement {
    const char *workload;
    int64_t streams;
    const char *file;
    double *times_ms; /* raw, in order */
    size_t count;
    size_t runs;       /* results that times_ms contains, one after the other */
    size_t *lengths;   /* iterations of each */
    double *pressures; /* pressure of the machine for each run (base/compare.h); NaN if unknown */
    bool simulated;
    double clock_mhz;               /* the device's, mean over runs; NaN: not known */
    struct aorta_settings settings; /* of a result and of its file: "device_info.name", "NVIDIA H100" */
};

struct aorta_hwq_measurements {
    const char *path;
    struct aorta_hwq_measurement *items; /* by workload, then streams */
    size_t count;
    struct aorta_found_list notes; /* skipped results and the reasons; its arena has everything here */
};

/* Reads results of `run`, `sweep` and `run-priority`, ours and the original Python toolkit's: a file with one or many
 * results, or a directory of such files. AORTA_USAGE names file, place and fix when a file is missing, truncated, not
 * JSON or without a result. */
AORTA_MUST_USE aorta_status aorta_hwq_measurements_open(const char *path, struct aorta_hwq_measurements *measurements);
void aorta_hwq_measurements_close(struct aorta_hwq_measurements *measurements);
/* Returns the measurement of the same workload and number of streams, or NULL. */
struct aorta_hwq_measurement *aorta_hwq_measurements_find(const struct aorta_hwq_measurements *measurements,
                                                          const struct aorta_hwq_measurement *like);

/* Settings that differ and may change times; aorta_arena_end their arena. */
void aorta_hwq_differences(const struct aorta_hwq_measurement *left, const struct aorta_hwq_measurement *right,
                           struct aorta_differences *differences);

enum aorta_hwq_change {
    AORTA_HWQ_UNCHANGED,
    AORTA_HWQ_REGRESSION,
    AORTA_HWQ_IMPROVEMENT,
    AORTA_HWQ_UNCERTAIN,
    AORTA_HWQ_CHANGE_COUNT
};

/* test / baseline; above 1 is slower. */
struct aorta_ratio {
    double value, low, high;
};

struct aorta_hwq_compared {
    const struct aorta_hwq_measurement *baseline, *test; /* borrowed */
    struct aorta_comparison p50, mean, p95;              /* of the times in ms */
    enum aorta_hwq_change change;                        /* by the median */
    bool equal;                                          /* iteration by iteration; the change is UNCHANGED */
    bool slower_tail; /* the interval of the 95th percentile is beyond the threshold, and the median is no regression */
    size_t wanted;    /* UNCERTAIN: iterations that are probably enough; 0: not known */
    const char *reason; /* of UNCERTAIN, if not the interval; NULL otherwise */
};

struct aorta_hwq_comparison_options {
    double threshold;    /* 0.05 */
    double between_runs; /* relative standard deviation of equal runs' medians; NaN: as base/compare.h assumes */
};

struct aorta_hwq_comparison {
    const struct aorta_hwq_measurements *baseline, *test; /* borrowed */
    struct aorta_hwq_comparison_options options;
    struct aorta_hwq_compared *pairs; /* in the arena of `found` */
    size_t pair_count;
    size_t changes[AORTA_HWQ_CHANGE_COUNT];
    struct aorta_found_list found; /* the largest change, counts, warnings: settings that differ, missing partners */
};

/* AORTA_USAGE when there is nothing to pair. */
AORTA_MUST_USE aorta_status aorta_hwq_comparison_make(const struct aorta_hwq_measurements *baseline,
                                                      const struct aorta_hwq_measurements *test,
                                                      const struct aorta_hwq_comparison_options *options,
                                                      struct aorta_hwq_comparison *comparison);
void aorta_hwq_comparison_free(struct aorta_hwq_comparison *comparison);

void aorta_hwq_comparison_text(const struct aorta_hwq_comparison *comparison, struct aorta_text *text);
void aorta_hwq_comparison_json(const struct aorta_hwq_comparison *comparison, struct aorta_text *text);
void aorta_hwq_comparison_schema(struct aorta_json *json);
/* The pairs as a file of the folder. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_hwq_comparison_csv(const struct aorta_hwq_comparison *comparison, const char *folder);
/* Writes an array with workload, streams, file, runs, raw times and settings of each measurement. */
void aorta_hwq_measurements_json(const struct aorta_hwq_measurements *measurements, struct aorta_text *text);

struct aorta_ratio aorta_hwq_ratio(const struct aorta_comparison *comparison);

/* The change that the interval and the threshold imply. */
enum aorta_hwq_change aorta_hwq_change_of(const struct aorta_ratio *ratio, double threshold);

#endif
