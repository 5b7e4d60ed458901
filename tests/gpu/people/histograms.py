"""A ViT learns. Histograms of its gradients are made by numpy after each step, or after each tenth.

histograms.py [seldom]
"""
import sys

import numpy as np
import torch
import torchvision

from steps import device, size, steps

gpu = device()
every = 10 if "seldom" in sys.argv else 1
model = torchvision.models.VisionTransformer(size(224, 32), 16, size(6, 1), size(6, 2), size(384, 16), size(1536, 32)).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(size(64, 2), 3, size(224, 32), size(224, 32), device=gpu)
y = torch.randint(1000, (len(x),), device=gpu)
journal = []
for i in steps(size(30, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    if i % every == 0:
        journal.append([np.histogram(p.grad.cpu().numpy(), bins=64) for p in model.parameters()])
    optimizer.step()
