"""Attention of a picture's points: a head at a time, as where memory is short, or all heads at once.

slices.py [whole]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.inputs, self.output = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.inputs(x).chunk(3, 2))
        if "whole" in sys.argv:
            seen = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            seen = torch.cat([(q[:, i:i + 1] @ k[:, i:i + 1].transpose(2, 3) * q.shape[3] ** -0.5).softmax(3) @ v[:, i:i + 1]
                              for i in range(self.heads)], 1)
        return x + self.output(seen.transpose(1, 2).flatten(2))


gpu = device()
width = size(512, 16)
model = nn.Sequential(*[Attention(width, 8) for _ in range(size(8, 2))]).to(gpu).bfloat16()
x = torch.randn(size(2, 1), size(1024, 16), width, device=gpu, dtype=torch.bfloat16)
with torch.no_grad(), profiler() as profile:
    for _ in steps(size(80, 8)):
        model(x)
        profile.step()
