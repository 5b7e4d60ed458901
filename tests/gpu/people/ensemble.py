"""An ensemble of critics, each with its own weights: one after the other, or all in batched products.

ensemble.py [batched]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
batched = "batched" in sys.argv
members, batch, width, depth = size(64, 3), size(2048, 8), size(512, 16), 4
weights = [torch.randn(members, width, width, device=gpu).mul_(width ** -0.5).bfloat16().requires_grad_() for _ in range(depth)]
optimizer = torch.optim.SGD(weights, lr=1e-3)
x = torch.randn(members, batch, width, device=gpu).bfloat16()


def values():
    if batched:
        h = x
        for weight in weights:
            h = nn.functional.silu(torch.bmm(h, weight))
        return h
    out = []
    for h, *own in zip(x.unbind(), *(weight.unbind() for weight in weights)):
        for weight in own:
            h = nn.functional.silu(h @ weight)
        out.append(h)
    return torch.stack(out)


with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(50, 16)):
        loss = (values() - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
