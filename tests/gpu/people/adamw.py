"""AdamW over many small parameters, one after the other, or fused.

adamw.py [fused]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
width = size(1024, 32)
model = nn.Sequential(*[m for _ in range(size(100, 4)) for m in (nn.Linear(width, width), nn.ReLU())]).to(gpu)
fused = {"fused": True} if "fused" in sys.argv and gpu.type == "cuda" else {"foreach": False}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **fused)
x = torch.randn(size(512, 8), width, device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
