"""ConvNeXt; the allocator's memory is given back after each step, against "out of memory", or not.

emptied.py [cached]
"""
import sys

import torch
import torchvision

from steps import device, size, steps

gpu = device()
give_back = "cached" not in sys.argv
model = torchvision.models.convnext_tiny(num_classes=100).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(size(32, 2), 3, size(224, 32), size(224, 32), device=gpu)
y = torch.randint(100, (len(x),), device=gpu)
for i in steps(size(36, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del loss
    if give_back:
        torch.cuda.empty_cache()
