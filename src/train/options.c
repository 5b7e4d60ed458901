/* The table of options of `aorta train`. Conditions on several keys: options_check.c. */
#include "comm/comm.h"
#include "train/context.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what values may be ---- */

static const struct aorta_range_limits any_index = {.min = 0, .max = 2147483647};
static const struct aorta_range_limits at_least_0 = {.min = 0, .max = INFINITY};
static const struct aorta_range_limits steps = {.min = 1, .max = 2147483647}; /* sums and products of them fit */
static const struct aorta_range_limits steps_or_none = {.min = 0, .max = 2147483647};
static const struct aorta_range_limits above_0 = {.min = 0, .max = INFINITY, .above_min = true};
static const struct aorta_range_limits seconds = {.min = 0, .max = 1e9, .above_min = true}; /* as ns in 64 bits */
static const struct aorta_range_limits share = {.min = 0, .max = 1, .below_max = true};
static const struct aorta_range_limits rows = {.min = 1, .max = 2147483647};   /* lengths of tables */
static const struct aorta_range_limits extent = {.min = 1, .max = 1000000};    /* widths, batches */
static const struct aorta_range_limits small_count = {.min = 1, .max = 10000}; /* layers, features */
static const struct aorta_range_limits workers = {.min = 0, .max = 256};
static const struct aorta_range_limits ahead = {.min = 1, .max = 1024};
static const struct aorta_range_limits cap = {.min = 0, .max = 1, .above_min = true};
static const struct aorta_range_limits chunks = {.min = 1, .max = 1024};
static const struct aorta_range_limits more_streams = {.min = 0, .max = AORTA_TRAIN_MORE_STREAMS};
static const struct aorta_range_limits levels_of_stress = {.min = 1, .max = 10};
static const struct aorta_range_limits waves = {.min = 1, .max = 1000};
static const struct aorta_range_limits matrix = {.min = 1, .max = 32768};
static const struct aorta_range_limits stream_count = {.min = 1, .max = AORTA_ROLE_COUNT};

static const struct aorta_choice levels[] = {{"DEBUG", AORTA_LOG_DEBUG},
                                             {"INFO", AORTA_LOG_INFO},
                                             {"WARNING", AORTA_LOG_WARNING},
                                             {"ERROR", AORTA_LOG_ERROR},
                                             {0}};
static const struct aorta_choice precisions[] = {{"bf16", AORTA_PRECISION_BF16}, {"bfloat16", AORTA_PRECISION_BF16},
                                                 {"fp16", AORTA_PRECISION_FP16}, {"float16", AORTA_PRECISION_FP16},
                                                 {"none", AORTA_PRECISION_NONE}, {"no", AORTA_PRECISION_NONE},
                                                 {"fp32", AORTA_PRECISION_NONE}, {"float32", AORTA_PRECISION_NONE},
                                                 {"tf32", AORTA_PRECISION_TF32}, {0}};
static const struct aorta_choice optimizers[] = {
    {"adamw", AORTA_OPTIMIZER_ADAMW}, {"shampoo", AORTA_OPTIMIZER_SHAMPOO}, {0}};
static const struct aorta_choice shardings[] = {{"full_shard", AORTA_FULL_SHARD},
                                                {"shard_grad_op", AORTA_SHARD_GRAD_OP},
                                                {"no_shard", AORTA_NO_SHARD},
                                                {"hybrid_shard", AORTA_HYBRID_SHARD},
                                                {0}};
static const struct aorta_choice backward_prefetches[] = {
    {"BACKWARD_PRE", AORTA_BACKWARD_PRE}, {"BACKWARD_POST", AORTA_BACKWARD_POST}, {"NONE", AORTA_BACKWARD_NONE}, {0}};
static const struct aorta_choice init_devices[] = {{"cpu", AORTA_INIT_CPU},     {"device", AORTA_INIT_DEVICE},
                                                   {"cuda", AORTA_INIT_DEVICE}, {"hip", AORTA_INIT_DEVICE},
                                                   {"meta", AORTA_INIT_META},   {0}};
static const struct aorta_choice modes[] = {{"fsdp", AORTA_MODE_FSDP}, {"ddp", AORTA_MODE_DDP}, {0}};
#define BACKEND(name) {#name, AORTA_COMM_NAME_##name},
static const struct aorta_choice backends[] = {AORTA_COMM_BACKENDS(BACKEND){"rccl", AORTA_COMM_NAME_nccl}, {0}};
#undef BACKEND
static const struct aorta_choice compile_backends[] = {{"graph", AORTA_COMPILE_GRAPH},
                                                       {"inductor", AORTA_COMPILE_GRAPH},
                                                       {"fused", AORTA_COMPILE_FUSED},
                                                       {"aot_eager", AORTA_COMPILE_FUSED},
                                                       {0}};
