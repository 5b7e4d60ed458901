"""A deep perceptron whose first layer keeps what its backward pass needs in the host's memory, or on the device.

saved_on_host.py [device]
"""
import contextlib
import sys

import torch
from torch import nn

from steps import device, on_gpu, profiler, size, steps

gpu = device()
half = torch.bfloat16
width = size(4096, 32)
layers = nn.ModuleList([nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(size(8, 2))]).to(gpu, half)
optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3)
x = torch.randn(size(8192, 8), width, device=gpu, dtype=half)


def place(number):
    if number > 0 or "device" in sys.argv:
        return contextlib.nullcontext()
    return torch.autograd.graph.save_on_cpu(pin_memory=on_gpu())


with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        h = x
        for number, layer in enumerate(layers):
            with place(number):
                h = layer(h)
        loss = (h - x).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
