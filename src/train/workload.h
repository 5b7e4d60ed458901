/* A workload that is trained instead of the ranking transformer: the model's part of a run. The loop, the steps in
 * flight, recording, metrics and traces are the trainer's own (train.c, context.c). */
#ifndef AORTA_TRAIN_WORKLOAD_H
#define AORTA_TRAIN_WORKLOAD_H

#include "train/context.h"
#include "train/step.h"

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
    aorta_status (*open)(struct aorta_train_workload *workload, const struct aorta_train_context *context);
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
