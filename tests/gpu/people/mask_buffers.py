"""DDP of a GPT whose blocks each keep a mask for the longest text as a buffer. DDP broadcasts the buffers before each forward pass,
as it does by default, or leaves them to the ranks.

mask_buffers.py [own]
"""
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import join, leave, profiler, size, steps

gpu = join()
width, heads, words, length, longest = size(768, 32), size(12, 2), size(8192, 50), size(1024, 16), size(6144, 32)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(longest, longest, device=gpu).tril())
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.second(x))


net = nn.Sequential(nn.Embedding(words, width), *[Block() for _ in range(size(12, 2))], nn.Linear(width, words)).to(gpu)
model = DistributedDataParallel(net, broadcast_buffers="own" not in sys.argv)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
text = torch.randint(words, (size(16, 2), length + 1), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
leave()
