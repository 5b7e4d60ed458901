"""An encoder whose layers are computed again in the backward pass (activation checkpointing), or stored.

checkpoint.py [stored]
"""
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from steps import device, size, steps

stored = "stored" in sys.argv
gpu = device()
width = size(1024, 32)
layers = nn.ModuleList([nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
                        for _ in range(size(8, 2))]).to(gpu)
optimizer = torch.optim.SGD(layers.parameters(), lr=1e-4)
x = torch.randn(size(32, 2), size(512, 8), width, device=gpu)
for i in steps(size(30, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        h = x
        for layer in layers:
            h = layer(h) if stored else checkpoint(layer, h, use_reentrant=False)
        loss = (h - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
