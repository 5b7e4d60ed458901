"""A net of many small layers and AdamW that updates each parameter with its own kernels, or all with one.

one_by_one_adam.py [fused]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
width = size(512, 16)
model = nn.Sequential(*[nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in range(size(64, 4))]).to(gpu)
fused = "fused" in sys.argv and gpu.type == "cuda"
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **({"fused": True} if fused else {"foreach": False}))
x = torch.randn(size(4096, 8), width, device=gpu)
with profiler(record_shapes=True) as profile:
    for i in steps(size(60, 16)):
        optimizer.zero_grad()
        (model(x) - x).square().mean().backward()
        optimizer.step()
        profile.step()
