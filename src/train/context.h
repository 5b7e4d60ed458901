/* Shared by the parts of a training run on one rank: device, streams, groups of ranks, model, recorder. */
#ifndef AORTA_TRAIN_CONTEXT_H
#define AORTA_TRAIN_CONTEXT_H

#include "base/collective.h"
#include "base/log.h"
#include "comm/comm.h"
#include "device/owned.h"
#include "measure/recorder.h"
#include "model/model.h"
#include "train/options.h"

/* At most 5 groups: control's and 4 of a strategy. Streams: 4 of input, 1 of reports, the roles' and additional ones.
 */
enum { AORTA_TRAIN_MOST_GROUPS = 8, AORTA_TRAIN_MOST_STREAMS = AORTA_ROLE_COUNT + AORTA_TRAIN_MORE_STREAMS + 8 };

struct aorta_train_context {
    const struct aorta_train_options *options; /* borrowed */
    const struct aorta_log *log;               /* borrowed */
    const struct aorta_signals *signals;       /* borrowed; long work polls it (base/signals.h) */
    struct aorta_ranks ranks;
    struct aorta_device *device;
    enum aorta_dtype dtype; /* of weights and activations in use */
    struct aorta_stream *own_streams[AORTA_ROLE_COUNT];
    struct aorta_stream *streams[AORTA_ROLE_COUNT]; /* by role; roles may share one */
    struct aorta_comm *world;                       /* all ranks: broadcasts, all-reduces of gradients */
    struct aorta_comm *control;                     /* all ranks, its own communicator: norm and stop flag */
    struct aorta_recorder *recorder;
    struct aorta_model *model;
    struct aorta_step_state *state;        /* device memory */
    struct aorta_injected *injected;       /* what training.inject plants; NULL: nothing */
    struct aorta_train_workload *workload; /* trained instead of the transformer; NULL: none. Borrowed */
    struct aorta_event *begun, *joined[AORTA_ROLE_COUNT];
    /* Memory, device objects, groups and streams of a run's parts: they end with the context. */
    struct aorta_arena arena;
    struct aorta_owned owned;
    struct aorta_comm *groups[AORTA_TRAIN_MOST_GROUPS]; /* without the world */
    struct aorta_stream *opened[AORTA_TRAIN_MOST_STREAMS];
    int group_count, opened_count;
};

/* Opens the device, the streams and the group of all ranks, and builds model, recorder and state; with a workload
 * (NULL: none) there is no model. Close the context on failure as well; the other ranks may then already wait
 * for this one. */
AORTA_MUST_USE aorta_status aorta_train_context_open(struct aorta_train_context *context,
                                                     const struct aorta_train_options *options,
                                                     const struct aorta_ranks *ranks, const struct aorta_log *log,
                                                     struct aorta_train_workload *workload);
void aorta_train_context_close(struct aorta_train_context *context); /* waits for all streams first */
/* Waits for all streams. Their failures were reported when they happened. */
void aorta_train_settle(const struct aorta_train_context *context);

/* Make a group of these ranks, or of all ranks, with its own communicator. The context closes the group. */
AORTA_MUST_USE aorta_status aorta_train_split(struct aorta_train_context *context, const int *ranks, int count,
                                              struct aorta_comm **comm);
AORTA_MUST_USE aorta_status aorta_train_duplicate_world(struct aorta_train_context *context, struct aorta_comm **comm);
/* A stream that the context closes. */
AORTA_MUST_USE aorta_status aorta_train_open_stream(struct aorta_train_context *context, const char *name,
                                                    enum aorta_priority priority, struct aorta_stream **stream);
/* Waits for a stream and records the wait as one of the host. */
AORTA_MUST_USE aorta_status aorta_train_synchronize(const struct aorta_train_context *context,
                                                    struct aorta_stream *stream);

/* A line of rank 0 at logging.level DEBUG. */
void aorta_train_explain(const struct aorta_train_context *context, const char *format, ...) AORTA_PRINTF(2, 3);

struct aorta_stream *aorta_train_compute(const struct aorta_train_context *context);
enum aorta_role aorta_train_role(const struct aorta_train_context *context, enum aorta_flow flow);
struct aorta_stream *aorta_train_stream(const struct aorta_train_context *context, enum aorta_flow flow);

/* Work queued on `stream` from now on waits for work queued on `other` so far, through `event`. Does nothing when both
 * are one stream. */
AORTA_MUST_USE aorta_status aorta_train_follow(struct aorta_stream *stream, struct aorta_stream *other,
                                               struct aorta_event *event);

