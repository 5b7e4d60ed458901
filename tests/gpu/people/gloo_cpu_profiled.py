"""All-reduces of gloo on the processor under torch.profiler, which records no device."""
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import leave, profiler, steps

torch.set_num_threads(4)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(256, 512), torch.randint(10, (256,))
with profiler(active=5, record_shapes=True) as profile:
    for i in steps(40):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
leave()
