/* Advice, and variables of the recorded environment that explain a finding. */
#include "verdict/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char aorta_advice_larger[] = "a larger", aorta_advice_smaller[] = "a smaller", aorta_advice_another[] = "another";

static const char no_gpu_links[] = "";

enum {
    TORCH = AORTA_PROGRAM_TORCH,
    COMPILED = AORTA_PROGRAM_COMPILED,
    SERVING = AORTA_PROGRAM_SERVING,
    XLA = AORTA_PROGRAM_XLA,
    CUPY = AORTA_PROGRAM_CUPY,
    TRITON = AORTA_PROGRAM_TRITON,
    DIRECTIVES = AORTA_PROGRAM_DIRECTIVES,
    NATIVE = AORTA_PROGRAM_NATIVE | DIRECTIVES,
    OURS = AORTA_PROGRAM_OURS,
    SPARSE = AORTA_PROGRAM_SPARSE,
    OTHERS = TORCH | COMPILED | SERVING | XLA | CUPY | TRITON | NATIVE, /* programs that are not ours */
    ANY = OTHERS | OURS | SPARSE
};

#define LARGER_BATCH .key = "ModelSelectionConfig.batch_size", .value = aorta_advice_larger
#define PIPELINED                                                                                                      \
    .key = "PipelineConfig.pipeline", .value = "sparse",                                                               \
    .unless = "PipelineConfig.pipeline=fused PipelineConfig.pipeline=semi PipelineConfig.pipeline=prefetch"

static const char keep_on_gpu[] =
    "keep the data on the GPU: weights, optimizer states and activations without offloading";
static const char whole_sequence[] =
    "nn.LSTM or nn.GRU over the whole sequence (cuDNN, MIOpen) instead of a cell for each time step";

static const char grouped_experts[] =
    "one grouped product for all experts: torch._grouped_mm (transformers: experts_implementation=\"grouped_mm\")";

static const char process_per_device[] =
    "one process for each GPU: DistributedDataParallel (DDP) with torchrun instead of DataParallel";

static const char capture_step[] = "capture the step: torch.compile(mode=\"reduce-overhead\") or torch.cuda.graph";

