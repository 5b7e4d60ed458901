"""ConvNeXt whose gradients are clipped by hand: each norm is read by .item(), each gradient scaled, or by clip_grad_norm_.

hand_clip.py [library]
"""
import sys

import torch
import torchvision

from steps import device, size, steps

gpu = device()
library = "library" in sys.argv
net = torchvision.models.convnext_small if gpu.type == "cuda" else torchvision.models.convnext_tiny
model = net(num_classes=100).to(gpu, memory_format=torch.channels_last)
parameters = list(model.parameters())
optimizer = torch.optim.AdamW(parameters, lr=1e-4)
x = torch.randn(size(48, 2), 3, size(224, 32), size(224, 32), device=gpu).to(memory_format=torch.channels_last)
y = torch.randint(100, (len(x),), device=gpu)


def clip(most):
    if library:
        torch.nn.utils.clip_grad_norm_(parameters, most)
        return
    square = 0.0
    for p in parameters:
        square += p.grad.norm(2).item() ** 2
    scale = most / (square ** 0.5 + 1e-6)
    if scale < 1:
        for p in parameters:
            p.grad.mul_(scale)


for i in steps(size(36, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    clip(0.1)
    optimizer.step()