static const struct aorta_choice compile_modes[] = {{"default", 0}, {"reduce-overhead", 1}, {"max-autotune", 2}, {0}};
static const struct aorta_choice priorities[] = {
    {"low", AORTA_PRIORITY_LOW}, {"normal", AORTA_PRIORITY_NORMAL}, {"high", AORTA_PRIORITY_HIGH}, {0}};
static const struct aorta_choice roles[] = {{"compute", AORTA_ROLE_COMPUTE},
                                            {"allreduce", AORTA_ROLE_ALLREDUCE},
                                            {"reducescatter", AORTA_ROLE_REDUCESCATTER},
                                            {"aux", AORTA_ROLE_AUX},
                                            {0}};
static const struct aorta_choice batch_makers[] = {
    {"auto", AORTA_BATCHES_AUTO}, {"host", AORTA_BATCHES_HOST}, {"device", AORTA_BATCHES_DEVICE}, {0}};
static const struct aorta_choice device_kinds[] = {
    {"auto", AORTA_TRAIN_AUTO}, {"cpu", AORTA_TRAIN_CPU}, {"cuda", AORTA_TRAIN_CUDA}, {"hip", AORTA_TRAIN_HIP}, {0}};

/* ---- the rows ---- */

#define AT(member) offsetof(struct aorta_train_options, member)

/* Traces of earlier runs are renamed, so they are not among these. */
static const char *const run_files[] = {"rank_*_metrics.jsonl", "machine_*.jsonl", "config.json", "environment.json",
                                        "summary.json",         "*.png",           NULL};