static const struct aorta_advice_row rows[] = {
    {AORTA_CAUSE_HOST_LAUNCH, SPARSE, LARGER_BATCH, .text = "more work for each launch"},
    {AORTA_CAUSE_HOST_LAUNCH, OURS, .key = "compile.enabled", .value = "true", .text = "replay the step as one graph"},
    {AORTA_CAUSE_HOST_LAUNCH, OURS, .key = "training.batch_size", .value = aorta_advice_larger,
     .text = "more work for each launch"},
    {AORTA_CAUSE_HOST_LAUNCH, OURS, .text = "compile.enabled=true (replay the step as one graph)",
     .also = "or a larger training.batch_size"},
    {AORTA_CAUSE_HOST_LAUNCH, SPARSE, .text = "a larger ModelSelectionConfig.batch_size"},
    {AORTA_CAUSE_HOST_LAUNCH, TORCH | COMPILED, .when = {AORTA_FACT_ONE_PROCESS}, .text = process_per_device},
    {AORTA_CAUSE_HOST_LAUNCH, OTHERS, .when = {AORTA_FACT_CAPTURES},
     .text = "record the program while it replays its graphs: a capture happens once"},
    {AORTA_CAUSE_HOST_LAUNCH, OTHERS, .when = {AORTA_FACT_UNEXPLAINED},
     .text =
         "record launches, too: rocprofv3 --sys-trace, PyTorch's ProfilerActivity.CPU, aorta trace run --record all"},
    {AORTA_CAUSE_HOST_LAUNCH, OTHERS, .when = {AORTA_FACT_RNN_CELLS}, .text = whole_sequence,
     .also = "or capture the step: torch.compile(mode=\"reduce-overhead\"), torch.cuda.graph"},
    {AORTA_CAUSE_HOST_LAUNCH, TORCH | COMPILED | TRITON, .when = {AORTA_FACT_EXPERTS}, .text = grouped_experts,
     .also = "or the same number of tokens for each expert, which a graph can capture"},
    {AORTA_CAUSE_HOST_LAUNCH, SERVING, .when = {AORTA_FACT_REPLAYS},
     .text = "prepare the next step while a graph runs: vLLM's --async-scheduling, SGLang's overlap scheduler",
     .also = "or more requests at a time"},
    {AORTA_CAUSE_HOST_LAUNCH, TORCH | COMPILED | TRITON | NATIVE, .when = {AORTA_FACT_REPLAYS},
     .text = "capture what runs outside the graphs, too"},
    {AORTA_CAUSE_HOST_LAUNCH, SERVING,
     .text = "let the engine replay graphs: no enforce_eager (vLLM), no --disable-cuda-graph (SGLang)",
     .also = "or captured batch sizes (cudagraph_capture_sizes, --cuda-graph-max-bs), more requests at a time"},
    {AORTA_CAUSE_HOST_LAUNCH, XLA, .when = {AORTA_FACT_STEP_VALUES},
     .text =
         "read values a step later, or every tenth: float(loss), np.asarray and block_until_ready wait for the device",
     .also = "or all values as one array of the jitted step (jnp.stack), several steps in one lax.scan"},
    {AORTA_CAUSE_HOST_LAUNCH, XLA, .text = "one jax.jit around the whole step with donated buffers (donate_argnums)",
     .also = "or several steps in one lax.scan, equal calls in one jax.vmap, a larger batch"},
    {AORTA_CAUSE_HOST_LAUNCH, CUPY,
     .text = "several operations in one kernel (cupy.fuse, ElementwiseKernel), a graph (stream.begin_capture)",
     .also = "or larger arrays"},
    {AORTA_CAUSE_HOST_LAUNCH, TRITON,
     .text = "capture the launches in a graph (torch.cuda.graph, cudaStreamBeginCapture)",
     .also = "or one kernel instead of several, larger arrays"},
    {AORTA_CAUSE_HOST_LAUNCH, TORCH | COMPILED, .when = {AORTA_FACT_NO_GRADIENTS, AORTA_FACT_DECODES},
     .text = capture_step,
     .also = "or a larger batch; a static KV cache (transformers: cache_implementation=\"static\") can be captured"},
    {AORTA_CAUSE_HOST_LAUNCH, TORCH | COMPILED, .when = {AORTA_FACT_SHARDED, AORTA_FACT_OPTIMIZES},
     .text = "launch less: torch.compile each layer, a fused optimizer, larger units, a larger batch"},
    {AORTA_CAUSE_HOST_LAUNCH, TORCH | COMPILED, .when = {AORTA_FACT_SHARDED}, /* FSDP's hooks are not captured */
     .text = "launch less: torch.compile each layer, larger units, a larger batch"},
    {AORTA_CAUSE_HOST_LAUNCH, COMPILED, .when = {AORTA_FACT_MANY_VALUES},
     .text = "keep compiled graphs whole: no .item(), print or branch on a value (TORCH_LOGS=graph_breaks)",
     .also = "then capture the step: torch.compile(mode=\"reduce-overhead\")"},
    {AORTA_CAUSE_HOST_LAUNCH, TORCH, .when = {AORTA_FACT_MANY_VALUES},
     .text = "take .item(), .cpu() and branches on values out of the step, then capture it: "
             "torch.compile(mode=\"reduce-overhead\")",
     .also = "or launch less: fused/foreach optimizer, larger batch"},
    {AORTA_CAUSE_HOST_LAUNCH, TORCH | COMPILED, .when = {AORTA_FACT_OPTIMIZES}, .text = capture_step,
     .also = "or launch less: fused/foreach optimizer, larger batch"},
    {AORTA_CAUSE_HOST_LAUNCH, TORCH | COMPILED, .text = capture_step, .also = "or a larger batch"},
    {AORTA_CAUSE_HOST_LAUNCH, DIRECTIVES,
     .text = "queue loops and updates and wait once: OpenACC's async, OpenMP's nowait and depend",
     .also = "or launch less: fewer, larger loops (collapse)"},
    {AORTA_CAUSE_HOST_LAUNCH, NATIVE,
     .text = "capture the launches in a graph (cudaStreamBeginCapture, hipStreamBeginCapture)",
     .also = "or launch less: fewer, larger kernels"},
    {AORTA_CAUSE_LAUNCH_LATENCY, SPARSE, LARGER_BATCH, .text = "fewer, larger operations"},
    {AORTA_CAUSE_LAUNCH_LATENCY, OURS, .key = "compile.enabled", .value = "true", .unless = "device.kind=cpu",
     .text = "operations of a graph start sooner"},
    {AORTA_CAUSE_LAUNCH_LATENCY, OURS, .key = "training.batch_size", .value = aorta_advice_larger,
     .unless = "device.kind=cpu", .text = "fewer, larger operations"},
    {AORTA_CAUSE_LAUNCH_LATENCY, OURS | SPARSE, .when = {AORTA_FACT_GRAPH_GAPS},
     .text = "larger operations (batch size); on the CPU leave one core free for the streams' threads"},
    {AORTA_CAUSE_LAUNCH_LATENCY, OURS | SPARSE, .text = "compile.enabled=true, or larger operations (batch size)",
     .also = "on the CPU leave one core free for the streams' threads"},
    {AORTA_CAUSE_LAUNCH_LATENCY, OTHERS, .when = {AORTA_FACT_RECURS, AORTA_FACT_HOST_FUNCTIONS},
     .text = "queue functions of the host (cudaLaunchHostFunc) on a stream of their own, behind an event",
     .also = "or see what else the stream waits for: an event, graphics, another process"},
    {AORTA_CAUSE_LAUNCH_LATENCY, OTHERS, .when = {AORTA_FACT_RECURS},
     .text = "see what the stream waits for: an event, cudaLaunchHostFunc, graphics, another process"},
    {AORTA_CAUSE_LAUNCH_LATENCY, OTHERS,
     .text = "record after a warm-up step (kernels load at first use); see what the stream waits for"},
    {AORTA_CAUSE_HOST_SYNC, SPARSE, PIPELINED,
     .text = "the host waits for numbers of ids while the device works on the previous batch"},
    {AORTA_CAUSE_HOST_SYNC, SPARSE, LARGER_BATCH, .text = "the host has to run ahead less"},
    {AORTA_CAUSE_HOST_SYNC, OURS, .key = "profiling.enabled", .value = "false", .unless = "profiling.enabled!=true",
     .text = "the host waits for the tracer at the end of each cycle"},
    {AORTA_CAUSE_HOST_SYNC, OURS, .when = {AORTA_FACT_WAITS},
     .text = "no waits within the step: training.inject and training.inject_allreduce_copies plant them"},
    {AORTA_CAUSE_HOST_SYNC, OURS, .key = "training.batch_size", .value = aorta_advice_larger,
     .text = "more work in a step, at whose end the host waits"},
    {AORTA_CAUSE_HOST_SYNC, OURS | SPARSE,
     .text =
         "more work per step (batch size, training.gradient_accumulation), fewer profiling cycles (profiling.repeat)"},
    {AORTA_CAUSE_HOST_SYNC, XLA,
     .text =
         "read values a step later, or every tenth: float(loss), np.asarray and block_until_ready wait for the device"},
    {AORTA_CAUSE_HOST_SYNC, CUPY,
     .text =
         "take the waits out of the step: .get(), float(array), cupy.asnumpy, stream.synchronize, indexing by a mask"},
    {AORTA_CAUSE_HOST_SYNC, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_CONVOLUTION_SEARCH},
     .text = "record after warm-up steps: convolutions try their algorithms once for each size",
     .also = "or fewer sizes of input, or torch.backends.cudnn.benchmark=False"},
    {AORTA_CAUSE_HOST_SYNC, TORCH | COMPILED, .when = {AORTA_FACT_SYNC_NORMS},
     .text = "batch norms of each rank alone where its batch is large enough (no convert_sync_batchnorm)",
     .also = "or norms that need no other samples: GroupNorm, LayerNorm"},
    {AORTA_CAUSE_HOST_SYNC, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_CHECKS},
     .text = "no check in each step: torch.autograd.set_detect_anomaly(False), no isnan().any(), all(), equal()",
     .also = "or check seldom: the loss every hundredth step, whether a text has ended every tenth token"},
    {AORTA_CAUSE_HOST_SYNC, TORCH | COMPILED | TRITON, .when = {AORTA_FACT_EXPERTS}, .text = grouped_experts},
    {AORTA_CAUSE_HOST_SYNC, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_SELECTS},
     .text = "fixed shapes instead of x[mask] and nonzero(): torch.where, weights of 0 and 1, nonzero_static",
     .also = "or one mask for the whole batch instead of one for each sample"},
    {AORTA_CAUSE_HOST_SYNC, COMPILED, .when = {AORTA_FACT_MANY_VALUES},
     .text = "no .item(), print or branch on a value in compiled code: each breaks its graph (TORCH_LOGS=graph_breaks)",
     .also = "or torch.where, torch.cond; all values in one tensor, copied once"},
    {AORTA_CAUSE_HOST_SYNC, TORCH | SERVING | TRITON, .when = {AORTA_FACT_MANY_VALUES},
     .text = "keep values on the device and copy them together: torch.stack(values).tolist(), every hundredth step",
     .also = "or take out other waits: .cpu(), print(tensor), nonzero, boolean masks, torch.cuda.synchronize"},
    {AORTA_CAUSE_HOST_SYNC, TORCH | COMPILED | SERVING | TRITON,
     .text = "take the waits out of the step: .item(), .cpu(), print(tensor), torch.cuda.synchronize",
     .also = "or shapes that depend on data (nonzero, boolean masks), copies without non_blocking=True"},
    {AORTA_CAUSE_HOST_SYNC, NATIVE, .when = {AORTA_FACT_VALUES},
     .text = "read the value every tenth iteration, or keep the loop on the device, in one kernel",
     .also = "or in a graph with a conditional node (CUDA 12.4)"},
    {AORTA_CAUSE_HOST_SYNC, DIRECTIVES,
     .text = "one wait after several loops: OpenACC's async and wait, OpenMP's nowait and taskwait"},
    {AORTA_CAUSE_HOST_SYNC, NATIVE,
     .text = "take synchronize calls and blocking copies out of the step; use events between streams"},
    {AORTA_CAUSE_HOST_PAUSE, OURS | SPARSE,
     .text = "find what the host does: files, sockets, locks, other processes on its cores"},
    {AORTA_CAUSE_HOST_PAUSE, TORCH | COMPILED, .when = {AORTA_FACT_ONE_PROCESS}, .text = process_per_device},
    {AORTA_CAUSE_HOST_PAUSE, ANY, .when = {AORTA_FACT_PAUSE_LOAD},
     .text = "record after warm-up steps, in which all kernels run once",
     .also = "or load kernels at the start: CUDA_MODULE_LOADING=EAGER, HIP_ENABLE_DEFERRED_LOADING=0"},
    {AORTA_CAUSE_HOST_PAUSE, XLA, .when = {AORTA_FACT_PAUSE_COMPILED},
     .text = "compile once: jit outside the loop, the same shapes and static arguments (JAX_LOG_COMPILES=1 names them)",
     .also = "or record after warm-up steps, in which all is compiled once"},
    {AORTA_CAUSE_HOST_PAUSE, ANY, .when = {AORTA_FACT_PAUSE_COMPILED},
     .text = "record after warm-up steps, in which all kernels are compiled once",
     .also = "if kernels are compiled again later, keep sizes and types the same"},
    {AORTA_CAUSE_HOST_PAUSE, TORCH | COMPILED, .when = {AORTA_FACT_PAUSE_SAVE},
     .text =
         "save checkpoints in the background (torch.distributed.checkpoint.async_save, Lightning's AsyncCheckpointIO)",
     .also = "or less often (save_steps, every_n_train_steps)"},
    {AORTA_CAUSE_HOST_PAUSE, TORCH | COMPILED, .when = {AORTA_FACT_PAUSE_OFFLOAD},
     .text = "keep the optimizer on the device (CPUOffloadPolicy, DeepSpeed offload) where memory allows",
     .also = "or a fused CPU optimizer (AdamW fused=True) with more threads (OMP_NUM_THREADS; torchrun sets it to 1)"},
    {AORTA_CAUSE_HOST_PAUSE, ANY, .when = {AORTA_FACT_PAUSE_INSTANTIATES},
     .text = "instantiate the graph once and launch it again",
     .also = "or update it where its arguments change (cudaGraphExecUpdate, hipGraphExecUpdate)"},
    {AORTA_CAUSE_HOST_PAUSE, NATIVE, .when = {AORTA_FACT_PAUSE_EXCHANGE},
     .text = "compute what needs no data of other ranks meanwhile: MPI_Isend, MPI_Irecv, a stream for the border",
     .also = "or NCCL or RCCL, or an MPI that reads device memory (CUDA-aware)"},
    {AORTA_CAUSE_HOST_PAUSE, ANY, .when = {AORTA_FACT_PAUSE_RESULT},
     .text = "do on the device what the host does with the copy",
     .also = "or do it a step later or in another thread, while the device goes on"},
    {AORTA_CAUSE_HOST_PAUSE, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_PAUSE_PLANS},
     .text = "pad to a few fixed sizes, for which cuDNN and MIOpen plan only once"},
    {AORTA_CAUSE_HOST_PAUSE, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_PAUSE_MEMORY},
     .text = "record after warm-up steps, in which the allocator fills its cache",
     .also = "or a few fixed sizes of tensors; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    {AORTA_CAUSE_HOST_PAUSE, ANY, .when = {AORTA_FACT_PAUSE_COMPUTES},
     .text = "make the host's code there faster (perf shows it), or run it in another thread or on the GPU"},
    {AORTA_CAUSE_HOST_PAUSE, TORCH | COMPILED | TRITON, .when = {AORTA_FACT_PAUSE_SIZES},
     .text = "pad to a few fixed sizes, for which cuDNN, Triton and torch.compile plan only once",
     .also = "or find what the host does: sleep, file or socket, garbage collection (gc.freeze), lock"},
    {AORTA_CAUSE_HOST_PAUSE, XLA,
     .text = "see whether jit compiles again (JAX_LOG_COMPILES=1): pad to a few fixed sizes",
     .also = "or find what the host does: sleep, file or socket, garbage collection (gc.freeze), lock"},
    {AORTA_CAUSE_HOST_PAUSE, TORCH | COMPILED | SERVING | CUPY | TRITON,
     .text = "find what the host does: sleep, file, lock, garbage collection (gc.freeze), or who shares its cores"},
    {AORTA_CAUSE_HOST_PAUSE, NATIVE, .when = {AORTA_FACT_PAUSE_MANAGED},
     .text = "move managed memory before the host touches it (cudaMemPrefetchAsync), or copy device memory instead",
     .also = "or find what else the host does: sleep, file, lock, other processes on its cores"},
    {AORTA_CAUSE_HOST_PAUSE, NATIVE,
     .text = "find what the host does: sleep, file or socket, lock, other processes on its cores"},
    {AORTA_CAUSE_HOST_COLLECTIVE, NATIVE, .text = "use NCCL or RCCL, or an MPI that reads device memory (CUDA-aware)",
     .also = "or overlap it: MPI_Isend/MPI_Irecv and compute before MPI_Wait"},
    {AORTA_CAUSE_HOST_COLLECTIVE, ANY, .text = "backend \"nccl\" instead of gloo, one device per rank",
     .also = "or fewer bytes with gloo: bf16_compress_hook, no_sync() during gradient accumulation"},
    {AORTA_CAUSE_ALLOCATION, OURS | SPARSE, .text = "allocate once, before the steps"},
    {AORTA_CAUSE_ALLOCATION, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_CACHE_EMPTIED},
     .text = "less memory: a smaller batch, checkpointing, no other process on the GPU (see num_alloc_retries in "
             "torch.cuda.memory_stats())",
     .also = "or less fragmentation: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    {AORTA_CAUSE_ALLOCATION, NATIVE, .when = {AORTA_FACT_LIBRARY_STARTS},
     .text = "create handles of libraries once, at the start of the program (cublasCreate, cusolverDnCreate)",
     .also = "record the work that follows"},
    {AORTA_CAUSE_ALLOCATION, NATIVE, .when = {AORTA_FACT_NO_STEPS},
     .text = "allocate once, before the work, or from a pool (cudaMallocAsync)",
     .also = "the first allocation starts the driver: record later work"},
    {AORTA_CAUSE_ALLOCATION, OTHERS | CUPY | TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_NO_STEPS},
     .text = "record after warm-up steps: libraries start in the first one (cuDNN, cuBLAS), and caches fill",
     .also = "if steps allocate, too: buffers that are made once"},
    {AORTA_CAUSE_ALLOCATION, CUPY,
     .text = "keep device memory: CuPy's memory pool, no free_all_blocks in the step, out= for results"},
    {AORTA_CAUSE_ALLOCATION, TORCH | COMPILED | SERVING | TRITON,
     .text = "no torch.cuda.empty_cache in the step, no PYTORCH_NO_CUDA_MEMORY_CACHING",
     .also = "or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and pinned buffers that are made once"},
    {AORTA_CAUSE_ALLOCATION, OTHERS,
     .text = "allocate device memory once, before the steps, or from a pool (cudaMallocAsync)"},
    {AORTA_CAUSE_DATA_WAIT, OURS, .key = "dataloader.device", .value = "auto", .unless = "dataloader.device!=host",
     .text = "the GPU makes its batches"},
    {AORTA_CAUSE_DATA_WAIT, OURS, .key = "dataloader.num_workers", .value = aorta_advice_larger,
     .text = "more batches in advance"},
    {AORTA_CAUSE_DATA_WAIT, OURS | SPARSE, .text = "a larger dataloader.num_workers, for more batches in advance"},
    {AORTA_CAUSE_DATA_WAIT, CUPY, .when = {AORTA_FACT_PAUSE_INPUT},
     .text = "make the input on the device (cupy.random), or ahead of time in a thread"},
    {AORTA_CAUSE_DATA_WAIT, TORCH | COMPILED, .when = {AORTA_FACT_PAUSE_INPUT},
     .text = "prepare batches in DataLoader workers (num_workers, prefetch_factor), or on the device",
     .also = "or find what else the host does before the copy: garbage collection (gc.freeze), file, lock"},
    {AORTA_CAUSE_DATA_WAIT, TORCH | COMPILED | SERVING | TRITON,
     .text = "more DataLoader workers, a larger prefetch_factor, pin_memory=True",
     .also = "or less work per sample in the loader"},
    {AORTA_CAUSE_DATA_WAIT, OTHERS, .text = "prepare more batches in advance, in threads or processes"},
    {AORTA_CAUSE_COPY, SPARSE, PIPELINED, .text = "batches are copied during the previous steps"},
    {AORTA_CAUSE_COPY, SPARSE, LARGER_BATCH, .text = "more compute for each copy"},
    {AORTA_CAUSE_COPY, OURS, .key = "distributed.gradient_as_bucket_view", .value = "true",
     .unless = "distributed.mode=fsdp distributed.gradient_as_bucket_view!=false",
     .text = "gradients are made where they are reduced"},
    {AORTA_CAUSE_COPY, OURS, .key = "distributed.overlap_clone_for_reduce_scatter", .value = "false",
     .unless = "distributed.mode=fsdp distributed.overlap_reduce_scatter!=true", .text = "no clones of buckets"},
    {AORTA_CAUSE_COPY, OURS, .key = "workload.async_wait", .value = "false", .unless = "workload.async_wait!=true",
     .text = "a stress scenario that training does not need"},
    {AORTA_CAUSE_COPY, OURS, .key = "dataloader.device", .value = "auto", .unless = "dataloader.device!=host",
     .text = "the GPU makes its batches, so nothing is copied"},
    {AORTA_CAUSE_COPY, OURS, .key = "dataloader.pin_memory", .value = "true",
     .text = "copy batches during the previous step"},
    {AORTA_CAUSE_COPY, OURS, .key = "streams.assignment.prefetch", .value = "reducescatter",
     .unless = "compile.enabled=true", .text = "a less busy stream copies the input sooner"},
    {AORTA_CAUSE_COPY, OURS | SPARSE, .text = "dataloader.pin_memory=true (copy batches during the previous step)"},
    {AORTA_CAUSE_COPY, OTHERS, .when = {AORTA_FACT_FILLS},
     .text = "fill only what is read before it is written, or fill it in the kernel that follows"},
    {AORTA_CAUSE_COPY, NATIVE, .when = {AORTA_FACT_PARAMETERS},
     .text = "pass parameters as arguments of kernels (up to 4 KB) instead of copying them before each launch"},
    {AORTA_CAUSE_COPY, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_SMALL_COPIES},
     .text = "one copy instead of many: torch.cat or torch.stack on the host, then .to(device, non_blocking=True)"},
    {AORTA_CAUSE_COPY, OTHERS, .when = {AORTA_FACT_SMALL_COPIES},
     .text = "one copy instead of many: put the values into one pinned buffer first"},
    {AORTA_CAUSE_COPY, CUPY, .when = {AORTA_FACT_NO_STEPS},
     .text = "pinned memory (cupyx.empty_pinned), array.set in parts on a separate stream: kernels start on the first"},
    {AORTA_CAUSE_COPY, CUPY,
     .text =
         "pinned memory (cupyx.empty_pinned), array.set and .get(blocking=False) on a separate stream, one step ahead"},
    {AORTA_CAUSE_COPY, OTHERS | TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_COPIES_RETURN},
     .text = "keep on the device what is copied to the host and back, as tables and optimizer states",
     .also = "or do the host's part in another thread, while the device goes on"},
    {AORTA_CAUSE_COPY, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_COPIES_OUT},
     .text = "copy results into pinned memory (pin_memory=True) with non_blocking=True, and read them a step later",
     .also = "or make them smaller on the GPU first: argmax, sums, 16 bits"},
    {AORTA_CAUSE_COPY, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_HOST_WAITS},
     .text = "pin_memory=True and .to(device, non_blocking=True) for input",
     .also = "to the host: one copy per step, read a step later, instead of .item() and .cpu()"},
    {AORTA_CAUSE_COPY, OTHERS, .when = {AORTA_FACT_PEER_COPIES, AORTA_FACT_OVERLAP_LIMIT},
     .text = "fewer, larger copies, in both directions at once, and more work of the GPUs for each copy"},
    {AORTA_CAUSE_COPY, OTHERS, .when = {AORTA_FACT_PEER_COPIES},
     .text =
         "start the copies between GPUs earlier, on a stream of their own: fetch for the next layer during this one"},
    {AORTA_CAUSE_COPY, OTHERS, .when = {AORTA_FACT_PAGE_READS},
     .text = "compute on the GPU what the host computes from these pages, or launch more work first",
     .also = "or cudaMemPrefetchAsync before kernels, and to cudaCpuDeviceId before reads: no page faults"},
    {AORTA_CAUSE_COPY, OTHERS, .when = {AORTA_FACT_MIGRATIONS},
     .text = "move pages of unified memory ahead of their use with cudaMemPrefetchAsync",
     .also = "or keep data that both sides only read on both: cudaMemAdviseSetReadMostly"},
    {AORTA_CAUSE_COPY, DIRECTIVES, .when = {AORTA_FACT_COPIES_ONCE},
     .text = "copies in parts (OpenACC's async, OpenMP's nowait), from pinned memory (nvc: -gpu=pinned)",
     .also = "or more work for each copy, fewer bytes (smaller types)"},
    {AORTA_CAUSE_COPY, NATIVE, .when = {AORTA_FACT_COPIES_ONCE},
     .text = "copies in parts on separate streams, from pinned memory (cudaHostAlloc, hipHostMalloc)",
     .also = "or more work for each copy, fewer bytes (smaller types)"},
    {AORTA_CAUSE_COPY, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_COPIES_ONCE},
     .text = "pin_memory=True and .to(device, non_blocking=True) on a separate stream, in parts",
     .also = "or fewer bytes: 16 bits, quantized weights"},
    {AORTA_CAUSE_COPY, DIRECTIVES, .when = {AORTA_FACT_OVERLAP_LIMIT},
     .text = "keep the data on the GPU between loops: OpenACC's data region, OpenMP's target data",
     .also = "or copy only what changed (update)"},
    {AORTA_CAUSE_COPY, NATIVE, .when = {AORTA_FACT_OVERLAP_LIMIT, AORTA_FACT_PAGEABLE},
     .text = "keep the data on the GPU between kernels",
     .also = "or keep input and results in pinned memory (cudaHostAlloc, hipHostMalloc)"},
    {AORTA_CAUSE_COPY, NATIVE, .when = {AORTA_FACT_OVERLAP_LIMIT}, .text = "keep the data on the GPU between kernels",
     .also = "or copy only what changed"},
    {AORTA_CAUSE_COPY, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_OVERLAP_LIMIT, AORTA_FACT_PAGEABLE},
     .text = keep_on_gpu,
     .also = "or copy it from pinned memory (pin_memory=True), which is faster, and fewer bytes (16 bits)"},
    {AORTA_CAUSE_COPY, OTHERS, .when = {AORTA_FACT_OVERLAP_LIMIT}, .text = keep_on_gpu,
     .also = "or copy fewer bytes: 16 bits, quantized weights, a larger batch per copy of the weights"},
    {AORTA_CAUSE_COPY, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_COPIES_WITHIN},
     .text = "fewer copies within the GPU: no .clone() or .contiguous(), results written in place (out=)",
     .also = "or torch.compile(model), which fuses copies into other kernels"},
    {AORTA_CAUSE_COPY, XLA, .when = {AORTA_FACT_COPIES_WITHIN},
     .text = "unroll loops whose iterations copy little: lax.scan(…, unroll=8), lax.fori_loop(…, unroll=8)",
     .also = "or arguments that the results may overwrite (donate_argnums)"},
    {AORTA_CAUSE_COPY, OTHERS, .when = {AORTA_FACT_COPIES_WITHIN},
     .text = "fewer copies within the GPU: let kernels read and write the final buffers"},
    {AORTA_CAUSE_COPY, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_NO_STEPS},
     .text = "pin_memory=True and .to(device, non_blocking=True) on a separate stream, in parts: kernels start on the "
             "first"},
    {AORTA_CAUSE_COPY, OTHERS, .when = {AORTA_FACT_NO_STEPS},
     .text = "asynchronous copies from pinned memory on a separate stream, in parts: kernels start on the first part"},
    {AORTA_CAUSE_COPY, TORCH | COMPILED | SERVING | TRITON,
     .text = "pin_memory=True and .to(device, non_blocking=True) on a separate stream, one step ahead"},
    {AORTA_CAUSE_COPY, OTHERS, .text = "asynchronous copies from pinned memory on a separate stream, one step ahead"},
    {AORTA_CAUSE_PIPELINE_BUBBLE, ANY, .when = {AORTA_FACT_HOST_LIMITS},
     .text = "first launch less for each micro-batch: capture it in a graph, compile it, or fuse its kernels",
     .also = "or an interleaved (virtual stages) or zero-bubble schedule"},
    {AORTA_CAUSE_PIPELINE_BUBBLE, ANY, .when = {AORTA_FACT_SPLIT_BACKWARD},
     .text = "more, smaller micro-batches per step", .also = "or a longer warm-up (ZB-H2), which needs more memory"},
    {AORTA_CAUSE_PIPELINE_BUBBLE, ANY, .when = {AORTA_FACT_MODEL_PARTS}, .text = "more, smaller micro-batches per step",
     .also = "or a zero-bubble schedule, or more parts on each rank"},
    {AORTA_CAUSE_PIPELINE_BUBBLE, ANY, .text = "more, smaller micro-batches per step",
     .also = "or an interleaved (virtual stages) or zero-bubble schedule"},
    {AORTA_CAUSE_STRAGGLER, ANY, .when = {AORTA_FACT_OWN_WORK},
     .text = "batches of equal work: samples sorted by length, a sampler that balances tokens, fixed padded sizes"},
    {AORTA_CAUSE_STRAGGLER, ANY, .when = {AORTA_FACT_LATE_CHANGES, AORTA_FACT_UNEQUAL_WORK},
     .text = "batches of equal work: samples sorted by length, a sampler that balances tokens, fixed padded sizes"},
    {AORTA_CAUSE_STRAGGLER, ANY, .when = {AORTA_FACT_LATE_CHANGES},
     .text = "batches of equal work if they differ in size (sorted lengths, a sampler by tokens)",
     .also = "or cores and a device for each rank alone"},
    {AORTA_CAUSE_STRAGGLER, ANY, .when = {AORTA_FACT_LATE_DEVICE, AORTA_FACT_UNEQUAL_WORK},
     .text = "balance the work of {rank}: experts (balancing loss, capacity), tokens per batch, equal stages"},
    {AORTA_CAUSE_STRAGGLER, ANY, .when = {AORTA_FACT_LATE_DEVICE, AORTA_FACT_MORE_RUNS},
     .text = "see why {rank} runs kernels that the other ranks do not run, and give all ranks the same work"},
    {AORTA_CAUSE_STRAGGLER, ANY, .when = {AORTA_FACT_LATE_DEVICE},
     .text = "see what slows the device of {rank}: clocks, temperature, other processes"},
    {AORTA_CAUSE_STRAGGLER, ANY,
     .text = "see what delays the host of {rank}: data loading, other processes, core binding"},
    {AORTA_CAUSE_SLOW_COLLECTIVE, OURS | SPARSE,
     .text = "see what else uses the link or, with host collectives, the cores: leave a core free for communication"},
    {AORTA_CAUSE_SLOW_COLLECTIVE, NATIVE | TORCH | COMPILED | SERVING | XLA | CUPY | TRITON,
     .text = "NCCL_DEBUG=INFO shows channels, transport and algorithm; NCCL_MIN_CTAS raises the channels",
     .also = "or see what else uses the link"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, OURS | SPARSE, .key = "streams.count", .value = "4",
     .unless = "streams.count=2 streams.count=3", .text = "a stream for each role"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, OURS, .collective = 1 + AORTA_ALL_GATHER, .key = "streams.assignment.all_gather",
     .value = "aux", .unless = "streams.assignment.all_gather!=compute", .text = "not the compute stream"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, OURS, .collective = 1 + AORTA_REDUCE_SCATTER,
     .key = "streams.assignment.reduce_scatter", .value = "reducescatter",
     .unless = "streams.assignment.reduce_scatter!=compute", .text = "not the compute stream"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, OURS, .collective = 1 + AORTA_ALL_REDUCE, .key = "streams.assignment.all_reduce",
     .value = "allreduce", .unless = "streams.assignment.all_reduce!=compute", .text = "not the compute stream"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, OURS, .collective = 1 + AORTA_ALL_REDUCE, .key = "streams.assignment.optimizer",
     .value = "aux", .unless = "streams.assignment.optimizer!=compute", .text = "not the compute stream"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, OURS | SPARSE,
     .text = "a separate stream for communication (streams.count=4, streams.assignment)"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, XLA,
     .text = "XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true (asynchronous collectives on their own stream)"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, TORCH | COMPILED | SERVING, .when = {AORTA_FACT_OWN_STREAM},
     .text = "async_op=True, and wait() only where the result is needed: then NCCL has a stream of its own",
     .also = "or issue it within torch.cuda.stream(torch.cuda.Stream())"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, OTHERS, .when = {AORTA_FACT_OWN_STREAM},
     .text = "run the collective on a stream of its own; events order it with the compute that needs it"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, OTHERS, .text = "run collectives on a separate stream with high priority",
     .also = "or CUDA_DEVICE_MAX_CONNECTIONS above 1, GPU_MAX_HW_QUEUES on ROCm"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, SPARSE, .collective = 1 + AORTA_ALL_TO_ALL, PIPELINED,
     .text = "exchange the ids of the next batch during this one"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, SPARSE, .collective = 1 + AORTA_ALL_TO_ALL, .key = "RunOptions.sharding_type",
     .value = aorta_advice_another, .text = "other rows and ids travel"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, SPARSE, LARGER_BATCH, .text = "more compute for each exchange"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, XLA, .text = "XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true",
     .also = "and smaller pieces: --xla_gpu_all_reduce_combine_threshold_bytes, likewise all_gather, reduce_scatter"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .key = "distributed.enable_overlap", .value = "true",
     .text = "run collectives during compute"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_ALL_GATHER, .key = "fsdp.forward_prefetch",
     .value = "true", .text = "gather the next layer during this one"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_ALL_GATHER, .key = "fsdp.backward_prefetch",
     .value = "BACKWARD_PRE", .unless = "fsdp.sharding_strategy=shard_grad_op",
     .text = "gather for backward before it is needed"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_ALL_GATHER, .key = "fsdp.use_orig_params",
     .value = "false", .unless = no_gpu_links, .text = "one piece per layer, not one per parameter"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_ALL_GATHER, .key = "fsdp.symmetric_memory",
     .value = "true", .unless = no_gpu_links,
     .text = "NCCL reads the memory of other GPUs; with fsdp.use_orig_params=false"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_ALL_GATHER, .key = "fsdp.sharding_strategy",
     .value = "shard_grad_op", .text = "gather once per step, for more memory"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_ALL_GATHER, .key = "training.batch_size",
     .value = aorta_advice_larger, .text = "more compute per gather"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_REDUCE_SCATTER, .key = "fsdp.use_orig_params",
     .value = "false", .unless = no_gpu_links, .text = "one piece per layer, not one per parameter"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_REDUCE_SCATTER, .key = "fsdp.symmetric_memory",
     .value = "true", .unless = no_gpu_links,
     .text = "NCCL reads the memory of other GPUs; with fsdp.use_orig_params=false"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_REDUCE_SCATTER,
     .key = "distributed.overlap_reduce_scatter", .value = "false", .unless = "distributed.mode=fsdp",
     .text = "extra load on the links that training does not need"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_REDUCE_SCATTER, .key = "training.batch_size",
     .value = aorta_advice_larger, .text = "more compute per reduction"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_REDUCE_SCATTER, .key = "fsdp.sharding_strategy",
     .value = "hybrid_shard", .text = "reduce within a node first; with fsdp.hybrid_shard_gpus_per_node"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_ALL_REDUCE, .key = "distributed.bucket_cap_mb",
     .value = aorta_advice_smaller, .unless = "distributed.mode=fsdp", .text = "smaller buckets start earlier"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_ALL_REDUCE, .key = "training.gradient_accumulation",
     .value = aorta_advice_larger, .unless = "fsdp.sharding_strategy=hybrid_shard", .text = "reduce less often"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_ALL_GATHER,
     .text = "fsdp.forward_prefetch=true, fsdp.backward_prefetch=BACKWARD_PRE (gather ahead)",
     .also = "or fsdp.sharding_strategy=shard_grad_op (gather once)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_REDUCE_SCATTER,
     .text = "a larger training.batch_size or training.gradient_accumulation",
     .also = "or fsdp.sharding_strategy=hybrid_shard"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_ALL_REDUCE,
     .text = "a smaller distributed.bucket_cap_mb, distributed.enable_overlap=true",
     .also = "or training.gradient_accumulation (reduce less often)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OURS, .collective = 1 + AORTA_BROADCAST,
     .text = "broadcast once at the start (fsdp.sync_module_states), not in the step"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, SERVING, .when = {AORTA_FACT_ACTIVATIONS},
     .text = "faster small reductions: kernels over symmetric memory, fused with the norm that follows",
     .also = "or fewer tensor-parallel ranks, two half batches that overlap"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, OTHERS, .when = {AORTA_FACT_ACTIVATIONS},
     .text = "split it and the products around it, so that one part moves while the other is computed",
     .also = "as asynchronous tensor parallelism (PyTorch) and tp-comm-overlap (Megatron) do"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, TORCH | COMPILED, .when = {AORTA_FACT_GAIN_OF_ONE},
     .text = "fewer, larger collectives: one flat tensor for many (torch.cat), bucket_cap_mb=25 and more (DDP)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, TORCH | COMPILED, .when = {AORTA_FACT_GATHERED_AGAIN},
     .text = "keep parameters gathered until the last micro-batch, if memory allows: reshard_after_forward=False and "
             "set_reshard_after_backward(False)",
     .also = "or fewer, larger micro-batches"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, TORCH | COMPILED, .collective = 1 + AORTA_ALL_GATHER, .when = {AORTA_FACT_SHARDED},
     .text =
         "gather ahead: forward_prefetch=True, backward_prefetch=BACKWARD_PRE (FSDP2: set_modules_to_forward_prefetch)",
     .also = "or keep parameters gathered: reshard_after_forward=False"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, TORCH | COMPILED, .collective = 1 + AORTA_REDUCE_SCATTER,
     .when = {AORTA_FACT_REDUCED_AGAIN},
     .text =
         "reduce once per step: set_requires_gradient_sync(False) (FSDP1: no_sync()) for all but the last micro-batch"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, TORCH | COMPILED, .collective = 1 + AORTA_REDUCE_SCATTER,
     .when = {AORTA_FACT_SHARDED}, .text = "more compute per reduction: a larger batch, gradient accumulation",
     .also = "or reduce within a node first (HSDP)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, TORCH | COMPILED, .collective = 1 + AORTA_ALL_REDUCE,
     .when = {AORTA_FACT_REDUCED_AGAIN},
     .text = "reduce once per step: model.no_sync() around all but the last micro-batch",
     .also = "or set_requires_gradient_sync(False) (FSDP2)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, TORCH | COMPILED, .collective = 1 + AORTA_ALL_REDUCE,
     .text = "start earlier: a smaller bucket_cap_mb, gradient_as_bucket_view=True",
     .also = "or reduce less often: gradient accumulation"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, TORCH | COMPILED, .collective = 1 + AORTA_BROADCAST,
     .text = "broadcast once at the start, not in the step (DDP: broadcast_buffers=False)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, TORCH | COMPILED, .collective = 1 + AORTA_ALL_TO_ALL, .when = {AORTA_FACT_SENDS},
     .text = "post isend and irecv early; more micro-batches between stages"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, SERVING, .text = "fewer, larger exchanges: more requests per step",
     .also = "or overlap two half batches (vLLM --enable-dbo, SGLang --enable-two-batch-overlap)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, ANY, .collective = 1 + AORTA_ALL_TO_ALL,
     .text = "split the exchange and compute on the first part during the second"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, ANY, .collective = 1 + AORTA_BARRIER, .text = "take barriers out of the step"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, ANY,
     .text = "start it earlier, on a separate stream, so that compute can run at the same time"},
    {AORTA_CAUSE_CONTENTION, OURS | SPARSE, .when = {AORTA_FACT_POWER_LIMIT},
     .text = "save energy first (fewer passes over memory, fewer bits): at the power limit more multiprocessors lower "
             "the clock"},
    {AORTA_CAUSE_CONTENTION, OURS | SPARSE, .key = "NCCL_MAX_CTAS", .value = aorta_advice_smaller,
     .unless = no_gpu_links, .text = "fewer channels leave multiprocessors to GEMMs; weigh it against the time hidden"},
    {AORTA_CAUSE_CONTENTION, OURS | SPARSE, .text = "fewer compute threads on the CPU",
     .also = "or fewer channels (NCCL_MAX_CTAS) on a GPU"},
    {AORTA_CAUSE_CONTENTION, OTHERS, .text = "fewer channels (NCCL_MAX_CTAS), GEMMs that leave multiprocessors free",
     .also = "weigh it against the time hidden"},
    {AORTA_CAUSE_PRECISION, OURS | SPARSE, .remedy = "precision=tf32",
     .text = "training.mixed_precision=tf32 (sparse pipeline: device.allow_tf32=true)"},
    {AORTA_CAUSE_PRECISION, OURS | SPARSE, .text = "training.mixed_precision=bf16"},
    {AORTA_CAUSE_PRECISION, XLA, .remedy = "precision=fp32",
     .text = "float32 where its digits are enough: jax_enable_x64 off, jnp.float32 arrays"},
    {AORTA_CAUSE_PRECISION, XLA, .remedy = "precision=tf32",
     .text = "jax.config.update(\"jax_default_matmul_precision\", \"tensorfloat32\")"},
    {AORTA_CAUSE_PRECISION, XLA,
     .text = "parameters and activations in jnp.bfloat16 (flax: dtype=jnp.bfloat16), sums in fp32"},
    {AORTA_CAUSE_PRECISION, CUPY, .remedy = "precision=tf32", .text = "CUPY_TF32=1 in the environment"},
    {AORTA_CAUSE_PRECISION, CUPY, .text = "arrays in float16 where the range allows, sums in fp32"},
    {AORTA_CAUSE_PRECISION, TORCH | COMPILED | SERVING | TRITON, .remedy = "precision=tf32", .when = {AORTA_FACT_AMD},
     .text = "torch.set_float32_matmul_precision(\"high\") with HIPBLASLT_ALLOW_TF32=1 in the environment (MI300)"},
    {AORTA_CAUSE_PRECISION, TORCH | COMPILED | SERVING | TRITON, .remedy = "precision=tf32",
     .when = {AORTA_FACT_ALL_FP64},
     .text = "float32 tensors and TF32 products: tensor.float(), torch.set_float32_matmul_precision(\"high\")"},
    {AORTA_CAUSE_PRECISION, TORCH | COMPILED | SERVING | TRITON, .remedy = "precision=tf32",
     .text = "torch.set_float32_matmul_precision(\"high\"); torch.backends.cudnn.allow_tf32 = True"},
    {AORTA_CAUSE_PRECISION, TORCH | COMPILED | SERVING | TRITON, .remedy = "precision=fp32",
     .text =
         "float32 tensors: torch.as_tensor(array, dtype=torch.float32), tensor.float(); NumPy's default is float64"},
    {AORTA_CAUSE_PRECISION, TORCH | COMPILED | SERVING | TRITON, .remedy = "precision=fp8",
     .text = "torchao float8 training, Transformer Engine; check the loss"},
    {AORTA_CAUSE_PRECISION, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_WITH_ATTENTION},
     .text = "torch.autocast(\"cuda\", dtype=torch.bfloat16) around forward and loss",
     .also = "with torch.nn.functional.scaled_dot_product_attention"},
    {AORTA_CAUSE_PRECISION, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_NO_BF16, AORTA_FACT_NO_GRADIENTS},
     .text = "model.half() with inputs in float16, or torch.autocast(\"cuda\", dtype=torch.float16)"},
    {AORTA_CAUSE_PRECISION, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_NO_BF16},
     .text = "torch.autocast(\"cuda\", dtype=torch.float16) with torch.amp.GradScaler; transformers: fp16=True"},
    {AORTA_CAUSE_PRECISION, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_NO_GRADIENTS},
     .text = "model.to(torch.bfloat16) with inputs in bfloat16, or torch.autocast(\"cuda\", dtype=torch.bfloat16)"},
    {AORTA_CAUSE_PRECISION, TORCH | COMPILED | SERVING | TRITON,
     .text = "torch.autocast(\"cuda\", dtype=torch.bfloat16) around forward and loss; transformers: bf16=True"},
    {AORTA_CAUSE_PRECISION, NATIVE, .remedy = "precision=tf32",
     .text = "TF32 as compute type: CUBLAS_COMPUTE_32F_FAST_TF32, HIPBLAS_COMPUTE_32F_FAST_TF32"},
    {AORTA_CAUSE_PRECISION, NATIVE, .text = "matrices of 16 bits with sums in fp32: CUDA_R_16BF, CUBLAS_COMPUTE_32F"},
    {AORTA_CAUSE_ALIGNMENT, OURS | SPARSE,
     .text = "multiples of 8 (TF32: 4) for model.model_dim, model.mlp_hidden_dim, model.embedding_dim and the dense "
             "features"},
    {AORTA_CAUSE_ALIGNMENT, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_VOCABULARY},
     .text = "pad sizes to multiples of 8 in 16 bits, better 64: vocabulary 50257 -> 50304",
     .also = "transformers: model.resize_token_embeddings(n, pad_to_multiple_of=64)"},
    {AORTA_CAUSE_ALIGNMENT, TORCH, .text = "pad sizes to multiples of 8 elements in 16 bits (better 64)",
     .also = "or torch.compile(model), which pads such products"},
    {AORTA_CAUSE_ALIGNMENT, ANY, .text = "pad sizes to multiples of 8 elements in 16 bits (better 64)"},
    {AORTA_CAUSE_LAYOUT, XLA,
     .text = "images and convolutions in NHWC (dimension_numbers of jax.lax.conv_general_dilated; flax's default)"},
    {AORTA_CAUSE_LAYOUT, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_AMD},
     .text = "model.to(memory_format=torch.channels_last), the input, too; PYTORCH_MIOPEN_SUGGEST_NHWC=1"},
    {AORTA_CAUSE_LAYOUT, TORCH | COMPILED | SERVING | TRITON, .when = {AORTA_FACT_CUDNN},
     .text = "model.to(memory_format=torch.channels_last), and the input, too",
     .also = "or torch.backends.cudnn.benchmark = True: cuDNN tries its algorithms once for each size"},
    {AORTA_CAUSE_LAYOUT, TORCH | COMPILED | SERVING | TRITON,
     .text = "model.to(memory_format=torch.channels_last), and the input, too"},
    {AORTA_CAUSE_LAYOUT, ANY, .text = "NHWC tensors for convolutions"},
    {AORTA_CAUSE_ATTENTION, OURS | SPARSE,
     .text = "model.num_heads for heads of 64 elements (16-bit kernels compute such a head in one block, up to 192 "
             "positions)"},
    {AORTA_CAUSE_ATTENTION, XLA,
     .text = "jax.nn.dot_product_attention(implementation=\"cudnn\"), is_causal=True instead of a mask"},
    {AORTA_CAUSE_ATTENTION, TRITON, .text = "a fused attention kernel (flash-attn; Triton's tutorial has one)"},
    {AORTA_CAUSE_ATTENTION, ANY, .when = {AORTA_FACT_FALLBACK},
     .text = "let scaled_dot_product_attention use a fused kernel: torch.backends.cuda.enable_flash_sdp(True), no "
             "sdpa_kernel(MATH)",
     .also = "or inputs of 4 dimensions, a head size that is a multiple of 8, is_causal=True instead of a mask, no "
             "gradient of a mask; flex_attention: torch.compile(flex_attention)"},
    {AORTA_CAUSE_ATTENTION, ANY,
     .text = "torch.nn.functional.scaled_dot_product_attention (is_causal=True instead of a mask)",
     .also = "transformers: attn_implementation=\"sdpa\"; nn.MultiheadAttention: need_weights=False"},
    {AORTA_CAUSE_RECOMPUTE, ANY,
     .text = "checkpoint fewer layers (gradient_checkpointing_disable()), or only cheap operations (selective "
             "checkpointing)"},
    {AORTA_CAUSE_FUSION, XLA, .text = "one jax.jit around operations that are called one by one"},
    {AORTA_CAUSE_FUSION, CUPY,
     .text = "@cupy.fuse() around the expression, or one ElementwiseKernel or ReductionKernel"},
    {AORTA_CAUSE_FUSION, TRITON,
     .text = "one @triton.jit function for the operations between two products, or the product's epilogue"},
    {AORTA_CAUSE_FUSION, COMPILED,
     .text = "compile these parts, too: torch.compile left them out (TORCH_LOGS=graph_breaks,recompiles)",
     .also = "or dynamic=True: after eight sizes torch.compile gives up"},
    {AORTA_CAUSE_FUSION, NATIVE, .text = "one kernel for several pointwise operations, or the product's epilogue"},
    {AORTA_CAUSE_FUSION, TORCH, .when = {AORTA_FACT_BATCH_NORMS, AORTA_FACT_NO_GRADIENTS},
     .text = "torch.compile(model); torch.nn.utils.fuse_conv_bn_eval folds batch norms into convolutions"},
    {AORTA_CAUSE_FUSION, TORCH, .when = {AORTA_FACT_CONVOLVES}, .text = "torch.compile(model)"},
    {AORTA_CAUSE_FUSION, ANY, .text = "torch.compile(model), or fused layers (RMSNorm, rotary, SwiGLU, cross entropy)"},
    {AORTA_CAUSE_CASTS, ANY, .remedy = "casts=weights", .when = {AORTA_FACT_WIDENS},
     .text = "store the weights in the type of the products, where memory allows",
     .also = "or kernels that read narrow weights (torchao, bitsandbytes, Marlin); at least torch.compile"},
    {AORTA_CAUSE_CASTS, ANY, .remedy = "casts=weights",
     .text = "model.to(torch.bfloat16) once, instead of autocast, which casts the weights in each step; transformers: "
             "dtype=torch.bfloat16"},
    {AORTA_CAUSE_CASTS, ANY, .remedy = "casts=cache", .when = {AORTA_FACT_REORDERS},
     .text = "a paged cache, in which beams share blocks (vLLM, TensorRT-LLM), or the beams' order in the attention",
     .also = "or fewer beams, greedy search, sampling"},
    {AORTA_CAUSE_CASTS, ANY, .remedy = "casts=cache",
     .text = "a cache of keys and values with space for all tokens, whose slices are written, instead of torch.cat; "
             "transformers: cache_implementation=\"static\""},
    {AORTA_CAUSE_CASTS, ANY, .remedy = "casts=logits",
     .text = "give cross_entropy the 16-bit logits instead of logits.float()",
     .also = "or a fused linear cross entropy (liger-kernel), which never writes them"},
    {AORTA_CAUSE_CASTS, ANY,
     .text = "use one dtype and layout in the block: drop .float()/.to(), .contiguous()/.transpose()"},
    {AORTA_CAUSE_OPTIMIZER, XLA,
     .text = "the optimizer inside the jitted step (optax), with donated arguments (donate_argnums)"},
    {AORTA_CAUSE_OPTIMIZER, ANY, .when = {AORTA_FACT_PARAMETER_GROUPS},
     .text = "one group for all parameters with the same settings, and fused=True (AdamW, Adam, SGD, Adagrad)"},
    {AORTA_CAUSE_OPTIMIZER, ANY, .text = "fused=True (AdamW, Adam, SGD, Adagrad)",
     .also = "or, in an optimizer of your own, torch._foreach_ functions or torch.compile of its step"},
    {AORTA_CAUSE_EMBEDDING, ANY, .text = "nn.Embedding/EmbeddingBag(sparse=True) with SGD, Adagrad or SparseAdam",
     .also = "or tables that update in the backward pass (fbgemm TBE, torchrec)"},
    {AORTA_CAUSE_SMALL_KERNELS, OTHERS, .when = {AORTA_FACT_RNN_CELLS}, .text = whole_sequence},
    {AORTA_CAUSE_SMALL_KERNELS, ANY, .remedy = "small_kernels=waves",
     .text = "a slightly different batch or sequence, so that blocks divide by the number of multiprocessors"},
    {AORTA_CAUSE_SMALL_KERNELS, NATIVE,
     .text = "one batched call for all: cublasGemmStridedBatchedEx, hipblasGemmStridedBatchedEx"},
    {AORTA_CAUSE_SMALL_KERNELS, XLA, .text = "jax.vmap instead of a Python loop over equal computations"},
    {AORTA_CAUSE_SMALL_KERNELS, CUPY, .text = "cupy.matmul of stacked arrays instead of a loop over matrices"},
    {AORTA_CAUSE_SMALL_KERNELS, ANY,
     .text = "one call for all instead of a loop: torch.bmm, torch._grouped_mm, torch.linalg of stacked tensors, "
             "torch.func.vmap"},
    {AORTA_CAUSE_LIBRARY, TRITON, .text = "@triton.autotune with more configurations (blocks, warps, stages)"},
    {AORTA_CAUSE_LIBRARY, ANY, .remedy = "library=rows",
     .text = "torch.nn.functional.embedding(index, table) or index_select instead of table[index]"},
    {AORTA_CAUSE_LIBRARY, ANY, .remedy = "library=unfolding",
     .text = "cuDNN or MIOpen for convolutions: torch.backends.cudnn.enabled = True, types that it has kernels for",
     .also = "or conv2d instead of unfold and a product"},
    {AORTA_CAUSE_LIBRARY, ANY, .remedy = "library=indexing", .when = {AORTA_FACT_EMBEDS},
     .text = "nn.Embedding/EmbeddingBag(sparse=True) with SGD, Adagrad or SparseAdam",
     .also = "or one table for all features, with offsets (torchrec, fbgemm TBE)"},
    {AORTA_CAUSE_LIBRARY, NATIVE, .remedy = "library=indexing",
     .text = "fewer bits of the keys (CUB: begin_bit, end_bit), smaller keys, all batches at once"},
    {AORTA_CAUSE_LIBRARY, ANY, .remedy = "library=indexing",
     .text = "topk instead of sort where only the largest are used; fused dropout (torch.compile)",
     .also = "to sample tokens: the fused samplers of vLLM or FlashInfer"},
    {AORTA_CAUSE_LIBRARY, TORCH | COMPILED | SERVING, .when = {AORTA_FACT_AMD},
     .text = "PYTORCH_TUNABLEOP_ENABLED=1; torch.backends.cudnn.benchmark = True (fixed shapes)"},
    {AORTA_CAUSE_LIBRARY, ANY,
     .text = "torch.backends.cudnn.benchmark = True (fixed shapes); torch.compile(mode=\"max-autotune\")"},
    {AORTA_CAUSE_COMPUTE, SPARSE, .key = "RunOptions.compute_kernel", .value = "fused",
     .unless = "RunOptions.compute_kernel=fused RunOptions.compute_kernel=dense device.kind=cpu",
     .text = "tables on the device, where they fit: rows of host memory cross the link"},
    {AORTA_CAUSE_COMPUTE, SPARSE, .key = "RunOptions.cache_load_factor", .value = aorta_advice_larger,
     .unless = "RunOptions.compute_kernel=fused RunOptions.compute_kernel=dense RunOptions.compute_kernel=fused_uvm "
               "device.kind=cpu",
     .text = "more rows on the device"},
    {AORTA_CAUSE_FEW_BLOCKS, DIRECTIVES,
     .text = "spread loops over the GPU: OpenACC's parallel loop gang vector, OpenMP's target teams distribute "
             "parallel for"},
    {AORTA_CAUSE_FEW_BLOCKS, NATIVE | CUPY | TRITON, .when = {AORTA_FACT_TAKE_TURNS},
     .text = "launch nothing on the default stream, or create streams that do not wait for it (cudaStreamNonBlocking)",
     .also = "or compile with nvcc --default-stream per-thread"},
    {AORTA_CAUSE_FEW_BLOCKS, NATIVE | CUPY | TRITON, .when = {AORTA_FACT_BLOCK_THREADS},
     .text = "launch blocks of 128 to 256 threads, and fewer of them"},
    {AORTA_CAUSE_FEW_BLOCKS, NATIVE | CUPY | TRITON,
     .text = "launch several blocks per multiprocessor, with 128 threads or more each, and split the work among them"},
    {AORTA_CAUSE_FEW_BLOCKS, ANY,
     .text = "more parallel work per kernel: a larger batch, or another operation or backend"},
    {AORTA_CAUSE_COMPUTE, OURS, .when = {AORTA_FACT_LAUNCHES_COST}, .key = "compile.enabled", .value = "true",
     .text = "replay the step as one graph"},
    {AORTA_CAUSE_COMPUTE, OURS, .key = "training.mixed_precision", .value = "bf16",
     .unless = "device.kind=cpu training.mixed_precision=fp16", .text = "arithmetic in 16 bits"},
    {AORTA_CAUSE_COMPUTE, OURS, .when = {AORTA_FACT_COARSE},
     .text = "record with aorta train, which times every operation"},
    {AORTA_CAUSE_COMPUTE, OURS, .when = {AORTA_FACT_GAPS},
     .text = "compile.enabled=true: the step as one graph, without gaps between kernels"},
    {AORTA_CAUSE_COMPUTE, OURS | SPARSE, .text = "faster kernels, or more ranks with their own processors"},
    {AORTA_CAUSE_COMPUTE, SERVING,
     .text = "fewer bits (weights in fp8 or 4 bits, KV cache in fp8), kernels tuned for these sizes",
     .also = "or more devices (tensor parallel)"},
    {AORTA_CAUSE_COMPUTE, XLA,
     .text = "jax.default_matmul_precision, parameters in bfloat16, "
             "jax.nn.dot_product_attention(implementation=\"cudnn\")"},
    {AORTA_CAUSE_COMPUTE, CUPY,
     .text = "fewer passes over memory (cupy.fuse, ElementwiseKernel, ReductionKernel), products in TF32 or 16 bits"},
    {AORTA_CAUSE_COMPUTE, TRITON, .text = "triton.autotune over block sizes and warps, fewer passes over memory"},
    {AORTA_CAUSE_COMPUTE, NATIVE,
     .text = "profile the largest kernels (ncu, omniperf): memory bandwidth, occupancy, tensor cores"},
    {AORTA_CAUSE_COMPUTE, ANY, .when = {AORTA_FACT_MOVES_DATA},
     .text = "fuse operations that only move data: torch.compile, fused norms and activations, fused=True optimizers"},
    {AORTA_CAUSE_COMPUTE, ANY, .when = {AORTA_FACT_NARROW},
     .text = "less padding, fp8, tuned kernels (torch.compile(mode=\"max-autotune\")), or more GPUs"},
    {AORTA_CAUSE_COMPUTE, ANY, .text = "faster kernels (16 bits, fused attention, torch.compile) or more GPUs"},
};

