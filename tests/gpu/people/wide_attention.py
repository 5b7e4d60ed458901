"""A model of proteins learns masked residues under autocast. Its attention leaves autocast and runs in fp32, for stability, or runs
in bf16.

wide_attention.py [half]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
half = "half" in sys.argv
width, heads, depth, length, batch = size(768, 32), size(12, 2), size(8, 2), size(256, 16), size(64, 2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mix = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attention(self, q, k, v):
        if half:
            return nn.functional.scaled_dot_product_attention(q, k, v)
        with torch.autocast(gpu.type, enabled=False):
            return nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float())

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, heads, width // heads)).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mix(self.norm2(x))


model = nn.Sequential(nn.Embedding(33, width), *[Block() for _ in range(depth)], nn.LayerNorm(width), nn.Linear(width, 33)).to(gpu)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
chain = torch.randint(32, (batch, length), device=gpu)
hidden = torch.rand(chain.shape, device=gpu) < 0.15
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(32, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            scores = model(chain.masked_fill(hidden, 32))
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), chain.masked_fill(~hidden, -100).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