/* Begins the step's state on the compute stream. The streams of all other roles wait for it. */
AORTA_MUST_USE aorta_status aorta_train_begin_step(const struct aorta_train_context *context,
                                                   struct aorta_schedule schedule);
/* The compute stream waits for those of all other roles. */
AORTA_MUST_USE aorta_status aorta_train_join_streams(const struct aorta_train_context *context);

/* A collective with its range. */
struct aorta_train_collective {
    enum aorta_flow flow;
    struct aorta_comm *comm;
    int group;        /* lowest world rank of the group */
    int group_stride; /* distance of neighbours in it; 0 as 1 */
    const char *tag;
    int layer; /* -1: root or none */
    struct aorta_comm_call call;
};
/* A call of one buffer, fp32. */
static inline struct aorta_comm_call aorta_train_call(enum aorta_collective kind, const float *send, float *receive,
                                                      size_t count) {
    return (struct aorta_comm_call){
        .kind = kind, .dtype = AORTA_F32, .piece_count = 1, .pieces = {{send, receive, count}}};
}
AORTA_MUST_USE aorta_status aorta_train_collect(const struct aorta_train_context *context,
                                                const struct aorta_train_collective *collective);
/* Sums values over `comm`, whose lowest world rank is `group`, in place; they are of no layer. */
AORTA_MUST_USE aorta_status aorta_train_sum(const struct aorta_train_context *context, enum aorta_flow flow,
                                            struct aorta_comm *comm, int group, const char *tag, float *values,
                                            int64_t count);

/* Begins a range around anything else that runs on the stream of a role, or of a flow; aorta_train_end ends it. */
AORTA_MUST_USE aorta_status aorta_train_begin_on(const struct aorta_train_context *context, enum aorta_role role,
                                                 enum aorta_range_kind kind, const char *tag, const char *function,
                                                 int64_t bytes);
AORTA_MUST_USE aorta_status aorta_train_begin(const struct aorta_train_context *context, enum aorta_flow flow,
                                              enum aorta_range_kind kind, const char *tag, const char *function,
                                              int64_t bytes);
AORTA_MUST_USE aorta_status aorta_train_end(const struct aorta_train_context *context);

/* ---- causes of lost time that a user plants (inject.c) ---- */

/* The causes planted on one rank. */
struct aorta_injected {
    int64_t step_kernel_ns, layer_kernel_ns; /* slow_rank: a kernel on the compute stream, after the forward pass or in
                                              * each layer's pass; 0: none */
    int64_t pause_ns;                        /* host_pause: the host sleeps before it launches a step */
    int64_t loader_ns;                       /* slow_loader: each batch takes longer */
    struct {
        int64_t longer_ns, every, calls; /* slow_collective: one call in `every`; calls in this step so far */
    } collectives[AORTA_COLLECTIVE_COUNT];
    int64_t memory_bytes, copy_bytes; /* allocation, copy: of each step */
    int64_t sync_step, sync_layer;    /* sync: the host waits for the device; 0: it does not */
    int64_t steps;                    /* begun so far */
    void *host, *device;              /* copy: from pinned memory to device memory, made by aorta_injections_open */
};

/* Reads training.inject for a rank, or for all ranks at once if `rank` is −1. AORTA_CONFIG names the item and the
 * correct form. */
AORTA_MUST_USE aorta_status aorta_injections_read(const struct aorta_train_options *options, int rank,
                                                  struct aorta_injected *injected);
/* AORTA_CONFIG: an item names a rank that the run does not have. */
AORTA_MUST_USE aorta_status aorta_injections_check(const struct aorta_train_options *options, int world_size);

/* Sets context->injected if training.inject is set; needs the device. */
AORTA_MUST_USE aorta_status aorta_injections_open(struct aorta_train_context *context);

/* Called at these places of a step; each returns at once if nothing is planted. before_step and after_step run outside
 * of a captured graph. */
AORTA_MUST_USE aorta_status aorta_inject_before_step(const struct aorta_train_context *context);
AORTA_MUST_USE aorta_status aorta_inject_after_step(const struct aorta_train_context *context);
AORTA_MUST_USE aorta_status aorta_inject_after_layer(const struct aorta_train_context *context);
AORTA_MUST_USE aorta_status aorta_inject_before_forward(const struct aorta_train_context *context);
AORTA_MUST_USE aorta_status aorta_inject_after_forward(const struct aorta_train_context *context);
/* Within the range of a collective, after its call. */
AORTA_MUST_USE aorta_status aorta_inject_into_collective(const struct aorta_train_context *context,
                                                         enum aorta_collective kind, struct aorta_stream *stream);

#endif
