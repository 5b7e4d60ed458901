/* The configuration of `aorta train`: every key of its file, in one typed struct. The rows of options.c define each
 * key's effect, default and range; docs/configuration.md is made from them. */
#ifndef AORTA_TRAIN_OPTIONS_H
#define AORTA_TRAIN_OPTIONS_H

#include "base/log.h"
#include "config/config.h"
#include "device/device.h"
#include "measure/step_traces.h"
#include "model/model.h"
#include "trace/profile.h"

/* none: fp32 throughout; tf32: fp32, but products may round their operands to TF32 */
enum aorta_precision { AORTA_PRECISION_NONE, AORTA_PRECISION_BF16, AORTA_PRECISION_FP16, AORTA_PRECISION_TF32 };
enum aorta_sharding { AORTA_FULL_SHARD, AORTA_SHARD_GRAD_OP, AORTA_NO_SHARD, AORTA_HYBRID_SHARD };
enum aorta_backward_prefetch { AORTA_BACKWARD_NONE, AORTA_BACKWARD_PRE, AORTA_BACKWARD_POST };
enum aorta_init_device { AORTA_INIT_CPU, AORTA_INIT_DEVICE, AORTA_INIT_META };
enum aorta_train_mode { AORTA_MODE_FSDP, AORTA_MODE_DDP };
enum aorta_compile_backend { AORTA_COMPILE_GRAPH, AORTA_COMPILE_FUSED };
enum aorta_train_device { AORTA_TRAIN_AUTO, AORTA_TRAIN_CPU, AORTA_TRAIN_CUDA, AORTA_TRAIN_HIP };

enum { AORTA_TRAIN_MORE_STREAMS = 16 }; /* training.additional_compute_streams at most */

struct aorta_training_options {
    int64_t epochs, batch_size, gradient_accumulation;
    int64_t max_steps;     /* 0: no limit but the epochs */
    double grad_clip_norm; /* 0: no clipping */
    enum aorta_precision mixed_precision;
    int64_t log_interval, seed;
    const char *output_dir;
    const char *dump_dir;             /* NULL: no dump */
    struct aorta_int_list dump_steps; /* items NULL: all */
    const char *init_from;            /* NULL: random */
    struct aorta_string_list inject;  /* causes of lost time to plant (inject.c) */
    /* Additional work (stress.c). */
    bool inject_allreduce_copies, use_useful_lightweight_ops;
    int64_t allreduce_stress_level, additional_compute_streams;
    int64_t lightweight_ops_per_stream, lightweight_op_size, lightweight_op_waves;
};

enum aorta_optimizer { AORTA_OPTIMIZER_ADAMW, AORTA_OPTIMIZER_SHAMPOO };
struct aorta_optimizer_options {
    enum aorta_optimizer name;
    int64_t precondition_frequency; /* shampoo */
    double lr, weight_decay, betas[2], eps;
};

struct aorta_scheduler_options {
    int64_t warmup_steps, total_steps; /* total ≤ 0: constant */
};

struct aorta_dataset_options {
    int64_t num_samples, sequence_length, dense_dim, sparse_features, vocab_size, num_dense_features, seed;
};

struct aorta_fsdp_options {
    enum aorta_sharding sharding_strategy;
    enum aorta_backward_prefetch backward_prefetch;
    bool use_orig_params, limit_all_gathers, forward_prefetch, sync_module_states, symmetric_memory;
    enum aorta_init_device param_init_device;
    int64_t hybrid_shard_gpus_per_node; /* 0: not set */
};

struct aorta_distributed_options {
    enum aorta_train_mode mode;
    const char *backend; /* for aorta_comm_open */
    double bucket_cap_mb, timeout_s;
    bool gradient_as_bucket_view, static_graph, find_unused_parameters;
    bool enable_overlap, overlap_reduce_scatter, overlap_clone_for_reduce_scatter;
};

struct aorta_compile_options {
    bool enabled;
    enum aorta_compile_backend backend;
    const char *mode; /* changes nothing; NULL: not given */
    bool fullgraph;
    bool dynamic;        /* changes nothing, as: */
    const char *options; /* JSON */
};

/* Whether steps are captured and replayed as a graph. */
static inline bool aorta_compile_captures(const struct aorta_compile_options *compile) {
    return compile->enabled && compile->backend == AORTA_COMPILE_GRAPH;
}

enum aorta_batch_maker { AORTA_BATCHES_AUTO, AORTA_BATCHES_HOST, AORTA_BATCHES_DEVICE };

struct aorta_dataloader_options {
    enum aorta_batch_maker device;
    int64_t num_workers; /* 0: batches are made by the training thread */
    bool pin_memory;
    int64_t prefetch_factor; /* batches ahead per worker */
};

struct aorta_profiling_options {
    bool enabled;
    struct aorta_profiler_schedule schedule;
    bool record_shapes, profile_memory, with_stack, with_flops, tensorboard, chrome_trace;
    const char *trace_filename;
    int64_t record_every; /* ranges of steps 0, record_every, 2 · record_every, … are recorded */
};

