"""ResNet-50 in bf16 on batches that are on the device, channels last or first.

resnet.py [first]
"""
import sys

import torch
import torchvision

from steps import device, size, steps

gpu = device()
layout = torch.contiguous_format if "first" in sys.argv else torch.channels_last
model = torchvision.models.resnet50().to(gpu, memory_format=layout)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x = torch.randn(size(64, 2), 3, size(224, 32), size(224, 32), device=gpu).to(memory_format=layout)
y = torch.randint(1000, (len(x),), device=gpu)
for i in steps(size(60, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