const struct aorta_advice_row *aorta_advice_rows(size_t *count) {
    *count = sizeof rows / sizeof rows[0];
    return rows;
}

static bool in_force(const struct aorta_settings *settings, const char *key, const char *value) {
    const char *now = aorta_settings_value(settings, key);
    return now && strcasecmp(now, value) == 0;
}

/* DDP ignores the keys of FSDP. */
static bool is_unread(const struct aorta_settings *settings, const char *key) {
    return strncmp(key, "fsdp.", 5) == 0 && in_force(settings, "distributed.mode", "ddp");
}

/* `list`: as in the rows' `unless`. */
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

static bool has(const struct aorta_finding *finding, enum aorta_fact_key key) {
    return key == AORTA_FACT_NONE || aorta_facts_has(&finding->facts, key);
}

static bool concerns(const struct aorta_advice_row *row, unsigned program, const struct aorta_finding *finding) {
    return row->cause == finding->cause && row->programs & program &&
           (!row->collective || row->collective == 1 + (int)finding->collective) &&
           (!row->remedy || (finding->remedy && strcmp(row->remedy, finding->remedy) == 0)) &&
           has(finding, row->when[0]) && has(finding, row->when[1]);
}

static bool is_direction(const char *value) {
    return value == aorta_advice_larger || value == aorta_advice_smaller || value == aorta_advice_another;
}