/* Work concurrent with compute. */
enum aorta_flow {
    AORTA_FLOW_ALL_GATHER,
    AORTA_FLOW_REDUCE_SCATTER,
    AORTA_FLOW_ALL_REDUCE,
    AORTA_FLOW_PREFETCH,
    AORTA_FLOW_OPTIMIZER,
    AORTA_FLOW_COUNT
};

struct aorta_streams_options {
    int64_t count;                          /* streams that really exist, 1 to 4: see aorta_train_stream_of */
    struct aorta_string_list high_priority; /* items NULL: not given; it is in `priorities` */
    enum aorta_priority priorities[AORTA_ROLE_COUNT];
    enum aorta_role assignment[AORTA_FLOW_COUNT]; /* the role on whose stream it runs */
};

/* Contention scenarios: ways to make compute and communication overlap. */
struct aorta_workload_options {
    int64_t gemm_chunks;  /* launches of each matrix product */
    double occupancy_cap; /* share of the multiprocessors that the compute stream runs on */
    bool async_wait;      /* outputs of layers are copied during compute and waited for by a kernel */
};

struct aorta_device_options {
    enum aorta_train_device kind;
    int64_t index; /* -1: by local rank */
    bool allow_tf32;
};

struct aorta_logging_options {
    enum aorta_log_level level;
};

struct aorta_train_options {
    struct aorta_logging_options logging;
    struct aorta_training_options training;
    struct aorta_optimizer_options optimizer;
    struct aorta_scheduler_options scheduler;
    struct aorta_dataset_options dataset;
    struct aorta_model_shape model; /* what model.* sets of it */
    struct aorta_fsdp_options fsdp;
    struct aorta_distributed_options distributed;
    struct aorta_compile_options compile;
    struct aorta_dataloader_options dataloader;
    struct aorta_profiling_options profiling;
    struct aorta_streams_options streams;
    struct aorta_workload_options workload;
    struct aorta_device_options device;
    struct aorta_config config; /* where each value came from; owns the strings above */
};

extern const struct aorta_option_table aorta_train_option_table;

/* Lists (aorta_text_next) each reason why keys that were set change nothing: "KEY, KEY (reason)". (options_check.c) */
void aorta_train_options_without_effect(const struct aorta_train_options *options, int ranks, bool gpu,
                                        struct aorta_text *lines);
void aorta_train_options_reasons(struct aorta_text *text);

/* The page docs/configuration.md, made from the rows. */
void aorta_train_options_page(struct aorta_text *text);

/* Defaults, then the file (NULL: none), then the overrides; then all checks that need no world size. AORTA_CONFIG.
 * The struct must stay where it is. Ends with aorta_train_options_free; on failure there is nothing to free. */
AORTA_MUST_USE aorta_status aorta_train_options_load(const char *path, const char *const *overrides,
                                                     size_t override_count, struct aorta_train_options *options);

/* Everything that does not depend on the number of ranks: aorta_train_options_load does it. (options_check.c) */
AORTA_MUST_USE aorta_status aorta_train_options_check_alone(const struct aorta_train_options *options);
/* The checks of keys that other workloads have as well: texts, profiling, training.inject. */
AORTA_MUST_USE aorta_status aorta_train_options_check_shared(const struct aorta_train_options *options);

/* The checks that need the number of ranks: samples for one step on every rank, rows for every shard, groups of hybrid
 * sharding. AORTA_CONFIG names the key, its place and a remedy. */
AORTA_MUST_USE aorta_status aorta_train_options_check(const struct aorta_train_options *options, int world_size);

/* The error of a setting that only GPUs support, when the device is a CPU; used at start and when `auto` has found no
 * GPU. */
AORTA_MUST_USE aorta_status aorta_train_options_check_cpu(const struct aorta_train_options *options, int world_size);
/* The error of a size that is too large for the kernels of GPUs (aorta_ops_limits). */
AORTA_MUST_USE aorta_status aorta_train_options_check_gpu(const struct aorta_train_options *options,
                                                          int64_t most_head_dim, int64_t most_model_dim);

/* Number of the stream, from 0 to streams.count - 1, of a role. 4: each role has its own; 3: reduce-scatter shares the
 * all-reduce stream; 2: all communication and aux share one, compute has the other; 1: all roles share one. */
int aorta_train_stream_of(const struct aorta_train_options *options, enum aorta_role role);

/* Whether the device makes the batches, and no threads. */
bool aorta_train_device_batches(const struct aorta_train_options *options, bool gpu);

/* Whether a sharded run gathers layers before they are needed. */
bool aorta_train_gathers_ahead(const struct aorta_train_options *options);

/* Ranks over which each parameter is split: 1 for DDP and no_shard. */
int aorta_train_shard_degree(const struct aorta_train_options *options, int world_size);

void aorta_train_options_free(struct aorta_train_options *options);

#endif
