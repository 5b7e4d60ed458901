"""States of the optimizer are divided by hand (ZeRO): each rank updates its half of the parameters and broadcasts each of them,
or all as one tensor.

broadcasts.py [flat]
"""
import sys

import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel

from steps import RANK, RANKS, join, leave, size, steps

gpu = join()
net = (torchvision.models.resnet101() if gpu.type == "cuda" else torchvision.models.resnet18()).to(gpu)
parameters = list(net.parameters())
shares = [parameters[len(parameters) * rank // RANKS:len(parameters) * (rank + 1) // RANKS] for rank in range(RANKS)]
flats = [torch.cat([p.detach().flatten() for p in share]) for share in shares]
for share, flat in zip(shares, flats):
    for p, part in zip(share, flat.split([p.numel() for p in share])):
        p.data = part.view_as(p)
model = DistributedDataParallel(net)
optimizer = torch.optim.Adam(shares[RANK], lr=1e-4)
x = torch.randn(size(32, 2), 3, size(192, 32), size(192, 32), device=gpu)
y = torch.randint(1000, (len(x),), device=gpu)
for i in steps(size(40, 8)):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    optimizer.step()
    for rank in range(RANKS):
        for part in [flats[rank]] if "flat" in sys.argv else shares[rank]:
            dist.broadcast(part.data, rank)
leave()
