"""Features of prices: means and spreads of many windows, a window at a time, or all by unfold.

prices.py [unfolded]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
series, length, window = size(512, 8), size(128, 16), size(16, 4)
model = nn.Sequential(nn.Linear(2 * (length - window + 1), 512), nn.ReLU(), nn.Linear(512, 1)).to(gpu)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=gpu.type == "cuda")
prices = torch.randn(series, length, device=gpu).cumsum(1)
y = torch.randn(series, 1, device=gpu)
with profiler() as profile:
    for _ in steps(size(60, 8)):
        if "unfolded" in sys.argv:
            windows = prices.unfold(1, window, 1)
            x = torch.cat([windows.mean(2), windows.std(2)], 1)
        else:
            parts = [prices[:, i:i + window] for i in range(length - window + 1)]
            x = torch.stack([part.mean(1) for part in parts] + [part.std(1) for part in parts], 1)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