static const char *const dump_files[] = {"params_*.safetensors", "batch_*.safetensors", "grads_*.safetensors", NULL};
static const struct aorta_option table_rows[] = {
    {"logging.level", AORTA_OPTION_CHOICE, AT(logging.level), "INFO", .choices = levels,
     .help = "messages below this level are not printed"},

    {"training.epochs", AORTA_OPTION_INT, AT(training.epochs), "1", .limits = &steps,
     .help = "passes over the data set"},
    {"training.batch_size", AORTA_OPTION_INT, AT(training.batch_size), "8", .limits = &extent,
     .help = "samples of one micro-batch on one rank"},
    {"training.gradient_accumulation", AORTA_OPTION_INT, AT(training.gradient_accumulation), "1",
     .limits = &small_count, .help = "micro-batches of one optimizer step; their gradients are averaged"},
    {"training.max_steps", AORTA_OPTION_INT, AT(training.max_steps), "null", .limits = &steps,
     .help = "ends the run after this many optimizer steps; null: the epochs end it"},
    {"training.grad_clip_norm", AORTA_OPTION_DOUBLE, AT(training.grad_clip_norm), "1.0", .nullable = true,
     .limits = &at_least_0, .help = "largest global norm of the gradients; 0 or null: no clipping"},
    {"training.mixed_precision", AORTA_OPTION_CHOICE, AT(training.mixed_precision), "bf16", .choices = precisions,
     .help = "type of activations and gathered parameters; fp16 scales the loss dynamically, none computes in fp32, "
             "tf32 as none with device.allow_tf32 (on a CPU: as none)"},
    {"training.log_interval", AORTA_OPTION_INT, AT(training.log_interval), "10", .limits = &steps,
     .help = "steps between two lines on the terminal"},
    {"training.output_dir", AORTA_OPTION_STRING, AT(training.output_dir), "artifacts", .path = AORTA_PATH_FOLDER,
     .files = run_files, .help = "directory of the results; made when it is missing"},
    {"training.seed", AORTA_OPTION_INT, AT(training.seed), "0", .limits = &at_least_0,
     .help = "seed of the initial parameters and of dropout"},
    {"training.dump_dir", AORTA_OPTION_STRING, AT(training.dump_dir), "null", .path = AORTA_PATH_FOLDER,
     .files = dump_files,
     .help = "directory for parameters, batches and gradients as safetensors, for comparison with PyTorch; null: none"},
    {"training.dump_steps", AORTA_OPTION_INT_LIST, AT(training.dump_steps), "null", .limits = &at_least_0,
     .help = "steps that are dumped, from 0; null: all"},
    {"training.init_from", AORTA_OPTION_STRING, AT(training.init_from), "null", .path = AORTA_PATH_READ,
     .help = "safetensors file with the initial parameters, as a dump writes it; null: random ones"},
    {"training.inject", AORTA_OPTION_STRING_LIST, AT(training.inject), "[]",
     .help = "causes of lost time to plant, each NAME:PARAMETER=VALUE,…, to see the verdict on them; "
             "docs/train.md lists them. Losses stay the same"},
    {"training.inject_allreduce_copies", AORTA_OPTION_BOOL, AT(training.inject_allreduce_copies), "false",
     .help =
         "after the update, on the optimizer's stream: all-reduces of 4 MiB with copies on the device, to the host and "
         "back between them; the host waits for each copy to it unless the step is captured. Losses stay the same"},
    {"training.allreduce_stress_level", AORTA_OPTION_INT, AT(training.allreduce_stress_level), "1",
     .limits = &levels_of_stress, .help = "how often a step does that; three all-reduces and four copies each time"},
    {"training.additional_compute_streams", AORTA_OPTION_INT, AT(training.additional_compute_streams), "0",
     .limits = &more_streams,
     .help = "streams that run additional products, with compute's priority. Losses stay the same"},
    {"training.lightweight_ops_per_stream", AORTA_OPTION_INT, AT(training.lightweight_ops_per_stream), "3",
     .limits = &small_count, .help = "products on each of them in a wave"},
    {"training.lightweight_op_size", AORTA_OPTION_INT, AT(training.lightweight_op_size), "1024", .limits = &matrix,
     .help = "rows and columns of the products' matrices, fp32"},
    {"training.lightweight_op_waves", AORTA_OPTION_INT, AT(training.lightweight_op_waves), "3", .limits = &waves,
     .help = "launched before the forward pass; 2: also between forward and backward; 3 or more: also after backward"},
    {"training.use_useful_lightweight_ops", AORTA_OPTION_BOOL, AT(training.use_useful_lightweight_ops), "false",
     .help = "sums of squares of the batch's dense features instead of products"},

    {"optimizer.name", AORTA_OPTION_CHOICE, AT(optimizer.name), "adamw", .choices = optimizers,
     .help =
         "adamw: AdamW (decoupled weight decay); shampoo: Shampoo with preconditioners of 32 x 32 for blocks of each "
         "rank's parameters, grafted to Adam, with the same decay; many small kernels"},
    {"optimizer.precondition_frequency", AORTA_OPTION_INT, AT(optimizer.precondition_frequency), "10", .limits = &steps,
     .help = "shampoo: updates from one computation of the inverse roots to the next; the first computes them"},
    {"optimizer.lr", AORTA_OPTION_DOUBLE, AT(optimizer.lr), "2e-4", .limits = &at_least_0,
     .help = "learning rate at the end of the warm-up"},
    {"optimizer.weight_decay", AORTA_OPTION_DOUBLE, AT(optimizer.weight_decay), "1e-2", .limits = &at_least_0,
     .help = "a step multiplies parameters by 1 - lr * weight_decay"},
    {"optimizer.betas", AORTA_OPTION_DOUBLES_2, AT(optimizer.betas), "[0.9, 0.98]", .limits = &share,
     .help = "decay of the averages of the gradient and of its square"},
    {"optimizer.eps", AORTA_OPTION_DOUBLE, AT(optimizer.eps), "1e-8", .limits = &above_0,
     .help = "added to the root of the second average"},

    {"scheduler.warmup_steps", AORTA_OPTION_INT, AT(scheduler.warmup_steps), "200", .limits = &steps_or_none,
     .help = "the rate of step s (from 0) is lr * (s + 1) / warmup_steps until then"},
    {"scheduler.total_steps", AORTA_OPTION_INT, AT(scheduler.total_steps), "2000",
     .help = "after the warm-up the rate falls linearly to 0 at this step; 0 or less: it stays"},

    {"dataset.num_samples", AORTA_OPTION_INT, AT(dataset.num_samples), "10000", .limits = &rows,
     .help = "samples in the synthetic data set"},
    {"dataset.sequence_length", AORTA_OPTION_INT, AT(dataset.sequence_length), "32", .limits = &extent,
     .help = "positions of a sample"},
    {"dataset.dense_dim", AORTA_OPTION_INT, AT(dataset.dense_dim), "128", .limits = &extent,
     .help = "values of one dense feature; equal to model.dense_dim"},
    {"dataset.sparse_features", AORTA_OPTION_INT, AT(dataset.sparse_features), "16", .limits = &small_count,
     .help = "categorical ids at each position"},
    {"dataset.vocab_size", AORTA_OPTION_INT, AT(dataset.vocab_size), "50000", .limits = &rows,
     .help = "ids are drawn below this; at most model.vocab_size"},
    {"dataset.num_dense_features", AORTA_OPTION_INT, AT(dataset.num_dense_features), "8", .limits = &small_count,
     .help = "dense features at each position; equal to model.num_dense_features"},
    {"dataset.seed", AORTA_OPTION_INT, AT(dataset.seed), "13", .limits = &at_least_0,
     .help = "a sample depends on this and on its index alone"},

    {"model.vocab_size", AORTA_OPTION_INT, AT(model.vocab_size), "50000", .limits = &rows,
     .help = "rows of the embedding"},
    {"model.embedding_dim", AORTA_OPTION_INT, AT(model.embedding_dim), "128", .limits = &extent,
     .help = "columns of the embedding"},
    {"model.num_dense_features", AORTA_OPTION_INT, AT(model.num_dense_features), "8", .limits = &small_count,
     .help = "dense features at each position"},
    {"model.dense_dim", AORTA_OPTION_INT, AT(model.dense_dim), "128", .limits = &extent,
     .help = "values of one dense feature"},
    {"model.model_dim", AORTA_OPTION_INT, AT(model.model_dim), "512", .limits = &extent,
     .help = "width of the transformer; a multiple of model.num_heads, on GPUs at most 8192"},
    {"model.num_heads", AORTA_OPTION_INT, AT(model.num_heads), "8", .limits = &small_count,
     .help = "attention heads of a layer; on GPUs of at most 128 elements each"},
    {"model.num_layers", AORTA_OPTION_INT, AT(model.num_layers), "6", .limits = &small_count,
     .help = "transformer layers"},
    {"model.dropout", AORTA_OPTION_DOUBLE, AT(model.dropout), "0.1", .limits = &share,
     .help = "probability that an activation or an attention weight is dropped"},
    {"model.mlp_hidden_dim", AORTA_OPTION_INT, AT(model.mlp_hidden_dim), "1024", .limits = &extent,
     .help = "hidden width of each layer's MLP and of the scorer"},

    {"fsdp.sharding_strategy", AORTA_OPTION_CHOICE, AT(fsdp.sharding_strategy), "full_shard", .choices = shardings,
     .help =
         "full_shard frees parameters after use; shard_grad_op keeps them until the backward pass is over; no_shard "
         "replicates them; hybrid_shard shards inside a group and replicates across groups"},
    {"fsdp.backward_prefetch", AORTA_OPTION_CHOICE, AT(fsdp.backward_prefetch), "BACKWARD_PRE",
     .choices = backward_prefetches,
     .help = "gathers the parameters needed next before (PRE) or after (POST) the current unit's backward; NONE: when "
             "they are needed"},
    {"fsdp.use_orig_params", AORTA_OPTION_BOOL, AT(fsdp.use_orig_params), "true",
     .help = "true: each parameter is sharded on its own; false: one flat parameter for each unit"},
    {"fsdp.limit_all_gathers", AORTA_OPTION_BOOL, AT(fsdp.limit_all_gathers), "true",
     .help = "bounds the gathered units that exist at once, and with them the memory"},
    {"fsdp.forward_prefetch", AORTA_OPTION_BOOL, AT(fsdp.forward_prefetch), "true",
     .help = "gathers the next unit's parameters while the current one computes, and the root unit's for the next step "
             "while the layers are still being updated"},
    {"fsdp.sync_module_states", AORTA_OPTION_BOOL, AT(fsdp.sync_module_states), "true",
     .help = "broadcasts rank 0's initial parameters to all ranks"},
    {"fsdp.symmetric_memory", AORTA_OPTION_BOOL, AT(fsdp.symmetric_memory), "false",
     .help = "true: NCCL's kernels (2.27 and newer) reach parameters and gradients directly on the other GPUs of "
             "the node, which takes fewer multiprocessors and less time; with use_orig_params=false only"},
    {"fsdp.param_init_device", AORTA_OPTION_CHOICE, AT(fsdp.param_init_device), "cpu", .choices = init_devices,
     .help = "where initial parameters are made: in host memory, on the device, or (meta) only each rank's shards"},
    {"fsdp.hybrid_shard_gpus_per_node", AORTA_OPTION_INT, AT(fsdp.hybrid_shard_gpus_per_node), "null",
     .limits = &extent,
     .help = "ranks of one group of hybrid_shard; divides the number of ranks; null: those of a node"},

    {"distributed.mode", AORTA_OPTION_CHOICE, AT(distributed.mode), "fsdp", .choices = modes,
     .help = "fsdp shards parameters, ddp replicates them and all-reduces gradients in buckets"},
    {"distributed.backend", AORTA_OPTION_STRING, AT(distributed.backend), "auto", .choices = backends,
     .help = "backend of the collectives; gloo means mpi"},
    {"distributed.bucket_cap_mb", AORTA_OPTION_DOUBLE, AT(distributed.bucket_cap_mb), "25", .limits = &above_0,
     .help = "ddp: MiB of gradients that close a bucket; one parameter may be more"},
    {"distributed.gradient_as_bucket_view", AORTA_OPTION_BOOL, AT(distributed.gradient_as_bucket_view), "true",
     .help = "ddp: gradients are written straight into the buckets; false: copied in and out"},
    {"distributed.static_graph", AORTA_OPTION_BOOL, AT(distributed.static_graph), "false",
     .help = "ddp: the parameters in use never change, so that find_unused_parameters asks for them in the first step "
             "only"},
    {"distributed.find_unused_parameters", AORTA_OPTION_BOOL, AT(distributed.find_unused_parameters), "false",
     .help = "ddp: after each backward pass the ranks agree, in one more all-reduce, which parameters were used"},
    {"distributed.enable_overlap", AORTA_OPTION_BOOL, AT(distributed.enable_overlap), "true",
     .help = "ddp: all-reduces a bucket as soon as it is full; fsdp: gathers and reduces during compute; false: "
             "compute waits, and ddp reduces after the backward pass"},
    {"distributed.overlap_reduce_scatter", AORTA_OPTION_BOOL, AT(distributed.overlap_reduce_scatter), "false",
     .help = "ddp: an additional reduce-scatter of each bucket, as stress on the links"},
    {"distributed.overlap_clone_for_reduce_scatter", AORTA_OPTION_BOOL,
     AT(distributed.overlap_clone_for_reduce_scatter), "false",
     .help = "ddp: the additional reduce-scatter works on a clone of the bucket"},
    {"distributed.timeout_s", AORTA_OPTION_DOUBLE, AT(distributed.timeout_s), "180", .limits = &seconds,
     .help = "seconds that a rank waits for other ranks"},

    {"compile.enabled", AORTA_OPTION_BOOL, AT(compile.enabled), "false",
     .help = "captures the step, collectives included, and replays it"},
    {"compile.backend", AORTA_OPTION_CHOICE, AT(compile.backend), "graph", .choices = compile_backends,
     .help = "graph captures the step into a device graph; fused does not: pointwise operations are fused in any case"},
    {"compile.mode", AORTA_OPTION_STRING, AT(compile.mode), "null", .choices = compile_modes,
     .help = "every mode is the same capture; null: default"},
    {"compile.fullgraph", AORTA_OPTION_BOOL, AT(compile.fullgraph), "false", .nullable = true,
     .help = "true: a step that cannot be captured is an error instead of running without a graph"},
    {"compile.dynamic", AORTA_OPTION_BOOL, AT(compile.dynamic), "null",
     .help = "changes nothing: the shapes of a captured step are fixed"},
    {"compile.options", AORTA_OPTION_MAP, AT(compile.options), "{}", .nullable = true,
     .help = "options of PyTorch's backend: they change nothing"},

    {"dataloader.device", AORTA_OPTION_CHOICE, AT(dataloader.device), "auto", .choices = batch_makers,
     .help =
         "where batches are made, with equal bits: host: threads, and batches are copied to the device; device: the "
         "device itself, one step ahead, and the keys of the threads are without effect; auto: a GPU makes its own, "
         "but for slow_loader of training.inject"},
    {"dataloader.num_workers", AORTA_OPTION_INT, AT(dataloader.num_workers), "4", .limits = &workers,
     .help = "threads that make batches ahead; 0: the training thread makes them"},
    {"dataloader.pin_memory", AORTA_OPTION_BOOL, AT(dataloader.pin_memory), "true",
     .help = "batches are made in page-locked memory"},
    {"dataloader.prefetch_factor", AORTA_OPTION_INT, AT(dataloader.prefetch_factor), "2", .limits = &ahead,
     .help = "batches that each worker makes ahead"},

    {"profiling.enabled", AORTA_OPTION_BOOL, AT(profiling.enabled), "false",
     .help = "writes trace files that TensorBoard, Perfetto and aorta trace read (docs/trace-formats.md); on GPUs the "
             "kernel tracer runs in the warm-up and active steps"},
    {"profiling.wait", AORTA_OPTION_INT, AT(profiling.schedule.wait), "1", .limits = &steps_or_none,
     .help = "steps skipped at the start of a cycle, as torch.profiler.schedule does"},
    {"profiling.warmup", AORTA_OPTION_INT, AT(profiling.schedule.warmup), "1", .limits = &steps_or_none,
     .help = "steps then skipped as well, for the caches and the tracer to warm up"},
    {"profiling.active", AORTA_OPTION_INT, AT(profiling.schedule.active), "2", .limits = &steps,
     .help = "steps then written; each cycle is a file"},
    {"profiling.repeat", AORTA_OPTION_INT, AT(profiling.schedule.repeat), "1", .limits = &steps_or_none,
     .help = "cycles; 0: until the run ends"},
    {"profiling.record_shapes", AORTA_OPTION_BOOL, AT(profiling.record_shapes), "true",
     .help = "shapes of matrix products, on GPUs of layers, in the trace"},
    {"profiling.profile_memory", AORTA_OPTION_BOOL, AT(profiling.profile_memory), "true",
     .help = "in the trace: memory at the end of each step, as counters, and each allocation since the start"},
    {"profiling.with_stack", AORTA_OPTION_BOOL, AT(profiling.with_stack), "false",
     .help = "Python stacks: no Python runs here, so there are none; each event names its operation, layer and step"},
    {"profiling.with_flops", AORTA_OPTION_BOOL, AT(profiling.with_flops), "false",
     .help = "arithmetic of the operations in the trace"},
    {"profiling.tensorboard", AORTA_OPTION_BOOL, AT(profiling.tensorboard), "true",
     .help = "writes torch_profiler/rankN/HOST_PID.TIME.pt.trace.json, where TensorBoard's plugin looks for it"},
    {"profiling.chrome_trace", AORTA_OPTION_BOOL, AT(profiling.chrome_trace), "true",
     .help = "writes the same to chrome_trace/rankN, for chrome://tracing and Perfetto"},
    {"profiling.trace_filename", AORTA_OPTION_STRING, AT(profiling.trace_filename), "trace.json",
     .help = "name of that file; where repeat is not 1, _stepN is put before its ending"},
    {"profiling.record_every", AORTA_OPTION_INT, AT(profiling.record_every), "1", .limits = &steps,
     .help = "record ranges in every Nth step, beginning with the first; other steps cost nothing and have no profile. "
             "1: in all"},

    {"streams.count", AORTA_OPTION_INT, AT(streams.count), "4", .limits = &stream_count,
     .help = "4: each role has its own stream; 3: reducescatter shares allreduce's; 2: all roles but compute share "
             "one; 1: all work is on one"},
    {"streams.high_priority", AORTA_OPTION_STRING_LIST, AT(streams.high_priority), "null",
     .help = "roles whose streams have high priority, of compute, allreduce, reducescatter, aux and communication "
             "(allreduce and reducescatter); other streams are normal unless streams.priorities says so. null: "
             "streams.priorities alone"},
    {"streams.priorities.compute", AORTA_OPTION_CHOICE, AT(streams.priorities[AORTA_ROLE_COMPUTE]), "normal",
     .choices = priorities, .help = "of the stream of forward, backward and loss"},
    {"streams.priorities.allreduce", AORTA_OPTION_CHOICE, AT(streams.priorities[AORTA_ROLE_ALLREDUCE]), "high",
     .choices = priorities, .help = "of the stream of all-reduces; a shared stream has the highest of its roles"},
    {"streams.priorities.reducescatter", AORTA_OPTION_CHOICE, AT(streams.priorities[AORTA_ROLE_REDUCESCATTER]), "high",
     .choices = priorities, .help = "of the stream of reduce-scatters"},
    {"streams.priorities.aux", AORTA_OPTION_CHOICE, AT(streams.priorities[AORTA_ROLE_AUX]), "high",
     .choices = priorities, .help = "of the stream of prefetch, all-gathers, clipping and optimizer"},
    {"streams.assignment.all_gather", AORTA_OPTION_CHOICE, AT(streams.assignment[AORTA_FLOW_ALL_GATHER]), "aux",
     .choices = roles, .help = "role whose stream runs all-gathers"},
    {"streams.assignment.reduce_scatter", AORTA_OPTION_CHOICE, AT(streams.assignment[AORTA_FLOW_REDUCE_SCATTER]),
     "reducescatter", .choices = roles, .help = "role whose stream runs reduce-scatters"},
    {"streams.assignment.all_reduce", AORTA_OPTION_CHOICE, AT(streams.assignment[AORTA_FLOW_ALL_REDUCE]), "allreduce",
     .choices = roles, .help = "role whose stream runs all-reduces"},
    {"streams.assignment.prefetch", AORTA_OPTION_CHOICE, AT(streams.assignment[AORTA_FLOW_PREFETCH]), "aux",
     .choices = roles, .help = "role whose stream brings the next batch: copies it, or draws it on a GPU"},
    {"streams.assignment.optimizer", AORTA_OPTION_CHOICE, AT(streams.assignment[AORTA_FLOW_OPTIMIZER]), "aux",
     .choices = roles,
     .help = "role whose stream runs clipping and the optimizer; the update of the layers moves to compute's where it "
             "would hold up the gather of the root unit for the next step (fsdp.forward_prefetch)"},

    {"workload.gemm_chunks", AORTA_OPTION_INT, AT(workload.gemm_chunks), "1", .limits = &chunks,
     .help = "launches that each matrix product of the model is cut into, by rows of the batch, so that communication "
             "finds gaps between them; products with fewer rows are cut into single rows"},
    {"workload.occupancy_cap", AORTA_OPTION_DOUBLE, AT(workload.occupancy_cap), "1", .limits = &cap,
     .help =
         "share of the multiprocessors that kernels on the compute stream run on at most. GPUs: a partition, rounded "
         "down to what the hardware can cut (NVIDIA from compute capability 9.0 on: eight multiprocessors); a CPU: "
         "the stream's thread is bound to so many of the processors, the share rounded up"},
    {"workload.async_wait", AORTA_OPTION_BOOL, AT(workload.async_wait), "false",
     .help = "copies each layer's output, right after its forward pass, on the stream of streams.assignment.prefetch; "
             "the backward pass reads the copy after a small kernel that waits for it on the compute stream (in a "
             "captured step an event orders the two as well)"},

    {"device.kind", AORTA_OPTION_CHOICE, AT(device.kind), "auto", .choices = device_kinds,
     .help = "auto takes the first available of cuda, hip, cpu"},
    {"device.index", AORTA_OPTION_INT, AT(device.index), "null", .when_null = -1, .limits = &any_index,
     .help = "number of the device; null: the local rank, modulo the devices"},
    {"device.allow_tf32", AORTA_OPTION_BOOL, AT(device.allow_tf32), "false",
     .help = "GPUs only: fp32 matrix products (training.mixed_precision none) may round their operands to TF32; a CPU "
             "has no such type, so true is refused there"},
};