static void add_fix(struct aorta_finding *finding, const struct aorta_advice_row *row,
                    const struct aorta_settings *settings) {
    const char *now = row->key && is_direction(row->value) ? aorta_settings_value(settings, row->key) : NULL;
    finding->fixes[finding->fix_count++] = (struct aorta_fix){row, aorta_facts_text(&finding->facts, now)};
}

static void advise(const struct aorta_verdict *verdict, struct aorta_finding *finding, unsigned program,
                   const struct aorta_settings *settings) {
    bool fits = false; /* a row with a key applies, whether the key is set already or not */
    finding->fix_count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && finding->fix_count < AORTA_FIXES; i++) {
        const struct aorta_advice_row *row = &rows[i];
        if (!concerns(row, program, finding)) continue;
        if (!row->key) {
            if (!fits) add_fix(finding, row, settings);
            break;
        }
        if (!settings || !settings->count || pointless(settings, verdict->simulated, row)) continue;
        fits = true;
        if (!in_force(settings, row->key, row->value)) add_fix(finding, row, settings);
    }
    finding->all_set = fits && !finding->fix_count;
}

aorta_status aorta_advise(struct aorta_verdict *verdict, const struct aorta_settings *settings) {
    unsigned program = verdict->program ? verdict->program : (unsigned)(verdict->recorded ? NATIVE : OURS);
    if (!verdict->recorded && settings && aorta_settings_value(settings, "PipelineConfig.pipeline")) program = SPARSE;
    bool failed = false;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        advise(verdict, &verdict->findings[i], program, settings);
        failed |= verdict->findings[i].facts.arena->failed;
    }
    return failed ? AORTA_ERROR(AORTA_MEMORY, "no memory for the verdict") : NULL;
}

