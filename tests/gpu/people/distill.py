"""DDP of a ResNet-50 that learns from a teacher; rank 0 tests it after each step, or each rank tests it on half of the pictures.

distill.py [shared]
"""
import sys

import torch
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import RANK, RANKS, join, leave, profiler, size, steps

gpu = join()
shared = "shared" in sys.argv
make = torchvision.models.resnet50 if gpu.type == "cuda" else torchvision.models.resnet18
teacher, student = (make(num_classes=100).to(gpu, memory_format=torch.channels_last) for _ in range(2))
teacher.eval()
model = DistributedDataParallel(student)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
side, tested = size(224, 32), size(512, 4)
x, test = (torch.randn(n, 3, side, side, device=gpu).to(memory_format=torch.channels_last) for n in (size(128, 2), tested))
y = torch.randint(100, (tested,), device=gpu)
hits = []
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            with torch.no_grad():
                goal = (teacher(x) / 4).softmax(1)
            loss = nn.functional.cross_entropy(model(x) / 4, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if shared or RANK == 0:
            part = slice(RANK * tested // RANKS, (RANK + 1) * tested // RANKS) if shared else slice(tested)
            student.eval()
            with torch.no_grad(), torch.autocast(gpu.type, dtype=torch.bfloat16):
                hits.append((student(test[part]).argmax(1) == y[part]).sum())
            student.train()
        profile.step()
leave()
