"""Gradients are reduced by hooks on the stream of the backward pass, or by DistributedDataParallel on its own.

by_hand.py [ddp]
"""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import RANKS, join, leave, profiler, size, steps

gpu = join()
width = size(4096, 32)
model = nn.Sequential(*[m for _ in range(size(12, 2)) for m in (nn.Linear(width, width), nn.GELU())]).to(gpu)
if "ddp" in sys.argv:
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
else:
    def reduce(p):
        dist.all_reduce(p.grad)
        p.grad.div_(RANKS)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(size(4096, 8), width, device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
leave()
