"""PyTorch Geometric: papers are sorted by the words of papers that they cite (SGConv). Words go along the citations in each step,
or the layer keeps what arrived in the first.

citations.py [cached]
"""
import sys

import torch
from torch import nn
from torch_geometric.nn import SGConv

from steps import device, size, steps

gpu = device()
torch.set_float32_matmul_precision("high")
papers, links, words, width, topics = size(120_000, 60), size(2_000_000, 300), size(128, 16), size(1024, 32), size(40, 4)
edges = torch.randint(papers, (2, links), device=gpu)
x, y = torch.randn(papers, words, device=gpu), torch.randint(topics, (papers,), device=gpu)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.spread = SGConv(words, width, K=3, cached="cached" in sys.argv)
        layers = [m for _ in range(2) for m in (nn.Linear(width, width), nn.ReLU())]
        self.sort = nn.Sequential(nn.ReLU(), *layers, nn.Linear(width, topics))

    def forward(self, x, edges):
        return self.sort(self.spread(x, edges))


model = Net().to(gpu)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for i in steps(size(40, 8)):
    loss = nn.functional.cross_entropy(model(x, edges), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
