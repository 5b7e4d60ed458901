"""Two stages, eight micro-batches: all forward, then all backward, with send and recv."""
import torch
import torch.distributed as dist
from torch import nn

from steps import RANK, join, leave, size, steps

gpu = join()
width, rows, micros = size(2048, 32), size(2048, 8), size(8, 2)
stage = nn.Sequential(*[m for _ in range(size(8, 2)) for m in (nn.Linear(width, width), nn.ReLU())]).to(gpu)
optimizer = torch.optim.SGD(stage.parameters(), lr=1e-4)
data = torch.randn(micros, rows, width, device=gpu)
for i in steps(size(30, 8)):
    inputs, outputs = [], []
    for micro in range(micros):
        x = data[micro]
        if RANK == 1:
            x = torch.empty(rows, width, device=gpu)
            dist.recv(x, 0)
            x.requires_grad_()
        out = stage(x)
        if RANK == 0:
            dist.send(out.detach(), 1)
        inputs.append(x)
        outputs.append(out)
    for micro in range(micros):
        if RANK == 1:
            (outputs[micro] - data[micro]).square().mean().backward()
            dist.send(inputs[micro].grad, 0)
        else:
            gradient = torch.empty(rows, width, device=gpu)
            dist.recv(gradient, 1)
            outputs[micro].backward(gradient)
    optimizer.step()
    optimizer.zero_grad()
leave()
