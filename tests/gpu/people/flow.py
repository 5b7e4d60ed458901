"""A transformer for diffusion whose blocks are scaled, shifted and gated by the time, with norms and activations written out, or
with compiled blocks.

flow.py [compiled]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
half = torch.bfloat16
width, heads, batch, length = size(1024, 32), size(16, 2), size(48, 2), size(256, 8)


def normalize(x):
    y = x.float()
    y = y - y.mean(-1, keepdim=True)
    return (y / (y.square().mean(-1, keepdim=True) + 1e-6).sqrt()).to(x.dtype)


def activate(x):
    return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.of_time = nn.Linear(width, 6 * width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, time):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.of_time(time)[:, None].chunk(6, -1)
        h = self.qkv(normalize(x) * (1 + scale1) + shift1)
        q, k, v = (part.unflatten(-1, (heads, width // heads)).transpose(1, 2) for part in h.chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(normalize(q), normalize(k), v)
        x = x + gate1 * self.out(mixed.transpose(1, 2).flatten(2))
        return x + gate2 * self.down(activate(self.up(normalize(x) * (1 + scale2) + shift2)))


enter, blocks = nn.Linear(width, width).to(gpu, half), nn.ModuleList([Block() for _ in range(size(8, 2))]).to(gpu, half)
if "compiled" in sys.argv and gpu.type == "cuda":
    for block in blocks:
        block.compile()
optimizer = torch.optim.SGD([*enter.parameters(), *blocks.parameters()], lr=1e-4)
x, time = torch.randn(batch, length, width, device=gpu).to(half), torch.randn(batch, width, device=gpu).to(half)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        h = enter(x)
        for block in blocks:
            h = block(h, time)
        loss = (h - x).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
