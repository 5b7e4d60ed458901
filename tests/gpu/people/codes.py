"""A decoder learns codes of music. Its attention gets a mask of what came before, or has is_causal set instead.

codes.py [causal]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
causal = "causal" in sys.argv
batch, length, width, heads, words = size(2, 2), size(4096, 16), size(768, 32), size(12, 2), size(2048, 50)
before = torch.ones(length, length, dtype=torch.bool, device=gpu).tril()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        if causal:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=before)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.second(x))


embed, place = nn.Embedding(words, width), nn.Embedding(length, width)
body = nn.Sequential(*[Block() for _ in range(size(6, 2))], nn.LayerNorm(width), nn.Linear(width, words))
model = nn.ModuleList([embed, place, body]).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
codes = torch.randint(words, (batch, length + 1), device=gpu)
places = torch.arange(length, device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            scores = body(embed(codes[:, :-1]) + place(places))
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), codes[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
