"""Tensor parallel layers by hand read a long prompt. Each rank makes half of the hidden values, gathers the other half and drops it
again before the second product, or keeps its half.

joined_halves.py [apart]
"""
import sys

import torch
import torch.distributed as dist
from torch import nn

from steps import RANK, RANKS, join, leave, size, steps

gpu = join()
kind = size(torch.bfloat16, torch.float32)
tokens, width, head = size(8192, 16), size(4096, 32), size(128, 8)
hidden, own = 4 * width, width // RANKS


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * own, bias=False), nn.Linear(own, width, bias=False)
        self.up, self.down = nn.Linear(width, hidden // RANKS, bias=False), nn.Linear(hidden // RANKS, width, bias=False)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (-1, head)).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        mixed = self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        dist.all_reduce(mixed)
        x = x + mixed
        h = nn.functional.gelu(self.up(self.second(x)))
        if "apart" not in sys.argv:
            halves = [torch.empty_like(h) for _ in range(RANKS)]
            dist.all_gather(halves, h)
            h = torch.cat(halves, -1).chunk(RANKS, -1)[RANK]
        h = self.down(h)
        dist.all_reduce(h)
        return x + h


torch.manual_seed(0)
prompt = torch.randn(1, tokens, width, device=gpu, dtype=kind)
torch.manual_seed(RANK)
model = nn.Sequential(*[Block().to(gpu, kind) for _ in range(size(6, 2))])
for i in steps(size(40, 8)):
    with torch.no_grad():
        model(prompt)
leave()
