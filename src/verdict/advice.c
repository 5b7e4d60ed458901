#include "verdict/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ANY = -1, SHOWN = 2 }; /* keys named in one line of advice */

const char aorta_advice_larger[] = "a larger", aorta_advice_smaller[] = "a smaller", aorta_advice_another[] = "another";

static const char no_gpu_links[] = "";
static const char not_compute[] = "a stream that is not compute's";

/* The sparse pipeline's keys are others; its rows go before those of any program. */
#define LARGER_BATCH .key = "ModelSelectionConfig.batch_size", .value = aorta_advice_larger
#define SPARSE_PIPELINE                                                                                                \
    .key = "PipelineConfig.pipeline", .value = "sparse",                                                               \
    .unless = "PipelineConfig.pipeline=fused PipelineConfig.pipeline=semi PipelineConfig.pipeline=prefetch"

static const struct aorta_advice_row rows[] = {
    {AORTA_CAUSE_HOST_LAUNCH, ANY, AORTA_SPARSE, LARGER_BATCH, .text = "more work for each launch"},
    {AORTA_CAUSE_LAUNCH_LATENCY, ANY, AORTA_SPARSE, LARGER_BATCH, .text = "fewer, larger operations"},
    {AORTA_CAUSE_HOST_SYNC, ANY, AORTA_SPARSE, SPARSE_PIPELINE,
     .text = "the host waits for numbers of ids while the device works on the batch before"},
    {AORTA_CAUSE_HOST_SYNC, ANY, AORTA_SPARSE, LARGER_BATCH, .text = "the host has to run ahead less"},
    {AORTA_CAUSE_COPY, ANY, AORTA_SPARSE, SPARSE_PIPELINE, .text = "batches are copied beside the steps before"},
    {AORTA_CAUSE_COPY, ANY, AORTA_SPARSE, LARGER_BATCH, .text = "more compute for each copy"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, ANY, AORTA_SPARSE, .key = "streams.count", .value = "4",
     .text = "give each role a stream of its own"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_TO_ALL, AORTA_SPARSE, SPARSE_PIPELINE,
     .text = "exchange the ids of the next batch beside this one"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_TO_ALL, AORTA_SPARSE, .key = "RunOptions.sharding_type",
     .value = aorta_advice_another, .text = "rows and ids of other parts travel"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, ANY, AORTA_SPARSE, LARGER_BATCH, .text = "more compute for each exchange"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_SPARSE, .key = "RunOptions.compute_kernel", .value = "fused",
     .unless = "RunOptions.compute_kernel=fused RunOptions.compute_kernel=dense device.kind=cpu",
     .text = "tables on the device, where they fit: rows of host memory come over the link"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_SPARSE, .key = "RunOptions.cache_load_factor", .value = aorta_advice_larger,
     .unless = "RunOptions.compute_kernel=fused RunOptions.compute_kernel=dense RunOptions.compute_kernel=fused_uvm "
               "device.kind=cpu",
     .text = "more rows on the device"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_SPARSE, .text = "faster kernels, or more ranks with processors of their own"},
    {AORTA_CAUSE_HOST_LAUNCH, ANY, AORTA_OTHERS, .circumstances = AORTA_NOT_EXPLAINED,
     .text = "record the host's launches too (rocprofv3 --sys-trace, PyTorch's ProfilerActivity.CPU, aorta trace "
             "run --record all), so that the causes of idle time can be separated"},
    {AORTA_CAUSE_HOST_LAUNCH, ANY, AORTA_OURS, .key = "compile.enabled", .value = "true",
     .text = "replay the step as one graph"},
    {AORTA_CAUSE_HOST_LAUNCH, ANY, AORTA_OURS, .key = "training.batch_size", .value = aorta_advice_larger,
     .text = "more work for each launch"},
    {AORTA_CAUSE_HOST_LAUNCH, ANY, AORTA_OURS,
     .text = "launch less often: compile.enabled=true replays the step as one graph; or give each launch more "
             "work (training.batch_size)"},
    {AORTA_CAUSE_HOST_LAUNCH, ANY, AORTA_OTHERS, .circumstances = AORTA_CAPTURE,
     .text = "record the program while it runs the graphs that it captures here: late launches of a capture are paid "
             "once"},
    {AORTA_CAUSE_HOST_LAUNCH, ANY, AORTA_OTHERS, .circumstances = AORTA_SERVING,
     .text = "let the engine replay graphs: no enforce_eager (vLLM) or --disable-cuda-graph (SGLang), batches of the "
             "sizes that it captures (cudagraph_capture_sizes, --cuda-graph-max-bs); or more requests at a time"},
    {AORTA_CAUSE_HOST_LAUNCH, ANY, AORTA_OTHERS, .circumstances = AORTA_XLA,
     .text = "launch less often: jax.jit around the whole step, donated buffers (donate_argnums), several steps in one "
             "lax.scan; or give each launch more work (larger batch)"},
    {AORTA_CAUSE_HOST_LAUNCH, ANY, AORTA_OTHERS, .circumstances = AORTA_CUPY,
     .text =
         "launch less often: several operations in one kernel (cupy.fuse, ElementwiseKernel), the step captured in a "
         "graph (stream.begin_capture); or give each launch more work (larger arrays)"},
    {AORTA_CAUSE_HOST_LAUNCH, ANY, AORTA_OTHERS, .circumstances = AORTA_TRITON,
     .text = "launch less often: one kernel in place of several, the loop's launches captured in a graph "
             "(torch.cuda.graph, cudaStreamBeginCapture); or give each launch more work (larger arrays)"},
    {AORTA_CAUSE_HOST_LAUNCH, ANY, AORTA_OTHERS,
     .text = "launch less often: capture the step in a graph (torch.compile(mode=\"reduce-overhead\"), "
             "torch.cuda.graph), fuse small kernels, foreach/fused optimizers; or give each launch more work "
             "(larger batch)"},
    {AORTA_CAUSE_LAUNCH_LATENCY, ANY, AORTA_OURS, .key = "compile.enabled", .value = "true",
     .unless = "device.kind=cpu", .text = "operations of a graph start sooner"},
    {AORTA_CAUSE_LAUNCH_LATENCY, ANY, AORTA_OURS, .key = "training.batch_size", .value = aorta_advice_larger,
     .unless = "device.kind=cpu", .text = "fewer, larger operations"},
    {AORTA_CAUSE_LAUNCH_LATENCY, ANY, AORTA_OURS, .circumstances = AORTA_OF_GRAPH,
     .text = "fewer, larger operations: training.batch_size; on the CPU leave a core free for the threads of the "
             "streams"},
    {AORTA_CAUSE_LAUNCH_LATENCY, ANY, AORTA_OURS,
     .text = "compile.enabled=true (operations of a graph start sooner), or larger operations "
             "(training.batch_size); on the CPU leave a core free for the threads of the streams"},
    {AORTA_CAUSE_LAUNCH_LATENCY, ANY, AORTA_OTHERS, .circumstances = AORTA_RECURS,
     .text = "in each step work waits, launched, for something that is not recorded: an event of another stream or "
             "process, a host function (cudaLaunchHostFunc), another process on the device; see what its stream waits "
             "for"},
    {AORTA_CAUSE_LAUNCH_LATENCY, ANY, AORTA_OTHERS,
     .text = "work starts long after its launch: run a step before recording (kernels load at first use), see "
             "what its stream waits for, and fuse small kernels"},
    {AORTA_CAUSE_HOST_SYNC, ANY, AORTA_OURS, .key = "profiling.enabled", .value = "false",
     .unless = "profiling.enabled!=true", .text = "at the ends of its cycles the host waits for the tracer"},
    {AORTA_CAUSE_HOST_SYNC, ANY, AORTA_OURS, .key = "training.batch_size", .value = aorta_advice_larger,
     .text = "more work in a step, at whose end the host waits"},
    {AORTA_CAUSE_HOST_SYNC, ANY, AORTA_OURS,
     .text = "let the host run ahead: more work in a step (training.batch_size, training.gradient_accumulation); "
             "and fewer cycles of profiling.enabled (profiling.repeat), at whose ends the host waits for the "
             "tracer"},
    {AORTA_CAUSE_HOST_SYNC, ANY, AORTA_OTHERS, .circumstances = AORTA_XLA,
     .text =
         "read values a step later, or every tenth: float(loss), np.asarray, block_until_ready and print of an array "
         "wait for the device"},
    {AORTA_CAUSE_HOST_SYNC, ANY, AORTA_OTHERS, .circumstances = AORTA_CUPY,
     .text = "take the waits out of the step: .get(), float() and print of an array, cupy.asnumpy, stream.synchronize, "
             "indexing by a mask"},
    {AORTA_CAUSE_HOST_SYNC, ANY, AORTA_OTHERS,
     .text = "take the waits out of the step: .item(), .cpu(), print of a tensor, torch.cuda.synchronize, "
             "non_blocking=False copies, shapes that depend on data"},
    {AORTA_CAUSE_HOST_PAUSE, ANY, AORTA_OURS,
     .text = "see what the host does there: files or sockets, a lock, other processes on its cores"},
    {AORTA_CAUSE_HOST_PAUSE, ANY, AORTA_OTHERS, .circumstances = AORTA_SAVES,
     .text =
         "if a checkpoint is written there: in the background (torch.distributed.checkpoint.async_save, Lightning's "
         "AsyncCheckpointIO), less often (save_steps, every_n_train_steps), to a faster disk; else see what the host "
         "does there"},
    {AORTA_CAUSE_HOST_PAUSE, ANY, AORTA_OTHERS, .circumstances = AORTA_OFFLOADED,
     .text =
         "if the optimizer runs on the host (CPUOffloadPolicy, DeepSpeed's offload): keep it on the device where "
         "memory "
         "allows, else a fused one for CPUs (AdamW fused=True) and more threads (OMP_NUM_THREADS, which torchrun sets "
         "to 1); else see what the host does there"},
    {AORTA_CAUSE_HOST_PAUSE, ANY, AORTA_OTHERS, .circumstances = AORTA_INPUT | AORTA_CUPY,
     .text =
         "if the host makes the input there (numpy): make it on the device (cupy.random), or ahead in a thread; else "
         "see what it does there: a sleep, files or sockets, garbage collection, a lock"},
    {AORTA_CAUSE_HOST_PAUSE, ANY, AORTA_OTHERS, .circumstances = AORTA_INPUT,
     .text = "if the host makes the batch there (numpy, tensors on the CPU, next(loader)): DataLoader workers and "
             "prefetch_factor, or make it on the device; else see what it does there: a sleep, files or sockets, "
             "garbage collection, a lock"},
    {AORTA_CAUSE_HOST_PAUSE, ANY, AORTA_OTHERS,
     .text = "see what the host does there: a sleep, files or sockets, garbage collection (gc.freeze, gc.disable and a "
             "collection between steps), a lock, other processes on its cores"},
    {AORTA_CAUSE_HOST_COLLECTIVE, ANY, AORTA_EITHER,
     .text = "let the devices sum: backend \"nccl\" (RCCL on ROCm) in place of gloo, one device for each rank; with "
             "gloo fewer bytes: bf16_compress_hook, no_sync() while gradients accumulate"},
    {AORTA_CAUSE_ALLOCATION, ANY, AORTA_OURS, .text = "take memory once, before the steps"},
    {AORTA_CAUSE_ALLOCATION, ANY, AORTA_OTHERS, .circumstances = AORTA_CUPY,
     .text = "keep device memory: CuPy's memory pool, no free_all_blocks in the step, results into arrays made once "
             "(out=)"},
    {AORTA_CAUSE_ALLOCATION, ANY, AORTA_OTHERS,
     .text = "keep device memory: no torch.cuda.empty_cache in the step, "
             "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, pinned buffers made once"},
    {AORTA_CAUSE_DATA_WAIT, ANY, AORTA_OURS, .key = "dataloader.device", .value = "auto",
     .unless = "dataloader.device!=host", .text = "a GPU makes its batches itself"},
    {AORTA_CAUSE_DATA_WAIT, ANY, AORTA_OURS, .key = "dataloader.num_workers", .value = aorta_advice_larger,
     .text = "make batches further ahead"},
    {AORTA_CAUSE_DATA_WAIT, ANY, AORTA_OURS,
     .text = "raise dataloader.num_workers, so that batches are made further ahead"},
    {AORTA_CAUSE_DATA_WAIT, ANY, AORTA_OTHERS,
     .text = "make batches further ahead: more DataLoader workers, a larger prefetch_factor, pin_memory=True; or "
             "move the preparation off the step"},
    {AORTA_CAUSE_COPY, ANY, AORTA_OURS, .key = "distributed.gradient_as_bucket_view", .value = "true",
     .unless = "distributed.mode=fsdp distributed.gradient_as_bucket_view!=false",
     .text = "gradients are made where they are reduced"},
    {AORTA_CAUSE_COPY, ANY, AORTA_OURS, .key = "distributed.overlap_clone_for_reduce_scatter", .value = "false",
     .unless = "distributed.mode=fsdp distributed.overlap_reduce_scatter!=true", .text = "no clones of buckets"},
    {AORTA_CAUSE_COPY, ANY, AORTA_OURS, .key = "workload.async_wait", .value = "false",
     .unless = "workload.async_wait!=true", .text = "training does not need it: its purpose is to copy beside compute"},
    {AORTA_CAUSE_COPY, ANY, AORTA_OURS, .key = "dataloader.device", .value = "auto",
     .unless = "dataloader.device!=host", .text = "a GPU makes its batches itself: nothing is copied"},
    {AORTA_CAUSE_COPY, ANY, AORTA_OURS, .key = "dataloader.pin_memory", .value = "true",
     .text = "copy batches beside the step before"},
    {AORTA_CAUSE_COPY, ANY, AORTA_OURS, .key = "streams.assignment.prefetch", .value = aorta_advice_another,
     .unless = "compile.enabled=true", .text = "a role whose stream has less to do copies the input sooner"},
    {AORTA_CAUSE_COPY, ANY, AORTA_OURS,
     .text = "set dataloader.pin_memory=true, so that batches are copied beside the step before"},
    {AORTA_CAUSE_COPY, ANY, AORTA_OTHERS, .circumstances = AORTA_CUPY,
     .text = "copy beside compute: pinned memory (cupyx.empty_pinned), array.set and .get(blocking=False) on a stream "
             "of its "
             "own, one step ahead"},
    {AORTA_CAUSE_COPY, ANY, AORTA_OTHERS, .circumstances = AORTA_HOST_WAITS,
     .text = "do not wait in the copy: non_blocking=True with pinned memory; to the host: no .item(), .cpu() or print "
             "of a tensor in the step, or one copy at its end that is read a step later"},
    {AORTA_CAUSE_COPY, ANY, AORTA_OTHERS,
     .text = "copy beside compute: pinned memory with non_blocking=True on a stream of its own, one step ahead"},
    {AORTA_CAUSE_STRAGGLER, ANY, AORTA_EITHER, .circumstances = AORTA_OWN_WORK | AORTA_STAGES,
     .text = "more microbatches a step, an interleaved or zero-bubble schedule, stages of equal work"},
    {AORTA_CAUSE_STRAGGLER, ANY, AORTA_EITHER, .circumstances = AORTA_OWN_WORK,
     .text = "give ranks batches of equal work: samples sorted into batches of like length, a sampler that balances "
             "tokens, padding to the same few sizes"},
    {AORTA_CAUSE_STRAGGLER, ANY, AORTA_EITHER, .circumstances = AORTA_LATE_CHANGES | AORTA_UNLIKE,
     .text = "give ranks batches of equal work: samples sorted into batches of like length, a sampler that balances "
             "tokens, padding to the same few sizes"},
    {AORTA_CAUSE_STRAGGLER, ANY, AORTA_EITHER, .circumstances = AORTA_LATE_CHANGES,
     .text =
         "the late rank changes from step to step: if batches differ in size, balance their work (sorted lengths, a "
         "sampler by tokens); else give each rank its own cores or device and stop what else runs there"},
    {AORTA_CAUSE_STRAGGLER, ANY, AORTA_EITHER, .circumstances = AORTA_LATE_DEVICE | AORTA_UNLIKE,
     .text =
         "balance the work, of which rank {rank} has more or larger pieces: experts (a loss that balances them, limits "
         "of capacity), batches by tokens, stages of equal work"},
    {AORTA_CAUSE_STRAGGLER, ANY, AORTA_EITHER, .circumstances = AORTA_LATE_DEVICE,
     .text = "see what slows the device of rank {rank}: clocks, temperature, other processes, fewer cores than "
             "its peers"},
    {AORTA_CAUSE_STRAGGLER, ANY, AORTA_EITHER,
     .text = "see what delays the host of rank {rank}: data loading, other processes, core binding"},
    {AORTA_CAUSE_SLOW_COLLECTIVE, ANY, AORTA_OURS,
     .text = "see what else uses the link or, with host collectives, the cores: leave a core free for "
             "communication"},
    {AORTA_CAUSE_SLOW_COLLECTIVE, ANY, AORTA_OTHERS,
     .text = "see which path it takes (NCCL_DEBUG=INFO: channels, transport, algorithm) and what else uses the "
             "link; NCCL_MIN_CTAS raises the channels"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, ANY, AORTA_OURS, .key = "streams.count", .value = "4",
     .unless = "streams.count=2 streams.count=3", .text = "give each role a stream of its own"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, AORTA_ALL_GATHER, AORTA_OURS, .key = "streams.assignment.all_gather",
     .value = "aux", .unless = "streams.assignment.all_gather!=compute", .text = not_compute},
    {AORTA_CAUSE_SERIALIZED_STREAMS, AORTA_REDUCE_SCATTER, AORTA_OURS, .key = "streams.assignment.reduce_scatter",
     .value = "reducescatter", .unless = "streams.assignment.reduce_scatter!=compute", .text = not_compute},
    {AORTA_CAUSE_SERIALIZED_STREAMS, AORTA_ALL_REDUCE, AORTA_OURS, .key = "streams.assignment.all_reduce",
     .value = "allreduce", .unless = "streams.assignment.all_reduce!=compute", .text = not_compute},
    {AORTA_CAUSE_SERIALIZED_STREAMS, AORTA_ALL_REDUCE, AORTA_OURS, .key = "streams.assignment.optimizer",
     .value = "aux", .unless = "streams.assignment.optimizer!=compute", .text = not_compute},
    {AORTA_CAUSE_SERIALIZED_STREAMS, ANY, AORTA_OURS,
     .text = "give communication streams of its own (streams.count=4, streams.assignment)"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, ANY, AORTA_OTHERS,
     .text = "give communication a stream of its own with high priority, and more hardware queues: "
             "CUDA_DEVICE_MAX_CONNECTIONS above 1, GPU_MAX_HW_QUEUES on ROCm"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, ANY, AORTA_OTHERS, .circumstances = AORTA_XLA,
     .text = "let XLA start collectives earlier: XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true, and smaller "
             "pieces (--xla_gpu_all_reduce_combine_threshold_bytes, likewise all_gather and reduce_scatter)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, ANY, AORTA_OURS, .key = "distributed.enable_overlap", .value = "true",
     .text = "let collectives run beside compute"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, AORTA_OURS, .key = "fsdp.forward_prefetch", .value = "true",
     .text = "gather the next layer beside this one"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, AORTA_OURS, .key = "fsdp.backward_prefetch",
     .value = "BACKWARD_PRE", .unless = "fsdp.sharding_strategy=shard_grad_op",
     .text = "gather for backward before it is needed"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, AORTA_OURS, .key = "fsdp.use_orig_params", .value = "false",
     .unless = no_gpu_links, .text = "a layer travels as one piece, not as one for each parameter"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, AORTA_OURS, .key = "fsdp.symmetric_memory", .value = "true",
     .unless = no_gpu_links, .text = "NCCL reaches the other GPUs' memory itself; with fsdp.use_orig_params=false"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, AORTA_OURS, .key = "fsdp.sharding_strategy",
     .value = "shard_grad_op", .text = "gather once a step, for more memory"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, AORTA_OURS, .key = "training.batch_size",
     .value = aorta_advice_larger, .text = "more compute per gather"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, AORTA_OURS, .key = "fsdp.use_orig_params", .value = "false",
     .unless = no_gpu_links, .text = "a layer travels as one piece, not as one for each parameter"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, AORTA_OURS, .key = "fsdp.symmetric_memory", .value = "true",
     .unless = no_gpu_links, .text = "NCCL reaches the other GPUs' memory itself; with fsdp.use_orig_params=false"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, AORTA_OURS, .key = "distributed.overlap_reduce_scatter",
     .value = "false", .unless = "distributed.mode=fsdp",
     .text = "training does not need it: its purpose is to load the links"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, AORTA_OURS, .key = "training.batch_size",
     .value = aorta_advice_larger, .text = "more compute per reduction"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, AORTA_OURS, .key = "fsdp.sharding_strategy",
     .value = "hybrid_shard", .text = "reduce within a node first; with fsdp.hybrid_shard_gpus_per_node"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_REDUCE, AORTA_OURS, .key = "distributed.bucket_cap_mb",
     .value = aorta_advice_smaller, .unless = "distributed.mode=fsdp", .text = "smaller buckets start earlier"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_REDUCE, AORTA_OURS, .key = "training.gradient_accumulation",
     .value = aorta_advice_larger, .unless = "fsdp.sharding_strategy=hybrid_shard", .text = "reduce less often"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, AORTA_OURS,
     .text = "gather ahead: fsdp.forward_prefetch=true, fsdp.backward_prefetch=BACKWARD_PRE, "
             "fsdp.limit_all_gathers=false; or gather once: fsdp.sharding_strategy=shard_grad_op"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, AORTA_OTHERS,
     .text = "gather ahead: FSDP's forward_prefetch and backward_prefetch=BACKWARD_PRE, explicit prefetch of "
             "FSDP2; or keep parameters gathered (reshard_after_forward=False)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, AORTA_OURS,
     .text = "more compute per reduction: larger training.batch_size or training.gradient_accumulation; or "
             "fsdp.sharding_strategy=hybrid_shard"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, AORTA_OTHERS, .circumstances = AORTA_REPEATED,
     .text =
         "reduce once a step: set_requires_gradient_sync(False) (FSDP1: no_sync()) for all but the last micro-batch, "
         "for the memory of whole gradients"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, AORTA_OTHERS,
     .text = "more compute per reduction: larger batch or gradient accumulation without sync; or reduce within a "
             "node first (HSDP)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_REDUCE, AORTA_OURS,
     .text = "start reducing earlier: smaller distributed.bucket_cap_mb, distributed.enable_overlap=true; or "
             "reduce less often: training.gradient_accumulation"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_REDUCE, AORTA_OTHERS, .circumstances = AORTA_REPEATED,
     .text = "reduce once a step: model.no_sync() around all but the last micro-batch (FSDP2: "
             "set_requires_gradient_sync(False))"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_REDUCE, AORTA_OTHERS,
     .text = "start reducing earlier: a smaller bucket_cap_mb, gradient_as_bucket_view; or reduce less often: "
             "gradient accumulation under no_sync"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_BROADCAST, AORTA_OURS,
     .text = "broadcast once at the start (fsdp.sync_module_states), not in the step"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_BROADCAST, AORTA_OTHERS,
     .text = "broadcast once at the start, not in the step (DDP: broadcast_buffers=False)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_TO_ALL, AORTA_OTHERS, .circumstances = AORTA_SENDS,
     .text =
         "send while something else is computed: isend and irecv posted early, more microbatches between stages; an "
         "all-to-all in two halves, with compute on the first beside the second"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_TO_ALL, AORTA_EITHER,
     .text = "split the exchange, so that compute on the first part runs beside the second"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_BARRIER, AORTA_EITHER, .text = "take barriers out of the step"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, ANY, AORTA_EITHER,
     .text = "issue it earlier, on a stream of its own, so that compute is left to run beside it"},
    {AORTA_CAUSE_CONTENTION, ANY, AORTA_OURS, .circumstances = AORTA_POWER_LIMIT,
     .text = "save energy first (fewer passes over memory, fewer bits): at the power limit more multiprocessors "
             "only lower the clock"},
    {AORTA_CAUSE_CONTENTION, ANY, AORTA_OURS, .key = "NCCL_MAX_CTAS", .value = aorta_advice_smaller,
     .unless = no_gpu_links, .text = "fewer channels leave multiprocessors to GEMMs; weigh it against the time hidden"},
    {AORTA_CAUSE_CONTENTION, ANY, AORTA_OURS,
     .text = "leave resources for communication: fewer compute threads on the CPU, fewer channels (NCCL_MAX_CTAS) on a "
             "GPU"},
    {AORTA_CAUSE_CONTENTION, ANY, AORTA_OTHERS,
     .text = "leave resources for communication: fewer channels (NCCL_MAX_CTAS), GEMMs that leave multiprocessors "
             "free; weigh it against the time hidden"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OURS, .circumstances = AORTA_LAUNCHES, .key = "compile.enabled", .value = "true",
     .text = "replay the step as one graph"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OURS, .key = "training.mixed_precision", .value = "bf16",
     .unless = "device.kind=cpu training.mixed_precision=fp16", .text = "arithmetic in 16 bits"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OURS, .circumstances = AORTA_COARSE,
     .text = "record the step with aorta train, which times every operation, before tuning anything by these "
             "figures"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OURS, .circumstances = AORTA_GAPS,
     .text = "compile.enabled=true: the step as one graph, whose kernels follow each other at once"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OURS, .text = "faster kernels, or more ranks with processors of their own"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OTHERS, .circumstances = AORTA_SERVING,
     .text = "fewer bits (weights in fp8 or 4 bits, the KV cache in fp8), kernels tuned for these sizes (vLLM's tables "
             "for experts; on AMD PYTORCH_TUNABLEOP_ENABLED=1), or more devices (tensor parallel)"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OTHERS, .circumstances = AORTA_XLA,
     .text = "faster kernels (jax.default_matmul_precision, parameters and activations in bfloat16, "
             "jax.nn.dot_product_attention with implementation=\"cudnn\") or more devices"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OTHERS, .circumstances = AORTA_CUPY,
     .text = "fewer passes over memory (cupy.fuse, ElementwiseKernel, ReductionKernel), products in TF32 or 16 bits; "
             "or more "
             "devices"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OTHERS, .circumstances = AORTA_TRITON,
     .text = "faster kernels: block sizes and warps by measuring (triton.autotune), fewer passes over memory; "
             "or more devices"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OTHERS, .circumstances = AORTA_MOVES_DATA,
     .text = "fuse what only moves data: torch.compile, fused norms and activations, optimizers with fused=True"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OTHERS, .circumstances = AORTA_NARROW,
     .text = "less work (no padding, a smaller batch or sequence where the result allows it), fewer bits still (fp8), "
             "tuned kernels (torch.compile(mode=\"max-autotune\"); on AMD PYTORCH_TUNABLEOP_ENABLED=1), or more ranks"},
    {AORTA_CAUSE_COMPUTE, ANY, AORTA_OTHERS,
     .text = "faster kernels (16 bits, fused attention, torch.compile) or more ranks"},
};

