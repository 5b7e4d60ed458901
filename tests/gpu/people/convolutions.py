"""Cells are segmented by a net of many kinds of convolutions; cuDNN takes its first guess, or tries what is fastest.

convolutions.py [tried]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
torch.backends.cudnn.benchmark = "tried" in sys.argv
width = size(48, 4)


def part(inputs, outputs, **options):
    return nn.Sequential(nn.Conv2d(inputs, outputs, padding="same", **options), nn.BatchNorm2d(outputs), nn.ReLU())


model = nn.Sequential(part(3, width, kernel_size=7), part(width, width, kernel_size=5, dilation=2),
                      part(width, 2 * width, kernel_size=5, groups=4), part(2 * width, 2 * width, kernel_size=3, dilation=4),
                      part(2 * width, width, kernel_size=3), part(width, 3, kernel_size=1)).to(gpu)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
x = torch.randn(size(8, 1), 3, size(256, 32), size(256, 32), device=gpu)
with profiler() as profile:
    for _ in steps(size(40, 8)):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