/* ---- the environment ---- */

static const struct {
    const char *variable, *value; /* NULL: any */
    enum aorta_cause cause;
    const char *text;
} words[] = {
    {"CUDA_DEVICE_MAX_CONNECTIONS", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE,
     "all streams share one hardware queue, so collectives and compute start in launch order"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", "1", AORTA_CAUSE_SERIALIZED_STREAMS, "all streams share one hardware queue"},
    {"GPU_MAX_HW_QUEUES", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE, "all streams share one hardware queue"},
    {"GPU_MAX_HW_QUEUES", "1", AORTA_CAUSE_SERIALIZED_STREAMS, "all streams share one hardware queue"},
    {"CUDA_LAUNCH_BLOCKING", "1", AORTA_CAUSE_HOST_LAUNCH, "the host waits for each kernel"},
    {"CUDA_LAUNCH_BLOCKING", "1", AORTA_CAUSE_HOST_SYNC, "the host waits for each kernel"},
    {"NCCL_P2P_DISABLE", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE, "GPUs of a host exchange through its memory"},
    {"NCCL_P2P_DISABLE", "1", AORTA_CAUSE_SLOW_COLLECTIVE, "GPUs of a host exchange through its memory"},
    {"NCCL_SHM_DISABLE", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE, "ranks of a host exchange over its network"},
    {"NCCL_MAX_CTAS", NULL, AORTA_CAUSE_EXPOSED_COLLECTIVE, "limits the channels of a collective"},
    {"NCCL_MAX_NCHANNELS", NULL, AORTA_CAUSE_EXPOSED_COLLECTIVE, "limits the channels of a collective"},
    {"NCCL_MAX_CTAS", NULL, AORTA_CAUSE_CONTENTION, "limits the channels of a collective"},
    {"NCCL_MIN_CTAS", NULL, AORTA_CAUSE_CONTENTION, "each channel takes a multiprocessor from compute"},
    {"NCCL_MIN_NCHANNELS", NULL, AORTA_CAUSE_CONTENTION, "each channel takes a multiprocessor from compute"},
    {"NCCL_ALGO", NULL, AORTA_CAUSE_SLOW_COLLECTIVE, "overrides NCCL's choice"},
    {"NCCL_PROTO", NULL, AORTA_CAUSE_SLOW_COLLECTIVE, "overrides NCCL's choice"},
};

void aorta_verdict_environment(struct aorta_verdict *verdict, const struct aorta_settings *environment) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char key[64], setting[256];
        snprintf(key, sizeof key, "environment.%s", words[i].variable);
        const char *value = aorta_settings_value(environment, key);
        struct aorta_finding *finding = aorta_verdict_find(verdict, words[i].cause);
        if (!value || !finding || (words[i].value && strcmp(value, words[i].value) != 0)) continue;
        snprintf(setting, sizeof setting, "%s=%s", words[i].variable, value);
        aorta_facts_set_named(&finding->facts, AORTA_FACT_ENVIRONMENT, 1, setting)->text = words[i].text;
    }
}