const struct aorta_advice_row *aorta_advice_rows(size_t *count) {
    *count = sizeof rows / sizeof rows[0];
    return rows;
}

const char *aorta_settings_value(const struct aorta_settings *settings, const char *key) {
    for (size_t i = 0; i < settings->count; i++)
        if (strcmp(settings->items[i].key, key) == 0) return settings->items[i].value;
    return NULL;
}

static bool in_force(const struct aorta_settings *settings, const char *key, const char *value) {
    const char *now = aorta_settings_value(settings, key);
    return now && strcasecmp(now, value) == 0;
}

/* ddp reads none of the keys of fsdp. */
static bool is_unread(const struct aorta_settings *settings, const char *key) {
    return strncmp(key, "fsdp.", 5) == 0 && in_force(settings, "distributed.mode", "ddp");
}

/* Any of these settings, as rows have them. */
static bool any_in_force(const struct aorta_settings *settings, const char *list) {
    char copy[128], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(one, '=');
        const bool other = equals[-1] == '!';
        equals[other ? -1 : 0] = '\0';
        if (!is_unread(settings, one) && in_force(settings, one, equals + 1) != other) return true;
    }
    return false;
}

static bool pointless(const struct aorta_settings *settings, bool simulated, const struct aorta_advice_row *row) {
    if (is_unread(settings, row->key)) return true;
    if (!row->unless) return false;
    if (row->unless == no_gpu_links) return simulated || in_force(settings, "device.kind", "cpu");
    return any_in_force(settings, row->unless);
}

