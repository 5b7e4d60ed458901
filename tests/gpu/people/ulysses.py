"""A long prompt is split over two ranks, which exchange heads for sequence around each attention, in fp32 or in bf16.

ulysses.py [half]
"""
import sys

import torch
import torch.distributed as dist
from torch import nn

from steps import RANKS, join, leave, profiler, size, steps

gpu = join()
half = size(torch.bfloat16, torch.float32)
batch, length, width, heads = size(4, 1), size(2048, 8), size(2048, 32), size(16, 4)


def exchange(x):
    """The first dimension is the rank."""
    x = x.contiguous() if "half" in sys.argv else x.float().contiguous()
    there = torch.empty_like(x)
    dist.all_to_all_single(there, x)
    return there.to(half)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, RANKS, heads // RANKS, width // heads)
        parts = exchange(parts.permute(3, 0, 1, 2, 4, 5))
        q, k, v = parts.permute(3, 1, 4, 0, 2, 5).flatten(3, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = exchange(mixed.unflatten(2, (RANKS, length)).permute(2, 0, 1, 3, 4))
        x = x + self.out(mixed.permute(1, 3, 0, 2, 4).flatten(2))
        return x + self.mlp(self.norm2(x))


model = nn.Sequential(*[Block() for _ in range(size(10, 2))]).to(gpu, half)
x = torch.randn(batch, length, width, device=gpu, dtype=half)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        with torch.no_grad():
            out = model(x)
        profile.step()
print(out.shape)
leave()
