/* Results of two runs side by side (`aorta hwq compare`): who has become slower, and how sure is that?
 *
 * What is compared are the raw times of the iterations of results of the same workload on the same number of streams.
 * The change is that of the median; its interval comes from a block bootstrap (base/bootstrap.h). A change counts only
 * where the whole interval lies beyond the threshold, and it is none where the whole interval lies within, so that
 * noise is not taken for news; where the interval reaches over the threshold more iterations are needed. */
#ifndef AORTA_HWQ_COMPARE_H
#define AORTA_HWQ_COMPARE_H

#include "base/arena.h"
#include "base/bootstrap.h"
#include "base/json.h"

#include <stdbool.h>

/* One setting of a result or of its file: "device_info.name", "NVIDIA H100". */
struct aorta_hwq_setting {
    const char *key, *value; /* value: as text; "null" too */
};

struct aorta_hwq_measurement {
    const char *workload;
    int64_t streams;
    const char *file;
    double *times_ms; /* raw, in order */
    size_t count;
    int runs; /* results of this workload and number of streams in the input, one behind the other in times_ms */
    bool simulated;
    double clock_mhz; /* of the device, the mean over runs; NaN: not read */
    struct aorta_hwq_setting *settings;
    size_t setting_count;
};

struct aorta_hwq_measurements {
    struct aorta_arena arena; /* holds everything */
    const char *path;
    struct aorta_hwq_measurement *items; /* by workload, then streams */
    size_t count;
    const char **notes; /* what was left out and why; lines */
    size_t note_count;
};

/* Reads what `run`, `sweep` and `run-priority` write, ours and the original Python toolkit's: a file with one result or
 * many, or a directory of such files. AORTA_USAGE names file, place and mend: not there, cut off, not JSON, nothing in
 * it that is a result. */
AORTA_MUST_USE aorta_status aorta_hwq_measurements_open(const char *path, struct aorta_hwq_measurements *measurements);
void aorta_hwq_measurements_close(struct aorta_hwq_measurements *measurements);

/* Tells of each setting that says that two results come from runs set up differently, and its values, "null" where it
 * was not set. Ends with the first failure of `visit`. */
AORTA_MUST_USE aorta_status aorta_hwq_differences(
    const struct aorta_hwq_measurement *left, const struct aorta_hwq_measurement *right,
    aorta_status (*visit)(void *user, const char *key, const char *left_value, const char *right_value), void *user);

enum aorta_hwq_change {
    AORTA_HWQ_UNCHANGED,
    AORTA_HWQ_REGRESSION,
    AORTA_HWQ_IMPROVEMENT,
    AORTA_HWQ_UNCERTAIN,
    AORTA_HWQ_CHANGE_COUNT
};
const char *aorta_hwq_change_name(enum aorta_hwq_change change); /* "unchanged", … */

struct aorta_hwq_compared {
    const struct aorta_hwq_measurement *baseline, *test; /* borrowed */
    double p50_ms[2], mean_ms[2], p95_ms[2];
    struct aorta_ratios ratios; /* test / baseline; above 1 is slower */
    struct aorta_ratio widened; /* ratios.p50 with the interval widened by what runs differ in among each other */
    enum aorta_hwq_change change;
    bool slower_tail;   /* the 95th percentile is surely beyond the threshold, and the median is no regression */
    size_t wanted;      /* UNCERTAIN: iterations that would probably settle it; 0: cannot be told */
    const char *reason; /* UNCERTAIN for another reason than the interval; NULL otherwise */
};

struct aorta_hwq_comparison_options {
    double threshold; /* 0.05 */
    /* Runs of the same thing differ in ways that no iteration of one of them shows: where memory and threads come to
     * lie, clocks, temperature. This is the relative standard deviation of their medians that is taken for granted,
     * 0.005. */
    double between_runs;
    struct aorta_bootstrap bootstrap;
};

struct aorta_hwq_comparison {
    struct aorta_arena arena;
    const struct aorta_hwq_measurements *baseline, *test; /* borrowed */
    struct aorta_hwq_comparison_options options;
    struct aorta_hwq_compared *pairs;
    size_t pair_count;
    size_t changes[AORTA_HWQ_CHANGE_COUNT];
    const char **warnings; /* settings that differ, results without a partner */
    size_t warning_count;
};

/* AORTA_USAGE when there is nothing to pair. */
AORTA_MUST_USE aorta_status aorta_hwq_comparison_make(const struct aorta_hwq_measurements *baseline,
                                                      const struct aorta_hwq_measurements *test,
                                                      const struct aorta_hwq_comparison_options *options,
                                                      struct aorta_hwq_comparison *comparison);
void aorta_hwq_comparison_free(struct aorta_hwq_comparison *comparison);

void aorta_hwq_comparison_text(const struct aorta_hwq_comparison *comparison, struct aorta_text *text);
void aorta_hwq_comparison_json(const struct aorta_hwq_comparison *comparison, struct aorta_json *json);

/* `ratio`, its interval wider by runs that differ by `between_runs`, of which there are so many on each side. */
struct aorta_ratio aorta_hwq_widen(struct aorta_ratio ratio, const struct aorta_hwq_comparison_options *options,
                                   int baseline_runs, int test_runs);

/* What the intervals mean. */
enum aorta_hwq_change aorta_hwq_change_of(const struct aorta_ratio *ratio, double threshold);

#endif
