/* The result of one run of a workload, and its JSON (schema: docs/hwq.md). The keys are those of the original Python
 * toolkit, whose files compare reads too.
 *
 * Doubles: NaN means "not measured" and becomes null, with a reason. Times are ms. */
#ifndef AORTA_HWQ_RESULT_H
#define AORTA_HWQ_RESULT_H

#include "base/statistics.h"
#include "base/status.h"
#include "device/inventory.h"
#include "hwq/findings.h"
#include "measure/clocks.h"

struct aorta_hwq_result;

/* Writes a finding's sentence, without a full stop. Returns false and writes nothing if a fact is unknown. */
bool aorta_hwq_finding_text(const struct aorta_hwq_result *result, enum aorta_hwq_finding finding,
                            struct aorta_text *out);
/* A wrong result, else the answer to the workload's question, else the limit. */
enum aorta_hwq_finding aorta_hwq_answer(const struct aorta_hwq_result *result);
void aorta_hwq_headline(const struct aorta_hwq_result *result, struct aorta_text *out);
/* The keys headline, findings (sentences) and facts. */
void aorta_hwq_result_findings_json(const struct aorta_hwq_result *result, struct aorta_json *json);

enum { AORTA_HWQ_SCHEMA_VERSION = 1 };

/* Median gaps of the probe (limit.c), ms; NaN: not measured. */
struct aorta_hwq_probe {
    double intra_ms; /* within one stream */
    struct aorta_hwq_switches {
        double gap_ms, overhead_ms; /* the gap, and the gap minus intra_ms */
        size_t samples;
    } all, same_priority, across_priorities; /* to another stream, by the priorities of the two */
    struct aorta_hwq_switches chosen;        /* between streams of one priority, if there are any */
    struct aorta_hwq_pair {
        int from, to; /* streams */
        double gap_ms;
    } quickest, slowest;
};

/* Gaps between kernels (definitions: docs/hwq.md). */
struct aorta_hwq_switch {
    double inter_gap_ms, intra_gap_ms; /* medians, without the host's gaps */
    double overhead_ms;                /* of the probe's chosen switches: may be negative */
    size_t inter_samples, intra_samples;
    const char *inter_source, *intra_source; /* "workload" or "probe" */
    struct aorta_hwq_probe probe;
    struct aorta_hwq_host_gaps { /* gaps of the workload in which the device waited for the host (limit.h) */
        size_t inter_samples, intra_samples;
        double inter_ms, intra_ms; /* medians; NaN: none */
    } host;
    const char *clock;  /* "kernel": stamps of the kernels themselves and around operations */
    const char *reason; /* why a value above is NaN, else NULL */
};

/* The limit of an iteration (limit.h); NaN: not known. Shares refer to the median iteration. */
struct aorta_hwq_limit {
    enum aorta_hwq_finding by;
    const char *key;                              /* of this finding */
    double busy_ms, host_ms, kernel_ms;           /* medians; kernel_ms: of one */
    double busy_share, host_share, waiting_share; /* together 1 */
    double queueing_share;
    double at_once;        /* streams that run something while any does */
    double without_ms;     /* the median iteration without host work or waiting, if one of these is the limit */
    double host_gap_share; /* of all gaps, those in which a stream waits for the host */
};

struct aorta_hwq_memory { /* of the device, GiB */
    double peak, peak_reserved, allocated, reserved;
    const char *reason; /* why a value is NaN, else NULL */
};

/* A figure beyond the common ones: "tiny_alone_p50" 0.004 "ms". */
struct aorta_hwq_figure {
    const char *name, *unit;
    const char *group; /* its heading on a terminal: "one product"; NULL: none */
    double value;
    const char *reason; /* why value is NaN; NULL otherwise */
};

