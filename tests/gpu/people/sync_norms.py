"""DDP of ResNet-50 with SyncBatchNorm, or with the batch norms of each rank.

sync_norms.py [own]
"""
import sys

import torch
import torchvision
from torch.nn.parallel import DistributedDataParallel

from steps import join, leave, on_gpu, profiler, size, steps

gpu = join()
net = torchvision.models.resnet50(num_classes=100)
if "own" not in sys.argv and on_gpu():
    net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)
model = DistributedDataParallel(net.to(gpu, memory_format=torch.channels_last))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(size(64, 2), 3, size(224, 32), size(224, 32), device=gpu).to(memory_format=torch.channels_last)
y = torch.randint(100, (len(x),), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
leave()
