"""Inference with weights in 8 bits, which each pass makes 16-bit numbers before its products, or with 16-bit weights.

eight_bits.py [wide]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps


class Layer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.register_buffer("scale", torch.rand(outputs, 1).bfloat16() / 64)
        self.register_buffer("weight", torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8))
        if "wide" in sys.argv:
            self.weight = self.weight.bfloat16() * self.scale

    def forward(self, x):
        if "wide" in sys.argv:
            return x @ self.weight.T
        return x @ (self.weight.to(torch.bfloat16) * self.scale).T


gpu = device()
width = size(4096, 16)
model = nn.Sequential(*[layer for _ in range(size(8, 2)) for layer in (Layer(width, 4 * width), nn.SiLU(),
                                                                       Layer(4 * width, width))]).to(gpu)
x = torch.randn(size(64, 2), width, device=gpu, dtype=torch.bfloat16)
with torch.no_grad(), profiler() as profile:
    for _ in steps(size(80, 8)):
        model(x)
        profile.step()