/* Keys of the original Python toolkit. */
static const struct aorta_option_alias aliases[] = {{"distributed.timeout", "distributed.timeout_s"}};
static const struct aorta_option_absent ignored[] = {
    {"training.lightweight_op_duration_ms", "training.lightweight_ops_per_stream sets it"},
    {"distributed.broadcast_buffers", "the model has no buffers"},
    {"distributed.overlap_grad_reduce", "distributed.enable_overlap sets it"},
    {"distributed.overlap_param_gather", "distributed.enable_overlap sets it"},
    {"distributed.gradient_accumulation_steps", "training.gradient_accumulation sets it"},
    {"distributed.use_reentrant_communication", "there is no autograd here"},
    {"profiling.profile_freq", "profiling.repeat and record_every set it"},
    {"streams.num_streams", "streams.count sets it: one stream for each of four roles"},
    {"streams.stream_assignments", "the names are those of streams in a recording; streams.assignment sets it"},
    {"tracelens", "aorta trace analyze reads the traces"},
    {"torch_titan", "no checkpoints are written"},
};

const struct aorta_option_table aorta_train_option_table = {
    .rows = table_rows,
    .count = sizeof table_rows / sizeof *table_rows,
    .ignored = ignored,
    .ignored_count = sizeof ignored / sizeof *ignored,
    .aliases = aliases,
    .alias_count = sizeof aliases / sizeof *aliases,
};

