"""A graph network for molecules adds a learned vector for the bin of an edge's length. Vectors are picked by table[bin], or by
nn.functional.embedding.

bins.py [embedding]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
torch.set_float32_matmul_precision("high")
atoms, edges, bins, width = size(20_000, 50), size(400_000, 300), size(128, 8), size(128, 16)
begin, end = torch.randint(atoms, (2, edges), device=gpu)
near = (torch.rand(edges, device=gpu) * bins).long().clamp(max=bins - 1)
x, energy = torch.randn(atoms, width, device=gpu), torch.randn(atoms, device=gpu)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(bins, width) * 0.1)
        self.message, self.update = nn.Linear(2 * width, width), nn.Linear(2 * width, width)

    def forward(self, h):
        length = nn.functional.embedding(near, self.table) if "embedding" in sys.argv else self.table[near]
        ends = torch.cat([h.index_select(0, begin), h.index_select(0, end)], 1)
        heard = torch.zeros_like(h).index_add(0, end, nn.functional.silu(self.message(ends) + length))
        return h + nn.functional.silu(self.update(torch.cat([h, heard], 1)))


model = nn.Sequential(*[Layer() for _ in range(size(4, 2))], nn.Linear(width, 1)).to(gpu)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        loss = (model(x)[:, 0] - energy).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
