"""A U-Net of three dimensions marks organs in scans, in fp32 as it was written, or under autocast to bf16.

volumes.py [bf16]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()


def block(narrow, wide):
    return nn.Sequential(*(layer for one in (narrow, wide) for layer in
                           (nn.Conv3d(one, wide, 3, padding=1), nn.InstanceNorm3d(wide), nn.LeakyReLU())))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        widths = [width * 2 ** i for i in range(4)]
        self.down = nn.ModuleList(block(a, b) for a, b in zip([1, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(block(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv3d(width, 14, 1)

    def forward(self, x):
        stored = []
        for i, layer in enumerate(self.down):
            x = layer(x if i == 0 else nn.functional.max_pool3d(x, 2))
            stored.append(x)
        for up, join, old in zip(self.up[::-1], self.join[::-1], stored[-2::-1]):
            x = join(torch.cat([up(x), old], 1))
        return self.head(x)


model = Net(size(32, 2)).to(gpu)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.99, nesterov=True)
x = torch.randn(2, 1, *[size(96, 16)] * 3, device=gpu)
y = torch.randint(14, (2, *[size(96, 16)] * 3), device=gpu)
with profiler(active=3) as profile:
    for i in steps(size(30, 8)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16, enabled="bf16" in sys.argv):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
