"""A compiled net whose layers ask the host whether their gate is open, or multiply by the gate.

branches.py [multiply]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.work = nn.Linear(width, 1), nn.Linear(width, width)

    def forward(self, x):
        share = self.gate(x).sigmoid().mean()
        if "multiply" in sys.argv:
            return x + torch.relu(self.work(x)) * share * (share > 0)
        return x + torch.relu(self.work(x)) * share if share.item() > 0 else x


gpu = device()
width = size(1024, 16)
model = nn.Sequential(*[Gated(width) for _ in range(size(12, 2))]).to(gpu)
if gpu.type == "cuda":
    model = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(size(2048, 4), width, device=gpu)
for _ in steps(size(80, 8)):
    loss = (model(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
