"""Sounds become spectrograms on the host before they are copied, or on the device after that.

spectrograms.py [device]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
place = gpu if "device" in sys.argv else torch.device("cpu")
samples, batch = size(160000, 2000), size(16, 2)
sounds, window = torch.randn(batch, samples), torch.hann_window(400).to(place)
model = nn.Sequential(nn.Conv2d(1, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1),
                      nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).to(gpu)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=gpu.type == "cuda")
y = torch.randint(10, (batch,), device=gpu)
for _ in steps(size(60, 8)):
    x = torch.stft(sounds.to(place), 400, 160, window=window, return_complex=True).abs().log1p().to(gpu)
    loss = nn.functional.cross_entropy(model(x[:, None]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