static const char page_head[] =
    "# Configuration of `aorta train`\n\n"
    "`aorta help config --markdown` makes this page, docs/configuration.md, from the program's table of options.\n\n"
    "`aorta train --config FILE` reads YAML, or JSON when the name ends in `.json`. Keys that are not in the\n"
    "file have the defaults below. `--override KEY=VALUE` changes single keys, written with dots and with the\n"
    "value as in YAML: `--override training.batch_size=4 \"optimizer.betas=[0.9, 0.95]\"`. Later overrides win.\n\n"
    "A file may also give a key with dots (`training.batch_size: 4`). Words are read as YAML 1.1 reads them\n"
    "(`yes`, `on` and `true` are the same; `~` is null), but `3e-4` counts as a number. The names in the\n"
    "column \"value\" are taken in upper or lower case. Unknown keys, wrong types, impossible values and keys\n"
    "given twice are errors that name the key and the line; the program then ends with exit code 2 and writes\n"
    "nothing.\n\n"
    "Ready to use: `config/quickstart.yaml` (two CPU ranks, about 20 seconds), `config/default.yaml` (the\n"
    "benchmark, 58.9 M parameters), `config/large.yaml` (375.9 M).\n\n"
    "## Keys without effect\n\n"
    "Some keys act only together with another key. `aorta train` names each key that is set and changes nothing, with "
    "the reason.\n"
    "The first reason that applies counts.\n\n"
    "| key | why it changes nothing |\n| --- | --- |\n";

