"""Gradients of four micro-batches are accumulated under DDP, with no_sync or without it.

accumulate.py [sync|no_sync]
"""
import contextlib
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import join, leave, size, steps

quiet = "no_sync" in sys.argv
gpu = join()
width = size(1024, 32)
layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
net = nn.TransformerEncoder(layer, size(12, 2), enable_nested_tensor=False).to(gpu)
model = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(4, size(4, 2), size(128, 8), width, device=gpu)
for i in steps(size(24, 8)):
    optimizer.zero_grad()
    for micro in range(4):
        with model.no_sync() if quiet and micro < 3 else contextlib.nullcontext():
            with torch.autocast(gpu.type, dtype=torch.bfloat16):
                loss = (model(x[micro]) - x[micro]).square().mean() / 4
            loss.backward()
    optimizer.step()
leave()
