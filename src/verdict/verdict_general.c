/* Advice for programs whose configuration is not known: in the words of PyTorch, NCCL and RCCL. */
#include "verdict/verdict_parts.h"

enum { ANY = -1 };

/* The first row that fits. Stragglers are not here: what is said of them depends on the rank. */
static const struct {
    enum aorta_cause cause;
    int kind; /* enum aorta_collective, or ANY */
    const char *text;
} rows[] = {
    {AORTA_CAUSE_HOST_LAUNCH, ANY,
     "launch less often: capture the step in a graph (torch.compile(mode=\"reduce-overhead\"), torch.cuda.graph), fuse "
     "small kernels, foreach/fused optimizers; or give each launch more work (larger batch)"},
    {AORTA_CAUSE_LAUNCH_LATENCY, ANY,
     "work starts long after its launch: run a step before recording (kernels load at first use), see what its stream "
     "waits for, and fuse small kernels"},
    {AORTA_CAUSE_HOST_SYNC, ANY,
     "take the waits out of the step: .item(), .cpu(), print of a tensor, torch.cuda.synchronize, non_blocking=False "
     "copies, shapes that depend on data"},
    {AORTA_CAUSE_DATA_WAIT, ANY,
     "make batches further ahead: more DataLoader workers, a larger prefetch_factor, "
     "pin_memory=True; or move the preparation off the step"},
    {AORTA_CAUSE_COPY, ANY,
     "copy beside compute: pinned memory with non_blocking=True on a stream of its own, one step "
     "ahead"},
    {AORTA_CAUSE_SLOW_COLLECTIVE, ANY,
     "see which path it takes (NCCL_DEBUG=INFO: channels, transport, algorithm) and "
     "what else uses the link; NCCL_MIN_CTAS raises the channels"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, ANY,
     "give communication a stream of its own with high priority, and more hardware "
     "queues: CUDA_DEVICE_MAX_CONNECTIONS above 1, GPU_MAX_HW_QUEUES on ROCm"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER,
     "gather ahead: FSDP's forward_prefetch and backward_prefetch=BACKWARD_PRE, explicit prefetch of FSDP2; or keep "
     "parameters gathered (reshard_after_forward=False)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER,
     "more compute per reduction: larger batch or gradient accumulation without sync; or reduce within a node first "
     "(HSDP)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_REDUCE,
     "start reducing earlier: a smaller bucket_cap_mb, gradient_as_bucket_view; or reduce less often: gradient "
     "accumulation under no_sync"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_BROADCAST,
     "broadcast once at the start, not in the step (DDP: broadcast_buffers=False)"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_TO_ALL,
     "split the exchange, so that compute on the first part runs beside the second"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_BARRIER, "take barriers out of the step"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, ANY,
     "issue it earlier, on a stream of its own, so that compute is left to run beside it"},
    {AORTA_CAUSE_CONTENTION, ANY,
     "leave room for communication: fewer channels (NCCL_MAX_CTAS), GEMMs that leave "
     "multiprocessors free; weigh it against the time hidden"},
    {AORTA_CAUSE_COMPUTE, ANY, "faster kernels (16 bits, fused attention, torch.compile) or more ranks"},
};

const char *aorta_verdict_general_advice(enum aorta_cause cause, enum aorta_collective kind) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].cause == cause && (rows[i].kind == ANY || rows[i].kind == (int)kind)) return rows[i].text;
    return "";
}
