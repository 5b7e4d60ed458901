"""Pictures are on the device. torchvision.transforms.v2 augments them one after the other, or a batch at once.

cropped.py [batch]
"""
import sys

import torch
import torchvision
from torchvision.transforms import v2

from steps import device, size, steps

gpu = device()
pictures = torch.randint(256, (size(96, 4), 3, size(256, 48), size(256, 48)), dtype=torch.uint8, device=gpu)
edge = size(224, 32)
change = v2.Compose([v2.RandomResizedCrop(edge, antialias=True), v2.RandomHorizontalFlip(), v2.ColorJitter(0.3, 0.3, 0.3),
                     v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)])
model = torchvision.models.resnet18(num_classes=100).to(gpu, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
y = torch.randint(100, (len(pictures),), device=gpu)
for i in steps(size(30, 8)):
    x = change(pictures) if "batch" in sys.argv else torch.stack([change(one) for one in pictures])
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x.contiguous(memory_format=torch.channels_last)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
