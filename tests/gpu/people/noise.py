"""A net for diffusion learns pictures. Its noise is drawn on the host and copied in each step, or drawn on the device.

noise.py [device]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
on_device = "device" in sys.argv
width, batch, edge = size(128, 4), size(256, 2), size(64, 8)
model = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1), nn.SiLU(),
                      nn.Conv2d(width, 3, 3, padding=1)).to(gpu, torch.bfloat16, memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
pictures = torch.rand(batch, 3, edge, edge, device=gpu)
for i in steps(size(40, 8)):
    where = gpu if on_device else "cpu"
    noise = torch.randn(batch, 3, edge, edge, device=where).to(gpu)
    time = torch.rand(batch, 1, 1, 1, device=where).to(gpu)
    mixed = ((1 - time) * pictures + time * noise).to(torch.bfloat16, memory_format=torch.channels_last)
    loss = (model(mixed).float() - (noise - pictures)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
