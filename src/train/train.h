/* `aorta train`: the run from start values to the last line of metrics. */
#ifndef AORTA_TRAIN_TRAIN_H
#define AORTA_TRAIN_TRAIN_H

#include "base/log.h"
#include "job/ranks.h"
#include "train/context.h"
#include "train/options.h"
#include "train/step.h"

/* Whether the device's times come from records of its kernels (measure/tracer.h) or from timestamps. */
enum aorta_kernel_timing {
    AORTA_KERNEL_TIMING_AUTO, /* records, if the device has a tracer and nobody else records */
    AORTA_KERNEL_TIMING_ON,   /* or the run fails; needs `record` */
    AORTA_KERNEL_TIMING_OFF,
};

struct aorta_directory_lock;
struct aorta_train_workload;
struct aorta_train_run {
    const struct aorta_train_options *options;
    struct aorta_train_workload *workload; /* trained instead of the transformer (below); NULL: none */
    struct aorta_ranks ranks;
    const struct aorta_log *log;
    struct aorta_directory_lock **lock; /* of training.output_dir; rank 0's. It moves with the output */
    enum aorta_kernel_timing kernel_timing;
    bool record;         /* false: no ranges (for measuring what recording costs) */
    bool progress;       /* a bar on stderr, on rank 0 */
    bool device_metrics; /* readings of the device's management library in each line */
    bool
        rocm_metrics; /* the same under the key rocm_smi_output; null with the reason where ROCm SMI is not available */
};

/* How a run ended; valid also when it was interrupted. */
struct aorta_train_outcome {
    int64_t steps; /* finished, with a line of metrics each */
    char *moved;   /* this rank's lines were removed and made again in this directory; the caller frees it; else NULL */
};

/* Runs to the end. Writes rank_RR_metrics.jsonl and, on rank 0, config.json into training.output_dir. Interrupted by
 * SIGINT or SIGTERM it ends after the steps in flight, on every rank after the same one: AORTA_INTERRUPTED, with all
 * files valid. On other failures of a run with several ranks the process is ended (aorta_comm_abort) after the message
 * was printed, since the other ranks would wait for it. */
AORTA_MUST_USE aorta_status aorta_train(const struct aorta_train_run *run, struct aorta_train_outcome *outcome);

/* When all ranks fail with one mistake of the user (exit code 2), or end interrupted, rank 0 reports it, and the
 * launcher then ends the other ranks. These wait here for a while before they report it themselves, so that rank 0 is
 * not ended before its report. Returns at once on rank 0 and on other failures. */
void aorta_train_leave_to_rank_0(const struct aorta_ranks *ranks, aorta_status status);

/* A workload that is trained instead of the ranking transformer: the model's part of a run. The loop, the steps in
 * flight, recording, metrics and traces are the trainer's own (train.c, context.c). */

struct aorta_train_workload {
    const struct aorta_train_workload_table *table; /* first member of each implementation */
};

struct aorta_train_workload_table {
    const char *name; /* "sparse pipeline" */
    /* Called when only the device is open: checks the options. */
    aorta_status (*prepare)(struct aorta_train_workload *workload, struct aorta_device *device,
                            const struct aorta_log *log, int rank);
    /* More than a step ever records. */
    size_t (*ranges_per_step)(struct aorta_train_workload *workload);
    /* The context is open. */
    aorta_status (*open)(struct aorta_train_workload *workload, struct aorta_train_context *context);
    void (*close)(struct aorta_train_workload *workload); /* also when it was never opened, or not to the end */
    int64_t (*steps)(const struct aorta_train_workload *workload);
    int64_t (*steps_per_epoch)(const struct aorta_train_workload *workload);
    int64_t (*samples)(const struct aorta_train_workload *workload, int64_t step); /* of this rank */
    /* Queues a step, after which compute waits for every stream. `stop` and `result` as step.h has them. */
    aorta_status (*queue)(struct aorta_train_workload *workload, int64_t step, const float *stop,
                          struct aorta_step_result *result);
    /* A step is over. */
    aorta_status (*finished)(struct aorta_train_workload *workload, int64_t step,
                             const struct aorta_step_result *result);
    /* As aorta_train_options_without_effect. */
    void (*without_effect)(const struct aorta_train_workload *workload, bool gpu, struct aorta_text *lines);
};

#endif
