#!/usr/bin/env python3
"""Bus bandwidth of NCCL called through PyTorch, without other work, as nccl-tests defines it; run by torchrun.

    torchrun --nproc_per_node N bench/torch_collectives.py [group=RANKS] [MEBIBYTES ...]

Prints a line of JSON on rank 0: GB/s by collective and size in bytes (of the larger buffer of a rank). With group= all groups of
so many ranks communicate at the same time.
"""
import json
import os
import sys

import torch
import torch.distributed as dist

ROUNDS, REPEATS = 9, 20


def call_of(collective, count, ranks, rank, group):
    whole, other = torch.ones(count, device="cuda"), torch.empty(count, device="cuda")
    share = count // ranks
    part = whole[rank * share:(rank + 1) * share].clone()
    return {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, group=group),
    }[collective]


def seconds(call):
    for _ in range(5):
        call()
    times = []
    for _ in range(ROUNDS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(REPEATS):
            call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / REPEATS * 1e-3)
    return sorted(times)[ROUNDS // 2]


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    words = sys.argv[1:]
    group = None
    if words and words[0].startswith("group="):
        ranks = int(words.pop(0).partition("=")[2])
        group, rank = dist.new_subgroups(group_size=ranks)[0], rank % ranks
    result = {}
    for mebibytes in map(float, words or ["64", "512"]):
        size = int(mebibytes * (1 << 20)) // (4 * ranks) * (4 * ranks)  # whole numbers on every rank
        for collective in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
            share = (ranks - 1) / ranks * (2 if collective == "all_reduce" else 1)
            took = seconds(call_of(collective, size // 4, ranks, rank, group))
            result.setdefault(collective, {})[size] = round(size / took * share * 1e-9, 2)
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
