"""DistributedDataParallel of ResNet-50 with a loader of pictures; the loss is averaged over ranks each step.

ddp.py [nccl|gloo]
"""
import sys

import torch
import torchvision
from torch.nn.parallel import DistributedDataParallel

from steps import RANKS, join, leave, profiler, size, steps

backend = (sys.argv + ["nccl"])[1]
gpu = join(backend)


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 16

    def __getitem__(self, index):
        picture = torch.full((3, 256, 256), index % 255, dtype=torch.uint8)
        left, top = index % 32, index // 7 % 32
        return picture[:, top:top + size(224, 32), left:left + size(224, 32)].float() / 255 - 0.5, index % 1000


model = DistributedDataParallel(torchvision.models.resnet50().to(gpu), device_ids=[gpu] if gpu.type == "cuda" else None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
data = Pictures()
sampler = torch.utils.data.distributed.DistributedSampler(data)
loader = torch.utils.data.DataLoader(data, size(32, 2), sampler=sampler, num_workers=size(4, 1), pin_memory=gpu.type == "cuda")
batches = iter(loader)
count = size(20 if backend == "gloo" else 40, 8)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(count):
        x, y = (part.to(gpu, non_blocking=True) for part in next(batches))
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown = loss.detach().clone()
        torch.distributed.all_reduce(shown)
        if i % 10 == 0:
            print(i, shown.item() / RANKS)
        profile.step()
leave()
