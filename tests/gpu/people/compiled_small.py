"""A compiled policy with small batches, each of its kernels launched by the host, or as one graph (reduce-overhead).

compiled_small.py [graph]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
width = size(128, 8)
model = nn.Sequential(nn.Linear(32, width), *[m for _ in range(size(16, 2)) for m in (nn.Linear(width, width), nn.LayerNorm(width),
                                                                                  nn.Tanh())], nn.Linear(width, 8)).to(gpu)
if gpu.type == "cuda":
    model = torch.compile(model, mode="reduce-overhead" if "graph" in sys.argv else None)
x = torch.randn(64, 32, device=gpu)
with torch.no_grad(), profiler() as profile:
    for _ in steps(size(200, 8)):
        x[:, :8] = model(x)
        profile.step()
