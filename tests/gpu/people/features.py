"""A click model with forty tables of categories, each looked up alone, or as one table with the offsets of forty.

features.py [joined]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

COUNT = 40


class Clicks(nn.Module):
    def __init__(self, rows, width, joined):
        super().__init__()
        self.joined = joined
        self.tables = nn.ModuleList([nn.Embedding(rows * COUNT, width)] if joined else
                                    [nn.Embedding(rows, width) for _ in range(COUNT)])
        self.register_buffer("offsets", torch.arange(COUNT) * rows)
        self.head = nn.Sequential(nn.Linear(COUNT * width, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, x):
        if self.joined:
            return self.head(self.tables[0](x + self.offsets).flatten(1))
        return self.head(torch.cat([table(x[:, i]) for i, table in enumerate(self.tables)], 1))


gpu = device()
rows = size(1000, 10)
model = Clicks(rows, size(16, 4), "joined" in sys.argv).to(gpu)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=gpu.type == "cuda")
x = torch.randint(rows, (size(4096, 8), COUNT), device=gpu)
y = torch.rand(len(x), 1, device=gpu).round()
with profiler() as profile:
    for _ in steps(size(80, 8)):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
