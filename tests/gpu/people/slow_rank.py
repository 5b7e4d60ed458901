"""DDP; the last rank does more work in each step, or the same.

slow_rank.py [even]
"""
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import RANK, RANKS, join, leave, profiler, size, steps

gpu = join()
more = "even" not in sys.argv and RANK == RANKS - 1
width = size(4096, 32)
net = nn.Sequential(*[m for _ in range(size(8, 2)) for m in (nn.Linear(width, width), nn.GELU())]).to(gpu)
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(size(4096, 8), width, device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = (model(x) - x).square().mean()
        if more:
            spare = x @ x.t() @ x @ x.t()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
leave()
