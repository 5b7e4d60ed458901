"""A net of convolutions in fp32 forecasts maps of rain. TF32 is off for cuDNN since somebody looked for an error, or on as usual.

rain.py [tf32]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
torch.backends.cudnn.allow_tf32 = "tf32" in sys.argv
batch, side, width, past = size(12, 2), size(128, 16), size(128, 8), 6


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return torch.relu(x + self.body(x))


model = nn.Sequential(nn.Conv2d(past, width, 5, padding=2), *[Residual() for _ in range(size(6, 2))],
                      nn.Conv2d(width, 1, 1)).to(gpu)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
maps = torch.rand(batch, past + 1, side, side, device=gpu)
for i in steps(size(40, 8)):
    loss = (model(maps[:, :past]) - maps[:, past:]).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
