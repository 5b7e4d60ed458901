"""A pipeline with a stage on each rank: all micro-batches forward, then all backward, with send and recv.

pipeline.py [MICRO_BATCHES] [tf32]
"""
import sys

import torch
import torch.distributed as dist
from torch import nn

from steps import RANK, RANKS, join, leave, profiler, size, steps

gpu = join()
micros = int(sys.argv[1]) if len(sys.argv) > 1 else 8
torch.backends.cuda.matmul.allow_tf32 = "tf32" in sys.argv
width, rows, last = size(2048, 32), size(16384, 64) // micros, RANK == RANKS - 1
stage = nn.Sequential(*[m for _ in range(size(16, 4) // RANKS) for m in (nn.Linear(width, width), nn.ReLU())]).to(gpu)
optimizer = torch.optim.SGD(stage.parameters(), lr=1e-4)
data = torch.randn(micros, rows, width, device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(24, 16)):
        inputs, outputs = [], []
        for micro in range(micros):
            x = data[micro]
            if RANK > 0:
                x = torch.empty(rows, width, device=gpu)
                dist.recv(x, RANK - 1)
                x.requires_grad_()
            out = stage(x)
            if not last:
                dist.send(out.detach(), RANK + 1)
            inputs.append(x)
            outputs.append(out)
        for micro in range(micros):
            if last:
                (outputs[micro] - data[micro]).square().mean().backward()
            else:
                gradient = torch.empty(rows, width, device=gpu)
                dist.recv(gradient, RANK + 1)
                outputs[micro].backward(gradient)
            if RANK > 0:
                dist.send(inputs[micro].grad, RANK - 1)
        optimizer.step()
        optimizer.zero_grad()
        profile.step()
leave()
