#!/usr/bin/env python3
"""How much time of compute and communication is lost where both run at once, on two or more GPUs.

    torchrun --nproc-per-node 2 contention.py [OUT]

Each kind of communication runs alone, each kind of compute for about as long alone, and both at once on two streams: first
without a dependency ("free"), then as layers whose data is fetched one layer ahead ("ahead"). The table has the time that overlap
did not save, as a share of what it can save: 0 is perfect overlap, 1 as slow as one after the other. OUT ($OUT, else
/tmp/aorta-contention) gets contention.json, which also has the kernels' names, thread blocks and threads.
"""
import json
import os
import statistics
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed as dist
import torch.nn.functional as F

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
REPEATS, CALLS, AHEAD_CYCLES = 7, 4, 6_000_000
MB64 = 32 << 20                 # elements of two bytes
OUT = next(iter(sys.argv[1:]), os.environ.get("OUT", "/tmp/aorta-contention"))
START = time.monotonic()

gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(gpu)
dist.init_process_group("nccl", device_id=gpu)
half = torch.bfloat16
shared_memory = []  # symmetric memory
main, side = torch.cuda.current_stream(), torch.cuda.Stream()


def random(*shape, dtype=half):
    return torch.randn(*shape, device=gpu, dtype=dtype)


def compute_kinds():
    a, b, big, wide = random(4096, 4096), random(4096, 4096), random(8192, 8192), random(2048, 8192)
    yield "product bf16 4096", lambda: a @ b
    yield "product bf16 2048 x 8192", lambda: wide @ big
    small = random(1024, 1024)
    yield "product bf16 1024", lambda: small @ small
    single = random(4096, 4096, dtype=torch.float32)

    def tf32():
        torch.backends.cuda.matmul.allow_tf32 = True
        return single @ single

    def fp32():
        torch.backends.cuda.matmul.allow_tf32 = False
        return single @ single
    yield "product tf32 4096", tf32
    yield "product fp32 4096", fp32
    q = random(8, 16, 2048, 64)
    yield "attention", lambda: F.scaled_dot_product_attention(q, q, q)
    g = random(8, 16, 2048, 64).requires_grad_()
    y = F.scaled_dot_product_attention(g, g, g)
    top = torch.ones_like(y)
    yield "attention backward", lambda: torch.autograd.grad(y, g, top, retain_graph=True)
    x = random(64 << 20)
    yield "gelu", lambda: F.gelu(x)
    rows = random(16384, 4096)
    yield "layer norm", lambda: F.layer_norm(rows, (4096,))
    image, weight = random(64, 256, 56, 56).to(memory_format=torch.channels_last), random(256, 256, 3, 3)
    yield "convolution", lambda: F.conv2d(image, weight, padding=1)


