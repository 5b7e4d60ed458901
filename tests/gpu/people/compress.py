"""DDP of a perceptron with wide layers; its gradients are reduced as they are, or in bf16 by a hook.

torchrun --nproc_per_node 2 compress.py [hook]
"""
import sys

import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from steps import join, leave, profiler, steps

here = join()
width = 8192
net = torch.nn.Sequential(*[layer for _ in range(6) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())]).to(here)
net = DistributedDataParallel(net, device_ids=[here.index])
if "hook" in sys.argv:
    net.register_comm_hook(None, default_hooks.bf16_compress_hook)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
x = torch.randn(512, width, device=here)
with profiler(active=3) as profile:
    for i in steps(40):
        with torch.autocast("cuda", torch.bfloat16):
            loss = net(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        profile.step()
leave()
