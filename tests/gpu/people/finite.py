"""Gradients are clipped, and a step with infinite ones ends the program: the host asks for that, or does not.

finite.py [trusted]
"""
import sys

import torch
import torchvision

from steps import device, size, steps

gpu = device()
model = torchvision.models.regnet_y_400mf().to(gpu).to(memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
x = torch.randn(size(32, 2), 3, size(224, 32), size(224, 32), device=gpu).to(memory_format=torch.channels_last)
y = torch.randint(1000, (len(x),), device=gpu)
for _ in steps(size(60, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    if "trusted" in sys.argv:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    else:
        if not torch.isfinite(loss):
            raise SystemExit("the loss is infinite")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    optimizer.step()
