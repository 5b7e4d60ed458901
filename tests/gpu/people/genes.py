"""An autoencoder of the activity of 19,997 genes, or of as many columns as make rows of whole 16 bytes.

genes.py [padded]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
genes, cells, width = size(19997, 101), size(8192, 8), size(2048, 32)
columns = (genes + 7) // 8 * 8 if "padded" in sys.argv else genes
x = torch.zeros(cells, columns, device=gpu)
x[:, :genes] = torch.rand(cells, genes, device=gpu)
model = nn.Sequential(nn.Linear(columns, width), nn.GELU(), nn.Linear(width, 256), nn.Linear(256, width), nn.GELU(),
                      nn.Linear(width, columns)).to(gpu, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = x.bfloat16()
for i in steps(size(50, 8)):
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