/* Everything is in the arenas. */
struct aorta_hwq_result {
    struct aorta_arena arena;
    int64_t schema_version;
    const char *workload_name;
    int stream_count;
    double throughput; /* from the mean iteration time */
    const char *throughput_unit;
    struct aorta_summary latency_ms; /* of iteration_times_ms */
    double pace_ms;                  /* the median of the slowest rank; 0: there is one rank */
    double total_time_ms;
    double *iteration_times_ms; /* raw, in order */
    size_t iteration_count;
    double *per_stream_times_ms; /* [stream_count] work of each stream in a stamped iteration, mean; NULL: no stamps */
    double *host_launch_ms;      /* raw: the host's time to queue each iteration; NULL: not measured */
    struct aorta_hwq_switch switch_latency;
    struct aorta_hwq_limit limit;
    struct aorta_clocks clocks; /* while iterations were timed */
    double pressure;            /* of the machine meanwhile (base/compare.h); NaN: not known */
    struct aorta_hwq_memory memory;
    struct aorta_hwq_figure *figures; /* "launches_per_second" and the workload's own */
    size_t figure_count, figure_capacity;
    const char *figure_group; /* of the figures to come; static */
    struct aorta_found_list found;
    double first_quarter_ms, last_quarter_ms; /* medians of these iterations; 0: too few iterations */
    struct aorta_environment metadata;        /* sections "config", "device_info", "environment", "workload_config" */
    bool simulated;                           /* collectives were copies on one rank */
    const char *verified;                     /* "passed", "failed", NULL: no --verify */
    const char *worst_at;                     /* verified: place of the largest error; NULL: nothing was compared */
    double worst_got, worst_expected;
    const char *timestamp; /* ISO 8601, local time */
};

void aorta_hwq_result_free(struct aorta_hwq_result *result);

/* `name`, `unit` and `reason` are copied. A value of NaN needs a reason. If memory is exhausted, here and below, the
 * result's arenas fail, which the end of the run checks. */
void aorta_hwq_result_figure(struct aorta_hwq_result *result, const char *name, const char *unit, double value,
                             const char *reason);
/* Adds a finding of the result, unless a fact that it needs is not known. */
void aorta_hwq_result_add(const struct aorta_hwq_result *result, enum aorta_hwq_finding finding,
                          struct aorta_found_list *found);
void aorta_hwq_result_finding(struct aorta_hwq_result *result, enum aorta_hwq_finding finding);
/* The number of iterations that fill `ms`, by the median of the timed ones: at least 3, at most `most`, and the same on
 * all ranks, as their collectives wait for each other. */
int64_t aorta_hwq_result_iterations(const struct aorta_hwq_result *result, double ms, int64_t most);
const struct aorta_hwq_figure *aorta_hwq_result_find(const struct aorta_hwq_result *result, const char *name);

/* Add one entry of the metadata; NULL: null. The arena keeps a failure. */
void aorta_hwq_metadata_string(struct aorta_hwq_result *result, const char *section, const char *key,
                               const char *value);
void aorta_hwq_metadata_number(struct aorta_hwq_result *result, const char *section, const char *key, double value);

/* One result as an object. */
void aorta_hwq_result_json(const struct aorta_hwq_result *result, struct aorta_json *json);
void aorta_hwq_result_schema(struct aorta_json *json);

extern const struct aorta_result_table *const aorta_hwq_result_tables[]; /* of the page; ends with NULL */
/* Results as CSV: results.csv, a line for each, and figures.csv, a line for each of their figures. */
extern const struct aorta_result_table *const aorta_hwq_result_csv[2];

/* Two tables as CSV, with the lines of one thing after the other. */
struct aorta_hwq_csv {
    const struct aorta_result_table *const *tables;
    struct aorta_text texts[2]; /* zero-initialise */
};
void aorta_hwq_csv_add(struct aorta_hwq_csv *csv, const void *of);
/* Writes them to a folder. Does nothing if `folder` is NULL or there are no lines. Frees the texts in any case.
 * AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_hwq_csv_write(struct aorta_hwq_csv *csv, const char *folder);

#endif
