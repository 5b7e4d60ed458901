"""DDP; rank 0 writes a checkpoint each sixth step while the other ranks wait at the next all-reduce."""
import os
import tempfile

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import RANK, join, leave, size, steps

gpu = join()
width = size(2048, 32)
net = nn.Sequential(*[m for _ in range(size(10, 2)) for m in (nn.Linear(width, width), nn.GELU())]).to(gpu)
model = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(size(4096, 8), width, device=gpu)
with tempfile.TemporaryDirectory() as folder:
    for i in steps(size(36, 8)):
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if RANK == 0 and i % 6 == 5:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, os.path.join(folder, "last.pt"))
leave()
