"""Weights are stored as int8 with a scale per row and widened in each layer's call, or once before the first.

packed.py [once]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
rows, width, depth = size(2048, 16), size(4096, 32), 12


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randint(-127, 128, (width, width), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(width, 1, dtype=torch.bfloat16) * 1e-4)
        self.wide = None

    def forward(self, x):
        weight = self.wide if self.wide is not None else self.codes.to(torch.bfloat16) * self.scale
        if "once" in sys.argv:
            self.wide = weight
        return nn.functional.linear(x, weight)


model = nn.Sequential(*[m for _ in range(depth) for m in (Packed(), nn.GELU())]).to(gpu)
x = torch.randn(rows, width, device=gpu, dtype=torch.bfloat16)
with torch.inference_mode(), profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(80, 8)):
        model(x)
        profile.step()