static enum aorta_advised program_of(const struct aorta_verdict *verdict, const struct aorta_settings *settings) {
    if (verdict->recorded) return AORTA_OTHERS;
    return settings && aorta_settings_value(settings, "PipelineConfig.pipeline") ? AORTA_SPARSE : AORTA_OURS;
}

static bool concerns(const struct aorta_advice_row *row, enum aorta_advised program,
                     const struct aorta_finding *finding) {
    return row->cause == finding->cause && (row->collective == ANY || row->collective == (int)finding->collective) &&
           (row->program == AORTA_EITHER || row->program == program) &&
           (row->circumstances & finding->circumstances) == row->circumstances;
}

static bool is_direction(const char *value) {
    return value == aorta_advice_larger || value == aorta_advice_smaller || value == aorta_advice_another;
}

static void add_key(struct aorta_text *text, const struct aorta_advice_row *row,
                    const struct aorta_settings *settings) {
    if (text->length) aorta_text_puts(text, "; or ");
    if (!is_direction(row->value)) {
        aorta_text_printf(text, "%s=%s (%s)", row->key, row->value, row->text);
        return;
    }
    const char *now = aorta_settings_value(settings, row->key);
    aorta_text_printf(text, "%s %s%s%s (%s)", row->value, row->key, now ? ", now " : "", now ? now : "", row->text);
}

