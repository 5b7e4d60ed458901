"""A decoder whose four heads of keys and values serve 32 of queries: copied for each of them, or shared by the attention kernel.

grouped_heads.py [shared]
"""
import sys

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attend

from steps import device, profiler, size, steps

gpu = device()
heads, groups, each, batch, length = size(32, 4), size(4, 2), size(64, 8), size(4, 2), size(4096, 16)
width = heads * each


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.q, self.kv = nn.RMSNorm(width), nn.Linear(width, width), nn.Linear(width, 2 * groups * each)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        h = self.norm(x)
        q = self.q(h).unflatten(-1, (heads, each)).transpose(1, 2)
        k, v = self.kv(h).unflatten(-1, (2, groups, each)).permute(2, 0, 3, 1, 4)
        if "shared" in sys.argv:
            mixed = attend(q, k, v, is_causal=True, enable_gqa=True)
        else:
            k, v = (part.repeat_interleave(heads // groups, 1) for part in (k, v))
            mixed = attend(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


model = nn.Sequential(*[Block() for _ in range(size(6, 2))]).to(gpu, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(batch, length, width, device=gpu, dtype=torch.bfloat16)
with profiler(record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        optimizer.zero_grad()
        model(x).float().square().mean().backward()
        optimizer.step()
        profile.step()
