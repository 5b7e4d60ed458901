"""A wide net in fp32, whose products run in fp32 or in TF32.

products.py [tf32]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

torch.set_float32_matmul_precision("high" if "tf32" in sys.argv else "highest")
gpu = device()
width = size(4096, 32)
model = nn.Sequential(*[m for _ in range(size(6, 2)) for m in (nn.Linear(width, width), nn.GELU())]).to(gpu)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(size(4096, 8), width, device=gpu)
for i in steps(size(24, 8)):
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