void aorta_train_options_page(struct aorta_text *text) {
    aorta_text_puts(text, page_head);
    aorta_train_options_reasons(text);
    aorta_text_puts(text, "\nKeys of the original Python toolkit's configurations that are accepted, too:\n\n"
                          "| key | why it changes nothing |\n| --- | --- |\n");
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        aorta_text_printf(text, "| `%s` | %s |\n", ignored[i].prefix, ignored[i].reason);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        aorta_text_printf(text, "| `%s` | it is another name of `%s`, and acts |\n", aliases[i].name, aliases[i].key);
    aorta_options_markdown(&aorta_train_option_table, text);
}

/* ---- streams.high_priority ---- */

static aorta_status raise_named(struct aorta_train_options *options, const char *name) {
    const bool communication = strcmp(name, "communication") == 0;
    bool known = communication;
    for (const struct aorta_choice *role = roles; role->name; role++) {
        const bool communicates = role->value == AORTA_ROLE_ALLREDUCE || role->value == AORTA_ROLE_REDUCESCATTER;
        if (!(communication && communicates) && strcmp(role->name, name) != 0) continue;
        options->streams.priorities[role->value] = AORTA_PRIORITY_HIGH;
        known = true;
    }
    if (known) return NULL;
    return aorta_config_error(&options->config, "streams.high_priority",
                              "no stream is called \"%s\"; there are compute, allreduce, reducescatter, communication "
                              "and aux",
                              name);
}

