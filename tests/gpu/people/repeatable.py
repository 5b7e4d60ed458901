"""Messages go along the edges of a graph and are added at its nodes, by deterministic algorithms, or by atomic additions.

repeatable.py [atomic]
"""
import os
import sys

import torch
from torch import nn

from steps import device, size, steps

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
gpu = device()
torch.use_deterministic_algorithms("atomic" not in sys.argv)
nodes, edges, width = size(50_000, 50), size(600_000, 200), size(128, 16)
source, target = torch.randint(nodes, (2, edges), device=gpu)
x, y = torch.randn(nodes, width, device=gpu), torch.randint(40, (nodes,), device=gpu)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())
        self.update = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())

    def forward(self, h):
        message = self.message(torch.cat([h.index_select(0, source), h.index_select(0, target)], 1))
        heard = torch.zeros_like(h).index_add(0, target, message)
        return h + self.update(torch.cat([h, heard], 1))


model = nn.Sequential(*[Layer() for _ in range(size(4, 2))], nn.Linear(width, 40)).to(gpu)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for i in steps(size(36, 8)):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
