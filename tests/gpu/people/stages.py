"""A pipeline of torch.distributed.pipelining (1F1B) whose first stage has LAYERS of 16 layers.

stages.py [LAYERS]
"""
import sys

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from steps import RANK, RANKS, join, leave, profiler, size, steps

gpu = join()
first = int(sys.argv[1]) if len(sys.argv) > 1 else 8
width, rows = size(4096, 32), size(16384, 32)
half = torch.bfloat16
count = first if RANK == 0 else 16 - first
part = nn.Sequential(*[m for _ in range(count) for m in (nn.Linear(width, width, device=gpu, dtype=half), nn.GELU())])
optimizer = torch.optim.SGD(part.parameters(), lr=1e-4)
stage = PipelineStage(part, RANK, RANKS, gpu)
schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=lambda out, goal: (out - goal).float().square().mean())
data = torch.randn(rows, width, device=gpu, dtype=half)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        optimizer.zero_grad()
        if RANK == 0:
            schedule.step(data)
        else:
            schedule.step(target=data)
        optimizer.step()
        profile.step()
leave()
