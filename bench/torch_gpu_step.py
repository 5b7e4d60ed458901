#!/usr/bin/env python3
"""One side of gpu_step_time.py: training steps of the model with PyTorch FSDP2 or DDP on GPUs, started by torchrun.

    torchrun --standalone --nproc_per_node N torch_gpu_step.py CONFIG.yaml fsdp|ddp [STEPS]

Rank 0 prints a JSON line: the median of synchronised steps, the mean of pipelined ones, peak memory. bfloat16 as
an expert would run it: mixed-precision policy and reductions in fp32 for FSDP2, autocast for DDP, the
fused optimizer. The batch is made once on the device, so that PyTorch pays nothing for its data.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import yaml
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "parity"))
from ranking import Ranking, loss_of  # noqa: E402

WARMUP = 10


def make_batch(config, device, rank):
    data, generator = config["dataset"], torch.Generator(device=device).manual_seed(rank)
    shape = (config["training"]["batch_size"], data["sequence_length"])
    options = {"device": device, "generator": generator}
    return {
        "dense": torch.randn(*shape, data["num_dense_features"], data["dense_dim"], **options),
        "categorical": torch.randint(data["vocab_size"], (*shape, data["sparse_features"]), **options),
        "target": torch.rand(*shape, **options),
        "importance": torch.rand(*shape, **options),
    }


def spread(model, mode, device):
    if mode == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index], gradient_as_bucket_view=True)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.encoder.layers:
        fully_shard(block, mp_policy=policy)
    return fully_shard(model, mp_policy=policy)


def main():
    path, mode = sys.argv[1], sys.argv[2]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    with open(path, encoding="utf-8") as file:
        config = yaml.safe_load(file)
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = spread(Ranking(config["model"]).to(device), mode, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    batch = make_batch(config, device, dist.get_rank())

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    for _ in range(WARMUP):
        step()
    torch.cuda.synchronize()
    dist.barrier()
    waited = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        waited.append((time.perf_counter() - begin) * 1e3)
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    pipelined = (time.perf_counter() - begin) * 1e3 / steps
    if dist.get_rank() == 0:
        print(json.dumps({"torch": torch.__version__, "step_ms": sorted(waited)[len(waited) // 2],
                          "pipelined_ms": pipelined, "peak_gib": torch.cuda.max_memory_allocated() / 2**30}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
