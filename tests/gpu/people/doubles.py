"""A perceptron learns from columns that numpy made: in the doubles that numpy has, or in floats.

doubles.py [floats]
"""
import sys

import numpy as np
import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
rows, columns, width = size(4096, 16), size(512, 8), size(2048, 16)
rng = np.random.default_rng(0)
x, y = torch.from_numpy(rng.normal(size=(rows, columns))).to(gpu), torch.from_numpy(rng.normal(size=(rows, 1))).to(gpu)
model = nn.Sequential(nn.Linear(columns, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)).to(gpu)
if "floats" in sys.argv:
    x, y = x.float(), y.float()
else:
    model.double()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
with profiler() as profile:
    for _ in steps(size(40, 8)):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