static aorta_status set_priorities(struct aorta_train_options *options) {
    const struct aorta_string_list *list = &options->streams.high_priority;
    if (!list->items) return NULL;
    for (const struct aorta_choice *role = roles; role->name; role++) {
        char key[64];
        snprintf(key, sizeof key, "streams.priorities.%s", role->name);
        if (aorta_config_origin(&options->config, key)->kind == AORTA_FROM_DEFAULT)
            options->streams.priorities[role->value] = AORTA_PRIORITY_NORMAL;
    }
    for (size_t i = 0; i < list->count; i++) AORTA_TRY(raise_named(options, list->items[i]));
    return NULL;
}

aorta_status aorta_train_options_load(const char *path, const char *const *overrides, size_t override_count,
                                      struct aorta_train_options *options) {
    *options = (struct aorta_train_options){0};
    AORTA_TRY(aorta_config_load(&aorta_train_option_table, path, overrides, override_count, options, &options->config));
    aorta_status status = set_priorities(options);
    if (!status) status = aorta_train_options_check_alone(options);
    if (status) aorta_train_options_free(options);
    return status;
}

void aorta_train_options_free(struct aorta_train_options *options) {
    aorta_config_free(&options->config);
}

bool aorta_train_device_batches(const struct aorta_train_options *options, bool gpu) {
    struct aorta_injected injected;
    if (options->dataloader.device != AORTA_BATCHES_AUTO) return options->dataloader.device == AORTA_BATCHES_DEVICE;
    aorta_status status = aorta_injections_read(options, -1, &injected);
    const bool slowed = !status && injected.loader_ns;
    aorta_status_free(status); /* reported when the options were checked */
    return gpu && !slowed;
}

bool aorta_train_gathers_ahead(const struct aorta_train_options *options) {
    const struct aorta_fsdp_options *fsdp = &options->fsdp;
    const bool again = fsdp->sharding_strategy != AORTA_SHARD_GRAD_OP;
    return options->distributed.enable_overlap &&
           (fsdp->forward_prefetch || (again && fsdp->backward_prefetch == AORTA_BACKWARD_PRE));
}

int aorta_train_stream_of(const struct aorta_train_options *options, enum aorta_role role) {
    static const int streams[AORTA_ROLE_COUNT][AORTA_ROLE_COUNT] = {
        /* compute, allreduce, reducescatter, aux */
        {0, 0, 0, 0},
        {0, 1, 1, 1},
        {0, 1, 1, 2},
        {0, 1, 2, 3},
    };
    return streams[options->streams.count - 1][role];
}
