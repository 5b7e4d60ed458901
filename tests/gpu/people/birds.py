"""torchvision's ConvNeXt in bf16: pictures and weights are NCHW, or channels_last.

birds.py [last]
"""
import sys

import torch
import torchvision

from steps import device, profiler, size, steps

gpu = device()
layout = torch.channels_last if "last" in sys.argv else torch.contiguous_format
model = torchvision.models.convnext_tiny(num_classes=200).to(gpu, memory_format=layout)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05)
x = torch.randn(size(128, 2), 3, size(224, 32), size(224, 32), device=gpu).to(memory_format=layout)
y = torch.randint(200, (len(x),), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(32, 8)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
