/* A model with its own flat buffers on the CPU device: the simplest training strategy. */
#ifndef AORTA_TESTS_MODEL_RIG_H
#define AORTA_TESTS_MODEL_RIG_H

#include "model/model.h"

struct model_rig {
    struct aorta_model_shape shape;
    struct aorta_device *device;
    struct aorta_stream *stream;
    struct aorta_model *model;
    int parameters;   /* how many */
    int64_t elements; /* of all together */
    int64_t *offsets; /* by parameter, in the buffers below */
    float *values, *gradients, *m, *v;
    void *weights; /* values in the model's type */
    struct aorta_step_state *state;
    struct aorta_pass pass;
    int *ready;      /* by parameter: how often its gradient was announced */
    int *ready_from; /* by parameter: number of its first announcement */
    int announcements;
    int outputs_needed;       /* for the test that counts them */
    struct aorta_batch batch; /* device memory */
    void *batch_memory[4];
};

/* Start values from the seed, a random batch. Dropout draws from the same seed. */
void model_rig_open(struct model_rig *rig, struct aorta_model_shape shape, uint64_t seed);
/* The model uses memory of the test's own, by unit. */
void model_rig_open_on(struct model_rig *rig, struct aorta_model_shape shape, uint64_t seed,
                       const struct aorta_place *reuse);
void model_rig_close(struct model_rig *rig);

/* Another batch, from host memory: sizes as the shape says. */
void model_rig_batch(struct model_rig *rig, const void *dense, const void *categorical, const void *target,
                     const void *importance);
/* Forward and backward of the batch with the values as they are now; waits. Returns the loss. */
float model_rig_run(struct model_rig *rig);
int model_rig_find(const struct model_rig *rig, const char *name);
int64_t model_rig_size(const struct model_rig *rig, int parameter);

#endif
