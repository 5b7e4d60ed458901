"""A depth net whose loss is computed on the host, from a copy of its pictures, or on the device.

losses_on_host.py [device]
"""
import sys

import torch
import torchvision

from steps import device, size, steps

gpu = device()
edge = size(256, 32)
model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(num_classes=1, weights_backbone=None).to(gpu)
model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=gpu.type == "cuda")
x = torch.randn(size(32, 2), 3, edge, edge, device=gpu).to(memory_format=torch.channels_last)
place = gpu if "device" in sys.argv else torch.device("cpu")
depth = torch.rand(len(x), 1, edge, edge).to(place)
for _ in steps(size(60, 8)):
    guess = model(x)["out"].to(place)
    error = (guess - depth).abs()
    loss = torch.where(error < 0.1, error.square() * 5, error - 0.05).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
