"""Four small towers of a ranking model run one after the other, or on a stream each, in one CUDA graph.

towers.py [beside]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
width = size(512, 8)
towers = [nn.Sequential(*[layer for _ in range(size(12, 2)) for layer in (nn.Linear(width, width), nn.ReLU())]).to(gpu)
          for _ in range(4)]
x = torch.randn(size(64, 2), width, device=gpu)


def one_after_the_other():
    return torch.cat([tower(x) for tower in towers], 1)


def beside():
    now = torch.cuda.current_stream()
    seen = []
    for tower, stream in zip(towers, streams):
        stream.wait_stream(now)
        with torch.cuda.stream(stream):
            seen.append(tower(x))
    for stream in streams:
        now.wait_stream(stream)
    return torch.cat(seen, 1)


step = one_after_the_other
with torch.no_grad():
    if gpu.type == "cuda":
        streams = [torch.cuda.Stream() for _ in towers]
        work = beside if "beside" in sys.argv else one_after_the_other
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        step = graph.replay
    for _ in steps(size(400, 8)):
        step()
