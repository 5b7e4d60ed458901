"""DDP of an encoder; the mean loss of all ranks is read, and ranks meet at a barrier: each micro-batch, or each fiftieth step.

each_loss.py [seldom]
"""
import contextlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import RANKS, join, leave, size, steps

gpu = join()
width = size(1024, 32)
layer = nn.TransformerEncoderLayer(width, size(16, 2), 4 * width, dropout=0.0, batch_first=True, norm_first=True)
model = DistributedDataParallel(nn.TransformerEncoder(layer, size(8, 2), enable_nested_tensor=False).to(gpu))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(4, size(6, 2), size(512, 8), width, device=gpu)
total = 0.0
for i in steps(size(36, 8)):
    optimizer.zero_grad()
    for micro in range(4):
        with model.no_sync() if micro < 3 else contextlib.nullcontext():
            with torch.autocast(gpu.type, dtype=torch.bfloat16):
                loss = (model(x[micro]) - x[micro]).square().mean() / 4
            loss.backward()
        if "seldom" not in sys.argv or i % 50 == 0:
            shown = loss.detach().clone()
            dist.all_reduce(shown)
            total += shown.item() / RANKS
            dist.barrier()
    optimizer.step()
print(total)
leave()
