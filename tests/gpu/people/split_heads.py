"""A small encoder with a projection for each head's queries, keys and values, as textbooks write it, or one for all.

split_heads.py [joined]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
width, heads = size(768, 16), size(12, 2)
each = width // heads


class Textbook(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.ModuleList([nn.Linear(width, each) for _ in range(3)]) for _ in range(heads)])
        self.out = nn.Linear(width, width)

    def forward(self, x):
        mixed = [nn.functional.scaled_dot_product_attention(q(x), k(x), v(x)) for q, k, v in self.parts]
        return self.out(torch.cat(mixed, -1))


class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.parts(x).unflatten(-1, (3, heads, each)).permute(2, 0, 3, 1, 4)
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = (Joined if "joined" in sys.argv else Textbook)()
        self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        return x + self.net(self.norm2(x))


model = nn.Sequential(*[Block() for _ in range(size(12, 2))]).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
x = torch.randn(size(32, 2), size(256, 8), width, device=gpu)
with profiler(record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        optimizer.zero_grad()
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        profile.step()
