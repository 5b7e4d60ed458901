"""Adam's states are on the host: gradients are copied there, Adam runs there, and weights are copied back. Or all is on the GPU.

host_adam.py [device]
"""
import sys

import torch
import torchvision

from steps import device, size, steps

gpu = device()
model = torchvision.models.resnet50().to(gpu)
weights = list(model.parameters())
near = "device" in sys.argv or gpu.type == "cpu"
mirror = weights if near else [torch.nn.Parameter(p.detach().cpu()) for p in weights]
optimizer = torch.optim.Adam(mirror, lr=1e-4)
x = torch.randn(size(64, 2), 3, size(224, 32), size(224, 32), device=gpu)
y = torch.randint(1000, (len(x),), device=gpu)
for i in steps(size(28, 6)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    if not near:
        for there, here in zip(mirror, weights):
            there.grad = here.grad.cpu()
    optimizer.step()
    if not near:
        with torch.no_grad():
            for there, here in zip(mirror, weights):
                here.copy_(there)
