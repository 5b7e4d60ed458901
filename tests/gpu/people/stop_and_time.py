"""DDP whose loop waits for the device and for the other ranks around each phase to time it, or does not.

stop_and_time.py [free]
"""
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import join, leave, size, steps

gpu = join()
width = size(1024, 16)
layer = nn.TransformerEncoderLayer(width, size(16, 2), 4 * width, dropout=0.0, batch_first=True)
model = DistributedDataParallel(nn.TransformerEncoder(layer, size(8, 2), enable_nested_tensor=False).to(gpu))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
x = torch.randn(size(8, 2), size(512, 8), width, device=gpu)
seconds = {}


def phase(name, begin):
    if "free" not in sys.argv:
        if gpu.type == "cuda":
            torch.cuda.synchronize()
        dist.barrier()
    seconds[name] = seconds.get(name, 0) + time.perf_counter() - begin
    return time.perf_counter()


for i in steps(size(40, 8)):
    now = time.perf_counter()
    optimizer.zero_grad()
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = (model(x) - x).square().mean()
    now = phase("forward", now)
    loss.backward()
    now = phase("backward", now)
    optimizer.step()
    phase("optimizer", now)
print(seconds)
leave()
