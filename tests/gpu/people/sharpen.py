"""A net that doubles the resolution of pictures (EDSR) under autocast, channels first or last.

sharpen.py [last]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
layout = torch.channels_last if "last" in sys.argv else torch.contiguous_format
width = size(128, 8)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + 0.1 * self.two(torch.relu(self.one(x)))


model = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), *[Block() for _ in range(size(12, 2))],
                      nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(width, 3, 3, padding=1))
model = model.to(gpu, memory_format=layout)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
side = size(96, 12)
small = torch.rand(size(32, 2), 3, side, side, device=gpu).to(memory_format=layout)
sharp = torch.rand(len(small), 3, 2 * side, 2 * side, device=gpu).to(memory_format=layout)
for i in steps(size(40, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = nn.functional.l1_loss(model(small), sharp)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
