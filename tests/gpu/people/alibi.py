"""A decoder whose attention has a bias for distance (ALiBi), written out or by scaled_dot_product_attention.

alibi.py [fused]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
fused = "fused" in sys.argv
half = torch.bfloat16
width, heads, batch, length = size(1024, 32), size(16, 2), size(8, 2), size(1024, 16)
far = torch.arange(length, device=gpu)[:, None] - torch.arange(length, device=gpu)
slope = 2.0 ** (-8 * torch.arange(1, heads + 1, device=gpu) / heads)
bias = (-slope[:, None, None] * far).masked_fill(far < 0, float("-inf")).to(half)[None]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        if fused:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            weight = q @ k.transpose(-2, -1) * (width // heads) ** -0.5 + bias
            mixed = weight.float().softmax(-1).to(half) @ v
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


model = nn.Sequential(*[Block() for _ in range(size(6, 2))]).to(gpu, half)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
x = torch.randn(batch, length, width, device=gpu, dtype=half)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        loss = (model(x) - x).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
