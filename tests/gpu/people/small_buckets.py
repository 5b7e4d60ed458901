"""DDP of an encoder with buckets of one MiB, or of 25 as usual.

small_buckets.py [usual]
"""
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import join, leave, size, steps

gpu = join()
width = size(512, 16)
layer = nn.TransformerEncoderLayer(width, 8, 2 * width, dropout=0.0, batch_first=True)
net = nn.TransformerEncoder(layer, size(24, 2), enable_nested_tensor=False).to(gpu)
model = DistributedDataParallel(net, bucket_cap_mb=25 if "usual" in sys.argv else 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
x = torch.randn(size(16, 2), size(256, 8), width, device=gpu)
for i in steps(size(48, 8)):
    optimizer.zero_grad()
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
leave()
