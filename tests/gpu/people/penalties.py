"""Weights stay small by the sum of their squares, which is part of the loss, or by the optimizer's weight decay.

penalties.py [decay]
"""
import sys

import torch
import torchvision

from steps import device, profiler, size, steps

gpu = device()
decay = "decay" in sys.argv
model = torchvision.models.efficientnet_b0().to(gpu).to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, weight_decay=2e-4 if decay else 0)
x = torch.randn(size(64, 2), 3, size(128, 32), size(128, 32), device=gpu).to(memory_format=torch.channels_last)
y = torch.randint(1000, (len(x),), device=gpu)
with profiler() as profile:
    for _ in steps(size(60, 8)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        if not decay:
            loss = loss + 1e-4 * sum(p.square().sum() for p in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
