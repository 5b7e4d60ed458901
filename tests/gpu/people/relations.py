"""A graph network with a weight for each kind of edge (R-GCN). The edges of a kind are picked by a mask in each layer of each step,
or once before the first step.

relations.py [once]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
once = "once" in sys.argv
nodes, edges, kinds, width = size(20_000, 50), size(400_000, 300), size(40, 4), size(128, 16)
source, target = torch.randint(nodes, (2, edges), device=gpu)
kind = torch.randint(kinds, (edges,), device=gpu)
x, y = torch.randn(nodes, width, device=gpu), torch.randint(20, (nodes,), device=gpu)


def pick(number):
    mine = kind == number
    return source[mine], target[mine]


picked = [pick(number) for number in range(kinds)] if once else None


class Relations(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = nn.Linear(width, width)
        self.weight = nn.Parameter(torch.randn(kinds, width, width) * 0.1 / width)

    def forward(self, h):
        out = self.own(h)
        for number, weight in enumerate(self.weight.unbind()):
            begin, end = picked[number] if once else pick(number)
            out.index_add_(0, end, h.index_select(0, begin) @ weight)
        return out.relu()


model = nn.Sequential(*[Relations() for _ in range(2)], nn.Linear(width, 20)).to(gpu)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
