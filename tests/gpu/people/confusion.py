"""A classifier counts its confusions: each step by a loop over the classes on the host's side, or on the device.

confusion.py [device]
"""
import sys

import torch
import torchvision

from steps import device, size, steps

gpu = device()
classes = 50
model = torchvision.models.mobilenet_v3_small(num_classes=classes).to(gpu)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
x = torch.randn(size(256, 2), 3, size(160, 32), size(160, 32), device=gpu)
y = torch.randint(classes, (len(x),), device=gpu)
counts = [[0, 0, 0] for _ in range(classes)]
table = torch.zeros(classes * classes, dtype=torch.long, device=gpu)
for _ in steps(size(60, 8)):
    output = model(x)
    loss = torch.nn.functional.cross_entropy(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    guess = output.argmax(1)
    if "device" in sys.argv:
        table.scatter_add_(0, y * classes + guess, torch.ones_like(y))
        continue
    for c in range(classes):
        counts[c][0] += ((guess == c) & (y == c)).sum().item()
        counts[c][1] += ((guess == c) & (y != c)).sum().item()
        counts[c][2] += ((guess != c) & (y == c)).sum().item()
