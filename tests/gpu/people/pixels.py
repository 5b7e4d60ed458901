"""Pictures are made floats of [0, 1] on the host and copied so, or copied as bytes and made floats on the device.

pixels.py [bytes]
"""
import sys

import torch
import torchvision

from steps import device, size, steps

gpu = device()
edge, batch = size(224, 32), size(128, 2)
model = torchvision.models.resnet18().to(gpu).to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
pictures = torch.randint(256, (size(512, 8), 3, edge, edge), dtype=torch.uint8)
y = torch.randint(1000, (batch,), device=gpu)
for i in steps(size(60, 8)):
    first = i * batch % len(pictures)
    x = pictures[first:first + batch]
    x = x.to(gpu).float() / 255 if "bytes" in sys.argv else (x.float() / 255).to(gpu)
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x.contiguous(memory_format=torch.channels_last)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