static void put_text(struct aorta_text *text, const char *advice, int rank) {
    static const char mark[] = "rank {rank}";
    const char *at = strstr(advice, mark);
    if (!at) {
        aorta_text_puts(text, advice);
        return;
    }
    aorta_text_append(text, advice, (size_t)(at - advice));
    if (rank >= 0) aorta_text_printf(text, "rank %d", rank);
    aorta_text_printf(text, "%s%s", rank >= 0 ? "" : "the late rank", at + strlen(mark));
}

static aorta_status advise(const struct aorta_verdict *verdict, struct aorta_finding *finding,
                           const struct aorta_settings *settings) {
    if (finding->remedy) return NULL; /* its row has it */
    struct aorta_text text = {0};
    const enum aorta_advised program = program_of(verdict, settings);
    bool fits = false; /* a key would help, if it were not set already */
    int shown = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && shown < SHOWN; i++) {
        const struct aorta_advice_row *row = &rows[i];
        if (!concerns(row, program, finding)) continue;
        if (!row->key) {
            if (!fits) put_text(&text, row->text, finding->rank);
            break;
        }
        if (!settings || !settings->count || pointless(settings, verdict->simulated, row)) continue;
        fits = true;
        if (in_force(settings, row->key, row->value)) continue;
        add_key(&text, row, settings);
        shown++;
    }
    if (fits && !shown)
        aorta_text_puts(&text, "every key that helps is set already: more work per rank, or a faster one");
    return aorta_text_take(&text, &finding->advice);
}

aorta_status aorta_advise(struct aorta_verdict *verdict, const struct aorta_settings *settings) {
    for (size_t i = 0; i < verdict->finding_count; i++) AORTA_TRY(advise(verdict, &verdict->findings[i], settings));
    return NULL;
}
