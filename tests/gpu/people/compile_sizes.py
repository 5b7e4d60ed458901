"""A compiled encoder reads sentences of forty lengths, for each of which it is compiled again, or with lengths as variables.

compile_sizes.py [variables]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
width = size(512, 16)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(*shape, bias=False) for shape in
                                         ((width, 4 * width), (width, 4 * width), (4 * width, width)))
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        h = x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(x.dtype) * self.scale
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h)).clamp(-8, 8)


model = nn.Sequential(*[Layer() for _ in range(size(8, 2))]).to(gpu).bfloat16()
if gpu.type == "cuda":
    model = torch.compile(model, dynamic="variables" in sys.argv)
lengths = [size(1024, 8) + 8 * (i * 7 % 40) for i in range(40)]
with torch.no_grad(), profiler() as profile:
    for i in steps(size(160, 8)):
        model(torch.randn(size(16, 2), lengths[i % 40], width, device=gpu, dtype=torch.bfloat16))
        profile.step()
