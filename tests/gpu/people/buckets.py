"""DDP of a small net with buckets of 1 MB, more of them than the step can hide."""
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import join, leave, size, steps

gpu = join()
width = size(1024, 32)
net = nn.Sequential(*[m for _ in range(size(24, 2)) for m in (nn.Linear(width, width), nn.ReLU())]).to(gpu)
model = DistributedDataParallel(net, bucket_cap_mb=1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
x = torch.randn(size(128, 8), width, device=gpu)
for i in steps(size(60, 8)):
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
leave()
