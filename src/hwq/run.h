/* One run of a workload, from its streams to its result. */
#ifndef AORTA_HWQ_RUN_H
#define AORTA_HWQ_RUN_H

#include "base/files.h"
#include "hwq/iterations.h"

struct aorta_hwq_run {
    const struct aorta_hwq_workload *workload;
    const void *options; /* the workload's own struct */
    struct aorta_device *device;
    struct aorta_comm *world; /* group of all ranks; NULL if the workload has no collectives */
    struct aorta_ranks ranks;
    const struct aorta_log *log;
    int64_t streams; /* 0: as many as are recommended */
    int64_t iterations, warmup;
    enum aorta_hwq_sync sync;
    bool graph, gate, verify;
    uint64_t seed;
    struct aorta_hwq_stamps_file *stamps_file;  /* gets every stamp; may be NULL */
    void (*progress)(void *user, int64_t done); /* of the timed iterations; may be NULL */
    void *user;
};

/* The number of streams of a run if `asked` are requested; 0: the recommended number. */
int64_t aorta_hwq_run_streams(const struct aorta_hwq_workload *workload, const void *options, int64_t asked);
/* AORTA_USAGE for streams out of the workload's range, and for settings that contradict each other. */
AORTA_MUST_USE aorta_status aorta_hwq_run_check(const struct aorta_hwq_run *run);
/* A verification that fails is no error of this call: result->verified says "failed". Free *result in both cases. */
AORTA_MUST_USE aorta_status aorta_hwq_run_execute(const struct aorta_hwq_run *run, struct aorta_hwq_result *result);
/* Creates the streams, runs the workload's setup, calls `use`, and destroys everything. */
typedef aorta_status (*aorta_hwq_use)(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, struct hwq_graph *g,
                                      void *user);
AORTA_MUST_USE aorta_status aorta_hwq_run_with(const struct aorta_hwq_run *run, aorta_hwq_use use, void *user);
/* Sets the workload up again and writes a few of its iterations as a trace file below `directory`: on GPUs from the
 * kernel tracer, on the CPU device from stamps. AORTA_UNSUPPORTED: the tracer cannot be opened. (record.c) */
AORTA_MUST_USE aorta_status aorta_hwq_run_record(const struct aorta_hwq_run *run, const char *directory,
                                                 struct aorta_file_path *path);
const char *aorta_hwq_sync_name(enum aorta_hwq_sync sync); /* "per_iteration" */

/* The report of a run for a terminal; `answer`: line 1 alone. (run_text.c) */
void aorta_hwq_run_text(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result, bool answer,
                        struct aorta_text *out);

/* The metadata: settings, device, environment, the workload's own options. */
AORTA_MUST_USE aorta_status aorta_hwq_metadata_fill(const struct aorta_hwq_run *run, const struct aorta_hwq *hwq,
                                                    struct aorta_hwq_result *result);

/* ---- how a workload scales with the number of streams ---- */

struct aorta_hwq_scaling {         /* the arena of `found` has everything */
    struct aorta_found_list found; /* the answer, and the limits of the best and the largest count */
    double *efficiencies;          /* per-stream throughput over that of the first count */
    int64_t inflection_point; /* first count whose efficiency is at least 20% below the previous; AORTA_ROW_UNKNOWN */
    int64_t peak_streams;     /* with the highest throughput; AORTA_ROW_UNKNOWN: no throughput is known */
};
/* `results` in the order of their stream counts, at least one. A throughput that is not positive has efficiency NaN
 * and is ignored. Free *scaling in any case. */
AORTA_MUST_USE aorta_status aorta_hwq_scaling_make(const struct aorta_hwq_result *results, size_t count,
                                                   struct aorta_hwq_scaling *scaling);
void aorta_hwq_scaling_free(struct aorta_hwq_scaling *scaling);
void aorta_hwq_sweep_text(const struct aorta_hwq_result *results, size_t count, const struct aorta_hwq_scaling *scaling,
                          struct aorta_text *out);
/* `scaling` NULL: the first result alone. */
void aorta_hwq_results_json(const struct aorta_hwq_result *results, size_t count,
                            const struct aorta_hwq_scaling *scaling, struct aorta_json *json);
void aorta_hwq_sweep_schema(struct aorta_json *json);
/* Writes this JSON into a file. */
AORTA_MUST_USE aorta_status aorta_hwq_results_write(const struct aorta_hwq_result *results, size_t count,
                                                    const struct aorta_hwq_scaling *scaling, const char *path);

#endif
