"""All data are on the device. Each step picks its samples by numbers that were drawn on the host, or on the device.

samples.py [device]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
columns, table, batch = size(256, 16), size(1_000_000, 100), size(16384, 8)
x, y = torch.randn(table, columns, device=gpu), torch.randint(10, (table,), device=gpu)
model = nn.Sequential(nn.Linear(columns, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).to(gpu)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for i in steps(size(120, 8)):
    picked = torch.randperm(table, device=gpu if "device" in sys.argv else "cpu")[:batch]
    loss = nn.functional.cross_entropy(model(x[picked]), y[picked])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
