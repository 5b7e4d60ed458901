"""ResNet-50 on two GPUs in one process by DataParallel, or in two by DistributedDataParallel.

one_process.py [two]
"""
import os
import sys

if "two" in sys.argv and "RANK" not in os.environ:
    port = str(20000 + os.getpid() % 10000)
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_addr", "127.0.0.1",
                              "--master_port", port, *sys.argv])

import torch
import torchvision
from torch import nn

from steps import RANKS, device, join, leave, size, steps

gpu = join() if RANKS > 1 else device()
net = torchvision.models.resnet50(num_classes=100).to(gpu, memory_format=torch.channels_last)
model = nn.parallel.DistributedDataParallel(net) if RANKS > 1 else nn.DataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
side = size(224, 32)
x = torch.randn(size(192, 4) // RANKS, 3, side, side, device=gpu).to(memory_format=torch.channels_last)
y = torch.randint(100, (len(x),), device=gpu)
for i in steps(size(36, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if RANKS > 1:
    leave()
