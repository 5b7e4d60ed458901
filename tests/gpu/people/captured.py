"""A small net with small batches, each kernel launched by the host, or the step as one CUDA graph.

captured.py [graph]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
width = size(256, 16)
model = nn.Sequential(*[m for _ in range(size(24, 2)) for m in (nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())]).to(gpu)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=gpu.type == "cuda")
x = torch.randn(size(64, 4), width, device=gpu)


def step():
    optimizer.zero_grad(set_to_none=True)
    (model(x) - x).square().mean().backward()
    optimizer.step()


if "graph" in sys.argv and gpu.type == "cuda":
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step()
    step = graph.replay
for i in steps(size(80, 8)):
    step()
