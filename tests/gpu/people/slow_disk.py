"""DDP of ResNet-34; the pictures of rank 1 are on a slow disk, or those of no rank.

slow_disk.py [fast]
"""
import sys
import time

import torch
import torchvision
from torch.nn.parallel import DistributedDataParallel

from steps import RANK, join, leave, size, steps

gpu = join()
slow = "fast" not in sys.argv and RANK == 1
side = size(224, 32)


class Pictures(torch.utils.data.Dataset):
    def __init__(self):
        self.stored = torch.randint(256, (256, 3, side, side), dtype=torch.uint8)

    def __len__(self):
        return 1 << 16

    def __getitem__(self, index):
        if slow:
            time.sleep(0.0005)
        return self.stored[index % 256], index % 100


model = DistributedDataParallel(torchvision.models.resnet34(num_classes=100).to(gpu))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = Pictures()
sampler = torch.utils.data.distributed.DistributedSampler(data)
batches = iter(torch.utils.data.DataLoader(data, size(32, 2), sampler=sampler))
for i in steps(size(40, 8)):
    x, y = next(batches)
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x.to(gpu) / 255 - 0.5), y.to(gpu))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
leave()
