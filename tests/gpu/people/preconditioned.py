"""An optimizer of one's own takes roots of its gradients' products by eigh: in each step, or in each twentieth.

preconditioned.py [seldom]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
width = size(256, 8)
model = nn.Sequential(*[layer for _ in range(size(8, 2)) for layer in (nn.Linear(width, width, bias=False), nn.Tanh())]).to(gpu)
weights = list(model.parameters())
sums = [torch.eye(width, device=gpu) for _ in weights]
roots = [torch.eye(width, device=gpu) for _ in weights]
every = 20 if "seldom" in sys.argv else 1
x = torch.randn(size(4096, 8), width, device=gpu)
for step in steps(size(80, 8)):
    model.zero_grad()
    (model(x) - x).square().mean().backward()
    with torch.no_grad():
        for i, weight in enumerate(weights):
            sums[i].addmm_(weight.grad, weight.grad.T)
            if step % every == 0:
                values, vectors = torch.linalg.eigh(sums[i])
                roots[i] = vectors * values.clamp(min=1e-6).pow(-0.25) @ vectors.T
            weight.sub_(roots[i] @ weight.grad, alpha=1e-3)