def communication_kinds():
    part, whole = random(MB64 // RANKS), random(MB64)
    yield "all_gather", lambda: dist.all_gather_into_tensor(whole, part)
    yield "reduce_scatter", lambda: dist.reduce_scatter_tensor(part, whole)
    yield "all_reduce", lambda: dist.all_reduce(whole)
    there = torch.empty_like(part)

    def pass_on():
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, part, (RANK + 1) % RANKS),
                                        dist.P2POp(dist.irecv, there, (RANK - 1) % RANKS)])
        for work in works:
            work.wait()
    yield "sends and receives", pass_on
    try:
        import torch.distributed._symmetric_memory as symmetric
        shared = symmetric.empty(2, MB64 // RANKS, dtype=half, device=gpu)
        memory = symmetric.rendezvous(shared, dist.group.WORLD)
        theirs = memory.get_buffer((RANK + 1) % RANKS, (2, MB64 // RANKS), half)[1]
        shared_memory.append((shared, memory))
        yield "copy between GPUs", lambda: there.copy_(theirs)
    except Exception:  # this PyTorch has none
        traceback.print_exc()
    host = torch.empty(MB64 // 4, dtype=half, pin_memory=True)
    device = torch.empty_like(host, device=gpu)
    yield "copy from the host", lambda: device.copy_(host, non_blocking=True)


def timed(queue):
    """Median milliseconds of what `queue` puts on both streams, as a GPU that never waits for the host runs it."""
    found = []
    for i in range(REPEATS + 1):
        dist.barrier()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(AHEAD_CYCLES)
        start.record()
        side.wait_stream(main)
        queue()
        main.wait_stream(side)
        end.record()
        torch.cuda.synchronize()
        if i:
            found.append(start.elapsed_time(end))
    return statistics.median(found)


def free(compute, calls, communicate, times):
    with torch.cuda.stream(side):
        for _ in range(times):
            communicate()
    for _ in range(calls):
        compute()


def ahead(compute, calls, communicate, layers):
    """Layers of `calls` each wait for their own fetch, which runs during the layer before."""
    for _ in range(layers):
        fetched = torch.cuda.Event()
        with torch.cuda.stream(side):
            communicate()
            fetched.record()
        main.wait_event(fetched)
        used = torch.cuda.Event()
        used.record()
        for _ in range(calls):
            compute()
        side.wait_event(used)


def nothing():
    pass


def agreed(value):
    """Rank 0's value, so that all ranks queue the same."""
    tensor = torch.tensor([float(value)], device=gpu)
    dist.broadcast(tensor, 0)
    return tensor.item()


def measure(compute, communicate, communication_ms):
    one = agreed(timed(lambda: free(compute, 8, nothing, 0)) / 8)
    calls = max(1, round(communication_ms / one))
    row = {"calls": calls, "compute_ms": one * calls, "communication_ms": communication_ms}
    serial = (one * calls + communication_ms) * CALLS
    best = max(one * calls, communication_ms) * CALLS
    row["free_ms"] = timed(lambda: free(compute, calls * CALLS, communicate, CALLS))
    row["free"] = (row["free_ms"] - best) / (serial - best)
    row["ahead_ms"] = timed(lambda: ahead(compute, calls, communicate, CALLS))
    best += min(one * calls, communication_ms)
    row["ahead"] = (row["ahead_ms"] - best) / (serial - best)
    return row


def kernels(kinds):
    """Name, blocks and threads of the longest kernel of each."""
    found = {}
    for name, call in kinds:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            call()
            torch.cuda.synchronize()
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            profile.export_chrome_trace(file.name)
            with open(file.name, encoding="utf-8") as trace:
                events = [e for e in json.load(trace)["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy")]
        if events:
            longest = max(events, key=lambda e: e["dur"])
            keep = ("grid", "block", "registers per thread", "shared memory", "est. achieved occupancy %")
            found[name] = {"kernel": longest["name"][:120], "us": longest["dur"],
                           **{key: longest["args"].get(key) for key in keep}}
    return found


communication, compute = list(communication_kinds()), list(compute_kinds())
result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "ranks": RANKS, "pairs": []}
for kind, communicate in communication:
    communicate()
    alone_ms = agreed(timed(lambda: free(nothing, 0, communicate, 8)) / 8)
    for name, call in compute:
        call()
        row = {"communication": kind, "compute": name, **measure(call, communicate, alone_ms)}
        result["pairs"].append(row)
        if not RANK:
            print(f"{kind:20} {alone_ms:6.3f}  {row['calls']:3} x {name:26} {row['compute_ms']:6.3f}  lost free {row['free']:5.2f}"
                  f"  ahead {row['ahead']:5.2f}", flush=True)
result["kernels"] = {**kernels(compute), **kernels(communication)}
if not RANK:
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "contention.json"), "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    for name, kernel in result["kernels"].items():
        print(f"{name:26} {kernel['kernel'][:60]:60} grid {kernel['grid']} block {kernel['block']}")
    print(f"{time.monotonic() - START:.0f} s")
dist.destroy_process_group()
