"""A convolutional autoencoder with PyTorch's caching allocator switched off, as for a memory checker, or on.

uncached.py [cached]
"""
import os
import sys

import torch
from torch import nn

from steps import device, size, steps

if "cached" not in sys.argv:
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
gpu = device()
widths = [3, 64, 128, 256]
down = [m for a, b in zip(widths, widths[1:]) for m in (nn.Conv2d(a, b, 4, 2, 1), nn.ReLU())]
up = [m for a, b in zip(widths[:0:-1], widths[-2::-1]) for m in (nn.ConvTranspose2d(a, b, 4, 2, 1), nn.ReLU())]
model = nn.Sequential(*down, *up[:-1]).to(gpu)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.rand(size(384, 2), 3, size(96, 16), size(96, 16), device=gpu)
for i in steps(size(36, 8)):
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
