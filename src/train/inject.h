/* Causes of lost time that a user plants into a run (training.inject), to see the verdict on them. None changes a
 * result: work is added to streams, and the host sleeps or waits. */
#ifndef AORTA_TRAIN_INJECT_H
#define AORTA_TRAIN_INJECT_H

#include "base/collective.h"
#include "device/device.h"
#include "train/options.h"

/* The causes planted on one rank. */
struct aorta_injected {
    int64_t step_kernel_ns, layer_kernel_ns; /* slow_rank: a kernel on the compute stream, after the forward pass or in
                                              * each layer's pass; 0: none */
    int64_t pause_ns;                        /* host_pause: the host sleeps before it launches a step */
    int64_t loader_ns;                       /* slow_loader: each batch takes longer */
    struct {
        int64_t longer_ns, every, calls; /* slow_collective: every so many calls; calls in this step so far */
    } collectives[AORTA_COLLECTIVE_COUNT];
    size_t memory_bytes, copy_bytes; /* allocation, copy: of each step */
    bool sync_step, sync_layer;      /* sync: the host waits for the device */
    int64_t steps;                   /* begun so far */
    void *host, *device;             /* copy: from pinned memory to device memory, made by aorta_injections_open */
};

/* Reads training.inject for a rank; rank −1: for all at once. AORTA_CONFIG names the item and a correct form. */
AORTA_MUST_USE aorta_status aorta_injections_read(const struct aorta_train_options *options, int rank,
                                                  struct aorta_injected *injected);
/* AORTA_CONFIG: an item names a rank that the run does not have. */
AORTA_MUST_USE aorta_status aorta_injections_check(const struct aorta_train_options *options, int world_size);

struct aorta_train_context;

/* Sets context->injected where this rank has something planted; needs the device. Close it on failure as well. */
AORTA_MUST_USE aorta_status aorta_injections_open(struct aorta_train_context *context);
void aorta_injections_close(struct aorta_train_context *context);

/* Places of a step; each returns at once where nothing is planted. Step: outside of a captured graph. */
AORTA_MUST_USE aorta_status aorta_inject_before_step(const struct aorta_train_context *context);
AORTA_MUST_USE aorta_status aorta_inject_after_step(const struct aorta_train_context *context);
AORTA_MUST_USE aorta_status aorta_inject_after_layer(const struct aorta_train_context *context);
AORTA_MUST_USE aorta_status aorta_inject_before_forward(const struct aorta_train_context *context);
AORTA_MUST_USE aorta_status aorta_inject_after_forward(const struct aorta_train_context *context);
/* Within the range of a collective, after its call. */
AORTA_MUST_USE aorta_status aorta_inject_into_collective(const struct aorta_train_context *context,
                                                         enum aorta_collective kind, struct aorta_stream *stream);

#endif
