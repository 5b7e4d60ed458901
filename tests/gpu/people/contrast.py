"""Two ranks compare pictures and texts (CLIP): each rank gathers all features of the other and computes the whole matrix, in 16
pieces, or at once.

contrast.py [once]
"""
import sys

import torch
import torch.distributed as dist
import torchvision
from torch.distributed.nn.functional import all_gather
from torch.nn.parallel import DistributedDataParallel

from steps import RANK, join, leave, profiler, size, steps

gpu = join()
width, pieces = 512, 1 if "once" in sys.argv else size(16, 2)
model = DistributedDataParallel(torchvision.models.vit_b_16(num_classes=width).to(gpu))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x, texts = torch.randn(size(64, 2), 3, 224, 224, device=gpu), torch.randn(size(64, 2), width, device=gpu)
with profiler(active=3) as profile:
    for i in steps(size(32, 4)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            seen = model(x)
        seen = torch.nn.functional.normalize(seen.float())
        parts = [all_gather(part) for part in seen.chunk(pieces)]
        whole = torch.cat([parts[n][r] for r in range(dist.get_world_size()) for n in range(pieces)])
        score = torch.nn.functional.normalize(texts) @ whole.T * 10
        goal = torch.arange(len(texts), device=gpu) + RANK * len(texts)
        loss = torch.nn.functional.cross_entropy(score, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
leave()
