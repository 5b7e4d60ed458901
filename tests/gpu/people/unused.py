"""DDP of ResNet-101 that searches for unused parameters and has buckets of 1 MB, as an old script set them, or by default.

unused.py [default]
"""
import sys

import torch
import torchvision
from torch.nn.parallel import DistributedDataParallel

from steps import join, leave, profiler, size, steps

gpu = join()
options = {} if "default" in sys.argv else {"find_unused_parameters": True, "bucket_cap_mb": 1}
net = (torchvision.models.resnet101 if gpu.type == "cuda" else torchvision.models.resnet18)(num_classes=100)
model = DistributedDataParallel(net.to(gpu, memory_format=torch.channels_last), **options)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(size(64, 2), 3, size(224, 32), size(224, 32), device=gpu).to(memory_format=torch.channels_last)
y = torch.randint(100, (len(x),), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
leave()
