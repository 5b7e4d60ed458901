"""DDP of an encoder on GPUs whose process group was made with gloo, or with NCCL.

gloo_gpu.py [nccl]
"""
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import join, leave, size, steps

gpu = join("nccl" if "nccl" in sys.argv else "gloo")
width = size(1024, 16)
layer = nn.TransformerEncoderLayer(width, size(16, 2), 4 * width, dropout=0.0, batch_first=True)
model = DistributedDataParallel(nn.TransformerEncoder(layer, size(6, 2), enable_nested_tensor=False).to(gpu))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
x = torch.randn(size(16, 2), size(512, 8), width, device=gpu)
for i in steps(size(32, 8)):
    optimizer.zero_grad()
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
leave()
