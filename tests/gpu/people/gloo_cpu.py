"""DDP over gloo on the processor alone: no GPU at all."""
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import RANKS, leave, steps

torch.set_num_threads(4)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(),
                                              nn.Linear(2048, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(256, 512), torch.randint(10, (256,))
for i in steps(60):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
print(mean.item() / RANKS)
leave()
